//! A memif ring in shared memory: the one unsafe room of this port.
//!
//! Layout (libmemif's `memif.h`, `memif_ring_t` and `memif_desc_t`): a line with cookie, flags and `head`, a line with
//! `tail`, then descriptors of 16 bytes: flags, region, length; offset, metadata. Both ends can write all of it at any
//! time, so nothing here is behind a reference. A descriptor is read as two words, each in one access, and what is
//! judged is that copy.
//!
//! Protocol. The client advances `head` and the server `tail`, on the rings of both directions. On a ring to the
//! server, entries from `tail` to `head` are frames. On a ring to the client, entries from `tail` to `head` are empty
//! buffers, and what the server has filled is behind `tail`. An index is advanced with a release store
//! after everything that it covers is written, and read with an acquire load. The receiver's end of a ring
//! writes the flags: 1 means that it does not want to be interrupted. A sender publishes, fences, and looks at them; a
//! receiver that is going to sleep clears them, fences, and looks at the index again.

use super::RingFault;
use crate::Frame;
use core::sync::atomic::{Ordering, fence};
use mem::copy::Kernel;
use mem::{GuestMemory, VolatileSlice};
use std::sync::Arc;

/// `MEMIF_COOKIE`
pub(super) const COOKIE: u32 = 0x3e3_1f20;
/// `MEMIF_DESC_FLAG_NEXT`: the frame goes on in the next descriptor.
pub(super) const NEXT: u64 = 1;
/// `MEMIF_RING_FLAG_MASK_INT`
const MASK_INT: u16 = 1;
const FLAGS: usize = 4;
const HEAD: usize = 6;
const TAIL: usize = 64;
const DESCRIPTORS: usize = 128;
const DESCRIPTOR: usize = 16;
/// Where the length stands in a descriptor's first word.
const LENGTH: u32 = 32;
/// Where the region stands.
const REGION: u32 = 16;
/// How often an index is looked at again by a receiver that is going to sleep. A sender that looks at the flags without
/// a fence after it has published may have seen the old ones; its index arrives within the time of these looks.
const LOOKS: usize = 64;

/// Which index is whose.
pub(super) trait End: Send + 'static {
    /// Where the index stands that this end advances.
    const OURS: usize;
    /// Where the peer's stands.
    const THEIRS: usize;
    /// Whether this end made the buffers and lends them to the peer.
    const LENDS: bool;
}

/// The end that listens.
#[derive(Debug)]
pub(super) struct Server;
/// The end that connects, with the memory.
#[derive(Debug)]
pub(super) struct Client;

impl End for Server {
    const OURS: usize = TAIL;
    const THEIRS: usize = HEAD;
    const LENDS: bool = false;
}

impl End for Client {
    const OURS: usize = HEAD;
    const THEIRS: usize = TAIL;
    const LENDS: bool = true;
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

/// A ring with checked bounds. It holds the map that it lies in.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    whole: VolatileSlice,
    mask: u16,
    map: Arc<GuestMemory>,
}

impl Ring {
    /// Bytes of a ring of `2^log2` entries.
    pub(super) const fn bytes(log2: u8) -> u32 {
        (DESCRIPTORS + (DESCRIPTOR << log2)) as u32
    }

    /// The ring of `2^log2` entries, 14 at most, in `place`, which must have its bytes and lie on a multiple of 16.
    pub(super) fn new(
        map: &Arc<GuestMemory>,
        place: Option<VolatileSlice>,
        log2: u8,
    ) -> Result<Self, RingFault> {
        let whole = place.filter(|seg| seg.len() == Self::bytes(log2) as usize);
        let whole = whole.filter(|seg| seg.addr().is_multiple_of(DESCRIPTOR)).ok_or(RingFault::Place)?;
        Ok(Self { whole, mask: (1u16 << log2) - 1, map: map.clone() })
    }

    /// The map that the ring lies in.
    #[inline(always)]
    pub(super) fn map(&self) -> &Arc<GuestMemory> {
        &self.map
    }

    /// Entries.
    #[inline(always)]
    pub(super) fn size(&self) -> u16 {
        self.mask + 1
    }

    /// The entry at a position that counts on for ever.
    #[inline(always)]
    pub(super) fn slot(&self, at: u16) -> u16 {
        at & self.mask
    }

