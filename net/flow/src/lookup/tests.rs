//! Classifiers with rule sets of many masks against a scan.

use crate::classbench::{Family, Trace, rules};
use crate::tables::{Flow, FlowModError, Tables};
use crate::{FlowCommand, FlowMod, Key, Match, TableId};
use port::Now;

const TABLE: TableId = TableId(0);

fn apply(tables: &mut Tables, command: FlowCommand, rules: &[(Match, u16)]) {
    for rule in rules {
        tables.apply(&FlowMod::new(command, &rule.0, rule.1), Now(0)).unwrap();
    }
}

/// Match and priority.
fn rule(flow: &Flow) -> (Match, u16) {
    (flow.entry().matching(), flow.entry().priority())
}

/// Finds each packet as a scan does, also if it has the bits of another one that the answer does not depend on.
fn agrees_with_a_scan(tables: &Tables, trace: &Trace) {
    let packets: Vec<_> = trace.packets().collect();
    for (key, other) in packets.iter().zip(packets.iter().rev()) {
        let mut bits = Key::ZERO;
        let found = tables.find(TABLE, key, &mut bits).map(rule);
        let mixed = Key(std::array::from_fn(|i| key.0[i] & bits.0[i] | other.0[i] & !bits.0[i]));
        for key in [**key, mixed] {
            let selecting = tables.flows(TABLE).filter(|flow| flow.entry().selects(&key));
            let best = selecting.max_by_key(|flow| flow.entry().priority()).map(rule);
            assert_eq!(found, best, "{key:?} in {bits:?}");
        }
    }
}

#[test]
fn rule_sets_with_merged_masks_agree_with_a_scan() {
    for family in Family::ALL {
        let rules = rules(family, 2000, 7);
        let trace = Trace::new(&rules, 200, 200, 0.0, 8);
        let mut tables = Tables::new(9);
        apply(&mut tables, FlowCommand::Add, &rules);
        let snapshot = tables.seal();
        let (masks, subtables) = (tables.masks(TABLE), tables.subtables(TABLE));
        assert!(subtables < masks, "{family:?}: {subtables} subtables of {masks} masks");
        agrees_with_a_scan(&tables, &trace);
        // Every second one, in an order in which masks disappear at once.
        let mut removed: Vec<_> = rules.iter().step_by(2).copied().collect();
        removed.sort_by_key(|(matching, _)| format!("{:?}", matching.mask()));
        apply(&mut tables, FlowCommand::DeleteStrict, &removed);
        assert_eq!(tables.len(TABLE), rules.len() - removed.len());
        agrees_with_a_scan(&tables, &trace);
        agrees_with_a_scan(&snapshot, &trace);
        apply(&mut tables, FlowCommand::Add, &removed);
        agrees_with_a_scan(&tables, &trace);
        apply(&mut tables, FlowCommand::Delete, &[(Match::any(), 0)]);
        assert_eq!((tables.len(TABLE), tables.masks(TABLE), tables.subtables(TABLE)), (0, 0, 0));
        assert_eq!(snapshot.len(TABLE), rules.len());
    }
}

#[test]
fn changes_find_flows_in_shared_subtables() {
    let rules = rules(Family::IpChain, 1000, 1);
    let mut tables = Tables::new(2);
    apply(&mut tables, FlowCommand::Add, &rules);
    for rule in &rules {
        let covered = rules.iter().filter(|(other, _)| rule.0.covers(other)).count();
        for (command, expected) in [(FlowCommand::ModifyStrict, 1), (FlowCommand::Modify, covered)] {
            let modified = tables.apply(&FlowMod::new(command, &rule.0, rule.1), Now(0)).unwrap().modified;
            assert_eq!(modified.len(), expected);
        }
        let mut overlapping = FlowMod::new(FlowCommand::Add, &rule.0, rule.1);
        overlapping.flags.check_overlap = true;
        assert_eq!(tables.apply(&overlapping, Now(0)).unwrap_err(), FlowModError::Overlap);
        let elsewhere = FlowMod::new(FlowCommand::ModifyStrict, &rule.0, rule.1 ^ 1);
        assert!(tables.apply(&elsewhere, Now(0)).unwrap().modified.is_empty());
    }
}
