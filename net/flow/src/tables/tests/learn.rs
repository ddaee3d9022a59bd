//! State of the tables for `learn` actions.

use super::*;
use crate::action::Learn;
use crate::tables::{Control, LearnedFlow, Modification};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const LEARNED: TableId = TableId(1);

fn learn(cookie: u64, limit: u32, deletes: bool) -> Learn {
    Learn {
        table: LEARNED,
        priority: 1,
        cookie,
        idle_timeout: 0,
        hard_timeout: 0,
        fin_idle_timeout: 0,
        fin_hard_timeout: 0,
        flags: if deletes { 2 } else { 0 },
        limit,
        result: None,
        specs: Vec::new(),
    }
}

fn learning(n: u32, learn: Learn) -> FlowMod {
    FlowMod { instructions: apply(&[Action::Learn(Box::new(learn))]), ..add(port(n), 1) }
}

/// The `learn` actions of all flows.
fn actions(tables: &Tables) -> Vec<Learn> {
    let actions = tables.flows(TABLE).flat_map(|flow| flow.instructions().apply.clone());
    let learn =
        actions.filter_map(|action| if let Action::Learn(learn) = action { Some(*learn) } else { None });
    learn.collect()
}

fn learned(tables: &Tables, cookie: u64) -> usize {
    tables.flows(LEARNED).filter(|flow| flow.entry().cookie() == cookie).count()
}

fn deleting(tables: &Tables) -> BTreeSet<u64> {
    actions(tables).into_iter().filter(|learn| learn.flags == 2).map(|learn| learn.cookie).collect()
}

/// Flows and actions of each limit, counted one by one.
fn limits(tables: &Tables) -> BTreeMap<(u64, u32), (usize, usize)> {
    let mut limits = BTreeMap::new();
    for learn in actions(tables).into_iter().filter(|learn| learn.limit > 0) {
        let new = || (learned(tables, learn.cookie), 0);
        limits.entry((learn.cookie, learn.limit)).or_insert_with(new).1 += 1;
    }
    limits
}

fn change_of((kind, n, cookie, limit, deletes): (u8, u32, u64, u32, bool)) -> Vec<FlowMod> {
    let learner = learning(n, learn(cookie, limit, deletes));
    let target = FlowMod { table: LEARNED, cookie, ..add(port(n), 1) };
    match kind {
        0 => vec![learner],
        1 => vec![FlowMod { command: FlowCommand::DeleteStrict, ..learner }],
        2 => vec![FlowMod { command: FlowCommand::Modify, ..add(port(n), 1) }],
        3 => vec![target],
        4 => vec![FlowMod { command: FlowCommand::DeleteStrict, ..target }],
        // All or none: there is no port 0.
        _ => vec![learner, target, FlowMod { instructions: apply(&[output(0)]), ..add(port(n), 1) }],
    }
}

proptest! {
    #[test]
    fn counts_agree_with_the_flows(
        steps in prop::collection::vec((0..6_u8, 1..4_u32, 1..3_u64, 0..3_u32, any::<bool>()), 1..60),
    ) {
        let mut control = Control::new(1);
        for step in steps {
            let before = deleting(control.tables());
            let changes = change_of(step).into_iter().map(|change| Modification::Flow(Box::new(change)));
            let changes: Vec<_> = changes.collect();
            prop_assert_eq!(control.bundle(&changes, now(0)).is_ok(), step.0 < 5);
            let tables = control.tables();
            for cookie in before.difference(&deleting(tables)) {
                prop_assert_eq!(learned(tables, *cookie), 0);
            }
            let counted = tables.limits.iter().map(|((_, cookie, limit), of)| ((*cookie, *limit), (of.flows, of.users)));
            prop_assert_eq!(counted.collect::<BTreeMap<_, _>>(), limits(tables));
        }
    }
}

#[test]
fn a_learned_flow_is_as_old_as_its_packet_and_older_packets_do_not_replace_it() {
    let mut control = Control::new(1);
    let flow = |number, seconds| {
        let instructions = apply(&[output(number)]);
        let flow = FlowMod { hard_timeout: seconds, instructions, ..add(port(1), 1) };
        LearnedFlow { flow, limit: 0, parent: None }
    };
    assert_eq!(control.learn(&flow(1, 10), now(5), now(8)).unwrap().added.len(), 1);
    assert!(control.learn(&flow(2, 10), now(4), now(9)).unwrap().is_empty());
    assert_eq!(control.learn(&flow(2, 10), now(6), now(9)).unwrap().added.len(), 1);
    assert!(control.learn(&flow(2, 10), now(12), now(13)).unwrap().is_empty(), "refreshed");
    assert!(control.expire(now(21)).is_empty());
    assert_eq!(control.expire(now(22)).removed.len(), 1);
}
