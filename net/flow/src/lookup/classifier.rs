//! The flows of one table.

use super::mask::{Mask, TRIES};
use super::prefix::{Lengths, PrefixTrie};
use super::subtable::Subtable;
use crate::field::Field;
use crate::key::Key;
use crate::matching::Match;
use crate::tables::Flow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Masks of a table. Bounds the work of a lookup.
pub(crate) const MASKS: usize = 4096;

/// Flows, found by packet or by match.
#[derive(Clone, Default)]
pub(crate) struct Classifier {
    /// By descending highest priority.
    subtables: Vec<Arc<Subtable>>,
    ipv4: [PrefixTrie<u32>; 2],
    ipv6: [PrefixTrie<u128>; 2],
    len: usize,
}

impl Classifier {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of different masks.
    pub(crate) fn masks(&self) -> usize {
        self.subtables.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.subtables.iter().flat_map(|subtable| subtable.iter())
    }

    /// The flow of the highest priority that selects `key`. Adds the bits that the answer depends on to `bits`: every
    /// key that agrees with `key` in them has the same answer.
    pub(crate) fn find(&self, key: &Key, bits: &mut Key) -> Option<&Flow> {
        let mut parts = Vec::new();
        let hard = self.search(key, bits, Some(&mut parts));
        if parts.is_empty() { hard } else { self.conjunctive(key, bits, hard, parts) }
    }

    /// The best flow without conjunctions. Flows with conjunctions that may be better are added to `parts`.
    fn search<'a>(
        &'a self,
        key: &Key,
        bits: &mut Key,
        mut parts: Option<&mut Vec<&'a Flow>>,
    ) -> Option<&'a Flow> {
        let mut tries = Tries { classifier: self, key, found: [None; 4] };
        let mut excluded = |mask: &Mask, bits: &mut Key| tries.exclude(mask, bits);
        let mut best: Option<&Flow> = None;
        for subtable in &self.subtables {
            let priority = best.map_or(-1, |best| i32::from(best.entry().priority()));
            if i32::from(subtable.highest()) <= priority {
                break;
            }
            for flow in subtable.find(key, &mut excluded, bits) {
                if flow.is_part() {
                    if let Some(parts) = &mut parts {
                        parts.push(flow);
                    }
                } else if best.is_none_or(|best| best.entry().priority() < flow.entry().priority()) {
                    best = Some(flow);
                }
            }
        }
        best
    }

    /// The best flow, if all clauses of a conjunction are in `parts` with a priority above that of `hard`
    /// (ovs-fields(7), "Conjunctive Match Fields").
    fn conjunctive<'a>(
        &'a self,
        key: &Key,
        bits: &mut Key,
        hard: Option<&'a Flow>,
        mut parts: Vec<&'a Flow>,
    ) -> Option<&'a Flow> {
        parts.sort_by_key(|flow| std::cmp::Reverse(flow.entry().priority()));
        for same in parts.chunk_by(|a, b| a.entry().priority() == b.entry().priority()) {
            if hard.is_some_and(|hard| hard.entry().priority() >= same[0].entry().priority()) {
                break;
            }
            for id in complete(same) {
                let mut key = *key;
                key.set(Field::ConjId, id.into());
                let found = self.search(&key, bits, None);
                if found.is_some() {
                    return found;
                }
            }
        }
        hard
    }

    /// The flow with this match and priority.
    pub(crate) fn exact(&self, matching: &Match, priority: u16) -> Option<&Flow> {
        let subtable = self.subtables.iter().find(|subtable| subtable.mask.full() == matching.mask())?;
        let mut found = subtable.exact(matching.key());
        found.find(|flow| flow.entry().priority() == priority)
    }

    /// The flows that `matching` covers.
    pub(crate) fn covered(&self, matching: &Match) -> Vec<Flow> {
        let mut found = Vec::new();
        for subtable in self.subtables.iter().filter(|subtable| subtable.mask.contains(matching.mask())) {
            if subtable.mask.full() == matching.mask() {
                found.extend(subtable.exact(matching.key()).cloned());
            } else {
                found.extend(subtable.iter().filter(|flow| flow.entry().is_within(matching)).cloned());
            }
        }
        found
    }

    /// Whether a flow of this priority overlaps `matching`.
    pub(crate) fn overlaps(&self, matching: &Match, priority: u16) -> bool {
        let (key, mask) = (matching.key(), matching.mask());
        self.subtables.iter().filter(|subtable| subtable.highest() >= priority).any(|subtable| {
            if subtable.mask.full().and(mask) == *subtable.mask.full() {
                return subtable.exact(key).any(|flow| flow.entry().priority() == priority);
            }
            let mut same = subtable.iter().filter(|flow| flow.entry().priority() == priority);
            same.any(|flow| flow.entry().overlaps(key, mask))
        })
    }

    /// The mask of a new flow; `None` if there are too many.
    pub(crate) fn mask(&self, mask: &Key) -> Option<Arc<Mask>> {
        let found = self.subtables.iter().find(|subtable| subtable.mask.full() == mask);
        match found {
            Some(subtable) => Some(subtable.mask.clone()),
            None if self.subtables.len() < MASKS => Some(Arc::new(Mask::new(mask))),
            None => None,
        }
    }

    /// Adds a flow. The classifier must not contain one with the same match and priority.
    pub(crate) fn insert(&mut self, flow: Flow, seed: u64) {
        let (mask, key) = (flow.entry().mask().clone(), flow.entry().key());
        self.change_tries(&mask, &key, true);
        let at = self.position(&mask).unwrap_or_else(|| {
            self.subtables.push(Arc::new(Subtable::new(mask, seed)));
            self.subtables.len() - 1
        });
        Arc::make_mut(&mut self.subtables[at]).insert(flow);
        self.len += 1;
        self.reorder(at);
    }

    /// Removes a flow. Returns whether it was there.
    pub(crate) fn remove(&mut self, flow: &Flow) -> bool {
        let mask = flow.entry().mask().clone();
        let Some(at) = self.position(&mask) else { return false };
        let subtable = Arc::make_mut(&mut self.subtables[at]);
        if !subtable.remove(flow) {
            return false;
        }
        if subtable.is_empty() {
            self.subtables.remove(at);
        } else {
            self.reorder(at);
        }
        self.change_tries(&mask, &flow.entry().key(), false);
        self.len -= 1;
        true
    }

    /// A flow, to change its instructions.
    pub(crate) fn get_mut(&mut self, flow: &Flow) -> Option<&mut Flow> {
        let at = self.position(flow.entry().mask())?;
        Arc::make_mut(&mut self.subtables[at]).get_mut(flow)
    }

    fn position(&self, mask: &Arc<Mask>) -> Option<usize> {
        let same = |subtable: &Arc<Subtable>| Arc::ptr_eq(&subtable.mask, mask);
        let position = self.subtables.iter().position(same);
        position.or_else(|| self.subtables.iter().position(|other| other.mask.full() == mask.full()))
    }

    /// Moves the subtable at `at` to its place in the order.
    fn reorder(&mut self, mut at: usize) {
        let highest = |subtables: &[Arc<Subtable>], i: usize| subtables[i].highest();
        while at > 0 && highest(&self.subtables, at - 1) < highest(&self.subtables, at) {
            self.subtables.swap(at - 1, at);
            at -= 1;
        }
        while at + 1 < self.subtables.len() && highest(&self.subtables, at + 1) > highest(&self.subtables, at)
        {
            self.subtables.swap(at, at + 1);
            at += 1;
        }
    }

    fn change_tries(&mut self, mask: &Mask, key: &Key, add: bool) {
        for (i, len) in mask.prefixes.into_iter().enumerate().filter(|(_, len)| *len > 0) {
            let value = key.get(TRIES[i]);
            match (i, add) {
                (0 | 1, true) => self.ipv4[i].insert(value as u32, len),
                (0 | 1, false) => self.ipv4[i].remove(value as u32, len),
                (_, true) => self.ipv6[i - 2].insert(value, len),
                (_, false) => self.ipv6[i - 2].remove(value, len),
            }
        }
    }
}

