//! Subtables: the megaflows of one mask, and the masks in use.

use super::{Link, MAX_SUBTABLES, Megaflow, MegaflowCache, MegaflowId};
use crate::cache::head::fold;
use crate::key::Key;

/// Megaflows of one mask.
pub(super) struct Subtable {
    /// Hash of the mask.
    pub(super) number: u64,
    /// Words of the mask that are not 0, and their numbers.
    mask: Box<[(u8, u64)]>,
    /// Slots of the megaflows.
    pub(super) slots: Vec<u32>,
    /// Hits, halved at each ranking.
    pub(super) hits: u64,
}

impl Subtable {
    fn new(mask: &Key, number: u64) -> Self {
        let words = (0..).zip(mask.words().iter().copied()).filter(|(_, word)| *word != 0);
        Self { number, mask: words.collect(), slots: Vec::new(), hits: 0 }
    }

    fn is_of(&self, mask: &Key) -> bool {
        let words = (0_u8..).zip(mask.words().iter().copied()).filter(|(_, word)| *word != 0);
        words.eq(self.mask.iter().copied())
    }

    pub(super) fn masked(&self, key: &Key) -> impl Iterator<Item = u64> {
        self.mask.iter().map(|(i, mask)| key.words()[usize::from(*i)] & mask)
    }

    /// Key and mask of a megaflow with these words.
    pub(super) fn expand(&self, words: &[u64]) -> (Key, Key) {
        let (mut key, mut mask) = (Key::ZERO, Key::ZERO);
        for ((i, bits), word) in self.mask.iter().zip(words) {
            (key.0[usize::from(*i)], mask.0[usize::from(*i)]) = (*word, *bits);
        }
        (key, mask)
    }

    #[inline]
    pub(super) fn hash(&self, key: &Key, secret: [u64; 2]) -> u64 {
        self.masked(key).fold(self.number, |hash, word| fold(hash ^ word, secret[1]))
    }
}

impl<T> MegaflowCache<T> {
    /// The megaflow that selects `key` in a subtable.
    #[inline]
    pub(super) fn probe(&self, number: u16, key: &Key) -> Option<MegaflowId> {
        let subtable = &self.subtables[usize::from(number)];
        let hash = subtable.hash(key, self.secret);
        let mut link: Link = self.buckets[hash as usize & (self.buckets.len() - 1)];
        while let Some(slot) = link.checked_sub(1) {
            let flow = self.slots.get(slot)?;
            if flow.hash == hash
                && flow.subtable == number
                && subtable.masked(key).eq(flow.words.iter().copied())
            {
                return Some(MegaflowId { slot, epoch: flow.epoch });
            }
            link = flow.next;
        }
        None
    }

    pub(super) fn hash_of_mask(&self, mask: &Key) -> u64 {
        mask.words().iter().fold(self.secret[0], |hash, word| fold(hash ^ word, self.secret[1]))
    }

    /// Number of the subtable of `mask`, whose hash is `hash`.
    pub(super) fn number_of(&self, mask: &Key, hash: u64) -> Option<u16> {
        self.by_mask.find(hash, |number| self.subtables[usize::from(*number)].is_of(mask)).copied()
    }

    /// Number of the subtable of `mask`, which is created if there is none.
    pub(super) fn subtable(&mut self, mask: &Key, removed: &mut impl FnMut(Megaflow<T>)) -> u16 {
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
        let slots = self.subtables[usize::from(*number)].slots.clone();
        slots.into_iter().filter_map(|slot| self.take(slot)).for_each(removed);
    }
}
