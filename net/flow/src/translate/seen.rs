//! Record of the lookups of a translation: their tables, and the fields that differed from those of the packet.
//!
//! A cached result is wrong only if a changed flow may select the key that a lookup has seen. That key has the fields
//! of the packet, except for those that actions have set before it, and those that are not known.

use super::state::State;
use crate::key::{Key, WORDS};
use crate::modify::TableId;
use crate::tables::Entry;

/// Different sets of changed fields of one translation. Further lookups count as if they had seen any key.
const MAX_SEEN: usize = 32;

/// Lookups that have seen the same changed fields.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Bit `i % 64` of word `i / 64` for table `i`.
    tables: [u64; 4],
    /// `None`: any key.
    changed: Option<Box<[Word]>>,
}

/// Bits of a word of the key that may differ from those of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    number: u8,
    /// Bits that are the same for all packets of the result.
    set: u64,
    /// Their values.
    value: u64,
    /// Bits that are not known.
    unknown: u64,
}

impl Seen {
    /// Adds a lookup in `table` with the present state.
    pub(super) fn add(list: &mut Vec<Self>, table: TableId, state: &State) {
        if let Some(last) = list.last_mut().filter(|last| last.is_of(state)) {
            return last.insert(table);
        }
        let changed = (list.len() < MAX_SEEN).then(|| words(state).collect());
        let mut seen = Self { tables: [0; 4], changed };
        seen.insert(table);
        list.push(seen);
    }

    fn is_of(&self, state: &State) -> bool {
        self.changed.as_ref().is_none_or(|changed| words(state).eq(changed.iter().copied()))
    }

    fn insert(&mut self, table: TableId) {
        self.tables[usize::from(table.0 / 64)] |= 1 << (table.0 % 64);
    }

    /// Whether one of the lookups was in `table`.
    pub fn visited(&self, table: TableId) -> bool {
        self.tables[usize::from(table.0 / 64)] >> (table.0 % 64) & 1 == 1
    }

    /// Whether one of the lookups may find `entry`, for packets that agree with `key` in the bits of `mask`.
    pub(crate) fn may_find(&self, entry: &Entry, key: &Key, mask: &Key) -> bool {
        if !self.visited(entry.table()) {
            return false;
        }
        let Some(changed) = &self.changed else { return true };
        let (mut key, mut mask) = (*key, *mask);
        for Word { number, set, value, unknown } in changed {
            let i = usize::from(*number);
            key.0[i] = key.0[i] & !set | value;
            mask.0[i] = mask.0[i] & !unknown | set;
        }
        entry.overlaps(&key, &mask)
    }
}

fn words(state: &State) -> impl Iterator<Item = Word> {
    (0..WORDS).filter_map(|i| {
        let set = state.written.0[i] & !state.opaque.0[i];
        let unknown = (state.opaque.0[i] | state.computed.0[i]) & !set;
        let word = Word { number: i as u8, set, value: state.key.0[i] & set, unknown };
        (set | unknown != 0).then_some(word)
    })
}
