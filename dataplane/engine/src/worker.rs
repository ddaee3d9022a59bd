//! A worker: one thread that takes bursts from its receive queues, has them classified and sends them on.
//!
//! Run-to-completion, with one burst of overlap: while the lines of a burst just taken are on their way, the burst
//! before it is classified and sent. Between two bursts the worker looks at its mailbox; that is the burst boundary at
//! which everything that control wants happens. On the fast path nothing is allocated, locked or logged, and
//! nothing is waited for.
//!
//! A turn of a receive queue has a budget of work ([`port::work`]). What it does not suffice for is carried over to the
//! queue's later turns (`turns`), and queues share the worker by what they cost it (`account`). What execution models add to
//! that is in `execution`, `staged` and `stealing`.

mod account;
mod carried;
mod classify;
mod deliver;
mod execution;
mod orders;
mod rest;
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

use crate::command::{Event, Generation, QueueKey, Retired, Weight};
use crate::config::WorkerConfig;
use crate::counters::WorkerCounters;
use crate::handoff::{Handoffs, store};
use crate::link::Link;
use crate::sleeper::Sleeper;
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

/// A receive queue at its place in the round.
struct RxSlot {
    key: QueueKey,
    generation: Generation,
    queue: Box<dyn RxQueue>,
    dirty: bool,
    /// What it has brought. Owned by this worker, so that counting costs one addition per burst; control asks for it.
    packets: u64,
    /// What it has used of the worker's time.
    account: Account,
    /// How much of its port's debt was added to that.
    settled: u64,
}

impl RxSlot {
    fn weight(&self) -> Weight {
        Weight { key: self.key, generation: self.generation, packets: self.packets }
    }
}

/// A worker in the execution model `M`.
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
    /// The burst that was taken but not yet classified, and its queue's place.
    pending: Option<(usize, usize)>,
    /// The burst to fill next.
    next: usize,
    /// What queues' meters are compared with.
    level: Level,
    /// Bursts to carry over with, used before.
    spares: Vec<Box<Carried>>,
    sleeper: Sleeper,
    orders: Orders,
    model: M,
}

/// What a worker is made of besides its configuration.
pub(crate) struct Parts {
    pub(crate) link: Arc<Link>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) pipeline: Box<dyn Pipeline>,
    pub(crate) kernel: Choice,
    pub(crate) ticks_per_ns: f64,
    pub(crate) start: u64,
    /// Numbers of ports, handoff queues included, are below this.
    pub(crate) numbers: usize,
    pub(crate) workers: usize,
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
            workers: parts.workers,
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

    /// One round of the model. Returns whether there was any packet.
    #[inline(always)]
    pub(crate) fn round(&mut self) -> bool {
        self.now = self.clock();
        self.classifier.run_timers(self.now);
        M::round(self)
    }

    /// Polls every queue once. Whether there was any packet.
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

    /// Sends a burst that nothing came behind, and tells others what there is for them. `is_whole` says that every queue had its
    /// turn since a round was whole: only then the lowest meter is known.
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

    /// Takes a burst from the queue at `at`, then classifies and sends the burst before it.
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
        let taken = slot.queue.rx(burst, &mut stats);
        let (got, work) = (!burst.is_untouched(), stats.work_of_receiving(burst.len()));
        let port = slot.key.port;
        self.counters.polls.add(1);
        let following = if at + 1 < self.rx.len() { at + 1 } else { 0 };
        self.rx[following].queue.prefetch();
        let filled = self.next;
        let before = self.pending.is_some();
        self.finish();
        if got {
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

    /// Classifies and sends the pending burst and gives its buffers back, unless its turn ends before.
    #[inline]
    fn finish(&mut self) {
        let Some((index, at)) = self.pending.take() else { return };
        let from = self.origin(at, index);
        if self.rx[at].account.carries() {
            return self.with_account(at, |worker, account| worker.carry_behind(index, from, account));
        }
        let burst = &mut self.bursts[index];
        self.out.price = self.rx[at].account.price();
        self.classifier.classify(burst, &received(burst, from));
        if !self.out.send_all(burst, &self.classifier.verdicts, from) {
            return self.carry_own(index, at, from);
        }
        let slot = &mut self.rx[at];
        slot.account.charge(self.out.spent, &mut self.level);
        complete(&mut *slot.queue, burst);
        slot.dirty = true;
        let beyond = self.out.spent.saturating_sub(self.out.credit.unwrap_or(u64::MAX));
        if slot.account.is_handoff && beyond > 0 {
            let price = beyond / burst.len().max(1) as u64;
            self.model.owe(from.port, beyond, price);
        }
    }

    /// Where a burst of the queue at `at` entered the switch.
    #[inline]
    fn origin(&self, at: usize, index: usize) -> QueueKey {
        if self.rx[at].account.is_handoff { origin(&self.bursts[index]) } else { self.rx[at].key }
    }

    /// The time that ports and pipelines see, read once a round.
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

    /// A panic has left queues in no state to go on: each port that has some here is told, and control gets them.
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

    /// Lets go of all maps, but for those of bursts that are carried over.
    fn unpin(&mut self) {
        self.bursts.iter_mut().for_each(Burst::unpin);
    }

    /// One fence for everything published since the last round, then the questions that need it.
    #[inline]
    fn notify(&mut self) {
        if !self.out.is_dirty() && !self.rx.iter().any(|slot| slot.dirty) {
            return;
        }
        if self.out.handoffs.are_dirty() {
            self.out.handoffs.publish();
        }
        // Orders our used indices before our loads of the drivers' suppression fields; pairs with the fence that
        // a driver executes between enabling calls and looking at the used index again.
        fence(Ordering::SeqCst);
        for slot in self.rx.iter_mut().filter(|slot| slot.dirty) {
            slot.dirty = false;
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
    /// The end of a thread that panicked: no port ends without a reason.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail();
        }
    }
}

/// A worker in the hands of a caller that may panic, and catch that.
pub(crate) struct Guarded<'a>(pub(crate) &'a mut Worker);

impl Drop for Guarded<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail();
        }
    }
}

/// The context of a burst that was received.
#[inline(always)]
fn received(burst: &Burst, from: QueueKey) -> Context {
    Context::received(from.port, burst.now())
}

/// Where a burst that came by a handoff queue entered the switch.
#[inline]
fn origin(burst: &Burst) -> QueueKey {
    let route = burst.route();
    QueueKey { port: route.from, pair: route.pair }
}

/// Gives the buffers of a burst back: to its queue, or to the pool if the burst owns them.
#[inline(always)]
fn complete(queue: &mut dyn RxQueue, burst: &Burst) {
    queue.complete(burst.buf_ids());
    if burst.has_cargo() {
        store::with(|cache| cache.free_all(burst.unload()));
    }
}
