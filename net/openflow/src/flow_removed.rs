//! Notices of removed flows (OpenFlow 1.3.5, 7.4.2; nicira-ext.h).

use crate::bytes::{Put, Reader, numbered};
use crate::error::ErrorCode;
use crate::multipart::oxs::Oxs;
use crate::oxm_match::{self, Form};
use crate::v10::matching;
use crate::version::Version;
use flow::{Match, TableId};
use std::time::Duration;

numbered! {
    /// Why a flow was removed.
    pub enum RemovedReason: u8 {
        /// No packets for some time.
        IdleTimeout = 0,
        /// End of its lifetime.
        HardTimeout = 1,
        /// A controller removed it.
        Delete = 2,
        /// Its group was removed.
        GroupDelete = 3,
        /// Its meter was removed.
        MeterDelete = 4,
        /// The switch needed its place.
        Eviction = 5,
    }
}

/// Notice of a removed flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// Table; 0 in OpenFlow 1.0.
    pub table: TableId,
    /// Match.
    pub matching: Match,
    /// Priority.
    pub priority: u16,
    /// Cookie.
    pub cookie: u64,
    /// Reason.
    pub reason: RemovedReason,
    /// Age.
    pub duration: Duration,
    /// Seconds without packets; 0 for no timeout.
    pub idle_timeout: u16,
    /// Seconds after creation; 0 for no timeout, and in OpenFlow 1.0.
    pub hard_timeout: u16,
    /// Packets; `u64::MAX` if not counted.
    pub packets: u64,
    /// Bytes; `u64::MAX` if not counted.
    pub bytes: u64,
}

fn read_reason(from: &mut Reader<'_>) -> Result<RemovedReason, ErrorCode> {
    RemovedReason::from_number(from.u8()?).ok_or(ErrorCode::NxRequestUnencodableError)
}

impl FlowRemoved {
    pub(crate) fn read(from: &mut Reader<'_>, version: Version) -> Result<Self, ErrorCode> {
        match version {
            Version::V10 => {
                let matching = matching::read(from)?;
                let (cookie, priority, reason) = (from.u64()?, from.u16()?, read_reason(from)?);
                from.skip(1)?;
                let (duration, idle_timeout) = (from.get()?, from.u16()?);
                from.skip(2)?;
                let (packets, bytes) = (from.u64()?, from.u64()?);
                let (table, hard_timeout) = (TableId(0), 0);
                Ok(Self {
                    table,
                    matching,
                    priority,
                    cookie,
                    reason,
                    duration,
                    idle_timeout,
                    hard_timeout,
                    packets,
                    bytes,
                })
            }
            Version::V13 | Version::V14 => {
                let (cookie, priority, reason, table) =
                    (from.u64()?, from.u16()?, read_reason(from)?, from.get()?);
                let (duration, idle_timeout, hard_timeout) = (from.get()?, from.u16()?, from.u16()?);
                let (packets, bytes) = (from.u64()?, from.u64()?);
                let matching = oxm_match::read_match(from)?;
                Ok(Self {
                    table,
                    matching,
                    priority,
                    cookie,
                    reason,
                    duration,
                    idle_timeout,
                    hard_timeout,
                    packets,
                    bytes,
                })
            }
            Version::V15 => {
                let (table, reason, priority) = (from.get()?, read_reason(from)?, from.u16()?);
                let (idle_timeout, hard_timeout, cookie) = (from.u16()?, from.u16()?, from.u64()?);
                let matching = oxm_match::read_match(from)?;
                let oxs = Oxs::read(from)?;
                let (duration, packets, bytes) = (oxs.duration(), oxs.packets(), oxs.bytes());
                Ok(Self {
                    table,
                    matching,
                    priority,
                    cookie,
                    reason,
                    duration,
                    idle_timeout,
                    hard_timeout,
                    packets,
                    bytes,
                })
            }
        }
    }

    /// Reads Nicira's form. The table is one higher, and 0 if unknown.
    pub(crate) fn read_nicira(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let (cookie, priority, reason, table) = (from.u64()?, from.u16()?, read_reason(from)?, from.u8()?);
        let (duration, idle_timeout, match_len) = (from.get()?, from.u16()?, from.u16()?);
        let (packets, bytes) = (from.u64()?, from.u64()?);
        let (matching, _) = oxm_match::read_nxm(from, match_len)?;
        let (table, hard_timeout) = (TableId(table.saturating_sub(1)), 0);
        Ok(Self {
            table,
            matching,
            priority,
            cookie,
            reason,
            duration,
            idle_timeout,
            hard_timeout,
            packets,
            bytes,
        })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, version: Version) {
        match version {
            Version::V10 => {
                matching::write(out, &self.matching);
                out.put_u64(self.cookie);
                out.put_u16(self.priority);
                out.put_u8(self.reason.number());
                out.put_u8(0);
                out.put(&self.duration);
                out.put_u16(self.idle_timeout);
                out.put_u16(0);
                self.write_counters(out);
            }
            Version::V13 | Version::V14 => {
                out.put_u64(self.cookie);
                out.put_u16(self.priority);
                out.put_u8(self.reason.number());
                out.put(&self.table);
                out.put(&self.duration);
                out.put_u16(self.idle_timeout);
                out.put_u16(self.hard_timeout);
                self.write_counters(out);
                oxm_match::write_match(out, &self.matching, version);
            }
            Version::V15 => {
                out.put(&self.table);
                out.put_u8(self.reason.number());
                out.put_u16(self.priority);
                out.put_u16(self.idle_timeout);
                out.put_u16(self.hard_timeout);
                out.put_u64(self.cookie);
                oxm_match::write_match(out, &self.matching, version);
                Oxs::new(self.duration, None, self.packets, self.bytes).write(out);
            }
        }
    }

    fn write_counters(&self, out: &mut Vec<u8>) {
        out.put_u64(self.packets);
        out.put_u64(self.bytes);
    }

    pub(crate) fn write_nicira(&self, out: &mut Vec<u8>) {
        out.put_u64(self.cookie);
        out.put_u16(self.priority);
        out.put_u8(self.reason.number());
        out.put_u8(self.table.0.saturating_add(1));
        out.put(&self.duration);
        out.put_u16(self.idle_timeout);
        let at = out.len();
        out.put_u16(0);
        self.write_counters(out);
        let len = oxm_match::write_nxm(out, &self.matching, Form::Nxm, None);
        out[at..at + 2].copy_from_slice(&len.to_be_bytes());
    }
}
