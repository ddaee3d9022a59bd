//! Actions of OpenFlow 1.0 (OpenFlow 1.0.0, 5.2.4). Those that it lacks are written as Nicira's.

use crate::action::{self, Scope, nicira, output_port, put};
use crate::bytes::{Put, Reader};
use crate::error::{EncodeError, ErrorCode};
use crate::port_no;
use flow::{Action, Field, Instructions, PortNo, Resubmit};
use wire::MacAddress;

/// A tag is present. An action that sets this bit adds a tag if there is none.
const VLAN_PRESENT: u16 = 0x1000;
/// Bits of the tag that the two actions on it set.
const VLAN_ID: u16 = 0x1fff;
const VLAN_PRIORITY: u16 = 0xf000;

/// Reads an action after its header. `enqueue` becomes three actions.
pub(crate) fn read(
    kind: u16,
    mut body: Reader<'_>,
    scope: Scope,
    actions: &mut Vec<Action>,
) -> Result<(), ErrorCode> {
    let expected = match kind {
        4 | 5 | 11 => 12,
        0..=10 => 4,
        _ => return Err(ErrorCode::ActionBadType),
    };
    if body.len() != expected {
        return Err(ErrorCode::ActionBadLen);
    }
    let action = match kind {
        0 => Action::Output { port: output_port(port_no::widen(body.u16()?))?, max_len: body.u16()? },
        1 => set(Field::VlanTci, u128::from(vlan(body.u16()?)?), u128::from(VLAN_ID)),
        2 => set(Field::VlanTci, u128::from(priority(body.u8()?)?), u128::from(VLAN_PRIORITY)),
        3 => Action::PopVlan,
        4 => set_mac(Field::EthSrc, body.get()?),
        5 => set_mac(Field::EthDst, body.get()?),
        6 => set_all(Field::Ipv4Src, body.u32()?),
        7 => set_all(Field::Ipv4Dst, body.u32()?),
        8 => set_all(Field::IpDscp, u32::from(dscp(body.u8()?)?)),
        9 => set_all(scope.ports.0, u32::from(body.u16()?)),
        10 => set_all(scope.ports.1, u32::from(body.u16()?)),
        _ => return read_enqueue(body, actions),
    };
    actions.push(action);
    Ok(())
}

fn read_enqueue(mut body: Reader<'_>, actions: &mut Vec<Action>) -> Result<(), ErrorCode> {
    let port = output_port(port_no::widen(body.u16()?))?;
    if port > PortNo::MAX && ![PortNo::IN_PORT, PortNo::LOCAL].contains(&port) {
        return Err(ErrorCode::ActionBadOutPort);
    }
    body.skip(6)?;
    let queue = body.u32()?;
    let output = Action::Output { port, max_len: 0 };
    actions.extend([Action::SetQueue(Some(queue)), output, Action::SetQueue(None)]);
    Ok(())
}

fn set(field: Field, value: u128, mask: u128) -> Action {
    Action::SetField { field, value, mask }
}

fn set_all(field: Field, value: u32) -> Action {
    set(field, u128::from(value), field.full())
}

fn set_mac(field: Field, address: MacAddress) -> Action {
    let value = address.octets().iter().fold(0, |value, octet| value << 8 | u128::from(*octet));
    set(field, value, field.full())
}

fn vlan(id: u16) -> Result<u16, ErrorCode> {
    if id < VLAN_PRESENT { Ok(id | VLAN_PRESENT) } else { Err(ErrorCode::ActionBadArgument) }
}

fn priority(value: u8) -> Result<u16, ErrorCode> {
    if value < 8 { Ok(u16::from(value) << 13 | VLAN_PRESENT) } else { Err(ErrorCode::ActionBadArgument) }
}

fn dscp(tos: u8) -> Result<u8, ErrorCode> {
    if tos & 3 == 0 { Ok(tos >> 2) } else { Err(ErrorCode::ActionBadArgument) }
}

