//! Shared part of a pool: a lock-free stack of magazines.
//!
//! Protocol: a magazine is a chain of up to [`MAGAZINE`] free buffers, linked by index through a side table, so that
//! the buffers themselves are not written. `top` is the index of the first buffer of the top magazine, and the entry of
//! that buffer refers to the magazine below. A push writes the entries of the chain, which it owns, then exchanges
//! `top` with Release. A pop loads `top` with Acquire, reads the entry, exchanges `top`, and then owns the chain. Every
//! change of `top` is a read-modify-write, so an Acquire load of any later value synchronises with every push below it.
//!
//! ABA: between the entry read and the exchange of a pop, other threads may pop the magazine and push it again over
//! another one. The upper half of `top` counts changes, so the stale exchange fails. Only a delay of exactly a multiple
//! of 2^32 changes would defeat the counter.

use crate::line::Padded;
use crate::shim::atomic::{AtomicU32, AtomicU64, Ordering};

/// Buffers in a full magazine, the unit of exchange between caches and the depot.
pub const MAGAZINE: usize = 32;

/// Index value for "no buffer".
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Depot {
    top: Padded<AtomicU64>,
    entries: Box<[Entry]>,
}

/// Link entry of one buffer, used while it is in the depot.
#[derive(Debug)]
struct Entry {
    /// The next buffer of the same magazine.
    next: AtomicU32,
    /// The first buffer of the magazine below. A stale pop may read it while it changes.
    below: AtomicU32,
}

fn first_of(top: u64) -> u32 {
    top as u32
}

/// The value of `top` after `before` that refers to `first`.
fn successor(before: u64, first: u32) -> u64 {
    ((before >> 32).wrapping_add(1) << 32) | u64::from(first)
}

impl Depot {
    /// A depot that holds buffers `0..buffers`.
    pub(super) fn full(buffers: u32) -> Self {
        let entry = |_| Entry { next: AtomicU32::new(NONE), below: AtomicU32::new(NONE) };
        let top = Padded(AtomicU64::new(u64::from(NONE)));
        let depot = Self { top, entries: (0..buffers).map(entry).collect() };
        let all: Vec<u32> = (0..buffers).rev().collect();
        for magazine in all.chunks(MAGAZINE) {
            depot.push(magazine);
        }
        depot
    }

    fn entry(&self, index: u32) -> &Entry {
        &self.entries[index as usize]
    }

    /// Pushes one magazine; ownership of its buffers passes to the depot. Returns the number of retries because of
    /// contention.
    pub(super) fn push(&self, magazine: &[u32]) -> u64 {
        let Some(&first) = magazine.first() else { return 0 };
        let nexts = magazine[1..].iter().copied().chain([NONE]);
        for (&index, next) in magazine.iter().zip(nexts) {
            self.entry(index).next.store(next, Ordering::Relaxed);
        }
        let (mut top, mut retries) = (self.top.load(Ordering::Relaxed), 0);
        loop {
            self.entry(first).below.store(first_of(top), Ordering::Relaxed);
            // Release pairs with the Acquire loads in `pop`: publishes the chain and the freed buffers.
            match self.exchange(top, successor(top, first), Ordering::Release) {
                Ok(_) => return retries,
                Err(now) => (top, retries) = (now, retries + 1),
            }
        }
    }

    /// Pops the top magazine, if any, and calls `take` for each of its buffers; ownership passes to the caller. Returns
    /// the number of retries because of contention.
    pub(super) fn pop(&self, mut take: impl FnMut(u32)) -> u64 {
        // Acquire, here and in the failed exchange, pairs with the Release in `push`.
        let (mut top, mut retries) = (self.top.load(Ordering::Acquire), 0);
        while first_of(top) != NONE {
            let below = self.entry(first_of(top)).below.load(Ordering::Relaxed);
            // Relaxed is sufficient: the exchange publishes nothing, and `top` was loaded with Acquire.
            match self.exchange(top, successor(top, below), Ordering::Relaxed) {
                Ok(_) => {
                    self.chain(first_of(top)).for_each(&mut take);
                    return retries;
                }
                Err(now) => (top, retries) = (now, retries + 1),
            }
        }
        retries
    }

    fn exchange(&self, top: u64, new: u64, order: Ordering) -> Result<u64, u64> {
        self.top.compare_exchange(top, new, order, Ordering::Acquire)
    }

    /// The buffers of the magazine that starts at `first`.
    fn chain(&self, first: u32) -> impl Iterator<Item = u32> {
        let next = |&index: &u32| Some(self.entry(index).next.load(Ordering::Relaxed)).filter(|&n| n != NONE);
        core::iter::successors(Some(first), next)
    }

    /// Number of buffers in the depot. Requires exclusive access.
    pub(super) fn count(&mut self) -> u32 {
        let (mut first, mut count) = (first_of(self.top.load(Ordering::Acquire)), 0);
        while first != NONE {
            count += self.chain(first).count() as u32;
            first = self.entry(first).below.load(Ordering::Relaxed);
        }
        count
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