/// The tries of a classifier, each searched at most once in a lookup.
struct Tries<'a> {
    classifier: &'a Classifier,
    key: &'a Key,
    found: [Option<Lengths>; 4],
}

impl Tries<'_> {
    /// Whether an address alone excludes a subtable: no flow has a prefix of its length that matches.
    fn exclude(&mut self, mask: &Mask, bits: &mut Key) -> bool {
        for (i, len) in mask.prefixes.into_iter().enumerate().filter(|(_, len)| *len > 0) {
            let (field, tables) = (TRIES[i], self.classifier);
            let value = self.key.get(field);
            let found = *self.found[i].get_or_insert_with(|| match i {
                0 | 1 => tables.ipv4[i].lookup(value as u32),
                _ => tables.ipv6[i - 2].lookup(value),
            });
            if !found.contains(len) {
                // Prefixes of this length differ within their own bits.
                let needed = found.excluding.min(u32::from(len));
                let width = u32::from(field.info().bits);
                let prefix = if needed == 0 { 0 } else { field.full() << (width - needed) & field.full() };
                bits.set(field, bits.get(field) | prefix);
                return true;
            }
        }
        false
    }
}

/// The conjunctions of which all clauses are among `parts`, in ascending order.
fn complete(parts: &[&Flow]) -> Vec<u32> {
    let mut clauses: BTreeMap<(u32, u8), u64> = BTreeMap::new();
    for (id, clause, of) in parts.iter().flat_map(|flow| flow.conjunctions()) {
        *clauses.entry((id, of)).or_default() |= 1 << clause;
    }
    let complete = clauses.into_iter().filter(|((_, of), found)| found.count_ones() == u32::from(*of));
    complete.map(|((id, _), _)| id).collect()
}