/// Writes an action.
pub(crate) fn write(out: &mut Vec<u8>, action: &Action) -> Result<(), EncodeError> {
    match action {
        Action::Output { port, max_len } => {
            let port = port_no::narrow(*port).ok_or(EncodeError::Unsupported("a port above 0xfeff"))?;
            put(out, 0, |out| {
                out.put_u16(port);
                out.put_u16(*max_len);
            });
        }
        Action::SetField { field, value, mask } => return write_set(out, *field, *value, *mask),
        Action::PopVlan => put(out, 3, |_| ()),
        // A later action that sets the VLAN adds the tag.
        Action::PushVlan(_) => {}
        Action::SetQueue(Some(queue)) => put_nicira_u32(out, 4, *queue),
        Action::Group(group) => put_nicira_u32(out, 40, *group),
        Action::PushMpls(kind) => nicira(out, 23, |out| out.put_u16(*kind)),
        Action::PopMpls(kind) => nicira(out, 24, |out| out.put_u16(*kind)),
        Action::SetMplsTtl(ttl) => nicira(out, 25, |out| out.put_u8(*ttl)),
        Action::DecMplsTtl => nicira(out, 26, |_| ()),
        Action::SetNwTtl(ttl) => {
            return action::write_load(out, Field::IpTtl, u128::from(*ttl), Field::IpTtl.full());
        }
        Action::Move { from, to } => return action::write_move(out, *from, *to, crate::Version::V10),
        _ => return nicira::write(out, action, crate::Version::V10),
    }
    Ok(())
}

fn nicira(out: &mut Vec<u8>, subtype: u16, body: impl FnOnce(&mut Vec<u8>)) {
    nicira::put(out, subtype, body);
}

fn put_nicira_u32(out: &mut Vec<u8>, subtype: u16, value: u32) {
    nicira(out, subtype, |out| {
        out.put_zeros(2);
        out.put_u32(value);
    });
}

fn write_set(out: &mut Vec<u8>, field: Field, value: u128, mask: u128) -> Result<(), EncodeError> {
    let is_whole = mask == field.full();
    let tag = value as u16 & VLAN_PRESENT != 0;
    match field {
        Field::VlanTci if mask == u128::from(VLAN_ID) && tag => {
            put(out, 1, |out| out.put_u16(value as u16 & !VLAN_PRESENT));
        }
        Field::VlanTci if mask == u128::from(VLAN_PRIORITY) && tag => {
            put(out, 2, |out| out.put_u8((value >> 13) as u8));
        }
        Field::EthSrc if is_whole => put(out, 4, |out| put_mac(out, value)),
        Field::EthDst if is_whole => put(out, 5, |out| put_mac(out, value)),
        Field::Ipv4Src if is_whole => put(out, 6, |out| out.put_u32(value as u32)),
        Field::Ipv4Dst if is_whole => put(out, 7, |out| out.put_u32(value as u32)),
        Field::IpDscp if is_whole => put(out, 8, |out| out.put_u8((value << 2) as u8)),
        Field::TcpSrc | Field::UdpSrc if is_whole => put(out, 9, |out| out.put_u16(value as u16)),
        Field::TcpDst | Field::UdpDst if is_whole => put(out, 10, |out| out.put_u16(value as u16)),
        Field::TunnelId if is_whole => write_tunnel(out, value as u64),
        _ => return action::write_load(out, field, value, mask),
    }
    Ok(())
}

fn put_mac(out: &mut Vec<u8>, value: u128) {
    out.put_uint(value, 6);
    out.put_zeros(6);
}

fn write_tunnel(out: &mut Vec<u8>, id: u64) {
    match u32::try_from(id) {
        Ok(id) => put_nicira_u32(out, 2, id),
        Err(_) => nicira(out, 9, |out| {
            out.put_zeros(6);
            out.put_u64(id);
        }),
    }
}

/// Writes instructions as actions. Meters and the action set do not exist in OpenFlow 1.0 and are left out.
pub(crate) fn write_instructions(out: &mut Vec<u8>, instructions: &Instructions) -> Result<(), EncodeError> {
    action::write_actions(out, &instructions.apply, crate::Version::V10)?;
    if let Some((value, mask)) = instructions.metadata {
        action::write_metadata(out, value, mask);
    }
    match instructions.goto {
        Some(table) => nicira::write_resubmit(out, Resubmit { in_port: None, table: Some(table), ct: false }),
        None => Ok(()),
    }
}
