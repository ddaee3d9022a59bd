//! The end of a handoff queue that packets come out of: a receive queue like that of any port.
//!
//! Entries go from the ring into bursts, a run of one origin and destination each, and the ring's places are free again when
//! a run is in its burst. A burst owns its buffers until it is completed.

use super::doorbell::Doorbell;
use super::entry::{HandoffEntry, Run};
use mem::pool::Pool;
use port::{BURST, BufId, Burst, BurstStats, PortFault, RxQueue};
use ring::spsc::Consumer;
use rustix::fd::BorrowedFd;
use std::sync::Arc;

/// Where a stage takes what another one has put.
pub(crate) struct Receiver {
    ring: Consumer<HandoffEntry>,
    /// Packets of a burst, at most.
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

    /// Entries in the ring.
    #[cfg(all(test, not(loom)))]
    pub(super) fn waiting(&mut self) -> usize {
        self.ring.ready(usize::MAX)
    }

    /// Puts packets of one origin and destination into the burst. Returns whether there may be more of them.
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
            // Of an entry that does not belong to the run, or not only itself.
            more = if entry.route() == route { entry.more() } else { 0 };
            entry.run() == run
        });
        burst.push_run(self.ring.drain(n).map(|entry| (entry.buffer, entry.offload)));
        if more > 0 {
            self.load_long(burst, more);
        }
        more > 0 && burst.len() < self.unit
    }

    /// Puts the packet in front into the burst, with all of its buffers: they were published with the first.
    #[cold]
    fn load_long(&mut self, burst: &mut Burst, more: u16) {
        let Some(HandoffEntry { buffer, offload, .. }) = self.ring.pop() else { return };
        let rest = self.ring.drain(usize::from(more)).map(|entry| entry.buffer);
        let i = burst.len();
        if burst.push_cargo(buffer, rest).is_ok() {
            burst.set_offload(i, offload);
        }
    }
}

impl RxQueue for Receiver {
    fn prefetch(&self) {}

    /// One run of packets with the same origin and destination.
    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        while self.load_run(burst) {}
        stats.packets += burst.len() as u64;
        stats.bytes += (0..burst.len()).map(|i| burst.frame_len(i) as u64).sum::<u64>();
        Ok(())
    }

    /// Packets lie in buffers of the pool, which their burst owns.
    fn complete(&mut self, _: &[BufId]) {}

    /// The sender finds places by itself.
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

    /// The memory is the engine's own and stays as it is.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}

impl Drop for Receiver {
    /// Whichever thread drops it gives the buffers back.
    fn drop(&mut self) {
        let mut cache = self.pool.cache();
        cache.free_all(self.ring.drain(usize::MAX).map(|entry| entry.buffer));
    }
}
