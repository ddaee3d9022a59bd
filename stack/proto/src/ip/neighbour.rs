//! Neighbour cache of ARP and Neighbor Discovery (RFC 4861 sections 5 and 7.3), which differ in their messages only.
//!
//! Entries that traffic of this host has proved reachable are kept apart from those that peers can cause: unresolved
//! ones, and those learned from requests of others. The latter fill at most half of the table and must never replace an
//! entry in use.

mod entry;

use super::lru::Lru;
use super::{InterfaceId, Keyed};
use crate::random::Random;
use crate::slab::Slab;
use crate::wheel::Wheel;
use crate::{Address, Limits, Time};
use alloc::collections::VecDeque;
use entry::{
    CONFIRM_INTERVAL, Entry, MAX_SOLICITATIONS, REACHABLE_TIME, RETRANSMIT_TIME, State, UNUSED_TIME,
};
pub(super) use entry::{Lookup, NeighbourId, News, Solicitation};
use hashbrown::HashMap;
use wire::MacAddress;

/// The cache. `Q` is a waiting packet.
pub(super) struct Neighbours<Q> {
    slab: Slab<Entry<Q>>,
    index: HashMap<(InterfaceId, Address), u32, Keyed>,
    wheel: Wheel,
    proved: Lru,
    unproved: Lru,
    generation: u32,
    random: Random,
    limit: usize,
    queue_limit: usize,
    /// Packets dropped since [`Neighbours::take_failed`].
    failed: u64,
    /// Whether an entry was resolved since [`Neighbours::take_resolved`].
    has_resolved: bool,
}

impl<Q> Neighbours<Q> {
    pub(super) fn new(limits: &Limits, hasher: Keyed, random: Random, now: Time) -> Self {
        Self {
            slab: Slab::new(),
            index: HashMap::with_hasher(hasher),
            wheel: Wheel::new(now),
            proved: Lru::new(),
            unproved: Lru::new(),
            generation: 0,
            random,
            limit: limits.neighbours as usize,
            queue_limit: limits.neighbour_queue as usize,
            failed: 0,
            has_resolved: false,
        }
    }

    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Number of packets dropped because their neighbour did not resolve or its queue was full.
    pub(super) fn take_failed(&mut self) -> u64 {
        core::mem::take(&mut self.failed)
    }

    fn find(&self, id: NeighbourId, key: (InterfaceId, Address)) -> Option<u32> {
        let is_it = |entry: &Entry<Q>| entry.generation == id.generation;
        if self.slab.get(id.index).is_some_and(is_it) {
            return Some(id.index);
        }
        self.index.get(&key).copied()
    }

    /// The Ethernet address for a packet that is sent now. Starts resolution if there is no entry. Updates `id`, which
    /// the caller keeps to save the next search.
    #[inline]
    pub(super) fn lookup(&mut self, id: &mut NeighbourId, key: (InterfaceId, Address), now: Time) -> Lookup {
        match self.slab.get(id.index) {
            Some(entry) if entry.generation == id.generation && now < entry.fresh => Lookup::Ready(entry.mac),
            _ => self.search(id, key, now),
        }
    }

    fn search(
        &mut self,
        id: &mut NeighbourId,
        (interface, target): (InterfaceId, Address),
        now: Time,
    ) -> Lookup {
        let Some(index) = self.find(*id, (interface, target)) else {
            let Some(index) = self.create((interface, target), State::Incomplete, now) else {
                return Lookup::Full;
            };
            *id = self.id(index);
            return Lookup::Ask(Solicitation { interface, target, mac: None });
        };
        *id = self.id(index);
        self.use_entry(index, now)
    }

    fn id(&self, index: u32) -> NeighbourId {
        self.slab
            .get(index)
            .map_or(NeighbourId::NONE, |entry| NeighbourId { index, generation: entry.generation })
    }

    fn use_entry(&mut self, index: u32, now: Time) -> Lookup {
        let Some(entry) = self.slab.get(index) else { return Lookup::Full };
        let (mac, is_expired) = (entry.mac, now >= entry.fresh);
        match entry.state {
            State::Incomplete => return Lookup::Waiting,
            State::Reachable | State::Stale if is_expired => self.set(index, State::Delay, now),
            _ => {}
        }
        Lookup::Ready(mac)
    }