    /// Whether the ring says that it is one.
    pub(super) fn has_cookie(&self) -> bool {
        // SAFETY: the map is held; every ring has a head of 128 bytes, which is aligned.
        unsafe { self.whole.load_u32(0, Ordering::Relaxed) == COOKIE }
    }

    /// Makes this a ring in which nothing is: what a client does before it shows it.
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
        unsafe { self.whole.load_u16(E::THEIRS, Ordering::Acquire) }
    }

    /// Shows the peer everything before `at`.
    #[inline(always)]
    pub(super) fn publish<E: End>(&self, at: u16) {
        // SAFETY: as in `has_cookie`. The release pairs with the peer's acquire load of this index.
        unsafe { self.whole.store_u16(E::OURS, at, Ordering::Release) }
    }

    /// A descriptor's first word.
    #[inline(always)]
    pub(super) fn word(&self, at: u16) -> Word {
        // SAFETY: the map is held, the slot is below the ring's size, and descriptors are aligned.
        Word(unsafe { self.whole.load_u64(self.place(at), Ordering::Relaxed) })
    }

    /// Its offset, from the second word.
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

    /// Fetches the line of the peer's index.
    #[inline(always)]
    pub(super) fn prefetch_theirs<E: End>(&self) {
        self.whole.prefetch_read(E::THEIRS);
    }

    /// Fetches the descriptor at `at` and those beside it.
    #[inline(always)]
    pub(super) fn prefetch_word(&self, at: u16) {
        self.whole.prefetch_read(self.place(at));
    }

    /// Asks the sender for no interrupts.
    pub(super) fn disable_notification(&self) {
        // SAFETY: as in `has_cookie`.
        unsafe { self.whole.store_u16(FLAGS, MASK_INT, Ordering::Relaxed) }
    }

    /// Asks the sender for interrupts. Whether its index is not `seen` any more, so that sleeping would lose frames.
    pub(super) fn enable_notification<E: End>(&self, seen: u16) -> bool {
        // SAFETY: as in `has_cookie`.
        unsafe { self.whole.store_u16(FLAGS, 0, Ordering::Relaxed) };
        // Pairs with the fence that a sender executes between publishing and looking at the flags.
        fence(Ordering::SeqCst);
        (0..LOOKS).any(|_| {
            std::hint::spin_loop();
            self.theirs::<E>() != seen
        })
    }

    /// Whether the receiver wants an interrupt. The caller has executed a sequentially consistent fence since it
    /// published.
    #[inline(always)]
    pub(super) fn wants_interrupt(&self) -> bool {
        // SAFETY: as in `has_cookie`.
        unsafe { self.whole.load_u16(FLAGS, Ordering::Relaxed) & MASK_INT == 0 }
    }
}

/// Writes a frame of `len` bytes to the front of a buffer that has room for it. `_map` is the witness that the
/// buffer's memory is mapped.
#[inline(always)]
pub(super) fn fill<K: Kernel>(_map: &GuestMemory, buffer: VolatileSlice, frame: &Frame<'_>, len: usize) {
    let to = buffer.split_at(len).0;
    debug_assert_eq!(to.len(), len);
    // SAFETY: the buffer was found in the map that the caller holds, and its caller compared the lengths.
    unsafe { frame.write_to::<K>(to) }
}

/// Writes private bytes to the front of a buffer that has room for them.
pub(super) fn copy_in<K: Kernel>(_map: &GuestMemory, buffer: VolatileSlice, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(buffer.len())];
    // SAFETY: as in `fill`; the length was cut to the buffer's.
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
    fn a_ring_lies_on_sixteen_bytes_and_inside() {
        assert_eq!(Ring::bytes(10), 128 + 16 * 1024);
        assert!(ring(10, 160).is_ok());
        assert_eq!(ring(10, 8).unwrap_err(), RingFault::Place);
        assert_eq!(ring(14, 0).unwrap_err(), RingFault::Place, "it is longer than the region");
        assert_eq!(ring(0, 0).unwrap().size(), 1);
    }

    #[test]
    fn fields_lie_where_the_protocol_has_them() {
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
    fn a_receiver_that_is_going_to_sleep_sees_what_came_last() {
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
