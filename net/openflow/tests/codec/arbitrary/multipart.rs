//! Requests for information, and replies.

use super::actions::instructions;
use super::changes::{buckets, durations, flags, kinds, meter};
use super::matching::{fields, matches, ports};
use super::packets::port;
use flow::{Field, FlowFlags, Match, PortNo, TableId};
use openflow::*;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use std::time::Duration;

pub(super) fn flow_stats(version: Version, is_nicira: bool) -> BoxedStrategy<FlowStats> {
    let numbers = (
        any::<[u16; 4]>(),
        any::<u8>(),
        any::<[u64; 3]>(),
        durations(),
        of(0..0xffff_u16),
        of(0..0xffff_u16),
    );
    (matches(), numbers, flags(version), instructions(version))
        .prop_map(move |(matching, numbers, flags, instructions)| {
            let (
                [priority, idle, hard, importance],
                table,
                [cookie, packets, bytes],
                duration,
                idle_age,
                hard_age,
            ) = numbers;
            let is_fixed = version == Version::V10 && !is_nicira;
            FlowStats {
                table: TableId(table),
                matching: if is_fixed { Match::any().with(Field::EthSrc, 3) } else { matching },
                priority,
                cookie,
                idle_timeout: idle,
                hard_timeout: hard,
                flags: if version == Version::V10 { FlowFlags::default() } else { flags },
                importance: if version >= Version::V14 { importance } else { 0 },
                duration,
                idle_age: idle_age.filter(|_| is_nicira || version >= Version::V15),
                hard_age: hard_age.filter(|_| is_nicira),
                packets,
                bytes,
                instructions,
            }
        })
        .boxed()
}

pub(super) fn flow_request(version: Version, is_nicira: bool) -> BoxedStrategy<Box<FlowStatsRequest>> {
    (any::<u8>(), of(ports()), of(0..9_u32), any::<[u64; 2]>(), matches())
        .prop_map(move |(table, out_port, out_group, [cookie, mask], matching)| {
            let is_old = version == Version::V10;
            let is_fixed = is_old && !is_nicira;
            let mask = if is_fixed { 0 } else { mask };
            Box::new(FlowStatsRequest {
                table: TableId(table),
                out_port,
                out_group: out_group.filter(|_| !is_old),
                cookie: if is_fixed { 0 } else { cookie },
                cookie_mask: mask,
                matching: if is_fixed { Match::any().with(Field::EthSrc, 3) } else { matching },
            })
        })
        .boxed()
}

pub(super) fn monitor_request(version: Version) -> BoxedStrategy<MonitorRequest> {
    let commands = select(MonitorCommand::ALL.to_vec());
    (any::<u32>(), commands, 1..64_u16, of(ports()), of(0..9_u32), any::<u8>(), matches())
        .prop_map(move |(id, command, flags, out_port, out_group, table, matching)| {
            let is_new = version >= Version::V14;
            let command = if is_new { command } else { MonitorCommand::Add };
            let out_group = out_group.filter(|_| is_new);
            MonitorRequest {
                id,
                command,
                flags: flags | 1,
                out_port,
                out_group,
                table: TableId(table),
                matching,
            }
        })
        .boxed()
}

pub(super) fn update(version: Version) -> BoxedStrategy<FlowUpdate> {
    let is_new = version >= Version::V14;
    let events = FlowEvent::ALL[usize::from(!is_new)..].to_vec();
    let numbers = (any::<[u16; 3]>(), any::<[u8; 2]>(), any::<u64>());
    let report = (select(events), numbers, matches(), instructions(version)).prop_map(
        |(event, ([idle, hard, priority], [table, reason], cookie), matching, instructions)| {
            FlowUpdate::Flow(Box::new(FlowReport {
                event,
                table: TableId(table),
                reason,
                idle_timeout: idle,
                hard_timeout: hard,
                priority,
                cookie,
                matching,
                instructions,
            }))
        },
    );
    let own = any::<u32>().prop_map(FlowUpdate::Own);
    if !is_new {
        return prop_oneof![report, own].boxed();
    }
    prop_oneof![report, own, select(vec![FlowUpdate::Paused, FlowUpdate::Resumed])].boxed()
}

pub(super) fn oxm_ids(version: Version) -> BoxedStrategy<Vec<OxmId>> {
    vec(
        (fields(), any::<bool>()).prop_map(move |(field, masked)| OxmId::of(field, masked, version).unwrap()),
        0..6,
    )
    .boxed()
}

