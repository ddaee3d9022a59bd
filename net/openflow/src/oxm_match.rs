//! Matches as lists of OXM or NXM fields (OpenFlow 1.3.5, 7.2.3).

use crate::bytes::{Put, Reader};
use crate::error::ErrorCode;
use crate::oxm::{self, OxmId, Target};
use crate::port_no;
use crate::version::Version;
use flow::{BadMatch, Field, Match, PortNo, Prerequisite};

/// `OFPMT_OXM`.
const OXM: u16 = 1;
/// A tag is present.
const VLAN_PRESENT: u128 = 0x1000;

/// How fields are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As OXM.
    Oxm(Version),
    /// As NXM where the field has a number there.
    Nxm,
}

/// Value and mask of the cookies that a message selects.
pub(crate) type Cookie = (u64, u64);

/// Reads a match with its header and padding.
pub(crate) fn read_match(from: &mut Reader<'_>) -> Result<Match, ErrorCode> {
    let mut inner = from.or(ErrorCode::MatchBadLen);
    let (kind, len) = (inner.u16()?, usize::from(inner.u16()?));
    if kind != OXM {
        return Err(ErrorCode::MatchBadType);
    }
    let fields = inner.take(len.checked_sub(4).ok_or(ErrorCode::MatchBadLen)?)?;
    inner.skip(len.next_multiple_of(8) - len)?;
    from.skip(len.next_multiple_of(8))?;
    read_fields(fields, None)
}

/// Writes a match with its header and padding.
pub(crate) fn write_match(out: &mut Vec<u8>, matching: &Match, version: Version) {
    let start = out.len();
    out.put_u16(OXM);
    out.put_u16(0);
    write_fields(out, matching, Form::Oxm(version));
    out.patch_len(start, start + 2);
    out.pad(start);
}

/// Reads fields without header, and their padding.
pub(crate) fn read_nxm(from: &mut Reader<'_>, len: u16) -> Result<(Match, Option<Cookie>), ErrorCode> {
    let len = usize::from(len);
    let fields = from.or(ErrorCode::MatchBadLen).take(len)?;
    from.skip(len)?;
    from.skip(len.next_multiple_of(8) - len)?;
    let mut cookie = None;
    let found = read_fields(fields, Some(&mut cookie))?;
    Ok((found, cookie))
}

/// Writes fields without header, and their padding. Returns the length without padding.
pub(crate) fn write_nxm(out: &mut Vec<u8>, matching: &Match, form: Form, cookie: Option<Cookie>) -> u16 {
    let start = out.len();
    write_fields(out, matching, form);
    if let Some((value, mask)) = cookie.filter(|(_, mask)| *mask != 0) {
        let masked = mask != u64::MAX;
        oxm::cookie(masked).write(out);
        out.put_u64(value);
        if masked {
            out.put_u64(mask);
        }
    }
    let len = out.len() - start;
    out.pad(start);
    len as u16
}

/// Reads fields until the end.
pub(crate) fn read_fields(
    mut from: Reader<'_>,
    mut cookie: Option<&mut Option<Cookie>>,
) -> Result<Match, ErrorCode> {
    let mut found = Match::any();
    while !from.is_empty() {
        let (target, value, mask) = read_field(&mut from)?;
        match (target.field(), &mut cookie) {
            (Some((field, shift)), _) => add(&mut found, target, field, value, shift, mask)?,
            (None, Some(cookie)) => {
                **cookie = Some((value as u64, mask.map_or(u64::MAX, |mask| mask as u64)));
            }
            (None, None) => return Err(ErrorCode::MatchBadField),
        }
    }
    Ok(found)
}

/// Reads a header, a value and the mask if there is one.
pub(crate) fn read_field(from: &mut Reader<'_>) -> Result<(Target, u128, Option<u128>), ErrorCode> {
    let id = OxmId::read(from)?;
    let target = id.target().ok_or_else(|| id.unknown(ErrorCode::MatchBadField))?;
    let (value, mask) = oxm::read_values(from, &id, target, ErrorCode::MatchBadLen)?;
    Ok((target, value, mask))
}

