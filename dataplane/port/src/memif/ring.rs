//! A memif ring in shared memory: the only unsafe module of this port.
//!
//! Layout (libmemif's `memif.h`, `memif_ring_t` and `memif_desc_t`): a line with cookie, flags and `head`, a line
//! with `tail`, then descriptors of 16 bytes: flags, region, length; offset, metadata. Both ends can write all of it
//! at any time, so no reference to it is created. A descriptor is read as two words with one access each, and only
//! that copy is validated.
//!
//! Protocol: the client advances `head` and the server `tail`, on the rings of both directions. On a ring to the
//! server, entries from `tail` to `head` are frames. On a ring to the client, entries from `tail` to `head` are empty
//! buffers, and entries filled by the server are before `tail`. An index is advanced with a release store after
//! everything that it covers is written, and read with an acquire load; each store pairs with the peer's load of the
//! same index. The receiving end of a ring writes the flags: 1 disables interrupts. A sender publishes, executes a
//! full fence, and reads the flags. A receiver that prepares to sleep clears the flags, executes a full fence, and
//! reads the index again.

use super::RingFault;
use crate::Frame;
use core::sync::atomic::{Ordering, fence};
use mem::copy::Kernel;
use mem::{GuestMemory, VolatileSlice};
use std::sync::Arc;

/// `MEMIF_COOKIE`
pub(super) const COOKIE: u32 = 0x3e3_1f20;
/// `MEMIF_DESC_FLAG_NEXT`: the frame continues in the next descriptor.
pub(super) const NEXT: u64 = 1;
/// `MEMIF_RING_FLAG_MASK_INT`
const MASK_INT: u16 = 1;
const FLAGS: usize = 4;
const HEAD: usize = 6;
const TAIL: usize = 64;
const DESCRIPTORS: usize = 128;
const DESCRIPTOR: usize = 16;
/// Bit position of the length in a descriptor's first word.
const LENGTH: u32 = 32;
/// Bit position of the region.
const REGION: u32 = 16;
/// Number of index reads of a receiver that prepares to sleep. A sender that reads the flags without a fence after
/// its publish may have read the old flags; its index arrives within the time of these reads.
const INDEX_READS: usize = 64;

/// Assignment of the indices to an end.
pub(super) trait End: Send + 'static {
    /// Offset of the index that this end advances.
    const OWN_INDEX: usize;
    /// Offset of the peer's index.
    const PEER_INDEX: usize;
    /// Whether this end owns the buffers and lends them to the peer.
    const OWNS_BUFFERS: bool;
}

/// The listening end.
#[derive(Debug)]
pub(super) struct Server;
/// The connecting end, which provides the memory.
#[derive(Debug)]
pub(super) struct Client;

impl End for Server {
    const OWN_INDEX: usize = TAIL;
    const PEER_INDEX: usize = HEAD;
    const OWNS_BUFFERS: bool = false;
}

impl End for Client {
    const OWN_INDEX: usize = HEAD;
    const PEER_INDEX: usize = TAIL;
    const OWNS_BUFFERS: bool = true;
}

/// A descriptor's first word: flags, region and length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    pub(super) const fn new(region: u16, len: u32) -> Self {
        Self((len as u64) << LENGTH | (region as u64) << REGION)
    }

    #[inline(always)]
    pub(super) const fn len(self) -> u32 {
        (self.0 >> LENGTH) as u32
    }

    #[inline(always)]
    pub(super) const fn region(self) -> u16 {
        (self.0 >> REGION) as u16
    }

    #[inline(always)]
    pub(super) const fn has_next(self) -> bool {
        self.0 & NEXT != 0
    }

    #[inline(always)]
    #[must_use]
    pub(super) const fn and_next(self, next: bool) -> Self {
        Self(self.0 | next as u64)
    }
}

/// A ring with checked bounds. Holds the map that contains it.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    whole: VolatileSlice,
    mask: u16,
    map: Arc<GuestMemory>,
}

impl Ring {
    /// Size of a ring of `2^log2` entries in bytes.
    pub(super) const fn bytes(log2: u8) -> u32 {
        (DESCRIPTORS + (DESCRIPTOR << log2)) as u32
    }

