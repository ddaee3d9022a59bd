//! The megaflow cache: results by the bits of the key that they depend on.
//!
//! One instance per worker. Megaflows of one mask form a subtable. A lookup probes at most [`MAX_PROBES`] subtables,
//! those with the most recent hits first, so that a sender who provokes many masks makes lookups of others slower by
//! a bounded amount only: a packet that these do not match is translated, and finds an existing megaflow by the mask of
//! the result. Nothing allocates except the insertion of a megaflow.

use super::head::{MegaflowId, fold};
use crate::key::Key;
use hashbrown::HashTable;
use port::Now;

/// Maximum subtables that one lookup probes.
const MAX_PROBES: usize = 32;
/// Maximum subtables. One more mask replaces the smallest subtable of the half with the fewest hits: this removes at most
/// as many megaflows as a subtable of that half has on average.
const MAX_SUBTABLES: usize = 512;
/// Maximum slots that are visited for a megaflow to replace. If all were used recently, the last of them is replaced.
const MAX_EVICTION_STEPS: usize = 64;
/// Time without packets after which a megaflow is removed, in nanoseconds.
const IDLE: u64 = 10_000_000_000;

/// Packets and bytes of a megaflow that no flow has been credited with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uncredited {
    /// Packets.
    pub(crate) packets: u64,
    /// Bytes.
    pub(crate) bytes: u64,
}

/// A result for all packets whose key equals its own in the bits of its subtable's mask.
pub(crate) struct Megaflow<T> {
    /// The result.
    pub(crate) value: T,
    /// Counts since they were last taken.
    pub(crate) uncredited: Uncredited,
    /// Time of the last packet.
    pub(crate) used: Now,
    /// Version of the tables for which the result was last known to be right.
    pub(crate) version: u64,
    epoch: u64,
    subtable: u16,
    /// Whether it was used since the hand passed it.
    recent: bool,
    hash: u64,
    /// Masked words, in the order of the subtable's mask.
    words: Box<[u64]>,
}

/// Work for which senders of packets are the cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Subtables that were probed.
    pub(crate) probes: u64,
    /// Subtables that were replaced by one of another mask.
    pub(crate) evicted_masks: u64,
}

/// Megaflows of one mask.
struct Subtable {
    /// Hash of the mask.
    number: u64,
    /// Words of the mask that are not 0, and their numbers.
    mask: Box<[(u8, u64)]>,
    slots: HashTable<u32>,
    /// Hits, halved at each ranking.
    hits: u64,
}

/// Megaflows by key.
pub(crate) struct MegaflowCache<T> {
    slots: Vec<Option<Megaflow<T>>>,
    free: Vec<u32>,
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

impl Subtable {
    fn new(mask: &Key, number: u64) -> Self {
        let words = (0..).zip(mask.words().iter().copied()).filter(|(_, word)| *word != 0);
        Self { number, mask: words.collect(), slots: HashTable::new(), hits: 0 }
    }

    fn is_of(&self, mask: &Key) -> bool {
        let words = (0_u8..).zip(mask.words().iter().copied()).filter(|(_, word)| *word != 0);
        words.eq(self.mask.iter().copied())
    }

    fn masked(&self, key: &Key) -> impl Iterator<Item = u64> {
        self.mask.iter().map(|(i, mask)| key.words()[usize::from(*i)] & mask)
    }

    #[inline]
    fn hash(&self, key: &Key, secret: [u64; 2]) -> u64 {
        self.masked(key).fold(secret[0], |hash, word| fold(hash ^ word, secret[1]))
    }

