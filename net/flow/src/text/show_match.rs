//! Matches as `ovs-ofctl dump-flows` prints them: names of OpenFlow 1.0, and a fixed order of fields.
//!
//! A field whose prerequisites the match does not contain is not printed; [`Match::add`] refuses such a match.

use super::names::{Form, named};
use super::value::{self, Look};
use super::{Out, Separated, matching};
use crate::field::Field;
use crate::matching::Match;
use std::fmt;

/// A field, its name if it differs, and its least number of hexadecimal digits.
type Row = (Field, &'static str, usize);

const fn row(field: Field) -> Row {
    (field, "", 0)
}

/// Fields before the protocol.
const STATE: &[Row] = &[
    row(Field::PktMark),
    row(Field::RecircId),
    row(Field::DpHash),
    row(Field::ConjId),
    row(Field::ActsetOutput),
    row(Field::CtState),
    row(Field::CtZone),
    row(Field::CtMark),
    row(Field::CtLabel),
    row(Field::CtNwSrc),
    row(Field::CtIpv6Src),
    row(Field::CtNwDst),
    row(Field::CtIpv6Dst),
    row(Field::CtNwProto),
    row(Field::CtTpSrc),
    row(Field::CtTpDst),
];

/// Fields between the protocol and the VLAN.
const PIPELINE: &[Row] = &[
    row(Field::Reg0),
    row(Field::Reg1),
    row(Field::Reg2),
    row(Field::Reg3),
    row(Field::Reg4),
    row(Field::Reg5),
    row(Field::Reg6),
    row(Field::Reg7),
    row(Field::Reg8),
    row(Field::Reg9),
    row(Field::Reg10),
    row(Field::Reg11),
    row(Field::Reg12),
    row(Field::Reg13),
    row(Field::Reg14),
    row(Field::Reg15),
    row(Field::TunnelId),
    row(Field::TunSrc),
    row(Field::TunDst),
    row(Field::TunIpv6Src),
    row(Field::TunIpv6Dst),
    row(Field::TunGbpId),
    row(Field::TunGbpFlags),
    row(Field::TunTos),
    row(Field::TunTtl),
    row(Field::TunFlags),
    row(Field::TunMetadata0),
    row(Field::TunMetadata1),
    row(Field::TunMetadata2),
    row(Field::TunMetadata3),
    row(Field::TunMetadata4),
    row(Field::TunMetadata5),
    row(Field::TunMetadata6),
    row(Field::TunMetadata7),
    row(Field::Metadata),
    row(Field::InPort),
    row(Field::InPhyPort),
];

/// Fields of headers, after the VLAN.
const HEADERS: &[Row] = &[
    (Field::EthSrc, "dl_src", 0),
    (Field::EthDst, "dl_dst", 0),
    (Field::EthType, "dl_type", 4),
    row(Field::Ipv6Src),
    row(Field::Ipv6Dst),
    (Field::Ipv6Flabel, "", 5),
    row(Field::Ipv6Exthdr),
    row(Field::ArpSpa),
    row(Field::ArpTpa),
    row(Field::Ipv4Src),
    row(Field::Ipv4Dst),
    row(Field::IpProto),
    row(Field::ArpOp),
    row(Field::ArpSha),
    row(Field::ArpTha),
    (Field::IpDscp, "nw_tos", 0),
    row(Field::IpEcn),
    row(Field::IpTtl),
    row(Field::MplsLabel),
    row(Field::MplsTc),
    row(Field::MplsTtl),
    row(Field::MplsBos),
    row(Field::PbbIsid),
    row(Field::PbbUca),
    (Field::IpFrag, "nw_frag", 0),
    (Field::IcmpType, "icmp_type", 0),
    (Field::Icmpv6Type, "icmp_type", 0),
    (Field::IcmpCode, "icmp_code", 0),
    (Field::Icmpv6Code, "icmp_code", 0),
    row(Field::NdTarget),
    row(Field::NdSll),
    row(Field::NdTll),
    (Field::TcpSrc, "tp_src", 0),
    (Field::UdpSrc, "tp_src", 0),
    (Field::SctpSrc, "tp_src", 0),
    (Field::TcpDst, "tp_dst", 0),
    (Field::UdpDst, "tp_dst", 0),
    (Field::SctpDst, "tp_dst", 0),
    row(Field::TcpFlags),
];

/// Prints a match as items of a list.
pub(super) fn print(out: &mut Out, found: &Match, list: &mut Separated) -> fmt::Result {
    print_within(out, found, found, list)
}

/// As [`print`]; prints the fields whose prerequisites `whole` contains.
pub(super) fn print_within(out: &mut Out, found: &Match, whole: &Match, list: &mut Separated) -> fmt::Result {
    let rows = |out: &mut Out, list: &mut Separated, rows: &[Row]| {
        rows.iter().try_for_each(|row| one(out, (found, whole), list, *row))
    };
    let protocol = matching::protocol(found);
    rows(out, list, STATE)?;
    if let Some((word, _)) = protocol {
        list.item(out)?;
        out.f.write_str(word)?;
    }
    rows(out, list, PIPELINE)?;
    vlan(out, found, list)?;
    let is_covered = |field| match field {
        Field::EthType => protocol.is_some(),
        Field::IpProto => protocol.is_some_and(|(_, number)| number),
        _ => false,
    };
    let mut headers = HEADERS.iter().filter(|row| !is_covered(row.0));
    headers.try_for_each(|row| one(out, (found, whole), list, *row))
}

/// Prints a field, if it is matched.
fn one(
    out: &mut Out,
    (found, whole): (&Match, &Match),
    list: &mut Separated,
    (field, name, digits): Row,
) -> fmt::Result {
    let (value, mask, info) = (found.key().get(field), found.mask().get(field), field.info());
    let presence = field.option().map_or(0, |n| 1 << n) & found.mask().get(Field::TunOptions);
    let is_absent = presence & !found.key().get(Field::TunOptions) != 0;
    if !(is_absent || found.has(field)) || !info.requires.holds(whole) {
        return Ok(());
    }
    list.item(out)?;
    if is_absent {
        return write!(out.f, "{}=NP", info.name);
    }
    if mask == 0 {
        return out.f.write_str(info.name);
    }
    write!(out.f, "{}=", if name.is_empty() { info.name } else { name })?;
    if field == Field::IpDscp {
        return write!(out.f, "{}", value << 2);
    }
    let form = match field {
        Field::RecircId => Form::Hex,
        Field::CtZone => Form::Decimal,
        _ => named(field).form,
    };
    value::print(out, field, form, (value, mask), Look { digits, ..Look::MATCH })
}

/// Prints the bits of the tag: as VLAN and priority if each is matched completely or not at all.
fn vlan(out: &mut Out, found: &Match, list: &mut Separated) -> fmt::Result {
    let (value, mask) = (found.key().get(Field::VlanTci), found.mask().get(Field::VlanTci));
    let (vlan, priority) = (mask & 0x0fff, mask >> 13);
    let present = value & 0x1000 != 0;
    let is_whole = matches!(vlan, 0 | 0x0fff) && matches!(priority, 0 | 7) && vlan | priority != 0;
    if mask == 0 {
        return Ok(());
    }
    if !(present && is_whole) {
        list.item(out)?;
        write!(out.f, "vlan_tci={value:#06x}")?;
        return if mask == 0xffff { Ok(()) } else { write!(out.f, "/{mask:#06x}") };
    }
    if vlan != 0 {
        list.item(out)?;
        write!(out.f, "dl_vlan={}", value & 0x0fff)?;
    }
    if priority != 0 {
        list.item(out)?;
        write!(out.f, "dl_vlan_pcp={}", value >> 13)?;
    }
    Ok(())
}
