use super::*;
use measure::store::{Stored, encode, parse};
use std::ops::ControlFlow;

fn plan(studies: &[Study]) -> Plan {
    let cpu = measure::pinning::allowed().unwrap()[0];
    Plan { studies: studies.to_vec(), cpus: [cpu; 2], rounds: 1, requests: 200, connections: 10 }
}

fn reading(variant: &str, at: u64, round: u32, value: f64) -> Reading {
    let variant = variant.to_owned();
    Reading { study: Study::Gather, variant, at, round, value, more: Vec::new(), distance_ns: None }
}

/// Fails the test if a reading fails.
#[derive(Default)]
struct Strict {
    stop_after: Option<usize>,
    kept: usize,
}

impl Watch for Strict {
    fn step(&mut self, _done: usize, _of: usize, _next: &Cell) -> ControlFlow<()> {
        if self.stop_after == Some(self.kept) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn keep(&mut self, _reading: &Reading) -> ControlFlow<()> {
        self.kept += 1;
        ControlFlow::Continue(())
    }

    fn failed(&mut self, cell: &Cell, error: &ReadingError) {
        panic!("{cell:?}: {error}");
    }
}

#[test]
fn every_study_has_distinct_cells_and_a_first_variant() {
    for study in Study::ALL {
        let cells = study.cells(u64::MAX);
        assert!(!cells.is_empty(), "{study:?}");
        assert_eq!(serde_json::to_value(study).unwrap(), study.name(), "the descriptions are in order");
        assert!((1..cells.len()).all(|n| !cells[..n].contains(&cells[n])), "{study:?}");
    }
    assert!(Study::Connections.cells(1_000).iter().all(|cell| cell.at <= 1_000));
    let known = |published: &Published| {
        published.ratio.is_none_or(|(of, _)| published.study.variants().contains(&of))
    };
    assert!(PUBLISHED.iter().all(known));
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn servers_on_one_thread_are_measured_and_an_interrupted_run_takes_the_rest() {
    let plan = plan(&[Study::Calls, Study::Connections, Study::Checksum]);
    let mut results = plan.empty(Environment::default());
    measure(&plan, &mut results, &mut Strict { stop_after: Some(2), kept: 0 });
    assert_eq!(results.readings.len(), 2);
    measure(&plan, &mut results, &mut Strict::default());
    assert_eq!(results.readings.len(), plan.all().len());
    assert!(plan.missing(&results).is_empty());
    let calls = results.more(&Cell { study: Study::Calls, variant: "io_uring", at: 512 }, 0);
    assert_eq!(calls, Some(1.0 / 32.0), "{calls:?}");
    let calls = results.more(&Cell { study: Study::Calls, variant: "pread", at: 512 }, 0);
    assert_eq!(calls, Some(1.0), "{calls:?}");
    let bytes = encode(&results).unwrap();
    assert_eq!(parse::<Results>(&bytes).unwrap().readings.len(), results.readings.len());
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn accepting_threads_are_measured() {
    let plan = plan(&[Study::Accept]);
    let mut results = plan.empty(Environment::default());
    measure(&plan, &mut results, &mut Strict::default());
    let one = Cell { study: Study::Accept, variant: "locked", at: 1 };
    assert_eq!(results.more(&one, 0), Some(1.0));
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn a_client_of_the_service_is_measured_beside_others() {
    let plan = plan(&[Study::Control]);
    let mut results = plan.empty(Environment::default());
    measure(&plan, &mut results, &mut Strict::default());
    let operations = |variant| results.more(&Cell { study: Study::Control, variant, at: 1 }, 0);
    assert_eq!(operations("nothing"), Some(0.0));
    assert!(operations("attach") > Some(0.0) && operations("open") > Some(0.0));
}

/// Readings of all cells of one study.
fn measured(study: Study) -> Results {
    let plan = plan(&[study]);
    let mut results = plan.empty(Environment::default());
    super::measure(&plan, &mut results, &mut Strict::default());
    assert_eq!(results.readings.len(), plan.all().len());
    results
}

/// The `n`-th further value of a variant at each position.
fn further(results: &Results, study: Study, variant: &str, n: usize) -> Vec<f64> {
    let cells = results.cells(study).into_iter().filter(|cell| cell.variant == variant);
    cells.map(|cell| results.more(&cell, n).unwrap()).collect()
}

#[test]
fn kernel_thread_passes_requests_without_calls() {
    use benches::stack::sockets::{self, Way};
    let allowed = measure::pinning::allowed().unwrap();
    let cpus = [allowed[0], *allowed.last().unwrap()];
    for bytes in [64, 16_384] {
        let plan = sockets::Plan { cpus, connections: 16, bytes, requests: 200 };
        // On a thread of its own, which pins itself.
        let calls = |way| {
            let measured = std::thread::scope(|scope| scope.spawn(|| sockets::measure(way, &plan)).join());
            measured.unwrap().unwrap().1
        };
        let [by_calls, by_ring, by_thread] = [Way::Calls, Way::Ring, Way::Thread].map(calls);
        assert!(by_calls > 2.0, "receive, send and a part of epoll_wait: {by_calls}");
        assert!((0.05..2.0).contains(&by_ring), "{by_ring}");
        assert!(by_thread < 0.05, "{by_thread}");
    }
}

#[test]
fn batches_of_one_connection_do_not_wait() {
    let results = measured(Study::Idle);
    let batches: Vec<f64> =
        ["1", "4", "16", "64"].iter().flat_map(|of| further(&results, Study::Idle, of, 1)).collect();
    assert!(batches.iter().all(|batch| (1.0..1.5).contains(batch)), "{batches:?}");
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn offloads_save_frames_of_a_stream() {
    let results = measured(Study::Bulk);
    let frames = |variant| further(&results, Study::Bulk, variant, 0);
    for (with, without) in frames("reference").iter().zip(frames("no-offloads")) {
        // 1460 bytes of payload at most.
        assert!(without > 700.0 && *with < without / 8.0, "{with} and {without} frames per MiB");
    }
}

#[test]
fn application_ends_with_its_grant() {
    let reading = benches::stack::grants::measure(200).unwrap();
    assert!(reading.reason.starts_with("the grant ended: revoked by the switch"), "{}", reading.reason);
    let results = measured(Study::Grants);
    let service = Cell { study: Study::Grants, variant: "service", at: 4 };
    assert_eq!(results.more(&service, 0), None);
    assert_eq!(further(&results, Study::Grants, "application", 0).len(), 1);
}

#[test]
fn direct_reads_leave_the_page_cache_as_it_is() {
    for (name, mode) in benches::stack::storage::MODES {
        for is_cached in [false, true] {
            // On a disk.
            let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
            let (_, after) = benches::stack::storage::measure(folder.path(), mode, is_cached, 200).unwrap();
            let is_filled = is_cached || name != "direct";
            assert!(if is_filled { after > 90.0 } else { after < 10.0 }, "{name}, {is_cached}: {after} %");
        }
    }
}

#[test]
fn frames_are_those_of_our_own_stack() {
    use benches::stack::{interfaces, transports};
    let plan = interfaces::Plan { connections: 4, bytes: 64, requests: 200 };
    // The end-to-end test has the TAP interface, which needs root.
    let [kernel, ring] = [transports::Transport::Kernel, transports::Transport::Ring]
        .map(|transport| transports::measure(transport, plan).unwrap().1);
    assert_eq!(kernel, None);
    assert!(ring >= Some(2.0), "a request and a reply: {ring:?}");
}

#[test]
fn ratios_are_those_of_one_round_and_a_crossing_needs_all_larger_sizes() {
    let values = [(64, 1, 2.0, 4.0), (64, 2, 2.0, 6.0), (256, 1, 4.0, 2.0), (1_024, 1, 8.0, 2.0)];
    let of = |(at, round, copy, reference)| {
        [reading("copy", at, round, copy), reading("reference", at, round, reference)]
    };
    let mut results = Results { readings: values.into_iter().flat_map(of).collect(), ..Results::default() };
    let cell = Cell { study: Study::Gather, variant: "reference", at: 64 };
    let ratio = results.ratio(&cell).unwrap();
    assert_eq!((ratio.median, ratio.range), (2.5, (2.0, 3.0)));
    assert_eq!(results.ratio(&Cell { variant: "copy", ..cell }), None);
    assert_eq!(results.better_from(Study::Gather, "reference"), Some(256));
    results.readings.extend(of((4_096, 1, 1.0, 2.0)));
    assert_eq!(results.better_from(Study::Gather, "reference"), None);
}

#[test]
fn invalid_readings_and_other_settings_are_rejected() {
    let wrong = |reading| encode(&Results { readings: vec![reading], ..Results::default() }).unwrap();
    assert!(parse::<Results>(&wrong(reading("copy", 64, 1, 0.0))).is_err());
    assert!(parse::<Results>(&wrong(reading("none", 64, 1, 1.0))).is_err());
    assert!(parse::<Results>(&wrong(reading("copy", 64, 1, 1.0))).is_ok());
    let (there, here) = (Results { requests: 5, ..Results::default() }, Results::default());
    assert_eq!(there.differences(&here), ["5 requests a reading there, 0 here"]);
}
