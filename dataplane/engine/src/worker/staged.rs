//! A worker as one stage of several: sending on by handoff queues, holding back where they are full, and taking turns with other stages on
//! its thread.

use super::execution::Execution;
use super::{RxSlot, Worker};
use crate::command::Command;
use crate::debts::Debts;
use crate::handoff::store;
use crate::model::HandoffConfig;
use port::PortId;
use rustix::fd::BorrowedFd;
use std::sync::Arc;

/// What a stage has besides, and what keeps it from taking packets.
pub(crate) struct Stage {
    /// What ports owe for work behind handoff queues.
    debts: Arc<Debts>,
    /// Whether nothing is taken for now.
    paused: bool,
    /// While handoff queues to this stage are drained: by receive queue, packets that may still be in it.
    draining: Option<Vec<u64>>,
    /// Where the last round stopped short because a handoff queue was full, and queues that had their turns since a round was whole.
    stopped_at: usize,
    passed: usize,
}

impl Stage {
    pub(crate) fn new(debts: Arc<Debts>) -> Self {
        Self { debts, paused: false, draining: None, stopped_at: 0, passed: 0 }
    }
}

impl Execution for Stage {
    const STAGED: bool = true;

    #[inline(always)]
    fn round(worker: &mut Worker<Self>) -> bool {
        if worker.out.handoffs.waits() || worker.model.paused {
            worker.restrained_round()
        } else {
            worker.own_round()
        }
    }

    fn handle_command(worker: &mut Worker<Self>, command: Command) {
        match command {
            Command::AddHandoff(to, sender) => worker.out.handoffs.add(to, sender),
            Command::Route(port, at) => {
                worker.out.handoffs.route(port, at);
                if at.is_none() {
                    worker.forget_output(port);
                }
            }
            Command::Pause(paused) => {
                // What was decided goes by the handoff queues of before, so that no flow overtakes itself.
                (0..if paused { worker.rx.len() } else { 0 }).for_each(|at| worker.deliver_carried(at));
                worker.model.paused = paused;
            }
            _ => debug_assert!(false, "stages share no queues"),
        }
    }

    #[inline(always)]
    fn settle(worker: &mut Worker<Self>, at: usize) {
        let RxSlot { key, settled, .. } = &worker.rx[at];
        let owed = worker.model.debts.of(key.port);
        if owed != *settled {
            let price = worker.model.debts.take_price(key.port);
            worker.settle_for(at, owed, price);
        }
    }

    #[cold]
    fn owe(&self, port: PortId, units: u64, price: u64) {
        if units > 0 || price > 0 {
            self.debts.charge(port, units, price);
        }
    }

    fn owed(&self, port: PortId) -> u64 {
        self.debts.take_price(port);
        self.debts.of(port)
    }

    fn drain(worker: &mut Worker<Self>) -> bool {
        worker.drain_hops()
    }
}

impl Worker<Stage> {
    /// The queues that the port has here pay in equal parts, and hear of the price.
    #[cold]
    fn settle_for(&mut self, at: usize, owed: u64, price: u64) {
        let port = self.rx[at].key.port;
        let mut queues = 0;
        for slot in self.rx.iter_mut().filter(|slot| slot.key.port == port) {
            slot.account.learn(price);
            queues += 1;
        }
        let slot = &mut self.rx[at];
        let debt = owed - std::mem::replace(&mut slot.settled, owed);
        slot.account.add(debt / queues, &mut self.level);
    }

    /// A round that takes nothing while paused, and no more than the handoff queues behind have room for. The next round goes on where
    /// this one stopped, so that no queue is forgotten.
    fn restrained_round(&mut self) -> bool {
        let mut worked = false;
        let queues = if self.model.paused { 0 } else { self.rx.len() };
        for _ in 0..queues {
            if self.out.handoffs.waits() && !self.out.handoffs.have_room() {
                break;
            }
            let stopped_at = self.model.stopped_at;
            let at = if stopped_at < self.rx.len() { stopped_at } else { 0 };
            worked |= self.poll(at);
            self.model.stopped_at = at + 1;
            self.model.passed += 1;
        }
        let is_whole = self.model.passed >= self.rx.len();
        if is_whole {
            self.model.passed = 0;
        }
        self.end_round(worked, is_whole)
    }

    /// Judges and sends all that is in handoff queues to this stage now, and not what comes meanwhile without end. `false` where the
    /// handoff queues behind are full, and it has to be asked again: they may end on this very thread.
    fn drain_hops(&mut self) -> bool {
        let whole = || vec![HandoffConfig::MOST as u64; self.rx.len()];
        let mut left = self.model.draining.take().unwrap_or_else(whole);
        let handoffs = (0..self.rx.len()).filter(|&at| self.rx[at].account.is_handoff).collect::<Vec<_>>();
        let is_empty = handoffs.into_iter().all(|at| self.drain_hop(at, &mut left[at]));
        self.finish();
        self.notify();
        let is_done = is_empty && !self.out.handoffs.are_dirty();
        self.model.draining = (!is_done).then_some(left);
        is_done
    }

    /// Takes up to `left` packets out of one handoff queue. Whether that was all that was in it.
    fn drain_hop(&mut self, at: usize, left: &mut u64) -> bool {
        while *left > 0 {
            if self.out.handoffs.waits() && !self.out.handoffs.have_room() {
                return false;
            }
            self.deliver_carried(at);
            while !self.rx[at].account.is_free(&self.level) {
                // Its own meter becomes the floor, so it is not skipped for long.
                self.begin_turn(at);
                self.level.end_round();
            }
            let of_hop = self.rx[at].key.port;
            let before = self.counters.port(of_hop).rx_packets.get();
            self.poll(at);
            let taken = self.counters.port(of_hop).rx_packets.get() - before;
            *left = if taken == 0 { 0 } else { left.saturating_sub(taken) };
            self.finish();
            self.deliver_carried(at);
            self.notify();
        }
        true
    }

    /// Goes on with what the queue at `at` carries over until it is sent. Full queues are waited for no longer than ever.
    fn deliver_carried(&mut self, at: usize) {
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
