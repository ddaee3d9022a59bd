//! Queues of a port between workers and its transmit queues.
//!
//! All handles of workers put copies of packets into one [`Scheduler`] under a lock. One receive queue of the port, which
//! brings no packets ([`ReleaseRx`]), takes those that may be sent and sends them through a handle of its own: the worker
//! that polls it owns the departures, so rates hold for the port without being divided among workers. While that worker
//! sleeps, a timer is set to the next departure. Packets are copied and sent outside the lock.
//!
//! A packet counts as sent when it leaves, and as dropped when it is dropped; what the owner counts is reported by the
//! next [`TxQueue::flush`] of any handle. A source's buffers are never held.

use crate::classify::ClassMap;
use crate::fq_codel::ClassCounts;
use crate::htb::ClassRates;
use crate::packet::{CHUNK, Chunk, Chunks, LONGEST, Packet, chunks};
use crate::scheduler::{ClassConfig, Scheduler};
use mem::copy::Kernel;
use port::{
    BURST, Burst, BurstStats, DropReason, Flush, GeneratedBurst, Now, PLACES, PortFault, QueueState, RxQueue,
    Timer, TxQueue,
};
use ring::BufId;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Chunks of each handle, beside those of the queues.
const SPARE: usize = 64;
const _: () = assert!(SPARE * CHUNK >= LONGEST);

/// Queues of a port, as configured.
pub struct ShaperConfig {
    /// Classes, the first of which is the root.
    pub classes: Vec<ClassConfig>,
    /// Class of each packet.
    pub map: ClassMap,
    /// Maximum bytes of packets that wait.
    pub memory: u64,
}

struct State {
    queues: Scheduler<Packet>,
    pool: Chunks,
    /// Counts of the owner that no handle has reported.
    unreported: BurstStats,
    timer: Timer,
    /// Departure that the timer is set to; `None` while the owner is awake.
    sleeps_until: Option<u64>,
    /// Queue pair whose release queue sends.
    owner: Option<u16>,
    /// Handles in use: not abandoned since they last sent.
    handles: usize,
    /// Time of the last call, in nanoseconds.
    now: u64,
}

/// Queues of a port.
pub struct Shaper {
    state: Mutex<State>,
    map: ClassMap,
    classes: usize,
    /// Time of the next departure; `u64::MAX` if no packet waits.
    next: AtomicU64,
    has_unreported: AtomicBool,
    /// The timer, for the engine to poll.
    kick: OwnedFd,
}

impl std::fmt::Debug for Shaper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shaper").field("classes", &self.classes).finish_non_exhaustive()
    }
}

