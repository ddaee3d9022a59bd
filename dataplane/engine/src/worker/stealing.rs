//! Work stealing: a worker that takes bursts from queues of others if its own are empty. [`StealableQueue`] has the
//! locking protocol.
//!
//! There is no overlap of two bursts here: a pending burst would keep its queue locked. A round serves each queue of
//! this worker once; if all are empty, it takes one burst from the fullest queue of another worker. An idle worker
//! sleeps on the kicks of its own queues. A worker that receives a full burst wakes a sleeping one; it reads
//! `sleeping` of its peers `Relaxed`, as a hint, and retries with the next full burst.
//!
//! A queue with an affinity rule is served only by its worker, and a worker dedicated to an isolated queue does not
//! steal.

use super::carried::Carried;
use super::execution::Execution;
use super::turns::Turn;
use super::{Worker, received};
use crate::command::{Command, Event, Retired};
use crate::counters::WorkerCounters;
use crate::link::Link;
use crate::stealable::{Served, StealableQueue};
use crate::step::Step;
use crate::trace::BurstKey;
use mem::ticks;
use port::{BURST, Burst, BurstStats, Flush, PortFault, PortId};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// A queue whose last burst had fewer packets is left to its home: fetching a burst from another core's caches pays
/// off only for many packets.
const MIN_BACKLOG: u32 = BURST as u32 / 2;
/// How long a command waits for the turn of another worker: many times the length of a turn, and short compared with
/// the time that the control thread waits for this worker. A worker that hangs with the queue is not waited for any
/// longer.
const LOCK_TIMEOUT: Duration = Duration::from_millis(20);
/// Minimum time between two wake-ups of others, in nanoseconds: about the time for which they poll before they sleep
/// again.
const WAKE_INTERVAL: u64 = 100_000;

/// Another worker, for waking it.
pub(crate) struct Peer {
    pub(crate) link: Arc<Link>,
    pub(crate) counters: Arc<WorkerCounters>,
}

/// State of a worker that shares queues.
#[derive(Default)]
pub(crate) struct Sharing {
    /// Index of this worker.
    me: usize,
    peers: Arc<[Peer]>,
    /// By worker index: whether the worker is dedicated to an isolated queue. Empty if none is.
    dedicated: Arc<[bool]>,
    stealable_queues: Vec<Arc<StealableQueue>>,
    /// When this worker last woke another one, in ticks.
    last_wake: u64,
}

impl Sharing {
    /// Whether the worker with this index steals.
    fn steals(&self, at: usize) -> bool {
        !self.dedicated.get(at).copied().unwrap_or(false)
    }
}

impl Execution for Sharing {
    fn round(worker: &mut Worker<Self>) -> bool {
        worker.stealing_round()
    }

    fn sleep(worker: &mut Worker<Self>) -> bool {
        worker.sleep_sharing()
    }

    fn handle_command(worker: &mut Worker<Self>, command: Command) {
        match command {
            Command::Share(stealable) => worker.share(stealable),
            Command::Unshare(key) => worker.unshare(key),
            Command::SetPeers(me, peers) => (worker.model.me, worker.model.peers) = (me, peers),
            Command::SetDedicated(dedicated) => worker.model.dedicated = dedicated,
            _ => debug_assert!(false, "no handoff queues begin or end here"),
        }
    }

    fn queues(&self) -> usize {
        self.stealable_queues.len()
    }

    fn refresh(worker: &mut Worker<Self>, port: PortId) {
        worker.refresh_shared(port);
    }

    fn forget(worker: &mut Worker<Self>, port: PortId) {
        worker.forget_shared(port);
    }

    /// Only the queue that this worker held during the panic is lost.
    fn fail(worker: &Worker<Self>) {
        for stealable in &worker.model.stealable_queues {
            worker.note_failure(stealable);
        }
    }
}

/// The worker's queues while it serves them; returned to the worker on drop, also after a panic.
struct ServedQueues<'a> {
    stealable_queues: Vec<Arc<StealableQueue>>,
    worker: &'a mut Worker<Sharing>,
}

impl Drop for ServedQueues<'_> {
    fn drop(&mut self) {
        self.worker.model.stealable_queues = std::mem::take(&mut self.stealable_queues);
    }
}

impl Worker<Sharing> {
    /// Serves each own queue once, otherwise steals from one of another worker. Returns whether there was any packet.
    fn stealing_round(&mut self) -> bool {
        let mut served =
            ServedQueues { stealable_queues: std::mem::take(&mut self.model.stealable_queues), worker: self };
        let ServedQueues { stealable_queues, worker } = &mut served;
        let (me, mut worked) = (worker.model.me, false);
        for (at, stealable) in
            stealable_queues.iter().enumerate().filter(|(_, stealable)| stealable.home == me)
        {
            worked |= worker.serve(at, stealable);
        }
        if !worked
            && worker.model.steals(me)
            && let Some(at) = largest_backlog(stealable_queues, me)
        {
            worked = worker.serve(at, &stealable_queues[at]);
            worker.counters.steals.add(u64::from(worked));
        }
        drop(served);
        self.level.end_round();
        if !self.out.keeping.is_empty() {
            self.out.flush(self.now, Flush::Waited);
        }
        self.notify();
        worked
    }

