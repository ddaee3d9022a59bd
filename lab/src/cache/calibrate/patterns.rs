//! Micro-benchmarks over any memory. Each returns nanoseconds by the clock that it is given, after a warm-up of its own.
//!
//! A load whose address comes from another load is written as a read, `follows` and a load of the same line: on real
//! memory the second load gives the address, in the simulator `follows` makes the next read wait.

use crate::cache::memory::{Address, Copying, LINE, Memory, Width};

/// One ring of pointers over so many lines, each visited once in an order that prefetchers cannot foresee: pairs of a
/// place and what to store there.
pub fn chain(base: Address, lines: u64, seed: u64) -> Vec<(Address, u64)> {
    let mut order: Vec<u64> = (0..lines).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut order);
    let place = |n: usize| base + order[n % order.len()] * LINE;
    (0..order.len()).map(|n| (place(n), place(n + 1))).collect()
}

#[inline(always)]
fn step<M: Memory>(memory: &mut M, at: Address) -> Address {
    memory.read(at, 8);
    memory.follows();
    memory.load(at, Width::Eight)
}

/// Follows pointers: nanoseconds for each, and where it stopped.
pub fn chase<M: Memory>(
    memory: &mut M,
    clock: impl Fn(&M) -> f64,
    start: Address,
    warm: u64,
    steps: u64,
) -> (f64, Address) {
    let mut at = start;
    for _ in 0..warm {
        at = step(memory, at);
    }
    let from = clock(memory);
    for _ in 0..steps {
        at = step(memory, at);
    }
    ((clock(memory) - from) / steps as f64, at)
}

/// A pseudo-random walk over lines, none twice in a round.
#[derive(Clone, Copy, Debug)]
pub struct Scatter {
    /// The first byte
    pub base: Address,
    /// Lines, a power of two
    pub lines: u64,
}

impl Scatter {
    /// The `n`-th place. Multiplied, folded and multiplied again: one multiplication alone is a walk of equal steps,
    /// which meets the same banks of memory again and again.
    #[inline(always)]
    pub fn place(self, n: u64) -> Address {
        let (mask, half) = (self.lines - 1, self.lines.trailing_zeros() / 2 + 1);
        let once = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
        let folded = once ^ (once >> half);
        self.base + (folded.wrapping_mul(0xd1b5_4a32_d192_ed03) & mask) * LINE
    }
}

impl Scatter {
    /// The `n`-th place of a walk of equal, wide steps: cheap enough not to hide a store to the first level.
    #[inline(always)]
    fn stride(self, n: u64) -> Address {
        self.base + (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (self.lines - 1)) * LINE
    }
}

/// Groups of `at_once` loads that do not depend on each other; a group begins when the one before is complete.
/// Nanoseconds for a group. The memory must hold zeroes.
pub fn misses<M: Memory>(
    memory: &mut M,
    clock: impl Fn(&M) -> f64,
    scatter: Scatter,
    first: u64,
    at_once: usize,
    groups: u64,
) -> f64 {
    let (mut carried, mut n) = (0, first);
    let mut group = |memory: &mut M| {
        let mut next = 0;
        for _ in 0..at_once {
            let at = scatter.place(n) + carried;
            memory.read(at, 8);
            next |= memory.load(at, Width::Eight);
            n += 1;
        }
        memory.follows();
        carried = next;
    };
    for _ in 0..groups / 4 {
        group(memory);
    }
    let from = clock(memory);
    for _ in 0..groups {
        group(memory);
    }
    (clock(memory) - from) / groups as f64
}

/// After how many misses at once one more costs most: times are for 1, 2, 3 and so on. The buffers are full there, and
/// the next miss waits for one of them; anything else that misses queue for makes a slope and no step.
pub fn knee(times: &[f64]) -> usize {
    let steps = times.windows(2).map(|pair| pair[1] - pair[0]).enumerate();
    steps.max_by(|one, other| one.1.total_cmp(&other.1)).map_or(0, |(place, _)| place + 1)
}

/// Reads one line of each 4 KiB, so that what translates addresses is near: a miss that also waits for a page's entry
/// says nothing of the memory.
pub fn pages<M: Memory>(memory: &mut M, base: Address, bytes: u64) {
    for at in (base..base + bytes).step_by(4096) {
        memory.read(at, 8);
    }
}

