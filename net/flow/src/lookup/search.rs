//! State of one lookup in a table.

use super::mask::{TRIES, prefix_mask};
use super::prefix::Lengths;
use super::tries::{MaskLengths, Tries};
use crate::key::Key;
use crate::tables::Flow;

/// A lookup of `key`, from subtable to subtable.
pub(super) struct Search<'a, 'k> {
    pub(super) key: &'k Key,
    /// Bits that the answer depends on.
    pub(super) bits: &'k mut Key,
    /// The best flow so far that is no part of a conjunction.
    pub(super) best: Option<&'a Flow>,
    /// Parts of conjunctions that may be better; `None` if they are ignored.
    pub(super) parts: Option<Vec<&'a Flow>>,
    tries: &'a Tries,
    /// Results of the tries, each searched at most once.
    found: [Option<Lengths>; 4],
}

impl<'a, 'k> Search<'a, 'k> {
    pub(super) fn new(
        tries: &'a Tries,
        key: &'k Key,
        bits: &'k mut Key,
        parts: Option<Vec<&'a Flow>>,
    ) -> Self {
        Self { key, bits, best: None, parts, tries, found: [None; 4] }
    }

    /// Priority that a flow must exceed; -1 for none.
    pub(super) fn floor(&self) -> i32 {
        self.best.map_or(-1, |best| best.entry().priority().into())
    }

    /// Whether an address alone excludes all flows of a subtable: none of its prefix lengths matches.
    pub(super) fn excludes(&mut self, masks: &MaskLengths) -> bool {
        masks.all().any(|(i, lengths)| {
            let (tries, key) = (self.tries, self.key);
            let found = *self.found[i].get_or_insert_with(|| tries.lookup(i, key));
            let excluded = !found.contains_any(lengths);
            if excluded {
                // Each prefix of these lengths differs within its own bits.
                let longest = 128 - lengths.leading_zeros();
                let needed = prefix_mask(TRIES[i], found.excluding.min(longest) as u8);
                self.bits.set(TRIES[i], self.bits.get(TRIES[i]) | needed);
            }
            excluded
        })
    }
}
