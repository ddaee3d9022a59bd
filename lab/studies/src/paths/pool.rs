//! A buffer pool like DPDK's `rte_mempool` with a cache for one core: last in, first out, until the cache is full and
//! is flushed as a whole to a queue.

use std::collections::VecDeque;

use sim::memory::Address;

/// Cache size per core in testpmd; the cache is flushed at one and a half times that.
const CACHE: usize = 250;
const FULL: usize = CACHE + CACHE / 2;

/// The free buffers.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    cache: Vec<Address>,
    rest: VecDeque<Address>,
}

impl Pool {
    /// Creates a pool of unused buffers.
    pub(super) fn new(buffers: impl Iterator<Item = Address>) -> Pool {
        Pool { cache: Vec::with_capacity(FULL), rest: buffers.collect() }
    }

    /// Takes a buffer; `None` if the pool is empty.
    pub(super) fn take(&mut self) -> Option<Address> {
        if self.cache.is_empty() {
            let refill = CACHE.min(self.rest.len());
            // The cache is emptied from its end, so the refill is reversed to take the queue's first buffer first.
            self.cache.extend(self.rest.drain(..refill).rev());
        }
        self.cache.pop()
    }

    /// Gives a buffer back.
    pub(super) fn give(&mut self, buffer: Address) {
        if self.cache.len() == FULL {
            self.rest.extend(self.cache.drain(..));
        }
        self.cache.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_freed_last_is_allocated_first() {
        let mut pool = Pool::new(0..1000);
        let first = pool.take().expect("there are 1000");
        pool.give(first);
        assert_eq!(pool.take(), Some(first));
    }

    #[test]
    fn a_full_cache_is_appended_to_the_queue_and_no_buffer_is_lost() {
        let mut pool = Pool::new(0..1000);
        let all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((all.len(), all[0]), (1000, 0));
        for buffer in &all {
            pool.give(*buffer);
        }
        let mut again: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        // Two full caches wait in the queue; the third, not full, is used first.
        assert_eq!((again[0], again[250]), (999, 0));
        again.sort_unstable();
        assert_eq!(again, (0..1000).collect::<Vec<_>>());
    }
}