pub(super) fn table_features(version: Version) -> BoxedStrategy<TableFeatures> {
    let types = || {
        let experimenter =
            vec(any::<u8>(), 4..9).prop_map(|experimenter| TypeId { number: 0xffff, experimenter });
        vec(prop_oneof![(0..30_u16).prop_map(TypeId::standard), experimenter], 0..5)
    };
    let tables = || vec((0..255_u8).prop_map(TableId), 0..9);
    let property = prop_oneof![
        (any::<bool>(), types()).prop_map(|(miss, ids)| TableProperty::Instructions(miss, ids)),
        (any::<bool>(), tables()).prop_map(|(miss, ids)| TableProperty::NextTables(miss, ids)),
        (any::<bool>(), types()).prop_map(|(miss, ids)| TableProperty::WriteActions(miss, ids)),
        (any::<bool>(), types()).prop_map(|(miss, ids)| TableProperty::ApplyActions(miss, ids)),
        oxm_ids(version).prop_map(TableProperty::Match),
        oxm_ids(version).prop_map(TableProperty::Wildcards),
        (any::<bool>(), oxm_ids(version)).prop_map(|(miss, ids)| TableProperty::WriteSetField(miss, ids)),
        (any::<bool>(), oxm_ids(version)).prop_map(|(miss, ids)| TableProperty::ApplySetField(miss, ids)),
        tables().prop_map(TableProperty::SyncFrom),
        (any::<bool>(), vec(any::<u8>(), 8..20))
            .prop_map(|(miss, data)| TableProperty::Experimenter(miss, data)),
    ];
    (any::<[u8; 2]>(), "[a-z]{0,31}", any::<[u64; 2]>(), any::<[u32; 2]>(), vec(property, 0..6))
        .prop_map(
            move |(
                [table, command],
                name,
                [metadata_match, metadata_write],
                [capabilities, max_entries],
                properties,
            )| {
                TableFeatures {
                    table: TableId(table),
                    command: if version >= Version::V15 { command } else { 0 },
                    name,
                    metadata_match,
                    metadata_write,
                    capabilities,
                    max_entries,
                    properties,
                }
            },
        )
        .boxed()
}

pub(super) fn table_config() -> BoxedStrategy<TableConfig> {
    let vacancy = any::<[u8; 3]>().prop_map(|[down, up, current]| Vacancy { down, up, current });
    (any::<u8>(), any::<u32>(), of(any::<u32>()), of(vacancy))
        .prop_map(|(table, config, eviction, vacancy)| TableConfig {
            table: TableId(table),
            config,
            eviction,
            vacancy,
        })
        .boxed()
}

pub(super) fn queue_desc(port: PortNo) -> BoxedStrategy<QueueDesc> {
    (any::<u32>(), of(any::<u16>()), of(any::<u16>()))
        .prop_map(move |(queue, min_rate, max_rate)| QueueDesc { port, queue, min_rate, max_rate })
        .boxed()
}

pub(super) fn experimenter(version: Version) -> BoxedStrategy<ExperimenterData> {
    (0x1000_0000..0x1001_0000_u32, any::<u32>(), vec(any::<u8>(), 0..20))
        .prop_map(move |(experimenter, kind, data)| ExperimenterData {
            experimenter,
            kind: if version == Version::V10 { 0 } else { kind },
            data,
        })
        .boxed()
}

pub(super) fn requests(version: Version) -> BoxedStrategy<MultipartRequest> {
    use MultipartRequest as R;
    let queue = || (ports(), any::<u32>()).prop_map(|(port, queue)| QueueRequest { port, queue });
    let all = if version >= Version::V15 { any::<u32>().boxed() } else { Just(ALL_GROUPS).boxed() };
    let every_port = if version >= Version::V15 { ports().boxed() } else { Just(PortNo::ANY).boxed() };
    let common = prop_oneof![
        flow_request(version, false).prop_map(R::Flow),
        flow_request(version, false).prop_map(R::Aggregate),
        select(vec![R::Desc, R::Table, R::GroupFeatures]),
        ports().prop_map(R::Port),
        queue().prop_map(R::Queue),
        any::<u32>().prop_map(R::Group),
        every_port.prop_map(R::PortDesc),
        vec(monitor_request(version), 1..3).prop_map(R::FlowMonitor),
        experimenter(version).prop_map(R::Experimenter),
    ];
    if version == Version::V10 {
        let nicira = prop_oneof![
            flow_request(version, true).prop_map(R::NxFlow),
            flow_request(version, true).prop_map(R::NxAggregate),
            any::<u32>().prop_map(R::GroupDesc),
        ];
        return prop_oneof![2 => common, 1 => nicira].boxed();
    }
    let later = prop_oneof![
        all.prop_map(R::GroupDesc),
        any::<u32>().prop_map(R::Meter),
        any::<u32>().prop_map(R::MeterConfig),
        Just(R::MeterFeatures),
        vec(table_features(version), 0..3).prop_map(R::TableFeatures),
    ];
    if version == Version::V13 {
        return prop_oneof![1 => common, 1 => later].boxed();
    }
    let newest = prop_oneof![Just(R::TableDesc), queue().prop_map(R::QueueDesc)];
    prop_oneof![2 => common, 1 => later, 1 => newest].boxed()
}

