//! Work that is known to wait in a handoff queue, beyond handing packets on: segments to be made, packets of a port whose packets turned
//! out to be expensive behind the handoff queue.
//!
//! A ring is full of packets when it holds a millisecond of nothing but copies; of packets that are to be cut into a thousand
//! segments each it may hold a hundred times that, and every port's packets wait behind them. So a handoff queue has room for a limited
//! number of packets and for a limited amount of work. Only expensive packets are entered, by their position in the ring,
//! which says what of it the receiver has taken: nothing is written that the other side reads.

use port::work::TURN;
use std::collections::VecDeque;

/// Bursts of a few units each that are entered before their sum is a turn: room for all, so that nothing is allocated later.
const PARTS: usize = 1024;

/// Expensive packets of a ring, oldest first.
pub(super) struct Backlog {
    /// Where a burst's entries end in the ring, and the work that they are.
    parts: VecDeque<(usize, u64)>,
    sum: u64,
}

impl Backlog {
    pub(super) fn new() -> Self {
        Self { parts: VecDeque::with_capacity(PARTS), sum: 0 }
    }

    /// Whether there is as much as one turn. What the receiver has taken meanwhile counts, so a caller looks first.
    #[inline(always)]
    pub(super) fn is_long(&self) -> bool {
        self.sum >= TURN
    }

    /// Entries up to position `end` are `work` units more.
    pub(super) fn add(&mut self, end: usize, work: u64) {
        self.parts.push_back((end, work));
        self.sum += work;
    }

    /// The receiver has taken everything before position `head`. Positions wrap.
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
    fn work_counts_until_the_last_parcel_of_its_burst_is_taken() {
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
