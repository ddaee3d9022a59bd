//! Random values of the model for property tests, in the normal form that messages and text give back.
//!
//! Normal form: fields of a match have their prerequisites; values are within their masks; a property that is not
//! written has its default; what has two representations has the one named in a comment below.

mod change;

pub use change::{any_deletion, any_flow, any_group, any_meter};

use crate::text::PortNames;
use crate::{
    Access, Action, ConnectionTracking, ControllerOutput, Field, Instructions, Learn, LearnSpec, LearnValue,
    Match, Nat, NatRange, PortNo, Resubmit, Subfield, TableId,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const MAX_FIELDS: usize = 8;
const MAX_ACTIONS: usize = 5;
const MAX_NESTING: u32 = 3;
const MAX_BYTES: usize = 12;
/// `OFPG_MAX`.
const MAX_GROUP: u32 = 0xffff_ff00;

/// Names for some ports, among them ones that need quotation marks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names;

const NAMES: &[(u32, &str)] =
    &[(1, "red"), (2, "eth0.5"), (3, "a b,\"(c"), (4, "normal"), (5, "17"), (6, "a->b/[x]:q")];

impl PortNames for Names {
    fn number(&self, name: &str) -> Option<PortNo> {
        NAMES.iter().find(|(_, other)| *other == name).map(|(number, _)| PortNo(*number))
    }

    fn name(&self, number: PortNo) -> Option<&str> {
        NAMES.iter().find(|(other, _)| *other == number.0).map(|(_, name)| *name)
    }
}

/// Ports, also reserved ones; not those that OpenFlow 1.0 numbers in 16 bits.
pub fn any_port() -> impl Strategy<Value = PortNo> {
    let reserved = 0xffff_fff8..=0xffff_ffff_u32;
    prop_oneof![1..8_u32, reserved, any::<u32>()]
        .prop_map(|port| PortNo(if (0xfff8..=0xffff).contains(&port) { 1 } else { port }))
}

/// Tables that exist.
pub fn any_table() -> impl Strategy<Value = TableId> {
    (0..TableId::ALL.0).prop_map(TableId)
}

fn any_field() -> impl Strategy<Value = Field> {
    proptest::sample::select(Field::ALL).prop_filter("no name", |field| *field != Field::TunOptions)
}

/// Fields that actions outside of `ct` write.
fn writable() -> impl Strategy<Value = Field> {
    let outside =
        |field: &Field| field.info().access == Access::Write && !is_ct(*field) && *field != Field::TunOptions;
    proptest::sample::select(Field::ALL.iter().copied().filter(outside).collect::<Vec<_>>())
}

fn is_ct(field: Field) -> bool {
    matches!(field, Field::CtMark | Field::CtLabel)
}

/// Values that look random, small, or like all bits.
fn bits() -> impl Strategy<Value = u128> {
    prop_oneof![any::<u128>(), (0..300_u128), Just(0), Just(u128::MAX)]
}

/// A value of a field in normal form, with its mask.
fn normal(field: Field, value: u128, mask: u128) -> (u128, u128) {
    let full = field.full();
    let (value, mask) = (value & full, mask & full);
    match field {
        // A match on all states is one on the states that exist.
        Field::CtState if mask & 0xff == 0xff => (value & 0xff, 0xff),
        // "no" and "later" have a mask of both bits.
        Field::IpFrag => [(0, 3), (1, 3), (3, 3), (1, 1), (0, 2)][(value & 7) as usize % 5],
        Field::InPort | Field::ActsetOutput if (0xfff8..=0xffff).contains(&value) => (1 & mask, mask),
        _ => (value & mask, mask),
    }
}

/// Matches whose fields have their prerequisites.
pub fn any_match() -> impl Strategy<Value = Match> {
    let ethertypes = vec![0x0800, 0x86dd, 0x0806, 0x8035, 0x8847, 0x8848, 0x88e7, 0x1234];
    let protocols = vec![1, 6, 17, 58, 132, 2];
    let ethertype = option::weighted(0.8, proptest::sample::select(ethertypes));
    let protocol = option::weighted(0.8, proptest::sample::select(protocols));
    let nd = option::weighted(0.3, prop_oneof![Just(135), Just(136)]);
    let fields = vec((any_field(), bits(), bits()), 0..MAX_FIELDS);
    (ethertype, protocol, nd, fields).prop_map(|(ethertype, protocol, nd, mut fields)| {
        let mut found = Match::any();
        let known = [(Field::EthType, ethertype), (Field::IpProto, protocol), (Field::Icmpv6Type, nd)];
        fields.extend(nd.map(|_| (Field::Icmpv6Code, 0, u128::MAX)));
        fields.extend(known.into_iter().filter_map(|(field, value)| Some((field, value?, u128::MAX))));
        fields.reverse();
        fields.sort_by_key(|(field, ..)| field.info().requires.order());
        for (field, value, mask) in fields {
            let (value, mask) = normal(field, value, mask);
            if mask != 0 || field.option().is_some() {
                // A field that does not fit here is left out.
                let _ = found.add(field, value, Some(mask));
            }
        }
        found
    })
}

/// Parts of fields.
pub fn any_part() -> impl Strategy<Value = Subfield> {
    (any_field(), any::<(u8, u8)>()).prop_map(|(field, seed)| part_of(field, seed))
}

fn part_of(field: Field, (offset, bits): (u8, u8)) -> Subfield {
    let width = field.info().bits;
    let offset = if bits.is_multiple_of(3) { 0 } else { offset % width };
    let bits = if bits.is_multiple_of(3) { width } else { 1 + bits % (width - offset) };
    Subfield { field, offset, bits }
}

fn writable_part() -> impl Strategy<Value = Subfield> {
    (writable(), any::<(u8, u8)>()).prop_map(|(field, seed)| part_of(field, seed))
}

/// Two parts of the same width; the second one is writable.
fn two_parts(to: impl Strategy<Value = Field>) -> impl Strategy<Value = (Subfield, Subfield)> {
    (any_field(), to, any::<(u8, u8, u8)>()).prop_map(|(from, to, (bits, first, second))| {
        let bits = 1 + bits % from.info().bits.min(to.info().bits);
        let part = |field: Field, seed: u8| {
            let offset = seed % (field.info().bits - bits + 1);
            Subfield { field, offset, bits }
        };
        (part(from, first), part(to, second))
    })
}

fn set_field(field: impl Strategy<Value = Field>) -> impl Strategy<Value = Action> {
    (field, bits(), bits()).prop_map(|(field, value, mask)| {
        let mask = if mask & field.full() == 0 { field.full() } else { mask };
        let (value, mask) = normal(field, value, mask);
        // A tag that is written is present.
        let value = if field == Field::VlanVid { value | 0x1000 & mask } else { value };
        Action::SetField { field, value, mask }
    })
}

fn bytes(least: usize) -> impl Strategy<Value = Box<[u8]>> {
    vec(any::<u8>(), least..MAX_BYTES).prop_map(Vec::into_boxed_slice)
}

/// Outputs. Only an output to controllers has a length.
fn output() -> impl Strategy<Value = Action> {
    (any_port(), any::<u16>()).prop_map(|(port, length)| {
        let max_len = if port == PortNo::CONTROLLER { length } else { 0 };
        Action::Output { port, max_len }
    })
}

/// An output to controllers with an argument besides the length; one without is an [`Action::Output`].
fn controller() -> impl Strategy<Value = Action> {
    (any::<(u16, u16, u8)>(), bytes(1)).prop_map(|((max_len, controller, reason), userdata)| {
        Action::Controller(Box::new(ControllerOutput { max_len, controller, reason, userdata }))
    })
}

/// A lookup of another table or port.
fn resubmit() -> impl Strategy<Value = Action> {
    (option::of(any_port()), option::of(any_table()), any_table(), any::<bool>()).prop_map(
        |(in_port, table, other, ct)| {
            let in_port = in_port.filter(|port| *port != PortNo::IN_PORT);
            let table = table.or(in_port.is_none().then_some(other));
            Action::Resubmit(Resubmit { in_port, table, ct })
        },
    )
}

fn conjunction() -> impl Strategy<Value = Action> {
    (any::<u32>(), 2..=64_u8, any::<u8>()).prop_map(|(id, clauses, clause)| Action::Conjunction {
        id,
        clause: clause % clauses,
        clauses,
    })
}

fn learn_spec() -> impl Strategy<Value = LearnSpec> {
    let constant = |value: u128, to: Subfield| {
        let value = value & u128::MAX >> (128 - to.bits);
        let value =
            if to.bits == to.field.info().bits { normal(to.field, value, u128::MAX).0 } else { value };
        LearnValue::Constant(value, to.bits)
    };
    prop_oneof![
        two_parts(any_field()).prop_map(|(from, to)| LearnSpec::Match(LearnValue::Field(from), to)),
        any_part().prop_map(|part| LearnSpec::Match(LearnValue::Field(part), part)),
        (bits(), any_part()).prop_map(move |(value, to)| LearnSpec::Match(constant(value, to), to)),
        two_parts(writable()).prop_map(|(from, to)| LearnSpec::Load(LearnValue::Field(from), to)),
        (bits(), writable_part()).prop_map(move |(value, to)| LearnSpec::Load(constant(value, to), to)),
        any_part().prop_map(LearnSpec::Output),
    ]
}

/// Learning. Flag 4 is set if and only if there is a destination of the result.
fn learn() -> impl Strategy<Value = Action> {
    let numbers = any::<(u16, u64, u16, u16, u16, u16, u32)>();
    let result = option::of((writable(), any::<u8>()));
    (any_table(), numbers, 0..4_u16, result, vec(learn_spec(), 0..MAX_ACTIONS)).prop_map(
        |(table, numbers, flags, result, specs)| {
            let (priority, cookie, idle_timeout, hard_timeout, fin_idle_timeout, fin_hard_timeout, limit) =
                numbers;
            let result = result.map(|(field, bit)| (field, bit % field.info().bits));
            let flags = flags | if result.is_some() { 4 } else { 0 };
            Action::Learn(Box::new(Learn {
                table,
                priority,
                cookie,
                idle_timeout,
                hard_timeout,
                fin_idle_timeout,
                fin_hard_timeout,
                flags,
                limit,
                result,
                specs,
            }))
        },
    )
}

fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    let ipv4 = any::<(u32, u32)>()
        .prop_map(|(a, b)| (Ipv4Addr::from(a.min(b)).into(), Ipv4Addr::from(a.max(b)).into()));
    let ipv6 = any::<(u128, u128)>()
        .prop_map(|(a, b)| (Ipv6Addr::from(a.min(b)).into(), Ipv6Addr::from(a.max(b)).into()));
    prop_oneof![ipv4, ipv6]
}

