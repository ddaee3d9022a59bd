//! `NXAST_CT` and the `NXAST_NAT` in it (ovs-actions(7), `ct`).

use super::field::{pack, unpack};
use super::nicira::begin_nicira;
use super::{Scope, finish, read_action, read_header, write_actions};
use crate::bytes::{Put, Reader, Wire};
use crate::error::{EncodeError, ErrorCode};
use crate::error_codes::NICIRA;
use crate::oxm;
use crate::version::Version;
use flow::{Action, ConnectionTracking, LearnValue, Nat, NatRange, TableId};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const NAT: u16 = 36;
/// Flags of `ct`.
const COMMIT: u16 = 1;
const FORCE: u16 = 2;
/// Flags of `nat`.
const SOURCE: u16 = 1;
const DESTINATION: u16 = 2;
const PERSISTENT: u16 = 4;
const HASH: u16 = 8;
const RANDOM: u16 = 16;
/// Parts of a range, in their order.
const IPV4_MIN: u16 = 1;
const IPV4_MAX: u16 = 2;
const IPV6_MIN: u16 = 4;
const IPV6_MAX: u16 = 8;
const PORT_MIN: u16 = 16;
const PORT_MAX: u16 = 32;

pub(super) fn read(mut body: Reader<'_>, scope: Scope) -> Result<Action, ErrorCode> {
    let scope = if scope.is_in_ct() { Err(ErrorCode::ActionBadArgument) } else { scope.nested(true) }?;
    let flags = body.u16()?;
    let zone = read_zone(&mut body)?;
    let table = Some(body.get()?).filter(|table| *table != TableId::ALL);
    body.skip(3)?;
    let helper = body.u16()?;
    let (mut nat, mut actions) = (None, Vec::new());
    while !body.is_empty() {
        let (kind, inner) = read_header(&mut body)?;
        match nat_body(kind, inner) {
            Some(inner) => nat = Some(read_nat(inner)?),
            None => read_action(kind, inner, scope, &mut actions)?,
        }
    }
    let commit = flags & COMMIT != 0;
    if !commit && (flags & FORCE != 0 || !actions.is_empty()) || flags & !(COMMIT | FORCE) != 0 {
        return Err(ErrorCode::ActionBadArgument);
    }
    let force = flags & FORCE != 0;
    Ok(Action::Ct(Box::new(ConnectionTracking { commit, force, zone, table, helper, nat, actions })))
}

/// A constant, or 16 bits of a field.
fn read_zone(body: &mut Reader<'_>) -> Result<LearnValue, ErrorCode> {
    if body.peek().starts_with(&[0; 4]) {
        body.skip(4)?;
        return Ok(LearnValue::Constant(u128::from(body.u16()?), 16));
    }
    let target = oxm::read_field(body)?;
    let (offset, bits) = unpack(body.u16()?);
    if bits != 16 {
        return Err(ErrorCode::ActionBadSetLen);
    }
    oxm::subfield(target, offset, bits).map(LearnValue::Field)
}

