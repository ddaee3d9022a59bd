//! Arbitrary matches, actions and messages that a version can express.

use flow::{
    Action, Band, Bucket, ConnectionTracking, ControllerOutput, Field, FlowCommand, FlowFlags, FlowMod,
    GroupCommand, GroupKind, GroupMod, Instructions, Learn, LearnSpec, LearnValue, Match, MeterCommand,
    MeterFlags, MeterMod, Nat, NatRange, PortNo, Resubmit, Subfield, TableId,
};
use openflow::*;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use std::time::Duration;
use wire::MacAddress;

/// Fields that select a kind of packet.
const KINDS: &[&[(Field, u128)]] = &[
    &[],
    &[(Field::EthType, 0x800), (Field::IpProto, 6)],
    &[(Field::EthType, 0x800), (Field::IpProto, 17)],
    &[(Field::EthType, 0x800), (Field::IpProto, 132)],
    &[(Field::EthType, 0x800), (Field::IpProto, 1)],
    &[(Field::EthType, 0x86dd), (Field::IpProto, 6)],
    &[(Field::EthType, 0x86dd), (Field::IpProto, 58), (Field::Icmpv6Type, 135), (Field::Icmpv6Code, 0)],
    &[(Field::EthType, 0x86dd), (Field::IpProto, 58), (Field::Icmpv6Type, 136), (Field::Icmpv6Code, 0)],
    &[(Field::EthType, 0x806)],
    &[(Field::EthType, 0x8847)],
    &[(Field::EthType, 0x88e7)],
    &[(Field::EthType, 0x800), (Field::CtState, 0x21)],
];

fn is_numbered(field: Field) -> bool {
    field.info().oxm.or(field.info().nxm).is_some() && field != Field::IpFrag
}

fn fields() -> BoxedStrategy<Field> {
    select(Field::ALL.iter().copied().filter(|field| is_numbered(*field)).collect::<Vec<_>>()).boxed()
}

fn fill(mut found: Match, parts: Vec<(Field, u128, Option<u128>)>) -> Match {
    for (field, value, mask) in parts {
        let mask = mask.map(|mask| mask & field.full());
        // A field that is not allowed here is left out.
        let _ = found.add(field, value & field.full() & mask.unwrap_or(u128::MAX), mask);
    }
    found
}

pub(crate) fn matches() -> BoxedStrategy<Match> {
    (select(KINDS), vec((fields(), any::<u128>(), of(any::<u128>())), 0..8))
        .prop_map(|(kind, parts)| {
            let kind = kind.iter().map(|(field, value)| (*field, *value, None)).collect();
            fill(fill(Match::any(), kind), parts)
        })
        .boxed()
}

/// Fields that are not in a packet, with an ingress port.
fn metadata() -> BoxedStrategy<Match> {
    let fields = select(vec![Field::Metadata, Field::TunnelId, Field::Reg3, Field::TunSrc, Field::PktMark]);
    (ports(), vec((fields, any::<u128>(), of(any::<u128>())), 0..4))
        .prop_map(|(port, parts)| fill(Match::any().with(Field::InPort, u128::from(port.0)), parts))
        .boxed()
}

/// Ports with a number of 16 bits.
fn ports() -> BoxedStrategy<PortNo> {
    prop_oneof![
        (1..0xff00_u32).prop_map(PortNo),
        select(vec![PortNo::LOCAL, PortNo::CONTROLLER, PortNo::FLOOD, PortNo::IN_PORT])
    ]
    .boxed()
}

fn part() -> BoxedStrategy<Subfield> {
    let registers =
        [Field::Reg0, Field::Reg5, Field::Metadata, Field::Xxreg1, Field::TunnelId, Field::EthSrc];
    (select(registers.to_vec()), any::<u8>(), any::<u8>())
        .prop_map(|(field, offset, bits)| {
            let width = field.info().bits.min(64);
            let offset = offset % width;
            Subfield::new(field, offset, 1 + bits % (width - offset)).unwrap()
        })
        .boxed()
}

fn pairs() -> BoxedStrategy<(Subfield, Subfield)> {
    (part(), select(vec![Field::Xxreg2, Field::Xxreg3]), 0..64_u8)
        .prop_map(|(from, to, offset)| (from, Subfield::new(to, offset, from.bits).unwrap()))
        .boxed()
}

