//! The head cache: results by the first bytes of a frame, as received.
//!
//! One instance per worker. An entry is a key and the number of a megaflow, in one or two cache lines; two neighbouring
//! entries are the places of a key. A key is masked words of a frame, with the ingress port in its last two bytes,
//! which no mask has. Nothing is removed: an entry of a megaflow that no longer exists has another epoch than its slot,
//! and is overwritten when the next megaflow is found for its key. The hash is keyed with a secret, so that no sender
//! can select frames that share their places.

use super::continuation::{Continuation, Continuations};
use super::lines::Lines;
use port::PortId;

/// Identifies a megaflow of the worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MegaflowId {
    /// Slot.
    pub(crate) slot: u32,
    /// Number of the insertion, from 1.
    pub(crate) epoch: u64,
}

/// Where a key was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Number of the entry.
    pub(crate) at: usize,
    /// Whether it has a continuation.
    pub(crate) continues: bool,
}

/// Entries of `N` words, each in `STRIDE` words.
pub(crate) struct HeadCache<const N: usize, const STRIDE: usize> {
    /// The entries behind each other: a key, the epoch, and the slot with [`CONTINUES`] and [`FOUND`].
    lines: Lines,
    /// Number of entries, less one.
    last: usize,
    /// The most entries.
    most: usize,
    /// Keys that were new since it has this number of entries.
    added: usize,
    secret: [u64; 2],
    /// By the number of the entry.
    continuations: Continuations,
}

/// Entries of a cache in the beginning, for keys of some hundred flows.
const FIRST: usize = 1 << 13;
/// Growth at a time.
const GROWTH: usize = 8;
/// A cache grows when it has got new keys for one of so many entries. With more keys, some would not find a place: at a
/// half it is one of ten.
const FILL: usize = 16;
/// In the word of the slot: whether the entry has a continuation.
const CONTINUES: u64 = 1 << 32;
/// In the word of the slot: whether the entry was found since another key wanted its place.
const FOUND: u64 = 1 << 33;
/// Words of a cache line.
const LINE: usize = mem::line::LINE / 8;

/// The ingress port in the last two bytes of a key.
#[inline(always)]
pub(crate) fn tag(port: PortId) -> u64 {
    let [a, b] = port.0.to_ne_bytes();
    u64::from_ne_bytes([0, 0, 0, 0, 0, 0, a, b])
}

impl<const N: usize, const STRIDE: usize> HeadCache<N, STRIDE> {
    /// An empty cache that grows to `most` entries, a power of two of at least 2.
    pub(crate) fn new(most: usize, secret: [u64; 2]) -> Self {
        Self::with(FIRST.min(most), most, secret)
    }

    fn with(entries: usize, most: usize, secret: [u64; 2]) -> Self {
        const { assert!(N + 2 <= STRIDE && STRIDE.is_multiple_of(LINE)) };
        debug_assert!(entries.is_power_of_two() && entries >= 2);
        let lines = Lines::zeroed(entries * STRIDE);
        Self { lines, last: entries - 1, most, added: 0, secret, continuations: Continuations::default() }
    }

    /// First place of a key. The second one is its neighbour.
    #[inline(always)]
    pub(crate) fn place(&self, key: &[u64; N]) -> usize {
        let [mut a, b] = self.secret;
        for pair in key.chunks(2) {
            a = fold(a ^ pair[0], b ^ pair.get(1).copied().unwrap_or_default());
        }
        a as usize & self.last
    }

    #[inline(always)]
    fn entries(&self) -> &[[u64; STRIDE]] {
        self.lines.entries()
    }

    /// Loads the entry at a place into the cache, and the continuations of both places.
    #[inline(always)]
    pub(crate) fn prefetch(&self, place: usize) {
        self.continuations.prefetch(place);
        if let Some(entry) = self.entries().get(place) {
            mem::line::prefetch_read(entry.as_ptr().cast());
        }
    }

