//! One worker's share of a pool.
//!
//! Two magazines, as in Bonwick's slab allocator: allocation and freeing work on the loaded one, and the spare is
//! swapped in before the depot is asked. So a worker that allocates and frees around a magazine's edge does not
//! go back and forth to the depot, and what was freed last, and is still in this core's cache, comes out first.

use super::depot::MAGAZINE;
use super::{Buffer, Pool};
use core::ptr::NonNull;
use std::sync::Arc;

/// What a cache did so far, in operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Allocations served from the cache.
    pub hits: u64,
    /// Allocations that first took a magazine from the depot.
    pub refills: u64,
    /// Allocations that failed because the pool was empty.
    pub empty: u64,
    /// Buffers given back.
    pub frees: u64,
    /// Magazines that freeing put into the depot.
    pub spills: u64,
    /// Buffers of other pools that were given back here, and are lost.
    pub strays: u64,
    /// Exchanges with the depot that were tried again, because another cache's came first.
    pub retries: u64,
}

impl Counters {
    /// Allocations that succeeded. Summed over all caches, and less the frees, these are the buffers in use.
    pub fn allocations(&self) -> u64 {
        self.hits + self.refills
    }
}

/// Free buffers in the hands of one worker. They go back to the pool when the cache is dropped.
#[derive(Debug)]
pub struct Cache {
    pool: Arc<Pool>,
    loaded: Magazine,
    spare: Magazine,
    counters: Counters,
}

// SAFETY: the pointers are to free buffers, which belong to the cache alone wherever it goes.
unsafe impl Send for Cache {}

#[derive(Debug)]
struct Magazine {
    starts: [NonNull<u8>; MAGAZINE],
    count: usize,
}

impl Magazine {
    const EMPTY: Self = Self { starts: [NonNull::dangling(); MAGAZINE], count: 0 };

    fn push(&mut self, start: NonNull<u8>) {
        self.starts[self.count] = start;
        self.count += 1;
    }

    fn pop(&mut self) -> Option<NonNull<u8>> {
        self.count = self.count.checked_sub(1)?;
        Some(self.starts[self.count])
    }
}

impl Cache {
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        Self { pool, loaded: Magazine::EMPTY, spare: Magazine::EMPTY, counters: Counters::default() }
    }

    /// The pool behind it.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// What it did so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Takes a buffer without data or headroom, unless the pool is empty.
    #[inline]
    pub fn alloc(&mut self) -> Option<Buffer> {
        let start = match self.loaded.pop() {
            Some(start) => {
                self.counters.hits += 1;
                start
            }
            None => self.alloc_slowly()?,
        };
        // SAFETY: the start of a buffer of this pool that was free; it is handed out once. The memory began as
        // zeros, and the pool keeps it for as long as any handle is missing.
        Some(unsafe { Buffer::new(start, self.pool.spec.size) })
    }

    #[cold]
    fn alloc_slowly(&mut self) -> Option<NonNull<u8>> {
        core::mem::swap(&mut self.loaded, &mut self.spare);
        let kept = self.loaded.pop();
        self.counters.hits += u64::from(kept.is_some());
        kept.or_else(|| self.refill())
    }

    fn refill(&mut self) -> Option<NonNull<u8>> {
        let Self { pool, loaded, .. } = self;
        self.counters.retries += pool.depot.pop(|index| loaded.push(pool.start_of(index)));
        let start = self.loaded.pop();
        let counter = if start.is_some() { &mut self.counters.refills } else { &mut self.counters.empty };
        *counter += 1;
        start
    }

    /// Gives a buffer back to its pool.
    #[inline]
    pub fn free(&mut self, buffer: Buffer) {
        let start = buffer.into_start();
        if !self.pool.owns(start) {
            self.counters.strays += 1;
            return;
        }
        if self.loaded.count == MAGAZINE {
            self.make_room();
        }
        self.loaded.push(start);
        self.counters.frees += 1;
    }

    /// Leaves the loaded magazine with room.
    #[cold]
    fn make_room(&mut self) {
        core::mem::swap(&mut self.loaded, &mut self.spare);
        if self.loaded.count == MAGAZINE {
            self.counters.spills += 1;
            self.counters.retries += spill(&self.pool, &mut self.loaded);
        }
    }
}

/// Moves a whole magazine to the depot. How often another change of it came first.
fn spill(pool: &Pool, magazine: &mut Magazine) -> u64 {
    let mut indices = [0; MAGAZINE];
    for (index, start) in indices.iter_mut().zip(&magazine.starts[..magazine.count]) {
        *index = pool.index_of(*start);
    }
    let retries = pool.depot.push(&indices[..magazine.count]);
    magazine.count = 0;
    retries
}

impl Drop for Cache {
    fn drop(&mut self) {
        spill(&self.pool, &mut self.loaded);
        spill(&self.pool, &mut self.spare);
    }
}
