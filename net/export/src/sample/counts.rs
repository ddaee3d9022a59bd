//! Counters of sampled ports. Each worker has its own, which only it writes.

use port::PortId;
use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that could have been sampled (`sample_pool` of sFlow).
    pub seen: u64,
    /// Packets that were sampled, by purpose, including those that were dropped.
    pub sampled: [u64; 2],
    /// Samples that were dropped because a queue was full, by purpose.
    pub dropped: [u64; 2],
}

impl Counts {
    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        let pair = |a: [u64; 2], b: [u64; 2]| [f(a[0], b[0]), f(a[1], b[1])];
        Self {
            seen: f(self.seen, other.seen),
            sampled: pair(self.sampled, other.sampled),
            dropped: pair(self.dropped, other.dropped),
        }
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.zip(other, u64::wrapping_add)
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.zip(other, u64::wrapping_sub)
    }
}

/// Counters of all ports, written by one worker.
pub(super) struct LaneCounts(Box<[PortCounts]>);

#[derive(Default)]
struct PortCounts {
    seen: AtomicU64,
    sampled: [AtomicU64; 2],
    dropped: [AtomicU64; 2],
}

/// Adds without a locked instruction: the worker is the only writer.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl LaneCounts {
    pub(super) fn new(ports: usize) -> Self {
        Self(std::iter::repeat_with(PortCounts::default).take(ports).collect())
    }

    /// Counts a burst. Called by the worker.
    pub(super) fn saw(&self, port: PortId, packets: usize) {
        if let Some(counts) = self.0.get(usize::from(port.0)) {
            add(&counts.seen, packets as u64);
        }
    }

    /// Counts a sample. Called by the worker.
    pub(super) fn sampled(&self, port: PortId, purposes: [bool; 2], is_dropped: bool) {
        let Some(counts) = self.0.get(usize::from(port.0)) else { return };
        for (at, _) in purposes.iter().enumerate().filter(|(_, is_for)| **is_for) {
            add(&counts.sampled[at], 1);
            if is_dropped {
                add(&counts.dropped[at], 1);
            }
        }
    }

    pub(super) fn of(&self, port: PortId) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Some(counts) = self.0.get(usize::from(port.0)) else { return Counts::default() };
        Counts {
            seen: read(&counts.seen),
            sampled: counts.sampled.each_ref().map(read),
            dropped: counts.dropped.each_ref().map(read),
        }
    }
}
