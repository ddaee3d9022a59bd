//! Groups, meters and bundles.

use super::*;
use crate::action::Bucket;
use crate::modify::{Band, GroupCommand, GroupKind, GroupMod, MeterCommand, MeterFlags, MeterMod};
use crate::tables::{
    ActionError, Control, GroupModError, MeterModError, Modification, ModificationError, RemovedReason,
};

fn bucket(id: u32, weight: u16, actions: &[Action]) -> Bucket {
    Bucket { id, weight, watch_port: None, watch_group: None, actions: actions.to_vec() }
}

fn group(command: GroupCommand, id: u32, actions: &[Action]) -> GroupMod {
    GroupMod { command, kind: GroupKind::All, id, buckets: vec![bucket(0, 0, actions)] }
}

pub(super) fn add_group(tables: &mut Tables, id: u32, actions: &[Action]) {
    tables.apply_group(&group(GroupCommand::Add, id, actions)).unwrap();
}

fn meter(command: MeterCommand, id: u32) -> MeterMod {
    let bands = vec![Band { rate: 10, burst: 0, remark: None }];
    MeterMod { command, flags: MeterFlags::default(), id, bands }
}

#[test]
fn groups_are_added_modified_and_deleted_with_their_flows() {
    let mut tables = Tables::new(1);
    let unknown = tables.apply_group(&group(GroupCommand::Modify, 1, &[])).unwrap_err();
    assert_eq!(unknown, GroupModError::Unknown(1));
    add_group(&mut tables, 1, &[output(1)]);
    let exists = tables.apply_group(&group(GroupCommand::Add, 1, &[])).unwrap_err();
    assert_eq!(exists, GroupModError::Exists(1));
    for (i, action) in
        [Action::Group(1), output(1), Action::Clone([Action::Group(1)].into())].iter().enumerate()
    {
        let instructions = apply(std::slice::from_ref(action));
        tables.apply(&FlowMod { instructions, ..add(port(i as u32), i as u16) }, now(0)).unwrap();
    }
    let changes = tables.apply_group(&group(GroupCommand::Delete, 1, &[])).unwrap();
    assert_eq!(priorities(&tables), [1]);
    assert!(changes.removed.iter().all(|removed| removed.reason == RemovedReason::GroupDelete));
    assert!(tables.group(1).is_none());
    tables.apply_group(&group(GroupCommand::Delete, 1, &[])).unwrap();
}

#[test]
fn loops_and_deletions_of_chained_groups_are_refused() {
    let mut tables = Tables::new(1);
    let own = tables.apply_group(&group(GroupCommand::Add, 1, &[Action::Group(1)])).unwrap_err();
    assert_eq!(own, GroupModError::Loop(1));
    add_group(&mut tables, 1, &[output(1)]);
    add_group(&mut tables, 2, &[Action::Group(1)]);
    let missing = tables.apply_group(&group(GroupCommand::Add, 3, &[Action::Group(9)])).unwrap_err();
    assert_eq!(missing, ActionError::OutGroup(9).into());
    let around = tables.apply_group(&group(GroupCommand::Modify, 1, &[Action::Group(2)])).unwrap_err();
    assert_eq!(around, GroupModError::Loop(1));
    let chained = tables.apply_group(&group(GroupCommand::Delete, 1, &[])).unwrap_err();
    assert_eq!(chained, GroupModError::Chained(1));
    tables.apply_group(&group(GroupCommand::Delete, 0xffff_fffc, &[])).unwrap();
    assert_eq!(tables.groups().count(), 0);
}

#[test]
fn kinds_of_groups_have_their_rules() {
    let mut tables = Tables::new(1);
    let mut change = group(GroupCommand::Add, 1, &[output(1)]);
    change.kind = GroupKind::Indirect;
    change.buckets.push(bucket(1, 0, &[]));
    assert!(matches!(tables.apply_group(&change), Err(GroupModError::Invalid(1, _))));
    change.kind = GroupKind::FastFailover;
    assert!(matches!(tables.apply_group(&change), Err(GroupModError::Invalid(1, _))));
    change.kind = GroupKind::All;
    change.id = 0xffff_ff01;
    assert!(matches!(tables.apply_group(&change), Err(GroupModError::Invalid(..))));
}