    /// Whether an entry was resolved since the last call.
    #[inline]
    pub(super) fn take_resolved(&mut self) -> bool {
        core::mem::take(&mut self.has_resolved)
    }

    /// Whether [`Neighbours::take_resolved`] is true.
    #[inline]
    pub(super) fn has_resolved(&self) -> bool {
        self.has_resolved
    }

    /// Holds a packet of an unresolved entry; the oldest one is dropped if there are too many.
    pub(super) fn enqueue(&mut self, id: NeighbourId, packet: Q) {
        let entry = self.slab.get_mut(id.index).filter(|entry| entry.generation == id.generation);
        let Some(entry) = entry.filter(|_| self.queue_limit > 0) else {
            self.failed += 1;
            return;
        };
        if entry.queue.len() >= self.queue_limit {
            entry.queue.pop_front();
            self.failed += 1;
        }
        entry.queue.push_back(packet);
    }

    /// Adds a configured entry. Returns false if the table is full.
    pub(super) fn add_static(&mut self, key: (InterfaceId, Address), mac: MacAddress, now: Time) -> bool {
        if let Some(index) = self.index.get(&key) {
            self.remove(*index);
        }
        let Some(index) = self.create(key, State::Static, now) else { return false };
        if let Some(entry) = self.slab.get_mut(index) {
            entry.mac = mac;
        }
        true
    }

    fn create(&mut self, key: (InterfaceId, Address), state: State, now: Time) -> Option<u32> {
        self.make_room(now)?;
        self.generation = self.generation.wrapping_add(1);
        let index = self.slab.insert(Entry {
            generation: self.generation,
            interface: key.0,
            address: key.1,
            mac: MacAddress::ZERO,
            state,
            fresh: Time(0),
            sent: 1,
            due: Time::NEVER,
            is_proved: false,
            used: now,
            queue: VecDeque::new(),
        });
        self.index.insert(key, index);
        if state != State::Static {
            self.unproved.insert(index);
        }
        self.set(index, state, now);
        Some(index)
    }

    /// Removes an entry if the table is full, or half of it is entries that peers can cause.
    fn make_room(&mut self, now: Time) -> Option<()> {
        let is_unused =
            |at: &u32| self.slab.get(*at).is_some_and(|entry| now >= entry.used.after(UNUSED_TIME));
        let victim = if self.unproved.len() >= (self.limit / 2).max(1) {
            self.unproved.oldest()
        } else if self.slab.len() >= self.limit {
            self.proved.oldest().filter(is_unused).or_else(|| self.unproved.oldest())
        } else {
            return Some(());
        };
        self.remove(victim?);
        (self.slab.len() < self.limit).then_some(())
    }

    fn remove(&mut self, index: u32) {
        let Some(entry) = self.slab.remove(index) else { return };
        self.index.remove(&(entry.interface, entry.address));
        self.wheel.cancel(index);
        match entry.state {
            State::Static => {}
            _ if entry.is_proved => self.proved.remove(index),
            _ => self.unproved.remove(index),
        }
        self.failed += entry.queue.len() as u64;
    }

    /// Changes the state, with its timers.
    fn set(&mut self, index: u32, state: State, now: Time) {
        let Some(entry) = self.slab.get_mut(index) else { return };
        // Varied, so that hosts do not send their probes together (RFC 4861 section 6.3.2).
        let reachable = REACHABLE_TIME.0 + self.random.delay(REACHABLE_TIME.1);
        (entry.fresh, entry.due) = state.timers(now, reachable);
        (entry.state, entry.sent) = (state, 1);
        if entry.due.is_never() {
            self.wheel.cancel(index);
        } else {
            self.wheel.schedule(index, entry.due);
        }
        if matches!(state, State::Reachable | State::Delay) {
            self.prove(index, now);
        }
    }

    /// Notes that the entry is in use.
    fn prove(&mut self, index: u32, now: Time) {
        let Some(entry) = self.slab.get_mut(index) else { return };
        entry.used = now;
        if core::mem::replace(&mut entry.is_proved, true) {
            self.proved.touch(index);
        } else {
            self.unproved.remove(index);
            self.proved.insert(index);
        }
    }

