//! Which module reads and writes each message, and the numbers of messages in each version.

use crate::bundle::{BundleAdd, BundleControl};
use crate::bytes::{Put, Reader};
use crate::error::{DecodeError, EncodeError, ErrorCode, ErrorMessage};
use crate::flow_mod::FlowModRequest;
use crate::flow_removed::FlowRemoved;
use crate::group;
use crate::hello::Hello;
use crate::limits;
use crate::message::{Header, Message};
use crate::meter;
use crate::multipart::reply::MultipartReply;
use crate::multipart::request::MultipartRequest;
use crate::packet::{PacketIn, PacketOut};
use crate::port::{PortMod, PortStatus};
use crate::queue::QueueConfig;
use crate::switch::{AsyncConfig, Features, RoleMessage, RoleStatus};
use crate::table::{TableConfig, TableStatus};
use crate::vendor;
use crate::version::{Dialect, Version};

const HELLO: u8 = 0;
const ERROR: u8 = 1;
const EXPERIMENTER: u8 = 4;

/// Number in OpenFlow 1.3 and later of a type of `version`; `None` if the version lacks it.
fn number_13(kind: u8, version: Version) -> Option<u8> {
    match (version, kind) {
        (Version::V10, 15) => Some(16),
        (Version::V10, 16..=21) => Some(kind + 2),
        (Version::V10, 0..=14) | (Version::V13, 0..=29) | (Version::V14 | Version::V15, 0..=21 | 24..=34) => {
            Some(kind)
        }
        _ => None,
    }
}

/// Whether the type is one of those of [`crate::BundleAdd::allows`].
pub(crate) fn is_allowed_in_bundle(header: Header, version: Version) -> bool {
    matches!(number_13(header.kind, version), Some(13..=16))
}

/// Type in `version` of a number in OpenFlow 1.3 and later.
fn number_in(kind: u8, version: Version) -> Option<u8> {
    (0..=u8::MAX).take(35).find(|own| number_13(*own, version) == Some(kind))
}

/// Reads a whole message.
///
/// # Errors
/// If it is not valid. The error contains the answer for the sender.
pub fn decode(bytes: &[u8], dialect: impl Into<Dialect>) -> Result<Message, DecodeError> {
    let fail = |code| DecodeError::new(code, bytes);
    let header = Header::read(bytes).ok_or_else(|| fail(ErrorCode::RequestBadLen))?;
    read(bytes, header, dialect.into()).map_err(fail)
}

/// Appends a message. Lists that exceed one message are continued in further ones.
///
/// # Errors
/// If the version cannot express it, or it is too long. Nothing is appended then.
pub fn encode(
    message: &Message,
    dialect: impl Into<Dialect>,
    xid: u32,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let start = out.len();
    write(out, message, dialect.into(), xid).inspect_err(|_| out.truncate(start))
}

/// Reads a message with its header. Hello and error messages can have any version.
pub(crate) fn read(bytes: &[u8], header: Header, dialect: Dialect) -> Result<Message, ErrorCode> {
    let mut from = Reader::new(bytes, ErrorCode::RequestBadLen);
    from.skip(Header::LEN)?;
    if usize::from(header.length) != bytes.len() {
        return Err(ErrorCode::RequestBadLen);
    }
    if header.kind == HELLO {
        return Hello::read(header.version, from).map(Message::Hello);
    }
    if header.version != dialect.version as u8 && header.kind != ERROR {
        return Err(ErrorCode::RequestBadVersion);
    }
    let kind = number_13(header.kind, dialect.version).ok_or(ErrorCode::RequestBadType)?;
    let found = read_body(kind, &mut from, dialect)?;
    from.end()?;
    match &found {
        Message::BundleAdd(add) if add.xid != header.xid => Err(ErrorCode::BundleMessageBadXid),
        _ => Ok(found),
    }
}

