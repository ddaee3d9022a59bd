//! Receiver of a handoff queue: a receive queue like that of a port.
//!
//! Entries are moved from the ring into bursts, one run with the same origin and destination each. Ring entries are
//! free once their run is in a burst. A burst owns its buffers until it is completed.

use super::doorbell::Doorbell;
use super::entry::{HandoffEntry, Run};
use mem::pool::Pool;
use port::{BURST, BufId, Burst, BurstStats, PortFault, RxQueue};
use ring::spsc::Consumer;
use rustix::fd::BorrowedFd;
use std::sync::Arc;

/// Receives packets from the previous stage.
pub(crate) struct Receiver {
    ring: Consumer<HandoffEntry>,
    /// Maximum number of packets in a burst.
    unit: usize,
    doorbell: Arc<Doorbell>,
    pool: Arc<Pool>,
}

impl Receiver {
    pub(super) fn new(
        ring: Consumer<HandoffEntry>,
        doorbell: Arc<Doorbell>,
        unit: usize,
        pool: Arc<Pool>,
    ) -> Self {
        Self { ring, unit: unit.min(BURST), doorbell, pool }
    }

    /// Number of entries in the ring.
    #[cfg(all(test, not(loom)))]
    pub(super) fn waiting(&mut self) -> usize {
        self.ring.ready(usize::MAX)
    }

    /// Adds packets of one origin and destination to the burst. Returns whether there may be more of them.
    #[inline]
    fn load_run(&mut self, burst: &mut Burst) -> bool {
        if burst.is_empty() {
            let mut route = None;
            self.ring.count_while(1, |entry| {
                route = Some(entry.route());
                true
            });
            let Some(route) = route else { return false };
            burst.set_route(route);
        }
        let (route, mut more) = (burst.route(), 0);
        let run = Run::of(route);
        let n = self.ring.count_while(self.unit - burst.len(), |entry| {
            // Number of further entries of a multi-buffer packet of this run; 0 if the next entry belongs to another
            // run.
            more = if entry.route() == route { entry.more() } else { 0 };
            entry.run() == run
        });
        burst.push_run(self.ring.drain(n).map(|entry| (entry.buffer, entry.offload)));
        if more > 0 {
            self.load_long(burst, more);
        }
        more > 0 && burst.len() < self.unit
    }

    /// Adds the next packet to the burst with all its buffers, which were published together.
    #[cold]
    fn load_long(&mut self, burst: &mut Burst, more: u16) {
        let Some(HandoffEntry { buffer, offload, .. }) = self.ring.pop() else { return };
        let rest = self.ring.drain(usize::from(more)).map(|entry| entry.buffer);
        let i = burst.len();
        if burst.push_buffers(buffer, rest).is_ok() {
            burst.set_offload(i, offload);
        }
    }
}

impl RxQueue for Receiver {
    fn prefetch(&self) {}

    /// Receives one run of packets with the same origin and destination.
    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        while self.load_run(burst) {}
        stats.packets += burst.len() as u64;
        stats.bytes += (0..burst.len()).map(|i| burst.frame_len(i) as u64).sum::<u64>();
        Ok(())
    }

    /// Buffers belong to the burst, which returns them to the pool.
    fn complete(&mut self, _: &[BufId]) {}

    /// The sender reads free room from the ring itself.
    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        self.doorbell.set();
        Ok(self.ring.ready(1) > 0)
    }

    fn disable_notification(&mut self) {
        self.doorbell.stop();
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.doorbell.fd())
    }

    /// The memory belongs to the engine and does not change.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}

impl Drop for Receiver {
    /// Returns the remaining buffers to the pool, from any thread.
    fn drop(&mut self) {
        let mut cache = self.pool.cache();
        cache.free_all(self.ring.drain(usize::MAX).map(|entry| entry.buffer));
    }
}