impl Shaper {
    /// Creates empty queues, and allocates their memory.
    ///
    /// # Errors
    /// [`PortFault::BadDescriptor`] if the process is out of file descriptors, [`PortFault::Unsuited`] if no class is a
    /// leaf.
    pub fn new(config: ShaperConfig) -> Result<Self, PortFault> {
        let timer = Timer::new()?;
        let kick = timer.as_fd().try_clone_to_owned();
        let kick = kick.map_err(|e| PortFault::BadDescriptor("timer", e.to_string()))?;
        let queues = Scheduler::new(&config.classes, config.memory);
        let queues = queues.ok_or_else(|| PortFault::Unsuited("`queues` has no class".to_owned()))?;
        let state = State {
            queues,
            pool: std::iter::repeat_with(Chunk::new).take(config.memory as usize / CHUNK).collect(),
            unreported: BurstStats::default(),
            timer,
            sleeps_until: None,
            owner: None,
            handles: 0,
            now: 0,
        };
        Ok(Self {
            state: Mutex::new(state),
            map: config.map,
            classes: config.classes.len(),
            next: AtomicU64::new(u64::MAX),
            has_unreported: AtomicBool::new(false),
            kick,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rates and counters of each class; inner classes have no counters.
    pub fn classes(&self) -> Vec<(ClassRates, Option<ClassCounts>)> {
        let state = self.lock();
        let class = |at| Some((state.queues.rates(at)?, state.queues.counts(at).copied()));
        (0..self.classes).filter_map(class).collect()
    }

    /// Changes the rates of a class. Packets that wait are sent at the new rates.
    pub fn set_rates(&self, class: usize, rates: ClassRates) {
        let mut state = self.lock();
        let now = state.now;
        state.queues.set_rates(class, rates, now);
        self.settle(&mut state, now);
    }

    /// Frees dropped packets, and publishes and arms the next departure.
    fn settle(&self, state: &mut State, now: u64) {
        state.now = state.now.max(now);
        let State { queues, pool, .. } = state;
        queues.dropped().for_each(|packet| packet.free(pool));
        let next = queues.next().unwrap_or(u64::MAX);
        self.next.store(next, Ordering::Relaxed);
        if state.sleeps_until.is_some_and(|until| next < until) {
            state.timer.set(next.saturating_sub(now));
            state.sleeps_until = Some(next);
        }
    }

    /// Moves counts of drops to `stats`.
    fn count_drops(state: &mut State, stats: &mut BurstStats) {
        let drops = state.queues.take_drops();
        stats.drop(DropReason::ClassFull, drops.full);
        stats.drop(DropReason::Codel, drops.codel);
    }

    /// Reports what the owner counted.
    fn report(&self, stats: &mut BurstStats) {
        // Relaxed is sufficient: the counts are read under the lock, and a later call finds what this one misses.
        if !self.has_unreported.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.lock();
        self.has_unreported.store(false, Ordering::Relaxed);
        let counted = std::mem::take(&mut state.unreported);
        add(stats, &counted);
    }
}

fn add(total: &mut BurstStats, stats: &BurstStats) {
    total.packets += stats.packets;
    total.bytes += stats.bytes;
    total.lost += stats.lost;
    total.drops.iter_mut().zip(stats.drops).for_each(|(total, n)| *total += n);
}

/// A worker's handle of the queues.
pub(crate) struct ShapeTx<K> {
    inner: Box<dyn TxQueue>,
    shaper: Arc<Shaper>,
    spare: Chunks,
    /// Copied packets that are not in the queues yet, with class and hash.
    copied: Vec<(Packet, usize, u32)>,
    staging: Box<[u8]>,
    is_counted: bool,
    kernel: PhantomData<K>,
}

impl<K: Kernel> ShapeTx<K> {
    pub(crate) fn new(inner: Box<dyn TxQueue>, shaper: Arc<Shaper>) -> Self {
        shaper.lock().handles += 1;
        Self {
            inner,
            shaper,
            spare: std::iter::repeat_with(Chunk::new).take(SPARE).collect(),
            copied: Vec::with_capacity(BURST),
            staging: vec![0; LONGEST].into(),
            is_counted: true,
            kernel: PhantomData,
        }
    }

    /// Puts copied packets into the queues, and takes empty chunks for the next ones.
    fn enqueue(&mut self, now: u64, stats: &mut BurstStats) {
        let mut state = self.shaper.lock();
        // A handle may be used again by another worker.
        state.handles += usize::from(!std::mem::replace(&mut self.is_counted, true));
        for (packet, class, hash) in self.copied.drain(..) {
            state.queues.enqueue(class, packet, hash, now);
        }
        self.shaper.settle(&mut state, now);
        Shaper::count_drops(&mut state, stats);
        let wanted = (SPARE - self.spare.len()).min(state.pool.len());
        let from = state.pool.len() - wanted;
        self.spare.extend(state.pool.drain(from..));
    }

    fn copy(&mut self, burst: &Burst, i: usize) -> Option<()> {
        let frame = burst.frame(i);
        let packet = Packet::copy::<K>(&frame, burst.frame_len(i), &mut self.spare, &mut self.staging)?;
        let (class, hash) = self.shaper.map.classify(burst, i);
        self.copied.push((packet, class, hash));
        Some(())
    }
}

impl<K: Kernel> TxQueue for ShapeTx<K> {
    /// Always takes all packets; those without space are dropped.
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        let now = burst.now().0;
        for &i in indices {
            let i = usize::from(i);
            if self.spare.len() < chunks(burst.frame_len(i)) {
                self.enqueue(now, stats);
            }
            if self.copy(burst, i).is_none() {
                stats.drop(DropReason::ClassFull, 1);
            }
        }
        self.enqueue(now, stats);
        Ok(indices.len())
    }

    fn reap(&mut self) -> Result<(), PortFault> {
        self.inner.reap()
    }

    fn keeps_back(&self) -> bool {
        true
    }

    /// Packets leave by the release queue only.
    fn flush(&mut self, _: Now, _: Flush, stats: &mut BurstStats) -> Result<bool, PortFault> {
        self.shaper.report(stats);
        Ok(false)
    }

    /// The last handle drops the packets that wait.
    fn abandon(&mut self, stats: &mut BurstStats) {
        self.shaper.report(stats);
        let mut state = self.shaper.lock();
        state.handles -= usize::from(std::mem::take(&mut self.is_counted));
        if state.handles == 0 {
            state.queues.clear();
            let now = state.now;
            self.shaper.settle(&mut state, now);
            let drops = state.queues.take_drops();
            stats.drop(DropReason::PortDown, drops.full + drops.codel);
        }
    }

    fn notify(&mut self) {
        self.inner.notify();
    }

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Self::new(self.inner.fork(), self.shaper.clone()))
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        self.inner.refresh()
    }

