//! Worker: one thread that receives bursts from its receive queues, classifies them and sends them.
//!
//! Run to completion with an overlap of one burst: while the cache lines of the burst just received are being
//! fetched, the previous burst is classified and sent. Between two bursts the worker checks its mailbox; at this
//! burst boundary, the commands of the control thread take effect. The fast path does not allocate, lock, log or
//! wait.
//!
//! A turn of a receive queue has a budget of work ([`port::work`]). A burst that exceeds it is carried over to later
//! turns of the queue (`turns`), and the worker schedules its queues by their cost (`account`). `execution`, `staged`
//! and `stealing` have the parts of the execution models.

mod account;
mod carried;
mod classify;
mod deliver;
mod execution;
mod orders;
mod rest;
mod sampler;
mod staged;
mod stealing;
#[cfg(all(test, not(loom)))]
mod tests;
mod transmit;
mod turns;

pub(crate) use account::Account;
pub(crate) use execution::Alone;
pub(crate) use staged::Stage;
pub(crate) use stealing::{Peer, Sharing};

use crate::command::{Event, Generation, QueueKey, QueuePackets, Retired};
use crate::config::WorkerConfig;
use crate::counters::WorkerCounters;
use crate::handoff::{Handoffs, store};
use crate::link::Link;
use crate::sleeper::Sleeper;
use crate::step::{NO_PORT, Step};
use crate::trace::BurstKey;
use account::Level;
use carried::Carried;
use classify::Classifier;
use execution::Execution;
use mem::copy::Choice;
use mem::ticks;
use orders::Orders;
use port::{Burst, BurstStats, Context, Flush, Now, Pipeline, PortFault, Rss, RxQueue};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use transmit::{Transmit, TransmitParts};

/// A receive queue of the worker's round.
struct RxSlot {
    key: QueueKey,
    generation: Generation,
    queue: Box<dyn RxQueue>,
    dirty: bool,
    /// Packets received. Owned by this worker, so that counting costs one addition per burst; the control thread
    /// requests it.
    packets: u64,
    /// The queue's account in the scheduler.
    account: Account,
    /// Part of the port's debt that was already added to `account`.
    settled: u64,
}

impl RxSlot {
    fn queue_load(&self) -> QueuePackets {
        QueuePackets { key: self.key, generation: self.generation, packets: self.packets }
    }
}

/// A worker of execution model `M`.
pub(crate) struct Worker<M: Execution = Alone> {
    config: WorkerConfig,
    link: Arc<Link>,
    counters: Arc<WorkerCounters>,
    classifier: Classifier,
    out: Transmit,
    ticks_per_ns: f64,
    start: u64,
    now: Now,
    rx: Vec<RxSlot>,
    bursts: [Burst; 2],
    /// The burst that was received but not classified, and the index of its queue.
    pending: Option<(usize, usize)>,
    /// The burst to fill next.
    next: usize,
    /// Reference level of the queues' meters.
    level: Level,
    /// Former carried bursts, for reuse.
    spares: Vec<Box<Carried>>,
    sleeper: Sleeper,
    orders: Orders,
    model: M,
}

/// Parts of a worker besides its configuration.
pub(crate) struct Parts {
    pub(crate) link: Arc<Link>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) pipeline: Box<dyn Pipeline>,
    pub(crate) kernel: Choice,
    pub(crate) ticks_per_ns: f64,
    pub(crate) start: u64,
    /// Limit of port numbers, including those of handoff queues.
    pub(crate) numbers: usize,
    pub(crate) rss: Rss,
    pub(crate) sleeper: Sleeper,
    pub(crate) handoffs: Handoffs,
}

impl<M: Execution> Worker<M> {
    pub(crate) fn new(config: WorkerConfig, parts: Parts, model: M) -> Self {
        let transmit = TransmitParts {
            link: parts.link.clone(),
            counters: parts.counters.clone(),
            kernel: parts.kernel,
            numbers: parts.numbers,
            ticks_per_ns: parts.ticks_per_ns,
            rss: parts.rss,
            handoffs: parts.handoffs,
            staged: M::STAGED,
        };
        Self {
            out: Transmit::new(&config, transmit),
            config,
            classifier: Classifier::new(parts.pipeline, parts.kernel, parts.numbers, parts.link.clone()),
            link: parts.link,
            counters: parts.counters,
            ticks_per_ns: parts.ticks_per_ns,
            start: parts.start,
            now: Now::default(),
            rx: Vec::new(),
            bursts: [Burst::new(), Burst::new()],
            pending: None,
            next: 0,
            level: Level::NEW,
            spares: Vec::new(),
            sleeper: parts.sleeper,
            orders: Orders::default(),
            model,
        }
    }

