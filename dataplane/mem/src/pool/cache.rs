//! One worker's share of a pool.
//!
//! A stack with room for four magazines. A magazine is taken from the depot when the stack is empty and put there when it
//! is full, so a worker that allocates and frees around an edge does not go back and forth to the depot, as with the two
//! magazines of Bonwick's slab allocator. A worker that takes a burst of 64 and gives one back, in turn, finds room for both. What was freed last, and is still in this core's cache, comes out first; what
//! has been here longest goes to the depot.

use super::buffer::About;
use super::depot::MAGAZINE;
use super::{Buffer, Pool, many};
use core::ptr::NonNull;
use std::sync::Arc;

/// Buffers in a cache at most.
const MOST: usize = 4 * MAGAZINE;

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

/// On lines of its own, so that no wide register lies in two.
#[derive(Debug)]
#[repr(align(64))]
struct Stack([NonNull<u8>; MOST]);

/// Free buffers in the hands of one worker. They go back to the pool when the cache is dropped.
#[derive(Debug)]
pub struct Cache {
    pool: Arc<Pool>,
    /// The first `count` are free buffers, the one that came last on top.
    starts: Stack,
    count: usize,
    counters: Counters,
}

// SAFETY: the pointers are to free buffers, which belong to the cache alone wherever it goes.
unsafe impl Send for Cache {}

impl Cache {
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        Self { pool, starts: Stack([NonNull::dangling(); MOST]), count: 0, counters: Counters::default() }
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
        if self.count > 0 {
            self.counters.hits += 1;
        } else if !self.refill() {
            self.counters.empty += 1;
            return None;
        }
        self.count -= 1;
        // SAFETY: the start of a buffer of this pool that was free, and is no more.
        Some(unsafe { Buffer::new(self.starts.0[self.count], About::empty(self.pool.spec.size)) })
    }

    /// Takes `wanted` buffers without data or headroom, or as many as there are, and puts them behind those in `buffers`,
    /// which grows if it has no room for them. Returns how many. They are those that so many calls of [`Cache::alloc`] would
    /// take, counted alike; of those that are missing each counts as an allocation that failed.
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
            // The first of them is the one that had to ask.
            self.counters.hits += more as u64 - 1;
            got += more;
        }
        got
    }

    /// Takes up to `wanted` buffers from the top of the stack. How many.
    #[inline(always)]
    fn take(&mut self, buffers: &mut Vec<Buffer>, wanted: usize) -> usize {
        let (about, stay) = (About::empty(self.pool.spec.size), self.count.saturating_sub(wanted));
        let taken = &self.starts.0[stay..self.count];
        let (count, before) = (taken.len(), buffers.len());
        buffers.reserve(count);
        // SAFETY: the starts of buffers of this pool that were free, and are no more. A vector without memory to grow has unwound
        // before any of them was taken.
        unsafe { many::make(taken, about, &mut buffers.spare_capacity_mut()[..count]) };
        // SAFETY: so many more have just been made there.
        unsafe { buffers.set_len(before + count) };
        self.count = stay;
        count
    }

    /// Takes a magazine from the depot into the stack, which is empty, for an allocation. `false`: there is none.
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

    /// Gives a buffer back to its pool.
    #[inline]
    pub fn free(&mut self, buffer: Buffer) {
        let start = buffer.into_start();
        if !self.pool.home().owns(start) {
            self.counters.strays += 1;
            return;
        }
        if self.count == MOST {
            self.spill();
        }
        self.starts.0[self.count] = start;
        self.count += 1;
        self.counters.frees += 1;
    }

    /// Gives all of these back to their pool and leaves the vector empty, as so many calls of [`Cache::free`] would.
    #[inline]
    pub fn free_bulk(&mut self, buffers: &mut Vec<Buffer>) {
        let home = self.pool.home();
        let mut done = 0;
        while done < buffers.len() {
            if self.count == MOST {
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
        // Strays are told one by one.
        self.free_all(buffers.drain(done..));
        // Ends the handles of the others, whose buffers are free by now.
        buffers.clear();
    }

    /// The same for buffers that do not lie in one piece.
    #[inline]
    pub fn free_all(&mut self, buffers: impl IntoIterator<Item = Buffer>) {
        let mut starts = buffers.into_iter().map(Buffer::into_start);
        while self.put(&mut starts) {
            self.spill();
        }
    }

    /// Puts buffers onto the stack. `false` when all of them are there, `true` when there is no room for more.
    #[inline(always)]
    fn put(&mut self, starts: &mut impl Iterator<Item = NonNull<u8>>) -> bool {
        let (home, room) = (self.pool.home(), &mut self.starts.0[self.count..]);
        let (mut came, mut strays, mut full) = (0, 0, true);
        while came < room.len() {
            let Some(start) = starts.next() else {
                full = false;
                break;
            };
            // A stray is written over by the next one: there is no branch to be guessed.
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

    /// Moves the magazine at the bottom of the stack, which is full, to the depot.
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
            // The cache's own count of retries is lost with it.
            let _ = self.pool.give_back(magazine);
        }
    }
}
