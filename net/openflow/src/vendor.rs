//! Messages of Nicira (nicira-ext.h) and of the ONF's extensions to OpenFlow 1.3.

use crate::bundle::{BundleAdd, BundleControl};
use crate::bytes::{Put, Reader};
use crate::codec::{read_forward, write_forward};
use crate::error::{EncodeError, ErrorCode};
use crate::error_codes::{NICIRA, ONF};
use crate::flow_mod::FlowModRequest;
use crate::flow_removed::FlowRemoved;
use crate::message::Message;
use crate::multipart::request::ExperimenterData;
use crate::packet::{PacketIn, PacketInFormat};
use crate::switch::{AsyncConfig, RoleMessage, RoleStatus};
use crate::tlv::{self, TlvTable};
use crate::version::{Dialect, Version};

/// Reads a message after its header.
pub(crate) fn read(from: &mut Reader<'_>, dialect: Dialect) -> Result<Message, ErrorCode> {
    let experimenter = from.u32()?;
    match experimenter {
        NICIRA => read_nicira(from, dialect),
        ONF => read_onf(from, dialect),
        _ => {
            let kind = if dialect.version == Version::V10 { 0 } else { from.u32()? };
            let data = from.rest().to_vec();
            Ok(Message::Experimenter(ExperimenterData { experimenter, kind, data }))
        }
    }
}

fn read_nicira(from: &mut Reader<'_>, dialect: Dialect) -> Result<Message, ErrorCode> {
    let subtype = from.u32()?;
    let is_old = dialect.version == Version::V10;
    Ok(match subtype {
        10 => Message::RoleRequest(RoleMessage::read_nicira(from)?),
        11 => Message::RoleReply(RoleMessage::read_nicira(from)?),
        12 if is_old => Message::SetFlowFormat(from.u32()?),
        13 if is_old => Message::FlowMod(Box::new(FlowModRequest::read_nicira(from, dialect)?)),
        14 if is_old => Message::NxFlowRemoved(Box::new(FlowRemoved::read_nicira(from)?)),
        15 if is_old => {
            let is_set = from.u8()? != 0;
            from.skip(7)?;
            Message::FlowModTableId(is_set)
        }
        16 => {
            let format = PacketInFormat::from_number(from.u32()?);
            Message::SetPacketInFormat(format.ok_or(ErrorCode::RequestPermissions)?)
        }
        17 => Message::PacketIn(Box::new(PacketIn::read_nicira(from)?)),
        18 => Message::FlowAge,
        19 => Message::SetAsync(AsyncConfig::read_fixed(from)?),
        20 => {
            from.skip(6)?;
            Message::SetControllerId(from.u16()?)
        }
        31 if is_old => Message::GroupMod(crate::group::read_mod(from, dialect.version)?),
        21 if is_old => Message::MonitorCancel(from.u32()?),
        22 if is_old => Message::MonitorPaused,
        23 if is_old => Message::MonitorResumed,
        24 => Message::TlvTableMod(tlv::read_mod(from)?),
        25 => Message::TlvTableRequest,
        26 => Message::TlvTableReply(TlvTable::read(from)?),
        29 => {
            from.skip(6)?;
            Message::CtFlushZone(from.u16()?)
        }
        30 => Message::PacketIn(Box::new(PacketIn::read_nicira_2(from)?)),
        _ => return Err(ErrorCode::RequestBadExperimenterType),
    })
}

fn read_onf(from: &mut Reader<'_>, dialect: Dialect) -> Result<Message, ErrorCode> {
    if dialect.version != Version::V13 {
        return Err(ErrorCode::RequestBadExperimenterType);
    }
    Ok(match from.u32()? {
        1870 => Message::MonitorCancel(from.u32()?),
        1871 => Message::MonitorPaused,
        1872 => Message::MonitorResumed,
        1911 => Message::RoleStatus(RoleStatus::read(from)?),
        2300 => Message::BundleControl(BundleControl::read(from)?),
        2301 => Message::BundleAdd(BundleAdd::read(from, dialect)?),
        2350 => read_forward(from, dialect)?,
        _ => return Err(ErrorCode::RequestBadExperimenterType),
    })
}

