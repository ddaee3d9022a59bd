//! A transmit queue that several workers send to.
//!
//! Protocol, three steps a burst, as in `vhost_user/shared.rs`. Under the lock a worker takes buffers for its
//! packets and a ticket. Outside the lock it writes the frames; buffers of different tickets are different ones.
//! Under the lock it delivers them; whoever delivers the oldest open ticket posts and publishes its buffers and
//! those of all delivered tickets behind it, so that buffers go out in the order in which they were taken, as
//! in-order rings must see them. No lock is taken per packet, none is held while copying, and nobody waits for
//! another worker's copy.

use super::buffers::Buffers;
use super::tx::Core;
use crate::{BURST, Burst, DropReason, Tally};
use mem::copy::Kernel;
use ring::RingFault;
use ring::driver::DriverRing;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Filled buffers: identifier and bytes of frame.
type Parcel = Vec<(u16, usize)>;

/// What all handles share.
pub(super) struct Common<R> {
    pub(super) core: Core<R>,
    /// Filled buffers by ticket, oldest first; `None` while the worker still copies.
    parcels: VecDeque<Option<Parcel>>,
    /// The ticket at the front of `parcels`.
    oldest: u64,
    spare: Vec<Parcel>,
}

/// One worker's handle.
pub(super) struct Shared<R, K> {
    common: Arc<Mutex<Common<R>>>,
    buffers: Buffers,
    /// Which packet goes into which buffer.
    work: Vec<(u8, u16)>,
    kernel: PhantomData<K>,
}

impl<R: DriverRing, K: Kernel> Shared<R, K> {
    pub(super) fn new(core: Core<R>) -> Self {
        let buffers = core.buffers.clone();
        let common = Common { core, parcels: VecDeque::new(), oldest: 0, spare: Vec::new() };
        Self::over(Arc::new(Mutex::new(common)), buffers)
    }

    pub(super) fn another(&self) -> Self {
        Self::over(self.common.clone(), self.buffers.clone())
    }

    fn over(common: Arc<Mutex<Common<R>>>, buffers: Buffers) -> Self {
        Self { common, buffers, work: Vec::with_capacity(BURST), kernel: PhantomData }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Common<R>> {
        self.common.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tx(&mut self, burst: &Burst, picks: &[u8], tally: &mut Tally) -> Result<usize, RingFault> {
        let (ticket, done, mut parcel) = self.reserve(burst, picks, tally)?;
        for (pick, id) in self.work.drain(..) {
            let (frame, len) = (burst.frame(pick as usize), burst.frame_len(pick as usize));
            self.buffers.fill::<K>(id, &frame, len);
            parcel.push((id, len));
            tally.packets += 1;
            tally.bytes += len as u64;
        }
        let mut common = self.lock();
        common.deliver(ticket, parcel);
        common.core.prepare()?;
        Ok(done)
    }

    /// Step one: buffers and a ticket. A fault takes nothing.
    fn reserve(
        &mut self,
        burst: &Burst,
        picks: &[u8],
        tally: &mut Tally,
    ) -> Result<(u64, usize, Parcel), RingFault> {
        let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        common.core.gather(picks.len())?;
        let mut done = 0;
        for &pick in picks {
            if burst.frame_len(pick as usize) > self.buffers.room() {
                tally.drop(DropReason::BufferTooSmall, 1);
            } else if let Some(id) = common.core.take() {
                self.work.push((pick, id));
            } else {
                break;
            }
            done += 1;
        }
        let ticket = common.oldest + common.parcels.len() as u64;
        common.parcels.push_back(None);
        let parcel = common.spare.pop().unwrap_or_default();
        Ok((ticket, done, parcel))
    }
}

impl<R: DriverRing> Common<R> {
    /// Step three: what was filled, in the order of the tickets.
    fn deliver(&mut self, ticket: u64, parcel: Parcel) {
        let at = (ticket - self.oldest) as usize;
        self.parcels[at] = Some(parcel);
        while let Some(Some(_)) = self.parcels.front() {
            let Some(Some(mut parcel)) = self.parcels.pop_front() else { break };
            self.oldest += 1;
            for (id, len) in parcel.drain(..) {
                self.core.ring.post(self.core.buffers.to_send(id, len));
            }
            self.spare.push(parcel);
        }
        self.core.ring.publish();
    }
}
