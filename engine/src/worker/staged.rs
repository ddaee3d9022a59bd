//! What a worker does as one stage of several: sending on by hops, holding back where they are full, and taking turns with
//! other stages on its thread. A worker that runs to completion comes here only with packets for ports that are down.

use super::Worker;
use crate::hop::store;
use crate::model::HopConfig;
use port::Flush;
use rustix::fd::BorrowedFd;

/// What keeps a stage from taking packets.
#[derive(Default)]
pub(super) struct Restraint {
    /// Whether nothing is taken for now.
    pub(super) paused: bool,
    /// While hops to this stage are drained: by receive queue, packets that may still be in it.
    draining: Option<Vec<u64>>,
    /// Where the last round stopped short because a hop was full, and queues that had their turns since a round was whole.
    stopped_at: usize,
    passed: usize,
}

impl Worker {
    /// A round that takes nothing while paused, and no more than the hops behind have room for. The next round goes on where
    /// this one stopped, so that no queue is forgotten.
    pub(super) fn restrained_round(&mut self) -> bool {
        let mut worked = false;
        let queues = if self.restraint.paused { 0 } else { self.rx.len() };
        for _ in 0..queues {
            if self.out.hops.waits() && !self.out.hops.have_room() {
                break;
            }
            let stopped_at = self.restraint.stopped_at;
            let at = if stopped_at < self.rx.len() { stopped_at } else { 0 };
            worked |= self.poll(at);
            self.restraint.stopped_at = at + 1;
            self.restraint.passed += 1;
        }
        let is_whole = self.restraint.passed >= self.rx.len();
        if is_whole {
            self.restraint.passed = 0;
        }
        self.end_round(worked, is_whole)
    }

    /// Judges and sends all that is in hops to this stage now, and not what comes meanwhile without end. `false` where the
    /// hops behind are full, and it has to be asked again: they may end on this very thread.
    pub(super) fn drain(&mut self) -> bool {
        let whole = || vec![HopConfig::MOST as u64; self.rx.len()];
        let mut left = self.restraint.draining.take().unwrap_or_else(whole);
        let hops = (0..self.rx.len()).filter(|&at| self.rx[at].account.is_hop).collect::<Vec<_>>();
        let is_empty = hops.into_iter().all(|at| self.drain_hop(at, &mut left[at]));
        self.finish();
        self.notify();
        let is_done = is_empty && !self.out.hops.are_dirty();
        self.restraint.draining = (!is_done).then_some(left);
        is_done
    }

    /// Takes up to `left` packets out of one hop. Whether that was all that was in it.
    fn drain_hop(&mut self, at: usize, left: &mut u64) -> bool {
        let hop = self.counters.max_ports();
        while *left > 0 {
            if self.out.hops.waits() && !self.out.hops.have_room() {
                return false;
            }
            self.deliver_carried(at);
            while !self.rx[at].account.is_free(&self.level) {
                // Its own meter becomes the floor, so it is not skipped for long.
                self.begin_turn(at);
                self.level.end_round();
            }
            let before = self.counters.ports[hop].rx_packets.get();
            self.poll(at);
            let taken = self.counters.ports[hop].rx_packets.get() - before;
            *left = if taken == 0 { 0 } else { left.saturating_sub(taken) };
            self.finish();
            self.deliver_carried(at);
            self.notify();
        }
        true
    }

    /// Goes on with what the queue at `at` carries over until it is sent. Full queues are waited for no longer than ever.
    pub(super) fn deliver_carried(&mut self, at: usize) {
        while self.rx[at].account.carries() {
            self.now = self.clock();
            self.begin_turn(at);
            self.level.end_round();
        }
    }

    /// A round of a stage, which counts also what became of its thread's buffers.
    pub(crate) fn staged_round(&mut self, last: &mut u64) -> bool {
        let worked = self.round();
        if worked {
            self.counters.count_pool(&store::news());
        }
        self.spend(worked, last)
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
        // Nobody rings for a hop that has room again, so whoever waits for one, or for it to be drained, stays awake.
        let sleeps = !self.orders.wait()
            && !self.out.hops.are_dirty()
            && !self.rx.iter().any(|slot| slot.queue.kick_fd().is_none() || slot.account.carries())
            && self.arm_all();
        if sleeps {
            self.falls_asleep();
        }
        sleeps
    }

    /// What becomes readable when this worker has to wake.
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.sleeper.fd()
    }

    /// Is awake again; `slept` says that all stages of the thread were asleep.
    pub(crate) fn resume(&mut self, slept: bool) {
        if self.counters.sleeping.load(std::sync::atomic::Ordering::Relaxed) {
            self.wakes();
        }
        if slept {
            self.sleeper.quiet();
        }
        self.disarm_all();
    }
}
