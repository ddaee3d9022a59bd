//! A receive queue whose packets are inspected, and may be changed or dropped, before the engine has them.

use crate::{Burst, BurstStats, PortFault, QueueState, RxQueue};
use ring::BufId;
use rustix::fd::BorrowedFd;

/// Inspects the bursts of one queue.
pub trait Inspect: Send {
    /// Inspects a burst that is not empty. Dropped packets count in `stats`. Must not wait.
    fn inspect(&mut self, burst: &mut Burst, stats: &mut BurstStats);
}

/// A receive queue with an inspector.
pub struct InspectRx<I> {
    inner: Box<dyn RxQueue>,
    inspector: I,
}

impl<I: Inspect> InspectRx<I> {
    /// Inspects what `inner` receives.
    pub fn new(inner: Box<dyn RxQueue>, inspector: I) -> Self {
        Self { inner, inspector }
    }
}

impl<I: Inspect> RxQueue for InspectRx<I> {
    fn prefetch(&self) {
        self.inner.prefetch();
    }

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        let taken = self.inner.rx(burst, stats);
        if !burst.is_empty() {
            self.inspector.inspect(burst, stats);
        }
        taken
    }

    fn complete(&mut self, buffers: &[BufId]) {
        self.inner.complete(buffers);
    }

    fn notify(&mut self) {
        self.inner.notify();
    }

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        self.inner.enable_notification()
    }

    fn disable_notification(&mut self) {
        self.inner.disable_notification();
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.kick_fd()
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        self.inner.refresh()
    }

    fn freeze(self: Box<Self>) -> QueueState {
        self.inner.freeze()
    }

    fn is_bound(&self) -> bool {
        self.inner.is_bound()
    }
}
