//! Stores and streams: what a line costs to write, wherever it is, through the caches and past them, and to read in order.

use crate::memory::{Address, Copying, LINE, Memory, Width};

/// Stores a number into so many places, and waits until all are visible.
#[inline]
pub fn stores<M: Memory>(memory: &mut M, place: impl Fn(u64) -> Address, count: u64) {
    for n in 0..count {
        memory.store(place(n), Width::Eight, 0);
    }
    memory.fence();
}

/// Copies one line again and again to the lines that follow it, past the caches, and waits until all are written.
#[inline]
pub fn stream_past<M: Memory>(memory: &mut M, from: Address, lines: u64) {
    for n in 1..=lines {
        memory.copy(from, from + n * LINE, LINE, Copying::NonTemporal);
    }
    memory.fence();
}

/// Reads lines one after the other, and waits until all are there.
#[inline]
pub fn stream<M: Memory>(memory: &mut M, base: Address, lines: u64) {
    for n in 0..lines {
        memory.read(base + n * LINE, 16);
    }
    memory.fence();
}