/// Translation. Without a direction, it has neither options nor a range; `hash` and `random` exclude each other.
fn nat() -> impl Strategy<Value = Nat> {
    let ports = any::<(u16, u16)>().prop_map(|(a, b)| (a.min(b), a.max(b)));
    (option::of(any::<bool>()), any::<(bool, bool, bool)>(), option::of(addresses()), option::of(ports))
        .prop_map(|(source, (hash, random, persistent), addresses, ports)| match source {
            None => Nat::default(),
            Some(_) => Nat {
                source,
                hash,
                random: random && !hash,
                persistent,
                range: NatRange { addresses, ports },
            },
        })
}

fn zone() -> impl Strategy<Value = LearnValue> {
    let field = prop_oneof![Just(Field::Reg0), Just(Field::CtLabel), Just(Field::TcpSrc)];
    let part = field.prop_map(|field| LearnValue::Field(Subfield { field, offset: 0, bits: 16 }));
    prop_oneof![any::<u16>().prop_map(|zone| LearnValue::Constant(zone.into(), 16)), part]
}

/// Connection tracking. It writes mark and label only; `force` comes with `commit`.
fn connection_tracking() -> impl Strategy<Value = Action> {
    let written = || prop_oneof![Just(Field::CtMark), Just(Field::CtLabel)];
    let copy = two_parts(written()).prop_map(|(from, to)| Action::Move { from, to });
    let actions = vec(prop_oneof![set_field(written()), copy], 0..3);
    let numbers = (zone(), option::of(any_table()), any::<u16>());
    (any::<(bool, bool)>(), numbers, option::of(nat()), actions).prop_map(
        |((commit, force), (zone, table, helper), nat, actions)| {
            let force = force && commit;
            Action::Ct(Box::new(ConnectionTracking { commit, force, zone, table, helper, nat, actions }))
        },
    )
}