fn set(fields: Vec<Field>, version: Version) -> BoxedStrategy<Action> {
    (select(fields), any::<u128>(), any::<u128>(), 0..3_u8)
        .prop_map(move |(field, value, mask, kind)| {
            let mask = match kind {
                0 => field.full(),
                _ if version == Version::V10 && field.info().nxm.is_none() => field.full(),
                1 => Subfield::new(field, 0, 1 + mask as u8 % field.info().bits).unwrap().mask(),
                _ => (mask & field.full()).max(1),
            };
            Action::SetField { field, value: value & mask, mask }
        })
        .boxed()
}

fn learn() -> BoxedStrategy<Action> {
    let spec = prop_oneof![
        pairs().prop_map(|(from, to)| LearnSpec::Match(LearnValue::Field(from), to)),
        pairs().prop_map(|(from, to)| LearnSpec::Load(LearnValue::Field(from), to)),
        (part(), any::<u64>()).prop_map(|(to, value)| {
            let value = u128::from(value) & (u128::MAX >> (128 - to.bits));
            LearnSpec::Load(LearnValue::Constant(value, to.bits), to)
        }),
        part().prop_map(LearnSpec::Output),
    ];
    let result = of((Just(Field::Reg4), 0..32_u8));
    (vec(spec, 0..5), any::<[u16; 5]>(), any::<u64>(), 0..255_u8, 0..4_u16, any::<u32>(), result)
        .prop_map(
            |(specs, [idle, hard, fin_idle, fin_hard, priority], cookie, table, flags, limit, result)| {
                Action::Learn(Box::new(Learn {
                    table: TableId(table),
                    priority,
                    cookie,
                    idle_timeout: idle,
                    hard_timeout: hard,
                    fin_idle_timeout: fin_idle,
                    fin_hard_timeout: fin_hard,
                    flags: flags | if result.is_some() { 4 } else { 0 },
                    limit,
                    result,
                    specs,
                }))
            },
        )
        .boxed()
}

fn nat() -> BoxedStrategy<Nat> {
    let addresses = prop_oneof![
        any::<[u32; 2]>().prop_map(|[a, b]| {
            let (first, last) = (a.min(b).max(1), a.max(b).max(1));
            (first.to_be_bytes().into(), last.to_be_bytes().into())
        }),
        any::<[u128; 2]>().prop_map(|[a, b]| {
            let (first, last) = (a.min(b).max(1), a.max(b).max(1));
            (first.to_be_bytes().into(), last.to_be_bytes().into())
        }),
    ];
    let range = (addresses, of((1..1000_u16, 1000..=u16::MAX)));
    (of(any::<bool>()), 0..3_u8, any::<bool>(), of(range))
        .prop_map(|(source, select, persistent, range)| Nat {
            source,
            hash: select == 1,
            random: select == 2,
            persistent,
            range: range.map_or(NatRange::default(), |(addresses, ports)| NatRange {
                addresses: Some(addresses),
                ports,
            }),
        })
        .boxed()
}

fn ct(version: Version) -> BoxedStrategy<Action> {
    let zone = prop_oneof![
        any::<u16>().prop_map(|zone| LearnValue::Constant(u128::from(zone), 16)),
        (0..16_u8).prop_map(|offset| LearnValue::Field(Subfield::new(Field::Reg2, offset, 16).unwrap())),
    ];
    let actions = vec(set(vec![Field::CtMark, Field::CtLabel], version), 0..3);
    (any::<[bool; 2]>(), zone, of(0..255_u8), any::<u16>(), of(nat()), actions)
        .prop_map(|([commit, force], zone, table, helper, nat, actions)| {
            Action::Ct(Box::new(ConnectionTracking {
                commit,
                force: force && commit,
                zone,
                table: table.map(TableId),
                helper,
                nat,
                actions: if commit { actions } else { Vec::new() },
            }))
        })
        .boxed()
}

