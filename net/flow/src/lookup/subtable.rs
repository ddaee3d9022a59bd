//! The flows that one hash table finds.

use super::mask::{Mask, add_ports, ports};
use super::prefix::{Bits, Lengths, PrefixTrie};
use super::search::Search;
use super::tries::MaskLengths;
use crate::key::Key;
use crate::matching::Match;
use crate::tables::radix::{Counts, OfKey, Radix, WARMED};
use crate::tables::{Entry, Flow, IN_ENTRY};
use std::sync::Arc;

/// Flows with the same hash from which on a subtable is split (Daly et al., `TupleMerge`, 2019).
const COLLISIONS: usize = 10;

/// A hash table of flows by the bits of one mask, which the masks of all flows contain.
#[derive(Clone)]
pub(super) struct Subtable {
    mask: Arc<Mask>,
    seed: u64,
    flows: Radix<Flow>,
    /// Hashes of the flows up to each stage but the last.
    stages: [Counts; 3],
    priorities: Counts,
    ports: PrefixTrie<u32>,
    /// Cached maximum of `priorities`.
    highest: u16,
    /// Bits of the masks of all flows, and of removed ones.
    union: Key,
    /// Lengths of the prefixes of all flows, and of removed ones.
    lengths: MaskLengths,
}

impl Subtable {
    pub(super) fn new(mask: Arc<Mask>, seed: u64) -> Self {
        Self {
            mask,
            seed,
            flows: Radix::default(),
            stages: Default::default(),
            priorities: Counts::default(),
            ports: PrefixTrie::default(),
            highest: 0,
            union: Key::ZERO,
            lengths: MaskLengths::default(),
        }
    }

    pub(super) fn mask(&self) -> &Arc<Mask> {
        &self.mask
    }

    pub(super) fn highest(&self) -> u16 {
        self.highest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter()
    }