    /// Receives, classifies, sends and completes a burst, unless another worker holds the queue. Returns whether
    /// there was any packet.
    #[inline]
    fn serve(&mut self, at: usize, stealable: &StealableQueue) -> bool {
        let Some(mut held) = stealable.try_hold() else { return self.note_failure(stealable) };
        let Some(served) = held.as_mut() else { return false };
        served.account.served_by(self.model.me, &self.level);
        if !served.account.is_free(&self.level) {
            match self.continued_turn(&mut served.account) {
                Turn::Free => {}
                Turn::Over => return true,
                Turn::Sent(carried) => {
                    self.complete_shared(served, carried);
                    return true;
                }
            }
        }
        let mut stats = BurstStats::default();
        let burst = &mut self.bursts[0];
        burst.begin_limited(at, served.account.limit());
        burst.set_now(self.now);
        self.counters.step.enter(Step::Receive, stealable.key.port);
        let taken = if self.out.watch.is_on {
            self.out.receive((&mut *served.queue, stealable.key.port), (burst, 0), &mut stats)
        } else {
            served.queue.rx(burst, &mut stats)
        };
        let (got, packets) = (!burst.is_untouched(), burst.len());
        let work = stats.work_of_receiving(packets);
        self.counters.polls.add(1);
        stealable.served(packets, stats.packets);
        if got {
            if self.out.watch.is_on {
                self.out.capture_received(&mut self.bursts[0], Some(stealable.key.port));
            }
            self.counters.port(stealable.key.port).count_rx(&stats);
            self.counters.packets.add(stats.packets);
            self.counters.bursts.add(1);
            served.account.begin(&self.level);
            if work > 0 {
                served.account.add(work, &mut self.level);
            }
            self.send_shared(stealable, served);
        } else {
            self.counters.empty_polls.add(1);
        }
        if let Err(fault) = taken {
            self.end_shared(served);
            self.retire_stealable(stealable, held.take(), fault);
        }
        drop(held);
        if packets == BURST && stealable.backlog() > 0 {
            self.wake_another();
        }
        got
    }

    /// Called if the lock was not acquired: reports a fault to the port if a worker panicked while holding it.
    #[cold]
    fn note_failure(&self, stealable: &StealableQueue) -> bool {
        if stealable.has_failed()
            && let Some(served) = stealable.take_failed()
        {
            self.retire_stealable(stealable, Some(served), PortFault::WorkerFailed);
        }
        false
    }

    /// Classifies and sends the received burst, and completes it unless its turn ends before.
    #[inline]
    fn send_shared(&mut self, stealable: &StealableQueue, served: &mut Served) {
        let burst = &mut self.bursts[0];
        let is_sampled = self.out.watch.is_on && self.out.begin_sample(0, BurstKey::of(burst));
        self.counters.step.enter(Step::Pipeline, stealable.key.port);
        self.classifier.classify(burst, &received(burst, stealable.key));
        if is_sampled {
            self.out.sample_classified();
        }
        if self.out.send_all(burst, &self.classifier.verdicts, stealable.key) {
            served.account.charge(self.out.spent, &mut self.level);
            self.counters.step.enter(Step::Complete, stealable.key.port);
            complete(served, burst);
            if is_sampled {
                self.out.finish_sample(burst.len());
            }
        } else if let Some(carried) = self.carry(0, stealable.key, &mut served.account) {
            self.complete_shared(served, carried);
        }
    }

    fn complete_shared(&mut self, served: &mut Served, carried: Box<Carried>) {
        self.counters.step.enter(Step::Complete, carried.from.port);
        complete(served, &carried.burst);
        self.recycle(carried);
    }

    /// Ends all carried bursts of a shared queue.
    #[cold]
    fn end_shared(&mut self, served: &mut Served) {
        while let Some(carried) = self.end(&mut served.account) {
            self.complete_shared(served, carried);
        }
    }

    /// Has a port's shared queues take over a changed memory table, after their carried bursts have ended: the old
    /// memory must not stay in use. Every worker does this, so a queue that another worker holds for long is left to
    /// that worker.
    fn refresh_shared(&mut self, port: PortId) {
        let mut served =
            ServedQueues { stealable_queues: std::mem::take(&mut self.model.stealable_queues), worker: self };
        let ServedQueues { stealable_queues, worker } = &mut served;
        for stealable in stealable_queues.iter().filter(|stealable| stealable.key.port == port) {
            let Some(mut held) = stealable.hold(LOCK_TIMEOUT) else { continue };
            let Some(served) = held.as_mut() else { continue };
            worker.end_shared(served);
            if let Err(fault) = served.queue.refresh() {
                worker.retire_stealable(stealable, held.take(), fault);
            }
        }
    }

