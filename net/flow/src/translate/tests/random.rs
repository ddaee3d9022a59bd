//! Random tables and packets: few fields and small values, so that flows overlap and packets find them.

use super::packet::Packet;
use crate::action::{Action, Bucket, Instructions, Resubmit, Subfield};
use crate::field::Field;
use crate::key::Key;
use crate::matching::Match;
use crate::modify::{
    Band, FlowCommand, FlowFlags, FlowMod, GroupCommand, GroupKind, GroupMod, MeterCommand, MeterFlags,
    MeterMod, PortNo, TableId,
};
use crate::options::{Mapping, OptionChange};
use crate::tables::Tables;
use port::Now;
use proptest::prelude::*;
use proptest::sample::select;

const ADDRESSES: [u128; 5] = [0x0a00_0001, 0x0a00_0002, 0x0a00_0101, 0x0a01_0001, 0xc0a8_0101];
const PORTS: [u128; 4] = [80, 81, 443, 0x8050];
const TYPES: [u128; 4] = [0x800, 0x86dd, 0x806, 0x8847];
const OPTIONS: [Field; 2] = [Field::TunMetadata0, Field::TunMetadata2];

fn wide(address: u128) -> u128 {
    0x2001_0db8 << 96 | address
}

/// A packet.
pub(super) fn packet() -> impl Strategy<Value = Packet> {
    let l2 = (1..4_u128, prop_oneof![4 => Just(0x800_u128), 3 => select(TYPES.to_vec())], 1..3_u128);
    let tag = select(vec![0, 0, 0x1001, 0x1002, 0x3001_u128]);
    let ip = (select(ADDRESSES.to_vec()), select(ADDRESSES.to_vec()), select(vec![6, 17, 1_u128]));
    let rest = (select(vec![1, 2, 64_u128]), 0..3_u128, select(PORTS.to_vec()), select(PORTS.to_vec()));
    let label = (1..3_u128, 0..2_u128, select(vec![1, 2, 64_u128]), any::<bool>());
    let option = prop::option::of(0..3_u128);
    (l2, tag, ip, rest, (label, option)).prop_map(|(l2, tag, ip, rest, (label, option))| {
        let mut key = Key::ZERO;
        for (field, value) in [
            (Field::InPort, l2.0),
            (Field::EthType, l2.1),
            (Field::EthDst, l2.2),
            (Field::EthSrc, 9),
            (Field::VlanTci, tag),
            (Field::IpProto, ip.2),
            (Field::IpTtl, rest.0),
            (Field::IpDscp, rest.1),
            (Field::TcpSrc, rest.2),
            (Field::TcpDst, rest.3),
            (Field::Ipv4Src, ip.0),
            (Field::Ipv4Dst, ip.1),
            (Field::Ipv6Src, wide(ip.0)),
            (Field::Ipv6Dst, wide(ip.1)),
            (Field::MplsLabel, label.0),
            (Field::MplsBos, label.1),
            (Field::MplsTtl, label.2),
            (Field::TunMetadata0, option.unwrap_or(0)),
            (Field::TunOptions, option.is_some().into()),
        ] {
            key.set(field, value);
        }
        Packet::new(&key, label.3)
    })
}

/// One field of a match, after its prerequisites.
fn part() -> impl Strategy<Value = Vec<(Field, u128, u128)>> {
    let full = |field: Field, value: u128| vec![(field, value, field.full())];
    let ip = |field: Field, value: u128, mask: u128| {
        vec![(Field::EthType, 0x800, 0xffff), (field, value & mask, mask)]
    };
    let prefix = select(vec![8_u32, 15, 16, 24, 31, 32]);
    let address = (select(ADDRESSES.to_vec()), prefix, any::<bool>());
    let port = (select(PORTS.to_vec()), select(vec![0xffff, 0xfffe, 0xff00, 0x1_u128]), any::<bool>());
    prop_oneof![
        2 => (1..4_u128).prop_map(move |port| full(Field::InPort, port)),
        2 => select(TYPES.to_vec()).prop_map(move |kind| full(Field::EthType, kind)),
        1 => (1..3_u128).prop_map(move |address| full(Field::EthDst, address)),
        1 => select(vec![(0, 0x1fff), (0x1001, 0x1fff), (0x1000, 0x1000_u128)])
            .prop_map(|(value, mask)| vec![(Field::VlanVid, value, mask)]),
        4 => address.prop_map(move |(address, len, source)| {
            let mask = u128::from(u32::MAX << (32 - len));
            ip(if source { Field::Ipv4Src } else { Field::Ipv4Dst }, address, mask)
        }),
        2 => (select(ADDRESSES.to_vec()), select(vec![32_u32, 112, 120, 128])).prop_map(|(address, len)| {
            let mask = u128::MAX << (128 - len);
            vec![(Field::EthType, 0x86dd, 0xffff), (Field::Ipv6Dst, wide(address) & mask, mask)]
        }),
        1 => select(vec![1, 2, 63, 64_u128]).prop_map(move |ttl| ip(Field::IpTtl, ttl, 0xff)),
        1 => (0..3_u128).prop_map(move |dscp| ip(Field::IpDscp, dscp, 0x3f)),
        3 => port.prop_map(|(port, mask, source)| vec![
            (Field::EthType, 0x800, 0xffff),
            (Field::IpProto, 6, 0xff),
            (if source { Field::TcpSrc } else { Field::TcpDst }, port & mask, mask),
        ]),
        1 => (0..3_u128, 1..4_u128).prop_map(|(value, mask)| vec![(Field::Metadata, value & mask, mask)]),
        1 => (0..3_u128, 1..4_u128).prop_map(|(value, mask)| vec![(Field::Reg0, value & mask, mask)]),
        1 => (0..3_u128, select(vec![0, 1, 3, u32::MAX.into()]), select(OPTIONS.to_vec()))
            .prop_map(|(value, mask, field)| vec![(field, value & mask, mask)]),
        1 => (1..3_u128).prop_map(|label| vec![
            (Field::EthType, 0x8847, 0xffff),
            (Field::MplsLabel, label, 0xf_ffff),
        ]),
    ]
}

