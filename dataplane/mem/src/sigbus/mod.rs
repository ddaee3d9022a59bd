//! SIGBUS handling for mappings whose file is truncated by the front end.
//!
//! Accessing a page of a truncated file raises SIGBUS, which terminates the process by default. For a range registered
//! with a [`Watch`], the handler instead maps zero pages over the whole range, marks the watch as tripped and returns,
//! so that the access is repeated and succeeds. The user of the mapping compares [`trips`] after each burst, calls
//! [`Watch::tripped`] if it changed, and stops the port of the mapping.
//!
//! Protocol: registering and unregistering take a lock; the handler takes no lock, does not allocate and reads only
//! atomics. Slots are in chunks that are published once and never freed. Each slot has a version that is odd while its
//! range changes (a seqlock). The handler uses a range only if the version is even and unchanged across the read, and
//! otherwise skips the slot: the faulting range belongs to a live watch, whose slot does not change. A slot is cleared
//! before its mapping is removed, so a later mapping at the same address is not matched.
//!
//! The tripped mark is set before the pages are replaced, so a reader of zeros from the handler also sees the mark.
//! Several threads may fault on one mapping concurrently; each replaces it, which is redundant but harmless. A system
//! call on lost memory fails with EFAULT and does not raise SIGBUS.
//!
//! The handler must not touch an address outside live watches: every other SIGBUS goes to the previous handler or the
//! default action.

mod handler;
mod table;

pub use handler::install;

/// Registers a mapping whose loss the process survives. Must be dropped before the mapping is removed.
#[derive(Debug)]
pub struct Watch {
    slot: &'static table::Slot,
}

impl Watch {
    /// Watches the `len` bytes at `start`, one or several whole mappings. Both values are aligned to the page size of
    /// the mapping. Installs the handler if needed.
    ///
    /// # Safety
    /// The caller owns the range until the watch is dropped, and its content may turn into zeros.
    pub unsafe fn new(start: usize, len: usize) -> Self {
        install();
        Self { slot: table::register(start, len) }
    }

    /// Whether the pages were lost and replaced by zero pages.
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

/// Number of losses in this process, over all mappings: one load of a rarely written line. If it changed, check
/// [`Watch::tripped`] of each own mapping.
#[inline(always)]
pub fn trips() -> u64 {
    // Acquire pairs with the Release addition in `trip`, so that the tripped mark is visible too.
    table::TRIPS.load(std::sync::atomic::Ordering::Acquire)
}

#[cfg(test)]
mod tests;
