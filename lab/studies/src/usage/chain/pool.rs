//! The pool of the simulated switch: `dataplane/mem/src/pool`, access by access. Each thread has its own cache, a stack
//! of four magazines. The shared depot is a stack of magazines whose top is updated by compare-exchange, with links in
//! a table beside the buffers. `conformance` compares the depot with that of a real pool.

use serde::{Deserialize, Serialize};
use sim::Simulated;
use sim::memory::Width::{Eight, Four};
use sim::memory::{Address, Memory, Width};

/// Buffers per magazine, the unit of transfer between cache and depot.
pub(super) const MAGAZINE: usize = mem::pool::MAGAZINE;
/// Capacity of a cache in buffers.
const CAPACITY: usize = mem::pool::CACHE_CAPACITY;
/// No buffer.
const NONE: u64 = u32::MAX as u64;

/// Memory with a locked compare-exchange.
pub(super) trait Exchange: Memory {
    /// Stores `value` if `expected` is there; returns the previous value.
    fn exchange(&mut self, at: Address, width: Width, expected: u64, value: u64) -> u64;
}

impl Exchange for Simulated<'_> {
    fn exchange(&mut self, at: Address, width: Width, expected: u64, value: u64) -> u64 {
        Simulated::exchange(self, at, width, expected, value)
    }
}

/// Counts of pool caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Buffers taken from the cache.
    pub hits: u64,
    /// Refills of a cache from the depot.
    pub refills: u64,
    /// Spills of a cache to the depot.
    pub spills: u64,
    /// Failed allocations with an empty depot.
    pub empty: u64,
    /// Buffers given back.
    pub frees: u64,
    /// Failed exchanges of the depot's top, because another thread's exchange came first.
    pub retries: u64,
}

impl Counted {
    /// Difference to an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, u64::wrapping_sub)
    }

    /// Sum of both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    fn with(&self, other: &Self, both: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            hits: both(self.hits, other.hits),
            refills: both(self.refills, other.refills),
            spills: both(self.spills, other.spills),
            empty: both(self.empty, other.empty),
            frees: both(self.frees, other.frees),
            retries: both(self.retries, other.retries),
        }
    }
}

/// The depot: a stack of magazines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Depot {
    pub(super) top: Address,
    pub(super) entries: Address,
    pub(super) buffers: u64,
}

/// Lower half of the top: the first buffer; the upper half counts changes.
fn first_of(top: u64) -> u64 {
    top & NONE
}

fn successor(top: u64, first: u64) -> u64 {
    ((top >> 32) + 1) << 32 | first
}

impl Depot {
    /// Address of the link to the next buffer of the same magazine.
    fn next(self, buffer: u64) -> Address {
        self.entries + buffer * 8
    }

    /// Address of the link to the first buffer of the magazine below.
    fn below(self, buffer: u64) -> Address {
        self.entries + buffer * 8 + 4
    }

    /// Initial memory contents with all buffers in the depot, the lowest on top.
    pub(super) fn values(self) -> Vec<(Address, u64)> {
        let mut values = Vec::new();
        let (all, mut top) = ((0..self.buffers).rev().collect::<Vec<_>>(), NONE);
        for magazine in all.chunks(MAGAZINE) {
            for (n, &buffer) in magazine.iter().enumerate() {
                let next = magazine.get(n + 1).copied().unwrap_or(NONE);
                let below = if n == 0 { top } else { NONE };
                values.push((self.next(buffer), below << 32 | next));
            }
            top = magazine[0];
        }
        values.push((self.top, top));
        values
    }

    /// Pushes a magazine; returns the number of failed exchanges.
    fn push<M: Exchange>(self, memory: &mut M, magazine: &[u64]) -> u64 {
        let Some(&first) = magazine.first() else { return 0 };
        for (n, &buffer) in magazine.iter().enumerate() {
            memory.store(self.next(buffer), Four, magazine.get(n + 1).copied().unwrap_or(NONE));
        }
        let (mut top, mut failed) = (memory.load(self.top, Eight), 0);
        loop {
            memory.store(self.below(first), Four, first_of(top));
            let found = memory.exchange(self.top, Eight, top, successor(top, first));
            if found == top {
                return failed;
            }
            (top, failed) = (found, failed + 1);
        }
    }

    /// Pops the topmost magazine into `to`, if there is one; returns the number of failed exchanges.
    fn pop<M: Exchange>(self, memory: &mut M, to: &mut Vec<u64>) -> u64 {
        let (mut top, mut failed) = (memory.load(self.top, Eight), 0);
        while first_of(top) != NONE {
            let below = memory.load_next(self.below(first_of(top)), Four);
            let found = memory.exchange(self.top, Eight, top, successor(top, below));
            if found == top {
                self.chain(memory, first_of(top), to);
                return failed;
            }
            (top, failed) = (found, failed + 1);
        }
        failed
    }

