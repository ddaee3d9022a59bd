//! What a worker does as one stage of several: sending on by hops, holding back where they are full, and taking turns with
//! other stages on its thread. A worker that runs to completion comes here only with packets for ports that are down.

use super::{PATIENCE, Worker};
use crate::command::QueueKey;
use crate::hop::store;
use mem::ticks;
use port::{DropReason, PortId, Route, Tally};
use rustix::fd::BorrowedFd;

impl Worker {
    /// Sends the first `n` of `self.picks` to a port that has no queue here: by a hop, or nowhere.
    #[inline(never)]
    pub(super) fn send_on(&mut self, index: usize, from: QueueKey, to: PortId, n: usize) {
        let route = Route { from: from.port, pair: from.pair, to };
        let (packets, alone) = ((&self.bursts[index], &self.picks[..n]), self.outputs.replicated == 0);
        let mut tally = Tally::default();
        if !self.hops.send(packets, route, alone, &mut tally) {
            tally.drop(DropReason::PortDown, n as u64);
        }
        let pays = if self.hops.spreads() { from.port } else { to };
        self.counters.ports[pays.0 as usize].count_drops(&tally);
    }

    /// A round that takes nothing while paused, and no more than the hops behind have room for. The next round goes on where
    /// this one stopped, so that no queue is forgotten.
    pub(super) fn restrained_round(&mut self) -> bool {
        let mut worked = false;
        let queues = if self.paused { 0 } else { self.rx.len() };
        for _ in 0..queues {
            if self.hops.waits() && !self.hops.have_room() {
                break;
            }
            self.stopped_at = if self.stopped_at < self.rx.len() { self.stopped_at } else { 0 };
            worked |= self.poll(self.stopped_at);
            self.stopped_at += 1;
        }
        self.end_round(worked)
    }

    /// Judges and sends all that is in hops to this stage now, and not what comes meanwhile without end.
    pub(super) fn drain(&mut self) {
        let mut at = 0;
        // A queue that turns out to be broken is taken out of its place.
        while at < self.rx.len() {
            if self.rx[at].is_hop {
                self.drain_hop(at);
            }
            at += 1;
        }
        self.finish();
        self.notify();
    }

    fn drain_hop(&mut self, at: usize) {
        let hop = self.counters.max_ports();
        let before = self.counters.ports[hop].rx_packets.get();
        loop {
            self.await_room();
            let seen = self.counters.ports[hop].rx_packets.get();
            self.poll(at);
            let now = self.counters.ports[hop].rx_packets.get();
            if now == seen || now - before > crate::model::HopConfig::MOST as u64 {
                return;
            }
            self.finish();
            self.notify();
        }
    }

    /// Waits until the hops behind have room, where that is wanted, and not for ever: they may end on this very thread.
    fn await_room(&mut self) {
        if !self.hops.waits() {
            return;
        }
        let until = ticks() + (PATIENCE as f64 * self.ticks_per_ns) as u64;
        while !self.hops.have_room() && ticks() < until {
            std::hint::spin_loop();
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

    /// Obeys what control wants. `false`: quit.
    pub(crate) fn heed(&mut self) -> bool {
        !self.link.mailbox.pending(self.obeyed) || self.obey()
    }

    /// Gets ready to sleep. `false` where packets are there, or a queue keeps this worker awake.
    pub(crate) fn lie_down(&mut self) -> bool {
        self.notify();
        let sleeps = !self.rx.iter().any(|slot| slot.queue.kick_fd().is_none()) && self.arm_all();
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