#[test]
fn a_select_group_follows_the_weights_and_moves_few_flows() {
    let mut tables = Tables::new(1);
    let mut change = group(GroupCommand::Add, 1, &[]);
    change.kind = GroupKind::Select;
    change.buckets = [(0, 1), (1, 3), (2, 4), (3, 0)].map(|(id, weight)| bucket(id, weight, &[])).to_vec();
    tables.apply_group(&change).unwrap();
    let group = tables.group(1).unwrap();
    let all = group.slots(&[0, 1, 2, 3]);
    let share = |i: u16| all.iter().filter(|slot| **slot == i).count();
    // Expected 32, 96 and 128 of 256, with a standard deviation of at most 8.
    assert!((8..=64).contains(&share(0)) && (60..=132).contains(&share(1)), "{} {}", share(0), share(1));
    assert!((90..=166).contains(&share(2)) && share(3) == 0);
    let without = group.slots(&[0, 2, 3]);
    assert!(all.iter().zip(&without).all(|(old, new)| *old == 1 || old == new));
    assert!(group.slots(&[3]).is_empty());
}

#[test]
fn meters_are_deleted_with_their_flows() {
    let mut tables = Tables::new(1);
    assert_eq!(
        tables.apply_meter(&meter(MeterCommand::Modify, 1), now(0)).unwrap_err(),
        MeterModError::Unknown(1)
    );
    assert_eq!(
        tables.apply_meter(&meter(MeterCommand::Add, 0), now(0)).unwrap_err(),
        MeterModError::Invalid(0)
    );
    tables.apply_meter(&meter(MeterCommand::Add, 1), now(0)).unwrap();
    assert_eq!(
        tables.apply_meter(&meter(MeterCommand::Add, 1), now(0)).unwrap_err(),
        MeterModError::Exists(1)
    );
    let mut rate = meter(MeterCommand::Modify, 1);
    rate.bands[0].rate = 0;
    assert_eq!(tables.apply_meter(&rate, now(0)).unwrap_err(), MeterModError::Rate(1));
    let instructions = Instructions { meter: Some(1), ..Instructions::default() };
    tables.apply(&FlowMod { instructions, ..add(port(1), 1) }, now(0)).unwrap();
    tables.apply(&add(port(2), 2), now(0)).unwrap();
    let changes = tables.apply_meter(&meter(MeterCommand::Delete, 0xffff_ffff), now(0)).unwrap();
    assert_eq!(changes.removed[0].reason, RemovedReason::MeterDelete);
    assert_eq!(priorities(&tables), [2]);
}

#[test]
fn a_bundle_is_applied_completely_or_not_at_all() {
    let mut control = Control::new(1);
    let flow = |i: u16| Modification::Flow(Box::new(add(port(i.into()), i)));
    control.apply(&flow(1), now(0)).unwrap();
    let before = control.seal();
    let bad = Modification::Group(group(GroupCommand::Modify, 9, &[]));
    let delete = Modification::Flow(Box::new(change(FlowCommand::Delete, Match::any(), 0)));
    let (i, error) = control.bundle(&[delete.clone(), flow(2), bad], now(0)).unwrap_err();
    assert_eq!((i, error), (2, ModificationError::Group(GroupModError::Unknown(9))));
    assert_eq!(priorities(control.tables()), [1]);
    let changes = control.bundle(&[delete, flow(2)], now(0)).unwrap();
    assert_eq!((changes.removed.len(), changes.added.len()), (1, 1));
    assert_eq!((priorities(&before), priorities(&control.seal())), (vec![1], vec![2]));
}