    /// [`Worker::forget_output`] for shared queues.
    fn forget_shared(&mut self, port: PortId) {
        for stealable in &self.model.stealable_queues {
            if let Some(served) = stealable.hold(LOCK_TIMEOUT).as_mut().and_then(|held| held.as_mut()) {
                served.account.all().for_each(|carried| self.out.forget(port, carried));
            }
        }
    }

    fn end_stealable(&mut self, stealable: &StealableQueue) {
        if let Some(served) = stealable.hold(LOCK_TIMEOUT).as_mut().and_then(|held| held.as_mut()) {
            self.end_shared(served);
        }
    }

    #[cold]
    fn retire_stealable(&self, stealable: &StealableQueue, served: Option<Served>, fault: PortFault) {
        let retired = served.map(|served| Retired::Rx(stealable.generation, served.queue));
        self.link.report(Event {
            port: stealable.key.port,
            generation: stealable.generation,
            fault,
            retired,
        });
    }

    /// Wakes a sleeping worker because there is more work than one worker handles, with a minimum interval.
    fn wake_another(&mut self) {
        let apart = (WAKE_INTERVAL as f64 * self.ticks_per_ns) as u64;
        let asleep = |(at, peer): &(usize, &Peer)| {
            self.model.steals(*at) && peer.counters.sleeping.load(Ordering::Relaxed)
        };
        let Some((_, peer)) = self.model.peers.iter().enumerate().find(asleep) else { return };
        let now = ticks();
        if now - self.model.last_wake > apart {
            peer.link.doorbell.ring();
            self.model.last_wake = now;
        }
    }

    /// Adds a shared queue.
    fn share(&mut self, stealable: Arc<StealableQueue>) {
        if stealable.home == self.model.me {
            self.sleeper.watch(stealable.kick());
            if let Some(served) = stealable.try_hold().as_mut().and_then(|held| held.as_mut()) {
                served.queue.disable_notification();
            }
        }
        self.model.stealable_queues.push(stealable);
        self.count_own();
    }

    /// Removes a shared queue; the worker does not access it afterwards.
    fn unshare(&mut self, key: crate::command::QueueKey) {
        let gone: Vec<_> =
            self.model.stealable_queues.extract_if(.., |stealable| stealable.key == key).collect();
        for stealable in gone {
            // The last worker that removes the queue leaves no carried burst in it.
            self.end_stealable(&stealable);
            if stealable.home == self.model.me {
                self.sleeper.forget(stealable.kick());
            }
        }
        self.out.flush(self.now, Flush::All);
        self.count_own();
    }

    fn count_own(&self) {
        self.counters.queues.set(self.own().count() as u64);
    }

    fn own(&self) -> impl Iterator<Item = &Arc<StealableQueue>> {
        self.model.stealable_queues.iter().filter(|stealable| stealable.home == self.model.me)
    }

    /// Sleeps until a kick, a command or a wake-up by a busy worker. Returns whether it slept.
    #[cold]
    fn sleep_sharing(&mut self) -> bool {
        self.notify();
        let slept = self.own().all(|stealable| self.enable_notification(stealable));
        if slept {
            self.run_timers();
            self.begin_sleep();
            self.sleeper.sleep(self.until_timers());
            self.end_sleep();
        }
        // A queue that another worker is serving keeps its notifications enabled; a later call disables them.
        for stealable in self.own() {
            if let Some(served) = stealable.try_hold().as_mut().and_then(|held| held.as_mut()) {
                served.queue.disable_notification();
            }
        }
        slept
    }

    /// Whether the queue is empty and its notification is enabled.
    fn enable_notification(&self, stealable: &StealableQueue) -> bool {
        let Some(mut held) = stealable.try_hold() else { return stealable.has_failed() };
        let Some(served) = held.as_mut() else { return true };
        if served.account.carries() {
            return false;
        }
        match served.queue.enable_notification() {
            Ok(there) => !there && stealable.kick().is_some(),
            Err(fault) => {
                self.retire_stealable(stealable, held.take(), fault);
                true
            }
        }
    }
}

/// Completes a burst and notifies the driver if required.
#[inline]
fn complete(served: &mut Served, burst: &Burst) {
    super::complete(&mut *served.queue, burst);
    // As in `notify`: orders the used-index store before the load of the suppression field.
    fence(Ordering::SeqCst);
    served.queue.notify();
}

/// The queue of another worker whose last burst was largest. Returns `None` if it had fewer than `MIN_BACKLOG` packets.
fn largest_backlog(stealable_queues: &[Arc<StealableQueue>], me: usize) -> Option<usize> {
    let others = stealable_queues.iter().enumerate().filter(|(_, stealable)| stealable.home != me);
    let (at, most) =
        others.map(|(at, stealable)| (at, stealable.backlog())).max_by_key(|(_, backlog)| *backlog)?;
    (most >= MIN_BACKLOG).then_some(at)
}