fn number() -> impl Strategy<Value = Action> {
    prop_oneof![
        any::<u32>().prop_map(Action::Group),
        any::<u32>().prop_map(Action::Meter),
        option::of(any::<u32>()).prop_map(Action::SetQueue),
        prop_oneof![Just(0x8100), Just(0x88a8)].prop_map(Action::PushVlan),
        prop_oneof![Just(0x8847), Just(0x8848)].prop_map(Action::PushMpls),
        any::<u16>().prop_map(Action::PopMpls),
        any::<u8>().prop_map(Action::SetMplsTtl),
        any::<u8>().prop_map(Action::SetNwTtl),
        vec(any::<u16>(), 1..4).prop_map(|controllers| Action::DecNwTtl(controllers.into())),
        bytes(0).prop_map(Action::Note),
        any::<(u16, u16)>().prop_map(|(idle, hard)| Action::FinTimeout { idle, hard }),
    ]
}

fn word() -> impl Strategy<Value = Action> {
    proptest::sample::select(vec![
        Action::PopVlan,
        Action::PushPbb(0x88e7),
        Action::PopPbb,
        Action::DecMplsTtl,
        Action::CopyTtlOut,
        Action::CopyTtlIn,
        Action::CtClear,
        Action::DeleteField(Field::TunMetadata0),
        Action::DeleteField(Field::TunMetadata7),
        Action::Exit,
    ])
}