pub(crate) fn matching() -> impl Strategy<Value = Match> {
    prop::collection::vec(part(), 0..4).prop_map(|parts| {
        let mut found = Match::any();
        for (field, value, mask) in parts.into_iter().flatten() {
            if !found.has(field) {
                found = found.with_masked(field, value, mask);
            }
        }
        found
    })
}

fn output(port: PortNo) -> Action {
    Action::Output { port, max_len: 0xffff }
}

fn set_field() -> impl Strategy<Value = Action> {
    let fields = vec![
        Field::EthDst,
        Field::Reg0,
        Field::Metadata,
        Field::PktMark,
        Field::VlanVid,
        Field::Ipv4Src,
        Field::Ipv4Dst,
        Field::IpTtl,
        Field::IpDscp,
        Field::TcpDst,
        Field::MplsLabel,
        Field::MplsTtl,
        OPTIONS[0],
        OPTIONS[1],
    ];
    (select(fields), 0..4_usize, any::<bool>()).prop_map(|(field, i, all)| {
        let value = match field {
            Field::Ipv4Src | Field::Ipv4Dst => ADDRESSES[i],
            Field::TcpDst => PORTS[i],
            _ => i as u128,
        };
        let partly = !all && field != Field::VlanVid && field.info().masking == crate::Masking::Bits;
        let mask = if partly { 0x3 } else { field.full() };
        Action::SetField { field, value: value & mask, mask }
    })
}

fn subfield() -> impl Strategy<Value = Subfield> {
    select(vec![
        Subfield { field: Field::Reg0, offset: 0, bits: 2 },
        Subfield { field: Field::Metadata, offset: 0, bits: 2 },
        Subfield { field: Field::EthDst, offset: 0, bits: 2 },
        Subfield { field: Field::Ipv4Dst, offset: 8, bits: 2 },
        Subfield { field: Field::IpTtl, offset: 0, bits: 2 },
        Subfield { field: Field::InPort, offset: 0, bits: 2 },
        Subfield { field: OPTIONS[0], offset: 0, bits: 2 },
    ])
}

/// An action that may stand in a set.
fn plain() -> impl Strategy<Value = Action> {
    let ports = vec![
        PortNo(1),
        PortNo(2),
        PortNo(3),
        PortNo::IN_PORT,
        PortNo::ALL,
        PortNo::FLOOD,
        PortNo::NORMAL,
        PortNo::CONTROLLER,
        PortNo::LOCAL,
    ];
    prop_oneof![
        6 => select(ports).prop_map(output),
        6 => set_field(),
        2 => (1..5_u32).prop_map(Action::Group),
        1 => Just(Action::PushVlan(0x8100)),
        1 => Just(Action::PopVlan),
        1 => Just(Action::PushMpls(0x8847)),
        1 => select(vec![0x800, 0x8847, 0x86dd]).prop_map(Action::PopMpls),
        1 => select(vec![Vec::new(), vec![0], vec![0, 7]]).prop_map(|ids| Action::DecNwTtl(ids.into())),
        1 => Just(Action::DecMplsTtl),
        1 => Just(Action::CopyTtlIn),
        1 => Just(Action::CopyTtlOut),
        1 => select(vec![None, Some(1), Some(2)]).prop_map(Action::SetQueue),
        1 => select(OPTIONS.to_vec()).prop_map(Action::DeleteField),
    ]
}

fn action(table: u8) -> impl Strategy<Value = Action> {
    let port = select(vec![None, Some(PortNo(1)), Some(PortNo(3))]);
    let resubmit = (table + 1..6, port).prop_map(|(table, in_port)| {
        Action::Resubmit(Resubmit { in_port, table: Some(TableId(table)), ct: false })
    });
    prop_oneof![
        12 => plain(),
        3 => resubmit,
        1 => prop::collection::vec(plain(), 0..4).prop_map(|list| Action::Clone(list.into())),
        2 => (subfield(), subfield()).prop_map(|(from, to)| Action::Move { from, to }),
        1 => subfield().prop_map(Action::StackPush),
        1 => subfield().prop_map(Action::StackPop),
        1 => subfield().prop_map(|from| Action::OutputField { from, max_len: 0 }),
        1 => (1..3_u32).prop_map(Action::Meter),
        1 => Just(Action::FinTimeout { idle: 5, hard: 0 }),
        1 => Just(Action::Exit),
    ]
}

