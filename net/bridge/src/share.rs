//! A port's share of the station table: what it may teach, what it has taught, and when its answers went stale.
//!
//! Counts are written under the table's lock only, so that plain stores do. The change counter has a line of its own:
//! workers read it for every burst, also for the ports they send to, and a port that learns many stations must not take
//! that line away from them.

use super::bucket::Entry;
use mem::line::Padded;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

#[derive(Default)]
pub(super) struct Share {
    /// Changes that can make a remembered answer wrong: a station left this port, or became static here.
    changes: Padded<AtomicU64>,
    limit: AtomicU32,
    learned: AtomicU32,
    pinned: AtomicU32,
    /// Stations last seen before this second are free to move.
    released: AtomicU32,
    trusted: AtomicBool,
}

/// A port's share, for people.
pub(super) struct ShareCount {
    pub(super) limit: u32,
    pub(super) learned: u32,
    pub(super) pinned: u32,
}

impl Share {
    /// The number to remember answers with. Must be read before the look-up.
    #[inline(always)]
    pub(super) fn changes(&self) -> u64 {
        // Pairs with the Release in `changed`.
        self.changes.load(Ordering::Acquire)
    }

    /// Invalidates every remembered answer that involves this port. The caller holds the lock.
    pub(super) fn changed(&self) {
        // Pairs with the Acquire in `changes`.
        self.changes.store(self.changes.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// Sets the port's limit and whether it is trusted. The caller holds the lock.
    pub(super) fn open(&self, limit: u32, trusted: bool) {
        self.limit.store(limit, Ordering::Relaxed);
        self.trusted.store(trusted, Ordering::Relaxed);
        self.released.store(0, Ordering::Relaxed);
    }

    pub(super) fn is_trusted(&self) -> bool {
        self.trusted.load(Ordering::Relaxed)
    }

    pub(super) fn at_limit(&self) -> bool {
        self.learned.load(Ordering::Relaxed) >= self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn learned(&self) -> u32 {
        self.learned.load(Ordering::Relaxed)
    }

    /// Whether no station is left here, learned or static.
    pub(super) fn is_empty(&self) -> bool {
        self.learned() + self.pinned.load(Ordering::Relaxed) == 0
    }

    /// Lets every station that was seen here up to `second` move to another port.
    pub(super) fn release(&self, second: u32) {
        self.released.store(second.saturating_add(1), Ordering::Relaxed);
    }

    /// Whether `entry`, a station of this port, was last seen before the port stopped.
    pub(super) fn has_released(&self, entry: &Entry) -> bool {
        entry.stamp < self.released.load(Ordering::Relaxed)
    }

    /// Counts a station of this port that came or went. The caller holds the lock.
    pub(super) fn count(&self, entry: &Entry, by: i32) {
        let counter = if entry.pinned { &self.pinned } else { &self.learned };
        counter.store(counter.load(Ordering::Relaxed).wrapping_add_signed(by), Ordering::Relaxed);
    }

    /// The share in numbers.
    pub(super) fn read(&self) -> ShareCount {
        let read = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
        ShareCount { limit: read(&self.limit), learned: read(&self.learned), pinned: read(&self.pinned) }
    }
}
