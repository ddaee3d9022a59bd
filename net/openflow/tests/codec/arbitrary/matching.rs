//! Matches, and the fields of parts.

use flow::{Field, Match, PortNo, Subfield};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

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

pub(super) fn is_numbered(field: Field) -> bool {
    field.info().oxm.or(field.info().nxm).is_some() && field != Field::IpFrag
}

pub(super) fn fields() -> BoxedStrategy<Field> {
    select(Field::ALL.iter().copied().filter(|field| is_numbered(*field)).collect::<Vec<_>>()).boxed()
}

pub(super) fn fill(mut found: Match, parts: Vec<(Field, u128, Option<u128>)>) -> Match {
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
pub(super) fn metadata() -> BoxedStrategy<Match> {
    let fields = select(vec![
        Field::Metadata,
        Field::TunnelId,
        Field::Reg3,
        Field::TunSrc,
        Field::PktMark,
        Field::TunMetadata1,
    ]);
    (ports(), vec((fields, any::<u128>(), of(any::<u128>())), 0..4))
        .prop_map(|(port, parts)| fill(Match::any().with(Field::InPort, u128::from(port.0)), parts))
        .boxed()
}

/// Ports with a number of 16 bits.
pub(super) fn ports() -> BoxedStrategy<PortNo> {
    prop_oneof![
        (1..0xff00_u32).prop_map(PortNo),
        select(vec![PortNo::LOCAL, PortNo::CONTROLLER, PortNo::FLOOD, PortNo::IN_PORT])
    ]
    .boxed()
}

pub(super) fn part() -> BoxedStrategy<Subfield> {
    let registers = [
        Field::Reg0,
        Field::Reg5,
        Field::Metadata,
        Field::Xxreg1,
        Field::TunnelId,
        Field::EthSrc,
        Field::TunMetadata0,
    ];
    (select(registers.to_vec()), any::<u8>(), any::<u8>())
        .prop_map(|(field, offset, bits)| {
            let width = field.info().bits.min(64);
            let offset = offset % width;
            Subfield::new(field, offset, 1 + bits % (width - offset)).unwrap()
        })
        .boxed()
}

pub(super) fn pairs() -> BoxedStrategy<(Subfield, Subfield)> {
    (part(), select(vec![Field::Xxreg2, Field::Xxreg3]), 0..64_u8)
        .prop_map(|(from, to, offset)| (from, Subfield::new(to, offset, from.bits).unwrap()))
        .boxed()
}
