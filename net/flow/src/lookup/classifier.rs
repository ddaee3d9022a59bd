//! The flows of one table.

use super::mask::Mask;
use super::masks::Masks;
use super::search::Search;
use super::subtable::Subtable;
use super::tries::Tries;
use crate::field::Field;
use crate::key::Key;
use crate::matching::Match;
use crate::tables::Flow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Masks of a table. Bounds the work of a lookup.
pub(crate) const MASKS: usize = 4096;
/// Subtables from which on flows of a new mask are added to one of a similar mask. Fewer are searched faster, and their
/// results depend on fewer bits, with one mask each.
const SEPARATE: usize = 16;
/// Flows from which on a subtable exceeds the caches.
const LARGE: usize = 1 << 14;
/// Such subtables that are loaded before a lookup.
const WARM: usize = 4;

/// Flows, found by packet or by match.
#[derive(Clone, Default)]
pub(crate) struct Classifier {
    /// By descending highest priority.
    subtables: Vec<Arc<Subtable>>,
    masks: Masks,
    tries: Tries,
    len: usize,
}

impl Classifier {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of different masks.
    pub(crate) fn masks(&self) -> usize {
        self.masks.len()
    }

    /// Number of hash tables that a lookup searches at most.
    pub(crate) fn subtables(&self) -> usize {
        self.subtables.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.subtables.iter().flat_map(|subtable| subtable.iter())
    }

    /// The flow of the highest priority that selects `key`. Adds the bits that the answer depends on to `bits`: every
    /// key that agrees with `key` in them has the same answer.
    pub(crate) fn find(&self, key: &Key, bits: &mut Key) -> Option<&Flow> {
        let mut search = Search::new(&self.tries, key, bits, Some(Vec::new()));
        self.visit(&mut search);
        let (hard, parts) = (search.best, search.parts.unwrap_or_default());
        if parts.is_empty() { hard } else { self.conjunctive(key, bits, hard, parts) }
    }

    /// Loads what lookups of at most [`WARMED`](crate::tables::radix::WARMED) keys read in large subtables into the
    /// cache, so that they wait for memory at the same time.
    pub(crate) fn warm(&self, keys: &[Key]) {
        let large = self.subtables.iter().filter(|subtable| subtable.len() >= LARGE);
        large.take(WARM).for_each(|subtable| subtable.warm(keys));
    }

