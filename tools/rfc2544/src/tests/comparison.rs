//! Comparison of two results.

use super::*;
use crate::compare::{Finding, compare};

/// Eight rounds of a switch whose capacity varies by a few percent.
fn rounds(capacity: f64, seed: u64) -> Results {
    let plan = Plan { rounds: 8, ..plan(&[Test::Throughput]) };
    let mut random = fastrand::Rng::with_seed(seed);
    let mut model = Model::new(capacity, 10e6);
    let mut of = 0;
    let test_run = finish(TestRun::new(plan), |step| {
        if step.round != of {
            of = step.round;
            model.capacity = capacity * (0.98 + 0.04 * random.f64());
        }
        model.answer(step)
    });
    results(&test_run)
}

#[test]
fn significant_difference_is_detected() {
    let ndr = |a: &Results, b: &Results| {
        let comparison = compare(a, b).unwrap();
        comparison.figures.into_iter().find(|figure| figure.what == "NDR").unwrap()
    };
    let twice = ndr(&rounds(1e6, 1), &rounds(2e6, 2));
    assert_eq!((twice.finding, twice.rounds), (Finding::Differs, (8, 8)));
    let found = twice.interval.unwrap();
    assert!(found.low > 1.9 && found.high < 2.1 && (twice.ratio.unwrap() - 2.0).abs() < 0.1, "{twice:?}");
    assert_eq!(ndr(&rounds(1e6, 1), &rounds(1e6, 9)).finding, Finding::ByChance);
    let mut few = rounds(1e6, 1);
    few.sizes[0].rounds.truncate(3);
    assert_eq!(ndr(&few, &rounds(2e6, 2)).finding, Finding::TooFewRounds);
    assert!(ndr(&rounds(1e6, 1), &rounds(10e6, 2)).bounded.b);
}

#[test]
fn results_of_other_topologies_and_sizes_are_not_compared() {
    let a = rounds(1e6, 1);
    let mut b = a.clone();
    b.setup.topology = Topology::Loop;
    b.plan.sizes = vec![Sizes::Fixed(128)];
    let told = compare(&a, &b).unwrap_err().to_string();
    assert!(told.contains("topology is \"vm-vm\" in A and \"loop\" in B"), "{told}");
    assert!(told.contains("sizes is [64] in A and [128] in B"), "{told}");
}
