//! A worker as one stage of several: sends through handoff queues, applies backpressure if they are full, and takes
//! turns with other stages on its thread.

use super::execution::Execution;
use super::{RxSlot, Worker};
use crate::command::Command;
use crate::debts::WorkDebts;
use crate::handoff::{self, store};
use crate::model::HandoffConfig;
use port::PortId;
use rustix::fd::BorrowedFd;
use std::sync::Arc;

/// State of a stage.
pub(crate) struct Stage {
    /// Debts of ports for work behind handoff queues.
    debts: Arc<WorkDebts>,
    /// While handoff queues to this stage are drained: by receive queue, the maximum number of packets still to
    /// drain.
    draining: Option<Vec<u64>>,
    /// Index at which the last round stopped because a handoff queue was full; `passed`: queues that had a turn since
    /// the last whole round.
    stopped_at: usize,
    passed: usize,
}

impl Stage {
    pub(crate) fn new(debts: Arc<WorkDebts>) -> Self {
        Self { debts, draining: None, stopped_at: 0, passed: 0 }
    }
}

impl Execution for Stage {
    const STAGED: bool = true;

    #[inline(always)]
    fn round(worker: &mut Worker<Self>) -> bool {
        if worker.out.handoffs.waits() { worker.restrained_round() } else { worker.own_round() }
    }

    fn handle_command(worker: &mut Worker<Self>, command: Command) {
        match command {
            Command::AddHandoff(to, sender) => worker.out.handoffs.add(to, sender),
            Command::RemoveHandoff(to) => worker.out.handoffs.remove(to),
            Command::Route(port, stage) => {
                let to = stage.map(|stage| handoff::port(worker.counters.max_ports(), stage));
                worker.out.handoffs.route(port, to);
                if to.is_none() {
                    worker.forget_output(port);
                }
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
    fn charge(&self, port: PortId, units: u64, price: u64) {
        if units > 0 || price > 0 {
            self.debts.charge(port, units, price);
        }
    }

    fn debt(&self, port: PortId) -> u64 {
        self.debts.take_price(port);
        self.debts.of(port)
    }

    fn drain(worker: &mut Worker<Self>) -> bool {
        worker.drain_handoffs()
    }
}

impl Worker<Stage> {
    /// Divides the debt equally among the port's queues on this stage and passes the price to them.
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

    /// A round that receives only as much as the next handoff queues have room for. The next round continues with the
    /// queue at which this one stopped, so that no queue starves.
    fn restrained_round(&mut self) -> bool {
        let mut worked = false;
        for _ in 0..self.rx.len() {
            if !self.out.handoffs.have_room() {
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

    /// Classifies and sends everything in the handoff queues to this stage, at most as many packets as they can hold,
    /// so that packets that keep arriving do not extend the drain without bound. Returns `false` if the next handoff
    /// queues are full and it must be called again: they may end on this thread.
    fn drain_handoffs(&mut self) -> bool {
        let whole = || vec![HandoffConfig::CAPACITY as u64; self.rx.len()];
        let mut left = self.model.draining.take().unwrap_or_else(whole);
        let handoffs = (0..self.rx.len()).filter(|&at| self.rx[at].account.is_handoff).collect::<Vec<_>>();
        let is_empty = handoffs.into_iter().all(|at| self.drain_handoff(at, &mut left[at]));
        self.finish();
        self.notify();
        let is_done = is_empty && !self.out.handoffs.are_dirty();
        self.model.draining = (!is_done).then_some(left);
        is_done
    }

    /// Dequeues at most `left` packets from one handoff queue. Returns `false` if the next handoff queues are full.
    fn drain_handoff(&mut self, at: usize, left: &mut u64) -> bool {
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

    /// Continues the carried bursts of the queue at `at` until they are sent. Full queues are waited for at most as
    /// long as usual.
    fn deliver_carried(&mut self, at: usize) {
        while self.rx[at].account.carries() {
            self.now = self.clock();
            self.begin_turn(at);
            self.level.end_round();
        }
    }

    /// A round of a stage, which also counts the use of its thread's buffer cache.
    pub(crate) fn staged_round(&mut self, last: &mut u64) -> bool {
        let worked = self.round();
        if worked {
            self.counters.count_pool(&store::take_counters());
        }
        self.spend(worked, last)
    }

    /// Readable when this worker must wake.
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.sleeper.fd()
    }

    /// Resumes after a sleep attempt; `slept` states that all stages of the thread slept.
    pub(crate) fn resume(&mut self, slept: bool) {
        if self.counters.sleeping.load(std::sync::atomic::Ordering::Relaxed) {
            self.end_sleep();
        }
        if slept {
            self.sleeper.clear();
        }
        self.disable_all();
    }
}
