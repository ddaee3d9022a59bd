//! Data from the first unacknowledged byte to the last that the application queued.
//!
//! Chunks are entries of a slab that all connections share, linked in order, so that an idle connection holds none. A
//! cursor keeps the place of the next new byte; retransmissions search from the head.

use super::Seq;
use crate::config::send_cost;
use crate::slab::Slab;
use crate::{Payload, Slice};
use core::ops::Range;

const NONE: u32 = u32::MAX;

struct Chunk<P> {
    data: Slice<P>,
    next: u32,
}

/// Chunks of all connections.
pub(crate) struct ChunkPool<P>(Slab<Chunk<P>>);

impl<P: Payload> ChunkPool<P> {
    pub(crate) const fn new() -> Self {
        Self(Slab::new())
    }

    /// Number of chunks in use.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Queued and unacknowledged data of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendQueue {
    head: u32,
    tail: u32,
    /// Sequence number of the first byte of the head.
    base: Seq,
    /// Chunk at or before the next new byte, and the sequence number of its first byte.
    cursor: u32,
    cursor_base: Seq,
    /// Sequence number after the last byte.
    end: Seq,
    /// Bytes of the chunks, each counted as a buffer at least.
    cost: u32,
}

impl SendQueue {
    /// An empty queue whose first byte will have this sequence number.
    pub(crate) const fn new(first: Seq) -> Self {
        Self { head: NONE, tail: NONE, base: first, cursor: NONE, cursor_base: first, end: first, cost: 0 }
    }

    /// Sequence number of the first byte held. No data before it is unacknowledged.
    #[inline]
    pub(crate) const fn base(&self) -> Seq {
        self.base
    }

    /// Sequence number after the last byte.
    #[inline]
    pub(crate) const fn end(&self) -> Seq {
        self.end
    }

    /// Bytes held: from the head's first byte on.
    #[inline]
    pub(crate) const fn held(&self) -> u32 {
        self.end.since(self.base)
    }

    /// Bytes as which the queued data counts in the limit of the send buffer.
    #[inline]
    pub(crate) const fn cost(&self) -> u32 {
        self.cost
    }

    #[inline(always)]
    pub(crate) fn push<P: Payload>(&mut self, pool: &mut ChunkPool<P>, data: Slice<P>) {
        let len = data.len() as u32;
        let at = pool.0.insert(Chunk { data, next: NONE });
        if let Some(tail) = pool.0.get_mut(self.tail) {
            tail.next = at;
        } else {
            (self.head, self.cursor, self.cursor_base) = (at, at, self.end);
        }
        self.tail = at;
        self.end += len;
        self.cost += send_cost(len as usize) as u32;
    }

    /// Drops chunks that end at or before `una`.
    #[inline]
    pub(crate) fn acknowledge<P: Payload>(&mut self, pool: &mut ChunkPool<P>, una: Seq) {
        while self.head != NONE {
            let Some(chunk) = pool.0.get(self.head) else { break };
            let len = chunk.data.len() as u32;
            let end = self.base + len;
            if una.is_before(end) {
                break;
            }
            self.cost -= send_cost(len as usize) as u32;
            let next = chunk.next;
            if self.cursor == self.head {
                (self.cursor, self.cursor_base) = (next, end);
            }
            pool.0.discard(self.head);
            (self.head, self.base) = (next, end);
        }
        if self.head == NONE {
            self.tail = NONE;
        }
    }

    /// Pieces of `from..to`, in order. Moves the cursor to `from`.
    #[inline]
    pub(crate) fn pieces<'a, P: Payload>(
        &mut self,
        pool: &'a ChunkPool<P>,
        from: Seq,
        to: Seq,
    ) -> Pieces<'a, P> {
        let is_ahead = self.cursor != NONE && self.cursor_base.is_at_most(from);
        let (mut at, mut base) =
            if is_ahead { (self.cursor, self.cursor_base) } else { (self.head, self.base) };
        while let Some(chunk) = pool.0.get(at) {
            let end = base + chunk.data.len() as u32;
            if from.is_before(end) {
                break;
            }
            (at, base) = (chunk.next, end);
        }
        if is_ahead && at != NONE {
            (self.cursor, self.cursor_base) = (at, base);
        }
        Pieces { pool, at, skip: from.since(base), left: to.since(from.max(base)) }
    }

    /// Drops all data.
    pub(crate) fn release<P: Payload>(&mut self, pool: &mut ChunkPool<P>) {
        self.acknowledge(pool, self.end);
    }
}

/// Iterator over the pieces of a range.
pub(crate) struct Pieces<'a, P> {
    pool: &'a ChunkPool<P>,
    /// Next chunk, and bytes of it before the range.
    at: u32,
    skip: u32,
    /// Bytes of the range from there on.
    left: u32,
}

impl<P> Clone for Pieces<'_, P> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<'a, P: Payload> Iterator for Pieces<'a, P> {
    type Item = (&'a Slice<P>, Range<usize>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let chunk = self.pool.0.get(self.at)?;
        let len = (chunk.data.len() as u32).saturating_sub(self.skip).min(self.left);
        let range = self.skip as usize..(self.skip + len) as usize;
        (self.at, self.skip, self.left) = (chunk.next, 0, self.left - len);
        Some((&chunk.data, range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;
    use std::sync::Arc;

    type Bytes = Arc<[u8]>;

    fn read(queue: &mut SendQueue, pool: &ChunkPool<Bytes>, from: Seq, to: Seq) -> Vec<u8> {
        queue.pieces(pool, from, to).flat_map(|(slice, range)| slice.to_vec()[range].to_vec()).collect()
    }

    proptest! {
        #[test]
        fn queue_is_a_window_of_the_stream(
            first in any::<u32>(),
            steps in prop::collection::vec((0u8..3, 1usize..50), 1..80),
        ) {
            let (mut pool, mut queue) = (ChunkPool::<Bytes>::new(), SendQueue::new(Seq(first)));
            let (mut una, mut sent, mut all) = (0usize, 0usize, Vec::<u8>::new());
            for (step, n) in steps {
                let at = |i: usize| Seq(first) + i as u32;
                match step {
                    0 => {
                        let bytes: Vec<u8> = (0..n).map(|i| (all.len() + i) as u8).collect();
                        all.extend(&bytes);
                        queue.push(&mut pool, Slice::new(bytes.into()));
                    }
                    1 => {
                        let to = (sent + n).min(all.len());
                        prop_assert_eq!(read(&mut queue, &pool, at(sent), at(to)), &all[sent..to]);
                        let again = una + n.min(sent - una);
                        prop_assert_eq!(read(&mut queue, &pool, at(una), at(again)), &all[una..again]);
                        sent = to;
                    }
                    _ => {
                        una = (una + n).min(sent);
                        queue.acknowledge(&mut pool, at(una));
                    }
                }
                prop_assert_eq!(queue.end(), Seq(first) + all.len() as u32);
                prop_assert!(queue.held() as usize >= all.len() - una);
            }
            queue.release(&mut pool);
            prop_assert_eq!(pool.len(), 0);
        }
    }
}
