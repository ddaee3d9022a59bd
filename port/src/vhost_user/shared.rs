//! A transmit queue that several workers send to.
//!
//! The protocol is that of [`crate::tickets`]: under the lock a worker takes places for its packets, outside of it it
//! writes the frames, and under the lock again its used entries go to the ring, in the order of the tickets. Every
//! ticket has places, so there are never more tickets open than the ring has entries, however long a worker takes to
//! deliver its own.
//!
//! The places lie in the map that the core had when they were taken. The handle pins that map until its next
//! burst, because another worker may refresh the core meanwhile.

use super::fill::{self, Form};
use super::stock::{Core, Place, Several};
use crate::tickets::{Ticket, Tickets};
use crate::{Burst, DropReason, PortFault, Tally};
use mem::copy::Kernel;
use mem::{Map, Seg};
use ring::Token;
use ring::device::DeviceRing;
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A used entry: buffer and bytes.
type Used = (Token, u32);

/// A worker's turn to deliver, and the list for what it delivers.
type Reserved = (Ticket, Vec<Used>);

/// What all handles share.
pub(super) struct Common<R> {
    pub(super) core: Core<R>,
    tickets: Tickets<Used>,
}

/// One worker's handle.
pub(super) struct Shared<R, K> {
    common: Arc<Mutex<Common<R>>>,
    pin: Option<Arc<Map>>,
    form: Form,
    work: Vec<(u8, Work)>,
    kernel: PhantomData<K>,
}

enum Work {
    Plain(Token, Seg),
    Several(Several),
}

impl<R: DeviceRing, K: Kernel> Shared<R, K> {
    pub(super) fn new(core: Core<R>) -> Self {
        let form = core.form;
        let common = Common { core, tickets: Tickets::new() };
        Self::over(Arc::new(Mutex::new(common)), form)
    }

    pub(super) fn another(&self) -> Self {
        Self::over(self.common.clone(), self.form)
    }