    /// The megaflow of a key with this place, and its entry; one of epoch 0 if there is none. A key has an EtherType,
    /// so that it equals no entry of zeros.
    #[inline(always)]
    pub(crate) fn find(&mut self, place: usize, key: &[u64; N]) -> (MegaflowId, Option<Entry>) {
        let entries = self.lines.entries_mut::<STRIDE>();
        for at in [place, place ^ 1] {
            if let Some(entry) = entries.get_mut(at).filter(|entry| is_of(entry, key)) {
                if entry[N + 1] & FOUND == 0 {
                    // Not at each packet: the line would be written back each time.
                    entry[N + 1] |= FOUND;
                }
                let continues = entry[N + 1] & CONTINUES != 0;
                return (id_of::<N, STRIDE>(entry), Some(Entry { at, continues }));
            }
        }
        (MegaflowId::default(), None)
    }

    /// The continuation of a key that was found in the entry `at`.
    #[inline]
    pub(crate) fn continuation(&self, at: usize, key: &[u64; N]) -> Option<Continuation> {
        let entry = self.entries().get(at)?;
        let continues = entry[N + 1] & CONTINUES != 0 && is_of(entry, key);
        continues.then(|| self.continuations.get(at)).flatten()
    }

    /// Sets the continuation of a key that was found in the entry `at`, unless another one has replaced it since.
    pub(crate) fn set_continuation(&mut self, at: usize, key: &[u64; N], continuation: &Continuation) {
        let entry = self.lines.entries_mut::<STRIDE>().get_mut(at);
        if let Some(entry) = entry.filter(|entry| is_of(entry, key)) {
            entry[N + 1] |= CONTINUES;
            self.continuations.set(at, self.last + 1, continuation);
        }
    }

    /// Adds a key, if one of its two places is free, or was not found since another key wanted it (second chance).
    /// Otherwise the next key may take both: of more keys than places that come in turn, some stay, and keys that are
    /// not found any more cost a new one a single packet.
    pub(crate) fn insert(&mut self, key: &[u64; N], id: MegaflowId) {
        if self.added > self.last / FILL && self.last + 1 < self.most {
            self.grow();
        }
        let place = self.place(key);
        let (places, entries) = ([place, place ^ 1], self.lines.entries_mut::<STRIDE>());
        let first = |is_it: &dyn Fn(&[u64; STRIDE]) -> bool| {
            places.into_iter().find(|at| entries.get(*at).is_some_and(is_it))
        };
        let known = first(&|entry| is_of(entry, key));
        self.added += usize::from(known.is_none());
        let at = known
            .or_else(|| first(&|entry| entry[N] == 0))
            .or_else(|| first(&|entry| entry[N + 1] & FOUND == 0));
        if let Some(at) = at {
            entries[at][..N].copy_from_slice(key);
            (entries[at][N], entries[at][N + 1]) = (id.epoch, id.slot.into());
        } else {
            for at in places {
                entries[at][N + 1] &= !FOUND;
            }
        }
    }

    /// Makes room for more keys. All are forgotten: each is found once more by a search, and none is copied meanwhile.
    #[cold]
    fn grow(&mut self) {
        *self = Self::with(((self.last + 1) * GROWTH).min(self.most), self.most, self.secret);
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.most, self.secret);
    }
}