/// Stores one value in each of many lines, in a scattered order: nanoseconds a store. Every line was touched before.
pub fn stores<M: Memory>(memory: &mut M, clock: impl Fn(&M) -> f64, scatter: Scatter, count: u64) -> f64 {
    for n in 0..scatter.lines {
        memory.store(scatter.stride(n), Width::Eight, 0);
    }
    let from = clock(memory);
    for n in 0..count {
        memory.store(scatter.stride(n), Width::Eight, 0);
    }
    (clock(memory) - from) / count as f64
}

/// Reads lines one after the other: nanoseconds a line.
pub fn stream<M: Memory>(memory: &mut M, clock: impl Fn(&M) -> f64, base: Address, lines: u64) -> f64 {
    let from = clock(memory);
    for n in 0..lines {
        memory.read(base + n * LINE, 16);
    }
    (clock(memory) - from) / lines as f64
}

/// Writes lines one after the other past the caches: nanoseconds a line.
pub fn past<M: Memory>(memory: &mut M, clock: impl Fn(&M) -> f64, base: Address, lines: u64) -> f64 {
    let from = clock(memory);
    for n in 1..=lines {
        memory.copy(base, base + n * LINE, LINE, Copying::NonTemporal);
    }
    (clock(memory) - from) / lines as f64
}

/// Which of two threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Begins
    First,
    /// Answers
    Second,
}

#[inline(always)]
fn until<M: Memory>(memory: &mut M, at: Address, value: u64) {
    while memory.load(at, Width::Eight) != value {
        memory.pause(at);
    }
}

/// Two threads hand one line to and fro: nanoseconds for each hand-over. The line holds zero before.
pub fn ping_pong<M: Memory>(
    memory: &mut M,
    clock: impl Fn(&M) -> f64,
    role: Role,
    line: Address,
    turns: u64,
) -> f64 {
    let from = clock(memory);
    for turn in 0..turns {
        if role == Role::First {
            memory.store(line, Width::Eight, 2 * turn + 1);
            until(memory, line, 2 * turn + 2);
        } else {
            until(memory, line, 2 * turn + 1);
            memory.store(line, Width::Eight, 2 * turn + 2);
        }
    }
    (clock(memory) - from) / (2 * turns) as f64
}

/// Each of two threads adds to a counter of its own: nanoseconds an addition.
pub fn increments<M: Memory>(memory: &mut M, clock: impl Fn(&M) -> f64, counter: Address, count: u64) -> f64 {
    let from = clock(memory);
    for _ in 0..count {
        let value = memory.load(counter, Width::Eight);
        memory.store(counter, Width::Eight, value + 1);
    }
    (clock(memory) - from) / count as f64
}

/// Whether the producer writes what the consumer follows, or only reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Lines are left changed in the producer's caches
    Modified,
    /// Lines are left there as they are in memory
    Clean,
}

/// Steps before those that are timed: more than a core has in flight, so that as many are in flight at either end.
const IN_FLIGHT: u64 = 256;

/// The first thread goes over a chain, the second follows it afterwards: nanoseconds a line for the second, for the
/// first what it took itself. The chain has more than 256 lines. `flag` is a line of its own and holds zero before.
pub fn handed_over<M: Memory>(
    memory: &mut M,
    clock: impl Fn(&M) -> f64,
    role: Role,
    chain: &[(Address, u64)],
    left: Left,
    flag: Address,
) -> f64 {
    let Some((start, _)) = chain.first() else { return 0.0 };
    if role == Role::Second {
        until(memory, flag, 1);
        let took = chase(memory, clock, *start, IN_FLIGHT, (chain.len() as u64).saturating_sub(IN_FLIGHT));
        memory.store(flag, Width::Eight, 2);
        return took.0;
    }
    let took = if left == Left::Modified {
        let from = clock(memory);
        for (at, next) in chain {
            memory.store(*at, Width::Eight, *next);
        }
        (clock(memory) - from) / chain.len() as f64
    } else {
        chase(memory, clock, *start, 0, chain.len() as u64).0
    };
    memory.store(flag, Width::Eight, 1);
    until(memory, flag, 2);
    took
}
