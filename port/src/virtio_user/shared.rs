//! A transmit queue that several workers send to.
//!
//! The protocol is that of [`crate::tickets`]: under the lock a worker takes buffers for its packets and notes what their
//! headers will say, outside of it it writes headers and frames, and under the lock again they are posted, in the order
//! of the tickets. So buffers go out in the order in which they were taken, as in-order rings must see them. A buffer
//! that was taken is that worker's until it is posted, and so are its header and what is linked behind it.

use super::buffers::Buffers;
use super::offloads::{Words, words};
use super::tx::{Core, Place, work_of_buffers};
use crate::tickets::{Ticket, Tickets};
use crate::{BURST, Burst, DropReason, Tally};
use mem::copy::Kernel;
use ring::RingFault;
use ring::driver::DriverRing;
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, fence};
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

/// A packet, the buffer that it begins in, and what has to be written into the header there.
struct Work {
    pick: u8,
    id: u16,
    header: Option<Words>,
}

/// One worker's handle.
pub(super) struct Shared<R, K> {
    common: Arc<Mutex<Common<R>>>,
    buffers: Buffers,
    work: Vec<Work>,
    /// The buffers behind the first of each packet that spans several, packet by packet.
    behind: Vec<u16>,
    kernel: PhantomData<K>,
}

impl<R: DriverRing, K: Kernel> Shared<R, K> {
    pub(super) fn new(core: Core<R>) -> Self {
        let buffers = core.buffers.clone();
        let size = core.size();
        let common = Common { core, tickets: Tickets::new() };
        Self::over(Arc::new(Mutex::new(common)), buffers, size)
    }

    pub(super) fn another(&self) -> Self {
        let size = self.lock().core.size();
        Self::over(self.common.clone(), self.buffers.clone(), size)
    }

    fn over(common: Arc<Mutex<Common<R>>>, buffers: Buffers, size: usize) -> Self {
        let work = Vec::with_capacity(BURST);
        // No buffer is behind two.
        let behind = Vec::with_capacity(size);
        Self { common, buffers, work, behind, kernel: PhantomData }
    }

    /// Whether the back end wants a kick. Another worker may have published behind this worker's fence, so there is one under
    /// the lock that both publish under.
    pub(super) fn should_kick(&self) -> bool {
        let mut common = self.lock();
        // Pairs with the fence of a back end between enabling kicks and looking at the ring again.
        fence(Ordering::SeqCst);
        common.core.ring.should_kick()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Common<R>> {
        self.common.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tx(&mut self, burst: &Burst, picks: &[u8], tally: &mut Tally) -> Result<usize, RingFault> {
        let reserved = self.reserve(burst, picks, tally);
        if reserved.is_err() {
            self.work.clear();
            self.behind.clear();
        }
        let (ticket, done) = reserved?;
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
        let mut behind = self.behind.drain(..);
        for Work { pick, id, header } in self.work.drain(..) {
            let (frame, len) = (burst.frame(pick as usize), burst.frame_len(pick as usize));
            if let Some(header) = header {
                self.buffers.set_words(id, header);
            }
            if len <= self.buffers.room() {
                self.buffers.fill::<K, false>(id, (burst, pick.into()), len);
            } else {
                let more = self.buffers.count(len) - 1;
                self.buffers.fill_several::<K>(id, behind.by_ref().take(more), &frame);
            }
            parcel.push((id, len));
            tally.packets += 1;
            tally.bytes += len as u64;
        }
        drop(behind);
        let Common { core, tickets } = &mut *self.lock();
        tickets.deliver(ticket, parcel, |(id, len)| core.post(id, len));
        core.ring.publish();
        core.prepare()
    }

    /// Takes buffers and a ticket, and says how many picks are done with. Without a buffer there is no ticket. After a
    /// fault nothing is sent, and the ring is of no use any more.
    fn reserve(
        &mut self,
        burst: &Burst,
        picks: &[u8],
        tally: &mut Tally,
    ) -> Result<(Option<Reserved>, usize), RingFault> {
        let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        common.core.gather(picks.len())?;
        let core = &mut common.core;
        let (mut done, marked) = (0, burst.has_offloads() || core.headers.are_marked());
        for &pick in picks {
            let (frame, len) = (burst.frame(pick as usize), burst.frame_len(pick as usize));
            let place = if len <= self.buffers.room() {
                core.take().map_or(Place::Full, Place::At)
            } else {
                core.take_several(len, picks.len() - done - 1)?
            };
            match place {
                Place::At(id) => {
                    let header = if marked { core.headers.change(id, words(&frame)) } else { None };
                    tally.work += work_of_buffers(self.buffers.count(len));
                    self.behind.extend(core.links.behind(id));
                    self.work.push(Work { pick, id, header });
                }
                Place::TooSmall => tally.drop(DropReason::BufferTooSmall, 1),
                Place::Full => break,
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
    use crate::vhost::Features;
    use crate::vhost::message::ProtocolFeatures;
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