    /// Creates the ring of `2^log2` entries (`log2` at most 14) in `place`, which must be large enough and aligned to
    /// 16 bytes.
    pub(super) fn new(
        map: &Arc<GuestMemory>,
        place: Option<VolatileSlice>,
        log2: u8,
    ) -> Result<Self, RingFault> {
        let whole = place.filter(|seg| seg.len() == Self::bytes(log2) as usize);
        let whole = whole.filter(|seg| seg.addr().is_multiple_of(DESCRIPTOR)).ok_or(RingFault::Place)?;
        Ok(Self { whole, mask: (1u16 << log2) - 1, map: map.clone() })
    }

    /// The map that contains the ring.
    #[inline(always)]
    pub(super) fn map(&self) -> &Arc<GuestMemory> {
        &self.map
    }

    /// Number of entries.
    #[inline(always)]
    pub(super) fn size(&self) -> u16 {
        self.mask + 1
    }

    /// The entry at a position. Positions are not reduced modulo the ring's size.
    #[inline(always)]
    pub(super) fn slot(&self, at: u16) -> u16 {
        at & self.mask
    }

    /// Whether the ring has the memif cookie.
    pub(super) fn has_cookie(&self) -> bool {
        // SAFETY: the map is held; every ring has a head of 128 bytes, which is aligned.
        unsafe { self.whole.load_u32(0, Ordering::Relaxed) == COOKIE }
    }

    /// Initialises an empty ring. A client does so before it announces the ring.
    pub(super) fn lay_out(&self) {
        // SAFETY: as in `has_cookie`.
        unsafe {
            self.whole.store_u32(0, COOKIE, Ordering::Relaxed);
            self.whole.store_u16(FLAGS, MASK_INT, Ordering::Relaxed);
            self.whole.store_u16(HEAD, 0, Ordering::Relaxed);
            self.whole.store_u16(TAIL, 0, Ordering::Release);
        }
    }

    /// The index that the peer advances.
    #[inline(always)]
    pub(super) fn theirs<E: End>(&self) -> u16 {
        // SAFETY: as in `has_cookie`. The acquire pairs with the peer's release store of this index.
        unsafe { self.whole.load_u16(E::PEER_INDEX, Ordering::Acquire) }
    }

    /// Publishes everything before `at` to the peer.
    #[inline(always)]
    pub(super) fn publish<E: End>(&self, at: u16) {
        // SAFETY: as in `has_cookie`. The release pairs with the peer's acquire load of this index.
        unsafe { self.whole.store_u16(E::OWN_INDEX, at, Ordering::Release) }
    }

    /// A descriptor's first word.
    #[inline(always)]
    pub(super) fn word(&self, at: u16) -> Word {
        // SAFETY: the map is held, the slot is below the ring's size, and descriptors are aligned.
        Word(unsafe { self.whole.load_u64(self.place(at), Ordering::Relaxed) })
    }

    /// A descriptor's offset, from the second word.
    #[inline(always)]
    pub(super) fn offset(&self, at: u16) -> u32 {
        // SAFETY: as in `word`.
        (unsafe { self.whole.load_u64(self.place(at) + 8, Ordering::Relaxed) }) as u32
    }

    /// Writes a descriptor's first word.
    #[inline(always)]
    pub(super) fn set_word(&self, at: u16, word: Word) {
        // SAFETY: as in `word`.
        unsafe { self.whole.store_u64(self.place(at), word.0, Ordering::Relaxed) }
    }

    /// Writes a descriptor's offset.
    pub(super) fn set_offset(&self, at: u16, offset: u32) {
        // SAFETY: as in `word`.
        unsafe { self.whole.store_u64(self.place(at) + 8, u64::from(offset), Ordering::Relaxed) }
    }

    #[inline(always)]
    fn place(&self, at: u16) -> usize {
        DESCRIPTORS + DESCRIPTOR * usize::from(self.slot(at))
    }

    /// Prefetches the line of the peer's index.
    #[inline(always)]
    pub(super) fn prefetch_theirs<E: End>(&self) {
        self.whole.prefetch_read(E::PEER_INDEX);
    }

    /// Prefetches the descriptor at `at` and those on the same line.
    #[inline(always)]
    pub(super) fn prefetch_word(&self, at: u16) {
        self.whole.prefetch_read(self.place(at));
    }

