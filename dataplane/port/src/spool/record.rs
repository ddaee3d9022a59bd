//! What is spooled of one packet.

use super::LINE;
use crate::{DropReason, OFFLOAD_HEADER};

/// Bytes of a record in front of the packet's.
pub(super) const HEADER: usize = 32;
/// Most bytes that are spooled of one packet: the longest frame, with room for tags that a pipeline added.
pub(crate) const MOST: usize = 65_600;
/// Lines of the longest record.
pub(super) const MOST_LINES: usize = (HEADER + MOST).div_ceil(LINE);

/// Which way a packet went, as the port sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Direction {
    /// There is only one way.
    #[default]
    Only,
    /// It came in from outside.
    In,
    /// It left.
    Out,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was moved.
    #[default]
    Moved,
    /// It was lost.
    Lost(DropReason),
}

/// One packet, without its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// When, by the bursts' clock.
    pub(crate) now: u64,
    /// Bytes of the whole packet.
    pub(crate) len: u32,
    /// Which way.
    pub(crate) direction: Direction,
    /// What became of it.
    pub(crate) fate: Fate,
    /// Its offload header, zeros for none.
    pub(crate) offload: [u8; OFFLOAD_HEADER],
}

impl Record {
    /// The header of a record of which `stored` bytes follow.
    pub(super) fn encode(&self, stored: usize) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.now.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_ne_bytes());
        bytes[12..16].copy_from_slice(&(stored as u32).to_ne_bytes());
        bytes[16] = self.direction as u8;
        bytes[17] = match self.fate {
            Fate::Moved => 0,
            Fate::Lost(reason) => reason as u8 + 1,
        };
        bytes[18..18 + OFFLOAD_HEADER].copy_from_slice(&self.offload);
        bytes
    }

    /// The record in front of `bytes`, and how many bytes were stored.
    pub(super) fn decode(bytes: &[u8]) -> (Self, usize) {
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        let direction = [Direction::Only, Direction::In, Direction::Out];
        let lost = usize::from(bytes[17]).checked_sub(1).and_then(|reason| DropReason::ALL.get(reason));
        let record = Self {
            now: u64::from_ne_bytes(std::array::from_fn(|i| bytes[i])),
            len: word(8),
            direction: direction.get(usize::from(bytes[16])).copied().unwrap_or_default(),
            fate: lost.map_or(Fate::Moved, |reason| Fate::Lost(*reason)),
            offload: std::array::from_fn(|i| bytes[18 + i]),
        };
        (record, word(12) as usize)
    }
}

/// Lines of a record of which `stored` bytes are kept.
pub(super) fn lines(stored: usize) -> usize {
    (HEADER + stored).div_ceil(LINE)
}
