//! The end of a hop that packets come out of: a receive queue like that of any port.
//!
//! Parcels go from the ring into bursts, a run of one origin and destination each, and the ring's places are free again when
//! a run is in its burst. The parcel that ends a run is kept here until the next one. A burst owns its buffers until it is
//! completed.

use super::alarm::Alarm;
use super::parcel::Parcel;
use mem::pool::{Buffer, Pool};
use port::{BURST, Burst, Offload, PortFault, RxQueue, Tally, Token};
use ring::spsc::Consumer;
use rustix::fd::BorrowedFd;
use std::sync::Arc;

/// Where a stage takes what another one has put.
pub(crate) struct Receiver {
    ring: Consumer<Parcel>,
    /// Taken out of the ring, and the first of the next burst.
    held: Option<Parcel>,
    /// Packets of a burst, at most.
    unit: usize,
    alarm: Arc<Alarm>,
    pool: Arc<Pool>,
}

impl Receiver {
    pub(super) fn new(ring: Consumer<Parcel>, alarm: Arc<Alarm>, unit: usize, pool: Arc<Pool>) -> Self {
        Self { ring, held: None, unit: unit.min(BURST), alarm, pool }
    }

    /// Parcels in the ring.
    #[cfg(all(test, not(loom)))]
    pub(super) fn waiting(&mut self) -> usize {
        self.ring.ready(usize::MAX)
    }

    /// Puts packets of one buffer each into the burst, as many as there are of one origin and destination. Whether it
    /// ended at a longer one that belongs to the same run; that one is held.
    #[inline]
    fn load_run(&mut self, burst: &mut Burst) -> bool {
        let mut parcels = self.ring.drain(self.unit);
        let Some(mut parcel) = self.held.take().or_else(|| parcels.next()) else { return false };
        if burst.is_empty() {
            burst.set_route(parcel.route());
        }
        let route = burst.route();
        while parcel.more == 0 && parcel.route() == route {
            load(burst, (parcel.buffer, parcel.offload), std::iter::empty());
            if burst.len() == self.unit {
                return false;
            }
            let Some(next) = parcels.next() else { return false };
            parcel = next;
        }
        let belongs = parcel.route() == route;
        self.held = Some(parcel);
        belongs
    }

    /// Puts the packet that is held into the burst, with all of its buffers: they were published with the first.
    #[cold]
    fn load_long(&mut self, burst: &mut Burst) {
        let Some(Parcel { buffer, offload, more, .. }) = self.held.take() else { return };
        let rest = self.ring.drain(usize::from(more)).map(|parcel| parcel.buffer);
        load(burst, (buffer, offload), rest);
    }
}

/// Puts a packet into the burst, which has room.
#[inline(always)]
fn load(burst: &mut Burst, (buffer, offload): (Buffer, Offload), rest: impl Iterator<Item = Buffer>) {
    buffer.seg().prefetch_read(0);
    buffer.seg().prefetch_read(64);
    let i = burst.len();
    if burst.push_cargo(buffer, rest).is_ok() {
        burst.set_offload(i, offload);
    }
}

impl RxQueue for Receiver {
    fn prefetch(&self) {}

    /// One run of packets with the same origin and destination.
    fn rx(&mut self, burst: &mut Burst, tally: &mut Tally) -> Result<(), PortFault> {
        while self.load_run(burst) {
            self.load_long(burst);
            if burst.len() == self.unit {
                break;
            }
        }
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
        Ok(self.held.is_some() || self.ring.ready(1) > 0)
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
        let held = self.held.take().into_iter();
        cache.free_all(held.chain(self.ring.drain(usize::MAX)).map(|parcel| parcel.buffer));
    }
}
