//! The index of a shard: from part of a hash to the slot of a connection.
//!
//! A hash table of cache lines with eight places each. The places in use of a line come first. An entry is in the line
//! that its hash names, or in the first one behind it that had room: a search ends at a line with room. The line of a
//! hash is known without reading any other, so it can be loaded before the search ([`Index::hint`]).

/// Places of a line.
const PLACES: usize = 8;

/// One cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line {
    hashes: [u32; PLACES],
    /// One more than the slot; 0 in places that are not in use.
    slots: [u32; PLACES],
}

const _: () = assert!(size_of::<Line>() == mem::line::LINE);

/// See above. At most three quarters of its places are in use.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Index {
    /// None, or a power of two.
    lines: Box<[Line]>,
    len: usize,
}

impl Line {
    fn len(&self) -> usize {
        self.slots.iter().take_while(|slot| **slot != 0).count()
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.slots[PLACES - 1] != 0
    }

    fn push(&mut self, hash: u32, slot: u32) {
        let at = self.len();
        (self.hashes[at], self.slots[at]) = (hash, slot);
    }

    /// Removes a place; the last one takes it.
    fn remove(&mut self, at: usize) -> (u32, u32) {
        let last = self.len() - 1;
        let removed = (self.hashes[at], self.slots[at]);
        (self.hashes[at], self.slots[at]) = (self.hashes[last], self.slots[last]);
        self.slots[last] = 0;
        removed
    }
}

impl Index {
    #[inline]
    fn next(&self, line: usize) -> usize {
        line.wrapping_add(1) & self.lines.len().wrapping_sub(1)
    }

    #[inline]
    fn home(&self, hash: u32) -> usize {
        hash as usize & self.lines.len().wrapping_sub(1)
    }

    /// The slot with this hash for which `is_it`.
    #[inline]
    pub(crate) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        loop {
            let line = self.lines.get(at)?;
            for (known, slot) in line.hashes.iter().zip(line.slots) {
                if *known == hash && slot != 0 && is_it(slot - 1) {
                    return Some(slot - 1);
                }
            }
            if !line.is_full() {
                return None;
            }
            at = self.next(at);
        }
    }

    /// Adds a slot, which must not be there.
    pub(crate) fn insert(&mut self, hash: u32, slot: u32) {
        if self.len >= self.lines.len() * (PLACES * 3 / 4) {
            self.grow();
        }
        self.len += 1;
        self.add(hash, slot + 1);
    }

    fn add(&mut self, hash: u32, slot: u32) {
        let mut at = self.home(hash);
        while self.lines[at].is_full() {
            at = self.next(at);
        }
        self.lines[at].push(hash, slot);
    }

    #[cold]
    fn grow(&mut self) {
        let lines = vec![Line::default(); (self.lines.len() * 2).max(1)].into();
        for line in std::mem::replace(&mut self.lines, lines) {
            for at in 0..line.len() {
                self.add(line.hashes[at], line.slots[at]);
            }
        }
    }

    /// Removes a slot, if it is there.
    pub(crate) fn remove(&mut self, hash: u32, slot: u32) {
        let mut at = self.home(hash);
        while let Some(line) = self.lines.get_mut(at) {
            let was_full = line.is_full();
            if let Some(place) = line.slots.iter().position(|known| *known == slot + 1) {
                line.remove(place);
                self.len -= 1;
                if was_full {
                    self.fill(at);
                }
                return;
            }
            if !was_full {
                return;
            }
            at = self.next(at);
        }
    }

    /// Moves an entry that had found a line full back to it, now that it has room, and so on for the line that it
    /// leaves.
    fn fill(&mut self, mut room: usize) {
        let mut at = self.next(room);
        while at != room {
            let distance = |line: usize| at.wrapping_sub(line) & (self.lines.len() - 1);
            let (line, was_full) = (&self.lines[at], self.lines[at].is_full());
            let is_displaced = |place: &usize| distance(self.home(line.hashes[*place])) >= distance(room);
            if let Some(place) = (0..line.len()).find(is_displaced) {
                let (hash, slot) = self.lines[at].remove(place);
                self.lines[room].push(hash, slot);
                room = at;
            }
            if !was_full {
                return;
            }
            at = self.next(at);
        }
    }

    /// Number of entries.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where the line of each hash is. See [`line_of`].
    pub(crate) fn hint(&self) -> usize {
        // Lines are aligned, so the lowest bits are free.
        if self.lines.is_empty() { 0 } else { self.lines.as_ptr().addr() | self.lines.len().ilog2() as usize }
    }
}

/// Address of the line of a hash in an index with this hint, which may have other lines by now.
#[inline]
pub(crate) fn line_of(hint: usize, hash: u32) -> usize {
    let (lines, power) = (hint & !(size_of::<Line>() - 1), hint & (size_of::<Line>() - 1));
    let at = hash as usize & ((1 << power) - 1);
    lines.wrapping_add(at * size_of::<Line>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Every entry is found, and a hint names the line of each hash.
    fn check(index: &Index, entries: &BTreeSet<(u32, u32)>) {
        assert_eq!(index.len(), entries.len());
        for (hash, slot) in entries {
            assert_eq!(index.find(*hash, |found| found == *slot), Some(*slot));
            let home = std::ptr::from_ref(&index.lines[index.home(*hash)]).addr();
            assert_eq!(line_of(index.hint(), *hash), home);
        }
    }

    proptest! {
        /// Few hashes, so that lines are full and entries are in lines behind theirs, also from the last to the first.
        #[test]
        fn an_index_finds_what_was_added_and_not_removed(
            steps in prop::collection::vec((any::<bool>(), 0..200_u32), 0..400),
        ) {
            let (mut index, mut entries) = (Index::default(), BTreeSet::new());
            for (adds, slot) in steps {
                let hash = [0, 1, 2, 3, u32::MAX, u32::MAX - 1, u32::MAX - 2, 1 << 31][slot as usize % 8];
                if adds && entries.insert((hash, slot)) {
                    index.insert(hash, slot);
                } else if entries.remove(&(hash, slot)) {
                    index.remove(hash, slot);
                }
                prop_assert_eq!(index.find(hash, |found| found == slot).is_some(), entries.contains(&(hash, slot)));
            }
            check(&index, &entries);
        }
    }

    #[test]
    fn an_empty_index_finds_nothing() {
        let mut index = Index::default();
        assert_eq!(index.find(7, |_| true), None);
        index.remove(7, 0);
        assert_eq!((index.len(), index.hint()), (0, 0));
    }
}
