//! Compares the simulator with the published study's table: reproduced orders and ratios, and known differences.
//!
//! Simulated runs are deterministic, so the results describe the model and not the test host.

use std::collections::HashMap;
use std::sync::OnceLock;

use sim::Profile;
use studies::experiment::{Length, Outcome, simulate};
use studies::factors::find;
use studies::published::{Quantity, REFERENCES};

const CASES: [&str; 9] =
    ["base", "a", "d", "a+d", "header-not-written", "header-prefetched", "b", "a+b+d", "a+b+c+d+e+f"];

fn outcomes() -> &'static HashMap<&'static str, Outcome> {
    static OUTCOMES: OnceLock<HashMap<&'static str, Outcome>> = OnceLock::new();
    OUTCOMES.get_or_init(|| {
        let (profile, length) = (Profile::study(), Length { packets: 4_000, warm_up: 1_500 });
        let run = |name| {
            let config = find(name).expect("a case of the study").config;
            (name, simulate(&profile, &config, length).expect("the model goes on"))
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = CASES.map(|name| scope.spawn(move || run(name))).into();
            threads.into_iter().map(|thread| thread.join().expect("it has run")).collect()
        })
    })
}

fn mpps(name: &str) -> f64 {
    outcomes()[name].mpps
}

/// Cycles per packet in which the guest's oldest store waited for ownership.
fn rfo(name: &str) -> f64 {
    let guest = &outcomes()[name].threads[1];
    guest.cycles_per_packet(guest.counters.rfo_time)
}

/// Returns the study's ratios to its base, and ours.
fn ratios() -> impl Iterator<Item = (&'static str, f64, f64)> {
    let rates = REFERENCES.iter().filter(|reference| reference.quantity == Quantity::Mpps);
    rates.map(|reference| {
        let name = reference.configuration;
        (name, reference.value / 13.5, mpps(name) / mpps("base"))
    })
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn ratios_to_the_base_are_within_a_fifth_of_the_study_s() {
    for (name, study, ours) in ratios() {
        assert!((0.8..=1.2).contains(&(ours / study)), "{name}: {ours:.2}, the study has {study:.2}");
    }
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn rates_come_in_the_study_s_order() {
    let order = ["base", "header-prefetched", "a", "d", "a+d", "a+b+c+d+e+f"];
    for pair in order.windows(2) {
        assert!(mpps(pair[0]) < mpps(pair[1]), "{pair:?}: {} and {}", mpps(pair[0]), mpps(pair[1]));
    }
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn non_temporal_stores_gain_once_ownership_requests_are_avoided() {
    assert!(mpps("b") < 1.05 * mpps("base"), "{} and {}", mpps("b"), mpps("base"));
    assert!(mpps("a+b+d") > 1.05 * mpps("a+d"), "{} and {}", mpps("a+b+d"), mpps("a+d"));
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn the_base_waits_for_ownership_as_in_the_study_and_ten_times_as_long_as_with_a() {
    assert!((103.2..=412.8).contains(&rfo("base")), "{}", rfo("base"));
    for name in ["a", "a+d"] {
        assert!(rfo("base") > 10.0 * rfo(name), "{name}: {} of {}", rfo(name), rfo("base"));
    }
}

/// The study has 2.8 cycles with (d), next to nothing. Here false sharing alone keeps stores waiting, so only the order
/// matches: a known, unexplained difference (decision 0054).
#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn without_headers_stores_wait_less_for_ownership_but_not_as_little_as_in_the_study() {
    assert!(rfo("d") < rfo("base") / 1.3, "{} of {}", rfo("d"), rfo("base"));
    assert!(rfo("d") > rfo("a"), "{} and {}", rfo("d"), rfo("a"));
}