    fn chain<M: Memory>(self, memory: &mut M, first: u64, to: &mut Vec<u64>) {
        let mut buffer = first;
        while buffer != NONE {
            to.push(buffer);
            buffer = memory.load_next(self.next(buffer), Four);
        }
    }
}

/// Cache of free buffers of one thread.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    depot: Depot,
    at: Address,
    stack: Vec<u64>,
    pub(super) counted: Counted,
}

impl Cache {
    pub(super) fn new(depot: Depot, at: Address) -> Cache {
        Cache { depot, at, stack: Vec::new(), counted: Counted::default() }
    }

    /// Accesses count and address on the thread's own lines, with some instructions.
    fn touch<M: Memory>(&self, memory: &mut M, writes: bool) {
        let place = self.at + 64 + self.stack.len() as u64 * 8;
        if writes {
            memory.write(place, 8);
        } else {
            memory.read(place, 8);
        }
        memory.write(self.at, 8);
        memory.work(4);
    }

    pub(super) fn alloc<M: Exchange>(&mut self, memory: &mut M) -> Option<u64> {
        let refilled = self.stack.is_empty();
        if refilled {
            self.counted.retries += self.depot.pop(memory, &mut self.stack);
        }
        let Some(buffer) = self.stack.pop() else {
            self.counted.empty += 1;
            return None;
        };
        *(if refilled { &mut self.counted.refills } else { &mut self.counted.hits }) += 1;
        self.touch(memory, false);
        Some(buffer)
    }

    pub(super) fn free<M: Exchange>(&mut self, memory: &mut M, buffer: u64) {
        if self.stack.len() == CAPACITY {
            self.spill(memory);
        }
        self.touch(memory, true);
        self.stack.push(buffer);
        self.counted.frees += 1;
    }

    /// Moves the bottom magazine to the depot, and the others down.
    fn spill<M: Exchange>(&mut self, memory: &mut M) {
        let (bytes, above) = (MAGAZINE as u64 * 8, (CAPACITY - MAGAZINE) as u64 * 8);
        memory.read(self.at + 64, bytes);
        self.counted.retries += self.depot.push(memory, &self.stack[..MAGAZINE]);
        self.counted.spills += 1;
        memory.read(self.at + 64 + bytes, above);
        memory.write(self.at + 64, above);
        self.stack.drain(..MAGAZINE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Profile;
    use sim::program::Program;

    const DEPOT: Depot = Depot { top: 0, entries: 128, buffers: 1024 };

    /// Takes and gives back different numbers of buffers per core and round; returns the buffers still held.
    fn churn(memory: &mut Simulated<'_>, core: u64) -> (Counted, Vec<u64>) {
        let mut cache = Cache::new(DEPOT, 32768 + core * 2048);
        let mut held = Vec::new();
        for round in 0..6_u64 {
            let many = 60 + 30 * ((round + core) % 4);
            held.extend((0..many).filter_map(|_| cache.alloc(memory)));
            let keep = held.len() / 3;
            held.drain(keep..).for_each(|buffer| cache.free(memory, buffer));
        }
        held.append(&mut cache.stack);
        (cache.counted, held)
    }

    #[test]
    fn cores_share_a_depot_and_no_buffer_is_lost_or_doubled() {
        let mut program = Program::new(1 << 16).values(&DEPOT.values());
        for core in 0..3 {
            program = program.thread(move |memory| (churn(memory, core), Vec::new()));
        }
        // The last thread empties the depot.
        program = program.thread(|memory| {
            memory.work(40_000_000);
            let mut rest = Vec::new();
            while memory.load(DEPOT.top, Eight) & NONE != NONE {
                DEPOT.pop(memory, &mut rest);
            }
            ((Counted::default(), Vec::new()), rest)
        });
        let ran = program.simulate(&Profile::study()).expect("no core waits");
        let held = ran.results.iter().flat_map(|((_, held), rest)| held.iter().chain(rest).copied());
        let mut all: Vec<u64> = held.collect();
        all.sort_unstable();
        assert_eq!(all, (0..1024).collect::<Vec<_>>());
        let sum = ran.results.iter().fold(Counted::default(), |sum, ((counted, _), _)| sum.and(counted));
        assert!(sum.refills > 3 && sum.spills > 3 && sum.empty == 0, "{sum:?}");
    }
}
