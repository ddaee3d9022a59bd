//! A worker that takes bursts from others' queues when its own have none. How a queue is shared is in [`StealableQueue`].
//!
//! There is no overlap of two bursts here: a burst that waits to be judged would keep its queue locked. A round serves each
//! queue of its own once; one that brought nothing takes one burst from the fullest queue of anybody else. An idle worker
//! sleeps on its own kicks like any other, and a worker that takes a full burst wakes one that sleeps.
//!
//! A queue whose worker a rule names is served by that worker only, and a worker that an isolated queue has to itself takes
//! nothing of others: that is what the rules promise.

use super::carried::Carried;
use super::execution::Execution;
use super::turns::Turn;
use super::{Worker, received};
use crate::command::{Command, Event, Retired};
use crate::counters::WorkerCounters;
use crate::link::Link;
use crate::stealable::{Served, StealableQueue};
use mem::ticks;
use port::{BURST, Burst, BurstStats, Flush, PortFault, PortId};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// A queue whose last burst had fewer packets than this is left to its home: what a burst costs to fetch from another core's
/// caches is paid by many packets or not worth it.
const WORTH: u32 = BURST as u32 / 2;
/// How long another worker's turn at a queue is waited for, when control wants something: many times what a turn takes, and
/// little beside what control waits for this worker. A worker that hangs with the queue is not waited for any longer.
const TURN_TIME: Duration = Duration::from_millis(20);
/// Nanoseconds between two wake-ups of others: about as long as they look around before they sleep again.
const RING_APART: u64 = 100_000;

/// Another worker, as far as waking it goes.
pub(crate) struct Peer {
    pub(crate) link: Arc<Link>,
    pub(crate) counters: Arc<WorkerCounters>,
}

/// What a worker knows of queues that are shared.
#[derive(Default)]
pub(crate) struct Sharing {
    /// Its place among the workers.
    me: usize,
    peers: Arc<[Peer]>,
    /// By place: whether the worker serves an isolated queue and nothing else. Empty: none does.
    alone: Arc<[bool]>,
    stalls: Vec<Arc<StealableQueue>>,
    /// When it last woke another worker, in ticks.
    rang: u64,
}

impl Sharing {
    /// Whether the worker at that place takes bursts of others.
    fn steals(&self, at: usize) -> bool {
        !self.alone.get(at).copied().unwrap_or(false)
    }
}

impl Execution for Sharing {
    fn round(worker: &mut Worker<Self>) -> bool {
        worker.stealing_round()
    }

    fn sleep(worker: &mut Worker<Self>) -> bool {
        worker.sleep_among_others()
    }

    fn handle_command(worker: &mut Worker<Self>, command: Command) {
        match command {
            Command::Share(stealable) => worker.share(stealable),
            Command::Unshare(key) => worker.unshare(key),
            Command::Meet(me, peers) => (worker.model.me, worker.model.peers) = (me, peers),
            Command::LeaveAlone(alone) => worker.model.alone = alone,
            _ => debug_assert!(false, "no hops begin or end here"),
        }
    }

    fn refresh(worker: &mut Worker<Self>, port: PortId) {
        worker.refresh_shared(port);
    }

    fn forget(worker: &mut Worker<Self>, port: PortId) {
        worker.forget_shared(port);
    }

    /// Of shared queues only the one that this worker had just then is lost.
    fn fail(worker: &Worker<Self>) {
        for stealable in &worker.model.stalls {
            worker.note_failure(stealable);
        }
    }
}

/// A worker's queues while it serves them. They are the worker's again afterwards, also if that panics.
struct Lent<'a> {
    stalls: Vec<Arc<StealableQueue>>,
    worker: &'a mut Worker<Sharing>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.worker.model.stalls = std::mem::take(&mut self.stalls);
    }
}

