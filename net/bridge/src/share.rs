//! Per-port state of the station table: limits, counts, and invalidation of cached answers.
//!
//! Counts are written only under the table lock, so plain stores suffice. The change counter is on its own cache line:
//! workers read it per burst, also for destination ports, and learning on a port must not invalidate that line.

use super::bucket::Entry;
use mem::line::Padded;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

#[derive(Default)]
pub(super) struct Share {
    /// Number of changes that invalidate cached answers: a station left this port or became static here.
    changes: Padded<AtomicU64>,
    limit: AtomicU32,
    learned: AtomicU32,
    pinned: AtomicU32,
    /// Stations last seen before this second may move.
    released: AtomicU32,
    trusted: AtomicBool,
}

/// Counts of a port, for display.
pub(super) struct ShareCount {
    pub(super) limit: u32,
    pub(super) learned: u32,
    pub(super) pinned: u32,
}

impl Share {
    /// Change count for caching answers. Must be read before the look-up.
    #[inline(always)]
    pub(super) fn changes(&self) -> u64 {
        // Pairs with the Release in `changed`.
        self.changes.load(Ordering::Acquire)
    }

    /// Invalidates all cached answers that involve this port. The caller must hold the lock.
    pub(super) fn changed(&self) {
        // Pairs with the Acquire in `changes`.
        self.changes.store(self.changes.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// Sets the limit and trust of the port. The caller must hold the lock.
    pub(super) fn open(&self, limit: u32, trusted: bool) {
        self.set_limit(limit);
        self.trusted.store(trusted, Ordering::Relaxed);
        self.released.store(0, Ordering::Relaxed);
    }

    /// Sets the number of stations that are learned. The caller must hold the lock.
    pub(super) fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::Relaxed);
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

    /// Whether the port has no stations, learned or static.
    pub(super) fn is_empty(&self) -> bool {
        self.learned() + self.pinned.load(Ordering::Relaxed) == 0
    }

    /// Allows all stations last seen here in or before `second` to move to another port.
    pub(super) fn release(&self, second: u32) {
        self.released.store(second.saturating_add(1), Ordering::Relaxed);
    }

    /// Whether `entry`, a station of this port, was last seen before the port stopped.
    pub(super) fn has_released(&self, entry: &Entry) -> bool {
        entry.stamp < self.released.load(Ordering::Relaxed)
    }

    /// Adds `by` to the station count of this port. The caller must hold the lock.
    pub(super) fn count(&self, entry: &Entry, by: i32) {
        let counter = if entry.pinned { &self.pinned } else { &self.learned };
        counter.store(counter.load(Ordering::Relaxed).wrapping_add_signed(by), Ordering::Relaxed);
    }

    /// Current limit and counts.
    pub(super) fn read(&self) -> ShareCount {
        let read = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
        ShareCount { limit: read(&self.limit), learned: read(&self.learned), pinned: read(&self.pinned) }
    }
}
