//! Changes of flows, groups and meters.

use super::{MAX_GROUP, any_actions, any_instructions, any_match, any_port, any_table};
use crate::{
    Band, Bucket, FlowCommand, FlowFlags, FlowMod, GroupCommand, GroupKind, GroupMod, MeterCommand,
    MeterFlags, MeterMod, PortNo, TableId,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// `OFPM_MAX`.
const MAX_METER: u32 = 0xffff_0000;

fn flags() -> impl Strategy<Value = FlowFlags> {
    any::<[bool; 5]>().prop_map(
        |[send_removed, check_overlap, reset_counts, no_packet_counts, no_byte_counts]| FlowFlags {
            send_removed,
            check_overlap,
            reset_counts,
            no_packet_counts,
            no_byte_counts,
        },
    )
}

/// Flows to add.
pub fn any_flow() -> impl Strategy<Value = FlowMod> {
    let numbers = any::<(u16, u64, u16, u16, u16)>();
    (any_table(), any_match(), numbers, flags(), any_instructions()).prop_map(
        |(
            table,
            matching,
            (priority, cookie, idle_timeout, hard_timeout, importance),
            flags,
            instructions,
        )| FlowMod {
            command: FlowCommand::Add,
            table,
            matching,
            priority,
            cookie,
            cookie_mask: 0,
            idle_timeout,
            hard_timeout,
            out_port: None,
            out_group: None,
            flags,
            importance,
            instructions,
        },
    )
}

/// Flows to delete: they have neither actions nor properties of added flows.
pub fn any_deletion() -> impl Strategy<Value = FlowMod> {
    let table = prop_oneof![any_table(), Just(TableId::ALL)];
    let selection = (any::<(u64, u64)>(), option::of(any_port()), option::of(any::<u32>()));
    (any_flow(), table, selection).prop_map(|(flow, table, ((cookie, cookie_mask), out_port, out_group))| {
        FlowMod {
            table,
            cookie: cookie & (cookie_mask | 1),
            cookie_mask: cookie_mask | 1,
            out_port,
            out_group,
            ..FlowMod::new(FlowCommand::DeleteStrict, &flow.matching, flow.priority)
        }
    })
}

fn bucket(kind: GroupKind) -> impl Strategy<Value = Bucket> {
    let watches = (option::of(any_port()), option::of(0..=MAX_GROUP));
    (0..=MAX_GROUP, any::<u16>(), watches, any_actions()).prop_map(
        move |(id, weight, (watch_port, watch_group), actions)| {
            let watch_port = watch_port.filter(|port| *port != PortNo::ANY);
            let watch_group =
                if kind == GroupKind::FastFailover { watch_group.or(Some(1)) } else { watch_group };
            let weight = if kind == GroupKind::Select { weight } else { 0 };
            Bucket { id, weight, watch_port, watch_group, actions }
        },
    )
}

/// Groups to add.
pub fn any_group() -> impl Strategy<Value = GroupMod> {
    const KINDS: [GroupKind; 4] =
        [GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover];
    let parts = proptest::sample::select(&KINDS).prop_flat_map(|kind| {
        let buckets = if kind == GroupKind::Indirect { 1..2 } else { 0..4 };
        (Just(kind), 0..=MAX_GROUP, vec(bucket(kind), buckets))
    });
    parts.prop_map(|(kind, id, buckets)| GroupMod { command: GroupCommand::Add, kind, id, buckets })
}

/// Meters to add.
pub fn any_meter() -> impl Strategy<Value = MeterMod> {
    let flags = any::<[bool; 3]>().prop_map(|[packets, burst, stats]| MeterFlags { packets, burst, stats });
    let band = (1..=u32::MAX, 1..=u32::MAX, option::of(1..=u8::MAX));
    (flags, 1..=MAX_METER, vec(band, 1..4)).prop_map(|(flags, id, bands)| {
        let band = |(rate, burst, remark)| Band { rate, burst: if flags.burst { burst } else { 0 }, remark };
        MeterMod { command: MeterCommand::Add, flags, id, bands: bands.into_iter().map(band).collect() }
    })
}