/// Whether an entry is that of a key.
#[inline(always)]
fn is_of<const N: usize, const STRIDE: usize>(entry: &[u64; STRIDE], key: &[u64; N]) -> bool {
    entry.iter().zip(key).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

#[inline(always)]
fn id_of<const N: usize, const STRIDE: usize>(entry: &[u64; STRIDE]) -> MegaflowId {
    MegaflowId { slot: entry[N + 1] as u32, epoch: entry[N] }
}

/// Both halves of a product, combined.
#[inline(always)]
pub(super) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];

    fn find<const N: usize, const S: usize>(
        cache: &mut HeadCache<N, S>,
        key: &[u64; N],
    ) -> Option<MegaflowId> {
        Some(cache.find(cache.place(key), key).0).filter(|id| id.epoch != 0)
    }

    fn id(slot: u32) -> MegaflowId {
        MegaflowId { slot, epoch: 1 }
    }

    #[test]
    fn keys_are_found() {
        let mut cache = HeadCache::<5, 8>::new(64, SECRET);
        let of = |port: u16| [1, 2, 3, 4, 5 | tag(PortId(port))];
        assert_eq!(find(&mut cache, &of(7)), None);
        cache.insert(&of(7), id(9));
        assert_eq!(find(&mut cache, &of(7)), Some(id(9)));
        assert_eq!(find(&mut cache, &of(8)), None);
        assert_eq!(find(&mut cache, &[1, 2, 3, 4, 6 | tag(PortId(7))]), None);
        cache.insert(&of(7), id(10));
        assert_eq!(find(&mut cache, &of(7)), Some(id(10)), "replaced in place");
        cache.clear();
        assert_eq!(find(&mut cache, &of(7)), None);
    }

    #[test]
    fn a_cache_grows_with_its_keys_to_the_most_entries() {
        let mut cache = HeadCache::<5, 8>::new(4 * FIRST, SECRET);
        let key = |n: usize| [n as u64 + 1; 5];
        for _ in 0..2 * FIRST {
            cache.insert(&key(0), id(0));
        }
        assert_eq!(cache.last + 1, FIRST, "one key");
        (0..FIRST).for_each(|n| cache.insert(&key(n), id(n as u32)));
        assert_eq!(cache.last + 1, 4 * FIRST);
        (0..FIRST).for_each(|n| cache.insert(&key(n), id(n as u32)));
        let found = (0..FIRST).filter(|n| find(&mut cache, &key(*n)) == Some(id(*n as u32))).count();
        assert!(found > FIRST * 7 / 8, "{found}");
        (0..8 * FIRST).for_each(|n| cache.insert(&key(n), id(n as u32)));
        assert_eq!(cache.last + 1, 4 * FIRST);
    }

    /// Three keys that share two places, of which the first two are there and were found.
    fn full() -> (HeadCache<5, 8>, [[u64; 5]; 3]) {
        let (mut cache, keys) = (HeadCache::new(2, SECRET), [[1; 5], [2; 5], [3; 5]]);
        for (slot, key) in keys[..2].iter().enumerate() {
            cache.insert(key, id(slot as u32));
            assert_eq!(find(&mut cache, key), Some(id(slot as u32)));
        }
        (cache, keys)
    }

    #[test]
    fn keys_that_are_found_are_not_replaced_by_others_in_turn() {
        let (mut cache, keys) = full();
        for _ in 0..5 {
            cache.insert(&keys[2], id(2));
            assert_eq!(keys.map(|key| find(&mut cache, &key)), [Some(id(0)), Some(id(1)), None]);
        }
    }

    #[test]
    fn keys_that_are_not_found_any_more_are_replaced_by_the_second_packet() {
        let (mut cache, keys) = full();
        cache.insert(&keys[2], id(2));
        find(&mut cache, &keys[0]);
        cache.insert(&keys[2], id(2));
        assert_eq!(keys.map(|key| find(&mut cache, &key)), [Some(id(0)), None, Some(id(2))]);
    }

    #[test]
    fn a_continuation_is_that_of_a_key_and_its_megaflow() {
        let (mut cache, keys) = full();
        let entry = |cache: &mut HeadCache<5, 8>, key| cache.find(cache.place(key), key).1.unwrap();
        let continuation = Continuation { next: id(7), place: conntrack::Place::default() };
        let Entry { at, continues } = entry(&mut cache, &keys[0]);
        assert!(!continues);
        cache.set_continuation(at, &keys[2], &continuation);
        assert!(!entry(&mut cache, &keys[0]).continues, "another key");
        cache.set_continuation(at, &keys[0], &continuation);
        assert!(entry(&mut cache, &keys[0]).continues);
        assert_eq!(cache.continuation(at, &keys[0]), Some(continuation));
        assert_eq!(cache.continuation(at, &keys[1]), None);
        assert_eq!(cache.continuation(at ^ 1, &keys[1]), None);
        cache.insert(&keys[0], id(8));
        assert_eq!(entry(&mut cache, &keys[0]), Entry { at, continues: false }, "another megaflow");
        assert_eq!(cache.continuation(at, &keys[0]), None);
    }

    #[test]
    fn every_word_selects_the_place() {
        let cache = HeadCache::<6, 8>::new(1 << 16, SECRET);
        let base = cache.place(&[0; 6]);
        let changed = (0..6).filter(|i| {
            let mut key = [0; 6];
            key[*i] = 1 << 40;
            cache.place(&key) != base
        });
        assert_eq!(changed.count(), 6);
    }
}
