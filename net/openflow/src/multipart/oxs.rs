//! Counters of flows as OXS fields (OpenFlow 1.5.1, 7.2.4).

use crate::bytes::{Put, Reader};
use crate::error::ErrorCode;
use std::time::Duration;

/// `OFPXSC_OPENFLOW_BASIC`.
const BASIC: u16 = 0x8002;
const DURATION: u8 = 0;
const IDLE: u8 = 1;
const FLOWS: u8 = 3;
const PACKETS: u8 = 4;
const BYTES: u8 = 5;

/// Counters; `None` where unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oxs {
    pub(crate) duration: Option<Duration>,
    pub(crate) idle: Option<u32>,
    pub(crate) flows: Option<u32>,
    pub(crate) packets: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

/// A counter, or none for the number that stands for an unknown one.
fn known(counter: u64) -> Option<u64> {
    Some(counter).filter(|counter| *counter != u64::MAX)
}

impl Oxs {
    /// Counters of a flow.
    pub(crate) fn new(duration: Duration, idle: Option<u32>, packets: u64, bytes: u64) -> Self {
        Self { duration: Some(duration), idle, flows: None, packets: known(packets), bytes: known(bytes) }
    }

    pub(crate) fn duration(&self) -> Duration {
        self.duration.unwrap_or_default()
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets.unwrap_or(u64::MAX)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.unwrap_or(u64::MAX)
    }

    /// Reads the list with its header and padding. Unknown fields are skipped.
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        from.skip(2)?;
        let len = usize::from(from.u16()?);
        let mut fields = from.take(len.checked_sub(4).ok_or(ErrorCode::RequestBadLen)?)?;
        from.skip(len.next_multiple_of(8) - len)?;
        let mut found = Self::default();
        while !fields.is_empty() {
            let (class, [number, len]) = (fields.u16()?, fields.array()?);
            let mut value = fields.take(usize::from(len))?;
            match (class, number >> 1) {
                (BASIC, DURATION) => found.duration = Some(value.get()?),
                (BASIC, IDLE) => found.idle = Some(value.u32()?),
                (BASIC, FLOWS) => found.flows = Some(value.u32()?),
                (BASIC, PACKETS) => found.packets = Some(value.u64()?),
                (BASIC, BYTES) => found.bytes = Some(value.u64()?),
                _ => {}
            }
        }
        Ok(found)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u32(0);
        if let Some(duration) = self.duration {
            field(out, DURATION, 8);
            out.put(&duration);
        }
        if let Some(idle) = self.idle {
            field(out, IDLE, 8);
            out.put(&Duration::from_secs(u64::from(idle)));
        }
        for (number, counter) in [(PACKETS, self.packets), (BYTES, self.bytes)] {
            if let Some(counter) = counter {
                field(out, number, 8);
                out.put_u64(counter);
            }
        }
        if let Some(flows) = self.flows {
            field(out, FLOWS, 4);
            out.put_u32(flows);
        }
        out.patch_len(start, start + 2);
        out.pad(start);
    }
}

fn field(out: &mut Vec<u8>, number: u8, len: u8) {
    out.put_u16(BASIC);
    out.put_u8(number << 1);
    out.put_u8(len);
}
