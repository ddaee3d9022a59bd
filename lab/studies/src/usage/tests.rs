//! Interrupting and resuming experiments.

use super::checkpoint::{CheckpointWriter, KIND, parse};
use super::*;
use crate::batch::checkpoint::CheckpointError;
use measure::CpuPinning;
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

#[test]
fn an_interrupted_experiment_continues_with_the_next_reading() {
    // A machine with one CPU cannot run this experiment.
    let Ok(cpus) = CpuPinning::here().and_then(|seats| seats.pair()) else { return };
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
fn batching_goes_on_cell_by_cell() {
    let Ok(cpus) = CpuPinning::here().and_then(|seats| seats.pair()) else { return };
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
fn a_run_with_the_same_settings_continues_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.json");
    let open = |results: Results| CheckpointWriter::open(Some(path.clone()), results);
    let plan = plan(&[Study::Batching, Study::Mistake, Study::Budget], [0, 1]);
    let (keeper, mut results) = open(plan.empty(environment())).unwrap();
    results.mistake = mistake::measure(1).unwrap();
    results.finished.push(Study::Mistake);
    keeper.replace(&results).unwrap();
    let (_, again) = open(plan.empty(environment())).unwrap();
    assert_eq!(again.mistake, results.mistake);
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
fn a_file_without_settings_is_read_and_not_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.json");
    let earlier = br#"{"processor": "x", "budget": {"step_ns": 0.5, "delays": [], "calls": [], "predictions": [
        {"delay_ns": 0.0, "took_ns": 0.0, "path_ns": 0.0, "predicted_pps": null, "measured_pps": 1e7, "idle": 0.1}]}}"#;
    let results = parse(earlier).unwrap().unwrap();
    assert!(results.budget.as_ref().unwrap().predictions[0].predicted_pps.is_nan());
    assert!(!results.is_partial(Study::Budget) && results.kept.is_none());
    std::fs::write(&path, earlier).unwrap();
    let said =
        CheckpointWriter::open(Some(path), plan(&[], [0, 1]).empty(environment())).unwrap_err().to_string();
    assert!(said.contains("a length not told there") && said.contains("not told there"), "{said}");
}

#[test]
fn files_of_another_kind_are_ignored_and_impossible_numbers_refused() {
    assert!(parse(br#"{"processor": "x", "memory": "real"}"#).unwrap().is_none());
    assert!(parse(br#"{"kept": "linerate bench", "processor": "x", "batching": []}"#).unwrap().is_none());
    assert!(parse(br#"{"processor": "x", "batching": [], "mistake": 7}"#).is_err());
    assert!(parse(b"[]").is_err() && parse(b"").is_err());
    let mut results = plan(&[], [0, 1]).empty(environment());
    assert_eq!(results.kept.as_deref(), Some(KIND));
    results.mistake = mistake::measure(1).unwrap();
    results.mistake[0].mpps = -1.0;
    let refused = parse(&serde_json::to_vec(&results).unwrap());
    assert!(matches!(refused, Err(CheckpointError::Impossible { .. })), "{refused:?}");
}
