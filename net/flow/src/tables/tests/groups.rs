//! Groups, meters and bundles.

use super::*;
use crate::action::Bucket;
use crate::modify::{
    Band, BucketPlace, GroupCommand, GroupKind, GroupMod, MeterCommand, MeterFlags, MeterMod,
};
use crate::tables::{
    ActionError, Control, GroupModError, MeterModError, Modification, ModificationError, RemovedReason,
    limits,
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
fn buckets_are_inserted_and_removed_at_their_places() {
    let mut tables = Tables::new(1);
    let change = |command, ids: &[u32]| GroupMod {
        buckets: ids.iter().map(|id| bucket(*id, 0, &[output(*id)])).collect(),
        ..group(command, 1, &[])
    };
    let insert = |at, ids: &[u32]| change(GroupCommand::InsertBuckets(at), ids);
    let remove = |at| change(GroupCommand::RemoveBuckets(at), &[]);
    let unknown = tables.apply_group(&insert(BucketPlace::First, &[1])).unwrap_err();
    assert_eq!(unknown, GroupModError::Unknown(1));
    tables.apply_group(&GroupMod { kind: GroupKind::Select, ..change(GroupCommand::Add, &[3]) }).unwrap();
    for (change, expected) in [
        (insert(BucketPlace::Last, &[5, 6]), &[3, 5, 6][..]),
        (insert(BucketPlace::First, &[1]), &[1, 3, 5, 6]),
        (insert(BucketPlace::Bucket(3), &[4]), &[1, 3, 4, 5, 6]),
        (remove(BucketPlace::First), &[3, 4, 5, 6]),
        (remove(BucketPlace::Last), &[3, 4, 5]),
        (remove(BucketPlace::Bucket(4)), &[3, 5]),
        (remove(BucketPlace::All), &[]),
        (remove(BucketPlace::First), &[]),
        (insert(BucketPlace::First, &[7]), &[7]),
    ] {
        tables.apply_group(&change).unwrap();
        let group = tables.group(1).unwrap();
        let ids: Vec<_> = group.buckets().iter().map(|bucket| bucket.id).collect();
        assert_eq!((&ids[..], group.kind()), (expected, GroupKind::Select), "{:?}", change.command);
    }
    let missing = tables.apply_group(&remove(BucketPlace::Bucket(4))).unwrap_err();
    assert_eq!(missing, GroupModError::UnknownBucket(1, 4));
    let twice = tables.apply_group(&insert(BucketPlace::Last, &[7])).unwrap_err();
    assert_eq!(twice, GroupModError::BucketExists(1));
}

#[test]
fn counters_of_a_group_outlive_its_modification() {
    let mut tables = Tables::new(1);
    let change = |command, ids: &[u32]| GroupMod {
        buckets: ids.iter().map(|id| bucket(*id, 0, &[])).collect(),
        ..group(command, 1, &[])
    };
    tables.apply_group(&change(GroupCommand::Add, &[1, 2])).unwrap();
    let before = tables.group(1).unwrap().clone();
    tables.apply_group(&change(GroupCommand::Modify, &[2, 3])).unwrap();
    // A worker that has not taken the newest tables counts on the old group.
    before.counter().add(1, 60);
    before.bucket_counter(1).unwrap().add(1, 60);
    let after = tables.group(1).unwrap();
    let counts = |position| after.bucket_counter(position).unwrap().counts();
    assert_eq!((after.counter().counts(), counts(0), counts(1)), ((1, 60), (1, 60), (0, 0)));
}

#[test]
fn memory_of_all_groups_is_bounded() {
    let mut tables = Tables::new(1);
    let large = |id| GroupMod {
        kind: GroupKind::Select,
        buckets: (0..limits::BUCKETS as u32).map(|id| bucket(id, 1, &[])).collect(),
        ..group(GroupCommand::Add, id, &[])
    };
    let added = (1..1000).take_while(|id| tables.apply_group(&large(*id)).is_ok()).count() as u32;
    assert!((200..250).contains(&added), "{added} groups of 256 KiB and their buckets");
    let refused = tables.apply_group(&large(added + 1)).unwrap_err();
    assert_eq!(refused, GroupModError::OutOfBuckets(added + 1));
    // A modification takes the place of the group.
    tables.apply_group(&GroupMod { command: GroupCommand::Modify, ..large(1) }).unwrap();
    tables.apply_group(&group(GroupCommand::Delete, 2, &[])).unwrap();
    tables.apply_group(&large(added + 1)).unwrap();
    tables.apply_group(&group(GroupCommand::Delete, 0xffff_fffc, &[])).unwrap();
    assert_eq!(tables.group_bytes, 0);
}

#[test]
fn groups_that_use_each_other_in_many_ways_are_checked_in_bounded_time() {
    let mut tables = Tables::new(1);
    add_group(&mut tables, 1, &[output(1)]);
    for id in 2..=limits::CHAIN as u32 {
        // 256 buckets each: 256^15 paths lead to group 1.
        let next = |at| bucket(at, 0, &[Action::Group(id - 1)]);
        let buckets = (0..limits::BUCKETS as u32).map(next).collect();
        tables.apply_group(&GroupMod { buckets, ..group(GroupCommand::Add, id, &[]) }).unwrap();
    }
    let around = tables.apply_group(&group(GroupCommand::Modify, 1, &[Action::Group(limits::CHAIN as u32)]));
    assert_eq!(around.unwrap_err(), GroupModError::Loop(1));
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
#[ignore = "slow; run by `cargo xtask test --all`"]
fn a_bundle_with_too_much_work_is_refused_as_a_whole() {
    let mut control = Control::new(1);
    let flows = 1 << 12;
    let flow = |i: u32| Modification::Flow(Box::new(add(port(i), 1)));
    control.bundle(&(0..flows).map(flow).collect::<Vec<_>>(), now(0)).unwrap();
    let modify = FlowMod { cookie: 7, ..change(FlowCommand::Modify, Match::any(), 0) };
    let modify = vec![Modification::Flow(Box::new(modify)); 2 * limits::WORK / flows as usize];
    let (i, error) = control.bundle(&modify, now(0)).unwrap_err();
    assert_eq!((i, error), (limits::WORK.div_ceil(flows as usize + 2), ModificationError::Work));
    let strict = FlowMod { command: FlowCommand::ModifyStrict, ..change(FlowCommand::Modify, port(1), 1) };
    let strict = vec![Modification::Flow(Box::new(strict)); 10_000];
    assert_eq!(control.bundle(&strict, now(0)).unwrap().modified.len(), 10_000, "each looks at one flow");
}

#[test]
fn a_bundle_with_an_invalid_packet_is_refused_as_a_whole() {
    let mut control = Control::new(1);
    let packet = Modification::Packet([Action::Group(1)].into());
    let add = Modification::Group(group(GroupCommand::Add, 1, &[output(1)]));
    let (i, error) = control.bundle(&[packet.clone(), add.clone()], now(0)).unwrap_err();
    assert_eq!((i, error), (0, ModificationError::Packet(ActionError::OutGroup(1))));
    assert!(control.tables().group(1).is_none());
    control.bundle(&[add, packet], now(0)).unwrap();
    assert!(control.tables().group(1).is_some());
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