fn nat_body(kind: u16, mut body: Reader<'_>) -> Option<Reader<'_>> {
    let is_nat = kind == super::EXPERIMENTER && body.u32() == Ok(NICIRA) && body.u16() == Ok(NAT);
    is_nat.then_some(body)
}

fn read_nat(body: Reader<'_>) -> Result<Nat, ErrorCode> {
    let mut body = body.or(ErrorCode::ActionBadArgument);
    body.skip(2)?;
    let (flags, parts) = (body.u16()?, body.u16()?);
    let both = |bits| flags & bits == bits;
    if flags >= RANDOM << 1 || both(SOURCE | DESTINATION) || both(HASH | RANDOM) {
        return Err(ErrorCode::ActionBadArgument);
    }
    let source = (flags & (SOURCE | DESTINATION) != 0).then_some(flags & SOURCE != 0);
    let addresses = read_addresses(&mut body, parts)?;
    let ports = read_range(&mut body, parts, (PORT_MIN, PORT_MAX), <u16 as Wire>::read)?;
    let ports = ports.filter(|range| range.0 != 0);
    if parts & PORT_MIN != 0 && (ports.is_none() || addresses.is_none()) {
        return Err(ErrorCode::ActionBadArgument);
    }
    Ok(Nat {
        source,
        hash: flags & HASH != 0,
        random: flags & RANDOM != 0,
        persistent: flags & PERSISTENT != 0,
        range: NatRange { addresses, ports },
    })
}

fn read_addresses(body: &mut Reader<'_>, parts: u16) -> Result<Option<(IpAddr, IpAddr)>, ErrorCode> {
    let v4 = |body: &mut Reader<'_>| body.array().map(|octets: [u8; 4]| IpAddr::V4(Ipv4Addr::from(octets)));
    let v6 = |body: &mut Reader<'_>| body.array().map(|octets: [u8; 16]| IpAddr::V6(Ipv6Addr::from(octets)));
    let found = match (parts & (IPV4_MIN | IPV4_MAX) != 0, parts & (IPV6_MIN | IPV6_MAX) != 0) {
        (true, true) => return Err(ErrorCode::ActionBadArgument),
        (false, true) => read_range(body, parts, (IPV6_MIN, IPV6_MAX), v6)?,
        _ => read_range(body, parts, (IPV4_MIN, IPV4_MAX), v4)?,
    };
    match found {
        Some((first, _)) if first.is_unspecified() => Err(ErrorCode::ActionBadArgument),
        found => Ok(found),
    }
}

/// First and last value; the last one is the first if absent.
fn read_range<T: Copy + PartialOrd>(
    body: &mut Reader<'_>,
    parts: u16,
    (min, max): (u16, u16),
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, ErrorCode>,
) -> Result<Option<(T, T)>, ErrorCode> {
    match (parts & min != 0, parts & max != 0) {
        (false, false) => Ok(None),
        (false, true) => Err(ErrorCode::ActionBadArgument),
        (true, has_last) => {
            let first = read(body)?;
            let last = if has_last { read(body)? } else { first };
            if last < first { Err(ErrorCode::ActionBadArgument) } else { Ok(Some((first, last))) }
        }
    }
}

pub(super) fn write(
    out: &mut Vec<u8>,
    tracking: &ConnectionTracking,
    version: Version,
) -> Result<(), EncodeError> {
    let start = begin_nicira(out, 35);
    out.put_u16((u16::from(tracking.commit) * COMMIT) | (u16::from(tracking.force) * FORCE));
    match tracking.zone {
        LearnValue::Constant(zone, _) => {
            out.put_u32(0);
            out.put_u16(zone as u16);
        }
        LearnValue::Field(part) => {
            let id = oxm::subfield_id(part).filter(|id| id.experimenter == 0 && part.bits == 16);
            id.ok_or(EncodeError::Unsupported("a zone from this part of a field"))?.write(out);
            out.put_u16(pack(part));
        }
    }
    out.put(&tracking.table.unwrap_or(TableId::ALL));
    out.put_zeros(3);
    out.put_u16(tracking.helper);
    if let Some(nat) = &tracking.nat {
        write_nat(out, nat);
    }
    write_actions(out, &tracking.actions, version)?;
    finish(out, start);
    Ok(())
}

fn write_nat(out: &mut Vec<u8>, nat: &Nat) {
    let flag = |is_set: bool, bit: u16| if is_set { bit } else { 0 };
    let start = begin_nicira(out, NAT);
    out.put_zeros(2);
    let direction = nat.source.map_or(0, |source| if source { SOURCE } else { DESTINATION });
    let options = flag(nat.persistent, PERSISTENT) | flag(nat.hash, HASH) | flag(nat.random, RANDOM);
    out.put_u16(direction | options);
    let at = out.len();
    out.put_u16(0);
    let mut parts = 0;
    if let Some((first, last)) = nat.range.addresses {
        let (min, max) = if first.is_ipv4() { (IPV4_MIN, IPV4_MAX) } else { (IPV6_MIN, IPV6_MAX) };
        put_address(out, first);
        parts |= min;
        if last != first {
            put_address(out, last);
            parts |= max;
        }
    }
    if let Some((first, last)) = nat.range.ports {
        out.put_u16(first);
        parts |= PORT_MIN;
        if last != first {
            out.put_u16(last);
            parts |= PORT_MAX;
        }
    }
    out[at..at + 2].copy_from_slice(&parts.to_be_bytes());
    finish(out, start);
}

fn put_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}
