//! Actions and instructions.

use super::matching::{pairs, part, ports};
use flow::{
    Action, ConnectionTracking, ControllerOutput, Field, Instructions, Learn, LearnSpec, LearnValue, Nat,
    NatRange, PortNo, Resubmit, Subfield, TableId,
};
use openflow::*;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

pub(super) fn set(fields: Vec<Field>, version: Version) -> BoxedStrategy<Action> {
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

pub(super) fn learn() -> BoxedStrategy<Action> {
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

pub(super) fn nat() -> BoxedStrategy<Nat> {
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

pub(super) fn ct(version: Version) -> BoxedStrategy<Action> {
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

pub(super) fn simple_actions(version: Version) -> BoxedStrategy<Action> {
    // OpenFlow 1.0 does not tell TCP ports from UDP ports: they are those of the flow.
    let writable = [
        Field::Reg0,
        Field::Xxreg1,
        Field::TunMetadata0,
        Field::TunMetadata5,
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
        any::<[u16; 2]>().prop_map(|[idle, hard]| Action::FinTimeout { idle, hard }),
        Just(Action::DeleteField(Field::TunMetadata2)),
        vec(any::<u8>(), 6).prop_map(|note| Action::Note(note.into())),
    ]
    .boxed()
}

pub(super) fn later_actions(version: Version) -> BoxedStrategy<Action> {
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

pub(super) fn instructions(version: Version) -> BoxedStrategy<Instructions> {
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
