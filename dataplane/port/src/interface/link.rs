//! Link state of an interface: set by the control side, read by transmit queues once per burst.
//!
//! The kernel accepts packets for an interface without carrier and discards them, and an `AF_XDP` ring of an interface
//! that is down fills up. The state is a hint for counting, so it is stored and loaded `Relaxed`.

use crate::{BurstStats, DropReason};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether an interface is up and has carrier.
#[derive(Clone, Debug)]
pub(crate) struct LinkState(Arc<AtomicBool>);

impl Default for LinkState {
    /// Up until the state is known.
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl LinkState {
    pub(crate) fn set(&self, is_up: bool) {
        self.0.store(is_up, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn is_up(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// If the link is down, counts `packets` as lost and returns `true`.
    #[inline(always)]
    pub(crate) fn loses(&self, packets: usize, stats: &mut BurstStats) -> bool {
        let is_down = !self.is_up();
        if is_down {
            stats.drop(DropReason::PortDown, packets as u64);
        }
        is_down
    }
}
