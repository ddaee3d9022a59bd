//! The megaflow cache: results by the bits of the key that they depend on.
//!
//! One instance per worker. Megaflows of one mask form a subtable. A lookup probes at most [`MAX_PROBES`] subtables,
//! those with the most recent hits first, so that a sender who provokes many masks makes lookups of others slower by a
//! bounded amount only: a packet that these do not match is translated, and finds an existing megaflow by the mask of
//! the result. Nothing allocates except the insertion of a megaflow, and nothing grows by moving: slots are in chunks,
//! and the buckets, which are lists of megaflows with a part of their hash, have their number from the beginning.

mod slab;
mod subtable;

use super::head::MegaflowId;
use crate::key::Key;
use hashbrown::HashTable;
use mem::line::prefetch_read;
use port::Now;
use slab::Slab;
use subtable::Subtable;

/// Maximum subtables that one lookup probes.
const MAX_PROBES: usize = 32;
/// Maximum subtables. One more mask replaces the smallest subtable of the half with the fewest hits: this removes at
/// most as many megaflows as a subtable of that half has on average.
const MAX_SUBTABLES: usize = 512;
/// Maximum slots that are visited for a megaflow to replace. If all were used recently, the last of them is replaced.
const MAX_EVICTION_STEPS: usize = 64;
/// Time without packets after which a megaflow is removed, in nanoseconds.
const IDLE: u64 = 10_000_000_000;

/// A result for all packets whose key equals its own in the bits of its subtable's mask. The fields that each packet
/// needs come first, with that part of the result, so that they are in one cache line.
#[repr(C, align(64))]
pub(crate) struct Megaflow<T> {
    epoch: u64,
    /// Version of the tables for which the result was last known to be right.
    pub(crate) version: u64,
    /// Time of the last packet.
    pub(crate) used: Now,
    /// Bytes of packets that no flow has been credited with.
    pub(crate) bytes: u64,
    /// Packets that no flow has been credited with.
    pub(crate) packets: u32,
    /// Whether it was used since the hand passed it.
    recent: bool,
    /// The result.
    pub(crate) value: T,
    /// With what else a search reads behind it ([`Slab::prefetch_search`]).
    hash: u64,
    /// Masked words, in the order of the subtable's mask.
    words: Box<[u64]>,
    subtable: u16,
    /// Position in the list of the subtable.
    position: u32,
    /// The next megaflow of the bucket.
    next: Link,
}

/// A slot, plus 1; 0 for none.
type Link = u32;

/// Work for which senders of packets are the cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Subtables that were probed.
    pub(crate) probes: u64,
    /// Megaflows that were replaced by others.
    pub(crate) evicted: u64,
    /// Subtables that were replaced by one of another mask.
    pub(crate) evicted_masks: u64,
}

/// Megaflows by key.
pub(crate) struct MegaflowCache<T> {
    slots: Slab<T>,
    /// First megaflow of each bucket. An allocation of zeros, which has memory only where it was written.
    buckets: Vec<Link>,
    /// One without megaflows is not in use.
    subtables: Vec<Subtable>,
    /// Subtables in use, by their masks.
    by_mask: HashTable<u16>,
    /// Subtables not in use.
    unused: Vec<u16>,
    /// Subtables in use, those with the most hits first.
    ranking: Vec<u16>,
    capacity: usize,
    /// Number of insertions.
    epoch: u64,
    /// Next slot that the sweep visits.
    hand: usize,
    secret: [u64; 2],
    effort: Effort,
}

impl<T> MegaflowCache<T> {
    /// An empty cache for at most `capacity` megaflows.
    pub(crate) fn new(capacity: usize, secret: [u64; 2]) -> Self {
        let capacity = capacity.clamp(1, 1 << 30);
        Self {
            slots: Slab::new(capacity),
            buckets: vec![0; 2 * capacity.next_power_of_two()],
            subtables: Vec::new(),
            by_mask: HashTable::new(),
            unused: Vec::new(),
            ranking: Vec::new(),
            capacity,
            epoch: 0,
            hand: 0,
            secret,
            effort: Effort::default(),
        }
    }

