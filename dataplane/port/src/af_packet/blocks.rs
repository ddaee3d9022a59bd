//! Blocks of a `TPACKET_V3` ring (`Documentation/networking/packet_mmap.rst`). The only module with unsafe code of
//! this port's receive queue.
//!
//! Protocol: a block is owned by the kernel or by this process, according to its status word. The kernel fills a
//! block with frames and passes it on by setting [`USER`] with release; this pairs with the acquire load in
//! [`Blocks::is_ours`]. The thread that has read the block last returns it with the release store in
//! [`Blocks::give_back`]. While this process owns a block, no thread writes to it. The kernel is trusted; its offsets
//! are nevertheless checked against the block, and no reference to block contents is ever formed.

use core::sync::atomic::Ordering;
use mem::copy::Portable;
use mem::{GuestMemory, VolatileSlice};
use std::sync::Arc;

/// Block size in bytes: one frame of 64 KiB with its header, or about 800 small ones.
pub(super) const BLOCK: u32 = 128 << 10;

/// `TP_STATUS_USER`
const USER: u32 = 1;
/// `TP_STATUS_KERNEL`
const KERNEL: u32 = 0;

// Offsets in `struct tpacket_block_desc`.
const STATUS: usize = 8;
const COUNT: usize = 12;
const FIRST: usize = 16;

/// Size of `struct tpacket3_hdr`.
const HEADER: usize = 48;
/// `TP_STATUS_VLAN_VALID`
const VLAN: u32 = 1 << 4;
/// `TP_STATUS_VLAN_TPID_VALID`
const VLAN_TYPE: u32 = 1 << 6;
/// TPID used if the kernel does not report one: 802.1Q.
const DEFAULT_TPID: u16 = 0x8100;

/// Metadata of a frame, written by the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Offset from this header to the next; 0 in the last one.
    pub(super) next: u32,
    /// Captured length.
    pub(super) here: u32,
    /// Frame length.
    pub(super) len: u32,
    /// Offset from this header to the frame.
    pub(super) frame: u16,
    /// VLAN tag removed from the frame by the kernel: TPID and TCI.
    pub(super) tag: Option<(u16, u16)>,
}

impl Entry {
    /// Parses a copied header.
    fn parse(header: [u8; HEADER]) -> Self {
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| header[at + i]));
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let status = word(20);
        let kind = if status & VLAN_TYPE == 0 { DEFAULT_TPID } else { half(36) };
        Self {
            next: word(0),
            here: word(12),
            len: word(16),
            frame: half(24),
            tag: (status & VLAN != 0).then(|| (kind, word(32) as u16)),
        }
    }
}

/// Blocks of one socket.
#[derive(Debug)]
pub(super) struct Blocks {
    map: Arc<GuestMemory>,
    whole: VolatileSlice,
    count: u16,
}

impl Blocks {
    /// `count` blocks, which occupy all of `map`.
    pub(super) fn new(map: Arc<GuestMemory>, count: u16) -> Self {
        let len = u32::from(count) * BLOCK;
        let whole =
            map.regions().first().and_then(|region| region.seg(0, len)).unwrap_or(VolatileSlice::EMPTY);
        Self { map, whole, count }
    }

    /// Memory that a burst pins.
    pub(super) fn map(&self) -> &Arc<GuestMemory> {
        &self.map
    }

    /// Number of blocks.
    pub(super) fn count(&self) -> u16 {
        self.count
    }

    #[inline(always)]
    fn block(&self, block: u16) -> VolatileSlice {
        self.whole.slice(usize::from(block) * BLOCK as usize, BLOCK as usize).unwrap_or(VolatileSlice::EMPTY)
    }

    /// Whether this process owns `block`, which must be below [`Blocks::count`].
    #[inline(always)]
    pub(super) fn is_ours(&self, block: u16) -> bool {
        debug_assert!(block < self.count);
        // SAFETY: `self` holds the map; the block is inside it and page-aligned.
        unsafe { self.block(block).load_u32(STATUS, Ordering::Acquire) & USER != 0 }
    }

    /// Returns `block`, which must be owned by this process, to the kernel.
    #[inline(always)]
    pub(super) fn give_back(&self, block: u16) {
        debug_assert!(block < self.count);
        // SAFETY: as in `is_ours`. The release store pairs with the kernel's read of the status before it writes.
        unsafe { self.block(block).store_u32(STATUS, KERNEL, Ordering::Release) };
    }

    /// Number of frames in `block`, which must be owned by this process, and offset of the first header.
    #[inline(always)]
    pub(super) fn contents(&self, block: u16) -> (u32, u32) {
        debug_assert!(block < self.count);
        let block = self.block(block);
        // SAFETY: as in `is_ours`.
        unsafe { (block.load_u32(COUNT, Ordering::Relaxed), block.load_u32(FIRST, Ordering::Relaxed)) }
    }

    /// Header at `at` in `block`. Returns `None` if it exceeds the block.
    #[inline(always)]
    pub(super) fn entry(&self, block: u16, at: u32) -> Option<Entry> {
        self.copy::<HEADER>(block, u64::from(at)).map(Entry::parse)
    }

    /// `N` bytes at `at` in `block`. Returns `None` if they exceed the block.
    #[inline(always)]
    pub(super) fn copy<const N: usize>(&self, block: u16, at: u64) -> Option<[u8; N]> {
        let (place, mut bytes) = (self.block(block).slice(usize::try_from(at).ok()?, N)?, [0; N]);
        // SAFETY: `self` holds the map, and `place` has the array's length.
        unsafe { place.copy_out::<Portable>(&mut bytes) };
        Some(bytes)
    }

    /// Frame of the header at `at`. Returns `None` if it exceeds the block.
    #[inline(always)]
    pub(super) fn frame(&self, block: u16, at: u32, entry: Entry) -> Option<VolatileSlice> {
        self.block(block).slice(at as usize + usize::from(entry.frame), entry.here as usize)
    }

    /// Prefetches the line at `at` in `block`.
    #[inline(always)]
    pub(super) fn prefetch(&self, block: u16, at: u32) {
        self.block(block).prefetch_read(at as usize);
    }
}

/// Inserts a VLAN tag that the kernel removed. The frame's head must have grown by four bytes at the front before.
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
    fn header_matches_the_kernel_layout() {
        let plain = header(&[(0, 160), (12, 60), (16, 64), (20, USER)], &[(24, 82)]);
        assert_eq!(Entry::parse(plain), Entry { next: 160, here: 60, len: 64, frame: 82, tag: None });
        let tagged = header(&[(20, USER | VLAN), (32, 0x2007)], &[(36, 0x88a8)]);
        assert_eq!(Entry::parse(tagged).tag, Some((0x8100, 0x2007)));
        let typed = header(&[(20, VLAN | VLAN_TYPE), (32, 7)], &[(36, 0x88a8)]);
        assert_eq!(Entry::parse(typed).tag, Some((0x88a8, 7)));
    }

    #[test]
    fn offset_outside_the_block_is_none() {
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
    fn tag_is_reinserted_after_the_addresses() {
        let mut head: Vec<u8> = (0..20).collect();
        head.splice(0..0, [0; 4]);
        put_tag(&mut head, (0x8100, 0x6007));
        assert_eq!(head[..12], (0..12).collect::<Vec<u8>>()[..]);
        assert_eq!(head[12..18], [0x81, 0, 0x60, 7, 12, 13]);
        assert_eq!(head.len(), 24);
    }
}
