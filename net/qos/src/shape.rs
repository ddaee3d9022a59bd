//! Queues of a port between workers and its transmit queues.
//!
//! All handles of workers put copies of packets into one [`Scheduler`] under a lock. One receive queue of the port,
//! which brings no packets ([`ReleaseRx`]), takes those that may be sent and sends them through a handle of its own:
//! the worker that polls it owns the departures, so rates hold for the port without being divided among workers. While
//! that worker sleeps, a timer is set to the next departure. Packets are copied and sent outside the lock.
//!
//! A packet counts as sent when it leaves, and as dropped when it is dropped; what the owner counts is reported by the
//! next [`TxQueue::flush`] of any handle. A source's buffers are never held.

mod release;
mod tx;

use crate::classify::ClassMap;
use crate::fq_codel::ClassCounts;
use crate::htb::ClassRates;
use crate::packet::{CHUNK, Chunk, Chunks, Packet};
use crate::scheduler::{ClassConfig, Scheduler};
use port::{BurstStats, DropReason, PortFault, Timer};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use release::ReleaseRx;
pub(crate) use tx::ShapeTx;

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
