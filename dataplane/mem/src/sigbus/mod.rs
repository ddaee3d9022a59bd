//! Surviving a front end that cuts its file short.
//!
//! Touching a page of a mapping whose file has been truncated raises SIGBUS, and by default that ends the
//! process. A [`Watch`] names a mapping for which it must not: the handler puts zero pages of our own in the
//! place of the whole mapping, remembers that it did, and returns, so that the access is repeated and succeeds.
//! The user of the mapping compares [`trips`] after each burst, asks [`Watch::tripped`] when it has moved, and
//! stops the port that the mapping belongs to.
//!
//! Protocol: registering and unregistering take a lock; the handler takes none, allocates nothing and reads
//! atomics only. Slots live in chunks that are published once and never freed. Each slot carries a version
//! that is odd while its range changes; the handler takes a range only if the version is even and the same
//! before and after, and otherwise passes the slot by: the range at fault belongs to a living watch, and the
//! slot of a living watch does not change. A slot is withdrawn before its mapping goes, so a later mapping at
//! the same address is never taken for the old one.
//!
//! The trip mark is set before the pages change: a reader of zeros that stem from the handler finds the mark.
//! Several threads may fault on one mapping at once; each replaces it, which costs time and changes nothing.
//! A system call that is handed such memory fails with EFAULT instead and never comes here.
//!
//! This module must never touch an address that no living watch covers: every other SIGBUS goes to the
//! handler that was there before, or to the default action.

mod handler;
mod table;

pub use handler::install;

/// A mapping whose loss this process survives, until the watch is dropped. Drop it before the mapping goes.
#[derive(Debug)]
pub struct Watch {
    slot: &'static table::Slot,
}

impl Watch {
    /// Watches the `len` bytes from address `start`, which are one whole mapping or several: both page
    /// aligned, to the mapping's own page size where it has huge pages. Installs the handler if need be.
    ///
    /// # Safety
    /// The range belongs to the caller until the watch is dropped, and everything in it may turn into zeros.
    pub unsafe fn new(start: usize, len: usize) -> Self {
        install();
        Self { slot: table::register(start, len) }
    }

    /// Whether the pages were lost and are zeros of our own now.
    #[inline]
    pub fn tripped(&self) -> bool {
        self.slot.tripped()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        table::unregister(self.slot);
    }
}

/// How many losses there were in this process, of any mapping: one load of a line that is hardly ever written.
/// A user that finds a changed number checks each of its own mappings.
#[inline(always)]
pub fn trips() -> u64 {
    // Acquire pairs with the Release addition in `trip`, so that the mark of the mapping is seen too.
    table::TRIPS.load(std::sync::atomic::Ordering::Acquire)
}

#[cfg(test)]
mod tests;
