//! Descriptors as private values, and turning a chain of them into checked segments.
//!
//! A [`Descriptor`] here is a copy; the guest's original may change without effect. [`resolve`] is the one place
//! where direction, bounds and translation of a whole chain are judged.

use crate::RingFault;
use mem::{Translator, VolatileSlice};

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
/// Most descriptors of a chain or of an indirect table that are read. A longer one is a fault, whatever the queue's size:
/// reading it would cost every other queue of the worker time, and no frame of 64 KiB needs that many. A table may be longer
/// than a short queue, because drivers in the field do it.
pub const MAX_CHAIN: usize = 1024;

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
    pub fn buf_id(self) -> BufId {
        BufId::plain(self.link)
    }

    /// Whether the chain is this one plain buffer.
    #[inline(always)]
    pub fn is_plain(self) -> bool {
        self.flags & (NEXT | INDIRECT) == 0
    }
}

/// What returns a buffer to its owner: its number and the ring entries it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufId {
    /// Head index (split) or buffer ID (packed).
    pub id: u16,
    /// Ring entries to skip: the chain's length on packed rings, 1 on split ones.
    pub slots: u16,
}

impl BufId {
    /// What returns a plain buffer of this number.
    #[inline(always)]
    pub fn plain(id: u16) -> Self {
        Self { id, slots: 1 }
    }
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
    /// The WRITE flag of its buffers.
    #[inline(always)]
    pub(crate) fn flag(self) -> u16 {
        match self {
            Direction::Read => 0,
            Direction::Write => WRITE,
        }
    }

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

/// Most pieces of one frame. Linux fills at most 18 (`MAX_SKB_FRAGS` and the header); every step behind the ring costs time
/// per piece.
pub const MAX_PIECES: usize = 256;

/// Translates every buffer of a chain and appends the pieces to `out`, in order; buffers may cross from one region
/// into the next. Empty buffers vanish, but count as pieces. On a fault `out` is unspecified.
///
/// # Errors
/// [`RingFault::TooManyPieces`] if the chain has more than [`MAX_PIECES`]: the ring is intact, and a caller may skip the
/// buffer instead. Any other fault means that the ring cannot be used any further.
pub fn resolve(
    chain: &[Descriptor],
    direction: Direction,
    translator: &mut Translator,
    out: &mut Vec<VolatileSlice>,
) -> Result<(), RingFault> {
    let mut pieces = 0;
    for d in chain {
        direction.check(d.flags)?;
        if let Some(seg) = translator.translate(d.address, d.len) {
            pieces += 1;
            if !seg.is_empty() {
                out.push(seg);
            }
        } else {
            let before = out.len();
            // A buffer over regions of a few bytes each ends here before it is walked to its end.
            let within = |seg: VolatileSlice| {
                out.push(seg);
                out.len() - before <= MAX_PIECES
            };
            let outside = RingFault::Outside { address: d.address, len: d.len };
            translator.pieces(d.address, d.len, within).ok_or(outside)?;
            pieces += out.len() - before;
        }
        if pieces > MAX_PIECES {
            return Err(RingFault::TooManyPieces);
        }
    }
    Ok(())
}
