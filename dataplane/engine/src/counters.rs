//! Counters: one block per worker and port, written only by that worker.
//!
//! A writer uses relaxed loads and stores without a locked instruction, because it is the only writer; readers load
//! at any time and sum over workers. A read transfers the cache line once and does not disturb the writer otherwise.
//! Counters are never reset: a port that reuses a number subtracts the totals at its registration.

use crate::latency::LatencyCounters;
use crate::step::StepCell;
use mem::line::Padded;
use port::{BurstStats, DropReason, PortId};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A counter with a single writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Must be called only by the owning worker.
    #[inline(always)]
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }
}

/// Counters of one worker for one port.
#[derive(Debug)]
pub(crate) struct PortCounters {
    pub(crate) rx_packets: Counter,
    pub(crate) rx_bytes: Counter,
    pub(crate) tx_packets: Counter,
    pub(crate) tx_bytes: Counter,
    pub(crate) replicated: Counter,
    pub(crate) punted: Counter,
    pub(crate) drops: [Counter; DropReason::COUNT],
    /// Sampled polls with packets, and their packets.
    pub(crate) sampled_polls: Counter,
    pub(crate) sampled_packets: Counter,
    /// Packets to the port whose checksum was completed in software, alone or as segments.
    pub(crate) completed: Counter,
}

impl Default for PortCounters {
    fn default() -> Self {
        Self {
            rx_packets: Counter::default(),
            rx_bytes: Counter::default(),
            tx_packets: Counter::default(),
            tx_bytes: Counter::default(),
            replicated: Counter::default(),
            punted: Counter::default(),
            drops: std::array::from_fn(|_| Counter::default()),
            sampled_polls: Counter::default(),
            sampled_packets: Counter::default(),
            completed: Counter::default(),
        }
    }
}

impl PortCounters {
    #[inline]
    pub(crate) fn count_rx(&self, stats: &BurstStats) {
        self.rx_packets.add(stats.packets);
        self.rx_bytes.add(stats.bytes);
        self.count_drops(stats);
    }

    #[inline]
    pub(crate) fn count_tx(&self, stats: &BurstStats) {
        self.tx_packets.add(stats.packets);
        self.tx_bytes.add(stats.bytes);
        self.count_drops(stats);
    }

    #[inline]
    pub(crate) fn count_drops(&self, stats: &BurstStats) {
        if stats.lost > 0 {
            self.add_drops(stats);
        }
    }

    #[cold]
    fn add_drops(&self, stats: &BurstStats) {
        for (counter, &n) in self.drops.iter().zip(&stats.drops) {
            if n > 0 {
                counter.add(n);
            }
        }
    }
}

/// Sums over all workers for one port number, or for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
    pub(crate) replicated: u64,
    pub(crate) punted: u64,
    pub(crate) drops: [u64; DropReason::COUNT],
    pub(crate) completed: u64,
}

impl Default for Totals {
    fn default() -> Self {
        let drops = [0; DropReason::COUNT];
        Self {
            rx_packets: 0,
            rx_bytes: 0,
            tx_packets: 0,
            tx_bytes: 0,
            replicated: 0,
            punted: 0,
            drops,
            completed: 0,
        }
    }
}

impl Totals {
    /// Totals for `id`. They never decrease, even if the number is reused.
    pub(crate) fn of(id: PortId, workers: &[Arc<WorkerCounters>]) -> Self {
        workers
            .iter()
            .map(|worker| Self::read(&worker.ports[id.0 as usize]))
            .fold(Self::default(), Self::plus)
    }