    /// Disables notifications (interrupts) by the sender.
    pub(super) fn disable_notification(&self) {
        // SAFETY: as in `has_cookie`.
        unsafe { self.whole.store_u16(FLAGS, MASK_INT, Ordering::Relaxed) }
    }

    /// Enables notifications by the sender. Returns `true` if its index differs from `seen`; the caller must not
    /// sleep then.
    pub(super) fn enable_notification<E: End>(&self, seen: u16) -> bool {
        // SAFETY: as in `has_cookie`.
        unsafe { self.whole.store_u16(FLAGS, 0, Ordering::Relaxed) };
        // Pairs with the fence of a sender between its publish and its load of the flags.
        fence(Ordering::SeqCst);
        (0..INDEX_READS).any(|_| {
            std::hint::spin_loop();
            self.theirs::<E>() != seen
        })
    }

    /// Whether the receiver has enabled notifications. The caller must have executed a sequentially consistent fence
    /// since its publish.
    #[inline(always)]
    pub(super) fn wants_interrupt(&self) -> bool {
        // SAFETY: as in `has_cookie`.
        unsafe { self.whole.load_u16(FLAGS, Ordering::Relaxed) & MASK_INT == 0 }
    }
}

/// Writes a frame of `len` bytes to the front of a buffer, which must have room. `_map` proves that the buffer's
/// memory is mapped.
#[inline(always)]
pub(super) fn fill<K: Kernel>(_map: &GuestMemory, buffer: VolatileSlice, frame: &Frame<'_>, len: usize) {
    let to = buffer.split_at(len).0;
    debug_assert_eq!(to.len(), len);
    // SAFETY: the buffer is inside the map held by the caller, which also compared the lengths.
    unsafe { frame.write_to::<K>(to) }
}

/// Writes private bytes to the front of a buffer, truncated to its length.
pub(super) fn copy_in<K: Kernel>(_map: &GuestMemory, buffer: VolatileSlice, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(buffer.len())];
    // SAFETY: as in `fill`; the length was limited to the buffer's.
    unsafe { buffer.copy_in::<K>(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mem::Region;

    fn ring(log2: u8, offset: u64) -> Result<Ring, RingFault> {
        let region = Arc::new(Region::heap(0, 0, 1 << 16));
        let place = region.seg(offset, Ring::bytes(log2));
        Ring::new(&Arc::new(GuestMemory::new(vec![region]).unwrap()), place, log2)
    }

    #[test]
    fn ring_must_be_aligned_and_inside_its_region() {
        assert_eq!(Ring::bytes(10), 128 + 16 * 1024);
        assert!(ring(10, 160).is_ok());
        assert_eq!(ring(10, 8).unwrap_err(), RingFault::Place);
        assert_eq!(ring(14, 0).unwrap_err(), RingFault::Place, "it is longer than the region");
        assert_eq!(ring(0, 0).unwrap().size(), 1);
    }

    #[test]
    fn field_offsets_match_the_protocol() {
        let ring = ring(2, 0).unwrap();
        ring.lay_out();
        ring.publish::<Client>(0x0102);
        ring.publish::<Server>(0x0304);
        ring.set_word(6, Word::new(9, 0x55).and_next(true));
        ring.set_offset(6, 0x1234);
        let mut bytes = [0; 192];
        // SAFETY: the map lives, and the ring has these bytes.
        unsafe { ring.whole.copy_out::<mem::copy::Portable>(&mut bytes) };
        assert_eq!(bytes[..8], [0x20, 0x1f, 0xe3, 3, 1, 0, 2, 1]);
        assert_eq!(bytes[64..66], [4, 3]);
        assert_eq!(bytes[128 + 32..128 + 48], [1, 0, 9, 0, 0x55, 0, 0, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0]);
        assert!(ring.has_cookie());
        assert_eq!((ring.theirs::<Server>(), ring.theirs::<Client>()), (0x0102, 0x0304));
    }

    #[test]
    fn receiver_sees_the_last_entry_before_sleeping() {
        let ring = ring(2, 0).unwrap();
        ring.lay_out();
        assert!(!ring.wants_interrupt());
        assert!(!ring.enable_notification::<Server>(0));
        assert!(ring.wants_interrupt());
        ring.publish::<Client>(1);
        assert!(ring.enable_notification::<Server>(0));
        ring.disable_notification();
        assert!(!ring.wants_interrupt());
    }
}
