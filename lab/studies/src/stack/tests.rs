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
        assert!((1..cells.len()).all(|n| !cells[..n].contains(&cells[n])), "{study:?}");
    }
    assert!(Study::Connections.cells(1_000).iter().all(|cell| cell.at <= 1_000));
    let known = |published: &Published| {
        published.ratio.is_none_or(|(of, _)| published.study.variants().contains(&of))
    };
    assert!(PUBLISHED.iter().all(known));
}

#[test]
fn servers_on_one_thread_are_measured_and_an_interrupted_run_takes_the_rest() {
    let plan = plan(&[Study::Calls, Study::Connections, Study::Checksum]);
    let mut results = plan.empty(Environment::default());
    measure(&plan, &mut results, &mut Strict { stop_after: Some(2), kept: 0 });
    assert_eq!(results.readings.len(), 2);
    measure(&plan, &mut results, &mut Strict::default());
    assert_eq!(results.readings.len(), plan.all().len());
    assert!(plan.missing(&results).is_empty());
    let calls = results.more(&Cell { study: Study::Calls, variant: "io_uring", at: 512 }, 0);
    assert!(calls < Some(1.0), "{calls:?}");
    let bytes = encode(&results).unwrap();
    assert_eq!(parse::<Results>(&bytes).unwrap().readings.len(), results.readings.len());
}

#[test]
fn accepting_threads_are_measured() {
    let plan = plan(&[Study::Accept]);
    let mut results = plan.empty(Environment::default());
    measure(&plan, &mut results, &mut Strict::default());
    let one = Cell { study: Study::Accept, variant: "locked", at: 1 };
    assert_eq!(results.more(&one, 0), Some(1.0));
}

#[test]
fn a_client_of_the_service_is_measured_beside_others() {
    let plan = plan(&[Study::Control]);
    let mut results = plan.empty(Environment::default());
    measure(&plan, &mut results, &mut Strict::default());
    let operations = |variant| results.more(&Cell { study: Study::Control, variant, at: 1 }, 0);
    assert_eq!(operations("nothing"), Some(0.0));
    assert!(operations("attach") > Some(0.0) && operations("open") > Some(0.0));
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