    /// Runs one round of the model. Returns whether there was any packet.
    #[inline(always)]
    pub(crate) fn round(&mut self) -> bool {
        self.now = self.clock();
        if self.classifier.must_tick(self.now) {
            self.tick();
        }
        M::round(self)
    }

    /// Runs timers of the pipeline, and has a burst sampled.
    #[cold]
    fn tick(&mut self) {
        self.counters.step.enter(Step::Timers, NO_PORT);
        self.classifier.tick(self.now);
        let queues = self.rx.len().max(self.model.queues());
        self.out.arm_sample(self.now, queues);
    }

    /// Polls every queue once. Returns whether there was any packet.
    #[inline(always)]
    fn own_round(&mut self) -> bool {
        let mut worked = false;
        let mut at = 0;
        while at < self.rx.len() {
            worked |= self.poll(at);
            at += 1;
        }
        self.end_round(worked, true)
    }

    /// Sends the pending burst if no burst follows it, and notifies receivers. `is_whole` states that every queue had
    /// a turn since the last whole round; only then the lowest meter is known.
    #[inline(always)]
    fn end_round(&mut self, worked: bool, is_whole: bool) -> bool {
        let left = self.pending.is_some() && !worked;
        if left {
            self.finish();
        }
        if let Some((_, at)) = self.pending {
            self.rx[at].account.note(&mut self.level);
        }
        if is_whole {
            self.level.end_round();
        }
        if !self.out.keeping.is_empty() {
            self.out.flush(self.now, Flush::Waited);
        }
        self.notify();
        worked || left
    }

    /// Receives a burst from the queue at `at`, then classifies and sends the previous burst.
    #[inline]
    fn poll(&mut self, at: usize) -> bool {
        M::settle(self, at);
        if !self.rx[at].account.is_free(&self.level) && !self.begin_turn(at) {
            return true;
        }
        let mut stats = BurstStats::default();
        let burst = &mut self.bursts[self.next];
        let slot = &mut self.rx[at];
        burst.begin_limited(at, slot.account.limit());
        burst.set_now(self.now);
        self.counters.step.enter(Step::Receive, slot.key.port);
        let taken = if self.out.watch.is_on {
            self.out.receive((&mut *slot.queue, slot.key.port), (burst, self.next), &mut stats)
        } else {
            slot.queue.rx(burst, &mut stats)
        };
        let (got, work) = (!burst.is_untouched(), stats.work_of_receiving(burst.len()));
        let port = slot.key.port;
        self.counters.polls.add(1);
        let following = if at + 1 < self.rx.len() { at + 1 } else { 0 };
        self.rx[following].queue.prefetch();
        let filled = self.next;
        let before = self.pending.is_some();
        self.finish();
        if got {
            if self.out.watch.is_on {
                self.counters.step.enter(Step::Receive, port);
                let is_handoff = self.rx[at].account.is_handoff;
                self.out.capture_received(&mut self.bursts[filled], (!is_handoff).then_some(port));
            }
            self.counters.port(port).count_rx(&stats);
            self.counters.packets.add(stats.packets);
            self.counters.bursts.add(1);
            let slot = &mut self.rx[at];
            slot.packets += stats.packets;
            slot.account.begin(&self.level);
            if work > 0 {
                slot.account.add(work, &mut self.level);
            }
            self.pending = Some((filled, at));
            self.next = 1 - filled;
        } else {
            self.counters.empty_polls.add(1);
        }
        if let Err(fault) = taken {
            self.finish();
            self.lose_rx(at, fault);
        }
        got || before
    }

