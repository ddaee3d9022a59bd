//! Cuckoo hash table: each station is in one of two buckets of four.
//!
//! Readers take no lock and read at most two cache lines. Writers hold the lock of `fdb`, which owns the table. To make
//! space a writer moves stations to their other bucket, copying each before it overwrites the old place, so a station
//! is always in at least one bucket. A reader accepts a miss only if neither bucket changed during the whole look-up.
//!
//! The table stores places and entries; port rules and ageing are in `fdb`.

use super::bucket::{Bucket, Entry, WAYS};
use super::hash::{Buckets, Secret};
use super::key::Key;
use mem::line::{Padded, prefetch_read};
use mem::shim::atomic::{AtomicU64, Ordering};
use mem::shim::spin_loop;

/// Attempts of a reader while a writer changes its bucket. A change takes some nanoseconds, unless the writer is
/// preempted; the station then counts as unknown.
const TRIES: usize = 64;
/// Maximum number of buckets visited to make space: five moves deep.
const SEARCHED: usize = 1024;

/// A slot in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotIndex {
    bucket: u32,
    way: u8,
}

/// A station and its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) spot: SlotIndex,
    pub(super) entry: Entry,
}

/// A writer is changing the bucket.
struct Busy;

pub(super) struct Table {
    buckets: Box<[Bucket]>,
    secret: Secret,
    displaced: Padded<AtomicU64>,
}

/// Number of buckets up to which a table is twice the required size.
const SMALL: usize = 128;

impl Table {
    /// A table for `capacity` stations, filled to at most nine tenths, so that inserts find space quickly.
    pub(super) fn new(capacity: usize) -> Self {
        // A large table supports nine tenths; a small one has too few chains for that.
        let buckets = (capacity * 10).div_ceil(9 * WAYS).max((capacity * 2).div_ceil(WAYS).min(SMALL)).max(4);
        Self {
            buckets: (0..buckets).map(|_| Bucket::new()).collect(),
            secret: Secret::random(),
            displaced: Padded(AtomicU64::new(0)),
        }
    }

