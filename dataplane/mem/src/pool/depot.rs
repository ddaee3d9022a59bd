//! What the caches of a pool share: a stack of magazines.
//!
//! Protocol: a magazine is a chain of up to [`MAGAZINE`] free buffers, linked by index through a side table, so
//! that nothing is written into the buffers themselves. `top` names the first buffer of the topmost magazine,
//! and the first buffer's entry names the magazine below. Pushing writes the chain's entries, which belong to
//! the pusher alone, and then exchanges `top` with Release; popping loads `top` with Acquire, reads what lies
//! below, exchanges `top`, and then owns the chain. Every change of `top` is an exchange, so an Acquire load of
//! any later value sees every push below it.
//!
//! Between a popper's look at the entry and its exchange, others may pop the magazine and push it again over
//! another one (ABA). The upper half of `top` counts the changes, so that such an exchange fails. It would have
//! to be held up for exactly a multiple of 2^32 changes to be fooled.

use crate::line::Padded;
use crate::shim::atomic::{AtomicU32, AtomicU64, Ordering};

/// Buffers that a cache exchanges at once.
pub(super) const MAGAZINE: usize = 32;

/// No buffer.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Depot {
    top: Padded<AtomicU64>,
    entries: Box<[Entry]>,
}

/// The place of one buffer in the stack, while it is there.
#[derive(Debug)]
struct Entry {
    /// The next buffer of the same magazine.
    next: AtomicU32,
    /// The first buffer of the magazine below. Poppers read it while it may change.
    below: AtomicU32,
}

fn first_of(top: u64) -> u32 {
    top as u32
}

/// A value of `top` that comes after `before` and names `first`.
fn successor(before: u64, first: u32) -> u64 {
    ((before >> 32).wrapping_add(1) << 32) | u64::from(first)
}

impl Depot {
    /// A depot that holds the buffers 0 to `buffers`, exclusive.
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

    /// Puts one magazine on top. The buffers belong to the caller, and to the depot from now on. How often another change
    /// came first.
    pub(super) fn push(&self, magazine: &[u32]) -> u64 {
        let Some(&first) = magazine.first() else { return 0 };
        let nexts = magazine[1..].iter().copied().chain([NONE]);
        for (&index, next) in magazine.iter().zip(nexts) {
            self.entry(index).next.store(next, Ordering::Relaxed);
        }
        let (mut top, mut retries) = (self.top.load(Ordering::Relaxed), 0);
        loop {
            self.entry(first).below.store(first_of(top), Ordering::Relaxed);
            // Release pairs with the Acquire loads in `pop`: the chain is linked, and its buffers are free.
            match self.exchange(top, successor(top, first), Ordering::Release) {
                Ok(_) => return retries,
                Err(now) => (top, retries) = (now, retries + 1),
            }
        }
    }

    /// Takes the topmost magazine: each of its buffers is handed to `take` and belongs to the caller. How often
    /// another change came first.
    pub(super) fn pop(&self, mut take: impl FnMut(u32)) -> u64 {
        // Acquire, here and where the exchange fails, pairs with the Release in `push`.
        let (mut top, mut retries) = (self.top.load(Ordering::Acquire), 0);
        while first_of(top) != NONE {
            let below = self.entry(first_of(top)).below.load(Ordering::Relaxed);
            // It publishes nothing, and its value of `top` was seen with Acquire before.
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

    /// The buffers of the magazine that starts with `first`.
    fn chain(&self, first: u32) -> impl Iterator<Item = u32> {
        let next = |&index: &u32| Some(self.entry(index).next.load(Ordering::Relaxed)).filter(|&n| n != NONE);
        core::iter::successors(Some(first), next)
    }

    /// Buffers in the depot, while no other thread uses it.
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