    /// Classifies and sends the pending burst and returns its buffers, unless its turn ends before.
    #[inline]
    fn finish(&mut self) {
        let Some((index, at)) = self.pending.take() else { return };
        let from = self.origin(at, index);
        if self.rx[at].account.carries() {
            return self.with_account(at, |worker, account| worker.carry_behind(index, from, account));
        }
        let burst = &mut self.bursts[index];
        self.out.price = self.rx[at].account.price();
        let is_sampled = self.out.watch.is_on && self.out.begin_sample(index, BurstKey::of(burst));
        self.counters.step.enter(Step::Pipeline, from.port);
        self.classifier.classify(burst, &received(burst, from));
        if is_sampled {
            self.out.sample_classified();
        }
        if !self.out.send_all(burst, &self.classifier.verdicts, from) {
            return self.carry_own(index, at, from);
        }
        let slot = &mut self.rx[at];
        slot.account.charge(self.out.spent, &mut self.level);
        self.counters.step.enter(Step::Complete, slot.key.port);
        complete(&mut *slot.queue, burst);
        slot.dirty = true;
        if is_sampled {
            self.out.finish_sample(burst.len());
        }
        let beyond = self.out.spent.saturating_sub(self.out.credit.unwrap_or(u64::MAX));
        if slot.account.is_handoff && beyond > 0 {
            let price = beyond / burst.len().max(1) as u64;
            self.model.charge(from.port, beyond, price);
        }
    }

    /// Where a burst of the queue at `at` entered the switch.
    #[inline]
    fn origin(&self, at: usize, index: usize) -> QueueKey {
        if self.rx[at].account.is_handoff { origin(&self.bursts[index]) } else { self.rx[at].key }
    }

    /// Time for ports and pipelines, read once per round.
    #[inline(always)]
    fn clock(&self) -> Now {
        Now(((ticks() - self.start) as f64 / self.ticks_per_ns) as u64)
    }

    #[cold]
    fn lose_rx(&mut self, at: usize, fault: PortFault) {
        self.end_own(at);
        self.notify();
        let slot = self.take_rx(at);
        let retired = Some(Retired::Rx(slot.generation, slot.queue));
        self.link.report(Event { port: slot.key.port, generation: slot.generation, fault, retired });
    }

    /// Gives up all queues after a panic, which leaves their state undefined: reports a fault to each port and
    /// returns the queues to the control thread.
    fn fail(&mut self) {
        self.pending = None;
        self.unpin();
        for slot in self.rx.drain(..) {
            self.sleeper.forget(slot.queue.kick_fd());
            let retired = Some(Retired::Rx(slot.generation, slot.queue));
            let (port, generation) = (slot.key.port, slot.generation);
            self.link.report(Event { port, generation, fault: PortFault::WorkerFailed, retired });
        }
        self.counters.queues.set(0);
        M::fail(self);
        self.out.fail();
    }

    /// Releases all references to memory tables, except those of carried bursts.
    fn unpin(&mut self) {
        self.bursts.iter_mut().for_each(Burst::unpin);
    }

    /// Executes one fence for everything published since the last round, then the checks that require it.
    #[inline]
    fn notify(&mut self) {
        if !self.out.is_dirty() && !self.rx.iter().any(|slot| slot.dirty) {
            return;
        }
        if self.out.handoffs.are_dirty() {
            self.out.handoffs.publish();
        }
        // Orders our used-index stores before our loads of the drivers' suppression fields; pairs with the fence that
        // a driver executes between enabling notifications and re-checking the used index.
        fence(Ordering::SeqCst);
        for slot in self.rx.iter_mut().filter(|slot| slot.dirty) {
            slot.dirty = false;
            self.counters.step.enter(Step::Notify, slot.key.port);
            slot.queue.notify();
        }
        self.out.notify();
    }

    fn take_rx(&mut self, at: usize) -> RxSlot {
        let slot = self.rx.remove(at);
        self.sleeper.forget(slot.queue.kick_fd());
        self.counters.queues.set(self.rx.len() as u64);
        self.unpin();
        slot
    }
}

impl<M: Execution> Drop for Worker<M> {
    /// Runs if the thread panicked, so that every port gets a fault.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail();
        }
    }
}

/// Wraps a worker that is called by a thread that may panic and catch the panic.
pub(crate) struct Guarded<'a>(pub(crate) &'a mut Worker);

impl Drop for Guarded<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail();
        }
    }
}

/// The context of a received burst.
#[inline(always)]
fn received(burst: &Burst, from: QueueKey) -> Context {
    Context::received(from.port, burst.now())
}

/// Where a burst from a handoff queue entered the switch.
#[inline]
fn origin(burst: &Burst) -> QueueKey {
    let route = burst.route();
    QueueKey { port: route.from, pair: route.pair }
}

/// Returns the buffers of a burst to its queue, or to the pool if the burst owns them.
#[inline(always)]
fn complete(queue: &mut dyn RxQueue, burst: &Burst) {
    queue.complete(burst.buf_ids());
    if burst.has_buffers() {
        store::with(|cache| cache.free_all(burst.unload()));
    }
}