    /// The megaflow that selects `key`.
    #[inline]
    fn probe<T>(&self, slots: &[Option<Megaflow<T>>], key: &Key, secret: [u64; 2]) -> Option<MegaflowId> {
        let hash = self.hash(key, secret);
        let of = |slot: &u32| slots[*slot as usize].as_ref();
        let is = |flow: &Megaflow<T>| flow.hash == hash && self.masked(key).eq(flow.words.iter().copied());
        let slot = *self.slots.find(hash, |slot| of(slot).is_some_and(is))?;
        Some(MegaflowId { slot, epoch: of(&slot)?.epoch })
    }
}

impl<T> MegaflowCache<T> {
    /// An empty cache for at most `capacity` megaflows.
    pub(crate) fn new(capacity: usize, secret: [u64; 2]) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            subtables: Vec::new(),
            by_mask: HashTable::new(),
            unused: Vec::new(),
            ranking: Vec::new(),
            capacity: capacity.clamp(1, u32::MAX as usize),
            epoch: 0,
            hand: 0,
            secret,
            effort: Effort::default(),
        }
    }

    /// The megaflow of an identifier, if it still exists.
    #[inline]
    pub(crate) fn get(&mut self, id: MegaflowId) -> Option<&mut Megaflow<T>> {
        self.slots.get_mut(id.slot as usize)?.as_mut().filter(|flow| flow.epoch == id.epoch)
    }

    /// The megaflow that selects `key`, among those of the subtables with the most hits.
    pub(crate) fn find(&mut self, key: &Key) -> Option<MegaflowId> {
        for &number in self.ranking.iter().take(MAX_PROBES) {
            self.effort.probes += 1;
            let subtable = &mut self.subtables[usize::from(number)];
            if let Some(id) = subtable.probe(&self.slots, key, self.secret) {
                subtable.hits += 1;
                return Some(id);
            }
        }
        None
    }

    /// The megaflow that selects `key` in the subtable of `mask`, if there is one. Counts as a hit, so that a subtable
    /// that lookups do not reach is among the first after the next ranking.
    pub(crate) fn find_exactly(&mut self, (key, mask): (&Key, &Key)) -> Option<MegaflowId> {
        let number = self.number_of(mask, self.hash_of_mask(mask))?;
        let subtable = &mut self.subtables[usize::from(number)];
        let found = subtable.probe(&self.slots, key, self.secret)?;
        subtable.hits += 1;
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
        if self.len() >= self.capacity {
            self.evict(removed);
        }
        let number = self.subtable(mask, removed);
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.epoch += 1;
        let subtable = &mut self.subtables[usize::from(number)];
        subtable.hits += 1;
        let hash = subtable.hash(key, self.secret);
        self.slots[slot as usize] = Some(Megaflow {
            value,
            uncredited: Uncredited::default(),
            used: now,
            version,
            epoch: self.epoch,
            subtable: number,
            recent: true,
            hash,
            words: subtable.masked(key).collect(),
        });
        let slots = &self.slots;
        subtable.slots.insert_unique(hash, slot, |slot| hash_of(slots, *slot));
        MegaflowId { slot, epoch: self.epoch }
    }

    /// Removes a megaflow.
    pub(crate) fn remove(&mut self, id: MegaflowId) -> Option<Megaflow<T>> {
        self.get(id)?;
        self.take(id.slot)
    }

    /// Visits the next `slots` slots: removes the megaflows that were idle for too long, and passes the others to
    /// `keep`, which returns whether to keep them. Removed ones are passed to `removed`.
    pub(crate) fn sweep(
        &mut self,
        slots: usize,
        now: Now,
        mut keep: impl FnMut(&mut Megaflow<T>) -> bool,
        removed: &mut impl FnMut(Megaflow<T>),
    ) {
        for _ in 0..slots.min(self.slots.len()) {
            let at = self.step();
            let Some(megaflow) = &mut self.slots[at] else { continue };
            let idle = now.0.saturating_sub(megaflow.used.0) > IDLE;
            if idle || !keep(megaflow) {
                self.take(at as u32).into_iter().for_each(&mut *removed);
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

    /// Number of megaflows.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Number of masks.
    #[cfg(test)]
    pub(crate) fn masks(&self) -> usize {
        self.ranking.len()
    }

    /// Advances the hand; returns the slot that it left. There must be slots.
    fn step(&mut self) -> usize {
        let at = self.hand % self.slots.len();
        self.hand = at + 1;
        at
    }

    /// Removes a megaflow that was not used since the hand passed it last.
    fn evict(&mut self, removed: &mut impl FnMut(Megaflow<T>)) {
        let mut victim = None;
        for _ in 0..MAX_EVICTION_STEPS {
            let at = self.step();
            let Some(megaflow) = &mut self.slots[at] else { continue };
            victim = Some(at as u32);
            if !std::mem::take(&mut megaflow.recent) {
                break;
            }
        }
        victim.and_then(|slot| self.take(slot)).into_iter().for_each(removed);
    }

    fn take(&mut self, slot: u32) -> Option<Megaflow<T>> {
        let megaflow = self.slots[slot as usize].take()?;
        self.free.push(slot);
        let subtable = &mut self.subtables[usize::from(megaflow.subtable)];
        if let Ok(entry) = subtable.slots.find_entry(megaflow.hash, |other| *other == slot) {
            entry.remove();
        }
        if subtable.slots.is_empty() {
            let (number, mask) = (megaflow.subtable, subtable.number);
            self.ranking.retain(|other| *other != number);
            if let Ok(entry) = self.by_mask.find_entry(mask, |other| *other == number) {
                entry.remove();
            }
            self.unused.push(number);
        }
        Some(megaflow)
    }

    fn hash_of_mask(&self, mask: &Key) -> u64 {
        mask.words().iter().fold(self.secret[0], |hash, word| fold(hash ^ word, self.secret[1]))
    }

    /// Number of the subtable of `mask`, whose hash is `hash`.
    fn number_of(&self, mask: &Key, hash: u64) -> Option<u16> {
        self.by_mask.find(hash, |number| self.subtables[usize::from(*number)].is_of(mask)).copied()
    }

    /// Number of the subtable of `mask`, which is created if there is none.
    fn subtable(&mut self, mask: &Key, removed: &mut impl FnMut(Megaflow<T>)) -> u16 {
        let hash = self.hash_of_mask(mask);
        if let Some(number) = self.number_of(mask, hash) {
            return number;
        }
        if self.ranking.len() >= MAX_SUBTABLES {
            self.replace_subtable(removed);
        }
        let number = self.unused.pop().unwrap_or(self.subtables.len() as u16);
        match self.subtables.get_mut(usize::from(number)) {
            Some(place) => *place = Subtable::new(mask, hash),
            None => self.subtables.push(Subtable::new(mask, hash)),
        }
        self.ranking.push(number);
        let subtables = &self.subtables;
        self.by_mask.insert_unique(hash, number, |number| subtables[usize::from(*number)].number);
        number
    }

    /// Removes the smallest subtable of the half with the fewest hits.
    fn replace_subtable(&mut self, removed: &mut impl FnMut(Megaflow<T>)) {
        let half = self.ranking[self.ranking.len() / 2..].iter().rev();
        let Some(number) = half.min_by_key(|number| self.subtables[usize::from(**number)].slots.len()) else {
            return;
        };
        self.effort.evicted_masks += 1;
        let slots: Vec<u32> = self.subtables[usize::from(*number)].slots.iter().copied().collect();
        slots.into_iter().filter_map(|slot| self.take(slot)).for_each(removed);
    }
}

fn hash_of<T>(slots: &[Option<Megaflow<T>>], slot: u32) -> u64 {
    slots[slot as usize].as_ref().map_or(0, |megaflow| megaflow.hash)
}

impl<T> Megaflow<T> {
    /// Counts packets at `now`.
    #[inline]
    pub(crate) fn count(&mut self, packets: u64, bytes: u64, now: Now) {
        self.uncredited.packets += packets;
        self.uncredited.bytes += bytes;
        (self.used, self.recent) = (now, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const SECRET: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];

    fn key(port: u128, source: u128, destination: u128) -> Key {
        let mut key = Key::ZERO;
        key.set(Field::InPort, port);
        key.set(Field::Ipv4Src, source);
        key.set(Field::Ipv4Dst, destination);
        key
    }

    fn mask(fields: &[Field]) -> Key {
        let mut mask = Key::ZERO;
        for field in fields {
            mask.set(*field, field.full());
        }
        mask
    }

    fn add(cache: &mut MegaflowCache<u32>, key: &Key, mask: &Key, value: u32) -> (MegaflowId, Vec<u32>) {
        let mut removed = vec![];
        let id = cache.insert((key, mask), value, 0, Now(0), &mut |megaflow| removed.push(megaflow.value));
        (id, removed)
    }

    #[test]
    fn bits_outside_of_the_mask_are_not_compared() {
        let mut cache = MegaflowCache::new(10, SECRET);
        let by_source = mask(&[Field::InPort, Field::Ipv4Src]);
        let (id, _) = add(&mut cache, &key(1, 2, 3), &by_source, 7);
        assert_eq!(cache.find(&key(1, 2, 99)), Some(id));
        assert_eq!(cache.find(&key(1, 3, 3)), None);
        assert_eq!(cache.find_exactly((&key(1, 2, 4), &by_source)), Some(id));
        assert_eq!(cache.find_exactly((&key(1, 2, 4), &mask(&[Field::InPort]))), None);
        assert_eq!(cache.remove(id).map(|megaflow| megaflow.value), Some(7));
        assert_eq!((cache.find(&key(1, 2, 3)), cache.len(), cache.masks()), (None, 0, 0));
        assert!(cache.get(id).is_none() && cache.remove(id).is_none());
    }

    #[test]
    fn an_identifier_does_not_name_a_later_megaflow_of_its_slot() {
        let mut cache = MegaflowCache::new(10, SECRET);
        let all = mask(&[Field::Ipv4Src]);
        let (first, _) = add(&mut cache, &key(0, 1, 0), &all, 1);
        cache.remove(first);
        let (second, _) = add(&mut cache, &key(0, 2, 0), &all, 2);
        assert_eq!(first.slot, second.slot);
        assert!(cache.get(first).is_none() && cache.get(second).is_some());
    }

    #[test]
    fn a_full_cache_replaces_what_was_not_used() {
        let mut cache = MegaflowCache::new(3, SECRET);
        let all = mask(&[Field::Ipv4Src]);
        let ids: Vec<_> = (0..3).map(|n| add(&mut cache, &key(0, n, 0), &all, n as u32).0).collect();
        // The first insertion takes the marks of all away, and removes the one visited first again.
        assert_eq!(add(&mut cache, &key(0, 10, 0), &all, 10).1, [0]);
        cache.get(ids[1]).unwrap().count(1, 60, Now(5));
        assert_eq!(add(&mut cache, &key(0, 11, 0), &all, 11).1, [2]);
        assert_eq!(cache.len(), 3);
    }

    #[test]
    fn masks_are_limited_and_a_rare_one_is_still_found_by_its_mask() {
        let mut cache = MegaflowCache::new(10_000, SECRET);
        let source = |bits: u32| {
            let mut mask = mask(&[Field::InPort]);
            mask.set(Field::Ipv6Src, u128::from(bits));
            mask
        };
        for bits in 1..=MAX_SUBTABLES as u32 {
            assert!(add(&mut cache, &key(1, 2, 3), &source(bits), bits).1.is_empty());
        }
        let last = source(MAX_SUBTABLES as u32);
        assert!(cache.find_exactly((&key(1, 2, 3), &last)).is_some());
        assert_eq!(add(&mut cache, &key(1, 2, 3), &source(0), 0).1, [MAX_SUBTABLES as u32]);
        assert_eq!(cache.masks(), MAX_SUBTABLES);
    }

    #[test]
    fn hostile_masks_cost_a_bounded_number_of_probes_and_are_evicted() {
        let mut cache = MegaflowCache::new(10_000, SECRET);
        let usual = mask(&[Field::InPort]);
        add(&mut cache, &key(1, 0, 0), &usual, 0);
        for bits in 1..=4 * MAX_SUBTABLES as u32 {
            let mut hostile = mask(&[Field::InPort, Field::Ipv4Src]);
            hostile.set(Field::Ipv4Dst, u128::from(bits));
            add(&mut cache, &key(2, 9, 0), &hostile, bits);
            cache.find(&key(1, 0, 0)).expect("the mask with hits stays");
            cache.take_effort();
            assert_eq!(cache.find(&key(3, 0, 0)), None);
            let probed = cache.masks().min(MAX_PROBES) as u64;
            assert_eq!(cache.take_effort().probes, probed);
            if bits % 100 == 0 {
                cache.rank();
            }
        }
        assert_eq!((cache.masks(), cache.len()), (MAX_SUBTABLES, MAX_SUBTABLES));
        cache.find(&key(1, 0, 0)).unwrap();
        assert_eq!(cache.take_effort().probes, 1, "it is the first");
    }

    #[test]
    fn a_small_subtable_of_few_hits_is_replaced() {
        let mut cache = MegaflowCache::new(100_000, SECRET);
        let masked = |bits: u128| {
            let mut mask = mask(&[Field::Ipv4Src]);
            mask.set(Field::Ipv4Dst, bits);
            mask
        };
        for bits in 0..MAX_SUBTABLES as u128 {
            let flows = if bits == 400 { 1 } else { 3 };
            for source in 0..flows {
                add(&mut cache, &key(0, source, 0), &masked(bits), bits as u32);
            }
        }
        assert_eq!(add(&mut cache, &key(0, 0, 0), &masked(1000), 0).1, [400]);
        assert_eq!(cache.take_effort().evicted_masks, 1);
    }

    #[test]
    fn eviction_visits_a_bounded_number_of_slots() {
        let mut cache = MegaflowCache::new(1000, SECRET);
        let all = mask(&[Field::Ipv4Src]);
        for n in 0..1000 {
            add(&mut cache, &key(0, n, 0), &all, n as u32);
        }
        let last = MAX_EVICTION_STEPS as u32 - 1;
        assert_eq!(add(&mut cache, &key(0, 1000, 0), &all, 1000).1, [last], "all were used recently");
        assert_eq!(add(&mut cache, &key(0, 1001, 0), &all, 1001).1, [2 * last + 1]);
    }

    #[test]
    fn subtables_with_hits_are_probed_first() {
        let mut cache = MegaflowCache::new(1000, SECRET);
        for bits in 0..MAX_PROBES as u32 {
            let mut mask = mask(&[Field::InPort]);
            mask.set(Field::Ipv4Dst, u128::from(bits));
            add(&mut cache, &key(1, 0, 0), &mask, bits);
        }
        let by_source = mask(&[Field::Ipv4Src]);
        let (id, _) = add(&mut cache, &key(2, 5, 0), &by_source, 99);
        assert_eq!(cache.find(&key(2, 5, 0)), None, "not within the first ones");
        assert_eq!(cache.find_exactly((&key(2, 5, 0), &by_source)), Some(id));
        cache.rank();
        assert_eq!(cache.find(&key(2, 5, 0)), Some(id));
    }

    #[test]
    fn a_sweep_removes_idle_megaflows_and_those_that_are_not_kept() {
        let mut cache = MegaflowCache::new(10, SECRET);
        let all = mask(&[Field::Ipv4Src]);
        let ids: Vec<_> = (0..4).map(|n| add(&mut cache, &key(0, n, 0), &all, n as u32).0).collect();
        let late = Now(IDLE + 1);
        for id in &ids[1..] {
            cache.get(*id).unwrap().count(1, 60, late);
        }
        let mut removed = vec![];
        cache.sweep(4, late, |megaflow| megaflow.value != 3, &mut |megaflow| removed.push(megaflow.value));
        assert_eq!((removed, cache.len()), (vec![0, 3], 2));
    }

    proptest! {
        /// Against a list of (key, mask, value) in which masks are disjoint alternatives.
        #[test]
        fn agrees_with_a_map(steps in prop::collection::vec((0..3_usize, 0..4_u128, 0..4_u128, any::<bool>()), 1..60)) {
            let masks = [mask(&[Field::Ipv4Src]), mask(&[Field::Ipv4Dst]), mask(&[Field::Ipv4Src, Field::Ipv4Dst])];
            let (mut cache, mut model) = (MegaflowCache::new(1000, SECRET), HashMap::new());
            for (n, source, destination, removes) in steps {
                let (key, mask) = (key(0, source, destination), masks[n]);
                let masked = (n, key.and(&mask));
                if removes {
                    let found = cache.find_exactly((&key, &mask));
                    let value = found.and_then(|id| cache.remove(id)).map(|megaflow| megaflow.value);
                    prop_assert_eq!(value, model.remove(&masked));
                } else if !model.contains_key(&masked) {
                    let value = model.len() as u32;
                    add(&mut cache, &key, &mask, value);
                    model.insert(masked, value);
                }
                prop_assert_eq!(cache.len(), model.len());
            }
            for ((n, key), value) in model {
                let id = cache.find_exactly((&key, &masks[n])).unwrap();
                prop_assert_eq!(cache.get(id).unwrap().value, value);
            }
        }
    }
}
