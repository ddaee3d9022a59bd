//! Statistics of flows (OpenFlow 1.3.5, 7.3.5.2 and 7.3.5.3; nicira-ext.h).

use super::oxs::Oxs;
use crate::bytes::{Put, Reader, record};
use crate::error::{EncodeError, ErrorCode};
use crate::flow_mod::{flag_bits, group_or_any, read_flags, scope_of, some_group};
use crate::group::read_entry;
use crate::instruction::{read_instructions, write_instructions};
use crate::oxm_match::{self, Form};
use crate::port_no;
use crate::v10::matching;
use crate::version::Version;
use flow::{FlowFlags, Instructions, Match, PortNo, TableId};
use std::time::Duration;

/// Selects flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStatsRequest {
    /// Table, or [`TableId::ALL`].
    pub table: TableId,
    /// With an output to this port; `None` for all.
    pub out_port: Option<PortNo>,
    /// With this group; `None` for all.
    pub out_group: Option<u32>,
    /// Cookie.
    pub cookie: u64,
    /// Bits of the cookie that select flows.
    pub cookie_mask: u64,
    /// Selects the flows that it covers.
    pub matching: Match,
}

fn narrow(port: Option<PortNo>) -> Result<u16, EncodeError> {
    port_no::narrow(port_no::or_any(port)).ok_or(EncodeError::Unsupported("a port above 0xfeff"))
}

impl FlowStatsRequest {
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        if version == Version::V10 {
            let (matching, table) = (matching::read(from)?, from.get()?);
            from.skip(1)?;
            let out_port = port_no::some(port_no::widen(from.u16()?));
            return Ok(Self { table, out_port, out_group: None, cookie: 0, cookie_mask: 0, matching });
        }
        let table = from.get()?;
        from.skip(3)?;
        let (out_port, out_group) = (port_no::some(from.get()?), some_group(from.u32()?));
        from.skip(4)?;
        let (cookie, cookie_mask) = (from.u64()?, from.u64()?);
        Ok(Self { table, out_port, out_group, cookie, cookie_mask, matching: oxm_match::read_match(from)? })
    }

    pub(crate) fn read_nicira(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let (out_port, match_len) = (port_no::some(port_no::widen(from.u16()?)), from.u16()?);
        let table = from.get()?;
        from.skip(3)?;
        let (matching, cookie) = oxm_match::read_nxm(from, match_len)?;
        let (cookie, cookie_mask) = cookie.unwrap_or_default();
        Ok(Self { table, out_port, out_group: None, cookie, cookie_mask, matching })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        if version == Version::V10 {
            matching::write(out, &self.matching);
            out.put(&self.table);
            out.put_u8(0);
            out.put_u16(narrow(self.out_port)?);
            return Ok(());
        }
        out.put(&self.table);
        out.put_zeros(3);
        out.put(&port_no::or_any(self.out_port));
        out.put_u32(group_or_any(self.out_group));
        out.put_u32(0);
        out.put_u64(self.cookie);
        out.put_u64(self.cookie_mask);
        oxm_match::write_match(out, &self.matching, version);
        Ok(())
    }

    pub(crate) fn write_nicira(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.put_u16(narrow(self.out_port)?);
        let at = out.len();
        out.put_u16(0);
        out.put(&self.table);
        out.put_zeros(3);
        let cookie = Some((self.cookie, self.cookie_mask));
        let len = oxm_match::write_nxm(out, &self.matching, Form::Nxm, cookie);
        out[at..at + 2].copy_from_slice(&len.to_be_bytes());
        Ok(())
    }
}

/// A flow and its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// Table.
    pub table: TableId,
    /// Match.
    pub matching: Match,
    /// Priority.
    pub priority: u16,
    /// Cookie.
    pub cookie: u64,
    /// Seconds without packets; 0 for no timeout.
    pub idle_timeout: u16,
    /// Seconds after creation; 0 for no timeout.
    pub hard_timeout: u16,
    /// Flags, since OpenFlow 1.3.
    pub flags: FlowFlags,
    /// Order of eviction, since OpenFlow 1.4.
    pub importance: u16,
    /// Age.
    pub duration: Duration,
    /// Seconds since the last packet, in Nicira's form and OpenFlow 1.5.
    pub idle_age: Option<u16>,
    /// Seconds since the last change, in Nicira's form.
    pub hard_age: Option<u16>,
    /// Packets; `u64::MAX` if not counted.
    pub packets: u64,
    /// Bytes; `u64::MAX` if not counted.
    pub bytes: u64,
    /// Instructions.
    pub instructions: Instructions,
}

