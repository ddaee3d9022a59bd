//! Checkpoint files, complete, truncated and invalid.

use super::*;
use crate::checkpoint::{Checkpoint, Header};
use measure::store::{StoreError, Stored, encode, parse};

/// A checkpoint with these trials.
fn checkpoint(plan: &Plan, test_run: TestRun) -> Checkpoint {
    let header = Header { setup: Setup::default(), environment: Environment::default(), plan: plan.clone() };
    Checkpoint { header, test_run }
}

/// A checkpoint without trials.
fn empty(plan: &Plan) -> Checkpoint {
    checkpoint(plan, TestRun::new(plan.clone()))
}

/// The file of a benchmark.
fn file(plan: &Plan, test_run: &TestRun) -> Vec<u8> {
    encode(&checkpoint(plan, test_run.clone())).unwrap()
}

#[test]
fn truncated_checkpoint_resumes_to_the_same_trials() {
    let plan = Plan { rounds: 2, tries: 3, ..plan(&ALL) };
    let whole = run(&plan, &mut Model::new(1_234_567.0, 10e6));
    let bytes = file(&plan, &whole);
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    for cut in (first + 1..=bytes.len()).step_by(97) {
        let test_run = parse::<Checkpoint>(&bytes[..cut]).unwrap().test_run;
        let mut model = Model::new(1_234_567.0, 10e6);
        let test_run = finish(test_run, |step| model.answer(step));
        assert_eq!(test_run.trials(), whole.trials());
    }
}

#[test]
fn foreign_checkpoint_is_rejected() {
    let plan = plan(&ALL);
    let test_run = run(&plan, &mut Model::new(1e6, 10e6));
    let bytes = file(&plan, &test_run);
    let found = parse::<Checkpoint>(&bytes).unwrap();
    assert!(found.differences(&empty(&plan)).is_empty());
    let mut here = empty(&Plan { trial: 2.0, loss: 0.1, ..plan.clone() });
    here.header.environment.processor = "another".to_owned();
    let text = found.differences(&here).join("; ");
    for difference in ["trial is 1.0 there and 2.0 here", "loss is 0.005 there and 0.1 here", "another"] {
        assert!(text.contains(difference), "{text}");
    }
    // A trial in the middle is missing.
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let without = [&lines[..4], &lines[5..]].concat().concat();
    let error = parse::<Checkpoint>(&without).unwrap_err();
    assert!(matches!(error, StoreError::Line { line: 5, .. }), "{error}");
}

#[test]
fn checkpoint_resumes_with_more_rounds_only() {
    let one = plan(&ALL);
    let bytes = file(&one, &run(&one, &mut Model::new(1_234_567.0, 10e6)));
    let three = Plan { rounds: 3, ..plan(&ALL) };
    let found = parse::<Checkpoint>(&bytes).unwrap();
    assert!(found.differences(&empty(&three)).is_empty());
    let before = found.test_run.trials().len();
    let mut model = Model::new(1_234_567.0, 10e6);
    let test_run = finish(found.with_rounds(3).test_run, |step| {
        assert!(step.round > 0);
        model.answer(step)
    });
    assert_eq!((test_run.trials().len() > before, results(&test_run).sizes[0].rounds.len()), (true, 3));
    let longer = file(&three, &test_run);
    let text = parse::<Checkpoint>(&longer).unwrap().differences(&empty(&one)).join("; ");
    assert!(text.contains("rounds is 3 there and 1 here"), "{text}");
}

proptest! {
    #[test]
    fn random_records_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut file = encode(&empty(&plan(&ALL))).unwrap();
        file.extend(bytes);
        file.push(b'\n');
        let _ = parse::<Checkpoint>(&file);
    }
}