    fn read(port: &PortCounters) -> Self {
        Self {
            rx_packets: port.rx_packets.get(),
            rx_bytes: port.rx_bytes.get(),
            tx_packets: port.tx_packets.get(),
            tx_bytes: port.tx_bytes.get(),
            replicated: port.replicated.get(),
            punted: port.punted.get(),
            drops: std::array::from_fn(|reason| port.drops[reason].get()),
            completed: port.completed.get(),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        self.with(other, u64::wrapping_sub)
    }

    fn with(self, other: Self, op: fn(u64, u64) -> u64) -> Self {
        Self {
            rx_packets: op(self.rx_packets, other.rx_packets),
            rx_bytes: op(self.rx_bytes, other.rx_bytes),
            tx_packets: op(self.tx_packets, other.tx_packets),
            tx_bytes: op(self.tx_bytes, other.tx_bytes),
            replicated: op(self.replicated, other.replicated),
            punted: op(self.punted, other.punted),
            drops: std::array::from_fn(|reason| op(self.drops[reason], other.drops[reason])),
            completed: op(self.completed, other.completed),
        }
    }
}

/// Counters of one worker, for itself and for every port.
#[derive(Debug)]
pub(crate) struct WorkerCounters {
    pub(crate) polls: Counter,
    pub(crate) empty_polls: Counter,
    pub(crate) busy_ticks: Counter,
    pub(crate) idle_ticks: Counter,
    pub(crate) sleeps: Counter,
    pub(crate) wakes: Counter,
    pub(crate) bursts: Counter,
    pub(crate) packets: Counter,
    pub(crate) queues: Counter,
    /// Turns that ended with a burst carried over; `skipped_turns`: turns that a queue ahead of the others skipped.
    pub(crate) carried_turns: Counter,
    pub(crate) skipped_turns: Counter,
    /// Bursts taken from queues of other workers.
    pub(crate) steals: Counter,
    pub(crate) pool_hits: Counter,
    pub(crate) pool_refills: Counter,
    pub(crate) pool_spills: Counter,
    pub(crate) pool_empty: Counter,
    pub(crate) pool_retries: Counter,
    /// Cycles of sampled bursts in each step, and their packets.
    pub(crate) step_receive: Counter,
    pub(crate) step_pipeline: Counter,
    pub(crate) step_transmit: Counter,
    pub(crate) sampled_packets: Counter,
    pub(crate) sleeping: AtomicBool,
    /// On a line of its own: others read `sleeping`.
    pub(crate) step: Padded<StepCell>,
    /// By port; the last entry is for packets from handoff queues.
    pub(crate) ports: Vec<Padded<PortCounters>>,
    /// By port; absent before its first transmit queue starts on this worker.
    latencies: Vec<OnceLock<Box<LatencyCounters>>>,
}

impl WorkerCounters {
    pub(crate) fn new(max_ports: usize) -> Self {
        Self {
            polls: Counter::default(),
            empty_polls: Counter::default(),
            busy_ticks: Counter::default(),
            idle_ticks: Counter::default(),
            sleeps: Counter::default(),
            wakes: Counter::default(),
            bursts: Counter::default(),
            packets: Counter::default(),
            queues: Counter::default(),
            carried_turns: Counter::default(),
            skipped_turns: Counter::default(),
            steals: Counter::default(),
            pool_hits: Counter::default(),
            pool_refills: Counter::default(),
            pool_spills: Counter::default(),
            pool_empty: Counter::default(),
            pool_retries: Counter::default(),
            step_receive: Counter::default(),
            step_pipeline: Counter::default(),
            step_transmit: Counter::default(),
            sampled_packets: Counter::default(),
            sleeping: AtomicBool::new(false),
            step: Padded::default(),
            ports: (0..=max_ports).map(|_| Padded::default()).collect(),
            latencies: (0..max_ports).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Number of ports. Handoff queues have numbers from this on.
    pub(crate) fn max_ports(&self) -> usize {
        self.ports.len() - 1
    }

    /// Counters of a port; all handoff queues share one entry.
    #[inline(always)]
    pub(crate) fn port(&self, port: PortId) -> &PortCounters {
        &self.ports[usize::from(port.0).min(self.max_ports())]
    }

    /// Allocates the histogram of a port. Must be called before packets for it are counted.
    pub(crate) fn open_latency(&self, port: PortId) {
        if let Some(slot) = self.latencies.get(usize::from(port.0)) {
            slot.get_or_init(Box::default);
        }
    }

    /// The histogram of a port.
    pub(crate) fn latency(&self, port: PortId) -> Option<&LatencyCounters> {
        self.latencies.get(usize::from(port.0))?.get().map(|counters| &**counters)
    }

    /// Counts `packets` packets that were sent to a port `ns` nanoseconds after they were received.
    pub(crate) fn count_latency(&self, port: PortId, ns: u64, packets: u64) {
        if let Some(counters) = self.latency(port) {
            counters.add(ns, packets);
        }
    }

    /// Counts a ring of a port in which `entries` are with the peer.
    pub(crate) fn count_depth(&self, port: PortId, entries: usize) {
        if let Some(counters) = self.latency(port) {
            counters.add_depth(entries as u64);
        }
    }

    /// Adds counts of a buffer cache.
    pub(crate) fn count_pool(&self, news: &mem::pool::Counters) {
        self.pool_hits.add(news.hits);
        self.pool_refills.add(news.refills);
        self.pool_spills.add(news.spills);
        self.pool_empty.add(news.empty);
        self.pool_retries.add(news.retries);
    }
}
