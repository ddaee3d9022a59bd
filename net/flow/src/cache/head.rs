//! The head cache: results by the first bytes of a frame, as received.
//!
//! One instance per worker. An entry is masked words, the ingress port, and the number of a megaflow, in one cache line;
//! two neighbouring entries are the places of a key. Nothing is removed: an entry of a megaflow that no longer exists
//! has another epoch than its slot, and is overwritten when the next megaflow is found for its key. The hash is keyed
//! with a secret, so that no sender can select frames that share their places.

use port::PortId;

/// Identifies a megaflow of the worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MegaflowId {
    /// Slot.
    pub(crate) slot: u32,
    /// Number of the insertion, from 1; 0 in an entry that was never used.
    pub(crate) epoch: u64,
}

/// Entries of one number of words.
pub(crate) struct HeadCache<const N: usize> {
    /// The entries behind each other: the words of a key, the epoch, and the slot with the port. An allocation of zeros
    /// has memory only where it was written, so that few entries need little.
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

impl<const N: usize> HeadCache<N> {
    /// Words from one entry to the next.
    const STRIDE: usize = (N + 2).next_multiple_of(LINE);

    /// An empty cache of `entries` entries, a power of two of at least 2.
    pub(crate) fn new(entries: usize, secret: [u64; 2]) -> Self {
        debug_assert!(entries.is_power_of_two() && entries >= 2);
        let words = vec![0_u64; entries * Self::STRIDE + LINE];
        let skip = words.as_ptr().addr().next_multiple_of(mem::line::LINE) - words.as_ptr().addr();
        Self { words, skip: skip / 8, last: entries - 1, secret, turn: 0 }
    }

    /// First place of a key. The second one is its neighbour.
    #[inline(always)]
    pub(crate) fn place(&self, words: &[u64; N], port: PortId) -> usize {
        let [mut a, b] = self.secret;
        a ^= u64::from(port.0);
        for pair in words.chunks(2) {
            a = fold(a ^ pair[0], b ^ pair.get(1).copied().unwrap_or_default());
        }
        a as usize & self.last
    }

    /// Loads the entry at a place into the cache.
    #[inline(always)]
    pub(crate) fn prefetch(&self, place: usize) {
        if let Some(entry) = self.words.get(self.skip + place * Self::STRIDE) {
            mem::line::prefetch_read(std::ptr::from_ref(entry).cast());
        }
    }

    /// The megaflow of a key with this place.
    #[inline(always)]
    pub(crate) fn find(&self, place: usize, words: &[u64; N], port: PortId) -> Option<MegaflowId> {
        self.at(place, words, port).or_else(|| self.at(place ^ 1, words, port))
    }

    /// The megaflow of the entry at a place, if it is of this key.
    #[inline(always)]
    fn at(&self, place: usize, words: &[u64; N], port: PortId) -> Option<MegaflowId> {
        let entry = self.words.get(self.skip + place * Self::STRIDE..)?;
        let (key, rest) = entry.split_first_chunk::<N>()?;
        let [epoch, place] = *rest.first_chunk()?;
        let is = super::same(key, words) && place >> 32 == u64::from(port.0) && epoch != 0;
        is.then_some(MegaflowId { slot: place as u32, epoch })
    }

    /// Adds a key, over one of its two places.
    pub(crate) fn insert(&mut self, words: &[u64; N], port: PortId, id: MegaflowId) {
        let place = self.place(words, port);
        self.turn ^= 1;
        let epoch = |at: &usize| self.words[self.skip + at * Self::STRIDE + N];
        let same = [place, place ^ 1].into_iter().find(|at| self.at(*at, words, port).is_some());
        let free = [place, place ^ 1].into_iter().find(|at| epoch(at) == 0);
        let from = self.skip + same.or(free).unwrap_or(place ^ self.turn) * Self::STRIDE;
        self.words[from..from + N].copy_from_slice(words);
        self.words[from + N] = id.epoch;
        self.words[from + N + 1] = u64::from(port.0) << 32 | u64::from(id.slot);
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.last + 1, self.secret);
    }
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

    fn find<const N: usize>(cache: &HeadCache<N>, words: &[u64; N], port: u16) -> Option<MegaflowId> {
        cache.find(cache.place(words, PortId(port)), words, PortId(port))
    }

    fn id(slot: u32) -> MegaflowId {
        MegaflowId { slot, epoch: 1 }
    }

    #[test]
    fn keys_are_found_by_words_and_port() {
        let mut cache = HeadCache::<5>::new(64, SECRET);
        let words = [1, 2, 3, 4, 5];
        assert_eq!(find(&cache, &words, 7), None);
        cache.insert(&words, PortId(7), id(9));
        assert_eq!(find(&cache, &words, 7), Some(id(9)));
        assert_eq!(find(&cache, &words, 8), None);
        assert_eq!(find(&cache, &[1, 2, 3, 4, 6], 7), None);
        cache.insert(&words, PortId(7), id(10));
        assert_eq!(find(&cache, &words, 7), Some(id(10)), "replaced in place");
        cache.clear();
        assert_eq!(find(&cache, &words, 7), None);
    }

    #[test]
    fn two_keys_share_their_places_and_a_third_replaces_one() {
        let mut cache = HeadCache::<5>::new(2, SECRET);
        let keys = [[1; 5], [2; 5], [3; 5]];
        for (slot, words) in keys.iter().enumerate() {
            cache.insert(words, PortId(0), id(slot as u32));
        }
        let found = |words: &[u64; 5]| find(&cache, words, 0);
        assert_eq!(keys.iter().filter(|words| found(words).is_some()).count(), 2);
        assert_eq!(found(&keys[2]), Some(id(2)));
    }

    #[test]
    fn every_word_selects_the_place() {
        let cache = HeadCache::<6>::new(1 << 16, SECRET);
        let base = cache.place(&[0; 6], PortId(0));
        let changed = (0..6).filter(|i| {
            let mut words = [0; 6];
            words[*i] = 1 << 40;
            cache.place(&words, PortId(0)) != base
        });
        assert_eq!(changed.count(), 6);
    }
}
