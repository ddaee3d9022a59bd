//! Items by key in bounded memory, with CLOCK eviction.
//!
//! Entries lie densely in one array, and a hash table has their positions. A hand moves over the array: an entry that
//! was used since its last visit loses one of at most [`MAX_HITS`] marks, an entry without marks is evicted, and an
//! expired one is removed first. The last entry moves to the place of a removed one, behind the hand, so a new entry
//! survives a full turn. Table and array are allocated once for the greatest number of entries, so that no operation
//! waits for a growth.
//!
//! The module must not interpret values, and no operation may visit more than a constant number of entries for each
//! entry that it removes.

use hashbrown::HashTable;
use host::Buffer;
use stack::Slice;
use std::hash::{BuildHasher, RandomState};

/// Maximum number of marks of an entry: turns of the hand that it survives without further use.
const MAX_HITS: u8 = 3;
/// Entries that the hand visits at most for one eviction; the next one is then evicted although it is marked.
const VISITS: usize = 32;
/// Entries that each insertion looks at for expired ones.
const SWEPT: usize = 2;
/// Bytes that an entry is charged beyond its key and value: its place, its position in the table, and three blocks of
/// the allocator with the counters of the value.
pub(super) const OVERHEAD: usize = size_of::<Entry>() + 8 + 3 * 16 + 40;

/// Properties of an item beside its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
pub(super) struct Marks {
    /// The item was read since it was stored.
    pub(super) fetched: bool,
    /// The value is to be replaced (meta commands).
    pub(super) stale: bool,
    /// One client has the right to replace the value (`W` of a meta command).
    pub(super) won: bool,
    /// The key was given in base64.
    pub(super) binary: bool,
}

/// An item.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Value followed by CR and LF, with its sum.
    pub(super) value: Slice<Buffer>,
    pub(super) cas: u64,
    pub(super) flags: u32,
    /// Second at which the item expires; 0 for never.
    pub(super) expires: u32,
    /// Second of the last access.
    pub(super) used: u32,
    pub(super) marks: Marks,
}

impl Item {
    /// Length of the value in bytes.
    pub(super) fn len(&self) -> usize {
        self.value.len() - 2
    }
}

#[derive(Debug)]
struct Entry {
    key: Box<[u8]>,
    hash: u64,
    item: Item,
    /// Flushes before the item was stored.
    epoch: u32,
    hits: u8,
}

impl Entry {
    fn cost(&self) -> usize {
        self.key.len() + self.item.value.len() + OVERHEAD
    }

    fn is_live(&self, epoch: u32, now: u32) -> bool {
        self.epoch == epoch && (self.item.expires == 0 || self.item.expires > now)
    }
}

/// Position of an entry; valid until the next insertion or removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At(usize);

/// Entries that left without a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Removed {
    /// Evicted for others.
    pub(super) evicted: u64,
    /// Expired or flushed.
    pub(super) reclaimed: u64,
}

#[derive(Debug)]
pub(super) struct Cache {
    table: HashTable<u32>,
    entries: Vec<Entry>,
    hasher: RandomState,
    hand: usize,
    sweep: usize,
    bytes: usize,
    limit: usize,
    epoch: u32,
    pub(super) removed: Removed,
}