    fn visit<'a>(&'a self, search: &mut Search<'a, '_>) {
        for subtable in &self.subtables {
            if i32::from(subtable.highest()) <= search.floor() {
                break;
            }
            subtable.search(search);
        }
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
                let mut search = Search::new(&self.tries, &key, bits, None);
                self.visit(&mut search);
                if search.best.is_some() {
                    return search.best;
                }
            }
        }
        hard
    }

    /// The flow with this match and priority.
    pub(crate) fn exact(&self, matching: &Match, priority: u16) -> Option<&Flow> {
        let member = self.masks.get(matching.mask())?;
        let subtable = &self.subtables[self.position(&member.subtable)?];
        let mut found = subtable.exact(matching);
        found.find(|flow| flow.entry().priority() == priority)
    }

    /// The flows that `matching` covers.
    pub(crate) fn covered(&self, matching: &Match) -> Vec<Flow> {
        let subtables = self.subtables.iter().filter(|subtable| subtable.contains(matching.mask()));
        let near = subtables.flat_map(|subtable| subtable.near(matching));
        near.filter(|flow| flow.entry().is_within(matching)).cloned().collect()
    }

    /// Number of flows that [`Classifier::covered`] and [`Classifier::overlaps`] compare with `matching`, at most.
    pub(crate) fn compared(&self, matching: &Match) -> usize {
        self.subtables.iter().map(|subtable| 1 + subtable.compared(matching)).sum()
    }

    /// Whether a flow of this priority overlaps `matching`.
    pub(crate) fn overlaps(&self, matching: &Match, priority: u16) -> bool {
        let subtables = self.subtables.iter().filter(|subtable| subtable.highest() >= priority);
        let near = subtables.flat_map(|subtable| subtable.near(matching));
        let mut same = near.filter(|flow| flow.entry().priority() == priority);
        same.any(|flow| flow.entry().overlaps(matching.key(), matching.mask()))
    }

    /// The mask of a new flow; `None` if there are too many.
    pub(crate) fn mask(&self, mask: &Key) -> Option<Arc<Mask>> {
        match self.masks.get(mask) {
            Some(member) => Some(member.mask.clone()),
            None if self.masks.len() < MASKS => Some(Arc::new(Mask::new(mask))),
            None => None,
        }
    }

    /// Adds a flow. The classifier must not contain one with the same match and priority.
    pub(crate) fn insert(&mut self, flow: Flow, seed: u64) {
        let mask = flow.entry().mask().clone();
        self.tries.add(&mask, &flow.entry().key());
        let subtable = self.subtable_of(&mask);
        self.masks.add(&mask, &subtable);
        let (at, entry) = (self.position_or_new(&subtable, seed), flow.entry().clone());
        Arc::make_mut(&mut self.subtables[at]).insert(flow);
        self.len += 1;
        match self.subtables[at].crowded(&entry) {
            Some(finer) => self.split(at, finer, seed),
            None => self.reorder(at),
        }
    }

    /// Removes a flow. Returns whether it was there.
    pub(crate) fn remove(&mut self, flow: &Flow) -> bool {
        let mask = flow.entry().mask().clone();
        let Some(at) = self.position_of(flow) else { return false };
        let subtable = Arc::make_mut(&mut self.subtables[at]);
        if !subtable.remove(flow) {
            return false;
        }
        if subtable.is_empty() {
            self.subtables.remove(at);
        } else {
            self.reorder(at);
        }
        self.tries.remove(&mask, &flow.entry().key());
        self.masks.remove(&mask);
        self.len -= 1;
        true
    }

    /// A flow, to change its instructions.
    pub(crate) fn get_mut(&mut self, flow: &Flow) -> Option<&mut Flow> {
        let at = self.position_of(flow)?;
        Arc::make_mut(&mut self.subtables[at]).get_mut(flow)
    }

    /// Mask of the subtable for a flow with `mask`: the one that has this mask already; one of its own, if there are
    /// few; or else the most specific one that is similar.
    fn subtable_of(&self, mask: &Arc<Mask>) -> Arc<Mask> {
        if let Some(subtable) = self.masks.subtable(mask) {
            return subtable.clone();
        }
        if self.subtables.len() < SEPARATE {
            return mask.clone();
        }
        let masks = self.subtables.iter().map(|subtable| subtable.mask());
        let similar = masks.filter(|other| mask.contains(other.full()) && other.bits() * 2 >= mask.bits());
        similar.max_by_key(|other| other.bits()).cloned().unwrap_or_else(|| Arc::new(mask.relaxed()))
    }

    fn position(&self, subtable: &Arc<Mask>) -> Option<usize> {
        self.subtables.iter().position(|other| Arc::ptr_eq(other.mask(), subtable))
    }

    fn position_of(&self, flow: &Flow) -> Option<usize> {
        self.position(self.masks.subtable(flow.entry().mask())?)
    }

    fn position_or_new(&mut self, subtable: &Arc<Mask>, seed: u64) -> usize {
        self.position(subtable).unwrap_or_else(|| {
            self.subtables.push(Arc::new(Subtable::new(subtable.clone(), seed)));
            self.subtables.len() - 1
        })
    }

    /// Moves the flows of the subtable at `from` whose masks contain `finer` to a subtable with that mask.
    fn split(&mut self, from: usize, finer: Mask, seed: u64) {
        let same =
            self.subtables.iter().map(|subtable| subtable.mask()).find(|mask| mask.full() == finer.full());
        let (coarse, finer) =
            (self.subtables[from].mask().clone(), same.cloned().unwrap_or_else(|| Arc::new(finer)));
        let to = self.position_or_new(&finer, seed);
        let flows = self.subtables[from].iter().filter(|flow| flow.entry().mask().contains(finer.full()));
        for flow in flows.cloned().collect::<Vec<_>>() {
            Arc::make_mut(&mut self.subtables[from]).remove(&flow);
            Arc::make_mut(&mut self.subtables[to]).insert(flow);
        }
        self.masks.move_all(&coarse, &finer);
        Arc::make_mut(&mut self.subtables[from]).describe(self.masks.of(&coarse));
        self.subtables.retain(|subtable| !subtable.is_empty());
        self.subtables.sort_by_key(|subtable| std::cmp::Reverse(subtable.highest()));
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
