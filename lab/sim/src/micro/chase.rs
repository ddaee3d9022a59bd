//! A pointer chase: each load's address is the previous load's value, so nothing overlaps and a step takes one latency.

use crate::memory::{Address, LINE, Memory, Width};

/// Builds one ring of pointers over `lines` lines, each visited once in an order that prefetchers cannot predict.
/// Returns pairs of an address and the value to store there.
pub fn chain(base: Address, lines: u64, seed: u64) -> Vec<(Address, u64)> {
    let mut order: Vec<u64> = (0..lines).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut order);
    let place = |n: usize| base + order[n % order.len()] * LINE;
    (0..order.len()).map(|n| (place(n), place(n + 1))).collect()
}

/// Follows a chain for `steps` steps and returns the final address.
#[inline]
pub fn pointer_chase<M: Memory>(memory: &mut M, start: Address, steps: u64) -> Address {
    let mut at = start;
    for _ in 0..steps {
        at = memory.load_next(at, Width::Eight);
    }
    at
}
