//! Descriptors as private values, and turning a chain of them into checked segments.
//!
//! A [`Descriptor`] here is a copy; the guest's original may change without effect. [`resolve`] is the one place
//! where direction, bounds and translation of a whole chain are judged.

use crate::RingFault;
use mem::{Seg, Translator};

/// The chain goes on in the descriptor that `next` names (split) or that follows (packed).
pub(crate) const NEXT: u16 = 1;
/// The device writes this buffer.
pub(crate) const WRITE: u16 = 2;
/// The buffer is a table of descriptors.
pub(crate) const INDIRECT: u16 = 4;
/// Packed: equal to the driver's wrap counter when made available.
pub(crate) const AVAIL: u16 = 1 << 7;
/// Packed: equal to the device's wrap counter when used.
pub(crate) const USED: u16 = 1 << 15;
/// Bytes of one descriptor of either kind.
pub(crate) const DESC: usize = 16;
/// Descriptors allowed in an indirect table even if the queue is shorter, because drivers in the field do it.
pub(crate) const INDIRECT_LENIENT: usize = 1024;

/// One descriptor, read once. `link` is `next` on split rings and the buffer ID on packed ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Guest-physical address.
    pub address: u64,
    /// Bytes.
    pub len: u32,
    /// Flags (`VIRTQ_DESC_F_*`).
    pub flags: u16,
    /// Next descriptor or buffer ID.
    pub link: u16,
}

impl Descriptor {
    /// The flag of a buffer for the device to write (`VIRTQ_DESC_F_WRITE`).
    pub const WRITE: u16 = WRITE;

    /// From the two words of a split descriptor: address; length, flags, next.
    #[inline(always)]
    pub(crate) fn split(address: u64, word: u64) -> Self {
        Self { address, len: word as u32, flags: (word >> 32) as u16, link: (word >> 48) as u16 }
    }

    /// From the two words of a packed descriptor: address; length, buffer ID, flags.
    #[inline(always)]
    pub(crate) fn packed(address: u64, word: u64) -> Self {
        Self { address, len: word as u32, flags: (word >> 48) as u16, link: (word >> 32) as u16 }
    }

    /// What returns this plain buffer, whose `link` says its number.
    #[inline(always)]
    pub fn token(self) -> Token {
        Token { id: self.link, slots: 1 }
    }

    /// Writes this over `to` field by field. Assigned as a whole it goes through the stack, as two stores of eight
    /// bytes and a load of sixteen, for which a processor has to wait until both stores have left its pipeline.
    #[inline(always)]
    pub(crate) fn put(self, to: &mut Self) {
        to.address = self.address;
        to.len = self.len;
        to.flags = self.flags;
        to.link = self.link;
    }

    /// Whether the chain is this one plain buffer.
    #[inline(always)]
    pub fn is_plain(self) -> bool {
        self.flags & (NEXT | INDIRECT) == 0
    }
}

/// What returns a buffer to its owner: its number and the ring entries it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Token {
    /// Head index (split) or buffer ID (packed).
    pub id: u16,
    /// Ring entries to skip: the chain's length on packed rings, 1 on split ones.
    pub slots: u16,
}

/// Which way the bytes of a queue go, seen from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The device reads: every buffer must lack the WRITE flag.
    Read,
    /// The device writes: every buffer must have it.
    Write,
}

impl Direction {
    /// Whether `flags` fit this direction.
    #[inline(always)]
    pub fn check(self, flags: u16) -> Result<(), RingFault> {
        match (self, flags & WRITE != 0) {
            (Direction::Read, true) => Err(RingFault::WriteOnRead),
            (Direction::Write, false) => Err(RingFault::ReadOnWrite),
            _ => Ok(()),
        }
    }
}

/// Most pieces that one chain may come to: each descriptor of the longest chain over two regions.
pub const MAX_PIECES: usize = 2 * crate::MAX_SIZE as usize;

/// Translates every buffer of a chain and appends the pieces to `out`, in order; buffers may cross from one region
/// into the next. Empty buffers vanish. A chain of more than [`MAX_PIECES`], which only regions of a few bytes can
/// make, is a fault. On a fault `out` is unspecified.
pub fn resolve(
    chain: &[Descriptor],
    direction: Direction,
    translator: &mut Translator,
    out: &mut Vec<Seg>,
) -> Result<(), RingFault> {
    let before = out.len();
    for d in chain {
        direction.check(d.flags)?;
        if out.len() - before > MAX_PIECES - 512 {
            return Err(RingFault::ChainTooLong);
        }
        if let Some(seg) = translator.translate(d.address, d.len) {
            if !seg.is_empty() {
                out.push(seg);
            }
            continue;
        }
        let outside = RingFault::Outside { address: d.address, len: d.len };
        translator.pieces(d.address, d.len, |seg| out.push(seg)).ok_or(outside)?;
    }
    Ok(())
}