fn simple_actions(version: Version) -> BoxedStrategy<Action> {
    // OpenFlow 1.0 does not tell TCP ports from UDP ports: they are those of the flow.
    let writable = [
        Field::Reg0,
        Field::Xxreg1,
        Field::TunnelId,
        Field::Metadata,
        Field::EthSrc,
        Field::Ipv4Dst,
        Field::Ipv6Src,
        Field::IpTtl,
        Field::PktMark,
        Field::VlanTci,
        Field::ArpSpa,
    ];
    prop_oneof![
        (ports(), any::<u16>()).prop_map(|(port, max_len)| Action::Output { port, max_len }),
        (part(), any::<u16>()).prop_map(|(from, max_len)| Action::OutputField { from, max_len }),
        (any::<[u16; 2]>(), any::<u8>(), vec(any::<u8>(), 0..20)).prop_map(
            |([max_len, controller], reason, data)| {
                let userdata = data.into();
                Action::Controller(Box::new(ControllerOutput { max_len, controller, reason, userdata }))
            }
        ),
        any::<u32>().prop_map(Action::Group),
        of(any::<u32>()).prop_map(Action::SetQueue),
        set(writable.to_vec(), version),
        pairs().prop_map(|(from, to)| Action::Move { from, to }),
        part().prop_map(Action::StackPush),
        part().prop_map(Action::StackPop),
        select(vec![
            Action::PopVlan,
            Action::DecMplsTtl,
            Action::CtClear,
            Action::Exit,
            Action::PushMpls(0x8848)
        ]),
        any::<u16>().prop_map(Action::PopMpls),
        any::<u8>().prop_map(Action::SetMplsTtl),
        vec(any::<u16>(), 1..6).prop_map(|ids| Action::DecNwTtl(ids.into())),
        (of(ports()), of(0..255_u8), any::<bool>()).prop_map(|(in_port, table, ct)| {
            let in_port = in_port.filter(|port| *port != PortNo::IN_PORT);
            Action::Resubmit(Resubmit { in_port, table: table.map(TableId), ct })
        }),
        learn(),
        ct(version),
        (any::<u32>(), 2..=64_u8, any::<u8>()).prop_map(|(id, clauses, clause)| Action::Conjunction {
            id,
            clause: clause % clauses,
            clauses
        }),
        vec(any::<u8>(), 6).prop_map(|note| Action::Note(note.into())),
    ]
    .boxed()
}

fn later_actions(version: Version) -> BoxedStrategy<Action> {
    let fixed = vec![
        Action::CopyTtlIn,
        Action::CopyTtlOut,
        Action::PushVlan(0x88a8),
        Action::PushPbb(0x88e7),
        Action::PopPbb,
        Action::SetNwTtl(9),
    ];
    let extra = if version >= Version::V15 { vec![Action::Meter(7)] } else { Vec::new() };
    let vlan = set(
        vec![Field::TcpSrc, Field::VlanVid, Field::VlanPcp, Field::MplsLabel, Field::UdpDst, Field::PbbIsid],
        version,
    );
    prop_oneof![3 => simple_actions(version), 1 => select([fixed, extra].concat()), 1 => vlan].boxed()
}

pub(crate) fn actions(version: Version) -> BoxedStrategy<Vec<Action>> {
    let leaf = if version == Version::V10 { simple_actions(version) } else { later_actions(version) };
    let tree = leaf
        .prop_recursive(3, 12, 4, |inner| vec(inner, 0..4).prop_map(|actions| Action::Clone(actions.into())));
    vec(tree, 0..5).boxed()
}

fn instructions(version: Version) -> BoxedStrategy<Instructions> {
    if version == Version::V10 {
        return actions(version).prop_map(|apply| Instructions { apply, ..Instructions::default() }).boxed();
    }
    let has_meter = version < Version::V15;
    (
        of(any::<u32>()),
        actions(version),
        any::<bool>(),
        actions(version),
        of(any::<(u64, u64)>()),
        of(0..255_u8),
    )
        .prop_map(move |(meter, apply, clear, write, metadata, goto)| Instructions {
            meter: meter.filter(|_| has_meter),
            apply,
            clear,
            write,
            metadata,
            goto: goto.map(TableId),
        })
        .boxed()
}

