//! Scheduling of receive queues: start-time fair queueing over units of work.
//!
//! Each queue has a meter, a running total of its units ([`port::work`]). The floor of a worker is the lowest meter
//! of the queues that had packets in its last round. A queue whose meter exceeds the floor by more than [`LEAD`] is
//! skipped, so that queues which used less are served first. A single queue, or several with equal use, are never
//! skipped. A queue that was idle starts at the floor: it neither saves up credit nor owes anything.
//!
//! A burst that costs more than a turn is carried over to later turns and reduces the size of the queue's next
//! bursts, so that the pipeline's own work on one burst stays proportionate. A worker needs one comparison to find
//! that a queue needs no special turn: while a burst is carried over, the compared value (`gate`) is at its maximum.
//!
//! Prices are constants, so meters are the same on every machine and in every run, and tests can check exact values.

use super::carried::Carried;
use port::BURST;
use port::work::{LEAD, TURN};
use std::collections::VecDeque;

/// Reference level of the meters of one worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// Lowest meter in the last round with packets.
    floor: u64,
    /// Lowest meter in this round so far.
    lowest: u64,
}

impl Level {
    pub(super) const NEW: Self = Self { floor: 0, lowest: u64::MAX };

    /// Records the meter of a queue with packets.
    #[inline(always)]
    fn note(&mut self, meter: u64) {
        self.lowest = self.lowest.min(meter);
    }

    /// Ends a round. The floor never decreases: otherwise queues that started at the floor would wait for one below
    /// it.
    #[inline(always)]
    pub(super) fn end_round(&mut self) {
        if self.lowest != u64::MAX {
            *self = Self { floor: self.floor.max(self.lowest), lowest: u64::MAX };
        }
    }
}

/// Account of one receive queue.
pub(crate) struct Account {
    /// Whether the queue is the receiver of a handoff queue. Its bursts carry their origin, and their cost beyond the
    /// charge in front of the handoff queue is a debt of that port.
    pub(super) is_handoff: bool,
    meter: u64,
    /// Meter before the last burst, or `u64::MAX` while a burst is carried over.
    gate: u64,
    limit: usize,
    /// Cost of a packet behind handoff queues, and whether it was set since the last burst, in which case the limit
    /// does not grow after that burst. Without a price, bursts have full size.
    price: u64,
    priced: bool,
    /// Unfinished bursts of this queue, oldest first: at most the one being sent and the one that was already
    /// received after it.
    carried: VecDeque<Box<Carried>>,
    /// Shared queues: the worker that served the queue last, and its floor.
    served: (usize, u64),
}

impl Default for Account {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Account {
    pub(super) fn new(is_handoff: bool) -> Self {
        Self {
            is_handoff,
            meter: 0,
            gate: 0,
            limit: BURST,
            price: 0,
            priced: false,
            carried: VecDeque::new(),
            served: (0, 0),
        }
    }

    /// Whether the queue may receive a burst without a special turn.
    #[inline(always)]
    pub(super) fn is_free(&self, level: &Level) -> bool {
        self.gate <= level.floor + LEAD
    }

    /// Maximum number of packets of the next burst.
    #[inline(always)]
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Expected cost of a packet behind handoff queues beyond the charge in front; 0 if insignificant.
    #[inline(always)]
    pub(super) fn price(&self) -> u64 {
        self.price
    }

    /// Records that the queue has a burst that is not charged yet.
    #[inline(always)]
    pub(super) fn note(&self, level: &mut Level) {
        level.note(self.meter);
    }

    /// Raises the meter to the floor; called when the queue had packets.
    #[inline(always)]
    pub(super) fn begin(&mut self, level: &Level) {
        self.meter = self.meter.max(level.floor);
    }

    /// Charges a burst that was sent within its turn.
    #[inline(always)]
    pub(super) fn charge(&mut self, cost: u64, level: &mut Level) {
        // The burst received after this one must not be delayed: a queue may be one burst ahead.
        let began = self.meter;
        self.add(cost, level);
        self.gate = began;
        if self.limit < BURST {
            self.grow();
        }
    }

    /// Raises the limit after a burst that cost less than a turn.
    #[cold]
    fn grow(&mut self) {
        if std::mem::take(&mut self.priced) {
            return;
        }
        self.limit = (2 * self.limit).min(BURST);
        self.price = if self.limit < BURST { self.price / 2 } else { 0 };
    }

    /// Charges `cost` units for part of a burst.
    #[inline(always)]
    pub(super) fn add(&mut self, cost: u64, level: &mut Level) {
        self.meter += cost;
        self.gate = if self.carried.is_empty() { self.meter } else { u64::MAX };
        level.note(self.meter);
    }

    /// Sets the price: each packet of the queue costs `price` behind handoff queues. Limits bursts to the cost of a
    /// turn there.
    pub(super) fn learn(&mut self, price: u64) {
        let fits = TURN / price.max(1);
        if fits < BURST as u64 && fits <= self.limit as u64 {
            self.limit = (fits as usize).max(1);
            (self.price, self.priced) = (price, true);
        }
    }

    /// Adjusts the limit after a carried burst has finished: `packets` packets cost `cost` units in total.
    pub(super) fn finished(&mut self, packets: usize, cost: u64) {
        let fits = (packets as u64 * TURN / cost.max(1)) as usize;
        if cost > TURN {
            self.limit = fits.clamp(1, BURST);
        } else {
            self.grow();
        }
    }

    /// Whether the queue may have a turn, even with carried bursts. If not, its meter still counts as one with
    /// packets.
    pub(super) fn is_due(&self, level: &mut Level) -> bool {
        let stood = if self.carried.is_empty() { self.gate } else { self.meter };
        let is_due = stood <= level.floor + LEAD;
        if !is_due {
            level.note(self.meter);
        }
        is_due
    }