impl Worker<Sharing> {
    /// Serves each queue of its own once, or steals from one of another worker. Whether there was any packet.
    fn stealing_round(&mut self) -> bool {
        let mut lent = Lent { stalls: std::mem::take(&mut self.model.stalls), worker: self };
        let Lent { stalls, worker } = &mut lent;
        let (me, mut worked) = (worker.model.me, false);
        for (at, stealable) in stalls.iter().enumerate().filter(|(_, stealable)| stealable.home == me) {
            worked |= worker.serve(at, stealable);
        }
        if !worked
            && worker.model.steals(me)
            && let Some(at) = fullest(stalls, me)
        {
            worked = worker.serve(at, &stalls[at]);
            worker.counters.steals.add(u64::from(worked));
        }
        drop(lent);
        self.level.end_round();
        if !self.out.keeping.is_empty() {
            self.out.flush(self.now, Flush::Waited);
        }
        self.notify();
        worked
    }

    /// Takes a burst, classifies it, sends it and gives it back, unless another worker does. Whether there was any packet.
    #[inline]
    fn serve(&mut self, at: usize, stealable: &StealableQueue) -> bool {
        let Some(mut held) = stealable.try_hold() else { return self.note_failure(stealable) };
        let Some(served) = held.as_mut() else { return false };
        served.account.served_by(self.model.me, &self.level);
        if !served.account.is_free(&self.level) {
            match self.odd_turn(&mut served.account) {
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
        let taken = served.queue.rx(burst, &mut stats);
        let (got, packets) = (!burst.is_untouched(), burst.len());
        let work = stats.work_of_receiving(packets);
        self.counters.polls.add(1);
        stealable.served(packets, stats.packets);
        if got {
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
            self.lose_stall(stealable, held.take(), fault);
        }
        drop(held);
        if packets == BURST && stealable.backlog() > 0 {
            self.wake_another();
        }
        got
    }

    /// The lock was not to be had: if a worker panicked with it, the port is told.
    #[cold]
    fn note_failure(&self, stealable: &StealableQueue) -> bool {
        if stealable.has_failed()
            && let Some(served) = stealable.take_failed()
        {
            self.lose_stall(stealable, Some(served), PortFault::WorkerFailed);
        }
        false
    }

    /// Classifies and sends the burst that was taken, and gives it back unless its turn ends before.
    #[inline]
    fn send_shared(&mut self, stealable: &StealableQueue, served: &mut Served) {
        let burst = &mut self.bursts[0];
        self.classifier.classify(burst, &received(burst, stealable.key));
        if self.out.send_all(burst, &self.classifier.verdicts, stealable.key) {
            served.account.charge(self.out.spent, &mut self.level);
            complete(served, burst);
        } else if let Some(carried) = self.carry(0, stealable.key, &mut served.account) {
            self.complete_shared(served, carried);
        }
    }

    fn complete_shared(&mut self, served: &mut Served, carried: Box<Carried>) {
        complete(served, &carried.burst);
        self.put_away(carried);
    }

    /// Ends whatever a shared queue carries over.
    #[cold]
    fn end_shared(&mut self, served: &mut Served) {
        while let Some(carried) = self.end(&mut served.account) {
            self.complete_shared(served, carried);
        }
    }

    /// A port's shared queues take over its changed map, after whatever they carry over: the old memory must not stay in use.
    /// Every worker does this, so a queue that another one serves for long is left to that one.
    fn refresh_shared(&mut self, port: PortId) {
        let mut lent = Lent { stalls: std::mem::take(&mut self.model.stalls), worker: self };
        let Lent { stalls, worker } = &mut lent;
        for stealable in stalls.iter().filter(|stealable| stealable.key.port == port) {
            let Some(mut held) = stealable.hold(TURN_TIME) else { continue };
            let Some(served) = held.as_mut() else { continue };
            worker.end_shared(served);
            if let Err(fault) = served.queue.refresh() {
                worker.lose_stall(stealable, held.take(), fault);
            }
        }
    }

    /// As [`Worker::forget_output`], for shared queues.
    fn forget_shared(&mut self, port: PortId) {
        for stealable in &self.model.stalls {
            if let Some(served) = stealable.hold(TURN_TIME).as_mut().and_then(|held| held.as_mut()) {
                served.account.all().for_each(|carried| self.out.forget(port, &mut carried.delivery));
            }
        }
    }

    fn end_stall(&mut self, stealable: &StealableQueue) {
        if let Some(served) = stealable.hold(TURN_TIME).as_mut().and_then(|held| held.as_mut()) {
            self.end_shared(served);
        }
    }

    #[cold]
    fn lose_stall(&self, stealable: &StealableQueue, served: Option<Served>, fault: PortFault) {
        let retired = served.map(|served| Retired::Rx(stealable.generation, served.queue));
        self.link.report(Event {
            port: stealable.key.port,
            generation: stealable.generation,
            fault,
            retired,
        });
    }

    /// There is more to do than one worker does: one that sleeps is woken, and not too often.
    fn wake_another(&mut self) {
        let apart = (RING_APART as f64 * self.ticks_per_ns) as u64;
        let asleep = |(at, peer): &(usize, &Peer)| {
            self.model.steals(*at) && peer.counters.sleeping.load(Ordering::Relaxed)
        };
        let Some((_, peer)) = self.model.peers.iter().enumerate().find(asleep) else { return };
        let now = ticks();
        if now - self.model.rang > apart {
            peer.link.doorbell.ring();
            self.model.rang = now;
        }
    }

    /// A queue that it may serve from now on.
    fn share(&mut self, stealable: Arc<StealableQueue>) {
        if stealable.home == self.model.me {
            self.sleeper.watch(stealable.kick());
            if let Some(served) = stealable.try_hold().as_mut().and_then(|held| held.as_mut()) {
                served.queue.disable_notification();
            }
        }
        self.model.stalls.push(stealable);
        self.count_own();
    }

    /// A queue that it must not touch any more.
    fn unshare(&mut self, key: crate::command::QueueKey) {
        let gone: Vec<_> = self.model.stalls.extract_if(.., |stealable| stealable.key == key).collect();
        for stealable in gone {
            // The last worker that forgets the queue leaves nothing carried over in it.
            self.end_stall(&stealable);
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
        self.model.stalls.iter().filter(|stealable| stealable.home == self.model.me)
    }

    /// Sleeps until a kick, a command or a worker with too much to do wakes it. Whether it slept.
    #[cold]
    fn sleep_among_others(&mut self) -> bool {
        self.notify();
        let slept = self.own().all(|stealable| self.enable_notification(stealable));
        if slept {
            self.run_timers();
            self.falls_asleep();
            self.sleeper.sleep(self.until_timers());
            self.wakes();
        }
        // Notifications are left as they are on a queue that another worker is serving; the next one is as good.
        for stealable in self.own() {
            if let Some(served) = stealable.try_hold().as_mut().and_then(|held| held.as_mut()) {
                served.queue.disable_notification();
            }
        }
        slept
    }

    /// Whether the queue has nothing, and kicks when it has.
    fn enable_notification(&self, stealable: &StealableQueue) -> bool {
        let Some(mut held) = stealable.try_hold() else { return stealable.has_failed() };
        let Some(served) = held.as_mut() else { return true };
        if served.account.carries() {
            return false;
        }
        match served.queue.enable_notification() {
            Ok(there) => !there && stealable.kick().is_some(),
            Err(fault) => {
                self.lose_stall(stealable, held.take(), fault);
                true
            }
        }
    }
}

/// Gives a burst back, and asks whether the driver wants to be told.
#[inline]
fn complete(served: &mut Served, burst: &Burst) {
    super::complete(&mut *served.queue, burst);
    // As in `notify`: what was published comes before the question.
    fence(Ordering::SeqCst);
    served.queue.notify();
}

/// Of others' queues, the one whose last burst had most packets, if it had enough.
fn fullest(stalls: &[Arc<StealableQueue>], me: usize) -> Option<usize> {
    let others = stalls.iter().enumerate().filter(|(_, stealable)| stealable.home != me);
    let (at, most) =
        others.map(|(at, stealable)| (at, stealable.backlog())).max_by_key(|(_, backlog)| *backlog)?;
    (most >= WORTH).then_some(at)
}
