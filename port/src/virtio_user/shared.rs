//! A transmit queue that several workers send to.
//!
//! The protocol is that of [`crate::tickets`]: under the lock a worker takes buffers for its packets, outside of it it
//! writes the frames, and under the lock again they are posted, in the order of the tickets. So buffers go out in the
//! order in which they were taken, as in-order rings must see them.

use super::buffers::Buffers;
use super::tx::Core;
use crate::tickets::{Ticket, Tickets};
use crate::{BURST, Burst, DropReason, Tally};
use mem::copy::Kernel;
use ring::RingFault;
use ring::driver::DriverRing;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A filled buffer: identifier and bytes of frame.
type Filled = (u16, usize);

/// A worker's turn to deliver, and the list for what it delivers.
type Reserved = (Ticket, Vec<Filled>);

/// What all handles share.
pub(super) struct Common<R> {
    pub(super) core: Core<R>,
    tickets: Tickets<Filled>,
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
        let common = Common { core, tickets: Tickets::new() };
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
        let (ticket, done) = self.reserve(burst, picks, tally)?;
        if let Some(ticket) = ticket {
            self.write(ticket, burst, tally)?;
        }
        Ok(done)
    }

    /// Writes the frames, then posts and publishes what is due.
    fn write(
        &mut self,
        (ticket, mut parcel): Reserved,
        burst: &Burst,
        tally: &mut Tally,
    ) -> Result<(), RingFault> {
        for (pick, id) in self.work.drain(..) {
            let (frame, len) = (burst.frame(pick as usize), burst.frame_len(pick as usize));
            self.buffers.fill::<K>(id, &frame, len);
            parcel.push((id, len));
            tally.packets += 1;
            tally.bytes += len as u64;
        }
        let Common { core, tickets } = &mut *self.lock();
        tickets.deliver(ticket, parcel, |(id, len)| core.ring.post(core.buffers.to_send(id, len)));
        core.ring.publish();
        core.prepare()
    }

    /// Takes buffers and a ticket, and says how many picks are done with. Without a buffer there is no ticket. A fault
    /// takes nothing.
    fn reserve(
        &mut self,
        burst: &Burst,
        picks: &[u8],
        tally: &mut Tally,
    ) -> Result<(Option<Reserved>, usize), RingFault> {
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
        let ticket = (!self.work.is_empty()).then(|| common.tickets.reserve());
        Ok((ticket, done))
    }
}

#[cfg(test)]
mod tests {
    use super::super::device::Device;
    use super::super::{Negotiated, Options};
    use super::*;
    use crate::vhost_user::Features;
    use crate::vhost_user::message::ProtocolFeatures;
    use mem::copy::Portable;
    use ring::driver::Split;

    #[test]
    fn nothing_grows_while_a_worker_hangs_between_its_steps() {
        let options = Options { queue_size: 4, ..Options::default() };
        let features = Features(Features::VERSION_1);
        let protocol = ProtocolFeatures(0);
        let agreed = Negotiated { features, protocol, queue_pairs: 1, memory_slots: 1 };
        let device = Device::new(options, agreed).unwrap();
        let (_, setup) = device.pairs().next().unwrap();
        let mut hung = Shared::<Split, Portable>::new(Core::new(setup).unwrap());
        let mut other = hung.another();
        let (mut burst, mut tally) = (Burst::new(), Tally::default());
        burst.begin(0);
        assert!(burst.push_own(&[7; 60]));
        let (ticket, done) = hung.reserve(&burst, &[0], &mut tally).unwrap();
        assert_eq!(done, 1);
        let sent: usize = (0..100).map(|_| other.tx(&burst, &[0], &mut tally).unwrap()).sum();
        assert_eq!((sent, other.lock().core.ring.free()), (3, 4), "all wait for the oldest ticket");
        assert_eq!(other.lock().tickets.open(), 4);
        hung.write(ticket.unwrap(), &burst, &mut tally).unwrap();
        let common = other.lock();
        assert_eq!((common.tickets.open(), common.core.ring.free(), tally.packets), (0, 0, 4));
    }
}
