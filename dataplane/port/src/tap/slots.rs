//! Receive memory: slots of the maximum packet size, few of which are in use.
//!
//! The most recently freed slot is reused first, so that the slots in use stay in the cache: a packet is written by the
//! kernel, read by the switch and overwritten by the next packet, on one core. A frame starts on a cache line, directly
//! after its header. The first lines of the slots map to different cache sets, which a power-of-two stride would
//! prevent. Pages are allocated on first use: a slot that has only held short packets uses one page.

use super::sys;
use crate::arena::Arena;
use crate::retain::Lender;
use crate::{BURST, Burst, OFFLOAD_HEADER, PortFault};
use mem::VolatileSlice;

/// Minimum frame length in bytes: an Ethernet header.
pub(super) const MIN_FRAME: usize = 14;
/// Maximum frame length in bytes: 64 KiB, the largest segmentation-offload frame.
pub(super) const MAX_FRAME: usize = 65_550;
/// Line before a frame, at whose end the header is.
const LINE: usize = mem::line::LINE;
/// Slot size: an odd number of lines, with space to detect an oversized frame, and for VLAN tags.
const SIZE: usize = (LINE + MAX_FRAME + 8).next_multiple_of(2 * LINE) + LINE;

/// Slots and their free list.
#[derive(Debug)]
pub(super) struct Slots {
    arena: Arena,
    free: Vec<u16>,
    lender: Lender,
}

/// Number of slots: two bursts in flight, and one more for `io_uring`.
pub(super) const SLOTS: usize = 3 * BURST;

impl Slots {
    pub(super) fn new() -> Result<Self, PortFault> {
        let arena = Arena::new(SLOTS, SIZE)?;
        let lender = arena.lender();
        Ok(Self { arena, free: (0..SLOTS as u16).rev().collect(), lender })
    }

    /// Keeps the slots mapped while `burst` may hold packets in them.
    #[inline(always)]
    pub(super) fn pin(&self, burst: &mut Burst) {
        burst.pin_own(self.arena.map(), &self.lender);
    }

    /// Reclaims slots whose retained packets were released.
    #[inline(always)]
    pub(super) fn collect(&mut self) {
        self.lender.collect(|slot| self.free.push(slot));
    }

    /// Takes a free slot.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<u16> {
        self.free.pop()
    }

    /// Frees a slot.
    #[inline(always)]
    pub(super) fn give(&mut self, slot: u16) {
        debug_assert!(!self.free.contains(&slot) && usize::from(slot) < self.arena.slots());
        self.free.push(slot);
    }

    /// Memory for header and frame.
    #[inline(always)]
    pub(super) fn whole(&self, slot: u16) -> VolatileSlice {
        self.arena.slot(usize::from(slot)).split_at(LINE - OFFLOAD_HEADER).1
    }

    /// A copy of the first `len` bytes of header and frame. The kernel must no longer write to the slot.
    pub(super) fn copy(&self, slot: u16, len: usize) -> Box<[u8]> {
        sys::copy_out(self.whole(slot).split_at(len).0)
    }

    /// Writes header and frame to a free slot. Returns `None` if there is no free slot, or the frame does not fit.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Option<(u16, VolatileSlice)> {
        let slot = self.free.last().copied().filter(|_| bytes.len() <= SIZE - LINE)?;
        self.free.pop();
        let whole = self.whole(slot).split_at(bytes.len()).0;
        sys::copy_in(whole, bytes);
        Some((slot, whole))
    }

    /// Maximum memory of one queue's slots, in bytes.
    pub(super) const fn bytes() -> u64 {
        (SLOTS * SIZE) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_use_all_cache_sets_and_fit_a_maximum_frame() {
        let slots = Slots::new().unwrap();
        let frames: Vec<_> = (0..64).map(|i| slots.whole(i).split_at(OFFLOAD_HEADER).1).collect();
        assert!(frames.iter().all(|frame| frame.addr() % LINE == 0 && frame.len() > MAX_FRAME));
        let mut sets: Vec<_> = frames.iter().map(|frame| frame.addr() / LINE % 64).collect();
        sets.sort_unstable();
        sets.dedup();
        assert_eq!(sets.len(), 64);
    }

    #[test]
    fn slots_are_reused_last_in_first_out() {
        let mut slots = Slots::new().unwrap();
        let all: Vec<_> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(all, (0..SLOTS as u16).collect::<Vec<_>>());
        slots.give(7);
        slots.give(3);
        assert_eq!((slots.take(), slots.take(), slots.take()), (Some(3), Some(7), None));
    }
}
