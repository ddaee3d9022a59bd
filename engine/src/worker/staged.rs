//! What a worker does as one stage of several: sending on by hops, holding back where they are full, and taking turns with
//! other stages on its thread. A worker that runs to completion comes here only with packets for ports that are down.

use super::Worker;
use crate::hop::store;
use crate::model::HopConfig;
use mem::ticks;
use port::Flush;
use rustix::fd::BorrowedFd;

impl Worker {
    /// A round that takes nothing while paused, and no more than the hops behind have room for. The next round goes on where
    /// this one stopped, so that no queue is forgotten.
    pub(super) fn restrained_round(&mut self) -> bool {
        let mut worked = false;
        let queues = if self.paused { 0 } else { self.rx.len() };
        for _ in 0..queues {
            if self.out.hops.waits() && !self.out.hops.have_room() {
                break;
            }
            self.stopped_at = if self.stopped_at < self.rx.len() { self.stopped_at } else { 0 };
            worked |= self.poll(self.stopped_at);
            self.stopped_at += 1;
        }
        self.end_round(worked)
    }

    /// Judges and sends all that is in hops to this stage now, and not what comes meanwhile without end. `false` where the
    /// hops behind are full, and it has to be asked again: they may end on this very thread.
    pub(super) fn drain(&mut self) -> bool {
        let whole = || vec![HopConfig::MOST as u64; self.rx.len()];
        let mut left = self.draining.take().unwrap_or_else(whole);
        let hops = (0..self.rx.len()).filter(|&at| self.rx[at].account.is_hop).collect::<Vec<_>>();
        let is_empty = hops.into_iter().all(|at| self.drain_hop(at, &mut left[at]));
        self.finish();
        self.notify();
        let is_done = is_empty && !self.out.hops.are_dirty();
        self.draining = (!is_done).then_some(left);
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

    /// A round, and the ticks since `last` on this worker's account. Whether there was any packet.
    pub(crate) fn timed_round(&mut self, last: &mut u64) -> bool {
        let worked = self.round();
        let now = ticks();
        let spent = now - std::mem::replace(last, now);
        let account = if worked { &self.counters.busy_ticks } else { &self.counters.idle_ticks };
        account.add(spent);
        if worked {
            self.counters.count_pool(&store::news());
        }
        worked
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

    /// Obeys what control wants. `false`: quit.
    pub(crate) fn heed(&mut self) -> bool {
        !self.link.mailbox.pending(self.obeyed) || self.obey()
    }

    /// Gets ready to sleep. `false` where packets are there, or a queue keeps this worker awake.
    pub(crate) fn lie_down(&mut self) -> bool {
        self.notify();
        // Nobody rings for a hop that has room again, so whoever waits for one, or for it to be drained, stays awake.
        let sleeps = self.deferred.is_empty()
            && !self.out.hops.are_dirty()
            && !self.rx.iter().any(|slot| slot.queue.kick_fd().is_none() || slot.account.carries())
            && self.arm_all();
        if sleeps {
            self.falls_asleep();
        }
        sleeps
    }

    /// What becomes readable when this worker has to wake.
    pub(crate) fn bed(&self) -> BorrowedFd<'_> {
        self.sleeper.fd()
    }

    /// Is awake again; `slept` says that all stages of the thread were asleep.
    pub(crate) fn get_up(&mut self, slept: bool) {
        if self.counters.sleeping.load(std::sync::atomic::Ordering::Relaxed) {
            self.wakes();
        }
        if slept {
            self.sleeper.quiet();
        }
        self.disarm_all();
    }
}
