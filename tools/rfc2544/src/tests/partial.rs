//! Results of benchmarks that were interrupted.

use super::*;
use crate::compare::compare;

#[test]
fn partial_result_sums_completed_trials() {
    let (plan, mut model) = (Plan { rounds: 2, ..plan(&ALL) }, Model::new(1e6, 10e6));
    let mut test_run = TestRun::new(plan);
    for _ in 0..8 {
        let step = test_run.next().unwrap();
        let (done, about) = test_run.progress();
        assert!(about > done, "{done} of {about}");
        let counters = model.answer(&step);
        test_run.take(step, counters);
    }
    let results = results(&test_run);
    assert!(!results.whole && results.trials == 8 && results.sizes[0].rounds.len() == 1);
    assert!(!results.sizes[0].rounds[0].whole && results.sizes[0].rounds[0].ndr.is_some());
}

/// The results of the first trials of a plan.
fn first_trials(plan: &Plan, model: &mut Model, trials: usize) -> Results {
    let mut test_run = TestRun::new(plan.clone());
    while let Some(step) = test_run.next().filter(|_| test_run.trials().len() < trials) {
        let counters = model.answer(&step);
        test_run.take(step, counters);
    }
    results(&test_run)
}

#[test]
fn interrupted_search_is_marked_until_complete() {
    let (plan, capacity) = (plan(&ALL), 3e6);
    let mut model = Model::new(capacity, 10e6);
    let whole = run(&plan, &mut model);
    let of = |wanted: fn(&Trial) -> bool| {
        whole.trials().iter().position(wanted).expect("there is one of each test")
    };
    let searched = of(|trial| matches!(trial.step.purpose, Purpose::Latency(_)));
    let bursts = of(|trial| trial.step.purpose == Purpose::BackToBack);
    for trials in 0..whole.trials().len() {
        let results = first_trials(&plan, &mut Model::new(capacity, 10e6), trials);
        let Some(round) = results.sizes[0].rounds.first() else { continue };
        let met = |bound: Option<Bound>| bound.map(|bound| bound != Bound::Unfinished);
        let (ndr, pdr) = (round.ndr.map(|found| found.bound), round.pdr.map(|found| found.bound));
        let told = results.notes.iter().any(|note| note.contains("a search of round 1 was not finished"));
        assert_eq!(told, round.is_unfinished(), "{trials}: {:?}", results.notes);
        assert!(!results.notes.iter().any(|note| note.contains("no NDR was found")));
        match trials {
            n if n < searched => assert!(met(ndr) != Some(true) || met(pdr) != Some(true), "{round:?}"),
            n if n < bursts => assert_eq!([met(ndr), met(pdr)], [Some(true); 2], "{round:?}"),
            _ => assert_ne!(met(round.back_to_back.map(|row| row.bound)), Some(true), "{round:?}"),
        }
    }
    // Only the ceiling was tried, and it failed, so nothing has passed.
    let begun = first_trials(&plan, &mut Model::new(capacity, 10e6), 3);
    let (found, shown) = (begun.sizes[0].rounds[0].ndr.unwrap(), begun.sizes[0].ndr().unwrap());
    assert_eq!((found.pps, found.bound), (0.0, Bound::Unfinished));
    assert!(shown.at_least && shown.unfinished);
    assert!(serde_json::to_string(&begun).unwrap().contains("\"bound\":\"unfinished\""));
}

#[test]
fn interrupted_round_is_no_sample() {
    let plan = Plan { rounds: 2, ..plan(&[Test::Throughput]) };
    let (mut model, one) = (Model::new(3e6, 10e6), Plan { rounds: 1, ..plan.clone() });
    let trials = run(&one, &mut model).trials().len();
    let cut = first_trials(&plan, &mut Model::new(3e6, 10e6), trials + 2);
    let size = &cut.sizes[0];
    assert_eq!(size.rounds[1].ndr.unwrap().bound, Bound::Unfinished);
    let (shown, first) = (size.ndr().unwrap(), size.rounds[0].ndr.unwrap().pps);
    assert_eq!((shown.value, shown.at_least, shown.unfinished), (first, false, false));
    assert!(
        cut.notes
            .iter()
            .any(|note| note.contains("a search of round 2 was not finished; its partial result"))
    );
    let compared = compare(&cut, &cut).unwrap();
    assert!(compared.figures.iter().all(|figure| figure.rounds == (1, 1)), "{compared:?}");
    // The same if the search gave up and the round is complete.
    let mut gave_up = cut.clone();
    gave_up.sizes[0].rounds[1].whole = true;
    let compared = compare(&gave_up, &gave_up).unwrap();
    assert!(compared.figures.iter().all(|figure| figure.rounds == (1, 1)), "{compared:?}");
}
