//! Stores: what a line costs to write, wherever it is, through the caches and past them.

use crate::cache::memory::{Address, Copying, LINE, Memory};

/// Stores 8 bytes into each of so many lines, `apart` bytes from each other, and waits until all are visible.
#[inline]
pub fn strided_stores<M: Memory>(memory: &mut M, start: Address, count: u64, apart: u64) {
    for n in 0..count {
        memory.write(start + n * apart, 8);
    }
    memory.fence();
}

/// Copies one line again and again to lines that follow each other, past the caches, and waits until all are written.
#[inline]
pub fn stream_past<M: Memory>(memory: &mut M, from: Address, to: Address, lines: u64) {
    for n in 0..lines {
        memory.copy(from, to + n * LINE, LINE, Copying::NonTemporal);
    }
    memory.fence();
}
