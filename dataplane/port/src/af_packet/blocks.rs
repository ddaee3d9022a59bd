//! The blocks of a `TPACKET_V3` ring (`Documentation/networking/packet_mmap.rst`): the one unsafe room of this port's
//! receive queue.
//!
//! Protocol: a block belongs to the kernel or to us, and its status word says to whom. The kernel fills it with frames
//! and hands it over by setting [`USER`], with release; that pairs with the acquire load in [`Blocks::is_ours`]. The thread that
//! has read it for the last time hands it back with the release store in [`Blocks::give_back`]. While it is ours no other thread
//! writes to it, we least of all. The kernel is trusted; offsets that it wrote are compared with the block all the same,
//! and nothing in a block is ever behind a reference.

use core::sync::atomic::Ordering;
use mem::copy::Portable;
use mem::{GuestMemory, VolatileSlice};
use std::sync::Arc;

/// Bytes of a block: one frame of 64 KiB with its header, or some 800 small ones.
pub(super) const BLOCK: u32 = 128 << 10;

/// `TP_STATUS_USER`
const USER: u32 = 1;
/// `TP_STATUS_KERNEL`
const KERNEL: u32 = 0;

// Offsets in `struct tpacket_block_desc`.
const STATUS: usize = 8;
const COUNT: usize = 12;
const FIRST: usize = 16;

/// Bytes of `struct tpacket3_hdr`.
const HEADER: usize = 48;
/// `TP_STATUS_VLAN_VALID`
const VLAN: u32 = 1 << 4;
/// `TP_STATUS_VLAN_TPID_VALID`
const VLAN_TYPE: u32 = 1 << 6;
/// The type of a tag whose type the kernel does not say: 802.1Q.
const USUAL_TYPE: u16 = 0x8100;

/// What the kernel wrote about a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// From this header to the next; 0 in the last one.
    pub(super) next: u32,
    /// Bytes of the frame that are here.
    pub(super) here: u32,
    /// Bytes of the frame.
    pub(super) len: u32,
    /// From this header to the frame.
    pub(super) frame: u16,
    /// A tag that the kernel took out of the frame: type, then priority and number.
    pub(super) tag: Option<(u16, u16)>,
}

impl Entry {
    /// Reads a header that was copied.
    fn parse(header: [u8; HEADER]) -> Self {
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| header[at + i]));
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let status = word(20);
        let kind = if status & VLAN_TYPE == 0 { USUAL_TYPE } else { half(36) };
        Self {
            next: word(0),
            here: word(12),
            len: word(16),
            frame: half(24),
            tag: (status & VLAN != 0).then(|| (kind, word(32) as u16)),
        }
    }
}

/// The blocks of one socket.
#[derive(Debug)]
pub(super) struct Blocks {
    map: Arc<GuestMemory>,
    whole: VolatileSlice,
    count: u16,
}

impl Blocks {
    /// `count` blocks, which are all that is in `map`.
    pub(super) fn new(map: Arc<GuestMemory>, count: u16) -> Self {
        let len = u32::from(count) * BLOCK;
        let whole =
            map.regions().first().and_then(|region| region.seg(0, len)).unwrap_or(VolatileSlice::EMPTY);
        Self { map, whole, count }
    }

    /// What a burst pins.
    pub(super) fn map(&self) -> &Arc<GuestMemory> {
        &self.map
    }

    /// How many there are.
    pub(super) fn count(&self) -> u16 {
        self.count
    }

    #[inline(always)]
    fn block(&self, block: u16) -> VolatileSlice {
        self.whole.slice(usize::from(block) * BLOCK as usize, BLOCK as usize).unwrap_or(VolatileSlice::EMPTY)
    }

    /// Whether the kernel has handed over `block`, which is below [`Blocks::count`].
    #[inline(always)]
    pub(super) fn is_ours(&self, block: u16) -> bool {
        debug_assert!(block < self.count);
        // SAFETY: the map is held by `self`; the block lies in it and begins on a page.
        unsafe { self.block(block).load_u32(STATUS, Ordering::Acquire) & USER != 0 }
    }

    /// Hands `block`, which is ours, back to the kernel.
    #[inline(always)]
    pub(super) fn give_back(&self, block: u16) {
        debug_assert!(block < self.count);
        // SAFETY: as in `is_ours`. Pairs with the kernel's look at the status before it writes.
        unsafe { self.block(block).store_u32(STATUS, KERNEL, Ordering::Release) };
    }