    /// Rebases the meter if worker `worker` did not serve the queue last: floors of workers are unrelated.
    pub(super) fn served_by(&mut self, worker: usize, level: &Level) {
        if self.served.0 != worker {
            let rebased = |meter: u64| level.floor + meter.saturating_sub(self.served.1);
            self.gate = if self.carried.is_empty() { rebased(self.gate) } else { u64::MAX };
            self.meter = rebased(self.meter);
        }
        self.served = (worker, level.floor);
    }

    /// Whether bursts are carried over.
    #[inline(always)]
    pub(super) fn carries(&self) -> bool {
        !self.carried.is_empty()
    }

    /// Appends a burst behind the carried ones.
    pub(super) fn carry(&mut self, burst: Box<Carried>) {
        self.carried.push_back(burst);
        self.gate = u64::MAX;
    }

    /// Puts back an unfinished burst that was taken with [`Account::next`].
    pub(super) fn carry_on(&mut self, burst: Box<Carried>) {
        self.carried.push_front(burst);
        self.gate = u64::MAX;
    }

    /// All carried bursts.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Carried> {
        self.carried.iter_mut().map(|carried| &mut **carried)
    }

    /// Takes the oldest carried burst.
    pub(super) fn next(&mut self) -> Option<Box<Carried>> {
        let next = self.carried.pop_front();
        self.gate = if self.carried.is_empty() { self.meter } else { u64::MAX };
        next
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Bursts of each queue in `rounds` rounds, given the cost of one burst of each queue.
    fn bursts<const N: usize>(costs: [u64; N], rounds: usize) -> [u64; N] {
        let mut level = Level::NEW;
        let (mut accounts, mut bursts) = (costs.map(|_| Account::default()), [0; N]);
        for _ in 0..rounds {
            for ((account, cost), bursts) in accounts.iter_mut().zip(costs).zip(&mut bursts) {
                if account.is_free(&level) {
                    account.begin(&level);
                    account.charge(cost, &mut level);
                    *bursts += 1;
                } else {
                    assert!(!account.is_due(&mut level));
                }
            }
            level.end_round();
        }
        bursts
    }

    #[test]
    fn queues_get_equal_shares_of_work() {
        let [calm, greedy] = bursts([3_000, 60_000], 1_000);
        assert!(calm >= 999, "a cheap queue is never skipped: {calm}");
        assert!((48..=53).contains(&greedy), "{greedy} bursts of twenty times the cost");
    }

    #[test]
    fn single_or_equal_queues_are_never_skipped() {
        assert_eq!(bursts([1_000_000], 100), [100]);
        assert_eq!(bursts([15_000; 3], 100), [100; 3]);
    }

    #[test]
    fn idle_queue_accumulates_neither_credit_nor_debt() {
        let mut level = Level::NEW;
        let (mut idle, mut busy) = (Account::default(), Account::default());
        for _ in 0..100 {
            busy.charge(10 * LEAD, &mut level);
            level.end_round();
        }
        idle.begin(&level);
        idle.charge(5 * LEAD, &mut level);
        level.end_round();
        assert!(idle.meter > 100 * LEAD, "it begins at the floor");
        busy.charge(10 * LEAD, &mut level);
        level.end_round();
        assert!(idle.is_free(&level));
    }

    #[test]
    fn late_charge_costs_no_turn() {
        let mut level = Level::NEW;
        let mut accounts = [Account::default(), Account::default()];
        for account in &mut accounts {
            account.begin(&level);
        }
        accounts[0].charge(3 * LEAD, &mut level);
        level.end_round();
        accounts[1].charge(3 * LEAD, &mut level);
        assert!(accounts.iter().all(|account| account.is_free(&level)));
    }

    #[test]
    fn meter_is_rebased_when_another_worker_serves_the_queue() {
        let (mut near, mut account) = (Level::NEW, Account::default());
        account.served_by(0, &near);
        account.charge(10 * LEAD, &mut near);
        let far = Level { floor: 1 << 40, lowest: u64::MAX };
        account.served_by(1, &far);
        assert_eq!(account.meter, (1 << 40) + 10 * LEAD);
        account.served_by(0, &near);
        assert_eq!(account.meter, 10 * LEAD);
    }

    #[test]
    fn price_limits_bursts_only_while_it_is_charged() {
        let (mut account, mut level) = (Account::default(), Level::NEW);
        account.learn(TURN / 8);
        assert_eq!((account.limit(), account.price()), (8, TURN / 8));
        account.charge(10, &mut level);
        assert_eq!(account.limit(), 8, "one burst of the size that was found");
        for limit in [16, 32, BURST] {
            // Small debts, such as for a second output, are settled all the time.
            account.learn(1);
            account.charge(10, &mut level);
            assert_eq!(account.limit(), limit);
        }
        assert_eq!(account.price(), 0);
        account.finished(BURST, 16 * TURN);
        assert_eq!((account.limit(), account.price()), (4, 0), "what is paid in front has no price behind");
    }

    #[test]
    fn burst_limit_shrinks_to_one_turn_and_grows_again() {
        let (mut account, mut level) = (Account::default(), Level::NEW);
        account.finished(BURST, 16 * TURN);
        assert_eq!(account.limit(), 4);
        account.finished(4, 400 * TURN);
        assert_eq!(account.limit(), 1, "a queue is never stopped altogether");
        let limits: Vec<_> = (0..7)
            .map(|_| {
                account.charge(10, &mut level);
                account.limit()
            })
            .collect();
        assert_eq!(limits, [2, 4, 8, 16, 32, 64, 64]);
    }
}