fn instructions(table: u8) -> impl Strategy<Value = Instructions> {
    let metadata = prop::option::of((0..4_u64, 1..4_u64).prop_map(|(value, mask)| (value & mask, mask)));
    (
        prop::option::weighted(0.1, 1..3_u32),
        prop::collection::vec(action(table), 0..5),
        prop::bool::weighted(0.1),
        prop::collection::vec(plain(), 0..3),
        metadata,
        prop::option::of((table + 1..6).prop_map(TableId)),
    )
        .prop_map(|(meter, apply, clear, write, metadata, goto)| Instructions {
            meter,
            apply,
            clear,
            write,
            metadata,
            goto,
        })
}

fn conjunction() -> impl Strategy<Value = Instructions> {
    (1..3_u32, 0..2_u8).prop_map(|(id, clause)| Instructions {
        apply: vec![Action::Conjunction { id, clause, clauses: 2 }],
        ..Instructions::default()
    })
}

pub(super) fn add(table: TableId, priority: u16, matching: Match, instructions: Instructions) -> FlowMod {
    FlowMod {
        table,
        cookie: u64::from(priority) << 8 | u64::from(table.0),
        flags: FlowFlags { check_overlap: true, ..FlowFlags::default() },
        instructions,
        ..FlowMod::new(FlowCommand::Add, &matching, priority)
    }
}

fn flow() -> impl Strategy<Value = FlowMod> {
    let table = select(vec![0, 0, 0, 1, 1, 2, 3, 4_u8]);
    table.prop_flat_map(|table| {
        let instructions = prop_oneof![6 => instructions(table), 1 => conjunction()];
        let id = prop::option::weighted(0.15, 1..3_u128);
        (0..6_u16, matching(), instructions, id).prop_map(move |(priority, matching, instructions, id)| {
            let part = matches!(instructions.apply[..], [Action::Conjunction { .. }]);
            let matching = id.map_or(matching, |id| matching.with(Field::ConjId, id));
            let mut change = add(TableId(table), priority, matching, instructions);
            change.flags.check_overlap = !part;
            change
        })
    })
}

fn bucket(id: u32, watch: Option<u32>) -> impl Strategy<Value = Bucket> {
    let actions = prop_oneof![
        (1..4_u32).prop_map(|port| vec![output(PortNo(port))]),
        (set_field(), 1..4_u32).prop_map(|(set, port)| vec![set, output(PortNo(port))]),
        Just(vec![output(PortNo(2)), Action::PushVlan(0x8100)]),
        Just(vec![Action::PopVlan, output(PortNo::CONTROLLER)]),
    ];
    (actions, 1..4_u16).prop_map(move |(actions, weight)| Bucket {
        id,
        weight,
        watch_port: watch.map(PortNo),
        watch_group: None,
        actions,
    })
}

fn groups() -> impl Strategy<Value = Vec<GroupMod>> {
    let add = |id, kind, buckets| GroupMod { command: GroupCommand::Add, kind, id, buckets };
    let all = (bucket(0, None), bucket(1, None)).prop_map(|(a, b)| vec![a, b]);
    let select =
        (bucket(0, Some(1)), bucket(1, Some(2)), bucket(2, Some(3))).prop_map(|(a, b, c)| vec![a, b, c]);
    let failover = (bucket(0, Some(3)), bucket(1, Some(1))).prop_map(|(a, b)| vec![a, b]);
    (all, select, failover, 1..4_u32).prop_map(move |(all, select, failover, next)| {
        let actions = vec![Action::Group(next)];
        let chain = Bucket { id: 0, weight: 0, watch_port: None, watch_group: None, actions };
        vec![
            add(1, GroupKind::All, all),
            add(2, GroupKind::Select, select),
            add(3, GroupKind::FastFailover, failover),
            add(4, GroupKind::Indirect, vec![chain]),
        ]
    })
}

/// Tables, with the flows that are valid.
pub(super) fn tables() -> impl Strategy<Value = Tables> {
    (groups(), prop::collection::vec(flow(), 1..40)).prop_map(|(groups, flows)| {
        let mut tables = Tables::new(0x1234_5678_9abc_def0);
        let option = |n| (n, Mapping { class: 1, kind: n, len: 4 });
        tables.apply_options(&OptionChange::Add(vec![option(0), option(2)])).unwrap();
        for change in &groups {
            tables.apply_group(change).unwrap();
        }
        for (id, remark) in [(1, None), (2, Some(1))] {
            let bands = vec![Band { rate: 1, burst: 0, remark }];
            let flags = MeterFlags::default();
            tables.apply_meter(&MeterMod { command: MeterCommand::Add, flags, id, bands }, Now(0)).unwrap();
        }
        for change in &flows {
            // Flows that overlap or set fields that their match does not have are refused.
            _ = tables.apply(change, Now(0));
        }
        tables
    })
}
