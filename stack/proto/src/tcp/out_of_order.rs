//! Payload received out of order, held until the bytes before it arrive.

use super::Seq;
use crate::config::MIN_BUFFER;
use crate::{Payload, Slice};
use alloc::vec::Vec;

struct Held<P> {
    seq: Seq,
    data: Slice<P>,
}

impl<P: Payload> Held<P> {
    fn end(&self) -> Seq {
        self.seq + self.data.len() as u32
    }
}

/// Ranges whose order of arrival is known: as many as a SACK option has.
const RECENT: usize = 4;

fn contains((left, right): (Seq, Seq), seq: Seq) -> bool {
    left.is_at_most(seq) && seq.is_before(right)
}

/// Out-of-order payload of one connection: disjoint, in order. Allocates only when something is out of order.
pub(crate) struct OutOfOrder<P> {
    held: Vec<Held<P>>,
    /// Numbers in the ranges that arrived last, the latest first: the order of SACK ranges (RFC 2018 section 4).
    recent: [Seq; RECENT],
}

impl<P: Payload> OutOfOrder<P> {
    pub(crate) const fn new() -> Self {
        Self { held: Vec::new(), recent: [Seq(0); RECENT] }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Holds `data` from sequence number `seq` on, without the parts that are held already. Returns the number of bytes
    /// added, or `None` if more than `max` ranges would be held.
    pub(crate) fn insert(&mut self, seq: Seq, data: &Slice<P>, max: usize) -> Option<u32> {
        let end = seq + data.len() as u32;
        let from = self.held.partition_point(|held| held.end().is_at_most(seq));
        let to = self.held.partition_point(|held| held.seq.is_before(end));
        let (mut at, mut start, mut added) = (from, seq, 0);
        // Gaps between the ranges `from..to`, and after the last one.
        for _ in from..=to {
            let stop = self.held.get(at).map_or(end, |held| held.seq.min(end));
            let is_gap = start.is_before(stop);
            if is_gap && self.held.len() >= max {
                return if added > 0 { Some(added) } else { None };
            }
            let next = self.held.get(at).map_or(end, Held::end);
            if is_gap {
                let mut piece = data.clone();
                piece.narrow(start.since(seq) as usize..stop.since(seq) as usize);
                added += piece.len() as u32;
                self.held.insert(at, Held { seq: start, data: piece });
                at += 1;
            }
            (start, at) = (next, at + 1);
        }
        self.recent.rotate_right(1);
        self.recent[0] = seq;
        Some(added)
    }

    /// Removes the data that continues the stream at `next`. Parts before `next` are dropped.
    pub(crate) fn take(&mut self, next: Seq) -> Option<Slice<P>> {
        while let Some(first) = self.held.first() {
            if next.is_before(first.seq) {
                return None;
            }
            let mut first = self.held.remove(0);
            if next.is_before(first.end()) {
                first.data.narrow(next.since(first.seq) as usize..first.data.len());
                return Some(first.data);
            }
        }
        None
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u32 {
        self.held.iter().map(|held| held.data.len() as u32).sum()
    }

    /// Bytes as which the held ranges count in the limit of all connections.
    pub(crate) fn cost(&self) -> u32 {
        self.held.iter().map(|held| (held.data.len() as u32).max(MIN_BUFFER)).sum()
    }

    /// Contiguous ranges, those that arrived last first.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (Seq, Seq)> + '_ {
        let place = |range: &(Seq, Seq)| self.recent.iter().position(|seq| contains(*range, *seq));
        let latest = move |n| self.merged().find(move |range| place(range) == Some(n));
        let others = self.merged().filter(move |range| place(range).is_none());
        (0..RECENT).filter_map(latest).chain(others)
    }

    fn merged(&self) -> impl Iterator<Item = (Seq, Seq)> + '_ {
        let mut at = 0;
        core::iter::from_fn(move || {
            let first = self.held.get(at)?;
            let mut end = first.end();
            at += 1;
            while let Some(next) = self.held.get(at).filter(|next| next.seq == end) {
                (end, at) = (next.end(), at + 1);
            }
            Some((first.seq, end))
        })
    }

    /// Whether the range `seq..end` is held completely.
    pub(crate) fn covers(&self, seq: Seq, end: Seq) -> bool {
        self.merged().any(|(left, right)| left.is_at_most(seq) && end.is_at_most(right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;
    use std::sync::Arc;
    use std::vec;

    type Bytes = Arc<[u8]>;

    fn piece(from: usize, len: usize) -> Slice<Bytes> {
        Slice::new((from..from + len).map(|i| i as u8).collect::<Vec<_>>().into())
    }

    #[test]
    fn latest_range_is_first_and_neighbours_merge() {
        let mut held = OutOfOrder::<Bytes>::new();
        for from in [10, 30, 50, 35] {
            assert_eq!(held.insert(Seq(from), &piece(from as usize, 5), 8), Some(5));
        }
        let ranges: Vec<_> = held.ranges().map(|(left, right)| (left.0, right.0)).collect();
        assert_eq!(ranges, [(30, 40), (50, 55), (10, 15)]);
        assert!(held.covers(Seq(31), Seq(40)) && !held.covers(Seq(10), Seq(16)));
        assert_eq!(held.insert(Seq(70), &piece(70, 5), 4), None);
    }

    proptest! {
        #[test]
        fn any_order_gives_the_stream(
            base in any::<u32>(),
            pieces in prop::collection::vec((0usize..100, 1usize..40), 1..40),
        ) {
            let mut held = OutOfOrder::<Bytes>::new();
            let (mut have, mut bytes) = (vec![false; 140], 0);
            for (from, len) in pieces {
                bytes += held.insert(Seq(base) + from as u32, &piece(from, len), 200).unwrap();
                have[from..from + len].fill(true);
                prop_assert_eq!(bytes as usize, have.iter().filter(|has| **has).count());
                prop_assert_eq!(held.bytes(), bytes);
            }
            let mut at = have.iter().position(|has| *has).unwrap();
            let end = at + have[at..].iter().take_while(|has| **has).count();
            while let Some(data) = held.take(Seq(base) + at as u32) {
                prop_assert_eq!(data.to_vec(), piece(at, data.len()).to_vec());
                at += data.len();
            }
            prop_assert_eq!(at, end);
        }
    }
}
