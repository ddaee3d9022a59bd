//! Packet-in and packet-out (OpenFlow 1.3.5, 7.4.1 and 7.3.7; nicira-ext.h).

use crate::action::{self, Scope};
use crate::bytes::{Put, Reader, numbered};
use crate::error::{EncodeError, ErrorCode};
use crate::oxm_match::{self, Form};
use crate::port_no;
use crate::property;
use crate::version::Version;
use flow::{Action, Field, Key, Match, PortNo, TableId};

/// No packet is buffered.
const NO_BUFFER: u32 = u32::MAX;
/// The cookie of a packet-in without a flow, and of those without a cookie.
pub const NO_COOKIE: u64 = u64::MAX;

/// Buffer identifier, or `None`.
pub(crate) fn buffer(id: u32) -> Option<u32> {
    Some(id).filter(|id| *id != NO_BUFFER)
}

/// Buffer identifier in messages.
pub(crate) fn buffer_id(buffer: Option<u32>) -> u32 {
    buffer.unwrap_or(NO_BUFFER)
}

/// Reasons of packet-ins.
pub mod reason {
    /// No flow, or the flow for packets without another one.
    pub const NO_MATCH: u8 = 0;
    /// Output action.
    pub const ACTION: u8 = 1;
    /// Invalid TTL.
    pub const INVALID_TTL: u8 = 2;
    /// Output in the action set, since OpenFlow 1.4.
    pub const ACTION_SET: u8 = 3;
    /// Output in a group, since OpenFlow 1.4.
    pub const GROUP: u8 = 4;
    /// Output in a packet-out, since OpenFlow 1.4.
    pub const PACKET_OUT: u8 = 5;
}

numbered! {
    /// Form of packet-ins that a controller selects.
    pub enum PacketInFormat: u32 {
        /// That of the version.
        Standard = 0,
        /// `NXT_PACKET_IN`.
        Nicira = 1,
        /// `NXT_PACKET_IN2`.
        Nicira2 = 2,
    }
}

/// A packet for a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// Form of the message.
    pub format: PacketInFormat,
    /// Buffer that holds the packet.
    pub buffer: Option<u32>,
    /// Length of the packet, of which `data` may be a part.
    pub total_len: u32,
    /// One of [`reason`], or the number in an action.
    pub reason: u8,
    /// Table; 0 in OpenFlow 1.0.
    pub table: TableId,
    /// Cookie of the flow, or [`NO_COOKIE`].
    pub cookie: u64,
    /// Ingress port and other fields that are not in the packet. In OpenFlow 1.0, the ingress port only.
    pub metadata: Match,
    /// Start of the packet.
    pub data: Vec<u8>,
    /// Data of the action; in [`PacketInFormat::Nicira2`] only.
    pub userdata: Vec<u8>,
}

impl PacketIn {
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        let (buffer, total_len) = (buffer(from.u32()?), u32::from(from.u16()?));
        let mut found = Self { buffer, total_len, ..Self::empty(PacketInFormat::Standard) };
        if version == Version::V10 {
            let in_port = port_no::widen(from.u16()?);
            found.metadata = Match::any().with(Field::InPort, u128::from(in_port.0));
            found.reason = from.u8()?;
            from.skip(1)?;
        } else {
            (found.reason, found.table, found.cookie) = (from.u8()?, from.get()?, from.u64()?);
            found.metadata = oxm_match::read_match(from)?;
            from.skip(2)?;
        }
        found.data = from.rest().to_vec();
        Ok(found)
    }

    fn empty(format: PacketInFormat) -> Self {
        Self {
            format,
            buffer: None,
            total_len: 0,
            reason: reason::NO_MATCH,
            table: TableId(0),
            cookie: NO_COOKIE,
            metadata: Match::any(),
            data: Vec::new(),
            userdata: Vec::new(),
        }
    }

    pub(crate) fn read_nicira(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let (buffer, total_len) = (buffer(from.u32()?), u32::from(from.u16()?));
        let (reason, table, cookie) = (from.u8()?, from.get()?, from.u64()?);
        let match_len = from.u16()?;
        from.skip(6)?;
        let (metadata, _) = oxm_match::read_nxm(from, match_len)?;
        from.skip(2)?;
        let data = from.rest().to_vec();
        let empty = Self::empty(PacketInFormat::Nicira);
        Ok(Self { buffer, total_len, reason, table, cookie, metadata, data, ..empty })
    }

    pub(crate) fn read_nicira_2(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let mut found = Self::empty(PacketInFormat::Nicira2);
        let mut total_len = None;
        while !from.is_empty() {
            let (kind, mut value) = property::read(from)?;
            match kind {
                0 => found.data = value.rest().to_vec(),
                1 => total_len = Some(value.u32()?),
                2 => found.buffer = buffer(value.u32()?),
                3 => found.table = value.get()?,
                4 => {
                    value.skip(4)?;
                    found.cookie = value.u64()?;
                }
                5 => found.reason = value.u8()?,
                6 => found.metadata = oxm_match::read_fields(value.or(ErrorCode::MatchBadLen), None)?,
                7 => found.userdata = value.rest().to_vec(),
                _ => return Err(ErrorCode::PropertyBadType),
            }
        }
        found.total_len = total_len.unwrap_or(found.data.len() as u32);
        Ok(found)
    }

    /// Writes the standard form.
    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        self.write_length(out);
        if version == Version::V10 {
            out.put_u16(narrow(in_port(&self.metadata))?);
            out.put_u8(self.reason);
            out.put_u8(0);
        } else {
            out.put_u8(self.reason);
            out.put(&self.table);
            out.put_u64(self.cookie);
            oxm_match::write_match(out, &self.metadata, version);
            out.put_u16(0);
        }
        out.extend_from_slice(&self.data);
        Ok(())
    }

    fn write_length(&self, out: &mut Vec<u8>) {
        out.put_u32(buffer_id(self.buffer));
        out.put_u16(u16::try_from(self.total_len).unwrap_or(u16::MAX));
    }

    pub(crate) fn write_nicira(&self, out: &mut Vec<u8>) {
        self.write_length(out);
        out.put_u8(self.reason);
        out.put(&self.table);
        out.put_u64(self.cookie);
        let at = out.len();
        out.put_zeros(8);
        let len = oxm_match::write_nxm(out, &self.metadata, Form::Nxm, None);
        out[at..at + 2].copy_from_slice(&len.to_be_bytes());
        out.put_u16(0);
        out.extend_from_slice(&self.data);
    }

    pub(crate) fn write_nicira_2(&self, out: &mut Vec<u8>, version: Version) {
        let form = if version == Version::V10 { Form::Nxm } else { Form::Oxm(version) };
        property::write(out, 0, |out| out.extend_from_slice(&self.data));
        if self.total_len as usize != self.data.len() {
            property::write(out, 1, |out| out.put_u32(self.total_len));
        }
        if let Some(buffer) = self.buffer {
            property::write(out, 2, |out| out.put_u32(buffer));
        }
        property::write(out, 3, |out| out.put(&self.table));
        if self.cookie != NO_COOKIE {
            property::write_u64(out, 4, self.cookie);
        }
        property::write(out, 5, |out| out.put_u8(self.reason));
        property::write(out, 6, |out| oxm_match::write_fields(out, &self.metadata, form));
        if !self.userdata.is_empty() {
            property::write(out, 7, |out| out.extend_from_slice(&self.userdata));
        }
    }
}

