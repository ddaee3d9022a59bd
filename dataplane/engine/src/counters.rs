//! Counters: one block per worker and port, written by that worker alone.
//!
//! A writer loads and stores without a locked instruction, because there is no other writer; a reader loads at any time
//! and adds the workers up. Reading moves a line once and disturbs the writer no further. No one sets a counter
//! back: a port that gets a number which was used before begins at what stands there.

use mem::line::Padded;
use port::{BurstStats, DropReason, PortId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A number with one writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning worker calls this.
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

/// What one worker counts for one port.
#[derive(Debug, Default)]
pub(crate) struct PortCounters {
    pub(crate) rx_packets: Counter,
    pub(crate) rx_bytes: Counter,
    pub(crate) tx_packets: Counter,
    pub(crate) tx_bytes: Counter,
    pub(crate) replicated: Counter,
    pub(crate) punted: Counter,
    pub(crate) drops: [Counter; DropReason::COUNT],
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

/// What all workers have counted for one port number so far, or for several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
    pub(crate) replicated: u64,
    pub(crate) punted: u64,
    pub(crate) drops: [u64; DropReason::COUNT],
}

impl Totals {
    /// What stands under `id` now. It never shrinks: a number that is used again counts on.
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
        }
    }
}

/// What one worker counts about itself, and for every port.
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
    /// Turns that ended with a burst carried over, and turns that a queue without credit did not get.
    pub(crate) carried_turns: Counter,
    pub(crate) skipped_turns: Counter,
    /// Bursts from queues of others.
    pub(crate) steals: Counter,
    pub(crate) pool_hits: Counter,
    pub(crate) pool_refills: Counter,
    pub(crate) pool_spills: Counter,
    pub(crate) pool_empty: Counter,
    pub(crate) pool_retries: Counter,
    pub(crate) sleeping: AtomicBool,
    /// By port, and behind them what came by handoff queues.
    pub(crate) ports: Vec<Padded<PortCounters>>,
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
            sleeping: AtomicBool::new(false),
            ports: (0..=max_ports).map(|_| Padded::default()).collect(),
        }
    }

    /// Ports that can be counted for. Handoffs have the numbers from this one on.
    pub(crate) fn max_ports(&self) -> usize {
        self.ports.len() - 1
    }

    /// Those of a port; all handoff queues have one.
    #[inline(always)]
    pub(crate) fn port(&self, port: PortId) -> &PortCounters {
        &self.ports[usize::from(port.0).min(self.max_ports())]
    }

    /// Takes over what a pool's cache did.
    pub(crate) fn count_pool(&self, news: &mem::pool::Counters) {
        self.pool_hits.add(news.hits);
        self.pool_refills.add(news.refills);
        self.pool_spills.add(news.spills);
        self.pool_empty.add(news.empty);
        self.pool_retries.add(news.retries);
    }
}
