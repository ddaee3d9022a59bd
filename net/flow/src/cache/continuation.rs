//! How packets with one head continued after connection tracking.
//!
//! Beside each head cache, with the same entries: where the connection of an entry's packets was found, and the
//! megaflow of the rest of their way. A packet of this connection whose state is one that the megaflow matches
//! continues with it, without a key and a search.

use super::MegaflowId;
use super::lines::Lines;
use conntrack::Place;

/// The last continuation of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Continuation {
    /// The megaflow after connection tracking.
    pub(crate) next: MegaflowId,
    /// Where the connection was.
    pub(crate) place: Place,
}

/// Words of a continuation, of which a cache line has two.
const WORDS: usize = mem::line::LINE / 8 / 2;

/// The continuations of a head cache, by the numbers of its entries; an entry and its neighbour have one cache line.
/// Without memory until the first one is added.
#[derive(Default)]
pub(crate) struct Continuations(Lines);

impl Continuations {
    #[inline(always)]
    fn all(&self) -> &[[u64; WORDS]] {
        self.0.entries()
    }

    /// Loads the continuations of an entry and of its neighbour into the cache.
    #[inline(always)]
    pub(crate) fn prefetch(&self, entry: usize) {
        if let Some(words) = self.all().get(entry) {
            mem::line::prefetch_read(words.as_ptr().cast());
        }
    }

    /// The continuation that was set last for an entry.
    #[inline]
    pub(crate) fn get(&self, entry: usize) -> Option<Continuation> {
        let [epoch, slots, address, numbers] = *self.all().get(entry)?;
        let (shard, is_reply) = (numbers as u16, numbers >> 16 & 1 != 0);
        let place = Place { shard, slot: (slots >> 32) as u32, address: address as usize, is_reply };
        (epoch != 0).then_some(Continuation { next: MegaflowId { slot: slots as u32, epoch }, place })
    }

    /// Sets the continuation of an entry, of which there are `entries`.
    pub(crate) fn set(&mut self, entry: usize, entries: usize, Continuation { next, place }: &Continuation) {
        if self.all().is_empty() {
            self.0 = Lines::zeroed(entries * WORDS);
        }
        let slots = u64::from(next.slot) | u64::from(place.slot) << 32;
        let numbers = u64::from(place.shard) | u64::from(place.is_reply) << 16;
        if let Some(words) = self.0.entries_mut::<WORDS>().get_mut(entry) {
            *words = [next.epoch, slots, place.address as u64, numbers];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuations_are_found_by_their_entries() {
        let next = MegaflowId { slot: u32::MAX, epoch: u64::MAX - 1 };
        let place = Place { shard: 1023, slot: u32::MAX - 2, address: usize::MAX, is_reply: true };
        let mut all = Continuations::default();
        assert_eq!(all.get(3), None);
        let other = Place { is_reply: false, ..place };
        for (entry, place) in [(3, place), (2, other)] {
            all.set(entry, 4, &Continuation { next, place });
        }
        assert_eq!(all.get(3), Some(Continuation { next, place }));
        assert_eq!(all.get(2), Some(Continuation { next, place: other }));
        assert_eq!([all.get(1), all.get(9)], [None; 2]);
    }
}
