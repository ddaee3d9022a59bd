//! The head cache: results by the first bytes of a frame, as received.
//!
//! One instance per worker. An entry is a key and the number of a megaflow, in one or two cache lines; two neighbouring
//! entries are the places of a key. A key is masked words of a frame, with the ingress port in its last two bytes, which
//! no mask has. Nothing is removed: an entry of a megaflow that no longer exists has another epoch than its slot, and is
//! overwritten when the next megaflow is found for its key. The hash is keyed with a secret, so that no sender can select
//! frames that share their places.

use port::PortId;

/// Identifies a megaflow of the worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MegaflowId {
    /// Slot.
    pub(crate) slot: u32,
    /// Number of the insertion, from 1.
    pub(crate) epoch: u64,
}

/// Entries of `N` words, each in `STRIDE` words.
pub(crate) struct HeadCache<const N: usize, const STRIDE: usize> {
    /// The entries behind each other: a key, the epoch, and the slot. An allocation of zeros has memory only where it
    /// was written, so that few entries need little.
    words: Vec<u64>,
    /// Words before the first entry, so that entries begin with a cache line.
    skip: usize,
    /// Number of entries, less one.
    last: usize,
    secret: [u64; 2],
    /// Decides which of two places is overwritten.
    turn: usize,
}

/// Words of a cache line.
const LINE: usize = mem::line::LINE / 8;

/// The ingress port in the last two bytes of a key.
#[inline(always)]
pub(crate) fn tag(port: PortId) -> u64 {
    let [a, b] = port.0.to_ne_bytes();
    u64::from_ne_bytes([0, 0, 0, 0, 0, 0, a, b])
}

impl<const N: usize, const STRIDE: usize> HeadCache<N, STRIDE> {
    /// An empty cache of `entries` entries, a power of two of at least 2.
    pub(crate) fn new(entries: usize, secret: [u64; 2]) -> Self {
        const { assert!(N + 2 <= STRIDE && STRIDE.is_multiple_of(LINE)) };
        debug_assert!(entries.is_power_of_two() && entries >= 2);
        let words = vec![0_u64; entries * STRIDE + LINE];
        let skip = words.as_ptr().addr().next_multiple_of(mem::line::LINE) - words.as_ptr().addr();
        Self { words, skip: skip / 8, last: entries - 1, secret, turn: 0 }
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
        self.words.get(self.skip..).unwrap_or_default().as_chunks().0
    }

    /// Loads the entry at a place into the cache.
    #[inline(always)]
    pub(crate) fn prefetch(&self, place: usize) {
        if let Some(entry) = self.entries().get(place) {
            mem::line::prefetch_read(entry.as_ptr().cast());
        }
    }

    /// The megaflow of a key with this place; one of epoch 0 if there is none. A key has an EtherType, so that it equals
    /// no entry of zeros.
    #[inline(always)]
    pub(crate) fn find(&self, place: usize, key: &[u64; N]) -> MegaflowId {
        for at in [place, place ^ 1] {
            if let Some(entry) = self.entries().get(at).filter(|entry| is_of(entry, key)) {
                return MegaflowId { slot: entry[N + 1] as u32, epoch: entry[N] };
            }
        }
        MegaflowId::default()
    }

    /// Adds a key, over one of its two places.
    pub(crate) fn insert(&mut self, key: &[u64; N], id: MegaflowId) {
        let place = self.place(key);
        self.turn ^= 1;
        let entries = self.entries();
        let same = [place, place ^ 1].into_iter().find(|at| is_of(&entries[*at], key));
        let free = [place, place ^ 1].into_iter().find(|at| entries[*at][N] == 0);
        let from = self.skip + same.or(free).unwrap_or(place ^ self.turn) * STRIDE;
        self.words[from..from + N].copy_from_slice(key);
        (self.words[from + N], self.words[from + N + 1]) = (id.epoch, id.slot.into());
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.last + 1, self.secret);
    }
}

/// Whether an entry is that of a key.
#[inline(always)]
fn is_of<const N: usize, const STRIDE: usize>(entry: &[u64; STRIDE], key: &[u64; N]) -> bool {
    entry.iter().zip(key).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
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

    fn find<const N: usize, const S: usize>(cache: &HeadCache<N, S>, key: &[u64; N]) -> Option<MegaflowId> {
        Some(cache.find(cache.place(key), key)).filter(|id| id.epoch != 0)
    }

    fn id(slot: u32) -> MegaflowId {
        MegaflowId { slot, epoch: 1 }
    }

    #[test]
    fn keys_are_found() {
        let mut cache = HeadCache::<5, 8>::new(64, SECRET);
        let of = |port: u16| [1, 2, 3, 4, 5 | tag(PortId(port))];
        assert_eq!(find(&cache, &of(7)), None);
        cache.insert(&of(7), id(9));
        assert_eq!(find(&cache, &of(7)), Some(id(9)));
        assert_eq!(find(&cache, &of(8)), None);
        assert_eq!(find(&cache, &[1, 2, 3, 4, 6 | tag(PortId(7))]), None);
        cache.insert(&of(7), id(10));
        assert_eq!(find(&cache, &of(7)), Some(id(10)), "replaced in place");
        cache.clear();
        assert_eq!(find(&cache, &of(7)), None);
    }

    #[test]
    fn two_keys_share_their_places_and_a_third_replaces_one() {
        let mut cache = HeadCache::<5, 8>::new(2, SECRET);
        let keys = [[1; 5], [2; 5], [3; 5]];
        for (slot, key) in keys.iter().enumerate() {
            cache.insert(key, id(slot as u32));
        }
        assert_eq!(keys.iter().filter(|key| find(&cache, key).is_some()).count(), 2);
        assert_eq!(find(&cache, &keys[2]), Some(id(2)));
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
