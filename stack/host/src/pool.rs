//! Pool of private buffers for received bytes, without allocation once it has grown to the load.
//!
//! Buffers of one size form a queue. The pool keeps one handle of each, and a buffer is free when that handle is the
//! only one. The oldest is taken first, because streams free their buffers in the order in which they took them; so the
//! queue only grows to the number of buffers in use, which stays small enough for the cache.

use crate::payload::{Buffer, Chunk};
use std::collections::VecDeque;
use std::sync::Arc;

/// Buffers that may be in use before one is allocated.
const TRIES: usize = 4;
/// Buffers that may be in use before there is none, when no more may be allocated: of many connections with a message
/// each, any buffer may be the next one that is free.
const LAST_TRIES: usize = 64;
/// Number of sizes.
const CLASSES: usize = 4;
/// Sizes of buffers in bytes: short messages, segments of an Ethernet MTU, jumbo and coalesced segments. No size is
/// more than eight times the one before: a stack counts the bytes of a payload, so a buffer is at most eight times as
/// long as what it counts for, and a peer of a slow reader cannot occupy most of the pool.
const SIZES: [usize; CLASSES] = [256, 2048, 8192, 65_536];

/// Maximum number of buffers of each size: 256 bytes, 2 KiB, 8 KiB and 64 KiB.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits(pub [usize; CLASSES]);

impl Default for PoolLimits {
    /// At most 16, 128, 64 and 64 MiB. A connection with the default receive buffer of 1 MiB whose data is not read
    /// occupies a quarter of the buffers of one size at most.
    fn default() -> Self {
        Self([65_536, 65_536, 8_192, 1_024])
    }
}

impl PoolLimits {
    /// At least one short message for each connection, and some more: a server would drop the requests of connections
    /// that all have one on its way.
    #[must_use]
    pub fn with_connections(mut self, connections: u32) -> Self {
        let connections = connections as usize;
        self.0[0] = self.0[0].max(connections + connections / 8);
        self
    }
}

/// Buffers of one size.
#[derive(Debug)]
struct Queue {
    size: usize,
    limit: usize,
    chunks: VecDeque<Arc<Chunk>>,
}

impl Queue {
    /// A free buffer, which only the pool holds.
    #[inline]
    fn take(&mut self) -> Option<Arc<Chunk>> {
        self.find(TRIES).or_else(|| self.grow())
    }

    /// A free buffer among the `tries` oldest ones, which become the newest.
    #[inline]
    fn find(&mut self, tries: usize) -> Option<Arc<Chunk>> {
        for _ in 0..tries.min(self.chunks.len()) {
            let chunk = self.chunks.pop_front()?;
            if Arc::strong_count(&chunk) == 1 {
                return Some(chunk);
            }
            self.chunks.push_back(chunk);
        }
        None
    }

    #[cold]
    fn grow(&mut self) -> Option<Arc<Chunk>> {
        if self.chunks.len() < self.limit {
            return Some(Arc::new(Chunk { bytes: vec![0; self.size].into(), len: 0 }));
        }
        self.find(LAST_TRIES)
    }

    #[inline]
    fn fill(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> Option<Buffer> {
        let mut chunk = self.take()?;
        if let Some(free) = Arc::get_mut(&mut chunk)
            && let Some(bytes) = free.bytes.get_mut(..len)
        {
            write(bytes);
            free.len = len;
        }
        self.chunks.push_back(chunk.clone());
        Some(Buffer::pooled(chunk))
    }
}

/// A pool of private buffers.
#[derive(Debug)]
pub struct BufferPool([Queue; CLASSES]);

impl BufferPool {
    /// An empty pool that grows up to these limits.
    pub fn new(limits: PoolLimits) -> Self {
        Self(core::array::from_fn(|i| Queue { size: SIZES[i], limit: limits.0[i], chunks: VecDeque::new() }))
    }

    /// A buffer of `len` bytes, written by `write`. Returns `None` if none is free, or `len` exceeds 64 KiB.
    #[inline]
    pub fn fill(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> Option<Buffer> {
        self.0.iter_mut().find(|queue| len <= queue.size)?.fill(len, write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stack::Payload;

    #[test]
    fn each_connection_can_have_a_short_message() {
        assert_eq!(PoolLimits([8, 2, 2, 1]).with_connections(80).0, [90, 2, 2, 1]);
        assert_eq!(PoolLimits([8, 2, 2, 1]).with_connections(4).0, [8, 2, 2, 1]);
    }

    #[test]
    fn a_free_buffer_is_found_among_many_in_use() {
        let mut pool = BufferPool::new(PoolLimits([40, 0, 0, 0]));
        let mut held: Vec<_> = (0..40).map(|_| pool.fill(1, |_| ()).unwrap()).collect();
        for freed in [17, 3, 39, 20] {
            held.swap_remove(freed);
            held.push(pool.fill(1, |_| ()).expect("one is free"));
            assert!(pool.fill(1, |_| ()).is_none());
        }
    }

    #[test]
    fn buffers_are_reused_and_bounded() {
        let mut pool = BufferPool::new(PoolLimits([8, 2, 2, 1]));
        let held: Vec<_> = (0..8).map(|i| pool.fill(10, |to| to.fill(i)).unwrap()).collect();
        assert!(pool.fill(10, |_| ()).is_none() && pool.fill(65_537, |_| ()).is_none());
        held.iter().zip(0..).for_each(|(buffer, i)| assert_eq!(buffer.bytes(), Some(&[i; 10][..])));
        drop(held);
        for i in 0..100 {
            let buffer = pool.fill(256, |to| to.fill(i)).unwrap();
            assert_eq!((buffer.len(), buffer.bytes()), (256, Some(&[i; 256][..])));
        }
        assert_eq!(pool.0[0].chunks.len(), 8);
        assert_eq!(pool.fill(65_536, |_| ()).map(|buffer| buffer.len()), Some(65_536));
    }
}
