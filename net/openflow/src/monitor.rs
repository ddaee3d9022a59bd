//! Monitors of flows (OpenFlow 1.4.1, 7.3.5.17; Nicira's form in 1.0, which the ONF took over for 1.3).

use crate::action::Scope;
use crate::bytes::{Put, Reader, numbered};
use crate::error::{EncodeError, ErrorCode};
use crate::flow_mod::{group_or_any, scope_of, some_group};
use crate::group::read_entry;
use crate::instruction::{read_instructions, write_instructions};
use crate::oxm_match::{self, Form};
use crate::port_no;
use crate::port_no::{read as read_port, write as write_port};
use crate::version::Version;
use flow::{Instructions, Match, PortNo, TableId};

/// Flags of a monitor: report what exists at the start.
pub const INITIAL: u16 = 1;
/// Report additions.
pub const ADD: u16 = 2;
/// Report removals.
pub const REMOVED: u16 = 4;
/// Report changes.
pub const MODIFY: u16 = 8;
/// Include instructions.
pub const INSTRUCTIONS: u16 = 16;
/// Report the controller's own changes in full.
pub const NO_ABBREV: u16 = 32;
/// Report the controller's own changes only, since OpenFlow 1.4.
pub const ONLY_OWN: u16 = 64;

numbered! {
    /// Command of a monitor request.
    pub enum MonitorCommand: u8 {
        /// Adds it.
        Add = 0,
        /// Changes it.
        Modify = 1,
        /// Removes it.
        Delete = 2,
    }
}

/// A request for reports on flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorRequest {
    /// Number, chosen by the controller.
    pub id: u32,
    /// Command; [`MonitorCommand::Add`] before OpenFlow 1.4.
    pub command: MonitorCommand,
    /// [`INITIAL`] and the other flags.
    pub flags: u16,
    /// Selects flows with an output to this port; `None` for all.
    pub out_port: Option<PortNo>,
    /// Selects flows with this group; `None` for all, and before OpenFlow 1.4.
    pub out_group: Option<u32>,
    /// Table, or [`TableId::ALL`].
    pub table: TableId,
    /// Selects the flows that it covers.
    pub matching: Match,
}

impl MonitorRequest {
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        if version < Version::V14 {
            return Self::read_nicira(from, version);
        }
        let (id, out_port, out_group) = (from.u32()?, port_no::some(from.get()?), some_group(from.u32()?));
        let (flags, table) = (from.u16()?, from.get()?);
        let command = MonitorCommand::from_number(from.u8()?).ok_or(ErrorCode::MonitorBadCommand)?;
        let matching = oxm_match::read_match(from)?;
        check_flags(flags, command == MonitorCommand::Delete, 0x7f)?;
        Ok(Self { id, command, flags, out_port, out_group, table, matching })
    }

    fn read_nicira(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        let (id, flags) = (from.u32()?, from.u16()?);
        let (out_port, match_len) = if version == Version::V10 {
            (read_port(from, version)?, from.u16()?)
        } else {
            let match_len = from.u16()?;
            (from.get()?, match_len)
        };
        let table = from.get()?;
        from.skip(if version == Version::V10 { 5 } else { 3 })?;
        let matching = read_match(from, match_len, version)?;
        check_flags(flags, false, 0x3f)?;
        let (command, out_port) = (MonitorCommand::Add, port_no::some(out_port));
        Ok(Self { id, command, flags, out_port, out_group: None, table, matching })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        out.put_u32(self.id);
        let port = port_no::or_any(self.out_port);
        if version >= Version::V14 {
            out.put(&port);
            out.put_u32(group_or_any(self.out_group));
            out.put_u16(self.flags);
            out.put(&self.table);
            out.put_u8(self.command.number());
            oxm_match::write_match(out, &self.matching, version);
            return Ok(());
        }
        out.put_u16(self.flags);
        let at = if version == Version::V10 {
            write_port(out, port, version)?;
            out.len()
        } else {
            out.len()
        };
        out.put_u16(0);
        if version > Version::V10 {
            out.put(&port);
        }
        out.put(&self.table);
        out.put_zeros(if version == Version::V10 { 5 } else { 3 });
        write_match(out, &self.matching, at, version);
        Ok(())
    }
}

/// Reads a match whose length comes before: fields in OpenFlow 1.0, a match with its header in 1.3.
fn read_match(from: &mut Reader<'_>, len: u16, version: Version) -> Result<Match, ErrorCode> {
    match version {
        Version::V10 => oxm_match::read_nxm(from, len).map(|(matching, _)| matching),
        _ => oxm_match::read_match(from),
    }
}

/// Writes a match, and its length at `at`.
fn write_match(out: &mut Vec<u8>, matching: &Match, at: usize, version: Version) {
    let start = out.len();
    if version == Version::V10 {
        let len = oxm_match::write_nxm(out, matching, Form::Nxm, None);
        out[at..at + 2].copy_from_slice(&len.to_be_bytes());
    } else {
        oxm_match::write_match(out, matching, version);
        out.copy_within(start + 2..start + 4, at);
    }
}

/// A monitor must report something.
fn check_flags(flags: u16, is_delete: bool, known: u16) -> Result<(), ErrorCode> {
    let reports = flags & (INITIAL | ADD | REMOVED | MODIFY) != 0;
    if flags & !known != 0 || !reports && !is_delete { Err(ErrorCode::MonitorBadFlags) } else { Ok(()) }
}

