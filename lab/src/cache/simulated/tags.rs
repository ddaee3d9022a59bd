//! One cache's tags: which lines are there, since when, and which goes next: the least recently used of a private cache, any of
//! a shared one.
//!
//! It knows nothing of rights: who may write a line is the directory's matter.

use super::Time;
use super::counters::Source;

/// What is known of a line that is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    line: u64,
    used: u64,
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

/// A set-associative cache's tags.
#[derive(Clone, Debug)]
pub(super) struct Tags {
    entries: Vec<Entry>,
    sets: u64,
    ways: usize,
    hashed: bool,
    now: u64,
}

impl Tags {
    pub(super) fn new(bytes: u64, ways: u64, hashed: bool) -> Tags {
        let sets = (bytes / 64 / ways).max(1);
        let empty = Entry { line: NONE, used: 0, ready: 0, source: Source::L1, unused: false, dirty: false };
        Tags { entries: vec![empty; (sets * ways) as usize], sets, ways: ways as usize, hashed, now: 0 }
    }

    fn set(&self, line: u64) -> std::ops::Range<usize> {
        // A shared cache spreads lines over slices by a hash, so that strides do not meet in few sets.
        let key = if self.hashed { line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 } else { line };
        let first = (key % self.sets) as usize * self.ways;
        first..first + self.ways
    }

    pub(super) fn has(&self, line: u64) -> bool {
        self.entries[self.set(line)].iter().any(|entry| entry.line == line)
    }

    /// The line's entry, as the most recently used from now on.
    pub(super) fn find(&mut self, line: u64) -> Option<&mut Entry> {
        let set = self.set(line);
        self.now += 1;
        let now = self.now;
        let entry = self.entries[set].iter_mut().find(|entry| entry.line == line)?;
        entry.used = now;
        Some(entry)
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
        let set = self.set(line);
        self.now += 1;
        let now = self.now;
        let slots = &mut self.entries[set];
        let place = slots
            .iter()
            .position(|entry| entry.line == line)
            .or_else(|| slots.iter().take(ways).position(|entry| entry.line == NONE))
            .or_else(|| leaves(slots, ways, self.hashed.then_some(now)))?;
        let old = slots[place];
        let dirty = old.line == line && old.dirty;
        slots[place] = Entry { line, used: now, ready, source, unused, dirty };
        (old.line != NONE && old.line != line).then_some((old.line, old))
    }

    /// Takes a line out.
    pub(super) fn remove(&mut self, line: u64) -> Option<Entry> {
        let set = self.set(line);
        let entry = self.entries[set].iter_mut().find(|entry| entry.line == line)?;
        let old = *entry;
        entry.line = NONE;
        Some(old)
    }
}

/// Which of the first so many ways goes: the least recently used, or for a shared cache any. What shared caches do is not
/// published, but it is not that: of data that is somewhat larger than the cache and taken round and round, part is kept.
fn leaves(slots: &[Entry], ways: usize, chance: Option<u64>) -> Option<usize> {
    let ways = slots.len().min(ways);
    match chance {
        Some(now) => Some((now.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as usize % ways),
        None => (0..ways).min_by_key(|place| slots[*place].used),
    }
}
