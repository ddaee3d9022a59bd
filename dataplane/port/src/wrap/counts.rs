//! Fault counters for display. Updated by workers, read by the control thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// Fault event of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultEvent {
    Dropped,
    Duplicated,
    Reordered,
    Corrupted,
    Delayed,
    /// The hold was full: the packet was not delayed or not duplicated.
    HoldFull,
    /// The packet was delayed, and the queue was full when it was due.
    LostLate,
}

const KINDS: usize = 7;
const IN: [&str; KINDS] = [
    "fault-in-dropped",
    "fault-in-duplicated",
    "fault-in-reordered",
    "fault-in-corrupted",
    "fault-in-delayed",
    "fault-in-hold-full",
    "fault-in-lost-late",
];
const OUT: [&str; KINDS] = [
    "fault-out-dropped",
    "fault-out-duplicated",
    "fault-out-reordered",
    "fault-out-corrupted",
    "fault-out-delayed",
    "fault-out-hold-full",
    "fault-out-lost-late",
];

/// Counters of one direction.
#[derive(Debug)]
pub(super) struct Counts {
    names: &'static [&'static str; KINDS],
    counts: [AtomicU64; KINDS],
}

impl Counts {
    pub(super) fn inward() -> Self {
        Self { names: &IN, counts: Default::default() }
    }

    pub(super) fn outward() -> Self {
        Self { names: &OUT, counts: Default::default() }
    }

    pub(super) fn add(&self, event: FaultEvent, n: u64) {
        if n > 0 {
            self.counts[event as usize].fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Non-zero counters by name.
    pub(super) fn details(&self) -> impl Iterator<Item = (&'static str, String)> {
        let read = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        self.names.iter().zip(read).filter(|(_, n)| *n > 0).map(|(name, n)| (*name, n.to_string()))
    }
}
