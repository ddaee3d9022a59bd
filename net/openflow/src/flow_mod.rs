//! Changes of flows (OpenFlow 1.3.5, 7.3.4.2; nicira-ext.h).

use crate::action::Scope;
use crate::bytes::{Put, Reader};
use crate::error::{EncodeError, ErrorCode};
use crate::instruction::{read_instructions, write_instructions};
use crate::oxm_match::{self, Form};
use crate::packet::{buffer, buffer_id};
use crate::port_no;
use crate::v10::matching;
use crate::version::{Dialect, Version};
use flow::{Field, FlowCommand, FlowFlags, FlowMod, Match, TableId};

/// Any group.
const ANY_GROUP: u32 = u32::MAX;
/// Flags of OpenFlow 1.0: the third one selected a cache that no later version has.
const EMERGENCY: u16 = 4;

/// A group, or `None` for any.
pub(crate) fn some_group(group: u32) -> Option<u32> {
    Some(group).filter(|group| *group != ANY_GROUP)
}

/// A group in messages.
pub(crate) fn group_or_any(group: Option<u32>) -> u32 {
    group.unwrap_or(ANY_GROUP)
}

/// A change of flows, and the packet to which it is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowModRequest {
    /// Change. In OpenFlow 1.0, the table is 0 for additions and all tables for other commands, unless the connection
    /// enabled table numbers.
    pub flow: FlowMod,
    /// Buffered packet.
    pub buffer: Option<u32>,
}

/// Flags of a flow.
pub(crate) fn read_flags(flags: u16) -> Result<FlowFlags, ErrorCode> {
    if flags & !0x1f != 0 {
        return Err(ErrorCode::FlowModBadFlags);
    }
    Ok(FlowFlags {
        send_removed: flags & 1 != 0,
        check_overlap: flags & 2 != 0,
        reset_counts: flags & 4 != 0,
        no_packet_counts: flags & 8 != 0,
        no_byte_counts: flags & 16 != 0,
    })
}

/// Flags of a flow in messages.
pub(crate) fn flag_bits(flags: FlowFlags) -> u16 {
    let FlowFlags { send_removed, check_overlap, reset_counts, no_packet_counts, no_byte_counts } = flags;
    let bits = [send_removed, check_overlap, reset_counts, no_packet_counts, no_byte_counts];
    bits.iter().rev().fold(0, |found, bit| found << 1 | u16::from(*bit))
}

const COMMANDS: [FlowCommand; 5] = [
    FlowCommand::Add,
    FlowCommand::Modify,
    FlowCommand::ModifyStrict,
    FlowCommand::Delete,
    FlowCommand::DeleteStrict,
];

fn read_command(number: u8) -> Result<FlowCommand, ErrorCode> {
    COMMANDS.get(usize::from(number)).copied().ok_or(ErrorCode::FlowModBadCommand)
}

fn command_number(command: FlowCommand) -> u8 {
    COMMANDS.iter().position(|known| *known == command).unwrap_or(0) as u8
}

/// Where actions of OpenFlow 1.0 stand, by the protocol of the flow.
pub(crate) fn scope_of(version: Version, matching: &Match) -> Scope {
    let mut scope = Scope::new(version);
    match matching.exact(Field::IpProto) {
        Some(17) => scope.ports = (Field::UdpSrc, Field::UdpDst),
        Some(132) => scope.ports = (Field::SctpSrc, Field::SctpDst),
        _ => {}
    }
    scope
}

fn is_delete(command: FlowCommand) -> bool {
    matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict)
}

impl FlowModRequest {
    pub(crate) fn read(from: &mut Reader<'_>, dialect: Dialect) -> Result<Self, ErrorCode> {
        if dialect.version == Version::V10 {
            return Self::read_v10(from, dialect);
        }
        let (cookie, cookie_mask, table, command) = (from.u64()?, from.u64()?, from.get()?, from.u8()?);
        let (idle_timeout, hard_timeout, priority) = (from.u16()?, from.u16()?, from.u16()?);
        let (buffer, out_port, out_group) = (buffer(from.u32()?), from.get()?, from.u32()?);
        let (flags, importance) = (from.u16()?, from.u16()?);
        let matching = oxm_match::read_match(from)?;
        let scope = Scope::new(dialect.version);
        let instructions = read_instructions(from.drain(), scope)?;
        let command = read_command(command)?;
        let flow = FlowMod {
            command,
            table,
            matching,
            priority,
            cookie,
            cookie_mask,
            idle_timeout,
            hard_timeout,
            out_port: port_no::some(out_port).filter(|_| is_delete(command)),
            out_group: some_group(out_group).filter(|_| is_delete(command)),
            flags: read_flags(flags)?,
            importance: if dialect.version >= Version::V14 { importance } else { 0 },
            instructions,
        };
        Ok(Self { flow, buffer })
    }

    fn read_v10(from: &mut Reader<'_>, dialect: Dialect) -> Result<Self, ErrorCode> {
        let (matching, cookie) = (matching::read(from)?, from.u64()?);
        let mut found = Self::read_common(from, cookie, dialect)?;
        let scope = scope_of(Version::V10, &matching);
        found.flow.matching = matching;
        found.flow.instructions = read_instructions(from.drain(), scope)?;
        Ok(found)
    }