/// Ingress port of a match; [`PortNo::ANY`] if absent.
pub(crate) fn in_port(metadata: &Match) -> PortNo {
    metadata.exact(Field::InPort).map_or(PortNo::ANY, |port| PortNo(port as u32))
}

fn narrow(port: PortNo) -> Result<u16, EncodeError> {
    port_no::narrow(port).ok_or(EncodeError::Unsupported("a port above 0xfeff"))
}

/// A packet to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// Buffer that holds the packet; `data` is then empty.
    pub buffer: Option<u32>,
    /// Ingress port, and since OpenFlow 1.5 other fields that are not in the packet.
    pub metadata: Match,
    /// Actions.
    pub actions: Vec<Action>,
    /// Packet.
    pub data: Vec<u8>,
}

impl PacketOut {
    /// Ingress port; [`PortNo::CONTROLLER`] if the packet comes from the controller.
    pub fn in_port(&self) -> PortNo {
        in_port(&self.metadata)
    }

    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        let buffer = buffer(from.u32()?);
        let (len, metadata) = if version >= Version::V15 {
            let len = from.u16()?;
            from.skip(2)?;
            (len, read_metadata(from)?)
        } else {
            let is_narrow = version == Version::V10;
            let port = if is_narrow { port_no::widen(from.u16()?) } else { from.get()? };
            let len = from.u16()?;
            from.skip(if is_narrow { 0 } else { 6 })?;
            (len, Match::any().with(Field::InPort, u128::from(port.0)))
        };
        let actions = action::read_actions(from.take(usize::from(len))?, Scope::new(version))?;
        Ok(Self { buffer, metadata, actions, data: from.rest().to_vec() })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        out.put_u32(buffer_id(self.buffer));
        match version {
            Version::V10 => out.put_u16(narrow(self.in_port())?),
            Version::V13 | Version::V14 => out.put(&self.in_port()),
            Version::V15 => {}
        }
        let at = out.len();
        out.put_u16(0);
        match version {
            Version::V10 => {}
            Version::V13 | Version::V14 => out.put_zeros(6),
            Version::V15 => {
                out.put_zeros(2);
                oxm_match::write_match(out, &self.metadata, version);
            }
        }
        let start = out.len();
        action::write_actions(out, &self.actions, version)?;
        out.patch_len(start, at);
        out.extend_from_slice(&self.data);
        Ok(())
    }
}

/// Reads the match of OpenFlow 1.5, which has an ingress port and no fields of the packet.
fn read_metadata(from: &mut Reader<'_>) -> Result<Match, ErrorCode> {
    let found = oxm_match::read_match(from)?;
    let packet = &found.mask().words()[Key::STAGES[0].end..];
    match () {
        () if found.exact(Field::InPort).is_none() => Err(ErrorCode::RequestBadPort),
        () if packet.iter().any(|word| *word != 0) => Err(ErrorCode::RequestPipelineFieldsOnly),
        () => Ok(found),
    }
}
