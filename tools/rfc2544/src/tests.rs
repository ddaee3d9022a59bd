mod checkpoints;
mod comparison;
mod partial;

use super::plan::Tries;
use super::*;
use generator::Remedy;
use generator::Sizes;
use generator::meter::Summary;
use proptest::prelude::*;

/// A model of a switch with known behaviour, and of the generator.
#[derive(Clone, Debug)]
struct Model {
    /// Capacity of the switch in frames per second; frames above it are lost.
    capacity: f64,
    /// Buffer size of the switch in frames, which limits bursts.
    holds: u64,
    /// Maximum rate of the generator in frames per second.
    generator: f64,
    /// Percentage of trials that are disturbed and lose a thousandth of the frames at any load.
    disturbed: u32,
    /// Fraction of frames that is always lost.
    leaks: f64,
    random: fastrand::Rng,
}

impl Model {
    fn new(capacity: f64, generator: f64) -> Self {
        let random = fastrand::Rng::with_seed(3);
        Self { capacity, holds: 1000, generator, disturbed: 0, leaks: 0.0, random }
    }

    fn answer(&mut self, step: &Step) -> TrialCounters {
        let seconds = step.seconds;
        match (step.purpose, step.load) {
            (Purpose::Loopback, _) => self.rate(f64::INFINITY, self.generator, seconds, 0.0),
            (_, Load::Burst(frames)) => self.burst(frames, seconds),
            (purpose, Load::Rate(rate)) => {
                let disturbed = self.random.u32(..100) < self.disturbed && purpose != Purpose::Probe;
                let mut counters =
                    self.rate(self.capacity, rate, seconds, if disturbed { 1e-3 } else { 0.0 });
                if matches!(purpose, Purpose::Latency(_)) {
                    let latency_ns = Summary {
                        count: counters.received,
                        p50: 1000,
                        p99: 2000,
                        p999: 3000,
                        ..Summary::default()
                    };
                    counters.delays = Some(Delays { latency_ns, ..Delays::default() });
                }
                counters
            }
            (_, Load::Unlimited) => self.rate(self.capacity, self.generator, seconds, 0.0),
        }
    }

    fn rate(&self, capacity: f64, rate: f64, seconds: f64, extra: f64) -> TrialCounters {
        let sent = (rate.min(self.generator) * seconds).round();
        let late = (rate * seconds).round() - sent;
        let through = sent.min((capacity * seconds).round()) * (1.0 - extra - self.leaks);
        TrialCounters {
            seconds,
            sent: sent as u64,
            late: late as u64,
            received: through as u64,
            ..TrialCounters::default()
        }
    }

    fn burst(&self, frames: u64, seconds: f64) -> TrialCounters {
        TrialCounters { seconds, sent: frames, received: frames.min(self.holds), ..TrialCounters::default() }
    }
}

fn plan(tests: &[Test]) -> Plan {
    Plan {
        tests: tests.to_vec(),
        sizes: vec![Sizes::Fixed(64)],
        loss: 0.005,
        precision: 0.01,
        trial: 1.0,
        tries: 1,
        agree: 0.5,
        rounds: 1,
        loads: vec![50.0, 100.0],
        ceiling: None,
    }
}

const ALL: [Test; 4] = [Test::Throughput, Test::Latency, Test::Loss, Test::BackToBack];

/// Runs a plan to its end.
fn run(plan: &Plan, model: &mut Model) -> TestRun {
    finish(TestRun::new(plan.clone()), |step| model.answer(step))
}

/// Runs the remaining trials; `answer` returns the counters of each.
fn finish(mut test_run: TestRun, mut answer: impl FnMut(&Step) -> TrialCounters) -> TestRun {
    while let Some(step) = test_run.next() {
        assert!(test_run.trials().len() < 5000, "the benchmark does not terminate: {step:?}");
        let counters = answer(&step);
        test_run.take(step, counters);
    }
    test_run
}

fn results(test_run: &TestRun) -> Results {
    Results::of(test_run, Setup::default(), Environment::default())
}

fn round(plan: &Plan, model: &mut Model) -> Round {
    results(&run(plan, model)).sizes[0].rounds[0].clone()
}