    /// Whether an answer of the neighbour is expected.
    pub(super) fn is_awaited(&self, key: (InterfaceId, Address)) -> bool {
        let entry = self.index.get(&key).and_then(|index| self.slab.get(*index));
        entry.is_some_and(|entry| matches!(entry.state, State::Incomplete | State::Probe))
    }

    /// Whether a neighbour is resolved, to this Ethernet address if it is given.
    pub(super) fn is_resolved(&self, key: (InterfaceId, Address), mac: Option<MacAddress>) -> bool {
        let entry = self.index.get(&key).and_then(|index| self.slab.get(*index));
        entry.is_some_and(|entry| entry.state != State::Incomplete && mac.is_none_or(|mac| mac == entry.mac))
    }

    /// Processes what a message says about a neighbour (RFC 4861 sections 7.2.3 and 7.2.5). Returns the Ethernet
    /// address and the packets that waited for it.
    pub(super) fn learn(
        &mut self,
        key: (InterfaceId, Address),
        news: News,
        now: Time,
    ) -> Option<(MacAddress, VecDeque<Q>)> {
        let Some(&index) = self.index.get(&key) else {
            if news.may_create
                && let Some(mac) = news.mac
                && let Some(index) = self.create(key, State::Stale, now)
                && let Some(entry) = self.slab.get_mut(index)
            {
                entry.mac = mac;
            }
            return None;
        };
        let entry = self.slab.get_mut(index)?;
        let (state, is_other) = (entry.state, news.mac.is_some_and(|mac| mac != entry.mac));
        match state {
            State::Static => return None,
            State::Incomplete if news.mac.is_none() => return None,
            State::Incomplete => {}
            _ if is_other && !news.overrides => {
                if state == State::Reachable {
                    self.set(index, State::Stale, now);
                }
                return None;
            }
            _ => {}
        }
        entry.mac = news.mac.unwrap_or(entry.mac);
        self.has_resolved |= state == State::Incomplete;
        let (mac, waiting) = (entry.mac, core::mem::take(&mut entry.queue));
        if news.solicited {
            self.set(index, State::Reachable, now);
        } else if is_other {
            self.set(index, State::Stale, now);
        }
        (!waiting.is_empty()).then_some((mac, waiting))
    }

    /// Confirms that the neighbour receives packets.
    #[inline]
    pub(super) fn confirm(&mut self, id: NeighbourId, now: Time) {
        let Some(entry) = self.slab.get(id.index).filter(|entry| entry.generation == id.generation) else {
            return;
        };
        let is_recent = now <= entry.used.after(CONFIRM_INTERVAL);
        match entry.state {
            State::Reachable if is_recent => {}
            State::Reachable | State::Stale | State::Delay | State::Probe => {
                self.set(id.index, State::Reachable, now);
            }
            State::Incomplete | State::Static => {}
        }
    }

    /// Runs a timer that is due, and returns the request that it sends. Call until it returns `None`.
    pub(super) fn expire(&mut self, now: Time) -> Option<Solicitation> {
        while let Some(index) = self.wheel.expire(now) {
            let Some(entry) = self.slab.get_mut(index) else { continue };
            if entry.due > now {
                self.wheel.schedule(index, entry.due);
                continue;
            }
            match entry.state {
                State::Delay => self.set(index, State::Probe, now),
                State::Incomplete | State::Probe if entry.sent >= MAX_SOLICITATIONS => {
                    self.remove(index);
                    continue;
                }
                _ => {
                    entry.sent += 1;
                    entry.due = now.after(RETRANSMIT_TIME);
                    self.wheel.schedule(index, entry.due);
                }
            }
            if let Some(request) = self.request(index) {
                return Some(request);
            }
        }
        None
    }

    fn request(&self, index: u32) -> Option<Solicitation> {
        let entry = self.slab.get(index)?;
        let mac = (entry.state != State::Incomplete).then_some(entry.mac);
        Some(Solicitation { interface: entry.interface, target: entry.address, mac })
    }

    pub(super) fn deadline(&self) -> Time {
        self.wheel.deadline()
    }
}

#[cfg(test)]
mod tests;
