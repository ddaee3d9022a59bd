//! Record format of a spooled packet.

use super::LINE;
use crate::{Burst, DropReason, OFFLOAD_HEADER};

/// Size of a record header, in bytes.
pub(super) const HEADER: usize = 48;
/// Maximum number of bytes spooled per packet: the longest frame, plus tags added by a pipeline.
pub(crate) const MAX_PACKET: usize = 65_600;
/// Maximum number of lines per record.
pub(super) const MAX_LINES: usize = (HEADER + MAX_PACKET).div_ceil(LINE);

/// Packet direction, seen from the port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The port has only one direction.
    #[default]
    Only,
    /// Received.
    In,
    /// Transmitted.
    Out,
}

/// Outcome of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Received or sent.
    #[default]
    Moved,
    /// Taken by a queue that keeps packets back: it is sent or dropped later.
    Queued,
    /// Dropped.
    Lost(DropReason),
}

/// Code of [`Outcome::Queued`] in a record; other codes are 0, and those of drop reasons from 1.
const QUEUED: u8 = u8::MAX;
const _: () = assert!(DropReason::COUNT < QUEUED as usize);

/// A step of a packet that a capture follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceStep {
    /// Number of the packet, from 1.
    pub number: u32,
    /// Nanoseconds from its reception to the verdict of the pipeline.
    pub verdict_ns: u32,
    /// Nanoseconds from its reception to this step.
    pub since_ns: u32,
    /// Packets that matched before it and were not followed.
    pub skipped: u32,
}

/// Metadata of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Time in nanoseconds, on the burst clock.
    pub(crate) now: u64,
    /// Length of the whole packet, in bytes.
    pub(crate) len: u32,
    /// Direction.
    pub(crate) direction: Direction,
    /// Outcome.
    pub(crate) fate: Outcome,
    /// Offload header; zeros for none.
    pub(crate) offload: [u8; OFFLOAD_HEADER],
    /// Index among the interfaces of the file.
    pub(crate) interface: u16,
    /// Step of a packet that is followed.
    pub(crate) trace: Option<TraceStep>,
}

impl Record {
    /// Metadata of packet `i` of a burst with loaded heads.
    pub(crate) fn of(burst: &Burst, i: usize, direction: Direction, fate: Outcome) -> Self {
        let has_offloads = burst.has_offloads();
        let offload = if has_offloads { burst.offload(i).header(burst.head(i)) } else { [0; OFFLOAD_HEADER] };
        let (now, len) = (burst.now().0, burst.frame_len(i) as u32);
        Self { now, len, direction, fate, offload, interface: 0, trace: None }
    }

    /// Header of a record followed by `stored` bytes.
    pub(super) fn encode(&self, stored: usize) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.now.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_ne_bytes());
        bytes[12..16].copy_from_slice(&(stored as u32).to_ne_bytes());
        bytes[16] = self.direction as u8;
        bytes[17] = match self.fate {
            Outcome::Moved => 0,
            Outcome::Queued => QUEUED,
            Outcome::Lost(reason) => reason as u8 + 1,
        };
        bytes[18..18 + OFFLOAD_HEADER].copy_from_slice(&self.offload);
        bytes[28..30].copy_from_slice(&self.interface.to_ne_bytes());
        let step = self.trace.unwrap_or_default();
        let words = [step.number, step.verdict_ns, step.since_ns, step.skipped];
        bytes[32..].copy_from_slice(words.map(u32::to_ne_bytes).as_flattened());
        bytes
    }

    /// Decodes the record header at the start of `bytes`; also returns the number of stored bytes.
    pub(super) fn decode(bytes: &[u8]) -> (Self, usize) {
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        let direction = [Direction::Only, Direction::In, Direction::Out];
        let lost = usize::from(bytes[17]).checked_sub(1).and_then(|reason| DropReason::ALL.get(reason));
        let kept = if bytes[17] == QUEUED { Outcome::Queued } else { Outcome::Moved };
        let trace =
            TraceStep { number: word(32), verdict_ns: word(36), since_ns: word(40), skipped: word(44) };
        let record = Self {
            now: u64::from_ne_bytes(std::array::from_fn(|i| bytes[i])),
            len: word(8),
            direction: direction.get(usize::from(bytes[16])).copied().unwrap_or_default(),
            fate: lost.map_or(kept, |reason| Outcome::Lost(*reason)),
            offload: std::array::from_fn(|i| bytes[18 + i]),
            interface: u16::from_ne_bytes([bytes[28], bytes[29]]),
            trace: (trace.number > 0).then_some(trace),
        };
        (record, word(12) as usize)
    }
}

/// Number of lines of a record with `stored` bytes.
pub(super) fn lines(stored: usize) -> usize {
    (HEADER + stored).div_ceil(LINE)
}