    /// Continues a search with these flows. Adds the bits to it that the answer depends on.
    #[inline]
    pub(super) fn search<'a>(&'a self, search: &mut Search<'a, '_>) {
        let Some(flows) = self.hashed(search) else { return };
        let (floor, mut winner) = (search.floor(), None::<&Flow>);
        let priority = |flow: &Flow| i32::from(flow.entry().priority());
        for flow in flows.clone().filter(|flow| flow.entry().selects(search.key) && !flow.is_part()) {
            if priority(flow) > winner.map_or(floor, priority) {
                winner = Some(flow);
            }
        }
        // Flows that are worse than the best one do not matter.
        let least = winner.map_or(floor + 1, priority);
        for flow in flows.filter(|flow| priority(flow) >= least) {
            if !flow.entry().selects(search.key) {
                flow.entry().add_difference(search.key, search.bits);
                continue;
            }
            let mask = flow.entry().mask();
            mask.add_to(mask.len(), search.bits);
            if let Some(parts) = search.parts.as_mut().filter(|_| flow.is_part()) {
                parts.push(flow);
            }
        }
        search.best = winner.or(search.best);
    }

    /// Loads what searches of at most [`WARMED`] keys read into the cache.
    pub(super) fn warm(&self, keys: &[Key]) {
        let (mut hashes, mut flows) = ([0; WARMED], [None::<&Flow>; WARMED]);
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.mask.hash_all(key, self.seed);
        }
        self.flows.warm(&hashes[..keys.len()], |at, flow| {
            flow.entry().prefetch();
            flows[at] = Some(flow);
        });
        if self.mask.len() > IN_ENTRY {
            flows.iter().flatten().for_each(|flow| flow.entry().prefetch_values());
        }
    }

    /// The flows with the hash of the key, if there are any.
    fn hashed<'a>(&'a self, search: &mut Search<'_, '_>) -> Option<OfKey<'a, Flow>> {
        let (mask, mut hash, mut start) = (&*self.mask, self.seed, 0);
        for (stage, end) in mask.ends.iter().map(|end| usize::from(*end)).enumerate() {
            if stage == 2 && search.excludes(&self.lengths) {
                return None;
            }
            if start == end {
                continue;
            }
            hash = mask.hash(search.key, start..end, hash);
            start = end;
            if end < mask.len() && !self.stages[stage].contains(hash) {
                mask.add_to(end, search.bits);
                return None;
            }
        }
        let flows = self.flows.get(hash);
        let found = flows.clone().next().is_some();
        if !found && self.excluded_by_ports(search.key, search.bits) {
            return None;
        }
        mask.add_to(mask.len(), search.bits);
        found.then_some(flows)
    }

    /// Whether the ports alone exclude the flows.
    fn excluded_by_ports(&self, key: &Key, bits: &mut Key) -> bool {
        let mask = self.mask.ports;
        if mask == 0 {
            return false;
        }
        let found: Lengths = self.ports.lookup(ports(key) & mask);
        let excluded = !found.contains(length(mask));
        if excluded {
            add_ports(mask & leading(found.excluding), bits);
        }
        excluded
    }

    /// The flows with exactly this match, of all priorities.
    pub(super) fn exact(&self, matching: &Match) -> impl Iterator<Item = &Flow> {
        let found = self.flows.get(self.mask.hash_all(matching.key(), self.seed));
        found.filter(move |flow| {
            flow.entry().mask().full() == matching.mask() && flow.entry().selects(matching.key())
        })
    }

    /// The flows that `matching` may cover or overlap: those with its hash, if it has all bits of the subtable.
    pub(super) fn near(&self, matching: &Match) -> impl Iterator<Item = &Flow> {
        let hash = self.is_hashed(matching);
        let hashed = hash.then(|| self.flows.get(self.mask.hash_all(matching.key(), self.seed)));
        let all = (!hash).then(|| self.flows.iter());
        hashed.into_iter().flatten().chain(all.into_iter().flatten())
    }

    /// Whether `matching` has all bits by which flows are hashed.
    fn is_hashed(&self, matching: &Match) -> bool {
        matching.mask().and(self.mask.full()) == *self.mask.full()
    }

    /// Number of flows in [`Subtable::near`], at most.
    pub(super) fn compared(&self, matching: &Match) -> usize {
        if self.is_hashed(matching) {
            self.flows.get(self.mask.hash_all(matching.key(), self.seed)).count()
        } else {
            self.flows.len()
        }
    }

    /// Whether all bits of `mask` are in masks of flows.
    pub(super) fn contains(&self, mask: &Key) -> bool {
        self.union.and(mask) == *mask
    }

    /// The mask by which a new subtable should find flows that have the hash of `entry`, if there are too many.
    pub(super) fn crowded(&self, entry: &Entry) -> Option<Mask> {
        if self.union == *self.mask.full() {
            return None;
        }
        let bucket = || self.flows.get(self.mask.hash_all(&entry.key(), self.seed));
        if bucket().count() <= COLLISIONS {
            return None;
        }
        let own = self.mask.full();
        let masks = || bucket().map(|flow| flow.entry().mask()).filter(move |mask| mask.full() != own);
        let flows = |mask: &Mask| masks().filter(|other| other.full() == mask.full()).count();
        let most = masks().max_by_key(|mask| flows(mask))?;
        Some(self.mask.halfway(most))
    }

    /// Notes that the flows have these masks.
    pub(super) fn describe<'a>(&mut self, masks: impl Iterator<Item = &'a Arc<Mask>>) {
        (self.union, self.lengths) = (Key::ZERO, MaskLengths::default());
        masks.for_each(|mask| self.add_mask(mask));
    }

    fn add_mask(&mut self, mask: &Mask) {
        self.union = self.union.or(mask.full());
        self.lengths.add(mask);
    }

    pub(super) fn insert(&mut self, flow: Flow) {
        let key = flow.entry().key();
        self.add_mask(flow.entry().mask());
        for (stage, hash) in self.hashes(&key) {
            self.stages[stage].add(hash);
        }
        if self.mask.ports != 0 {
            self.ports.insert(ports(&key), length(self.mask.ports));
        }
        self.priorities.add(u64::from(flow.entry().priority()) << 48);
        self.highest = self.highest.max(flow.entry().priority());
        self.flows.insert(self.mask.hash_all(&key, self.seed), flow);
    }

    pub(super) fn remove(&mut self, flow: &Flow) -> bool {
        let key = flow.entry().key();
        let hash = self.mask.hash_all(&key, self.seed);
        if self.flows.remove(hash, |other| other.is(flow.entry())).is_none() {
            return false;
        }
        for (stage, hash) in self.hashes(&key) {
            self.stages[stage].remove(hash);
        }
        if self.mask.ports != 0 {
            self.ports.remove(ports(&key), length(self.mask.ports));
        }
        self.priorities.remove(u64::from(flow.entry().priority()) << 48);
        self.highest = self.priorities.max().map_or(0, |priority| (priority >> 48) as u16);
        true
    }

    pub(super) fn get_mut(&mut self, flow: &Flow) -> Option<&mut Flow> {
        let hash = self.mask.hash_all(&flow.entry().key(), self.seed);
        self.flows.get_mut(hash, |other| other.is(flow.entry()))
    }

    /// The stages that have an index, and the hash of `key` after each.
    fn hashes(&self, key: &Key) -> Vec<(usize, u64)> {
        let (mut hash, mut start, mut hashes) = (self.seed, 0, Vec::with_capacity(3));
        for (stage, end) in self.mask.ends.iter().map(|end| usize::from(*end)).enumerate() {
            if start < end && end < self.mask.len() {
                hash = self.mask.hash(key, start..end, hash);
                hashes.push((stage, hash));
                start = end;
            }
        }
        hashes
    }
}

/// Length of the shortest prefix that contains the bits of `mask`.
fn length(mask: u32) -> u8 {
    (u32::WIDTH - mask.trailing_zeros()) as u8
}

/// The first `bits` bits.
fn leading(bits: u32) -> u32 {
    if bits == 0 { 0 } else { u32::MAX << (32 - bits) }
}
