//! The end of a hop that packets come out of: a receive queue like that of any port.
//!
//! Parcels are taken out of the ring a unit at a time into private memory, and the ring's places are free again at once. From
//! there they go into bursts, a run of one origin and destination each. A burst owns its buffers until it is completed.

use super::alarm::Alarm;
use super::parcel::Parcel;
use super::store;
use mem::pool::Pool;
use port::{BURST, Burst, PortFault, RxQueue, Tally};
use ring::spsc::Consumer;
use rustix::fd::BorrowedFd;
use std::collections::VecDeque;
use std::sync::Arc;

/// Where a stage takes what another one has put.
pub(crate) struct Receiver {
    ring: Consumer<Parcel>,
    /// Taken out of the ring, oldest first.
    taken: VecDeque<Parcel>,
    /// Parcels that are taken out at once.
    unit: usize,
    alarm: Arc<Alarm>,
    pool: Arc<Pool>,
}

impl Receiver {
    pub(super) fn new(ring: Consumer<Parcel>, alarm: Arc<Alarm>, unit: usize, pool: Arc<Pool>) -> Self {
        Self { ring, taken: VecDeque::with_capacity(unit), unit, alarm, pool }
    }

    #[inline]
    fn take(&mut self) {
        self.taken.extend(self.ring.drain(self.unit));
    }

    /// Parcels in the ring.
    #[cfg(all(test, not(loom)))]
    pub(super) fn waiting(&mut self) -> usize {
        self.ring.ready(usize::MAX)
    }

    /// The parcels behind the first of a packet: they were published with it.
    #[inline]
    fn following(&mut self) -> Option<Parcel> {
        if self.taken.is_empty() {
            self.take();
        }
        self.taken.pop_front()
    }

    /// Puts the packet in front into the burst, which has room.
    #[inline]
    fn load(&mut self, burst: &mut Burst, tally: &mut Tally) {
        let Some(Parcel { buffer, offload, more, .. }) = self.taken.pop_front() else { return };
        buffer.seg().prefetch_read(0);
        buffer.seg().prefetch_read(64);
        let i = burst.len();
        let rest =
            std::iter::from_fn(|| self.following()).take(usize::from(more)).map(|parcel| parcel.buffer);
        if burst.push_cargo(buffer, rest).is_ok() {
            burst.set_offload(i, offload);
            tally.packets += 1;
            tally.bytes += burst.frame_len(i) as u64;
        }
    }
}

impl RxQueue for Receiver {
    fn prefetch(&self) {}

    /// One run of packets with the same origin and destination.
    fn rx(&mut self, burst: &mut Burst, tally: &mut Tally) -> Result<(), PortFault> {
        if self.taken.is_empty() {
            self.take();
        }
        let Some(route) = self.taken.front().map(Parcel::route) else { return Ok(()) };
        burst.set_route(route);
        let most = self.unit.min(BURST);
        while burst.len() < most && self.taken.front().is_some_and(|parcel| parcel.route() == route) {
            self.load(burst, tally);
            // Long packets are several parcels each, so a unit of those is less than one of packets.
            if self.taken.is_empty() && burst.len() < most {
                self.take();
            }
        }
        Ok(())
    }

    fn complete(&mut self, burst: &Burst) {
        store::with(|cache| cache.free_all(burst.unload()));
    }

    /// The sender finds places by itself.
    fn notify(&mut self) {}

    fn arm(&mut self) -> Result<bool, PortFault> {
        self.alarm.set();
        Ok(!self.taken.is_empty() || self.ring.ready(1) > 0)
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

    fn base(&self) -> u32 {
        0
    }
}

impl Drop for Receiver {
    /// Whichever thread drops it gives the buffers back.
    fn drop(&mut self) {
        let mut cache = self.pool.cache();
        cache.free_all(self.taken.drain(..).chain(self.ring.drain(usize::MAX)).map(|parcel| parcel.buffer));
    }
}
