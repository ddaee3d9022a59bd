//! Changes of flows, groups and meters.

use super::actions::{actions, instructions};
use super::matching::{matches, ports};
use flow::{
    Band, Bucket, BucketPlace, FlowCommand, FlowFlags, FlowMod, GroupCommand, GroupKind, GroupMod,
    MeterFlags, TableId,
};
use openflow::*;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use std::time::Duration;

pub(super) fn flags(version: Version) -> BoxedStrategy<FlowFlags> {
    any::<[bool; 5]>()
        .prop_map(move |[send_removed, check_overlap, reset, packets, bytes]| FlowFlags {
            send_removed,
            check_overlap,
            reset_counts: reset && version > Version::V10,
            no_packet_counts: packets && version > Version::V10,
            no_byte_counts: bytes && version > Version::V10,
        })
        .boxed()
}

pub(super) fn flow_mod(version: Version) -> BoxedStrategy<Message> {
    let commands = vec![
        FlowCommand::Add,
        FlowCommand::Modify,
        FlowCommand::ModifyStrict,
        FlowCommand::Delete,
        FlowCommand::DeleteStrict,
    ];
    let numbers = (any::<[u16; 4]>(), any::<[u64; 2]>(), any::<u8>(), of(0..100_u32), of(any::<u16>()));
    (select(commands), matches(), numbers, of(ports()), flags(version), instructions(version))
        .prop_map(move |(command, matching, numbers, out_port, flags, instructions)| {
            let ([priority, idle, hard, importance], [cookie, cookie_mask], table, group, buffer) = numbers;
            let is_delete = matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict);
            let is_old = version == Version::V10;
            let table = match (is_old, command) {
                (true, FlowCommand::Add) => 0,
                (true, _) => 255,
                _ => table,
            };
            let flow = FlowMod {
                command,
                table: TableId(table),
                matching,
                priority,
                cookie,
                cookie_mask,
                idle_timeout: idle,
                hard_timeout: hard,
                out_port: out_port.filter(|_| is_delete),
                out_group: group.filter(|_| is_delete && !is_old),
                flags,
                importance: if version >= Version::V14 { importance } else { 0 },
                instructions,
            };
            Message::FlowMod(Box::new(FlowModRequest { flow, buffer: buffer.map(u32::from) }))
        })
        .boxed()
}

pub(super) fn buckets(version: Version) -> BoxedStrategy<Vec<Bucket>> {
    let bucket = (any::<u32>(), any::<u16>(), of(ports()), of(0..9_u32), actions(version));
    vec(bucket, 0..4)
        .prop_map(move |buckets| {
            let is_positional = matches!(version, Version::V13 | Version::V14);
            let number = |id, position| if is_positional { position } else { id };
            let numbered = (0..).zip(buckets);
            numbered
                .map(|(position, (id, weight, watch_port, watch_group, actions))| Bucket {
                    id: number(id, position),
                    weight,
                    watch_port,
                    watch_group,
                    actions,
                })
                .collect()
        })
        .boxed()
}

pub(super) fn kinds() -> BoxedStrategy<GroupKind> {
    select(vec![GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover]).boxed()
}

pub(super) fn group_mod(version: Version) -> BoxedStrategy<Message> {
    let mut commands = vec![GroupCommand::Add, GroupCommand::Modify, GroupCommand::Delete];
    if matches!(version, Version::V10 | Version::V15) {
        let places = [BucketPlace::First, BucketPlace::Last, BucketPlace::Bucket(7)];
        commands.extend(places.map(GroupCommand::InsertBuckets));
        commands.extend(places.map(GroupCommand::RemoveBuckets));
        commands.push(GroupCommand::RemoveBuckets(BucketPlace::All));
    }
    (select(commands), kinds(), any::<u32>(), buckets(version))
        .prop_map(|(command, kind, id, mut buckets)| {
            if matches!(command, GroupCommand::RemoveBuckets(_)) {
                buckets.clear();
            }
            Message::GroupMod(GroupMod { command, kind, id, buckets })
        })
        .boxed()
}

pub(super) fn meter() -> BoxedStrategy<(MeterFlags, u32, Vec<Band>)> {
    let band =
        (any::<[u32; 2]>(), of(any::<u8>())).prop_map(|([rate, burst], remark)| Band { rate, burst, remark });
    let flags = any::<[bool; 3]>().prop_map(|[packets, burst, stats]| MeterFlags { packets, burst, stats });
    (flags, any::<u32>(), vec(band, 0..4)).boxed()
}

pub(super) fn durations() -> BoxedStrategy<Duration> {
    (any::<u32>(), 0..1_000_000_000_u32)
        .prop_map(|(seconds, nanos)| Duration::new(u64::from(seconds), nanos))
        .boxed()
}
