//! Sleep of a worker: it flushes transmit queues that delay packets, enables notifications on its receive queues,
//! checks them again and sleeps. A worker that never sleeps flushes packets without a time limit at the moment at
//! which another worker would sleep.

use super::Worker;
use super::execution::Execution;
use crate::config::Polling;
use crate::rounds::Rounds;
use crate::step::{NO_PORT, Step};
use mem::ticks;
use port::{Flush, Now};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Minimum number of empty rounds before an adaptive worker may sleep.
const IDLE_ROUNDS: u32 = 256;
/// Time without packets before an adaptive worker sleeps, in nanoseconds: about the cost of a sleep and wake-up (34
/// microseconds in `docs/research/results.md`), so that polling costs at most about twice the optimum.
const IDLE_TIME: u64 = 50_000;

impl<M: Execution> Rounds for Worker<M> {
    #[inline(always)]
    fn handle_commands(&mut self) -> bool {
        Worker::handle_commands(self)
    }

    #[inline(always)]
    fn round(&mut self, last: &mut u64) -> bool {
        let worked = Worker::round(self);
        self.spend(worked, last)
    }

    fn may_sleep(&mut self, rounds: u32, idle: u64) -> bool {
        Worker::may_sleep(self, rounds, idle)
    }

    #[cold]
    fn sleep(&mut self) -> bool {
        M::sleep(self)
    }
}

impl<M: Execution> Worker<M> {
    /// Whether the worker has been idle long enough to sleep, in rounds and ticks. Also flushes delayed packets by
    /// then, even if other stages on its thread or a queue without a kick prevent the sleep.
    pub(crate) fn may_sleep(&mut self, rounds: u32, idle: u64) -> bool {
        if rounds <= IDLE_ROUNDS || idle as f64 <= IDLE_TIME as f64 * self.ticks_per_ns {
            return false;
        }
        let sleeps = self.config.polling == Polling::Adaptive;
        if !self.out.keeping.is_empty() {
            self.out.flush(self.now, if sleeps { Flush::All } else { Flush::Idle });
            self.notify();
            self.counters.step.leave();
        }
        sleeps
    }

    /// Runs one round and sends its last burst as far as its turn allows, for a caller that may not call again soon.
    /// Returns whether the caller should call again at once.
    pub(crate) fn whole_round(&mut self) -> bool {
        let worked = self.round();
        self.finish();
        if !worked {
            self.out.flush(self.now, Flush::Idle);
        }
        self.notify();
        worked
    }

    /// Prepares to sleep. Returns `false` if packets are pending or a queue keeps this worker awake.
    pub(crate) fn prepare_sleep(&mut self) -> bool {
        self.notify();
        // A handoff queue does not notify its sender of free room, so a worker that waits for room or for a drain
        // stays awake.
        let sleeps = !self.orders.wait()
            && !self.out.handoffs.are_dirty()
            && !self.rx.iter().any(|slot| slot.queue.kick_fd().is_none() || slot.account.carries())
            && self.enable_all();
        if sleeps {
            self.run_timers();
            self.begin_sleep();
        }
        sleeps
    }

    /// Sleeps; the worker has its queues and its thread to itself. Returns whether it slept.
    pub(super) fn sleep_alone(&mut self) -> bool {
        let sleeps = self.prepare_sleep();
        if sleeps {
            self.sleeper.sleep(self.until_timers());
            self.end_sleep();
        }
        self.disable_all();
        sleeps
    }

    /// Accounts the ticks since `last` to a round. Returns `worked`.
    #[inline(always)]
    pub(super) fn spend(&self, worked: bool, last: &mut u64) -> bool {
        let now = ticks();
        let spent = now - std::mem::replace(last, now);
        let account = if worked { &self.counters.busy_ticks } else { &self.counters.idle_ticks };
        account.add(spent);
        self.counters.step.leave();
        worked
    }

    /// Runs timers of the pipeline that are due, outside a round, and updates the next deadline, including timers
    /// started by `process`. Must be called before a sleep of [`Worker::until_timers`].
    pub(crate) fn run_timers(&mut self) {
        self.counters.step.enter(Step::Timers, NO_PORT);
        let now = self.clock();
        self.classifier.tick(now);
        self.counters.step.leave();
    }

    /// When the pipeline's next timer is due; `None` if none runs.
    pub(crate) fn due(&self) -> Option<Now> {
        self.classifier.due()
    }

    /// Time until the pipeline's next timer is due; `None` if none runs.
    pub(crate) fn until_timers(&self) -> Option<Duration> {
        let due = self.classifier.due()?;
        Some(Duration::from_nanos(due.0.saturating_sub(self.clock().0)))
    }

    pub(super) fn begin_sleep(&self) {
        self.counters.sleeping.store(true, Ordering::Relaxed);
        self.counters.sleeps.add(1);
    }

    pub(super) fn end_sleep(&self) {
        self.counters.sleeping.store(false, Ordering::Relaxed);
        self.counters.wakes.add(1);
    }

    /// Enables notifications on every queue. Returns `false` if one has packets, which a sleep would delay.
    pub(super) fn enable_all(&mut self) -> bool {
        let mut at = 0;
        while at < self.rx.len() {
            self.counters.step.enter(Step::Notify, self.rx[at].key.port);
            match self.rx[at].queue.enable_notification() {
                Ok(false) => at += 1,
                Ok(true) => return false,
                Err(fault) => self.lose_rx(at, fault),
            }
        }
        true
    }

    pub(super) fn disable_all(&mut self) {
        self.rx.iter_mut().for_each(|slot| slot.queue.disable_notification());
    }
}
