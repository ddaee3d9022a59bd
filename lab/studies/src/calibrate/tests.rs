//! Closed forms of each pattern in the simulator, in the profile's constants; a complete run on real memory.

use super::simulated::timed;
use super::task::Task;
use super::*;
use sim::Prefetchers;
use sim::Profile;
use sim::memory::{Address, LINE};
use sim::micro::{Left, Scatter, chain, knee};
use sim::program::Program;

const BYTES: u64 = 1 << 26;
const ALL: Scatter = Scatter { base: 0, lines: BYTES / LINE };

/// Returns a task's nanoseconds on the study's processor without prefetchers.
fn took(task: Task) -> f64 {
    let program = Program::new(BYTES).prefetchers(Prefetchers { stream: false, adjacent: false });
    timed(program, &Profile::study(), task).expect("no thread waits for ever")
}

fn cycles(nanoseconds: f64) -> f64 {
    nanoseconds * Profile::study().frequency.value
}

fn near(found: f64, wanted: f64, share: f64) {
    assert!((found - wanted).abs() <= share * wanted, "{found} is not about {wanted}");
}

fn chase(bytes: u64, warm: u64) -> f64 {
    took(Task::Chase { bytes, seed: 3, warm, steps: 4000 })
}

#[test]
fn a_chain_visits_each_line_once() {
    let links = chain(128, 100, 1);
    let mut places: Vec<_> = links.iter().map(|(at, _)| *at).collect();
    places.sort_unstable();
    assert_eq!(places, (0..100).map(|n| 128 + n * LINE).collect::<Vec<Address>>());
    let mut at = links[0].0;
    for _ in 0..100 {
        at = links.iter().find(|(from, _)| *from == at).expect("a link").1;
    }
    assert_eq!(at, links[0].0, "one ring");
}

#[test]
fn scattered_places_come_once_a_round() {
    let scatter = Scatter { base: 0, lines: 1024 };
    let places: std::collections::BTreeSet<_> = (0..1024).map(|n| scatter.place(n)).collect();
    assert_eq!(places.len(), 1024);
}

#[test]
fn a_chase_takes_the_latency_of_the_level_that_it_fits_in() {
    let profile = Profile::study();
    near(cycles(chase(16 << 10, 1000)), profile.l1.latency.value, 0.01);
    near(cycles(chase(512 << 10, 20_000)), profile.l2.latency.value, 0.07);
    near(chase(BYTES, 500), profile.transfer.dram.value, 0.03);
}

#[test]
fn misses_overlap_up_to_the_fill_buffers_and_no_further() {
    let profile = Profile::study();
    let group =
        |at_once: u64| took(Task::Misses { scatter: ALL, at_once, first: 0, groups: 500, translated: false });
    let (single, buffers) = (group(1), profile.core.fill_buffers.value as u64);
    near(single, profile.transfer.dram.value, 0.05);
    assert!(group(buffers) < 1.3 * single, "{} at once take {} against {single}", buffers, group(buffers));
    let times: Vec<_> = (1..2 * buffers).map(group).collect();
    assert_eq!(knee(&times) as u64, buffers);
    assert!(group(buffers + 1) > 1.7 * single, "one more takes {} against {single}", group(buffers + 1));
}

#[test]
fn stores_in_the_first_level_take_their_interval() {
    let scatter = Scatter { base: 0, lines: 256 };
    near(cycles(took(Task::Stores { scatter, count: 40_000 })), Profile::study().core.store.value, 0.1);
}

#[test]
fn lines_past_the_caches_take_the_drain_over_the_buffers() {
    let profile = Profile::study();
    let wanted = profile.transfer.drain.value / profile.core.fill_buffers.value;
    near(took(Task::Past { base: 0, lines: 4000 }), wanted, 0.1);
}

#[test]
fn a_line_changed_by_another_core_takes_the_transfer_latency() {
    let task = Task::HandedOver { flag: 0, base: 4096, lines: 1024, seed: 5, left: Left::Modified };
    near(took(task), Profile::study().transfer.core_modified.value, 0.05);
}