/// Actions without actions within, except of `ct`.
fn leaf() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => output(),
        // The action has room for 64 bits, and ovs-ofctl writes longer ones wrong.
        1 => any_part()
            .prop_filter("too long", |from| from.bits <= 64)
            .prop_map(|from| Action::OutputField { from, max_len: 0xffff }),
        1 => controller(),
        3 => number(),
        2 => word(),
        3 => set_field(writable()),
        1 => two_parts(writable()).prop_map(|(from, to)| Action::Move { from, to }),
        1 => any_part().prop_map(Action::StackPush),
        1 => writable_part().prop_map(Action::StackPop),
        1 => resubmit(),
        1 => learn(),
        1 => connection_tracking(),
        1 => conjunction(),
    ]
}

/// Actions.
pub fn any_action() -> impl Strategy<Value = Action> {
    leaf().prop_recursive(MAX_NESTING, 12, MAX_ACTIONS as u32, |inner| {
        vec(inner, 0..MAX_ACTIONS).prop_map(|actions| Action::Clone(actions.into()))
    })
}

/// Lists of actions.
pub fn any_actions() -> impl Strategy<Value = Vec<Action>> {
    vec(any_action(), 0..MAX_ACTIONS)
}

/// Instructions. A meter in front of the applied actions is the instruction, not the action.
pub fn any_instructions() -> impl Strategy<Value = Instructions> {
    let metadata = any::<(u64, u64)>().prop_map(|(value, mask)| (value & mask, mask));
    let parts = (option::of(any::<u32>()), any_actions(), any::<bool>(), any_actions());
    (parts, option::of(metadata), option::of(any_table())).prop_map(
        |((meter, apply, clear, write), metadata, goto)| {
            let leads = |apply: &[Action]| matches!(apply.first(), Some(Action::Meter(_)));
            let apply = if meter.is_none() && leads(&apply) { Vec::new() } else { apply };
            Instructions { meter, apply, clear, write, metadata, goto }
        },
    )
}