numbered! {
    /// Why a flow is reported.
    pub enum FlowEvent: u16 {
        /// It exists when the monitor starts; before OpenFlow 1.4 reported as added.
        Initial = 0,
        /// It was added.
        Added = 1,
        /// It was removed.
        Removed = 2,
        /// Its instructions were changed.
        Modified = 3,
    }
}

/// A report of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// Event.
    pub event: FlowEvent,
    /// Table.
    pub table: TableId,
    /// Reason of a removal, as in [`crate::RemovedReason`].
    pub reason: u8,
    /// Seconds without packets.
    pub idle_timeout: u16,
    /// Seconds after creation.
    pub hard_timeout: u16,
    /// Priority.
    pub priority: u16,
    /// Cookie.
    pub cookie: u64,
    /// Match.
    pub matching: Match,
    /// Instructions, if requested.
    pub instructions: Instructions,
}

/// A report of a monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowUpdate {
    /// A flow.
    Flow(Box<FlowReport>),
    /// The controller's own change with this transaction identifier.
    Own(u32),
    /// Reports stop because the buffer of the connection is full. Since OpenFlow 1.4.
    Paused,
    /// Reports continue. Since OpenFlow 1.4.
    Resumed,
}

/// Numbers of reports of the controller's own changes.
const OWN: u16 = 4;
const OWN_NICIRA: u16 = 3;
const PAUSED: u16 = 5;
const RESUMED: u16 = 6;

impl FlowUpdate {
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        let mut body = read_entry(from)?;
        let event = body.u16()?;
        match event {
            OWN_NICIRA if version < Version::V14 => Ok(Self::Own(body.u32()?)),
            0..=2 if version < Version::V14 => read_nicira(&mut body, event + 1, version),
            OWN if version >= Version::V14 => Ok(Self::Own(body.u32()?)),
            PAUSED if version >= Version::V14 => Ok(Self::Paused),
            RESUMED if version >= Version::V14 => Ok(Self::Resumed),
            0..=3 => read_full(&mut body, event, version),
            _ => Err(ErrorCode::NxRequestUnencodableError),
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        let start = out.len();
        out.put_u16(0);
        let is_old = version < Version::V14;
        match self {
            Self::Flow(flow) if is_old => flow.write_nicira(out, version)?,
            Self::Flow(flow) => flow.write(out, version)?,
            Self::Own(xid) => {
                out.put_u16(if is_old { OWN_NICIRA } else { OWN });
                out.put_u32(*xid);
            }
            Self::Paused | Self::Resumed if is_old => {
                return Err(EncodeError::Unsupported("a paused monitor"));
            }
            Self::Paused | Self::Resumed => {
                out.put_u16(if *self == Self::Paused { PAUSED } else { RESUMED });
                out.put_u32(0);
            }
        }
        out.patch_len(start, start);
        Ok(())
    }
}

fn event_of(number: u16) -> Result<FlowEvent, ErrorCode> {
    FlowEvent::from_number(number).ok_or(ErrorCode::NxRequestUnencodableError)
}

fn read_full(from: &mut Reader<'_>, event: u16, version: Version) -> Result<FlowUpdate, ErrorCode> {
    let (event, table, reason) = (event_of(event)?, from.get()?, from.u8()?);
    let (idle_timeout, hard_timeout, priority) = (from.u16()?, from.u16()?, from.u16()?);
    from.skip(4)?;
    let (cookie, matching) = (from.u64()?, oxm_match::read_match(from)?);
    let instructions = read_instructions(from.drain(), Scope::new(version))?;
    Ok(FlowUpdate::Flow(Box::new(FlowReport {
        event,
        table,
        reason,
        idle_timeout,
        hard_timeout,
        priority,
        cookie,
        matching,
        instructions,
    })))
}

fn read_nicira(from: &mut Reader<'_>, event: u16, version: Version) -> Result<FlowUpdate, ErrorCode> {
    let (event, reason, priority) = (event_of(event)?, from.u16()? as u8, from.u16()?);
    let (idle_timeout, hard_timeout, match_len) = (from.u16()?, from.u16()?, from.u16()?);
    let table = from.get()?;
    from.skip(1)?;
    let cookie = from.u64()?;
    let matching = read_match(from, match_len, version)?;
    let instructions = read_instructions(from.drain(), scope_of(version, &matching))?;
    Ok(FlowUpdate::Flow(Box::new(FlowReport {
        event,
        table,
        reason,
        idle_timeout,
        hard_timeout,
        priority,
        cookie,
        matching,
        instructions,
    })))
}

impl FlowReport {
    fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        out.put_u16(self.event.number());
        out.put(&self.table);
        out.put_u8(self.reason);
        out.put_u16(self.idle_timeout);
        out.put_u16(self.hard_timeout);
        out.put_u16(self.priority);
        out.put_u32(0);
        out.put_u64(self.cookie);
        oxm_match::write_match(out, &self.matching, version);
        write_instructions(out, &self.instructions, version)
    }

    fn write_nicira(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        out.put_u16(self.event.number().saturating_sub(1));
        out.put_u16(u16::from(self.reason));
        out.put_u16(self.priority);
        out.put_u16(self.idle_timeout);
        out.put_u16(self.hard_timeout);
        let at = out.len();
        out.put_u16(0);
        out.put(&self.table);
        out.put_u8(0);
        out.put_u64(self.cookie);
        write_match(out, &self.matching, at, version);
        write_instructions(out, &self.instructions, version)
    }
}