#[test]
fn a_hand_over_takes_a_right_and_a_line() {
    let took = took(Task::PingPong { line: 0, turns: 500 });
    let least = Profile::study().transfer.core_modified.value;
    assert!(took > least && took < 3.0 * least, "{took} against {least}");
}

#[test]
fn counters_on_one_line_cost_more_than_on_two() {
    let counters = |apart: u64| took(Task::Increments { line: 0, apart, count: 2000 });
    let (same, split) = (counters(8), counters(2 * LINE));
    assert!(same > 2.0 * split, "{same} against {split}");
}

/// Every value measured on a machine needs a simulated counterpart.
#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn calibration_reproduces_the_latencies_of_the_profile() {
    let profile = Profile::study();
    let found = simulate(&profile).expect("no thread waits for ever");
    let of = |name: &str| found.iter().find(|(other, _)| *other == name).expect("it is on the list").1;
    near(cycles(of("l1.latency")), profile.l1.latency.value, 0.02);
    near(cycles(of("l2.latency")), profile.l2.latency.value, 0.05);
    near(of("dram"), profile.transfer.dram.value, 0.1);
    // The adjacent line is fetched with each line, so up to half of a short chain's lines arrive before they are
    // requested.
    let (clean, said) = (of("core_clean"), profile.transfer.core_clean.value);
    assert!((0.4 * said..1.05 * said).contains(&clean), "{clean} against {said}");
    assert!(profile::USED.iter().all(|name| found.iter().any(|(other, _)| other == name)), "{found:?}");
}

fn calibration() -> Calibration {
    let value = |median: f64| Estimate { median, low: median, high: median };
    let of = |(name, median)| Measured { name, unit: "ns", value: value(median) };
    let measured = [
        ("frequency", 3.7),
        ("l1.latency", 1.4),
        ("l2.latency", 4.0),
        ("llc.latency", 15.0),
        ("dram", 110.0),
        ("parallel_misses", 23.8),
        ("store.l1", 0.3),
        ("store.l2", 1.0),
        ("stream", 2.5),
        ("past", 3.0),
        ("hand_over", 60.0),
        ("core_modified", 45.0),
        ("core_clean", 40.0),
    ];
    Calibration {
        processor: "AMD EPYC (family 25, model 17)".to_owned(),
        caches: Caches::here(),
        measured: measured.into_iter().map(of).collect(),
        chase: Vec::new(),
        misses: Vec::new(),
        notes: vec!["30 rounds".to_owned()],
    }
}

#[test]
fn a_calibration_becomes_a_profile_that_the_simulator_reads() {
    let text = profile::write(&calibration(), "2022-11-09");
    let profile = Profile::parse(&text).expect("it has a source for everything");
    assert!((profile.l2.latency.value - 14.8).abs() < 0.01);
    near(profile.core.fill_buffers.value, 24.0, 0.0);
    near(profile.transfer.upgrade.value, 15.0, 1e-9);
    let source = &profile.transfer.dram.source;
    assert!(source.starts_with("measured by pointer chase") && source.ends_with("2022-11-09"), "{source}");
    assert_eq!(profile.constants().iter().filter(|(_, constant)| constant.free).count(), 1);
}

#[test]
fn every_built_in_profile_can_be_read() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/profiles");
    let mut names = Vec::new();
    for file in std::fs::read_dir(folder).expect("it comes with the source") {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("text");
        names.push(Profile::parse(&text).expect("a profile").name);
    }
    assert!(names.len() >= 2, "{names:?}");
}

#[test]
fn a_level_as_slow_as_the_next_is_not_plausible() {
    assert_eq!(calibration().implausible(), Vec::<String>::new());
    let mut wrong = calibration();
    wrong.measured[2].value.median = 14.0;
    assert!(!wrong.implausible().is_empty());
}

#[test]
fn days_are_those_of_the_calendar() {
    let day = |seconds| profile::day(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds));
    assert_eq!(day(0), "1970-01-01");
    assert_eq!(day(951_782_400), "2000-02-29");
    assert_eq!(day(1_667_952_000 + 86_399), "2022-11-09");
}