fn flags(version: Version) -> BoxedStrategy<FlowFlags> {
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

fn flow_mod(version: Version) -> BoxedStrategy<Message> {
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

fn buckets(version: Version) -> BoxedStrategy<Vec<Bucket>> {
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

fn kinds() -> BoxedStrategy<GroupKind> {
    select(vec![GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover]).boxed()
}

fn group_mod(version: Version) -> BoxedStrategy<Message> {
    let commands = select(vec![GroupCommand::Add, GroupCommand::Modify, GroupCommand::Delete]);
    (commands, kinds(), any::<u32>(), buckets(version))
        .prop_map(|(command, kind, id, buckets)| Message::GroupMod(GroupMod { command, kind, id, buckets }))
        .boxed()
}

fn meter() -> BoxedStrategy<(MeterFlags, u32, Vec<Band>)> {
    let band =
        (any::<[u32; 2]>(), of(any::<u8>())).prop_map(|([rate, burst], remark)| Band { rate, burst, remark });
    let flags = any::<[bool; 3]>().prop_map(|[packets, burst, stats]| MeterFlags { packets, burst, stats });
    (flags, any::<u32>(), vec(band, 0..4)).boxed()
}

fn durations() -> BoxedStrategy<Duration> {
    (any::<u32>(), 0..1_000_000_000_u32)
        .prop_map(|(seconds, nanos)| Duration::new(u64::from(seconds), nanos))
        .boxed()
}

fn port(version: Version) -> BoxedStrategy<Port> {
    (ports(), any::<[u8; 6]>(), "[a-z0-9]{0,15}", any::<[u32; 8]>())
        .prop_map(move |(number, address, name, bits)| {
            let is_old = version == Version::V10;
            let features = |bits: u32| if is_old { bits & 0xf87f } else { bits };
            let [config, state, current, advertised, supported, peer, now, most] = bits;
            let speed = |speed: u32| if is_old { 0 } else { speed };
            Port {
                number,
                address: MacAddress::new(address),
                name,
                config,
                state,
                current: features(current),
                advertised: features(advertised),
                supported: features(supported),
                peer: features(peer),
                current_speed: speed(now),
                max_speed: speed(most),
            }
        })
        .boxed()
}

fn packet_in(version: Version) -> BoxedStrategy<Message> {
    let numbers = (of(0..9_u32), any::<u16>(), any::<u8>(), any::<u8>(), any::<u64>());
    let data = (vec(any::<u8>(), 0..60), vec(any::<u8>(), 0..9));
    (select(PacketInFormat::ALL.to_vec()), numbers, metadata(), data)
        .prop_map(move |(format, (buffer, len, reason, table, cookie), metadata, (data, userdata))| {
            let mut packet = PacketIn {
                format,
                buffer,
                total_len: u32::from(len),
                reason,
                table: TableId(table),
                cookie,
                metadata,
                data,
                userdata,
            };
            if format != PacketInFormat::Nicira2 {
                packet.userdata.clear();
            }
            if format == PacketInFormat::Standard && version == Version::V10 {
                (packet.table, packet.cookie) = (TableId(0), NO_COOKIE);
                let port = packet.metadata.exact(Field::InPort).unwrap();
                packet.metadata = Match::any().with(Field::InPort, port);
            }
            Message::PacketIn(Box::new(packet))
        })
        .boxed()
}

fn packet_out(version: Version) -> BoxedStrategy<Message> {
    (of(0..9_u32), metadata(), actions(version), vec(any::<u8>(), 0..60))
        .prop_map(move |(buffer, metadata, actions, data)| {
            let port = metadata.exact(Field::InPort).unwrap();
            let metadata =
                if version >= Version::V15 { metadata } else { Match::any().with(Field::InPort, port) };
            Message::PacketOut(Box::new(PacketOut { buffer, metadata, actions, data }))
        })
        .boxed()
}

fn removed(version: Version, is_nicira: bool) -> BoxedStrategy<Message> {
    let numbers = (any::<[u16; 3]>(), any::<u8>(), any::<[u64; 3]>(), durations());
    let reasons = select(RemovedReason::ALL.to_vec());
    (matches(), numbers, reasons)
        .prop_map(move |(matching, numbers, reason)| {
            let ([priority, idle, hard], table, [cookie, packets, bytes], duration) = numbers;
            let is_old = version == Version::V10;
            let removed = FlowRemoved {
                table: TableId(if is_old && !is_nicira { 0 } else { table % 255 }),
                matching: if is_old && !is_nicira { Match::any().with(Field::InPort, 3) } else { matching },
                priority,
                cookie,
                reason,
                duration,
                idle_timeout: idle,
                hard_timeout: if is_old { 0 } else { hard },
                packets,
                bytes,
            };
            let removed = Box::new(removed);
            if is_nicira { Message::NxFlowRemoved(removed) } else { Message::FlowRemoved(removed) }
        })
        .boxed()
}

fn flow_stats(version: Version, is_nicira: bool) -> BoxedStrategy<FlowStats> {
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

fn flow_request(version: Version, is_nicira: bool) -> BoxedStrategy<Box<FlowStatsRequest>> {
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

fn monitor_request(version: Version) -> BoxedStrategy<MonitorRequest> {
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

fn update(version: Version) -> BoxedStrategy<FlowUpdate> {
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

fn oxm_ids(version: Version) -> BoxedStrategy<Vec<OxmId>> {
    vec(
        (fields(), any::<bool>()).prop_map(move |(field, masked)| OxmId::of(field, masked, version).unwrap()),
        0..6,
    )
    .boxed()
}

fn table_features(version: Version) -> BoxedStrategy<TableFeatures> {
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

fn table_config() -> BoxedStrategy<TableConfig> {
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

fn queue_desc(port: PortNo) -> BoxedStrategy<QueueDesc> {
    (any::<u32>(), of(any::<u16>()), of(any::<u16>()))
        .prop_map(move |(queue, min_rate, max_rate)| QueueDesc { port, queue, min_rate, max_rate })
        .boxed()
}

fn experimenter(version: Version) -> BoxedStrategy<ExperimenterData> {
    (0x1000_0000..0x1001_0000_u32, any::<u32>(), vec(any::<u8>(), 0..20))
        .prop_map(move |(experimenter, kind, data)| ExperimenterData {
            experimenter,
            kind: if version == Version::V10 { 0 } else { kind },
            data,
        })
        .boxed()
}

fn requests(version: Version) -> BoxedStrategy<MultipartRequest> {
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

fn replies(version: Version) -> BoxedStrategy<MultipartReply> {
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

fn asynchronous(version: Version) -> BoxedStrategy<AsyncConfig> {
    proptest::array::uniform6(proptest::array::uniform2(of(any::<u32>())))
        .prop_map(move |mut masks| {
            if version < Version::V14 {
                masks[..3].iter_mut().flatten().for_each(|mask| *mask = mask.or(Some(0)));
                masks[3..].iter_mut().flatten().for_each(|mask| *mask = None);
            }
            AsyncConfig { masks }
        })
        .boxed()
}

fn role(version: Version) -> BoxedStrategy<RoleMessage> {
    let is_old = version == Version::V10;
    (select(Role::ALL[usize::from(is_old)..].to_vec()), any::<u64>())
        .prop_map(move |(role, generation)| RoleMessage {
            role,
            generation: if is_old { 0 } else { generation },
        })
        .boxed()
}

/// Messages of every version.
fn common(version: Version) -> BoxedStrategy<Message> {
    use Message as M;
    let data = || vec(any::<u8>(), 0..30);
    let hello =
        any::<u32>().prop_map(move |bits| M::Hello(Hello { version: version as u8, versions: Some(bits) }));
    let errors = (select(ErrorCode::ALL.to_vec()), data())
        .prop_map(move |(code, data)| M::Error(ErrorMessage { error: code.wire(version), data }));
    let config = any::<[u16; 2]>().prop_map(|[flags, miss_send_len]| SwitchConfig { flags, miss_send_len });
    let features = (any::<u64>(), any::<[u32; 3]>(), any::<[u8; 2]>(), vec(port(version), 0..4)).prop_map(
        move |(datapath_id, [buffers, capabilities, actions], [tables, auxiliary], ports)| {
            let (actions, ports) = if version == Version::V10 { (actions, ports) } else { (0, Vec::new()) };
            M::FeaturesReply(Features {
                datapath_id,
                buffers,
                tables,
                auxiliary,
                capabilities,
                actions,
                ports,
            })
        },
    );
    let status = (select(PortReason::ALL.to_vec()), port(version))
        .prop_map(|(reason, port)| M::PortStatus(Box::new(PortStatus { reason, port })));
    let port_mod = port(version).prop_map(|port| {
        let Port { number, address, config, state: mask, advertised: advertise, .. } = port;
        M::PortMod(PortMod { number, address, config, mask, advertise })
    });
    let fixed = vec![
        M::FeaturesRequest,
        M::GetConfigRequest,
        M::BarrierRequest,
        M::BarrierReply,
        M::FlowAge,
        M::SetPacketInFormat(PacketInFormat::Nicira2),
        M::SetControllerId(7),
        M::CtFlushZone(9),
    ];
    let basic = prop_oneof![
        hello,
        errors,
        data().prop_map(M::EchoRequest),
        data().prop_map(M::EchoReply),
        experimenter(version).prop_map(M::Experimenter),
        features,
        config.prop_map(M::SetConfig),
        status,
        port_mod,
        role(version).prop_map(M::RoleRequest),
        role(version).prop_map(M::RoleReply),
        asynchronous(version).prop_map(M::SetAsync),
        select(fixed),
    ];
    let large = prop_oneof![
        flow_mod(version),
        group_mod(version),
        packet_in(version),
        packet_out(version),
        removed(version, false),
        (requests(version), any::<bool>()).prop_map(|(request, more)| M::MultipartRequest(request, more)),
        (replies(version), any::<bool>()).prop_map(|(reply, more)| M::MultipartReply(reply, more)),
    ];
    prop_oneof![1 => basic, 3 => large].boxed()
}

/// Messages of OpenFlow 1.3 and later.
fn later(version: Version) -> BoxedStrategy<Message> {
    use Message as M;
    let commands = select(vec![MeterCommand::Add, MeterCommand::Modify, MeterCommand::Delete]);
    let meter_mod = (commands, meter())
        .prop_map(|(command, (flags, id, bands))| M::MeterMod(MeterMod { command, flags, id, bands }));
    let is_new = version >= Version::V14;
    let table_mod = table_config().prop_map(move |config| {
        let vacancy = config.vacancy.filter(|_| is_new);
        M::TableMod(TableConfig { eviction: config.eviction.filter(|_| is_new), vacancy, ..config })
    });
    let inner = || prop_oneof![flow_mod(version), group_mod(version), packet_out(version)];
    let bundle = (any::<u32>(), 0..4_u16, inner()).prop_map(|(id, flags, message)| {
        M::BundleAdd(BundleAdd { id, flags, xid: crate::round_trip::XID, message: Box::new(message) })
    });
    let control = (any::<u32>(), select(BundleStep::ALL.to_vec()), 0..4_u16)
        .prop_map(|(id, step, flags)| M::BundleControl(BundleControl { id, step, flags }));
    let status = (select(Role::ALL.to_vec()), any::<u8>(), any::<u64>())
        .prop_map(|(role, reason, generation)| M::RoleStatus(RoleStatus { role, reason, generation }));
    let forward = (any::<u32>(), group_mod(version))
        .prop_map(|(xid, request)| M::RequestForward { xid, request: Box::new(request) });
    prop_oneof![
        meter_mod,
        table_mod,
        bundle,
        control,
        status,
        forward,
        Just(M::GetAsyncRequest),
        asynchronous(version).prop_map(M::GetAsyncReply),
    ]
    .boxed()
}

fn queues() -> BoxedStrategy<Message> {
    let config = ports().prop_flat_map(|port| {
        vec(queue_desc(port), 0..3)
            .prop_map(move |queues| Message::QueueConfigReply(QueueConfig { port, queues }))
    });
    prop_oneof![ports().prop_map(Message::QueueConfigRequest), config].boxed()
}

fn monitors() -> BoxedStrategy<Message> {
    let cancel = any::<u32>().prop_map(Message::MonitorCancel);
    prop_oneof![cancel, select(vec![Message::MonitorPaused, Message::MonitorResumed])].boxed()
}

/// Any message that a version can express.
pub(crate) fn messages(version: Version) -> BoxedStrategy<Message> {
    let common = common(version);
    match version {
        Version::V10 => {
            let nicira = prop_oneof![
                removed(version, true),
                any::<u32>().prop_map(Message::SetFlowFormat),
                any::<bool>().prop_map(Message::FlowModTableId),
            ];
            prop_oneof![6 => common, 1 => nicira, 1 => queues(), 1 => monitors()].boxed()
        }
        Version::V13 => prop_oneof![6 => common, 3 => later(version), 1 => queues(), 1 => monitors()].boxed(),
        Version::V14 | Version::V15 => {
            let status = (select(TableReason::ALL.to_vec()), table_config())
                .prop_map(|(reason, table)| Message::TableStatus(TableStatus { reason, table }));
            prop_oneof![6 => common, 3 => later(version), 1 => status].boxed()
        }
    }
}
