//! One cache's tags: which lines are there, since when, and which goes next: the least recently used of a private cache, any of
//! a shared one.
//!
//! It knows nothing of rights: who may write a line is the directory's matter.

use super::Time;
use super::counters::Source;

/// What is known of a line that is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// When its bytes have come, or will have
    pub(super) ready: Time,
    /// Where from
    pub(super) source: Source,
    /// Fetched by a prefetcher and not used since
    pub(super) unused: bool,
    /// The bytes here are newer than memory's (only the shared cache asks)
    pub(super) dirty: bool,
}

const NONE: u64 = u64::MAX;

/// A set-associative cache's tags. Lines, times of use and the rest stand in arrays of their own, because nearly every
/// question is which of a set's ways has a line.
#[derive(Clone, Debug)]
pub(super) struct Tags {
    lines: Vec<u64>,
    used: Vec<u64>,
    entries: Vec<Entry>,
    sets: u64,
    ways: usize,
    hashed: bool,
    now: u64,
}

impl Tags {
    pub(super) fn new(bytes: u64, ways: u64, hashed: bool) -> Tags {
        let sets = (bytes / 64 / ways).max(1);
        let empty = Entry { ready: 0, source: Source::L1, unused: false, dirty: false };
        let all = (sets * ways) as usize;
        Tags {
            lines: vec![NONE; all],
            used: vec![0; all],
            entries: vec![empty; all],
            sets,
            ways: ways as usize,
            hashed,
            now: 0,
        }
    }

    fn set(&self, line: u64) -> std::ops::Range<usize> {
        // A shared cache spreads lines over slices by a hash, so that strides do not meet in few sets.
        let key = if self.hashed { line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 } else { line };
        let set = if self.sets.is_power_of_two() { key & (self.sets - 1) } else { key % self.sets };
        let first = set as usize * self.ways;
        first..first + self.ways
    }

    /// Where a line is.
    fn place(&self, line: u64) -> Option<usize> {
        let set = self.set(line);
        let first = set.start;
        self.lines[set].iter().position(|other| *other == line).map(|way| first + way)
    }

    pub(super) fn has(&self, line: u64) -> bool {
        self.place(line).is_some()
    }

    /// The line's entry, as the most recently used from now on.
    pub(super) fn find(&mut self, line: u64) -> Option<&mut Entry> {
        self.now += 1;
        let place = self.place(line)?;
        self.used[place] = self.now;
        Some(&mut self.entries[place])
    }

    /// Puts a line in, and returns whom it pushed out.
    pub(super) fn insert(
        &mut self,
        line: u64,
        ready: Time,
        source: Source,
        unused: bool,
    ) -> Option<(u64, Entry)> {
        self.insert_within(line, ready, source, unused, self.ways)
    }

    /// The same, where a line that is not there yet may take only the first so many ways.
    pub(super) fn insert_within(
        &mut self,
        line: u64,
        ready: Time,
        source: Source,
        unused: bool,
        ways: usize,
    ) -> Option<(u64, Entry)> {
        self.now += 1;
        let place = self.place(line).or_else(|| self.room(line, ways))?;
        let (gone, old) = (self.lines[place], self.entries[place]);
        let dirty = gone == line && old.dirty;
        self.lines[place] = line;
        self.used[place] = self.now;
        self.entries[place] = Entry { ready, source, unused, dirty };
        (gone != NONE && gone != line).then_some((gone, old))
    }

    /// The first empty one of a set's first so many ways, or else the one that leaves.
    fn room(&self, line: u64, ways: usize) -> Option<usize> {
        let set = self.set(line);
        let among = set.start..set.end.min(set.start.saturating_add(ways));
        let empty = among.clone().find(|place| self.lines[*place] == NONE);
        empty.or_else(|| self.leaves(among))
    }

    /// Who leaves a set that is full: the least recently used, or of a shared cache any. What shared caches do is not published,
    /// but it is not that: of data that is somewhat larger than the cache and taken round and round, part is kept.
    fn leaves(&self, mut among: std::ops::Range<usize>) -> Option<usize> {
        if self.hashed {
            let by_chance = self.now.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            return among.nth(by_chance as usize % among.len().max(1));
        }
        among.min_by_key(|place| self.used[*place])
    }

    /// Takes a line out.
    pub(super) fn remove(&mut self, line: u64) -> Option<Entry> {
        let place = self.place(line)?;
        self.lines[place] = NONE;
        Some(self.entries[place])
    }
}
