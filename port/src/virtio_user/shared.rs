//! A transmit queue that several workers send to.
//!
//! Protocol, three steps a burst, as in `vhost_user/shared.rs`. Under the lock a worker takes buffers for its
//! packets and a ticket. Outside the lock it writes the frames; buffers of different tickets are different ones.
//! Under the lock it delivers them; whoever delivers the oldest open ticket posts and publishes its buffers and
//! those of all delivered tickets behind it, so that buffers go out in the order in which they were taken, as
//! in-order rings must see them. No lock is taken per packet, none is held while copying, and nobody waits for
//! another worker's copy. Every ticket has buffers, so there are never more tickets open than the ring has entries.

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

/// A worker's turn to deliver, and the list for what it delivers.
struct Ticket {
    number: u64,
    parcel: Parcel,
}

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
        let (ticket, done) = self.reserve(burst, picks, tally)?;
        if let Some(ticket) = ticket {
            self.write(ticket, burst, tally)?;
        }
        Ok(done)
    }

    /// Steps two and three: frames, then their delivery.
    fn write(&mut self, mut ticket: Ticket, burst: &Burst, tally: &mut Tally) -> Result<(), RingFault> {
        for (pick, id) in self.work.drain(..) {
            let (frame, len) = (burst.frame(pick as usize), burst.frame_len(pick as usize));
            self.buffers.fill::<K>(id, &frame, len);
            ticket.parcel.push((id, len));
            tally.packets += 1;
            tally.bytes += len as u64;
        }
        let mut common = self.lock();
        common.deliver(ticket);
        common.core.prepare()
    }

    /// Step one: buffers and a ticket, and how many picks are done with. Without a buffer there is no ticket. A fault
    /// takes nothing.
    fn reserve(
        &mut self,
        burst: &Burst,
        picks: &[u8],
        tally: &mut Tally,
    ) -> Result<(Option<Ticket>, usize), RingFault> {
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
        let ticket = (!self.work.is_empty()).then(|| common.ticket());
        Ok((ticket, done))
    }
}

impl<R: DriverRing> Common<R> {
    /// The next ticket. Its buffers were taken under the same lock.
    fn ticket(&mut self) -> Ticket {
        let number = self.oldest + self.parcels.len() as u64;
        self.parcels.push_back(None);
        Ticket { number, parcel: self.spare.pop().unwrap_or_default() }
    }

    /// Step three: what was filled, in the order of the tickets.
    fn deliver(&mut self, ticket: Ticket) {
        let at = (ticket.number - self.oldest) as usize;
        self.parcels[at] = Some(ticket.parcel);
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
        assert_eq!(other.lock().parcels.len(), 4);
        hung.write(ticket.unwrap(), &burst, &mut tally).unwrap();
        let common = other.lock();
        assert_eq!((common.parcels.len(), common.core.ring.free(), tally.packets), (0, 0, 4));
    }
}