    /// The megaflow of an identifier, if it still exists.
    #[inline(always)]
    pub(crate) fn get(&mut self, id: MegaflowId) -> Option<&mut Megaflow<T>> {
        self.slots.get_mut(id.slot).filter(|flow| flow.epoch == id.epoch)
    }

    /// Loads the line of a megaflow that packets need into the cache.
    #[inline(always)]
    pub(crate) fn prefetch(&self, id: MegaflowId) {
        self.slots.prefetch(id.slot);
    }

    /// Loads the lines of a megaflow that packets need after connection tracking into the cache.
    #[inline(always)]
    pub(crate) fn prefetch_continuation(&self, id: MegaflowId) {
        self.slots.prefetch(id.slot);
        self.slots.prefetch_second(id.slot);
    }

    /// The key of a megaflow, under its mask, and the mask.
    pub(crate) fn matching(&self, id: MegaflowId) -> Option<(Key, Key)> {
        let megaflow = self.slots.get(id.slot).filter(|flow| flow.epoch == id.epoch)?;
        Some(self.subtables[usize::from(megaflow.subtable)].expand(&megaflow.words))
    }

    /// The megaflow that selects `key`, among those of the subtables with the most hits.
    pub(crate) fn find(&mut self, key: &Key) -> Option<MegaflowId> {
        for &number in self.ranking.iter().take(MAX_PROBES) {
            self.effort.probes += 1;
            if let Some(id) = self.probe(number, key) {
                self.subtables[usize::from(number)].hits += 1;
                return Some(id);
            }
        }
        None
    }

    /// Loads what [`MegaflowCache::find`] reads of the first subtable into the cache, for all keys at the same time.
    pub(crate) fn warm(&self, keys: &[Key]) {
        let Some(first) = self.ranking.first() else { return };
        let subtable = &self.subtables[usize::from(*first)];
        let bucket = |key| &self.buckets[subtable.hash(key, self.secret) as usize & (self.buckets.len() - 1)];
        for key in keys {
            prefetch_read(std::ptr::from_ref(bucket(key)).cast());
        }
        let slots = keys.iter().filter_map(|key| bucket(key).checked_sub(1));
        slots.for_each(|slot| self.slots.prefetch_search(slot));
    }

    /// The megaflow that selects `key` in the subtable of `mask`, if there is one. Counts as a hit, so that a subtable
    /// that lookups do not reach is among the first after the next ranking.
    pub(crate) fn find_exactly(&mut self, (key, mask): (&Key, &Key)) -> Option<MegaflowId> {
        let number = self.number_of(mask, self.hash_of_mask(mask))?;
        let found = self.probe(number, key)?;
        self.subtables[usize::from(number)].hits += 1;
        Some(found)
    }

    /// Adds a megaflow that selects the packets which equal `key` in the bits of `mask`. There must be none yet.
    /// Megaflows that are removed for it are passed to `removed`.
    pub(crate) fn insert(
        &mut self,
        (key, mask): (&Key, &Key),
        value: T,
        version: u64,
        now: Now,
        removed: &mut impl FnMut(Megaflow<T>),
    ) -> MegaflowId {
        if self.is_full() {
            self.evict(removed);
        }
        let number = self.subtable(mask, removed);
        self.epoch += 1;
        let subtable = &mut self.subtables[usize::from(number)];
        subtable.hits += 1;
        let hash = subtable.hash(key, self.secret);
        let bucket = hash as usize & (self.buckets.len() - 1);
        let slot = self.slots.put(Megaflow {
            epoch: self.epoch,
            version,
            used: now,
            bytes: 0,
            packets: 0,
            recent: true,
            value,
            hash,
            words: subtable.masked(key).collect(),
            subtable: number,
            position: subtable.slots.len() as u32,
            next: self.buckets[bucket],
        });
        subtable.slots.push(slot);
        self.buckets[bucket] = slot + 1;
        MegaflowId { slot, epoch: self.epoch }
    }

    /// Removes a megaflow.
    pub(crate) fn remove(&mut self, id: MegaflowId) -> Option<Megaflow<T>> {
        self.get(id)?;
        self.take(id.slot)
    }

