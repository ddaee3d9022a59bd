use super::blocks::order;
use super::*;
use crate::factors::find;

/// Returns a configuration with a small pool, for a fast test.
fn small(name: &str) -> Named {
    let mut named = find(name).expect("it is listed");
    named.config.pool = 1024;
    named
}

#[test]
fn each_block_has_every_configuration_once_in_a_different_order() {
    let orders: Vec<_> = (0..30).map(|block| order(9, block, 8)).collect();
    for order in &orders {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..8).collect::<Vec<_>>());
    }
    assert_eq!(orders[4], order(9, 4, 8));
    assert!(orders.windows(2).any(|pair| pair[0] != pair[1]));
    let first: std::collections::BTreeSet<_> = orders.iter().map(|order| order[0]).collect();
    assert!(first.len() > 4, "the same ones come first: {first:?}");
}

#[test]
fn controls_are_added_once_and_the_base_comes_first() {
    let all = with_controls(&[small("a"), small("base"), small("demote")], &Processor::here());
    let names: Vec<_> = all.iter().map(|named| named.name.as_str()).collect();
    assert_eq!(names[..2], ["base", "a"]);
    assert_eq!(names.iter().filter(|name| **name == "demote").count(), 1);
    assert!(names.contains(&BASE_AGAIN));
}

#[test]
fn an_unmeasurable_request_is_refused_before_the_first_run() {
    let mut nothing = |_: usize, _: usize, _: &str| unreachable!("nothing runs");
    let plan = Plan { rounds: 2, ..Plan::default() };
    assert!(matches!(run(&plan, &mut nothing), Err(TrialError::TooFewRounds(2))));
    let plan = Plan { configurations: vec![small("f")], ..Plan::default() };
    assert!(matches!(run(&plan, &mut nothing), Err(TrialError::Missing(_))));
    let plan = Plan { slice: Duration::ZERO, ..Plan::default() };
    assert!(matches!(run(&plan, &mut nothing), Err(TrialError::Slice(_))));
}
