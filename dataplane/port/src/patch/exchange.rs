//! Where the two ends of a pair meet.
//!
//! Protocol: one table of meetings under one lock, which is held for looks and for making memory, never while a worker
//! is waited for; only control threads come here. A meeting has two seats. The second end to arrive joins both: fresh
//! memory, and for each end the rings that it uses. An end that leaves ends the meeting for both and signals the other.
//! A round is never used twice: an end that comes back starts the next one, so rings that a worker of the one end still
//! holds are never the new ones of the other. The memory lives as long as anybody still has rings in it.

use crate::PortFault;
use crate::eventfd::signal;
use crate::memif::Options;
use crate::memif::joined::Joined;
use crate::memif::queue::Rings;
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The names of a pair's ends, in order.
type Names = (String, String);

/// Where ends of pairs find each other, by name. A process has one, or as many as it has switches that do not know of
/// each other.
#[derive(Clone, Debug, Default)]
pub struct Exchange(Arc<Mutex<BTreeMap<Names, Meeting>>>);

#[derive(Debug, Default)]
struct Meeting {
    seats: [Option<Seat>; 2],
    joined: Option<Arc<Joined>>,
}

#[derive(Debug)]
struct Seat {
    options: Options,
    doorbell: Arc<OwnedFd>,
    /// What this end has not picked up yet.
    rings: Option<Rings>,
}

/// What an end finds when it looks.
#[derive(Debug)]
pub(super) enum Found {
    /// The other end is not there.
    Nobody,
    /// Both are there, and these are this end's rings.
    Rings(Rings, Arc<Joined>),
    /// Both are there, and this end has its rings.
    Same,
}

/// One end's place.
#[derive(Debug)]
pub(super) struct Place {
    exchange: Exchange,
    names: Names,
    side: usize,
}

impl Exchange {
    /// The place of the end called `name`, whose other end is called `peer`.
    pub(super) fn place(&self, name: &str, peer: &str) -> Place {
        let side = usize::from(name > peer);
        let (first, second) = if side == 0 { (name, peer) } else { (peer, name) };
        Place { exchange: self.clone(), names: (first.into(), second.into()), side }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Names, Meeting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Sits down, if this end does not yet; `doorbell` is rung when something changes. Joins both ends if the other sits.
    ///
    /// # Errors
    /// There is no memory for the rings. Nothing was changed but that this end sits.
    pub(super) fn look(&self, options: Options, doorbell: &Arc<OwnedFd>) -> Result<Found, PortFault> {
        let mut meetings = self.exchange.lock();
        let meeting = meetings.entry(self.names.clone()).or_default();
        let seat = || Seat { options, doorbell: doorbell.clone(), rings: None };
        meeting.seats[self.side].get_or_insert_with(seat);
        meeting.join(self.side)?;
        let (Some(seat), Some(joined)) = (&mut meeting.seats[self.side], &meeting.joined) else {
            return Ok(Found::Nobody);
        };
        Ok(seat.rings.take().map_or(Found::Same, |rings| Found::Rings(rings, joined.clone())))
    }

    /// Leaves, and ends the round for both.
    pub(super) fn leave(&self) {
        let mut meetings = self.exchange.lock();
        let Some(meeting) = meetings.get_mut(&self.names) else { return };
        meeting.seats[self.side] = None;
        meeting.joined = None;
        match &mut meeting.seats[1 - self.side] {
            Some(other) => {
                other.rings = None;
                signal(other.doorbell.as_fd());
            }
            None => drop(meetings.remove(&self.names)),
        }
    }

    /// Whether `joined` is still what joins the two.
    pub(super) fn is_round(&self, joined: &Arc<Joined>) -> bool {
        let meetings = self.exchange.lock();
        let current = meetings.get(&self.names).and_then(|meeting| meeting.joined.as_ref());
        current.is_some_and(|current| Arc::ptr_eq(current, joined))
    }
}

impl Meeting {
    fn join(&mut self, side: usize) -> Result<(), PortFault> {
        let [Some(first), Some(second)] = &mut self.seats else { return Ok(()) };
        if self.joined.is_some() {
            return Ok(());
        }
        let (one, other) = (first.options, second.options);
        let options = Options {
            queue_pairs: one.queue_pairs.min(other.queue_pairs),
            ring_size: one.ring_size.min(other.ring_size),
            buffer_size: one.buffer_size.max(other.buffer_size),
            ..one
        };
        let (joined, [maker, taker]) = Joined::new(options)?;
        (first.rings, second.rings) = (Some(maker), Some(taker));
        self.joined = Some(Arc::new(joined));
        let other = if side == 0 { second } else { first };
        signal(other.doorbell.as_fd());
        Ok(())
    }
}