    /// How many frames are in `block`, which is ours, and where the first one's header is.
    #[inline(always)]
    pub(super) fn contents(&self, block: u16) -> (u32, u32) {
        debug_assert!(block < self.count);
        let block = self.block(block);
        // SAFETY: as in `is_ours`.
        unsafe { (block.load_u32(COUNT, Ordering::Relaxed), block.load_u32(FIRST, Ordering::Relaxed)) }
    }

    /// The header at `at` in `block`; `None` where it would not lie inside.
    #[inline(always)]
    pub(super) fn entry(&self, block: u16, at: u32) -> Option<Entry> {
        self.copy::<HEADER>(block, u64::from(at)).map(Entry::parse)
    }

    /// `N` bytes at `at` in `block`.
    #[inline(always)]
    pub(super) fn copy<const N: usize>(&self, block: u16, at: u64) -> Option<[u8; N]> {
        let (place, mut bytes) = (self.block(block).slice(usize::try_from(at).ok()?, N)?, [0; N]);
        // SAFETY: the map is held by `self`, and the place has the array's length.
        unsafe { place.copy_out::<Portable>(&mut bytes) };
        Some(bytes)
    }

    /// The frame behind the header at `at`.
    #[inline(always)]
    pub(super) fn frame(&self, block: u16, at: u32, entry: Entry) -> Option<VolatileSlice> {
        self.block(block).slice(at as usize + usize::from(entry.frame), entry.here as usize)
    }

    /// Fetches the beginning of `block`.
    #[inline(always)]
    pub(super) fn prefetch(&self, block: u16, at: u32) {
        self.block(block).prefetch_read(at as usize);
    }
}

/// Puts a tag that the kernel took out back into the first bytes of a frame, which have grown by four in front.
pub(super) fn put_tag(head: &mut [u8], (kind, tag): (u16, u16)) {
    if head.len() >= 16 {
        head.copy_within(4..16, 0);
        head[12..14].copy_from_slice(&kind.to_be_bytes());
        head[14..16].copy_from_slice(&tag.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mem::Region;

    fn header(words: &[(usize, u32)], halves: &[(usize, u16)]) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        for &(at, word) in words {
            header[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        for &(at, half) in halves {
            header[at..at + 2].copy_from_slice(&half.to_ne_bytes());
        }
        header
    }

    #[test]
    fn a_header_is_read_as_the_kernel_lays_it_out() {
        let plain = header(&[(0, 160), (12, 60), (16, 64), (20, USER)], &[(24, 82)]);
        assert_eq!(Entry::parse(plain), Entry { next: 160, here: 60, len: 64, frame: 82, tag: None });
        let tagged = header(&[(20, USER | VLAN), (32, 0x2007)], &[(36, 0x88a8)]);
        assert_eq!(Entry::parse(tagged).tag, Some((0x8100, 0x2007)));
        let typed = header(&[(20, VLAN | VLAN_TYPE), (32, 7)], &[(36, 0x88a8)]);
        assert_eq!(Entry::parse(typed).tag, Some((0x88a8, 7)));
    }

    #[test]
    fn what_would_lie_outside_of_a_block_is_nothing() {
        let region = Region::heap(0, 0, 4 * u64::from(BLOCK));
        let blocks = Blocks::new(Arc::new(GuestMemory::new(vec![Arc::new(region)]).unwrap()), 4);
        assert!(blocks.entry(3, BLOCK - 48).is_some() && blocks.entry(3, BLOCK - 47).is_none());
        let entry = Entry { here: 100, frame: 82, ..Entry::default() };
        assert!(
            blocks.frame(0, BLOCK - 182, entry).is_some() && blocks.frame(0, BLOCK - 181, entry).is_none()
        );
        assert!(!blocks.is_ours(2));
    }

    #[test]
    fn a_tag_goes_back_between_the_addresses_and_the_type() {
        let mut head: Vec<u8> = (0..20).collect();
        head.splice(0..0, [0; 4]);
        put_tag(&mut head, (0x8100, 0x6007));
        assert_eq!(head[..12], (0..12).collect::<Vec<u8>>()[..]);
        assert_eq!(head[12..18], [0x81, 0, 0x60, 7, 12, 13]);
        assert_eq!(head.len(), 24);
    }
}