    /// Visits the next slots, one of `share` of all: removes the megaflows that were idle for too long, and passes the
    /// others to `keep`, which returns whether to keep them. Removed ones are passed to `removed`.
    pub(crate) fn sweep(
        &mut self,
        share: usize,
        now: Now,
        mut keep: impl FnMut(&mut Megaflow<T>) -> bool,
        removed: &mut impl FnMut(Megaflow<T>),
    ) {
        for _ in 0..self.slots.slots().div_ceil(share) {
            let at = self.step();
            let Some(megaflow) = self.slots.get_mut(at) else { continue };
            let idle = now.0.saturating_sub(megaflow.used.0) > IDLE;
            if idle || !keep(megaflow) {
                self.take(at).into_iter().for_each(&mut *removed);
            }
        }
    }

    /// Orders the subtables by their hits since the last calls, the last one counting most.
    pub(crate) fn rank(&mut self) {
        let subtables = &mut self.subtables;
        self.ranking.sort_by_key(|number| std::cmp::Reverse(subtables[usize::from(*number)].hits));
        for subtable in subtables {
            subtable.hits /= 2;
        }
    }

    /// Work since the last call.
    pub(crate) fn take_effort(&mut self) -> Effort {
        std::mem::take(&mut self.effort)
    }

    /// Removes all megaflows, and passes them to `removed`.
    pub(crate) fn clear(&mut self, removed: &mut impl FnMut(Megaflow<T>)) {
        (0..self.slots.slots() as u32).filter_map(|slot| self.take(slot)).for_each(removed);
    }

    /// Whether an insertion replaces a megaflow.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.capacity
    }

    /// Number of megaflows.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Number of masks.
    #[cfg(test)]
    pub(crate) fn masks(&self) -> usize {
        self.ranking.len()
    }

    /// Advances the hand; returns the slot that it left. There must be slots.
    fn step(&mut self) -> u32 {
        let at = self.hand % self.slots.slots();
        self.hand = at + 1;
        at as u32
    }

    /// Removes a megaflow that was not used since the hand passed it last.
    fn evict(&mut self, removed: &mut impl FnMut(Megaflow<T>)) {
        let mut victim = None;
        for _ in 0..MAX_EVICTION_STEPS {
            let at = self.step();
            let Some(megaflow) = self.slots.get_mut(at) else { continue };
            victim = Some(at);
            if !std::mem::take(&mut megaflow.recent) {
                break;
            }
        }
        let victim = victim.and_then(|slot| self.take(slot));
        self.effort.evicted += u64::from(victim.is_some());
        victim.into_iter().for_each(removed);
    }

    fn take(&mut self, slot: u32) -> Option<Megaflow<T>> {
        let megaflow = self.slots.take(slot)?;
        self.unlink(slot, &megaflow);
        let number = megaflow.subtable;
        let subtable = &mut self.subtables[usize::from(number)];
        subtable.slots.swap_remove(megaflow.position as usize);
        if let Some(moved) = subtable.slots.get(megaflow.position as usize) {
            self.slots.get_mut(*moved).into_iter().for_each(|moved| moved.position = megaflow.position);
        }
        if subtable.slots.is_empty() {
            let mask = subtable.number;
            self.ranking.retain(|other| *other != number);
            if let Ok(entry) = self.by_mask.find_entry(mask, |other| *other == number) {
                entry.remove();
            }
            self.unused.push(number);
        }
        Some(megaflow)
    }

    /// Removes a megaflow from its bucket.
    fn unlink(&mut self, slot: u32, megaflow: &Megaflow<T>) {
        let bucket = megaflow.hash as usize & (self.buckets.len() - 1);
        let mut link = &mut self.buckets[bucket];
        while *link != slot + 1 {
            let Some(other) = link.checked_sub(1).and_then(|slot| self.slots.get_mut(slot)) else { return };
            link = &mut other.next;
        }
        *link = megaflow.next;
    }
}

impl<T> Megaflow<T> {
    /// Counts packets at `now`.
    #[inline]
    pub(crate) fn count(&mut self, packets: u32, bytes: u64, now: Now) {
        self.packets += packets;
        self.bytes += bytes;
        (self.used, self.recent) = (now, true);
    }
}

#[cfg(test)]
mod tests;
