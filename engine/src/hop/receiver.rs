//! The end of a hop that packets come out of: a receive queue like that of any port.
//!
//! Parcels go from the ring into bursts, a run of one origin and destination each, and the ring's places are free again when
//! a run is in its burst. A burst owns its buffers until it is completed.

use super::alarm::Alarm;
use super::parcel::{Parcel, Run};
use mem::pool::Pool;
use port::{BURST, Burst, PortFault, RxQueue, Tally, Token};
use ring::spsc::Consumer;
use rustix::fd::BorrowedFd;
use std::sync::Arc;

/// Where a stage takes what another one has put.
pub(crate) struct Receiver {
    ring: Consumer<Parcel>,
    /// Packets of a burst, at most.
    unit: usize,
    alarm: Arc<Alarm>,
    pool: Arc<Pool>,
}

impl Receiver {
    pub(super) fn new(ring: Consumer<Parcel>, alarm: Arc<Alarm>, unit: usize, pool: Arc<Pool>) -> Self {
        Self { ring, unit: unit.min(BURST), alarm, pool }
    }

    /// Parcels in the ring.
    #[cfg(all(test, not(loom)))]
    pub(super) fn waiting(&mut self) -> usize {
        self.ring.ready(usize::MAX)
    }

    /// Puts packets of one origin and destination into the burst. Returns whether there may be more of them.
    #[inline]
    fn load_run(&mut self, burst: &mut Burst) -> bool {
        if burst.is_empty() {
            let mut route = None;
            self.ring.count_while(1, |parcel| {
                route = Some(parcel.route());
                true
            });
            let Some(route) = route else { return false };
            burst.set_route(route);
        }
        let (route, mut more) = (burst.route(), 0);
        let run = Run::of(route);
        let n = self.ring.count_while(self.unit - burst.len(), |parcel| {
            // Of a parcel that does not belong to the run, or not only itself.
            more = if parcel.route() == route { parcel.more() } else { 0 };
            parcel.run() == run
        });
        burst.push_run(self.ring.drain(n).map(|parcel| (parcel.buffer, parcel.offload)));
        if more > 0 {
            self.load_long(burst, more);
        }
        more > 0 && burst.len() < self.unit
    }

    /// Puts the packet in front into the burst, with all of its buffers: they were published with the first.
    #[cold]
    fn load_long(&mut self, burst: &mut Burst, more: u16) {
        let Some(Parcel { buffer, offload, .. }) = self.ring.pop() else { return };
        let rest = self.ring.drain(usize::from(more)).map(|parcel| parcel.buffer);
        let i = burst.len();
        if burst.push_cargo(buffer, rest).is_ok() {
            burst.set_offload(i, offload);
        }
    }
}

impl RxQueue for Receiver {
    fn prefetch(&self) {}

    /// One run of packets with the same origin and destination.
    fn rx(&mut self, burst: &mut Burst, tally: &mut Tally) -> Result<(), PortFault> {
        while self.load_run(burst) {}
        tally.packets += burst.len() as u64;
        tally.bytes += (0..burst.len()).map(|i| burst.frame_len(i) as u64).sum::<u64>();
        Ok(())
    }

    /// Packets lie in buffers of the pool, which their burst owns.
    fn complete(&mut self, _: &[Token]) {}

    /// The sender finds places by itself.
    fn notify(&mut self) {}

    fn arm(&mut self) -> Result<bool, PortFault> {
        self.alarm.set();
        Ok(self.ring.ready(1) > 0)
    }

    fn disarm(&mut self) {
        self.alarm.stop();
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.alarm.fd())
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
        cache.free_all(self.ring.drain(usize::MAX).map(|parcel| parcel.buffer));
    }
}
