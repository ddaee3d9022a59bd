//! Private descriptor copies, and translation of descriptor chains to checked segments.
//!
//! A [`Descriptor`] is a copy; later changes by the guest have no effect. Only [`resolve`] validates direction and
//! bounds of a whole chain and translates it.

use crate::RingFault;
use mem::{Translator, VolatileSlice};

/// The chain continues in descriptor `next` (split) or in the following one (packed).
pub(crate) const NEXT: u16 = 1;
/// The device writes this buffer.
pub(crate) const WRITE: u16 = 2;
/// The buffer contains a table of indirect descriptors.
pub(crate) const INDIRECT: u16 = 4;
/// Packed: equals the driver's wrap counter if the descriptor is available.
pub(crate) const AVAIL: u16 = 1 << 7;
/// Packed: equals the device's wrap counter if the descriptor is used.
pub(crate) const USED: u16 = 1 << 15;
/// Mark, on private copies only, of entries of a packed ring's indirect table. DPDK's driver leaves WRITE in all
/// entries of such tables, also on transmit queues, and other devices ignore it there.
pub(crate) const PACKED_ENTRY: u16 = 1 << 14;
/// Descriptor size in bytes, split and packed.
pub const DESC: usize = 16;
/// Maximum number of descriptors read from a chain or an indirect table. A longer one is a fault for any queue size:
/// reading it would delay the worker's other queues, and a 64 KiB frame does not need as many. A table may be longer
/// than a short queue, because existing drivers do this.
pub const MAX_CHAIN: usize = 1024;

/// A private copy of one descriptor. `link` is `next` on split rings and the buffer ID on packed ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Guest-physical address.
    pub address: u64,
    /// Length in bytes.
    pub len: u32,
    /// Flags (`VIRTQ_DESC_F_*`).
    pub flags: u16,
    /// Next descriptor or buffer ID.
    pub link: u16,
}

impl Descriptor {
    /// Flag of device-writable buffers (`VIRTQ_DESC_F_WRITE`).
    pub const WRITE: u16 = WRITE;

    /// Decodes the two words of a split descriptor: address; length, flags, next.
    #[inline(always)]
    pub(crate) fn split(address: u64, word: u64) -> Self {
        Self { address, len: word as u32, flags: (word >> 32) as u16, link: (word >> 48) as u16 }
    }

    /// Decodes the two words of a packed descriptor: address; length, buffer ID, flags.
    #[inline(always)]
    pub(crate) fn packed(address: u64, word: u64) -> Self {
        Self { address, len: word as u32, flags: (word >> 48) as u16, link: (word >> 32) as u16 }
    }

    /// The ID that returns this plain buffer; requires `link` to hold its number.
    #[inline(always)]
    pub fn buf_id(self) -> BufId {
        BufId::plain(self.link)
    }

    /// Whether the chain is this descriptor only, without NEXT and INDIRECT.
    #[inline(always)]
    pub fn is_plain(self) -> bool {
        self.flags & (NEXT | INDIRECT) == 0
    }
}

/// Identifies a buffer to return: its ID and its number of ring entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufId {
    /// Head index (split) or buffer ID (packed).
    pub id: u16,
    /// Ring entries to skip: the chain length on packed rings, 1 on split rings.
    pub slots: u16,
}

impl BufId {
    /// ID of a plain buffer.
    #[inline(always)]
    pub fn plain(id: u16) -> Self {
        Self { id, slots: 1 }
    }
}

/// Transfer direction of a queue, seen from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Device-readable: no buffer may have the WRITE flag.
    Read,
    /// Device-writable: every buffer must have the WRITE flag.
    Write,
}

impl Direction {
    /// WRITE flag value for this direction.
    #[inline(always)]
    pub(crate) fn flag(self) -> u16 {
        match self {
            Direction::Read => 0,
            Direction::Write => WRITE,
        }
    }

    /// Returns an error if `flags` do not match this direction.
    #[inline(always)]
    pub fn check(self, flags: u16) -> Result<(), RingFault> {
        match (self, flags & WRITE != 0) {
            (Direction::Read, true) if flags & PACKED_ENTRY == 0 => Err(RingFault::WriteOnRead),
            (Direction::Write, false) => Err(RingFault::ReadOnWrite),
            _ => Ok(()),
        }
    }
}

/// Maximum number of segments of one frame. Linux uses at most 18 (`MAX_SKB_FRAGS` plus the header); later processing
/// has a cost per segment.
pub const MAX_PIECES: usize = 256;

/// Translates all buffers of a chain and appends the segments to `out`, in order. A buffer may span several regions.
/// Empty buffers produce no segment but count towards the limit. On error the content of `out` is unspecified.
///
/// # Errors
/// [`RingFault::TooManyPieces`] if the chain has more than [`MAX_PIECES`]: the ring stays usable, and the caller may
/// skip the buffer. After any other fault the ring must not be used.
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
            // Stops early for a buffer that spans many tiny regions.
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
