//! What a receive queue has used of its worker's time, and what it still may: deficit round robin.
//!
//! A queue has credit in units of work ([`port::work`]). Each burst is charged with what it cost, all outputs together, and
//! each round gives a quantum back. A queue without credit waits, unless no other queue has packets: then there is no one to
//! wait for. A burst that costs more than a turn is carried over to later turns, and makes the queue's next bursts smaller,
//! so that the pipeline's own work on one burst stays in proportion.
//!
//! Credit never exceeds a quantum, so an idle queue saves nothing up. While something is carried over there is no credit:
//! one comparison tells a worker that a queue needs no special treatment.

use super::carried::Carried;
use port::BURST;
use port::work::{QUANTUM, TURN};
use std::collections::VecDeque;

/// The account of one receive queue.
pub(crate) struct Account {
    credit: i64,
    limit: usize,
    /// Bursts of this queue that are not done with, oldest first: at most the one that is being sent and the one that was
    /// already received behind it.
    carried: VecDeque<Box<Carried>>,
}

impl Default for Account {
    fn default() -> Self {
        Self { credit: QUANTUM as i64, limit: BURST, carried: VecDeque::new() }
    }
}

impl Account {
    /// Whether the queue may take a burst, with nothing to be looked at first.
    #[inline(always)]
    pub(crate) fn is_free(&self) -> bool {
        self.credit > 0
    }

    /// Most packets of the next burst.
    #[inline(always)]
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// A burst was sent within its turn.
    #[inline(always)]
    pub(crate) fn charge(&mut self, cost: u64) {
        self.credit = (self.credit - cost as i64 + QUANTUM as i64).min(QUANTUM as i64);
        if self.limit < BURST {
            self.limit = (2 * self.limit).min(BURST);
        }
    }

    /// Part of a burst cost so much.
    #[inline]
    pub(crate) fn charge_part(&mut self, cost: u64) {
        self.credit -= cost as i64;
    }

    /// A burst that was carried over is done with: `packets` packets cost `cost` units in all.
    pub(super) fn finished(&mut self, packets: usize, cost: u64) {
        let fits = (packets as u64 * TURN / cost.max(1)) as usize;
        self.limit = if cost > TURN { fits.clamp(1, BURST) } else { (2 * self.limit).min(BURST) };
    }

    /// A new round for a queue without credit. Whether it may go on in it.
    pub(super) fn renew(&mut self, contended: bool) -> bool {
        let quantum = QUANTUM as i64;
        self.credit = if contended { (self.credit + quantum).min(quantum) } else { quantum };
        self.credit > 0
    }

    /// Whether bursts are carried over.
    #[inline]
    pub(crate) fn carries(&self) -> bool {
        !self.carried.is_empty()
    }

    /// Keeps a burst behind those that are carried over already.
    pub(super) fn carry(&mut self, burst: Box<Carried>) {
        self.carried.push_back(burst);
        self.credit = self.credit.min(0);
    }

    /// Keeps a burst that was taken with [`Account::next`] and is not done with.
    pub(super) fn carry_on(&mut self, burst: Box<Carried>) {
        self.carried.push_front(burst);
        self.credit = self.credit.min(0);
    }

    /// The oldest burst that is carried over.
    pub(super) fn next(&mut self) -> Option<Box<Carried>> {
        self.carried.pop_front()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Rounds until a queue that was charged with `cost` is served again.
    fn rounds(cost: u64, contended: bool) -> u64 {
        let mut account = Account::default();
        account.charge(cost);
        let mut rounds = 0;
        while !account.is_free() {
            rounds += 1;
            account.renew(contended);
        }
        rounds
    }

    #[test]
    fn a_queue_waits_as_many_rounds_as_its_burst_cost_quanta_beyond_the_first() {
        assert_eq!(rounds(QUANTUM, true), 0);
        assert_eq!(rounds(2 * QUANTUM, true), 1);
        assert_eq!(rounds(10 * QUANTUM, true), 9);
        assert_eq!(rounds(1000 * QUANTUM, false), 1, "with no other queue there is no one to wait for");
    }

    #[test]
    fn an_idle_queue_saves_nothing_up() {
        let mut account = Account::default();
        (0..100).for_each(|_| account.charge(0));
        account.charge(3 * QUANTUM);
        assert!(!account.is_free());
    }

    #[test]
    fn bursts_shrink_until_one_fits_into_a_turn_and_grow_again() {
        let mut account = Account::default();
        account.finished(BURST, 16 * TURN);
        assert_eq!(account.limit(), 4);
        account.finished(4, 400 * TURN);
        assert_eq!(account.limit(), 1, "a queue is never stopped altogether");
        let limits: Vec<_> = (0..7)
            .map(|_| {
                account.charge(10);
                account.limit()
            })
            .collect();
        assert_eq!(limits, [2, 4, 8, 16, 32, 64, 64]);
    }
}