#[test]
fn search_finds_a_known_capacity_from_below() {
    for capacity in [10e6, 9.99e6, 3e6, 1_234_567.0, 50_000.0] {
        let round = round(&plan(&[Test::Throughput]), &mut Model::new(capacity, 10e6));
        let (ndr, pdr) = (round.ndr.unwrap(), round.pdr.unwrap());
        assert!(ndr.pps <= capacity && ndr.pps >= capacity * 0.985, "{capacity}: {ndr:?}");
        // A load half a percent above the capacity loses half a percent.
        assert!(pdr.pps <= capacity * 1.006 && pdr.pps >= ndr.pps, "{capacity}: {pdr:?}");
        assert_eq!(ndr.bound, if capacity < 10e6 { Bound::Switch } else { Bound::Generator });
        assert!(ndr.trials < 25, "{ndr:?}");
    }
}

#[test]
fn lossy_switch_has_a_pdr_but_no_ndr() {
    let mut model = Model { leaks: 0.001, ..Model::new(2e6, 10e6) };
    let round = round(&plan(&[Test::Throughput, Test::Latency]), &mut model);
    assert_eq!((round.ndr.unwrap().pps, round.ndr.unwrap().bound), (0.0, Bound::Switch));
    let pdr = round.pdr.unwrap().pps;
    assert!((1.97e6..=2.01e6).contains(&pdr), "{pdr}");
    assert!(round.latency.is_empty() && round.whole);
}

#[test]
fn generator_limit_is_a_lower_bound() {
    let ceiling = Some("10Mpps".to_owned());
    let short = Plan { ceiling, ..plan(&[Test::Throughput]) };
    let found = round(&short, &mut Model::new(f64::INFINITY, 6e6)).ndr.unwrap();
    assert_eq!(found.bound, Bound::Generator);
    assert!((5.9e6..=6e6).contains(&found.pps), "{found:?}");
    // A switch slower than the generator is the limit.
    let found = round(&short, &mut Model::new(5e6, 6e6)).ndr.unwrap();
    assert_eq!(found.bound, Bound::Switch);
    assert!((4.9e6..=5e6).contains(&found.pps), "{found:?}");
    let asked = Plan { ceiling: Some("1Mpps".to_owned()), ..plan(&[Test::Throughput]) };
    let found = round(&asked, &mut Model::new(5e6, 6e6)).ndr.unwrap();
    assert_eq!((found.bound, found.pps, found.above_pps), (Bound::Ceiling, 1e6, None));
}

#[test]
fn shortfall_below_the_precision_is_no_bound() {
    let rules =
        search::Rules { ceiling: 1e6, of_generator: false, precision: 0.01, tries: Tries::of(1, 0.5) };
    let counters =
        |sent, late| TrialCounters { seconds: 1.0, sent, late, received: sent, ..TrialCounters::default() };
    let (little, much, less) =
        (counters(997_000, 3_000), counters(950_000, 50_000), counters(950_000, 5_000));
    let found = |tried: &[search::Trials<'_>]| {
        let found = search::found(&rules, 0.0, tried).unwrap();
        (found.bound, found.pps)
    };
    assert_eq!(found(&[(1e6, &little)]), (Bound::Ceiling, 1e6));
    assert_eq!(found(&[(1e6, &much)]), (Bound::Unfinished, 950_000.0));
    assert_eq!(found(&[(1e6, &much), (955_000.0, &less)]), (Bound::Generator, 950_000.0));
}

#[test]
fn one_disturbed_try_does_not_decide() {
    let mut far = 0;
    for seed in 0..50 {
        let random = fastrand::Rng::with_seed(seed);
        let mut model = Model { disturbed: 10, random, ..Model::new(3e6, 10e6) };
        let noisy = Plan { tries: 5, ..plan(&[Test::Throughput]) };
        let ndr = round(&noisy, &mut model).ndr.unwrap().pps;
        far += usize::from(!(2.95e6..=3e6).contains(&ndr));
    }
    // Three of five tries fail by chance in one load of a hundred.
    assert!(far <= 10, "{far} of 50");
}

#[test]
fn pass_fraction_tolerates_disturbed_trials() {
    let mut far = 0;
    for seed in 0..50 {
        let random = fastrand::Rng::with_seed(seed);
        let mut model = Model { disturbed: 50, random, ..Model::new(3e6, 10e6) };
        let noisy = Plan { tries: 12, agree: 0.2, ..plan(&[Test::Throughput]) };
        let ndr = round(&noisy, &mut model).ndr.unwrap().pps;
        assert!(ndr <= 3e6, "above the capacity every trial fails: {ndr}");
        far += usize::from(ndr < 2.95e6);
    }
    // Ten of twelve tries fail by chance in two loads of a hundred.
    assert!(far <= 12, "{far} of 50");
}