pub(super) fn replies(version: Version) -> BoxedStrategy<MultipartReply> {
    use MultipartReply as R;
    let is_old = version == Version::V10;
    let age = move || durations().prop_map(move |age| if is_old { Duration::ZERO } else { age });
    let sums =
        || any::<([u64; 2], u32)>().prop_map(|([packets, bytes], flows)| Aggregate { packets, bytes, flows });
    let table = (any::<u8>(), "[a-z]{1,31}", any::<[u32; 2]>(), any::<[u64; 2]>()).prop_map(
        move |(table, name, [max, active], [lookups, matched])| {
            let (name, max_entries) = if is_old { (name, max) } else { (String::new(), 0) };
            TableStats { table: TableId(table), name, max_entries, active, lookups, matched }
        },
    );
    let port_stats = (ports(), any::<([u64; 8], [u64; 4])>(), age())
        .prop_map(|(port, (counters, ethernet), duration)| PortStats { port, counters, ethernet, duration });
    let queue_stats = (ports(), any::<u32>(), any::<[u64; 3]>(), age()).prop_map(
        |(port, queue, [bytes, packets, errors], duration)| QueueStats {
            port,
            queue,
            bytes,
            packets,
            errors,
            duration,
        },
    );
    let bucket = any::<[u64; 2]>().prop_map(|[packets, bytes]| BucketStats { packets, bytes });
    let group = (any::<[u32; 2]>(), any::<[u64; 2]>(), durations(), vec(bucket, 0..4)).prop_map(
        |([id, references], [packets, bytes], duration, buckets)| GroupStats {
            id,
            references,
            packets,
            bytes,
            duration,
            buckets,
        },
    );
    let desc = (kinds(), any::<u32>(), buckets(version)).prop_map(|(kind, id, buckets)| GroupDesc {
        kind,
        id,
        buckets,
    });
    let features =
        any::<([u32; 2], [u32; 4], [u32; 4])>().prop_map(|([kinds, capabilities], max_groups, actions)| {
            R::GroupFeatures(GroupFeatures { kinds, capabilities, max_groups, actions })
        });
    let text = ("[a-z]{0,255}", "[a-z]{0,31}").prop_map(|(text, serial)| {
        let datapath = text.chars().rev().collect();
        let (hardware, software) = (text.clone(), serial.clone());
        R::Desc(Box::new(Description { manufacturer: text, hardware, software, serial, datapath }))
    });
    let common = prop_oneof![
        text,
        vec(flow_stats(version, false), 0..3).prop_map(R::Flow),
        sums().prop_map(R::Aggregate),
        vec(table, 0..3).prop_map(R::Table),
        vec(port_stats, 0..3).prop_map(R::Port),
        vec(queue_stats, 0..3).prop_map(R::Queue),
        vec(group, 0..3).prop_map(R::Group),
        vec(desc, 0..3).prop_map(R::GroupDesc),
        features,
        vec(port(version), 0..3).prop_map(R::PortDesc),
        vec(update(version), 0..3).prop_map(R::FlowMonitor),
        experimenter(version).prop_map(R::Experimenter),
    ];
    if is_old {
        let nicira = prop_oneof![
            vec(flow_stats(version, true), 0..3).prop_map(R::NxFlow),
            sums().prop_map(R::NxAggregate),
        ];
        return prop_oneof![3 => common, 1 => nicira].boxed();
    }
    let band = any::<[u64; 2]>().prop_map(|[packets, bytes]| BandStats { packets, bytes });
    let meter_stats = (any::<[u32; 2]>(), any::<[u64; 2]>(), durations(), vec(band, 0..4)).prop_map(
        |([id, flows], [packets, bytes], duration, bands)| MeterStats {
            id,
            flows,
            packets,
            bytes,
            duration,
            bands,
        },
    );
    let config = meter().prop_map(|(flags, id, bands)| MeterConfig { flags, id, bands });
    let meter_features = any::<([u32; 3], [u8; 2])>().prop_map(
        |([max_meters, bands, capabilities], [max_bands, max_color])| {
            R::MeterFeatures(MeterFeatures { max_meters, bands, capabilities, max_bands, max_color })
        },
    );
    let later = prop_oneof![
        vec(meter_stats, 0..3).prop_map(R::Meter),
        vec(config, 0..3).prop_map(R::MeterConfig),
        meter_features,
        vec(table_features(version), 0..3).prop_map(R::TableFeatures),
    ];
    if version == Version::V13 {
        return prop_oneof![3 => common, 1 => later].boxed();
    }
    let newest = prop_oneof![
        vec(table_config(), 0..3).prop_map(R::TableDesc),
        vec(ports().prop_flat_map(queue_desc), 0..3).prop_map(R::QueueDesc),
    ];
    prop_oneof![4 => common, 1 => later, 1 => newest].boxed()
}