impl Cache {
    /// An empty cache of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        let most = limit / OVERHEAD + 1;
        Self {
            table: HashTable::with_capacity(most),
            entries: Vec::with_capacity(most),
            hasher: RandomState::new(),
            hand: 0,
            sweep: 0,
            bytes: 0,
            limit,
            epoch: 0,
            removed: Removed::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Makes all items invalid. Their memory is reclaimed by the sweep and by the hand.
    pub(super) fn flush(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// The entry of a key. An entry that is not live is removed.
    pub(super) fn find(&mut self, key: &[u8], now: u32) -> Option<At> {
        let (hash, entries) = (self.hasher.hash_one(key), &self.entries);
        let at = self.table.find(hash, |at| *entries[*at as usize].key == *key).copied()? as usize;
        if entries[at].is_live(self.epoch, now) {
            return Some(At(at));
        }
        self.remove(At(at));
        self.removed.reclaimed += 1;
        None
    }

    pub(super) fn item(&mut self, at: At) -> &mut Item {
        &mut self.entries[at.0].item
    }

    /// Marks an entry as used.
    pub(super) fn bump(&mut self, at: At, now: u32) {
        let entry = &mut self.entries[at.0];
        entry.hits = MAX_HITS.min(entry.hits + 1);
        entry.item.used = now;
        entry.item.marks.fetched = true;
    }

    /// Stores an item in place of the one at `old`, or as a new entry. Returns `false` if it exceeds the whole memory;
    /// an item at `old` is removed then.
    pub(super) fn insert(&mut self, key: &[u8], old: Option<At>, item: Item, now: u32) -> bool {
        self.sweep(now);
        // The sweep may have moved it.
        let old = old.and_then(|_| self.find(key, now));
        if key.len() + item.value.len() + OVERHEAD > self.limit {
            if let Some(at) = old {
                self.remove(at);
            }
            return false;
        }
        if let Some(at) = old {
            let bytes = self.bytes - self.entries[at.0].item.value.len() + item.value.len();
            if bytes <= self.limit {
                self.replace(at, item);
                return true;
            }
            // The hand could take the entry itself, so it leaves before others do.
            self.remove(at);
        }
        self.add(key, item, now);
        true
    }

    fn replace(&mut self, at: At, item: Item) {
        let entry = &mut self.entries[at.0];
        self.bytes = self.bytes - entry.item.value.len() + item.value.len();
        entry.item = item;
        entry.hits = entry.hits.max(1);
    }

    fn add(&mut self, key: &[u8], item: Item, now: u32) {
        let hash = self.hasher.hash_one(key);
        let entry = Entry { key: key.into(), hash, item, epoch: self.epoch, hits: 0 };
        // Evicting first keeps the array within its capacity and the new entry out of the hand's way.
        while self.bytes + entry.cost() > self.limit {
            self.evict(now);
        }
        self.bytes += entry.cost();
        let (at, entries) = (self.entries.len() as u32, &self.entries);
        self.table.insert_unique(hash, at, |at| entries[*at as usize].hash);
        self.entries.push(entry);
    }

    pub(super) fn remove(&mut self, at: At) {
        let At(at) = at;
        let removed = self.entries.swap_remove(at);
        self.bytes -= removed.cost();
        if let Ok(position) = self.table.find_entry(removed.hash, |other| *other as usize == at) {
            position.remove();
        }
        let last = self.entries.len();
        if let Some(moved) = self.entries.get(at)
            && let Some(position) = self.table.find_mut(moved.hash, |other| *other as usize == last)
        {
            *position = at as u32;
        }
    }

    /// Removes one entry.
    fn evict(&mut self, now: u32) {
        for visit in 0..=VISITS {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let at = self.hand;
            self.hand += 1;
            let Some(entry) = self.entries.get_mut(at) else { return };
            let is_live = entry.is_live(self.epoch, now);
            if is_live && entry.hits > 0 && visit < VISITS {
                entry.hits -= 1;
                continue;
            }
            self.remove(At(at));
            *(if is_live { &mut self.removed.evicted } else { &mut self.removed.reclaimed }) += 1;
            return;
        }
    }

    /// Removes expired and flushed entries among the next few.
    fn sweep(&mut self, now: u32) {
        for _ in 0..SWEPT {
            self.sweep = if self.sweep + 1 < self.entries.len() { self.sweep + 1 } else { 0 };
            let is_dead = |entry: &Entry| !entry.is_live(self.epoch, now);
            if self.entries.get(self.sweep).is_some_and(is_dead) {
                self.remove(At(self.sweep));
                self.removed.reclaimed += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(len: usize, expires: u32) -> Item {
        let value = Slice::new(vec![7; len + 2].into()).summed();
        Item { value, cas: 0, flags: 0, expires, used: 0, marks: Marks::default() }
    }

    fn insert(cache: &mut Cache, key: u32, len: usize, expires: u32) {
        let key = key.to_string();
        let old = cache.find(key.as_bytes(), 10);
        assert!(cache.insert(key.as_bytes(), old, item(len, expires), 10));
    }

    fn has(cache: &mut Cache, key: u32) -> bool {
        cache.find(key.to_string().as_bytes(), 10).is_some()
    }

    /// Recounts what the cache counts while it changes.
    fn check(cache: &mut Cache) {
        assert_eq!(cache.bytes, cache.entries.iter().map(Entry::cost).sum::<usize>());
        assert!(cache.bytes <= cache.limit && cache.table.len() == cache.entries.len());
        assert!(cache.entries.capacity() == cache.limit / OVERHEAD + 1, "the array does not grow");
        for at in 0..cache.entries.len() {
            let key = cache.entries[at].key.clone();
            assert!(cache.find(&key, 0).is_none_or(|found| found == At(at)));
        }
    }

    #[test]
    fn memory_is_bounded_and_used_items_survive_a_scan() {
        let mut cache = Cache::new(100 * (OVERHEAD + 102 + 3));
        (0..20).for_each(|key| insert(&mut cache, key, 100, 0));
        for key in 20..2000 {
            insert(&mut cache, key, 100, 0);
            for hot in 0..20 {
                let at = cache.find(hot.to_string().as_bytes(), 10).expect("a hot item");
                cache.bump(at, 10);
            }
        }
        assert!(cache.len() > 90 && cache.removed.evicted > 1800);
        check(&mut cache);
        // A large item takes the place of many.
        insert(&mut cache, 9999, 90 * OVERHEAD, 0);
        assert!(has(&mut cache, 9999));
        check(&mut cache);
        assert!(
            !cache.insert(b"a", None, item(cache.limit, 0), 10)
                && !cache.insert(b"9999", Some(At(0)), item(cache.limit, 0), 10)
        );
        assert!(!has(&mut cache, 9999));
    }

    #[test]
    fn expired_and_flushed_entries_make_room_first() {
        let mut cache = Cache::new(200 * (OVERHEAD + 102 + 3));
        (0..100).for_each(|key| insert(&mut cache, key, 100, 0));
        (100..180).for_each(|key| insert(&mut cache, key, 100, 5));
        (200..300).for_each(|key| insert(&mut cache, key, 100, 0));
        assert_eq!(cache.removed.evicted, 0);
        assert!((0..100).all(|key| has(&mut cache, key)));
        check(&mut cache);
        cache.flush();
        (400..500).for_each(|key| insert(&mut cache, key, 100, 0));
        assert!((0..300).all(|key| !has(&mut cache, key)) && (400..500).all(|key| has(&mut cache, key)));
        assert_eq!((cache.removed.evicted, cache.len()), (0, 100));
        check(&mut cache);
    }
}