#[test]
fn required_passes_follow_from_the_fraction() {
    let enough = |most, agree| Tries::of(most, agree).enough;
    assert_eq!([1, 2, 3, 4, 5].map(|most| enough(most, 0.5)), [1, 2, 2, 3, 3]);
    assert_eq!([0.0, 0.25, 0.99, 1.0].map(|agree| enough(10, agree)), [1, 3, 10, 10]);
}

#[test]
fn loss_test_steps_down_until_two_rates_lose_nothing() {
    let rows = round(&plan(&[Test::Loss]), &mut Model::new(7.5e6, 10e6)).loss;
    assert_eq!(rows.iter().map(|row| row.percent).collect::<Vec<_>>(), [100.0, 90.0, 80.0, 70.0, 60.0]);
    assert!((rows[0].loss - 0.25).abs() < 1e-6 && rows[3].loss == 0.0, "{rows:?}");
    let none = round(&plan(&[Test::Loss]), &mut Model::new(100.0, 10e6)).loss;
    assert_eq!((none.len(), none[9].percent), (10, 10.0));
}

#[test]
fn longest_burst_equals_the_buffer_of_the_switch() {
    for holds in [1000, 1, 300_000] {
        let mut model = Model { holds, ..Model::new(1e6, 1e6) };
        let row = round(&plan(&[Test::BackToBack]), &mut model).back_to_back.unwrap();
        assert!(row.frames <= holds && row.frames as f64 >= holds as f64 * 0.98, "{row:?}");
        assert_eq!(row.bound, Bound::Switch);
    }
    let mut model = Model { holds: u64::MAX, ..Model::new(1e6, 1e6) };
    let row = round(&plan(&[Test::BackToBack]), &mut model).back_to_back.unwrap();
    assert_eq!((row.frames, row.bound), (2_000_000, Bound::Generator));
}

#[test]
fn delayed_burst_fails() {
    let counters =
        TrialCounters { seconds: 1.0, sent: 64, received: 64, waits: 1, ..TrialCounters::default() };
    let rules = burst::Rules { longest: 64, precision: 0.01, tries: Tries::of(1, 0.5) };
    assert_eq!(burst::found(&rules, &[(64, &counters)]).unwrap().above, Some(64));
}

#[test]
fn latency_is_measured_at_fractions_of_the_ndr() {
    let round = round(&plan(&ALL), &mut Model::new(1e6, 10e6));
    let ndr = round.ndr.unwrap().pps;
    let asked: Vec<f64> = round.latency.iter().map(|row| row.asked_pps / ndr).collect();
    assert!((asked[0] - 0.5).abs() < 1e-3 && (asked[1] - 1.0).abs() < 1e-3, "{asked:?}");
    assert!(round.whole && round.back_to_back.is_some() && !round.loss.is_empty());
}

#[test]
fn load_reached_once_by_the_generator_does_not_pass() {
    let rules = search::Rules { ceiling: 1e6, of_generator: true, precision: 0.01, tries: Tries::of(3, 0.5) };
    let counters = |late| TrialCounters {
        seconds: 1.0,
        sent: 1_000_000 - late,
        late,
        received: 1_000_000 - late,
        ..TrialCounters::default()
    };
    let (whole, short) = (counters(0), counters(50_000));
    let tries = |counters: &[&TrialCounters]| {
        let tried: Vec<_> = counters.iter().map(|counters| (1e6, *counters)).collect();
        search::found(&rules, 0.0, &tried).map(|found| (found.pps, found.bound))
    };
    assert_eq!(tries(&[&whole, &short]), None, "a third trial is needed");
    assert_eq!(tries(&[&whole, &short, &whole]), Some((1e6, Bound::Generator)));
    assert_eq!(tries(&[&whole, &short, &short]).map(|(pps, _)| pps), Some(950_000.0));
}

#[test]
fn latency_is_not_measured_at_the_generator_limit() {
    let plan = Plan { tries: 3, ..plan(&ALL) };
    let (mut model, mut stalls) = (Model::new(20e6, 10e6), 2);
    let test_run = finish(TestRun::new(plan), |step| {
        let mut counters = model.answer(step);
        if step.purpose == Purpose::Latency(100.0) && stalls > 0 {
            stalls -= 1;
            counters.late = counters.sent / 10;
        }
        counters
    });
    let results = results(&test_run);
    let (size, ndr) = (&results.sizes[0], results.sizes[0].rounds[0].ndr.unwrap());
    assert_eq!(ndr.bound, Bound::Generator);
    let rows = &size.rounds[0].latency;
    assert_eq!(
        rows.iter().map(|row| row.load).collect::<Vec<_>>(),
        [[50.0; 3].as_slice(), &[100.0; 5]].concat()
    );
    assert!(rows.iter().all(|row| (row.asked_pps / ndr.pps - row.load / 100.0 * 0.95).abs() < 1e-3));
    assert!(size.latency().iter().all(|at| !at.short), "repeated");
    assert!(results.notes.iter().any(|note| note.contains("relative to 95 %")));
}

