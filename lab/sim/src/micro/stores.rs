//! Stores and streams: the cost of writing a line in any cache state, of non-temporal writes, and of sequential reads.

use crate::memory::{Address, Copying, LINE, Memory, Width};

/// Stores zero to `count` addresses and waits until all stores are visible.
#[inline]
pub fn stores<M: Memory>(memory: &mut M, place: impl Fn(u64) -> Address, count: u64) {
    for n in 0..count {
        memory.store(place(n), Width::Eight, 0);
    }
    memory.fence();
}

/// Copies one line to each of the following `lines` lines with non-temporal stores, and waits until all are written.
#[inline]
pub fn stream_past<M: Memory>(memory: &mut M, from: Address, lines: u64) {
    for n in 1..=lines {
        memory.copy(from, from + n * LINE, LINE, Copying::NonTemporal);
    }
    memory.fence();
}

/// Reads `lines` consecutive lines and waits until all have arrived.
#[inline]
pub fn stream<M: Memory>(memory: &mut M, base: Address, lines: u64) {
    for n in 0..lines {
        memory.read(base + n * LINE, 16);
    }
    memory.fence();
}