    pub(super) fn buckets(&self) -> u32 {
        self.buckets.len() as u32
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// Number of stations displaced to make space for others.
    pub(super) fn displaced(&self) -> u64 {
        // Pairs with no store's data: the caller compares two values and repeats its work if they differ.
        self.displaced.load(Ordering::Acquire)
    }

    /// The candidate buckets of `key`.
    #[inline(always)]
    pub(super) fn places(&self, key: Key) -> Buckets {
        self.secret.places(key, self.buckets())
    }

    /// Prefetches both lines that a look-up may read. Prefetching the second only after a miss in the first is slightly
    /// cheaper in a small table, and 50 % more expensive in one of a million stations.
    #[inline(always)]
    pub(super) fn prefetch(&self, places: Buckets) {
        for place in places.0 {
            prefetch_read(std::ptr::from_ref(&self.buckets[place as usize]).cast());
        }
    }

    /// Looks up a station, without a lock.
    #[inline(always)]
    pub(super) fn look_up(&self, key: Key, places: Buckets) -> Option<Hit> {
        for _ in 0..TRIES {
            if let Ok(answer) = self.try_look_up(key, places) {
                return answer;
            }
            spin_loop();
        }
        None
    }

    #[inline(always)]
    fn try_look_up(&self, key: Key, places: Buckets) -> Result<Option<Hit>, Busy> {
        let [first, second] = places.0.map(|place| &self.buckets[place as usize]);
        let first_version = first.begin().ok_or(Busy)?;
        if let Some(way) = first.find(key) {
            let hit = hit(first, places.0[0], way);
            return if first.unchanged(first_version) { Ok(hit) } else { Err(Busy) };
        }
        let second_version = second.begin().ok_or(Busy)?;
        let hit = second.find(key).and_then(|way| hit(second, places.0[1], way));
        let steady = second.unchanged(second_version) && (hit.is_some() || first.unchanged(first_version));
        if steady { Ok(hit) } else { Err(Busy) }
    }

    /// Sets the time stamp of the station at `spot`. Needs no lock.
    #[inline(always)]
    pub(super) fn refresh(&self, spot: SlotIndex, stamp: u32) {
        self.buckets[spot.bucket as usize].refresh(spot.way as usize, stamp);
    }

    /// A consistent copy of bucket `bucket`. Needs no lock.
    pub(super) fn snapshot(&self, bucket: u32) -> [Option<Entry>; WAYS] {
        let bucket = &self.buckets[bucket as usize];
        loop {
            if let Some(version) = bucket.begin() {
                let entries = std::array::from_fn(|way| bucket.entry(way));
                if bucket.unchanged(version) {
                    return entries;
                }
            }
            spin_loop();
        }
    }

    /// The entries of bucket `bucket`. The caller must hold the lock.
    pub(super) fn entries(&self, bucket: u32) -> impl Iterator<Item = Hit> {
        let line = &self.buckets[bucket as usize];
        (0..WAYS).filter_map(move |way| hit(line, bucket, way))
    }

    /// Overwrites the entry at `spot`. The caller must hold the lock.
    pub(super) fn replace(&self, spot: SlotIndex, entry: Entry) {
        self.buckets[spot.bucket as usize].put(spot.way as usize, entry);
    }

    /// Clears `spot`. The caller must hold the lock.
    pub(super) fn remove(&self, spot: SlotIndex) {
        self.buckets[spot.bucket as usize].clear(spot.way as usize);
    }

    /// Adds a station that is not in the table, displacing others if needed. Returns `false` and changes nothing if no
    /// space was found. The caller must hold the lock.
    pub(super) fn insert(&self, search: &mut Search, entry: Entry) -> bool {
        let places = self.places(entry.key);
        let room = places.0.into_iter().find_map(|place| self.vacancy(place));
        let Some(spot) = room.or_else(|| self.make_room(search, places)) else { return false };
        self.replace(spot, entry);
        true
    }

    fn vacancy(&self, bucket: u32) -> Option<SlotIndex> {
        let way = self.buckets[bucket as usize].vacant()?;
        Some(SlotIndex { bucket, way: way as u8 })
    }

    /// Breadth-first search for the shortest chain of moves that ends in an empty slot; performs the moves.
    fn make_room(&self, search: &mut Search, places: Buckets) -> Option<SlotIndex> {
        search.start(places);
        let mut at = 0;
        while at < search.steps.len() {
            for found in self.entries(search.steps[at].bucket) {
                let other = self.places(found.entry.key).other(found.spot.bucket);
                if search.is_above(at, other) {
                    continue;
                }
                if let Some(vacant) = self.vacancy(other) {
                    return Some(self.shift(search, at, found.spot, vacant));
                }
                search.push(at, found.spot.way, other);
            }
            at += 1;
        }
        None
    }

    /// Moves `from` to `vacant`, then the entry of the step above to `from`, and so on up to a root. Returns the slot
    /// freed there.
    fn shift(&self, search: &Search, mut at: usize, mut from: SlotIndex, mut vacant: SlotIndex) -> SlotIndex {
        loop {
            if let Some(entry) = self.buckets[from.bucket as usize].entry(from.way as usize) {
                self.replace(vacant, entry);
                self.displaced.fetch_add(1, Ordering::Release);
            }
            let step = search.steps[at];
            let Some(above) = step.above else { return from };
            vacant = from;
            at = above as usize;
            from = SlotIndex { bucket: search.steps[at].bucket, way: step.way };
        }
    }
}

#[inline(always)]
fn hit(line: &Bucket, bucket: u32, way: usize) -> Option<Hit> {
    line.entry(way).map(|entry| Hit { spot: SlotIndex { bucket, way: way as u8 }, entry })
}

/// Search state of a writer, allocated once.
pub(super) struct Search {
    steps: Vec<Step>,
}

/// A full bucket. Moving the entry in slot `way` of bucket `above` here would make space in `above`.
#[derive(Clone, Copy)]
struct Step {
    bucket: u32,
    above: Option<u16>,
    way: u8,
}

impl Search {
    pub(super) fn new() -> Self {
        Self { steps: Vec::with_capacity(SEARCHED) }
    }

    fn start(&mut self, places: Buckets) {
        self.steps.clear();
        self.steps.extend(places.0.map(|bucket| Step { bucket, above: None, way: 0 }));
    }

    /// Whether `bucket` is on the path from a root to step `at`: a chain with a cycle would move an entry that is no
    /// longer there.
    fn is_above(&self, at: usize, bucket: u32) -> bool {
        let mut step = Some(at as u16);
        while let Some(number) = step {
            if self.steps[number as usize].bucket == bucket {
                return true;
            }
            step = self.steps[number as usize].above;
        }
        false
    }

