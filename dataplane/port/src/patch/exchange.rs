//! Rendezvous of the two ends of a patch pair.
//!
//! Protocol: one table of pairs under one lock, which is held for look-ups and memory allocation, never while waiting
//! for a worker; only control threads use it. The second end to register connects both: it allocates new memory, with
//! rings for each end. An end that leaves disconnects both and signals the other. Rings are never reused: the next
//! round gets new ones, so rings still held by a worker of one end are never the other end's new rings. The memory
//! lives while any of its rings is held.

use crate::PortFault;
use crate::eventfd::signal;
use crate::memif::Options;
use crate::memif::joined::Joined;
use crate::memif::queue::Rings;
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names of both ends, sorted.
type Names = (String, String);

/// Table in which the ends of patch pairs find each other by name. One per process, or one per independent switch.
#[derive(Clone, Debug, Default)]
pub struct Exchange(Arc<Mutex<BTreeMap<Names, Pair>>>);

#[derive(Debug, Default)]
struct Pair {
    ends: [Option<End>; 2],
    joined: Option<Arc<Joined>>,
}

#[derive(Debug)]
struct End {
    options: Options,
    doorbell: Arc<OwnedFd>,
    /// Rings of this end, until it takes them.
    rings: Option<Rings>,
}

/// Result of [`Registration::register`].
#[derive(Debug)]
pub(super) enum Lookup {
    /// The other end is absent.
    Absent,
    /// Both ends are present, with the rings of this end.
    Rings(Rings, Arc<Joined>),
    /// Both ends are present, and this end already has its rings.
    Same,
}

/// Registration of one end.
#[derive(Debug)]
pub(super) struct Registration {
    exchange: Exchange,
    names: Names,
    side: usize,
}

impl Exchange {
    /// The registration of the end `name` whose peer is `peer`.
    pub(super) fn registration(&self, name: &str, peer: &str) -> Registration {
        let side = usize::from(name > peer);
        let (first, second) = if side == 0 { (name, peer) } else { (peer, name) };
        Registration { exchange: self.clone(), names: (first.into(), second.into()), side }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Names, Pair>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registration {
    /// Registers this end if needed; `doorbell` is rung on changes. Connects both ends if the other is registered.
    ///
    /// # Errors
    /// If there is no memory for the rings. Only the registration has then taken effect.
    pub(super) fn register(&self, options: Options, doorbell: &Arc<OwnedFd>) -> Result<Lookup, PortFault> {
        let mut pairs = self.exchange.lock();
        let pair = pairs.entry(self.names.clone()).or_default();
        let end = || End { options, doorbell: doorbell.clone(), rings: None };
        pair.ends[self.side].get_or_insert_with(end);
        pair.join(self.side)?;
        let (Some(end), Some(joined)) = (&mut pair.ends[self.side], &pair.joined) else {
            return Ok(Lookup::Absent);
        };
        Ok(end.rings.take().map_or(Lookup::Same, |rings| Lookup::Rings(rings, joined.clone())))
    }

    /// Unregisters this end, and ends the round for both.
    pub(super) fn unregister(&self) {
        let mut pairs = self.exchange.lock();
        let Some(pair) = pairs.get_mut(&self.names) else { return };
        pair.ends[self.side] = None;
        pair.joined = None;
        match &mut pair.ends[1 - self.side] {
            Some(other) => {
                other.rings = None;
                signal(other.doorbell.as_fd());
            }
            None => drop(pairs.remove(&self.names)),
        }
    }

    /// Whether `joined` is the current round.
    pub(super) fn is_current(&self, joined: &Arc<Joined>) -> bool {
        let pairs = self.exchange.lock();
        let current = pairs.get(&self.names).and_then(|pair| pair.joined.as_ref());
        current.is_some_and(|current| Arc::ptr_eq(current, joined))
    }
}

impl Pair {
    fn join(&mut self, side: usize) -> Result<(), PortFault> {
        let [Some(first), Some(second)] = &mut self.ends else { return Ok(()) };
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