fn read_body(kind: u8, from: &mut Reader<'_>, dialect: Dialect) -> Result<Message, ErrorCode> {
    let version = dialect.version;
    Ok(match kind {
        ERROR => Message::Error(ErrorMessage::read(from)?),
        2 => Message::EchoRequest(from.rest().to_vec()),
        3 => Message::EchoReply(from.rest().to_vec()),
        EXPERIMENTER => vendor::read(from, dialect)?,
        5 => Message::FeaturesRequest,
        6 => Message::FeaturesReply(Features::read(from, version)?),
        7 => Message::GetConfigRequest,
        8 => Message::GetConfigReply(from.get()?),
        9 => Message::SetConfig(from.get()?),
        10 => Message::PacketIn(Box::new(PacketIn::read(from, version)?)),
        11 => Message::FlowRemoved(Box::new(FlowRemoved::read(from, version)?)),
        12 => Message::PortStatus(Box::new(PortStatus::read(from, version)?)),
        13 => Message::PacketOut(Box::new(PacketOut::read(from, version)?)),
        14 => Message::FlowMod(Box::new(FlowModRequest::read(from, dialect)?)),
        15 => Message::GroupMod(group::read_mod(from, version)?),
        16 => Message::PortMod(PortMod::read(from, version)?),
        17 => Message::TableMod(TableConfig::read(from)?),
        18 => {
            let (request, more) = MultipartRequest::read(from, version)?;
            Message::MultipartRequest(request, more)
        }
        19 => {
            let (reply, more) = MultipartReply::read(from, version)?;
            Message::MultipartReply(reply, more)
        }
        20 => Message::BarrierRequest,
        21 => Message::BarrierReply,
        22 => Message::QueueConfigRequest(QueueConfig::read_port(from, version)?),
        23 => Message::QueueConfigReply(QueueConfig::read(from, version)?),
        24 => Message::RoleRequest(RoleMessage::read(from)?),
        25 => Message::RoleReply(RoleMessage::read(from)?),
        26 => Message::GetAsyncRequest,
        27 => Message::GetAsyncReply(read_async(from, version)?),
        28 => Message::SetAsync(read_async(from, version)?),
        29 => Message::MeterMod(meter::read_mod(from)?),
        30 => Message::RoleStatus(RoleStatus::read(from)?),
        31 => Message::TableStatus(TableStatus::read(from)?),
        32 => read_forward(from, dialect)?,
        33 => Message::BundleControl(BundleControl::read(from)?),
        34 => Message::BundleAdd(BundleAdd::read(from, dialect)?),
        _ => return Err(ErrorCode::RequestBadType),
    })
}

fn read_async(from: &mut Reader<'_>, version: Version) -> Result<AsyncConfig, ErrorCode> {
    if version >= Version::V14 { AsyncConfig::read_properties(from) } else { AsyncConfig::read_fixed(from) }
}

/// Reads a forwarded request. The type is checked before the contents, so that nothing is nested.
pub(crate) fn read_forward(from: &mut Reader<'_>, dialect: Dialect) -> Result<Message, ErrorCode> {
    let header = Header::read(from.peek()).ok_or(ErrorCode::RequestBadLen)?;
    if !matches!(header.kind, 15 | 29) {
        return Err(ErrorCode::RequestBadType);
    }
    let request = Box::new(read(from.rest(), header, dialect)?);
    Ok(Message::RequestForward { xid: header.xid, request })
}

pub(crate) fn write_forward(
    out: &mut Vec<u8>,
    xid: u32,
    request: &Message,
    dialect: Dialect,
) -> Result<(), EncodeError> {
    match request {
        Message::GroupMod(_) | Message::MeterMod(_) => write(out, request, dialect, xid),
        _ => Err(EncodeError::Unsupported("a forwarded request of this type")),
    }
}

/// Number in OpenFlow 1.3 and later.
fn kind_of(message: &Message) -> Option<u8> {
    Some(match message {
        Message::Hello(_) => HELLO,
        Message::Error(_) => ERROR,
        Message::EchoRequest(_) => 2,
        Message::EchoReply(_) => 3,
        Message::Experimenter(_) => EXPERIMENTER,
        Message::FeaturesRequest => 5,
        Message::FeaturesReply(_) => 6,
        Message::GetConfigRequest => 7,
        Message::GetConfigReply(_) => 8,
        Message::SetConfig(_) => 9,
        Message::PacketIn(_) => 10,
        Message::FlowRemoved(_) => 11,
        Message::PortStatus(_) => 12,
        Message::PacketOut(_) => 13,
        Message::FlowMod(_) => 14,
        Message::GroupMod(_) => 15,
        Message::PortMod(_) => 16,
        Message::TableMod(_) => 17,
        Message::MultipartRequest(..) => 18,
        Message::MultipartReply(..) => 19,
        Message::BarrierRequest => 20,
        Message::BarrierReply => 21,
        Message::QueueConfigRequest(_) => 22,
        Message::QueueConfigReply(_) => 23,
        Message::RoleRequest(_) => 24,
        Message::RoleReply(_) => 25,
        Message::GetAsyncRequest => 26,
        Message::GetAsyncReply(_) => 27,
        Message::SetAsync(_) => 28,
        Message::MeterMod(_) => 29,
        Message::RoleStatus(_) => 30,
        Message::TableStatus(_) => 31,
        Message::RequestForward { .. } => 32,
        Message::BundleControl(_) => 33,
        Message::BundleAdd(_) => 34,
        Message::NxFlowRemoved(_)
        | Message::MonitorCancel(_)
        | Message::MonitorPaused
        | Message::MonitorResumed
        | Message::SetFlowFormat(_)
        | Message::FlowModTableId(_)
        | Message::SetPacketInFormat(_)
        | Message::SetControllerId(_)
        | Message::FlowAge
        | Message::CtFlushZone(_)
        | Message::TlvTableMod(_)
        | Message::TlvTableRequest
        | Message::TlvTableReply(_) => return None,
    })
}