    fn freeze(mut self: Box<Self>) -> QueueState {
        let inner = std::mem::replace(&mut self.inner, Box::new(Absent));
        inner.freeze()
    }
}

impl<K> Drop for ShapeTx<K> {
    fn drop(&mut self) {
        self.shaper.lock().handles -= usize::from(self.is_counted);
    }
}

/// Takes the place of a queue that was frozen.
struct Absent;

impl TxQueue for Absent {
    fn tx(&mut self, _: &Burst, _: &[u8], _: &mut BurstStats) -> Result<usize, PortFault> {
        Ok(0)
    }

    fn notify(&mut self) {}

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Absent)
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}

/// Sends packets when they may leave.
pub(crate) struct ReleaseRx {
    shaper: Arc<Shaper>,
    pair: u16,
    out: Box<dyn TxQueue>,
    burst: GeneratedBurst,
    packets: Vec<Packet>,
    now: u64,
}

impl ReleaseRx {
    pub(crate) fn new(shaper: Arc<Shaper>, pair: u16, out: Box<dyn TxQueue>) -> Self {
        let (burst, packets) = (GeneratedBurst::new(), Vec::with_capacity(BURST));
        Self { shaper, pair, out, burst, packets, now: 0 }
    }

    /// Takes a burst of packets that may leave now. Returns `false` if there is none.
    fn take(&mut self) -> bool {
        let mut state = self.shaper.lock();
        if *state.owner.get_or_insert(self.pair) != self.pair {
            return false;
        }
        while self.packets.len() < BURST {
            let Some((_, packet)) = state.queues.dequeue(self.now) else { break };
            self.packets.push(packet);
        }
        self.shaper.settle(&mut state, self.now);
        let mut stats = std::mem::take(&mut state.unreported);
        Shaper::count_drops(&mut state, &mut stats);
        state.unreported = stats;
        self.shaper.has_unreported.store(true, Ordering::Relaxed);
        !self.packets.is_empty()
    }

    fn send(&mut self) -> Result<(), PortFault> {
        self.burst.restart();
        self.burst.set_now(Now(self.now));
        let all = self.packets.iter().filter(|packet| packet.push(&mut self.burst)).count();
        let mut stats = BurstStats::default();
        let sent = self.out.tx(&self.burst, &PLACES[..all], &mut stats);
        // No later call flushes packets that this handle holds back.
        let sent = sent.and_then(|_| self.out.flush(Now(self.now), Flush::All, &mut stats));
        let counted = stats.packets + stats.lost;
        let reason = if sent.is_ok() { DropReason::QueueFull } else { DropReason::PortFault };
        stats.drop(reason, (all as u64).saturating_sub(counted));
        self.give_back(&stats);
        // As in the worker: the fence orders the publish before the check for notification.
        fence(Ordering::SeqCst);
        self.out.notify();
        sent.map(drop)
    }

    fn give_back(&mut self, stats: &BurstStats) {
        let mut state = self.shaper.lock();
        let State { pool, unreported, .. } = &mut *state;
        self.packets.drain(..).for_each(|packet| packet.free(pool));
        add(unreported, stats);
        self.shaper.has_unreported.store(true, Ordering::Relaxed);
    }
}

impl RxQueue for ReleaseRx {
    fn prefetch(&self) {}

    fn rx(&mut self, burst: &mut Burst, _: &mut BurstStats) -> Result<(), PortFault> {
        self.now = burst.now().0;
        // One burst in a turn, as for any other queue.
        if self.shaper.next.load(Ordering::Relaxed) <= self.now && self.take() {
            return self.send();
        }
        Ok(())
    }

    /// This queue receives no packets.
    fn complete(&mut self, _: &[BufId]) {}

    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        let mut state = self.shaper.lock();
        if *state.owner.get_or_insert(self.pair) != self.pair {
            return Ok(false);
        }
        let next = self.shaper.next.load(Ordering::Relaxed);
        if next <= self.now {
            return Ok(true);
        }
        state.sleeps_until = Some(next);
        if next < u64::MAX {
            state.timer.set(next - self.now);
        }
        Ok(false)
    }

    fn disable_notification(&mut self) {
        let mut state = self.shaper.lock();
        if state.owner == Some(self.pair) {
            state.sleeps_until = None;
            state.timer.clear();
        }
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shaper.kick.as_fd())
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        self.out.refresh()
    }

    /// The transmit handle may be bound to its thread.
    fn is_bound(&self) -> bool {
        true
    }
}

impl Drop for ReleaseRx {
    fn drop(&mut self) {
        let mut state = self.shaper.lock();
        if state.owner == Some(self.pair) {
            (state.owner, state.sleeps_until) = (None, None);
            // Wakes the workers of the other release queues, the first of which becomes the owner.
            state.timer.set(0);
        }
    }
}
