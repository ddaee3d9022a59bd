//! Special turns: of a queue ahead of the others, of a queue with a carried burst, and the last turn of a queue that
//! is stopped.
//!
//! These functions take the account of a queue and return a burst that has been sent to all outputs. The owner of the
//! queue must complete it and then return it to the worker ([`Worker::recycle`]).

use super::account::Account;
use super::carried::{Carried, Unsent};
use super::execution::Execution;
use super::{Worker, complete, received};
use crate::command::QueueKey;
use crate::config::QueueFull;
use crate::step::Step;
use crate::trace::BurstKey;
use port::work::{SLICE, TURN};

/// Result of a special turn.
pub(super) enum Turn {
    /// The queue may receive a burst.
    Free,
    /// The turn is over.
    Over,
    /// A carried burst was continued and is now sent to all outputs.
    Sent(Box<Carried>),
}

impl<M: Execution> Worker<M> {
    /// Turn of a queue that is ahead of the others or has a carried burst.
    #[cold]
    pub(super) fn continued_turn(&mut self, account: &mut Account) -> Turn {
        if !account.is_due(&mut self.level) {
            self.counters.skipped_turns.add(1);
            return Turn::Over;
        }
        let Some(mut carried) = account.next() else { return Turn::Free };
        (self.out.spent, self.out.price) = (0, account.price());
        self.classify_carried(&mut carried);
        self.deliver(account, carried).map_or(Turn::Over, Turn::Sent)
    }

    /// Continues burst `index`, for which `send_all` left something: sends as much as the turn's budget allows.
    #[cold]
    pub(super) fn carry(
        &mut self,
        index: usize,
        from: QueueKey,
        account: &mut Account,
    ) -> Option<Box<Carried>> {
        let mut carried = self.take_over(index, from);
        carried.is_classified = true;
        self.take_rests(&mut carried);
        self.deliver(account, carried)
    }

    /// Burst `index` was received before the previous one was sent: it queues behind that one.
    #[cold]
    pub(super) fn carry_behind(&mut self, index: usize, from: QueueKey, account: &mut Account) {
        account.carry(self.take_over(index, from));
    }

    /// Moves a burst out of the two that are filled.
    fn take_over(&mut self, index: usize, from: QueueKey) -> Box<Carried> {
        let mut carried = self.spares.pop().unwrap_or_else(Carried::new);
        std::mem::swap(&mut carried.burst, &mut self.bursts[index]);
        carried.from = from;
        carried.received = self.out.take_sample(index);
        carried.burst.keep_own_pin();
        carried
    }

    fn take_rests(&mut self, carried: &mut Carried) {
        carried.delivery.rests.append(&mut self.out.rests);
        if carried.delivery.rests.iter().any(Unsent::is_edited) {
            std::mem::swap(&mut carried.delivery.edits, self.classifier.verdicts.edits_mut());
        }
        carried.delivery.flooded.clone_from(self.classifier.verdicts.flooded());
        carried.delivery.alone = self.out.alone;
        carried.credit = self.out.credit.unwrap_or(0);
    }

    fn classify_carried(&mut self, carried: &mut Carried) {
        if !std::mem::replace(&mut carried.is_classified, true) {
            let context = received(&carried.burst, carried.from);
            self.out.resume_sample(carried.received, BurstKey::of(&carried.burst));
            self.counters.step.enter(Step::Pipeline, carried.from.port);
            self.classifier.classify(&mut carried.burst, &context);
            self.out.send_all(&mut carried.burst, &self.classifier.verdicts, carried.from);
            self.out.pause_sample(carried.received);
            self.take_rests(carried);
        }
    }

    /// Sends as much as the turn's budget allows and carries over the rest.
    fn deliver(&mut self, account: &mut Account, mut carried: Box<Carried>) -> Option<Box<Carried>> {
        let packets = carried.burst.len().max(1) as u64;
        if account.is_handoff && carried.cost == 0 {
            // The expected cost is known long before the work is done.
            carried.price = self.out.expected_cost(&carried).saturating_sub(carried.credit) / packets;
        }
        let is_done = self.step(&mut carried);
        account.add(self.out.spent, &mut self.level);
        if account.is_handoff {
            let waited = if is_done { carried.delivery.waited(self.now) } else { 0 };
            let units = carried.spend(self.out.spent) + waited;
            if is_done {
                carried.price = (carried.owed + waited) / packets;
            }
            self.model.charge(carried.from.port, units, carried.price);
        }
        if is_done {
            account.finished(carried.burst.len(), carried.cost);
            return Some(carried);
        }
        self.counters.carried_turns.add(1);
        account.carry_on(carried);
        None
    }

