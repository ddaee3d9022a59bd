//! Tags of one cache: lines present, arrival times and replacement (least recently used for a private cache,
//! pseudo-random for a shared one).
//!
//! Write permission is not stored here but in the directory.

use super::Time;
use super::counters::Source;

/// State of a cached line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Time at which its bytes arrive
    pub(super) ready: Time,
    /// Source of the bytes
    pub(super) source: Source,
    /// Prefetched and not used since
    pub(super) unused: bool,
    /// The bytes are newer than memory's (used by shared caches only)
    pub(super) dirty: bool,
}

const NONE: u64 = u64::MAX;

/// Tags of a set-associative cache. Lines, times of use and entries are separate arrays, because most accesses search
/// the ways of a set for a line.
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
        // A shared cache spreads lines over slices by a hash, so that strides do not collide in few sets.
        let key = if self.hashed { line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 } else { line };
        let set = if self.sets.is_power_of_two() { key & (self.sets - 1) } else { key % self.sets };
        let first = set as usize * self.ways;
        first..first + self.ways
    }

    /// Returns the index of a line.
    fn place(&self, line: u64) -> Option<usize> {
        let set = self.set(line);
        let first = set.start;
        self.lines[set].iter().position(|other| *other == line).map(|way| first + way)
    }

    pub(super) fn has(&self, line: u64) -> bool {
        self.place(line).is_some()
    }

    /// Returns the line's entry and marks it most recently used.
    pub(super) fn find(&mut self, line: u64) -> Option<&mut Entry> {
        self.now += 1;
        let place = self.place(line)?;
        self.used[place] = self.now;
        Some(&mut self.entries[place])
    }

    /// Inserts a line and returns the evicted one.
    pub(super) fn insert(
        &mut self,
        line: u64,
        ready: Time,
        source: Source,
        unused: bool,
    ) -> Option<(u64, Entry)> {
        self.insert_within(line, ready, source, unused, self.ways)
    }

    /// Same, but a line that is not there yet may take only the first `ways` ways.
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

    /// Returns the first empty way among the set's first `ways` ways, else the victim.
    fn room(&self, line: u64, ways: usize) -> Option<usize> {
        let set = self.set(line);
        let among = set.start..set.end.min(set.start.saturating_add(ways));
        let empty = among.clone().find(|place| self.lines[*place] == NONE);
        empty.or_else(|| self.leaves(among))
    }

    /// Selects the victim in a full set: the least recently used line, or a pseudo-random one in a shared cache. The
    /// policy of real shared caches is not published, but it is not LRU: they keep part of a data set that is somewhat
    /// larger than the cache and accessed cyclically.
    fn leaves(&self, mut among: std::ops::Range<usize>) -> Option<usize> {
        if self.hashed {
            let by_chance = self.now.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            return among.nth(by_chance as usize % among.len().max(1));
        }
        among.min_by_key(|place| self.used[*place])
    }

    /// Removes a line.
    pub(super) fn remove(&mut self, line: u64) -> Option<Entry> {
        let place = self.place(line)?;
        self.lines[place] = NONE;
        Some(self.entries[place])
    }
}
