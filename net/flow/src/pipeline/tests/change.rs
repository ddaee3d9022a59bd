//! Order of changes by several callers, settings of tables, and counters of groups.

use super::*;
use crate::action::Bucket;
use crate::modify::{GroupCommand, GroupKind, GroupMod};
use crate::tables::TableConfig;

fn delete(matching: &Match) -> Modification {
    Modification::Flow(Box::new(FlowMod::new(FlowCommand::Delete, matching, 0)))
}

#[test]
fn recorded_changes_precede_those_of_the_next_caller() {
    let lab = Lab::new(&[]);
    let record = |change: Modification| lab.switch.modify_recorded("br0", &[change], lab.now).unwrap();
    record(flow(1, &by_port(1), vec![]));
    record(flow(2, &by_port(2), vec![]));
    let (earlier, done) = lab.switch.modify_after("br0", &[delete(&by_port(1))], lab.now);
    assert_eq!((earlier.added.len(), done.unwrap().removed.len()), (2, 1));
    let (earlier, done) = lab.switch.modify_after("br0", &[delete(&by_port(2))], lab.now);
    assert!(earlier.is_empty() && done.is_ok(), "returned once");
    record(flow(3, &by_port(3), vec![]));
    let (earlier, tables) = lab.switch.synchronize("br0").unwrap();
    assert_eq!((earlier.added.len(), tables.len(TableId(0))), (1, 1));
    assert!(lab.switch.take_recorded().is_empty());
    record(delete(&Match::any()));
    let [(name, changes)] = &lab.switch.take_recorded()[..] else { panic!() };
    assert_eq!((name.as_str(), changes.removed.len()), ("br0", 1));
}

#[test]
fn expired_flows_follow_recorded_changes() {
    let lab = Lab::new(&[]);
    let mut change = FlowMod::new(FlowCommand::Add, &by_port(1), 1);
    change.hard_timeout = 1;
    lab.switch.modify_recorded("br0", &[Modification::Flow(Box::new(change))], lab.now).unwrap();
    let (changed, _) = lab.switch.expire(Now(lab.now.0 + 2_000_000_000));
    let [(_, changes)] = &changed[..] else { panic!() };
    assert_eq!((changes.added.len(), changes.removed.len()), (1, 1));
}

#[test]
fn a_full_table_evicts_if_it_is_configured_so() {
    let lab = Lab::new(&[flow(1, &by_port(1), vec![]), flow(2, &by_port(2), vec![])]);
    let add = || lab.switch.modify("br0", &[flow(3, &by_port(3), vec![])], lab.now);
    let configure = |eviction| {
        let config = TableConfig { limit: 2, eviction };
        lab.switch.configure_tables("br0", &[(TableId(0), config)]).unwrap();
    };
    configure(false);
    assert!(add().is_err());
    configure(true);
    assert_eq!(add().unwrap().removed.len(), 1);
    lab.switch.limit_flows("br0", 1).unwrap();
    let other = in_table(1, 1, &by_port(1), Instructions::default());
    lab.switch.modify("br0", &[other], lab.now).unwrap();
    let next = in_table(1, 1, &by_port(2), Instructions::default());
    assert!(lab.switch.modify("br0", &[next], lab.now).is_err());
}

#[test]
fn groups_and_their_buckets_are_counted() {
    let bucket =
        |id| Bucket { id, weight: 1, watch_port: None, watch_group: None, actions: vec![output(id)] };
    let group = |id, kind| {
        let buckets = vec![bucket(2), bucket(3)];
        Modification::Group(GroupMod { command: GroupCommand::Add, kind, id, buckets })
    };
    let mut lab = Lab::new(&[
        group(1, GroupKind::All),
        group(2, GroupKind::Select),
        flow(1, &by_port(1), vec![Action::Group(1), Action::Group(2)]),
    ]);
    let frame = udp(1, 2, (1, 1), 9);
    lab.send(0, &[frame.clone(), frame]);
    lab.worker.tick(Now(lab.now.0 + 20_000_000)).expect("another sweep");
    let tables = lab.switch.tables("br0").unwrap();
    let [all, select] = [1, 2].map(|id| tables.group(id).unwrap());
    assert_eq!((all.counter().counts(), select.counter().counts()), ((2, 120), (2, 120)));
    let buckets = [0, 1].map(|at| all.bucket_counter(at).unwrap().counts());
    assert_eq!(buckets, [(2, 120); 2]);
    let mut buckets = [0, 1].map(|at| select.bucket_counter(at).unwrap().counts());
    buckets.sort_unstable();
    assert_eq!(buckets, [(0, 0), (2, 120)], "both packets have one hash");
}
