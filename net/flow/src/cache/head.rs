//! The head cache: results by the first bytes of a frame, as received.
//!
//! One instance per worker. An entry is a cache line of masked words, the ingress port, and the number of a megaflow;
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

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Entry<const N: usize> {
    words: [u64; N],
    epoch: u64,
    slot: u32,
    port: u16,
}

/// Entries of one number of words.
pub(crate) struct HeadCache<const N: usize> {
    entries: Box<[Entry<N>]>,
    secret: [u64; 2],
    /// Decides which of two places is overwritten.
    turn: usize,
}

impl<const N: usize> HeadCache<N> {
    /// An empty cache of `entries` entries, a power of two of at least 2.
    pub(crate) fn new(entries: usize, secret: [u64; 2]) -> Self {
        debug_assert!(entries.is_power_of_two() && entries >= 2);
        let empty = Entry { words: [0; N], epoch: 0, slot: 0, port: 0 };
        Self { entries: vec![empty; entries].into_boxed_slice(), secret, turn: 0 }
    }

    /// First place of a key. The second one is its neighbour.
    #[inline(always)]
    fn place(&self, words: &[u64; N], port: PortId) -> usize {
        let [mut a, b] = self.secret;
        a ^= u64::from(port.0);
        for pair in words.chunks(2) {
            a = fold(a ^ pair[0], b ^ pair.get(1).copied().unwrap_or_default());
        }
        a as usize & (self.entries.len() - 1)
    }

    /// The megaflow of a key.
    #[inline(always)]
    pub(crate) fn find(&self, words: &[u64; N], port: PortId) -> Option<MegaflowId> {
        let place = self.place(words, port);
        let entry = [place, place ^ 1].into_iter().filter_map(|at| self.entries.get(at));
        let found = entry.into_iter().find(|entry| entry.is(words, port))?;
        Some(MegaflowId { slot: found.slot, epoch: found.epoch })
    }

    /// Adds a key, over one of its two places.
    pub(crate) fn insert(&mut self, words: &[u64; N], port: PortId, id: MegaflowId) {
        let place = self.place(words, port);
        self.turn ^= 1;
        let same = [place, place ^ 1].into_iter().find(|at| self.entries[*at].is(words, port));
        let free = [place, place ^ 1].into_iter().find(|at| self.entries[*at].epoch == 0);
        let at = same.or(free).unwrap_or(place ^ self.turn);
        self.entries[at] = Entry { words: *words, epoch: id.epoch, slot: id.slot, port: port.0 };
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.epoch = 0);
    }
}

impl<const N: usize> Entry<N> {
    #[inline(always)]
    fn is(&self, words: &[u64; N], port: PortId) -> bool {
        super::same(&self.words, words) && self.port == port.0 && self.epoch != 0
    }
}

/// Both halves of a product, combined.
#[inline(always)]
pub(super) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

const _: () = assert!(size_of::<Entry<{ super::shape::V4_WORDS }>>() == 64);
const _: () = assert!(size_of::<Entry<{ super::shape::V4_TAGGED_WORDS }>>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];

    fn id(slot: u32) -> MegaflowId {
        MegaflowId { slot, epoch: 1 }
    }

    #[test]
    fn keys_are_found_by_words_and_port() {
        let mut cache = HeadCache::<5>::new(64, SECRET);
        let words = [1, 2, 3, 4, 5];
        assert_eq!(cache.find(&words, PortId(7)), None);
        cache.insert(&words, PortId(7), id(9));
        assert_eq!(cache.find(&words, PortId(7)), Some(id(9)));
        assert_eq!(cache.find(&words, PortId(8)), None);
        assert_eq!(cache.find(&[1, 2, 3, 4, 6], PortId(7)), None);
        cache.insert(&words, PortId(7), id(10));
        assert_eq!(cache.find(&words, PortId(7)), Some(id(10)), "replaced in place");
        cache.clear();
        assert_eq!(cache.find(&words, PortId(7)), None);
    }

    #[test]
    fn two_keys_share_their_places_and_a_third_replaces_one() {
        let mut cache = HeadCache::<5>::new(2, SECRET);
        let keys = [[1; 5], [2; 5], [3; 5]];
        for (slot, words) in keys.iter().enumerate() {
            cache.insert(words, PortId(0), id(slot as u32));
        }
        let found = |words: &[u64; 5]| cache.find(words, PortId(0));
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
