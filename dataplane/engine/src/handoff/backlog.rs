//! Backlog: known work of the packets in a handoff queue beyond forwarding them, such as segmentation or packets of a
//! port that turned out to be expensive behind the handoff queue.
//!
//! A ring full of packets that need only copies holds about a millisecond of work; with packets to be cut into a
//! thousand segments each, it may hold a hundred times that, and packets of all ports wait behind them. A handoff
//! queue is therefore limited by number of packets and by amount of work. Only expensive packets are entered, with
//! their position in the ring, which determines whether the receiver has dequeued them; this needs no shared writes.

use port::work::TURN;
use std::collections::VecDeque;

/// Initial capacity: bursts of a few units each until their sum reaches a turn, so that nothing is allocated later.
const PARTS: usize = 1024;

/// Expensive packets in a ring, oldest first.
pub(super) struct Backlog {
    /// End position of a burst's entries in the ring, and their work.
    parts: VecDeque<(usize, u64)>,
    sum: u64,
}

impl Backlog {
    pub(super) fn new() -> Self {
        Self { parts: VecDeque::with_capacity(PARTS), sum: 0 }
    }

    /// Whether the backlog is at least one turn. The caller must update it with [`Backlog::take`] first.
    #[inline(always)]
    pub(super) fn is_long(&self) -> bool {
        self.sum >= TURN
    }

    /// Adds `work` units for the entries up to position `end`.
    pub(super) fn add(&mut self, end: usize, work: u64) {
        self.parts.push_back((end, work));
        self.sum += work;
    }

    /// Removes entries that the receiver has dequeued, those before position `head`. Positions wrap.
    pub(super) fn take(&mut self, head: usize) {
        while let Some((_, work)) =
            self.parts.pop_front_if(|(end, _)| head.wrapping_sub(*end) <= usize::MAX / 2)
        {
            self.sum -= work;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn work_counts_until_the_last_entry_of_its_burst_is_taken() {
        let mut backlog = Backlog::new();
        backlog.add(usize::MAX - 1, TURN - 1);
        assert!(!backlog.is_long());
        backlog.add(3, 1);
        assert!(backlog.is_long());
        backlog.take(usize::MAX - 2);
        assert!(backlog.is_long());
        backlog.take(2);
        assert_eq!(backlog.sum, 1, "positions wrap");
        backlog.take(3);
        assert_eq!((backlog.sum, backlog.parts.len()), (0, 0));
    }
}
