//! How a worker rests: it asks its queues for kicks, looks again, and sleeps. Before it does, everything leaves that transmit
//! queues keep back; one that never sleeps has what waits without a limit sent at the moment at which others would sleep.

use super::Worker;
use super::execution::Execution;
use crate::config::Polling;
use crate::rounds::Rounds;
use mem::ticks;
use port::{Flush, Now};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Empty rounds before an adaptive worker considers sleeping, at least.
const IDLE_ROUNDS: u32 = 256;
/// Time without packets before an adaptive worker sleeps, in nanoseconds: about what a sleep and a wake-up cost a packet
/// (`docs/research/results.md`, 34 microseconds), so that whatever comes, polling on has cost at most about twice the better choice.
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
    /// Whether it has had nothing to do for so long, in rounds and ticks, that it sleeps if it ever does. What is kept back
    /// is sent by then, also where other stages on its thread have the last word about sleep, or a queue without kicks.
    pub(crate) fn may_sleep(&mut self, rounds: u32, idle: u64) -> bool {
        if rounds <= IDLE_ROUNDS || idle as f64 <= IDLE_TIME as f64 * self.ticks_per_ns {
            return false;
        }
        let sleeps = self.config.polling == Polling::Adaptive;
        if !self.out.keeping.is_empty() {
            self.out.flush(self.now, if sleeps { Flush::All } else { Flush::Idle });
            self.notify();
        }
        sleeps
    }

    /// A round that leaves no burst behind that fits into a turn, for a caller that may not come back soon. Returns whether it
    /// should come back at once.
    pub(crate) fn whole_round(&mut self) -> bool {
        let worked = self.round();
        self.finish();
        if !worked {
            self.out.flush(self.now, Flush::Idle);
        }
        self.notify();
        worked
    }

    /// Gets ready to sleep. `false` where packets are there, or a queue keeps this worker awake.
    pub(crate) fn prepare_sleep(&mut self) -> bool {
        self.notify();
        // No doorbell rings when a handoff queue has room again, so a worker that waits for room, or for it to drain, stays awake.
        let sleeps = !self.orders.wait()
            && !self.out.handoffs.are_dirty()
            && !self.rx.iter().any(|slot| slot.queue.kick_fd().is_none() || slot.account.carries())
            && self.arm_all();
        if sleeps {
            self.run_timers();
            self.falls_asleep();
        }
        sleeps
    }

    /// Sleeps with its queues and its thread to itself. Returns whether it slept.
    pub(super) fn sleep_alone(&mut self) -> bool {
        let sleeps = self.prepare_sleep();
        if sleeps {
            self.sleeper.sleep(self.until_timers());
            self.wakes();
        }
        self.disarm_all();
        sleeps
    }

    /// The ticks since `last` went into a round. Whether that had any packet.
    #[inline(always)]
    pub(super) fn spend(&self, worked: bool, last: &mut u64) -> bool {
        let now = ticks();
        let spent = now - std::mem::replace(last, now);
        let account = if worked { &self.counters.busy_ticks } else { &self.counters.idle_ticks };
        account.add(spent);
        worked
    }

    /// Runs the pipeline's timers that are due, apart from a round, and learns of those that `process` has started. Must be
    /// called before a sleep of [`Worker::until_timers`].
    pub(crate) fn run_timers(&mut self) {
        let now = self.clock();
        self.classifier.tick(now);
    }

    /// When the pipeline's timers are due; `None` if none runs.
    pub(crate) fn due(&self) -> Option<Now> {
        self.classifier.due()
    }

    /// How long until the pipeline's timers are due; `None` if none runs.
    pub(crate) fn until_timers(&self) -> Option<Duration> {
        let due = self.classifier.due()?;
        Some(Duration::from_nanos(due.0.saturating_sub(self.clock().0)))
    }

    pub(super) fn falls_asleep(&self) {
        self.counters.sleeping.store(true, Ordering::Relaxed);
        self.counters.sleeps.add(1);
    }

    pub(super) fn wakes(&self) {
        self.counters.sleeping.store(false, Ordering::Relaxed);
        self.counters.wakes.add(1);
    }

    /// Asks every queue for kicks. `false` when one has packets, and sleeping would delay them.
    pub(super) fn arm_all(&mut self) -> bool {
        let mut at = 0;
        while at < self.rx.len() {
            match self.rx[at].queue.enable_notification() {
                Ok(false) => at += 1,
                Ok(true) => return false,
                Err(fault) => self.lose_rx(at, fault),
            }
        }
        true
    }

    pub(super) fn disarm_all(&mut self) {
        self.rx.iter_mut().for_each(|slot| slot.queue.disable_notification());
    }
}
