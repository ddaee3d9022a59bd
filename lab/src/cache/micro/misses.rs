//! Independent misses: loads that need not wait for each other take one latency together, as long as there are fill buffers for all.

use crate::cache::memory::{Address, LINE, Memory};

/// Loads one place of each of so many lines, `apart` lines from each other, and waits until all are there.
#[inline]
pub fn independent_misses<M: Memory>(memory: &mut M, start: Address, lines: u64, apart: u64) {
    for n in 0..lines {
        memory.read(start + n * apart * LINE, 8);
    }
    memory.fence();
}
