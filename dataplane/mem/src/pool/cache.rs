//! Per-worker buffer cache of a pool.
//!
//! A LIFO stack of four magazines. An empty stack takes a magazine from the depot; a full stack returns the bottom one.
//! The hysteresis avoids repeated exchanges with the depot around one fill level, as the two magazines of Bonwick's
//! slab allocator do, also for a worker that alternately allocates and frees bursts of 64. The most recently freed
//! buffers, still in this core's cache, are allocated first; the oldest go to the depot.

use super::buffer::BufMeta;
use super::depot::MAGAZINE;
use super::{Buffer, Pool, many};
use core::ptr::NonNull;
use std::sync::Arc;

/// Capacity of a cache, in buffers.
pub const CAPACITY: usize = 4 * MAGAZINE;

/// Cache statistics, in operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Allocations served from the stack.
    pub hits: u64,
    /// Allocations that took a magazine from the depot first.
    pub refills: u64,
    /// Allocations that failed because the pool was empty.
    pub empty: u64,
    /// Buffers freed.
    pub frees: u64,
    /// Magazines returned to the depot by frees.
    pub spills: u64,
    /// Buffers of other pools freed into this cache; they are leaked.
    pub strays: u64,
    /// Retries of depot operations because of contention.
    pub retries: u64,
}

impl Counters {
    /// Successful allocations. Summed over all caches, minus frees, this is the number of buffers in use.
    pub fn allocations(&self) -> u64 {
        self.hits + self.refills
    }
}

/// Line-aligned, so that no vector access crosses a cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Stack([NonNull<u8>; CAPACITY]);

/// Free buffers owned by one worker. They return to the pool when the cache is dropped.
#[derive(Debug)]
pub struct Cache {
    pool: Arc<Pool>,
    /// The first `count` entries are free buffers, the most recently freed last.
    starts: Stack,
    count: usize,
    counters: Counters,
}

// SAFETY: the pointers refer to free buffers, which the cache owns exclusively.
unsafe impl Send for Cache {}

impl Cache {
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        Self { pool, starts: Stack([NonNull::dangling(); CAPACITY]), count: 0, counters: Counters::default() }
    }

    /// The pool of this cache.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Current statistics.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Allocates a buffer with no data and no headroom. Returns `None` if the pool is empty.
    #[inline]
    pub fn alloc(&mut self) -> Option<Buffer> {
        if self.count > 0 {
            self.counters.hits += 1;
        } else if !self.refill() {
            self.counters.empty += 1;
            return None;
        }
        self.count -= 1;
        // SAFETY: the start of a free buffer of this pool, which was just taken off the stack.
        Some(unsafe { Buffer::new(self.starts.0[self.count], BufMeta::empty(self.pool.spec.size)) })
    }

    /// Allocates up to `wanted` buffers with no data and no headroom, appends them to `buffers` and returns their
    /// number. Equivalent to repeated [`Cache::alloc`], including the counters; each missing buffer counts as a failed
    /// allocation.
    #[inline]
    pub fn alloc_bulk(&mut self, buffers: &mut Vec<Buffer>, wanted: usize) -> usize {
        let mut got = self.take(buffers, wanted);
        self.counters.hits += got as u64;
        while got < wanted {
            if !self.refill() {
                self.counters.empty += (wanted - got) as u64;
                break;
            }
            let more = self.take(buffers, wanted - got);
            // The first of them counts as a refill, not as a hit.
            self.counters.hits += more as u64 - 1;
            got += more;
        }
        got
    }

    /// Moves up to `wanted` buffers from the top of the stack to `buffers`; returns their number.
    #[inline(always)]
    fn take(&mut self, buffers: &mut Vec<Buffer>, wanted: usize) -> usize {
        let (about, stay) = (BufMeta::empty(self.pool.spec.size), self.count.saturating_sub(wanted));
        let taken = &self.starts.0[stay..self.count];
        let (count, before) = (taken.len(), buffers.len());
        buffers.reserve(count);
        // SAFETY: the starts of free buffers of this pool, removed from the stack below. If `reserve` panics, nothing
        // has been taken.
        unsafe { many::make(taken, about, &mut buffers.spare_capacity_mut()[..count]) };
        // SAFETY: `make` initialised `count` more elements.
        unsafe { buffers.set_len(before + count) };
        self.count = stay;
        count
    }

    /// Moves a magazine from the depot to the empty stack, for one allocation. Returns `false` if the depot is empty.
    #[cold]
    fn refill(&mut self) -> bool {
        let Self { pool, starts, count, .. } = self;
        self.counters.retries += pool.depot.pop(|index| {
            starts.0[*count] = pool.start_of(index);
            *count += 1;
        });
        let any = self.count > 0;
        self.counters.refills += u64::from(any);
        any
    }

    /// Returns a buffer to its pool.
    #[inline]
    pub fn free(&mut self, buffer: Buffer) {
        let start = buffer.into_start();
        if !self.pool.home().owns(start) {
            self.counters.strays += 1;
            return;
        }
        if self.count == CAPACITY {
            self.spill();
        }
        self.starts.0[self.count] = start;
        self.count += 1;
        self.counters.frees += 1;
    }

    /// Returns all buffers to their pool and clears the vector. Equivalent to repeated [`Cache::free`].
    #[inline]
    pub fn free_bulk(&mut self, buffers: &mut Vec<Buffer>) {
        let home = self.pool.home();
        let mut done = 0;
        while done < buffers.len() {
            if self.count == CAPACITY {
                self.spill();
            }
            let room = &mut self.starts.0[self.count..];
            let now = (buffers.len() - done).min(room.len());
            if !many::part(&buffers[done..done + now], home, &mut room[..now]) {
                break;
            }
            self.count += now;
            done += now;
        }
        self.counters.frees += done as u64;
        // `free_all` detects and counts strays individually.
        self.free_all(buffers.drain(done..));
        // Drops the handles of the freed buffers.
        buffers.clear();
    }

    /// [`Cache::free_bulk`] for buffers that are not contiguous.
    #[inline]
    pub fn free_all(&mut self, buffers: impl IntoIterator<Item = Buffer>) {
        let mut starts = buffers.into_iter().map(Buffer::into_start);
        while self.put(&mut starts) {
            self.spill();
        }
    }

    /// Pushes buffers onto the stack. Returns `false` if all were pushed, `true` if the stack is full.
    #[inline(always)]
    fn put(&mut self, starts: &mut impl Iterator<Item = NonNull<u8>>) -> bool {
        let (home, room) = (self.pool.home(), &mut self.starts.0[self.count..]);
        let (mut came, mut strays, mut full) = (0, 0, true);
        while came < room.len() {
            let Some(start) = starts.next() else {
                full = false;
                break;
            };
            // Branch-free: the next buffer overwrites a stray.
            room[came] = start;
            let stray = !home.owns(start);
            came += usize::from(!stray);
            strays += u64::from(stray);
        }
        self.count += came;
        self.counters.frees += came as u64;
        self.counters.strays += strays;
        full
    }

    /// Moves the bottom magazine of the full stack to the depot.
    #[cold]
    fn spill(&mut self) {
        self.counters.spills += 1;
        self.counters.retries += self.pool.give_back(&self.starts.0[..MAGAZINE]);
        self.starts.0.copy_within(MAGAZINE.., 0);
        self.count -= MAGAZINE;
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        for magazine in self.starts.0[..self.count].chunks(MAGAZINE) {
            // The retry count is discarded with the cache.
            let _ = self.pool.give_back(magazine);
        }
    }
}