    /// Sends within the remaining budget of the turn. Returns whether nothing is left.
    fn step(&mut self, carried: &mut Carried) -> bool {
        let Carried { burst, from, delivery, received, .. } = carried;
        self.counters.step.enter(Step::Deliver, from.port);
        self.out.resume_sample(*received, BurstKey::of(burst));
        let is_done = self.out.deliver((burst, *from), delivery, self.now);
        self.out.pause_sample(*received);
        carried.cost += self.out.spent;
        is_done
    }

    /// A step with a full budget.
    fn slice(&mut self, carried: &mut Carried) -> bool {
        let is_done = self.step(carried);
        self.out.spent = 0;
        is_done
    }

    /// Takes back a completed burst for reuse.
    pub(super) fn recycle(&mut self, mut carried: Box<Carried>) {
        carried.clear();
        self.spares.push(carried);
    }

    /// The last turn of a burst whose queue is about to stop or whose memory is about to change. The part that
    /// exceeds the budget is abandoned and counted, so the control thread waits for about two turns, independent of
    /// the burst.
    #[cold]
    pub(super) fn end(&mut self, account: &mut Account) -> Option<Box<Carried>> {
        let mut carried = account.next()?;
        (self.out.spent, self.out.price) = (0, account.price());
        self.classify_carried(&mut carried);
        let slices = TURN / SLICE;
        if !(0..slices).any(|_| self.slice(&mut carried)) {
            self.out.abandon(&mut carried);
        }
        Some(carried)
    }

    /// Sends all of a burst created by the switch itself: it is a single packet, and no queue has to be stopped for
    /// it.
    #[cold]
    pub(super) fn send_whole(&mut self, index: usize, from: QueueKey) {
        let mut carried = self.take_over(index, from);
        self.take_rests(&mut carried);
        self.out.may_wait = false;
        while !self.slice(&mut carried) {}
        self.out.may_wait = self.config.queue_full == QueueFull::Wait;
        self.recycle(carried);
    }
}

/// Special turns of a queue owned by this worker, given by its index.
impl<M: Execution> Worker<M> {
    /// Starts the turn of the queue at `at`. Returns whether it may receive a burst.
    #[cold]
    pub(super) fn begin_turn(&mut self, at: usize) -> bool {
        if self.rx[at].account.carries() {
            // A pending burst of another queue must not wait for this turn.
            self.finish();
        }
        match self.with_account(at, Self::continued_turn) {
            Turn::Free => return true,
            Turn::Over => {}
            Turn::Sent(carried) => self.complete(at, carried),
        }
        false
    }

    #[cold]
    pub(super) fn carry_own(&mut self, index: usize, at: usize, from: QueueKey) {
        if let Some(carried) = self.with_account(at, |worker, account| worker.carry(index, from, account)) {
            self.complete(at, carried);
        }
    }

    /// Ends all carried bursts of the queue at `at`.
    #[cold]
    pub(super) fn end_own(&mut self, at: usize) {
        while let Some(carried) = self.with_account(at, Self::end) {
            self.complete(at, carried);
        }
    }

    pub(super) fn with_account<T>(&mut self, at: usize, f: impl FnOnce(&mut Self, &mut Account) -> T) -> T {
        let mut account = std::mem::take(&mut self.rx[at].account);
        let result = f(self, &mut account);
        self.rx[at].account = account;
        result
    }

    fn complete(&mut self, at: usize, carried: Box<Carried>) {
        let slot = &mut self.rx[at];
        self.counters.step.enter(Step::Complete, slot.key.port);
        complete(&mut *slot.queue, &carried.burst);
        slot.dirty = true;
        self.recycle(carried);
    }
}