impl FlowStats {
    fn empty(table: TableId) -> Self {
        Self {
            table,
            matching: Match::any(),
            priority: 0,
            cookie: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            flags: FlowFlags::default(),
            importance: 0,
            duration: Duration::ZERO,
            idle_age: None,
            hard_age: None,
            packets: u64::MAX,
            bytes: u64::MAX,
            instructions: Instructions::default(),
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        let mut body = read_entry(from)?;
        body.skip(if version >= Version::V15 { 2 } else { 0 })?;
        let mut found = Self::empty(body.get()?);
        body.skip(1)?;
        match version {
            Version::V10 => {
                found.matching = matching::read(&mut body)?;
                found.duration = body.get()?;
                found.read_timeouts(&mut body)?;
                body.skip(6)?;
                found.read_counters(&mut body)?;
            }
            Version::V13 | Version::V14 => {
                found.duration = body.get()?;
                found.read_timeouts(&mut body)?;
                found.read_flags(&mut body)?;
                body.skip(2)?;
                found.read_counters(&mut body)?;
                found.matching = oxm_match::read_match(&mut body)?;
            }
            Version::V15 => {
                found.read_timeouts(&mut body)?;
                found.read_flags(&mut body)?;
                found.cookie = body.u64()?;
                found.matching = oxm_match::read_match(&mut body)?;
                found.set_oxs(Oxs::read(&mut body)?);
            }
        }
        found.instructions = read_instructions(body, scope_of(version, &found.matching))?;
        Ok(found)
    }

    fn read_timeouts(&mut self, from: &mut Reader<'_>) -> Result<(), ErrorCode> {
        (self.priority, self.idle_timeout, self.hard_timeout) = (from.u16()?, from.u16()?, from.u16()?);
        Ok(())
    }

    fn read_flags(&mut self, from: &mut Reader<'_>) -> Result<(), ErrorCode> {
        (self.flags, self.importance) = (read_flags(from.u16()?)?, from.u16()?);
        Ok(())
    }

    fn read_counters(&mut self, from: &mut Reader<'_>) -> Result<(), ErrorCode> {
        (self.cookie, self.packets, self.bytes) = (from.u64()?, from.u64()?, from.u64()?);
        Ok(())
    }

    fn set_oxs(&mut self, oxs: Oxs) {
        (self.duration, self.packets, self.bytes) = (oxs.duration(), oxs.packets(), oxs.bytes());
        self.idle_age = oxs.idle.map(|seconds| u16::try_from(seconds).unwrap_or(u16::MAX));
    }

    pub(crate) fn read_nicira(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let mut body = read_entry(from)?;
        let mut found = Self::empty(body.get()?);
        body.skip(1)?;
        found.duration = body.get()?;
        found.read_timeouts(&mut body)?;
        let match_len = body.u16()?;
        (found.idle_age, found.hard_age) = (body.u16()?.checked_sub(1), body.u16()?.checked_sub(1));
        found.read_counters(&mut body)?;
        (found.matching, _) = oxm_match::read_nxm(&mut body, match_len)?;
        found.instructions = read_instructions(body, scope_of(Version::V10, &found.matching))?;
        Ok(found)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) -> Result<(), EncodeError> {
        let start = out.len();
        out.put_zeros(if version >= Version::V15 { 4 } else { 2 });
        out.put(&self.table);
        out.put_u8(0);
        match version {
            Version::V10 => {
                matching::write(out, &self.matching);
                out.put(&self.duration);
                self.write_timeouts(out);
                out.put_zeros(6);
                self.write_counters(out);
            }
            Version::V13 | Version::V14 => {
                out.put(&self.duration);
                self.write_timeouts(out);
                self.write_flags(out, version);
                out.put_zeros(2);
                self.write_counters(out);
                oxm_match::write_match(out, &self.matching, version);
            }
            Version::V15 => {
                self.write_timeouts(out);
                self.write_flags(out, version);
                out.put_u64(self.cookie);
                oxm_match::write_match(out, &self.matching, version);
                Oxs::new(self.duration, self.idle_age.map(u32::from), self.packets, self.bytes).write(out);
            }
        }
        write_instructions(out, &self.instructions, version)?;
        out.patch_len(start, start);
        Ok(())
    }

    fn write_timeouts(&self, out: &mut Vec<u8>) {
        out.put_u16(self.priority);
        out.put_u16(self.idle_timeout);
        out.put_u16(self.hard_timeout);
    }

    fn write_flags(&self, out: &mut Vec<u8>, version: Version) {
        out.put_u16(flag_bits(self.flags));
        out.put_u16(if version >= Version::V14 { self.importance } else { 0 });
    }

    fn write_counters(&self, out: &mut Vec<u8>) {
        out.put_u64(self.cookie);
        out.put_u64(self.packets);
        out.put_u64(self.bytes);
    }

    pub(crate) fn write_nicira(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let start = out.len();
        out.put_u16(0);
        out.put(&self.table);
        out.put_u8(0);
        out.put(&self.duration);
        self.write_timeouts(out);
        let at = out.len();
        out.put_u16(0);
        for age in [self.idle_age, self.hard_age] {
            out.put_u16(age.map_or(0, |age| age.saturating_add(1)));
        }
        self.write_counters(out);
        let len = oxm_match::write_nxm(out, &self.matching, Form::Nxm, None);
        out[at..at + 2].copy_from_slice(&len.to_be_bytes());
        write_instructions(out, &self.instructions, Version::V10)?;
        out.patch_len(start, start);
        Ok(())
    }
}

record! {
    /// Sums over flows.
    pub struct Aggregate {
        /// Packets; `u64::MAX` if not counted.
        packets: u64,
        /// Bytes; `u64::MAX` if not counted.
        bytes: u64,
        /// Number of flows.
        flows: u32,
    } [4]
}

impl Aggregate {
    pub(crate) fn read_oxs(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let oxs = Oxs::read(from)?;
        Ok(Self { packets: oxs.packets(), bytes: oxs.bytes(), flows: oxs.flows.unwrap_or(0) })
    }

    pub(crate) fn write_oxs(self, out: &mut Vec<u8>) {
        let oxs = Oxs::new(Duration::ZERO, None, self.packets, self.bytes);
        Oxs { duration: None, flows: Some(self.flows), ..oxs }.write(out);
    }
}
