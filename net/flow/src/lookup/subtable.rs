//! The flows of one mask.

use super::mask::{Mask, add_ports, ports};
use super::prefix::{Bits, Lengths, PrefixTrie};
use crate::key::Key;
use crate::tables::Flow;
use crate::tables::radix::{Counts, Radix};
use std::sync::Arc;

/// A hash table of flows with the same mask.
#[derive(Clone)]
pub(super) struct Subtable {
    pub(super) mask: Arc<Mask>,
    seed: u64,
    flows: Radix<Flow>,
    /// Hashes of the flows up to each stage but the last.
    stages: [Counts; 3],
    priorities: Counts,
    ports: PrefixTrie<u32>,
    /// Cached maximum of `priorities`.
    highest: u16,
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
        }
    }

    pub(super) fn highest(&self) -> u16 {
        self.highest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter()
    }

    /// The flows that select `key`, of all priorities. Adds the bits that the answer depends on to `bits`.
    #[inline]
    pub(super) fn find<'a, 'k, T: FnMut(&Mask, &mut Key) -> bool>(
        &'a self,
        key: &'k Key,
        excluded: &mut T,
        bits: &mut Key,
    ) -> impl Iterator<Item = &'a Flow> + use<'a, 'k, T> {
        let hash = self.hash(key, excluded, bits);
        let found = hash.into_iter().flat_map(|hash| self.flows.get(hash));
        found.filter(move |flow| flow.entry().selects(key))
    }

    /// The hash of `key`, if a flow may select it.
    fn hash(
        &self,
        key: &Key,
        excluded: &mut impl FnMut(&Mask, &mut Key) -> bool,
        bits: &mut Key,
    ) -> Option<u64> {
        let (mask, mut hash, mut start) = (&*self.mask, self.seed, 0);
        for (stage, end) in mask.ends.iter().map(|end| usize::from(*end)).enumerate() {
            if start == end {
                continue;
            }
            if stage == 2 && excluded(mask, bits) {
                return None;
            }
            hash = mask.hash(key, start..end, hash);
            start = end;
            if end < mask.len() && !self.stages[stage].contains(hash) {
                mask.add_to(end, bits);
                return None;
            }
        }
        let found = self.flows.get(hash).any(|flow| flow.entry().selects(key));
        if !found && self.excluded_by_ports(key, bits) {
            return None;
        }
        mask.add_to(mask.len(), bits);
        found.then_some(hash)
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

    /// The flows with exactly these values, of all priorities.
    pub(super) fn exact(&self, key: &Key) -> impl Iterator<Item = &Flow> {
        let found = self.flows.get(self.mask.hash_all(key, self.seed));
        found.filter(move |flow| flow.entry().selects(key))
    }

    pub(super) fn insert(&mut self, flow: Flow) {
        let key = flow.entry().key();
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
