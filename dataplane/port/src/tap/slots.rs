//! The memory that packets are received into: slots that each hold the longest packet, few of which are in use.
//!
//! A slot that came back last is used first, so that what is in use stays in the caches: a packet's bytes are written by
//! the kernel, read by the switch and written over by the next packet, all on one core. A slot's frame begins on a line and
//! the header in front of it ends where the frame begins. The slots' first lines fall on different sets of the caches,
//! which a power of two between them would not give. Memory is the kernel's until a packet needs it: a slot that has only
//! seen short packets costs a page.

use crate::arena::Arena;
use crate::retain::Lender;
use crate::{BURST, Burst, OFFLOAD_HEADER, PortFault};
use mem::VolatileSlice;

/// Shortest frame: an Ethernet header.
pub(super) const SHORTEST: usize = 14;
/// Longest frame: 64 KiB, the largest that any offload makes.
pub(super) const LONGEST: usize = 65_550;
/// The line in front of a frame, at the end of which its header is.
const LINE: usize = mem::line::LINE;
/// An odd number of lines, with room for a byte that a frame must not have, and for VLAN tags.
const SIZE: usize = (LINE + LONGEST + 8).next_multiple_of(2 * LINE) + LINE;

/// Slots, and which of them are not in use.
#[derive(Debug)]
pub(super) struct Slots {
    arena: Arena,
    free: Vec<u16>,
    lender: Lender,
}

/// How many there are: two bursts under way, and as many for `io_uring` to have in hand.
pub(super) const SLOTS: usize = 3 * BURST;

impl Slots {
    pub(super) fn new() -> Result<Self, PortFault> {
        let arena = Arena::new(SLOTS, SIZE)?;
        let lender = arena.lender();
        Ok(Self { arena, free: (0..SLOTS as u16).rev().collect(), lender })
    }

    /// Keeps the slots mapped for as long as `burst` may hold packets in them.
    #[inline(always)]
    pub(super) fn pin(&self, burst: &mut Burst) {
        burst.pin_own(self.arena.map(), &self.lender);
    }

    /// Takes back slots whose packets were retained and are not any more.
    #[inline(always)]
    pub(super) fn collect(&mut self) {
        self.lender.collect(|slot| self.free.push(slot));
    }

    /// A slot that is not in use.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<u16> {
        self.free.pop()
    }

    /// It is not in use any more.
    #[inline(always)]
    pub(super) fn give(&mut self, slot: u16) {
        debug_assert!(!self.free.contains(&slot) && usize::from(slot) < self.arena.slots());
        self.free.push(slot);
    }

    /// Where header and frame are read to.
    #[inline(always)]
    pub(super) fn whole(&self, slot: u16) -> VolatileSlice {
        self.arena.slot(usize::from(slot)).split_at(LINE - OFFLOAD_HEADER).1
    }

    /// Bytes that the slots of one queue can take, once each has seen the longest packet.
    pub(super) const fn bytes() -> u64 {
        (SLOTS * SIZE) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_begins_on_a_line_of_its_own_set_and_the_longest_fits_with_a_byte_more() {
        let slots = Slots::new().unwrap();
        let frames: Vec<_> = (0..64).map(|i| slots.whole(i).split_at(OFFLOAD_HEADER).1).collect();
        assert!(frames.iter().all(|frame| frame.addr() % LINE == 0 && frame.len() > LONGEST));
        let mut sets: Vec<_> = frames.iter().map(|frame| frame.addr() / LINE % 64).collect();
        sets.sort_unstable();
        sets.dedup();
        assert_eq!(sets.len(), 64);
    }

    #[test]
    fn what_came_back_last_is_used_first() {
        let mut slots = Slots::new().unwrap();
        let all: Vec<_> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(all, (0..SLOTS as u16).collect::<Vec<_>>());
        slots.give(7);
        slots.give(3);
        assert_eq!((slots.take(), slots.take(), slots.take()), (Some(3), Some(7), None));
    }
}