/// Experimenter and subtype of a message, if it is one of theirs in this version.
pub(crate) fn kind(message: &Message, version: Version) -> Option<(u32, u32)> {
    let is_old = version == Version::V10;
    let onf = |subtype| (version == Version::V13).then_some((ONF, subtype));
    let old = |subtype| is_old.then_some((NICIRA, subtype));
    match message {
        Message::RoleRequest(_) => old(10),
        Message::RoleReply(_) => old(11),
        Message::SetFlowFormat(_) => old(12),
        Message::FlowMod(change) if !change.is_v10() => old(13),
        Message::NxFlowRemoved(_) => old(14),
        Message::FlowModTableId(_) => old(15),
        Message::SetPacketInFormat(_) => Some((NICIRA, 16)),
        Message::PacketIn(packet) => match packet.format {
            PacketInFormat::Standard => None,
            PacketInFormat::Nicira => Some((NICIRA, 17)),
            PacketInFormat::Nicira2 => Some((NICIRA, 30)),
        },
        Message::GroupMod(_) => old(31),
        Message::FlowAge => Some((NICIRA, 18)),
        Message::SetAsync(_) => old(19),
        Message::SetControllerId(_) => Some((NICIRA, 20)),
        Message::CtFlushZone(_) => Some((NICIRA, 29)),
        Message::TlvTableMod(_) => Some((NICIRA, 24)),
        Message::TlvTableRequest => Some((NICIRA, 25)),
        Message::TlvTableReply(_) => Some((NICIRA, 26)),
        Message::MonitorCancel(_) => old(21).or(onf(1870)),
        Message::MonitorPaused => old(22).or(onf(1871)),
        Message::MonitorResumed => old(23).or(onf(1872)),
        Message::RoleStatus(_) => onf(1911),
        Message::BundleControl(_) => onf(2300),
        Message::BundleAdd(_) => onf(2301),
        Message::RequestForward { .. } => onf(2350),
        _ => None,
    }
}

/// Writes a message of [`kind`] after its header.
pub(crate) fn write(
    out: &mut Vec<u8>,
    message: &Message,
    (experimenter, subtype): (u32, u32),
    dialect: Dialect,
) -> Result<(), EncodeError> {
    out.put_u32(experimenter);
    out.put_u32(subtype);
    match message {
        Message::RoleRequest(role) | Message::RoleReply(role) => role.write_nicira(out)?,
        Message::SetFlowFormat(value) | Message::MonitorCancel(value) => out.put_u32(*value),
        Message::FlowMod(change) => change.write_nicira(out, dialect)?,
        Message::NxFlowRemoved(removed) => removed.write_nicira(out),
        Message::GroupMod(change) => crate::group::write_mod(out, change, dialect.version)?,
        Message::FlowModTableId(is_set) => {
            out.put_u8(u8::from(*is_set));
            out.put_zeros(7);
        }
        Message::SetPacketInFormat(format) => out.put_u32(format.number()),
        Message::PacketIn(packet) if packet.format == PacketInFormat::Nicira => packet.write_nicira(out),
        Message::PacketIn(packet) => packet.write_nicira_2(out, dialect.version),
        Message::SetAsync(config) => config.write_fixed(out),
        Message::SetControllerId(id) | Message::CtFlushZone(id) => {
            out.put_zeros(6);
            out.put_u16(*id);
        }
        Message::TlvTableMod(change) => tlv::write_mod(out, change),
        Message::TlvTableReply(table) => table.write(out),
        Message::RoleStatus(status) => status.write(out),
        Message::BundleControl(control) => control.write(out),
        Message::BundleAdd(add) => add.write(out, dialect)?,
        Message::RequestForward { xid, request } => write_forward(out, *xid, request, dialect)?,
        _ => {}
    }
    Ok(())
}