    fn push(&mut self, above: usize, way: u8, bucket: u32) {
        if self.steps.len() < SEARCHED {
            self.steps.push(Step { bucket, above: Some(above as u16), way });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use port::PortId;
    use std::collections::HashMap;
    use wire::MacAddress;

    fn entry(mac: u64) -> Entry {
        let key = Key::new(MacAddress::from_u64(mac), (mac % 4000) as u16);
        Entry { key, port: PortId((mac % 50) as u16), stamp: mac as u32, pinned: false }
    }

    fn find(table: &Table, key: Key) -> Option<Entry> {
        table.look_up(key, table.places(key)).map(|hit| hit.entry)
    }

    #[test]
    fn a_table_holds_its_capacity_and_every_station_is_found() {
        for capacity in [16, 100, 65_536] {
            let (table, mut search) = (Table::new(capacity), Search::new());
            for mac in 0..capacity as u64 {
                assert!(table.insert(&mut search, entry(mac)), "station {mac} of {capacity}");
            }
            for mac in 0..capacity as u64 {
                assert_eq!(find(&table, entry(mac).key), Some(entry(mac)));
            }
            assert_eq!(find(&table, entry(capacity as u64).key), None);
        }
    }

    #[test]
    fn full_table_keeps_its_entries() {
        let (table, mut search) = (Table::new(16), Search::new());
        let held: Vec<u64> = (0..200).filter(|mac| table.insert(&mut search, entry(*mac))).collect();
        assert!(held.len() >= 16 && held.len() <= table.buckets.len() * WAYS, "{}", held.len());
        assert!(held.iter().all(|mac| find(&table, entry(*mac).key) == Some(entry(*mac))));
        let stored: usize = (0..table.buckets()).map(|bucket| table.entries(bucket).count()).sum();
        assert_eq!(stored, held.len(), "no station is stored twice");
    }

    #[test]
    fn random_insertions_and_removals_agree_with_a_map() {
        let (table, mut search) = (Table::new(1000), Search::new());
        let mut model = HashMap::new();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..100_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let entry = entry(random >> 33 & 0x7ff);
            match table.look_up(entry.key, table.places(entry.key)) {
                Some(hit) => {
                    assert_eq!(model.remove(&entry.key), Some(hit.entry));
                    table.remove(hit.spot);
                }
                None if model.len() < 1000 => {
                    assert!(table.insert(&mut search, entry));
                    assert_eq!(model.insert(entry.key, entry), None);
                }
                None => assert!(!model.contains_key(&entry.key)),
            }
        }
        let stored: HashMap<Key, Entry> = (0..table.buckets())
            .flat_map(|bucket| table.snapshot(bucket).into_iter().flatten())
            .map(|entry| (entry.key, entry))
            .collect();
        assert_eq!(stored, model);
    }

    /// Stations 0 to 63 stay and are displaced while a thousand others are added and removed.
    #[test]
    fn displaced_entry_is_always_found() {
        let table = Table::new(1000);
        let mut search = Search::new();
        assert!((0..64).all(|mac| table.insert(&mut search, entry(mac))));
        let done = AtomicU64::new(0);
        let ready = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    ready.wait();
                    while done.load(Ordering::Relaxed) == 0 {
                        for mac in 0..64 {
                            assert_eq!(find_surely(&table, entry(mac).key), Some(entry(mac)));
                        }
                    }
                });
            }
            ready.wait();
            for round in 0..40 {
                let others = 1000 + round * 1000..1000 + round * 1000 + 936;
                assert!(others.clone().all(|mac| table.insert(&mut search, entry(mac))));
                others
                    .filter_map(|mac| table.look_up(entry(mac).key, table.places(entry(mac).key)))
                    .for_each(|hit| table.remove(hit.spot));
            }
            done.store(1, Ordering::Relaxed);
        });
        assert!(table.displaced() > 0, "nothing was moved, so nothing was tested");
    }

    /// `look_up` without a limit on attempts.
    fn find_surely(table: &Table, key: Key) -> Option<Entry> {
        loop {
            match table.try_look_up(key, table.places(key)) {
                Ok(hit) => return hit.map(|hit| hit.entry),
                Err(Busy) => std::thread::yield_now(),
            }
        }
    }
}
