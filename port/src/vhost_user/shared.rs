//! A transmit queue that several workers send to.
//!
//! The protocol is that of [`crate::tickets`]: under the lock a worker takes places for its packets, outside of it it
//! writes the frames, and under the lock again its used entries go to the ring, in the order of the tickets.
//!
//! The places lie in the map that the core had when they were taken. The handle pins that map until its next
//! burst, because another worker may refresh the core meanwhile.

use super::fill;
use super::stock::{Core, Place, Several};
use crate::tickets::{Ticket, Tickets};
use crate::{Burst, DropReason, PortFault, Tally};
use mem::copy::Kernel;
use mem::{Map, Seg};
use ring::Token;
use ring::device::DeviceRing;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A used entry: buffer and bytes.
type Used = (Token, u32);

/// What all handles share.
pub(super) struct Common<R> {
    pub(super) core: Core<R>,
    tickets: Tickets<Used>,
}

/// One worker's handle.
pub(super) struct Shared<R, K> {
    common: Arc<Mutex<Common<R>>>,
    pin: Option<Arc<Map>>,
    header_len: usize,
    work: Vec<(u8, Work)>,
    kernel: PhantomData<K>,
}

enum Work {
    Plain(Token, Seg),
    Several(Several),
}

impl<R: DeviceRing, K: Kernel> Shared<R, K> {
    pub(super) fn new(core: Core<R>) -> Self {
        let header_len = core.header_len;
        let common = Common { core, tickets: Tickets::new() };
        Self::over(Arc::new(Mutex::new(common)), header_len)
    }

    pub(super) fn another(&self) -> Self {
        Self::over(self.common.clone(), self.header_len)
    }

    fn over(common: Arc<Mutex<Common<R>>>, header_len: usize) -> Self {
        Self { common, pin: None, header_len, work: Vec::with_capacity(crate::BURST), kernel: PhantomData }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Common<R>> {
        self.common.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the old map, here and in the core.
    pub(super) fn refresh(&mut self) -> Result<(), PortFault> {
        self.pin = None;
        self.lock().core.refresh()
    }

    pub(super) fn tx(&mut self, burst: &Burst, picks: &[u8], tally: &mut Tally) -> Result<usize, PortFault> {
        let (ticket, done, mut parcel) = match self.reserve(burst, picks, tally) {
            Ok(reserved) => reserved,
            Err(fault) => return Err(self.abandon(fault)),
        };
        let header_len = self.header_len;
        let Some(map) = &self.pin else { return Ok(0) };
        for (pick, work) in &self.work {
            let (frame, len) = (burst.frame(*pick as usize), burst.frame_len(*pick as usize));
            match work {
                Work::Plain(token, seg) => {
                    fill::plain::<K>(map, header_len, *seg, &frame);
                    parcel.push((*token, (header_len + len) as u32));
                }
                Work::Several(slots) => {
                    fill::several::<K>(map, header_len, slots, &frame);
                    parcel.extend(slots.used(header_len + len));
                }
            }
            tally.packets += 1;
            tally.bytes += len as u64;
        }
        self.deliver(ticket, parcel)?;
        Ok(done)
    }

    /// Takes places and a ticket; where it fails, no ticket.
    fn reserve(
        &mut self,
        burst: &Burst,
        picks: &[u8],
        tally: &mut Tally,
    ) -> Result<(Ticket, usize, Vec<Used>), PortFault> {
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
        let (ticket, parcel) = common.tickets.reserve();
        Ok((ticket, done, parcel))
    }

    /// Forgets the places that were taken before `fault`; they lie in a map that is pinned no longer than this
    /// burst.
    #[cold]
    fn abandon(&mut self, fault: PortFault) -> PortFault {
        self.work.clear();
        self.lock().core.check_memory().err().unwrap_or(fault)
    }

    /// Gives the ticket back with its used entries, and publishes what is due.
    fn deliver(&mut self, ticket: Ticket, parcel: Vec<Used>) -> Result<(), PortFault> {
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
