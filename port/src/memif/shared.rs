//! A transmit queue that several workers send to.
//!
//! The protocol is that of [`crate::tickets`]: under the lock a worker takes entries for its frames, outside of it it
//! writes them, and under the lock again they are described and published, in the order of the tickets: the peer's index
//! can only ever pass over entries that are written.

use super::RingFault;
use super::buffers::{Buffers, Place};
use super::ring::{self, Ring, Word};
use super::tx::{Core, Room};
use crate::tickets::{Ticket, Tickets};
use crate::{BURST, Burst, DropReason, PortFault, Tally};
use mem::copy::Kernel;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A filled entry and what is to be said of it.
type Filled = (u16, Word);

/// A worker's turn to deliver, and the list for what it delivers.
type Reserved = (Ticket, Vec<Filled>);

/// What all handles share.
struct Common<B> {
    core: Core<B>,
    tickets: Tickets<Filled>,
}

/// A packet, and the first of how many places.
struct Work {
    pick: u8,
    at: u16,
    entries: u16,
}

/// One worker's handle.
pub(super) struct Shared<B, K> {
    common: Arc<Mutex<Common<B>>>,
    ring: Ring,
    work: Vec<Work>,
    /// The places of all work, in order.
    places: Vec<Place>,
    kernel: PhantomData<K>,
}

impl<B: Buffers, K: Kernel> Shared<B, K> {
    pub(super) fn new(core: Core<B>) -> Self {
        let ring = core.ring.clone();
        let common = Common { core, tickets: Tickets::new() };
        Self::over(Arc::new(Mutex::new(common)), ring)
    }

    pub(super) fn another(&self) -> Self {
        Self::over(self.common.clone(), self.ring.clone())
    }

    fn over(common: Arc<Mutex<Common<B>>>, ring: Ring) -> Self {
        let (work, places) = (Vec::with_capacity(BURST), Vec::with_capacity(2 * BURST));
        Self { common, ring, work, places, kernel: PhantomData }
    }

    /// The ring, for questions that need no order.
    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Whether a buffer is there.
    pub(super) fn has_room(&self) -> bool {
        self.lock().core.has_room()
    }

    fn lock(&self) -> MutexGuard<'_, Common<B>> {
        self.common.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tx(&mut self, burst: &Burst, picks: &[u8], tally: &mut Tally) -> Result<usize, PortFault> {
        let (ticket, done) = match self.reserve(burst, picks, tally) {
            Ok(reserved) => reserved,
            // Of memory that was cut, the ring is a part.
            Err(fault) => return self.lock().core.check_memory().and(Err(fault.into())),
        };
        match ticket {
            Some(ticket) => self.write(ticket, burst, tally)?,
            None => self.lock().core.check_memory()?,
        }
        Ok(done)
    }

    /// Takes places and a ticket, and says how many picks are done with. Without a place there is no ticket. What was
    /// taken before a fault is written all the same, and the next call meets the fault again.
    fn reserve(
        &mut self,
        burst: &Burst,
        picks: &[u8],
        tally: &mut Tally,
    ) -> Result<(Option<Reserved>, usize), RingFault> {
        let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        let Common { core, tickets } = &mut *common;
        core.stock_up(picks.len() as u16)?;
        let mut done = 0;
        for &pick in picks {
            let room = match core.room(burst.frame_len(pick as usize)) {
                Err(fault) if self.work.is_empty() => return Err(fault),
                room => room.unwrap_or(Room::Full),
            };
            match room {
                Room::Entries(entries) => {
                    let at = core.at;
                    self.places.extend((0..entries).map(|k| core.place(at.wrapping_add(k))));
                    self.work.push(Work { pick, at, entries });
                    core.at = at.wrapping_add(entries);
                }
                Room::TooSmall => tally.drop(DropReason::BufferTooSmall, 1),
                Room::Full => break,
            }
            done += 1;
        }
        tally.work += core.take_work();
        let ticket = (!self.work.is_empty()).then(|| tickets.reserve());
        Ok((ticket, done))
    }

    /// Writes the frames, then describes and publishes what is due.
    fn write(
        &mut self,
        (ticket, mut parcel): Reserved,
        burst: &Burst,
        tally: &mut Tally,
    ) -> Result<(), PortFault> {
        let mut places = self.places.as_slice();
        for Work { pick, at, entries } in self.work.drain(..) {
            let (frame, len) = (burst.frame(pick as usize), burst.frame_len(pick as usize));
            let (here, rest) = places.split_at(usize::from(entries));
            places = rest;
            if let [place] = here {
                ring::fill::<K>(self.ring.map(), place.room, &frame, len);
            } else {
                ring::spread::<K>(self.ring.map(), here.iter().map(|place| place.room), &frame);
            }
            let mut left = len;
            for (k, place) in (0..entries).zip(here) {
                let n = place.room.len().min(left);
                left -= n;
                parcel.push((at.wrapping_add(k), place.filled(n).and_next(k + 1 < entries)));
            }
            tally.packets += 1;
            tally.bytes += len as u64;
        }
        self.places.clear();
        let Common { core, tickets } = &mut *self.lock();
        let mut posted = core.posted;
        tickets.deliver(ticket, parcel, |(at, word)| {
            core.describe(at, word);
            posted = at.wrapping_add(1);
        });
        core.publish(posted);
        let stocked = core.stock_up(BURST as u16);
        core.check_memory()?;
        Ok(stocked?)
    }
}