    fn over(common: Arc<Mutex<Common<R>>>, form: Form) -> Self {
        Self { common, pin: None, form, work: Vec::with_capacity(crate::BURST), kernel: PhantomData }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Common<R>> {
        self.common.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the guest wants a call. Another worker may have published behind this worker's fence, and the question is
    /// asked once for all that was published: so there is a fence under the lock that both publish under, or its entries
    /// would be asked for with a suppression field that is older than they are.
    pub(super) fn should_call(&self) -> bool {
        let mut common = self.lock();
        // Pairs with the fence of a driver between enabling calls and looking at the used index again.
        fence(Ordering::SeqCst);
        common.core.ring.should_call()
    }

    /// Lets go of the old map, here and in the core.
    pub(super) fn refresh(&mut self) -> Result<(), PortFault> {
        self.pin = None;
        self.lock().core.refresh()
    }

    pub(super) fn tx(&mut self, burst: &Burst, picks: &[u8], tally: &mut Tally) -> Result<usize, PortFault> {
        let (ticket, done) = match self.reserve(burst, picks, tally) {
            Ok(reserved) => reserved,
            Err(fault) => return Err(self.abandon(fault)),
        };
        if let Some(ticket) = ticket {
            self.write(ticket, burst, tally)?;
        }
        Ok(done)
    }

    /// Writes the frames, then delivers the used entries.
    fn write(
        &mut self,
        (ticket, mut parcel): Reserved,
        burst: &Burst,
        tally: &mut Tally,
    ) -> Result<(), PortFault> {
        let form = self.form;
        let Some(map) = &self.pin else { return Ok(()) };
        for (pick, work) in &self.work {
            let (pick, len) = (usize::from(*pick), burst.frame_len(usize::from(*pick)));
            match work {
                Work::Plain(token, seg) => {
                    fill::any_plain::<K>(map, form, *seg, (burst, pick));
                    parcel.push((*token, (form.header_len + len) as u32));
                }
                Work::Several(slots) => {
                    fill::several::<K>(map, form, slots, &burst.frame(pick));
                    parcel.extend(slots.used(form.header_len + len));
                }
            }
            tally.packets += 1;
            tally.bytes += len as u64;
        }
        self.deliver((ticket, parcel))
    }

    /// Takes places and a ticket, and says how many picks are done with. Without a place there is no ticket.
    fn reserve(
        &mut self,
        burst: &Burst,
        picks: &[u8],
        tally: &mut Tally,
    ) -> Result<(Option<Reserved>, usize), PortFault> {
        let common = self.common.clone();
        let mut common = common.lock().unwrap_or_else(PoisonError::into_inner);
        if self.pin.as_ref().is_none_or(|pin| !Arc::ptr_eq(pin, common.core.map())) {
            self.pin = Some(common.core.map().clone());
        }
        let mut done = 0;
        for &pick in picks {
            let work = match common.core.take(burst.frame_len(pick as usize))? {
                Place::Plain(token, seg) => Work::Plain(token, seg),
                Place::Several(slots) => Work::Several(slots),
                Place::TooSmall => {
                    tally.drop(DropReason::BufferTooSmall, 1);
                    done += 1;
                    continue;
                }
                Place::Full => break,
            };
            self.work.push((pick, work));
            done += 1;
        }
        tally.work += common.core.take_work();
        if self.work.is_empty() {
            common.core.check_memory()?;
            return Ok((None, done));
        }
        Ok((Some(common.tickets.reserve()), done))
    }

    /// Forgets the places that were taken before `fault`; they lie in a map that is pinned no longer than this
    /// burst.
    #[cold]
    fn abandon(&mut self, fault: PortFault) -> PortFault {
        self.work.clear();
        self.lock().core.check_memory().err().unwrap_or(fault)
    }

    /// Gives the ticket back with its used entries, and publishes what is due.
    fn deliver(&mut self, (ticket, parcel): Reserved) -> Result<(), PortFault> {
        let common = self.common.clone();
        let mut common = common.lock().unwrap_or_else(PoisonError::into_inner);
        let Common { core, tickets } = &mut *common;
        for (_, work) in self.work.drain(..) {
            if let Work::Several(slots) = work {
                core.put_away(slots);
            }
        }
        tickets.deliver(ticket, parcel, |(token, len)| core.ring.push_used(token, len));
        core.ring.publish();
        let stocked = core.stock_up();
        core.check_memory().and(stocked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vhost::Features;
    use crate::vhost_user::setup::QueueSetup;
    use mem::MapCell;
    use mem::copy::Portable;
    use ring::device::Split;
    use ring::mock::{BUFFERS, Mock, Shape};

    const SIZE: u16 = 4;

    /// A ring in which every buffer is on offer.
    fn full() -> (Mock, Shared<Split, Portable>) {
        let mock = Mock::new(Shape {
            packed: false,
            size: SIZE,
            in_order: false,
            event_idx: false,
            indirect: false,
        });
        for at in 0..SIZE {
            let address = BUFFERS + u64::from(at) * 256;
            mock.split_descriptor(mock.layout.descriptors, at, address, 256, ring::Descriptor::WRITE, 0);
            mock.offer(at, at);
        }
        mock.available_index(SIZE);
        let setup = QueueSetup {
            memory: Arc::new(MapCell::new(Map::new(mock.map.regions().to_vec()).unwrap())),
            size: SIZE,
            descriptors: mock.layout.descriptors,
            driver: mock.layout.driver,
            device: mock.layout.device,
            base: 0,
            features: Features(Features::VERSION_1),
            kick: None,
            call: None,
        };
        (mock, Shared::new(Core::new(&setup).unwrap()))
    }

    #[test]
    fn nothing_grows_while_a_worker_hangs_between_its_steps() {
        let (mock, mut hung) = full();
        let mut other = hung.another();
        let (mut burst, mut tally) = (Burst::new(), Tally::default());
        burst.begin(0);
        assert!(burst.push_own(&[7; 60]));
        let (ticket, done) = hung.reserve(&burst, &[0], &mut tally).unwrap();
        assert_eq!(done, 1);
        let sent: usize = (0..100).map(|_| other.tx(&burst, &[0], &mut tally).unwrap()).sum();
        assert_eq!((sent, mock.used_index()), (3, 0), "all wait for the oldest ticket");
        assert_eq!(other.lock().tickets.open(), usize::from(SIZE));
        hung.write(ticket.unwrap(), &burst, &mut tally).unwrap();
        assert_eq!((other.lock().tickets.open(), mock.used_index(), tally.packets), (0, SIZE, 4));
    }
}