fn add(
    found: &mut Match,
    target: Target,
    field: Field,
    value: u128,
    shift: u8,
    mask: Option<u128>,
) -> Result<(), ErrorCode> {
    let full = field.full();
    let (value, mask) = match target {
        Target::InPort16 => {
            let mask = mask.filter(|mask| *mask != 0xffff);
            (u128::from(port_no::widen(value as u16).0), mask)
        }
        Target::Tos if value & 3 != 0 => return Err(ErrorCode::MatchBadValue),
        Target::Tos => (value >> shift, mask.map(|mask| mask >> shift)),
        _ => (value, mask),
    };
    let mask = mask.filter(|mask| *mask != full);
    found.add(field, value, mask).map_err(|bad| match bad {
        BadMatch::Prerequisite(..) => ErrorCode::MatchBadPrereq,
        BadMatch::Duplicate(_) => ErrorCode::MatchDuplicate,
        BadMatch::Mask(_) => ErrorCode::MatchBadMask,
        BadMatch::Wildcards(_) => ErrorCode::MatchBadWildcards,
        BadMatch::Value(_) => ErrorCode::MatchBadValue,
    })
}

/// Writes the fields of a match in an order in which each follows those that it requires.
pub(crate) fn write_fields(out: &mut Vec<u8>, matching: &Match, form: Form) {
    for rank in 0..=MAX_RANK {
        for &field in Field::ALL {
            let mask = matching.mask().get(field);
            if !matching.has(field) || rank_of(field.info().requires) != rank || is_view(field) {
                continue;
            }
            if field == Field::VlanTci {
                write_vlan(out, matching, form);
            } else if field.info().requires.holds(matching) {
                write_field(out, field, matching.key().get(field), mask, form);
            }
        }
    }
}

/// Fields whose bits are written as those of other fields.
fn is_view(field: Field) -> bool {
    use Field::{VlanPcp, VlanVid, Xreg0, Xreg7, Xxreg0, Xxreg3};
    matches!(field, VlanVid | VlanPcp)
        || (Xreg0..=Xreg7).contains(&field)
        || (Xxreg0..=Xxreg3).contains(&field)
}

const MAX_RANK: u8 = 3;

/// Number of fields that must come before, one after another.
fn rank_of(requires: Prerequisite) -> u8 {
    use Prerequisite as P;
    match requires {
        P::Any => 0,
        P::InPort | P::Vlan | P::Mpls | P::Pbb | P::Ipv4 | P::Ipv6 | P::Ip | P::Arp => 1,
        P::Tcp | P::Udp | P::Sctp | P::Icmp | P::Icmpv6 | P::Ct | P::CtIpv4 | P::CtIpv6 => 2,
        P::Nd | P::NdSolicit | P::NdAdvert => MAX_RANK,
    }
}

/// Writes VLAN and priority, or all bits as one field if only that one can express them.
fn write_vlan(out: &mut Vec<u8>, matching: &Match, form: Form) {
    let (key, mask) = (matching.key(), matching.mask());
    let priority = mask.get(Field::VlanPcp);
    let present = key.get(Field::VlanVid) & mask.get(Field::VlanVid) & VLAN_PRESENT != 0;
    let divisible = priority == 0 || priority == Field::VlanPcp.full() && present;
    let fields: &[Field] = match form {
        Form::Oxm(_) if divisible => &[Field::VlanVid, Field::VlanPcp],
        _ => &[Field::VlanTci],
    };
    for &field in fields.iter().filter(|field| mask.get(**field) != 0) {
        write_field(out, field, key.get(field), mask.get(field), form);
    }
}

/// Writes one field. One without a number is left out.
pub(crate) fn write_field(out: &mut Vec<u8>, field: Field, value: u128, mask: u128, form: Form) {
    let masked = mask != field.full();
    let (id, shift) = match (form, field) {
        (Form::Nxm, Field::IpDscp) => (Some(oxm::ip_tos()), 2),
        (Form::Nxm, Field::InPort) => match port_no::narrow(PortNo(value as u32)) {
            Some(port) => {
                oxm::in_port_16(false).write(out);
                return out.put_u16(port);
            }
            None => (oxm::nxm_id(field, masked), 0),
        },
        (Form::Nxm, _) => (oxm::nxm_id(field, masked), 0),
        (Form::Oxm(version), _) => (OxmId::of(field, masked, version), 0),
    };
    let Some(id) = id else { return };
    let bytes = oxm::written_bytes(field, value, mask);
    id.sized(bytes).write(out);
    out.put_uint(value << shift, bytes);
    if masked {
        out.put_uint(mask << shift, bytes);
    }
}