    /// Reads the fields from the command to the flags in the forms of OpenFlow 1.0 and Nicira. Match and instructions
    /// are empty.
    fn read_common(from: &mut Reader<'_>, cookie: u64, dialect: Dialect) -> Result<Self, ErrorCode> {
        let [table, command] = from.array()?;
        let command = read_command(command)?;
        let table = match (dialect.table_ids, command) {
            (true, _) => TableId(table),
            (false, _) if table != 0 => return Err(ErrorCode::FlowModBadCommand),
            (false, FlowCommand::Add) => TableId(0),
            (false, _) => TableId::ALL,
        };
        let (idle_timeout, hard_timeout, priority) = (from.u16()?, from.u16()?, from.u16()?);
        let (buffer, out_port, flags) = (buffer(from.u32()?), port_no::widen(from.u16()?), from.u16()?);
        if flags & EMERGENCY != 0 && dialect.version == Version::V10 {
            return Err(ErrorCode::FlowModUnsupported);
        }
        let flow = FlowMod {
            table,
            cookie,
            idle_timeout,
            hard_timeout,
            out_port: port_no::some(out_port).filter(|_| is_delete(command)),
            flags: read_flags(flags)?,
            ..FlowMod::new(command, &Match::any(), priority)
        };
        Ok(Self { flow, buffer })
    }

    /// Reads `NXT_FLOW_MOD`. A cookie in the match selects flows.
    pub(crate) fn read_nicira(from: &mut Reader<'_>, dialect: Dialect) -> Result<Self, ErrorCode> {
        let cookie = from.u64()?;
        let mut found = Self::read_common(from, cookie, dialect)?;
        let match_len = from.u16()?;
        from.skip(6)?;
        let (matching, selected) = oxm_match::read_nxm(from, match_len)?;
        if let Some((cookie, mask)) = selected {
            (found.flow.cookie, found.flow.cookie_mask) = (cookie, mask);
        }
        found.flow.matching = matching;
        let scope = scope_of(Version::V10, &matching);
        found.flow.instructions = read_instructions(from.drain(), scope)?;
        Ok(found)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        let flow = &self.flow;
        out.put_u64(flow.cookie);
        out.put_u64(flow.cookie_mask);
        out.put(&flow.table);
        out.put_u8(command_number(flow.command));
        self.write_timeouts(out);
        out.put(&port_no::or_any(flow.out_port));
        out.put_u32(group_or_any(flow.out_group));
        out.put_u16(flag_bits(flow.flags));
        out.put_u16(if version >= Version::V14 { flow.importance } else { 0 });
        oxm_match::write_match(out, &flow.matching, version);
        write_instructions(out, &flow.instructions, version)
    }

    fn write_timeouts(&self, out: &mut Vec<u8>) {
        out.put_u16(self.flow.idle_timeout);
        out.put_u16(self.flow.hard_timeout);
        out.put_u16(self.flow.priority);
        out.put_u32(buffer_id(self.buffer));
    }

    /// Whether OpenFlow 1.0 expresses the change without Nicira's message.
    pub(crate) fn is_v10(&self) -> bool {
        self.flow.cookie_mask == 0 && matching::is_complete(&self.flow.matching)
    }

    pub(crate) fn write_v10(&self, out: &mut Vec<u8>, dialect: Dialect) -> Result<(), EncodeError> {
        matching::write(out, &self.flow.matching);
        out.put_u64(self.flow.cookie);
        self.write_common(out, dialect)?;
        write_instructions(out, &self.flow.instructions, Version::V10)
    }

    fn write_common(&self, out: &mut Vec<u8>, dialect: Dialect) -> Result<(), EncodeError> {
        let flow = &self.flow;
        let implied = if flow.command == FlowCommand::Add { TableId(0) } else { TableId::ALL };
        if !dialect.table_ids && flow.table != implied {
            return Err(EncodeError::Unsupported("a table of a flow"));
        }
        out.put_u8(if dialect.table_ids { flow.table.0 } else { 0 });
        out.put_u8(command_number(flow.command));
        self.write_timeouts(out);
        let port = port_no::narrow(port_no::or_any(flow.out_port));
        out.put_u16(port.ok_or(EncodeError::Unsupported("a port above 0xfeff"))?);
        out.put_u16(flag_bits(flow.flags) & 3);
        Ok(())
    }

    pub(crate) fn write_nicira(&self, out: &mut Vec<u8>, dialect: Dialect) -> Result<(), EncodeError> {
        out.put_u64(self.flow.cookie);
        self.write_common(out, dialect)?;
        let at = out.len();
        out.put_zeros(8);
        let cookie = Some((self.flow.cookie, self.flow.cookie_mask));
        let len = oxm_match::write_nxm(out, &self.flow.matching, Form::Nxm, cookie);
        out[at..at + 2].copy_from_slice(&len.to_be_bytes());
        write_instructions(out, &self.flow.instructions, Version::V10)
    }
}
