//! Counters: one block per worker and port, written by that worker alone.
//!
//! A writer loads and stores without a locked instruction, because nobody else writes; a reader loads at any time
//! and adds the workers up. Reading moves a line once and disturbs the writer no further.

use mem::line::Padded;
use port::{DropReason, Tally};
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
    pub(crate) drops: [Counter; DropReason::COUNT],
}

impl PortCounters {
    #[inline]
    pub(crate) fn count_rx(&self, tally: &Tally) {
        self.rx_packets.add(tally.packets);
        self.rx_bytes.add(tally.bytes);
        self.count_drops(tally);
    }

    #[inline]
    pub(crate) fn count_tx(&self, tally: &Tally) {
        self.tx_packets.add(tally.packets);
        self.tx_bytes.add(tally.bytes);
        self.count_drops(tally);
    }

    #[inline]
    pub(crate) fn count_drops(&self, tally: &Tally) {
        for (counter, &n) in self.drops.iter().zip(&tally.drops) {
            if n > 0 {
                counter.add(n);
            }
        }
    }

    /// A new port begins with nothing counted.
    pub(crate) fn reset(&self) {
        for counter in [&self.rx_packets, &self.rx_bytes, &self.tx_packets, &self.tx_bytes, &self.replicated]
        {
            counter.set(0);
        }
        self.drops.iter().for_each(|d| d.set(0));
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
    pub(crate) sleeping: AtomicBool,
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
            sleeping: AtomicBool::new(false),
            ports: (0..max_ports).map(|_| Padded::default()).collect(),
        }
    }
}
