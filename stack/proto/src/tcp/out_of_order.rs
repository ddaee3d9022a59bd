//! Payload received out of order, held until the bytes before it arrive.
//!
//! Segments that touch each other form a range, so that a link which loses one segment of a thousand makes one range of
//! the others. Only the number of ranges decides the cost of a search.

use super::Seq;
use crate::config::MIN_BUFFER;
use crate::{Payload, Slice};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Contiguous payload.
struct Range<P> {
    start: Seq,
    end: Seq,
    pieces: VecDeque<Slice<P>>,
}

impl<P: Payload> Range<P> {
    fn contains(&self, seq: Seq) -> bool {
        self.start.is_at_most(seq) && seq.is_before(self.end)
    }
}

/// Ranges whose order of arrival is known: as many as a SACK option has.
const RECENT: usize = 4;

/// Out-of-order payload of one connection. Has memory only while something is out of order.
pub(crate) struct OutOfOrder<P>(Option<Box<Held<P>>>);

/// Disjoint ranges, in order.
struct Held<P> {
    ranges: Vec<Range<P>>,
    /// Numbers in the ranges that arrived last, the latest first: the order of SACK ranges (RFC 2018 section 4).
    recent: [Seq; RECENT],
    bytes: u32,
    cost: u32,
}

/// Bytes as which a piece counts.
fn cost<P: Payload>(piece: &Slice<P>) -> u32 {
    (piece.len() as u32).max(MIN_BUFFER)
}

impl<P: Payload> OutOfOrder<P> {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Holds `data` from sequence number `seq` on, without the parts that are held already. Returns the number of bytes
    /// added, or `None` if more than `max` ranges would be held.
    pub(crate) fn insert(&mut self, seq: Seq, data: &Slice<P>, max: usize) -> Option<u32> {
        if self.0.is_none() && max == 0 {
            return None;
        }
        let new = || Box::new(Held { ranges: Vec::new(), recent: [Seq(0); RECENT], bytes: 0, cost: 0 });
        self.0.get_or_insert_with(new).insert(seq, data, max)
    }

    /// Removes the data that continues the stream at `next`. Parts before `next` are dropped.
    pub(crate) fn take(&mut self, next: Seq) -> Option<Slice<P>> {
        let held = self.0.as_deref_mut()?;
        let taken = held.take(next);
        if held.ranges.is_empty() {
            self.0 = None;
        }
        taken
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u32 {
        self.0.as_ref().map_or(0, |held| held.bytes)
    }

    /// Bytes as which the held data counts in the limit of all connections.
    pub(crate) fn cost(&self) -> u32 {
        self.0.as_ref().map_or(0, |held| held.cost)
    }

    /// Ranges, those that arrived last first.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (Seq, Seq)> + '_ {
        self.0.iter().flat_map(|held| held.latest_first())
    }

    /// Whether the range `seq..end` is held completely.
    pub(crate) fn covers(&self, seq: Seq, end: Seq) -> bool {
        let covers = |range: &Range<P>| range.start.is_at_most(seq) && end.is_at_most(range.end);
        self.0.as_ref().is_some_and(|held| held.ranges.iter().any(covers))
    }
}

impl<P: Payload> Held<P> {
    fn insert(&mut self, seq: Seq, data: &Slice<P>, max: usize) -> Option<u32> {
        let (end, before) = (seq + data.len() as u32, self.bytes);
        // The ranges `from..to` touch the data.
        let from = self.ranges.partition_point(|range| range.end.is_before(seq));
        let to = self.ranges.partition_point(|range| range.start.is_at_most(end));
        if from == to && self.ranges.len() >= max {
            return None;
        }
        if from == to {
            self.ranges.insert(from, Range { start: seq, end: seq, pieces: VecDeque::new() });
        }
        let to = to.max(from + 1);
        self.fill(from, to, (seq, end), data);
        self.recent.rotate_right(1);
        self.recent[0] = seq;
        Some(self.bytes - before)
    }

    /// Joins the ranges `from..to`, with parts of `data` before the first, between them and after the last one. Ranges
    /// do not touch each other, so that there is a gap between any two.
    fn fill(&mut self, from: usize, to: usize, (seq, end): (Seq, Seq), data: &Slice<P>) {
        let (bytes, costs) = (&mut self.bytes, &mut self.cost);
        let mut part = |start: Seq, stop: Seq| {
            let mut piece = data.clone();
            piece.narrow(start.since(seq) as usize..stop.since(seq) as usize);
            *bytes += piece.len() as u32;
            *costs += cost(&piece);
            piece
        };
        let others: Vec<_> = self.ranges.drain(from + 1..to).collect();
        let joined = &mut self.ranges[from];
        if seq.is_before(joined.start) {
            joined.pieces.push_front(part(seq, joined.start));
            joined.start = seq;
        }
        for mut next in others {
            joined.pieces.push_back(part(joined.end, next.start));
            joined.pieces.append(&mut next.pieces);
            joined.end = next.end;
        }
        if joined.end.is_before(end) {
            joined.pieces.push_back(part(joined.end, end));
            joined.end = end;
        }
    }

    fn take(&mut self, next: Seq) -> Option<Slice<P>> {
        loop {
            let first = self.ranges.first_mut()?;
            if next.is_before(first.start) {
                return None;
            }
            let (start, mut piece) = (first.start, first.pieces.pop_front()?);
            first.start += piece.len() as u32;
            let end = first.start;
            if first.pieces.is_empty() {
                self.ranges.remove(0);
            }
            (self.bytes, self.cost) = (self.bytes - piece.len() as u32, self.cost - cost(&piece));
            if next.is_before(end) {
                piece.narrow(next.since(start) as usize..piece.len());
                return Some(piece);
            }
        }
    }

    fn latest_first(&self) -> impl Iterator<Item = (Seq, Seq)> + '_ {
        let place = |range: &Range<P>| self.recent.iter().position(|seq| range.contains(*seq));
        let latest = move |n| self.ranges.iter().find(move |range| place(range) == Some(n));
        let others = self.ranges.iter().filter(move |range| place(range).is_none());
        (0..RECENT).filter_map(latest).chain(others).map(|range| (range.start, range.end))
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
        assert_eq!(held.insert(Seq(70), &piece(70, 5), 3), None);
    }

    #[test]
    fn adjacent_segments_are_one_range() {
        let mut held = OutOfOrder::<Bytes>::new();
        for i in 1..100 {
            assert_eq!(held.insert(Seq(i * 10), &piece(0, 10), 2), Some(10));
        }
        assert_eq!(held.insert(Seq(2000), &piece(0, 10), 2), Some(10));
        assert_eq!(held.insert(Seq(3000), &piece(0, 10), 2), None, "a third range");
        assert_eq!((held.bytes(), held.cost()), (1000, 100 * MIN_BUFFER));
        // The missing segment joins them with the start of the stream.
        let taken = (1..100).filter_map(|i| held.take(Seq(i * 10))).count();
        assert_eq!((taken, held.bytes(), held.cost()), (99, 10, MIN_BUFFER));
        assert!(held.take(Seq(1000)).is_none());
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
            let left = have[end..].iter().filter(|has| **has).count();
            prop_assert_eq!(held.bytes() as usize, left);
            prop_assert_eq!(held.cost() == 0, left == 0);
        }
    }
}