/// Writes a message with its header.
pub(crate) fn write(
    out: &mut Vec<u8>,
    message: &Message,
    dialect: Dialect,
    xid: u32,
) -> Result<(), EncodeError> {
    let (start, version) = (out.len(), dialect.version);
    let vendor = vendor::kind(message, version);
    let kind = match vendor {
        Some(_) => Some(EXPERIMENTER),
        None => kind_of(message).and_then(|kind| number_in(kind, version)),
    };
    let number = if let Message::Hello(hello) = message { hello.version } else { version as u8 };
    out.put_u8(number);
    out.put_u8(kind.ok_or(EncodeError::Unsupported("a message"))?);
    out.put_u16(0);
    out.put_u32(xid);
    match (vendor, message) {
        (Some(vendor), _) => vendor::write(out, message, vendor, dialect)?,
        (None, Message::MultipartRequest(request, more)) => return request.write(out, start, *more, version),
        (None, Message::MultipartReply(reply, more)) => return reply.write(out, start, *more, version),
        _ => write_body(out, message, dialect)?,
    }
    let len = out.len() - start;
    if len > limits::MESSAGE {
        return Err(EncodeError::TooLong(len));
    }
    out.patch_len(start, start + 2);
    Ok(())
}

fn write_body(out: &mut Vec<u8>, message: &Message, dialect: Dialect) -> Result<(), EncodeError> {
    let version = dialect.version;
    match message {
        Message::Hello(hello) => hello.write(out),
        Message::Error(error) => error.write(out),
        Message::EchoRequest(data) | Message::EchoReply(data) => out.extend_from_slice(data),
        Message::Experimenter(data) => {
            out.put_u32(data.experimenter);
            if version > Version::V10 {
                out.put_u32(data.kind);
            }
            out.extend_from_slice(&data.data);
        }
        Message::FeaturesReply(features) => features.write(out, version)?,
        Message::GetConfigReply(config) | Message::SetConfig(config) => out.put(config),
        Message::PacketIn(packet) => packet.write(out, version)?,
        Message::FlowRemoved(removed) => removed.write(out, version),
        Message::PortStatus(status) => status.write(out, version)?,
        Message::PacketOut(packet) => packet.write(out, version)?,
        Message::FlowMod(change) if version == Version::V10 => change.write_v10(out, dialect)?,
        Message::FlowMod(change) => change.write(out, version)?,
        Message::GroupMod(change) => group::write_mod(out, change, version)?,
        Message::PortMod(change) => change.write(out, version)?,
        Message::TableMod(change) => change.write(out, version),
        Message::QueueConfigRequest(port) => QueueConfig::write_port(out, *port, version)?,
        Message::QueueConfigReply(config) => config.write(out, version)?,
        Message::RoleRequest(role) | Message::RoleReply(role) => role.write(out),
        Message::GetAsyncReply(config) | Message::SetAsync(config) => match version {
            Version::V10 | Version::V13 => config.write_fixed(out),
            Version::V14 | Version::V15 => config.write_properties(out),
        },
        Message::MeterMod(change) => meter::write_mod(out, change),
        Message::RoleStatus(status) => status.write(out),
        Message::TableStatus(status) => status.write(out),
        Message::RequestForward { xid, request } => write_forward(out, *xid, request, dialect)?,
        Message::BundleControl(control) => control.write(out),
        Message::BundleAdd(add) => add.write(out, dialect)?,
        _ => {}
    }
    Ok(())
}
