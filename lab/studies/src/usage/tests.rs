//! Interrupting and resuming experiments.

use super::*;
use measure::CpuPinning;
use measure::store::{Store, encode, parse};
use rfc2544::CpuSet;
use std::ops::ControlFlow;

/// Stops after a number of readings, and records calls.
struct Few {
    readings: usize,
    steps: Vec<(usize, usize, String)>,
    kept: usize,
}

impl Few {
    fn of(readings: usize) -> Self {
        Self { readings, steps: Vec::new(), kept: 0 }
    }
}

impl Watch for Few {
    fn step(&mut self, done: usize, of: usize, next: &str) -> ControlFlow<()> {
        if self.steps.len() == self.readings {
            return ControlFlow::Break(());
        }
        self.steps.push((done, of, next.to_owned()));
        ControlFlow::Continue(())
    }

    fn keep(&mut self, results: &Results) -> ControlFlow<()> {
        let there = results.budget.as_ref().map_or(0, |b| b.calls.len() + b.predictions.len());
        self.kept += usize::from(there > 0);
        ControlFlow::Continue(())
    }
}

/// For experiments that run no other switches.
struct NoBenches;

impl comparison::Benches for NoBenches {
    fn bench(&mut self, subject: comparison::Subject, _: u32) -> Option<comparison::Entry> {
        unreachable!("{subject:?} is not asked for")
    }

    fn distance(&mut self, _: Option<f64>) -> Option<f64> {
        unreachable!("no turn is taken")
    }
}

fn plan(studies: &[Study], cpus: [usize; 2]) -> Plan {
    Plan { studies: studies.to_vec(), cpus, length: Duration::from_millis(1) }
}

fn environment() -> Environment {
    let used = CpuSet { switch: Some(0), generator: Some(1), guest: None };
    Environment { processor: "one of mine".to_owned(), cpus: 2, used, ..Environment::default() }
}

fn two_cpus() -> [usize; 2] {
    let pinning = CpuPinning::here().and_then(|pinning| pinning.pair());
    pinning.unwrap_or_else(|_| panic!("SKIPPED: there is one CPU; run on a machine with two CPUs"))
}

#[test]
fn an_interrupted_experiment_continues_with_the_next_reading() {
    let cpus = two_cpus();
    let plan = plan(&[Study::Budget], cpus);
    let mut results = plan.empty(environment());
    let mut first = Few::of(3);
    assert!(matches!(measure(&plan, &mut results, &mut first, &mut NoBenches), Err(BudgetError::Ended)));
    assert_eq!(results.budget.as_ref().unwrap().calls.len(), 2);
    assert!(results.is_partial(Study::Budget) && plan.missing(&results) == [Study::Budget]);
    let before = results.budget.clone().unwrap();
    let mut second = Few::of(usize::MAX);
    measure(&plan, &mut results, &mut second, &mut NoBenches).unwrap();
    let all = Study::Budget.steps(cpus);
    assert_eq!(second.steps[0], (3, all, "calls of 4".to_owned()));
    assert_eq!((second.steps.len(), second.steps.last().unwrap().0), (all - 3, all - 1));
    // One per reading, and one at the end.
    assert_eq!(second.kept, all - 3 + 1);
    let after = results.budget.as_ref().unwrap();
    assert_eq!((&after.calls[..2], &after.delays), (&before.calls[..], &before.delays));
    assert!(!results.is_partial(Study::Budget) && plan.missing(&results).is_empty());
    let mut third = Few::of(usize::MAX);
    measure(&plan, &mut results, &mut third, &mut NoBenches).unwrap();
    assert!(third.steps.is_empty() && third.kept == 0);
}

#[test]
fn batching_study_continues_after_the_last_measured_cell() {
    let cpus = two_cpus();
    let plan = plan(&[Study::Batching], cpus);
    let mut results = plan.empty(environment());
    for readings in [1, 1] {
        assert!(matches!(
            measure(&plan, &mut results, &mut Few::of(readings), &mut NoBenches),
            Err(BudgetError::Ended)
        ));
    }
    let cells: Vec<_> = results.batching.iter().map(|row| (row.buffer, row.load)).collect();
    assert_eq!(cells, [(0, None), (0, Some(batching::LOADS[0]))]);
}

#[test]
fn a_missing_cpu_is_an_error_before_the_first_measurement() {
    assert!(matches!(plan(&Study::ALL, [0, 1023]).validate(), Err(BudgetError::Cpu(_))));
}

#[test]
fn a_file_resumes_only_with_its_settings_and_provenance() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.jsonl");
    let open = |results: Results| Store::resume(Some(&path), results);
    let plan = plan(&[Study::Batching, Study::BurstMismatch, Study::Budget], [0, 1]);
    let (mut store, mut results) = open(plan.empty(environment())).unwrap();
    results.burst_mismatch = burst_mismatch::measure(1).unwrap();
    results.finished.push(Study::BurstMismatch);
    store.replace(&results).unwrap();
    let (_, again) = open(plan.empty(environment())).unwrap();
    assert_eq!(again.burst_mismatch, results.burst_mismatch);
    assert_eq!(plan.missing(&again), [Study::Batching, Study::Budget]);
    // No temporary file remains.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let before = std::fs::read(&path).unwrap();
    let longer = Plan { length: Duration::from_millis(7), ..plan.clone() };
    let elsewhere = Environment {
        processor: "another".to_owned(),
        used: CpuSet { switch: Some(3), ..environment().used },
        ..environment()
    };
    let said = open(longer.empty(elsewhere)).unwrap_err().to_string();
    let all = [
        "readings of 1 ms there, 7 ms here",
        "another",
        "on CPU 0 with CPU 1 there",
        "on CPU 3 with CPU 1 here",
    ];
    assert!(all.iter().all(|part| said.contains(part)), "{said}");
    let mut build = environment();
    build.build.sources = "0000000000000000".to_owned();
    let said = open(plan.empty(build)).unwrap_err().to_string();
    assert!(said.contains("build ") && said.contains("0000000000000000"), "{said}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_rate_that_is_not_a_number_is_stored_and_impossible_numbers_are_refused() {
    let mut results = plan(&[], [0, 1]).empty(environment());
    let [predicted_pps, measured_pps] = [f64::NAN, 1e7];
    let prediction = budget::Prediction {
        delay_ns: 0.0,
        took_ns: 0.0,
        path_ns: 0.0,
        predicted_pps,
        measured_pps,
        idle: 0.1,
    };
    results.budget = Some(budget::Budget { predictions: vec![prediction], ..budget::Budget::default() });
    let found: Results = parse(&encode(&results).unwrap()).unwrap();
    assert!(found.budget.unwrap().predictions[0].predicted_pps.is_nan());
    results.burst_mismatch = burst_mismatch::measure(1).unwrap();
    results.burst_mismatch[0].mpps = -1.0;
    let error = parse::<Results>(&encode(&results).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "line 2 is invalid: it has a number of -1");
}

#[test]
fn packets_are_found_in_caches_or_tables_of_each_number_of_entries() {
    for count in [2, 1000] {
        let row = entries::row(count, Duration::from_millis(20)).unwrap();
        assert_eq!(row.entries, count);
        assert!(row.bridge_ns > 0.0 && row.flows_ns > 0.0 && row.added_per_second > 0.0, "{row:?}");
        assert!((row.found.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{row:?}");
    }
}