#[test]
fn loss_below_the_ndr_is_reported_as_noise() {
    for lossy in [false, true] {
        let mut model = Model::new(1e6, 10e6);
        let test_run = finish(TestRun::new(plan(&ALL)), |step| {
            let mut counters = model.answer(step);
            if lossy && step.purpose == Purpose::Latency(50.0) {
                counters.received -= counters.received / 100;
            }
            counters
        });
        let notes = results(&test_run).notes;
        let noisy = notes.iter().filter(|note| note.contains("below the NDR of")).count();
        assert_eq!(noisy, usize::from(lossy), "{notes:?}");
    }
}

#[test]
fn size_without_return_traffic_is_skipped_with_a_note() {
    let plan = Plan { sizes: vec![Sizes::Fixed(64), Sizes::Fixed(1518)], ..plan(&ALL) };
    let mut model = Model::new(1e6, 10e6);
    let test_run = finish(TestRun::new(plan), |step| match step {
        Step { size: 1, purpose: Purpose::Probe, .. } => {
            TrialCounters { seconds: 0.2, sent: 200, ..TrialCounters::default() }
        }
        _ => model.answer(step),
    });
    let results = results(&test_run);
    assert!(results.whole && !results.sizes[1].carried && results.sizes[0].carried);
    assert!(results.notes.iter().any(|note| note.starts_with("size 1518: no frame was forwarded")));
}

#[test]
fn search_ending_at_zero_reports_no_latency() {
    let mut model = Model { leaks: 0.001, ..Model::new(2e6, 10e6) };
    let found = results(&run(&plan(&ALL), &mut model));
    assert!(found.notes.iter().any(|note| note.contains("no NDR was found")), "{:?}", found.notes);
    assert!(!found.sizes[0].rounds[0].is_unfinished());
}

#[test]
fn results_round_trip() {
    let results = results(&run(&plan(&ALL), &mut Model::new(1e6, 10e6)));
    let text = serde_json::to_string(&results).unwrap();
    assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), results);
}

#[test]
fn plan_fields_are_validated() {
    let told = |plan: Plan| plan.validate().unwrap_err().in_one_line();
    let good = plan(&ALL);
    good.validate().unwrap();
    assert!(told(Plan { tests: vec![], ..good.clone() }).starts_with("`tests` is empty"));
    assert!(
        told(Plan { loss: 1.0, ..good.clone() }).starts_with("invalid value 100% for `loss`: expected 0%")
    );
    assert!(
        told(Plan { loads: vec![0.0], ..good.clone() }).starts_with("invalid value 0 for `loads`: expected")
    );
    assert!(told(Plan { sizes: vec![Sizes::Fixed(9)], ..good.clone() }).starts_with("`sizes`: a size of 9"));
    let twice = Plan { sizes: vec![Sizes::Fixed(64), Sizes::Fixed(64)], ..good.clone() };
    assert_eq!(told(twice), "`sizes` names 64 twice; name it once");
    assert!(
        told(Plan { ceiling: Some("max".to_owned()), ..good.clone() }).contains("max is not a finite rate")
    );
    assert!(told(Plan { precision: f64::NAN, ..good }).starts_with("invalid value NaN% for `precision`"));
}

proptest! {
    #[test]
    fn search_terminates_for_any_switch_and_generator(
        capacity in 1.0..2e7f64, generator in 1e3..2e7f64, holds in 0..10_000_000u64, disturbed in 0..100u32,
        leaks in 0.0..0.5f64, tries in 1..4u32, seed: u64,
    ) {
        let random = fastrand::Rng::with_seed(seed);
        let mut model = Model { holds, disturbed, leaks, random, ..Model::new(capacity, generator) };
        let plan = Plan { tries, ..plan(&ALL) };
        let test_run = run(&plan, &mut model);
        let round = &results(&test_run).sizes[0].rounds[0];
        if let Some(found) = round.ndr {
            prop_assert!(found.bound != Bound::Unfinished);
            prop_assert!(found.pps <= generator * 1.001 + 1.0);
            prop_assert!(found.above_pps.is_none_or(|above| above > found.pps));
        }
    }
}
