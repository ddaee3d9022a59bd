//! Independent misses: loads without dependencies overlap and take one latency together while fill buffers last.

use crate::memory::{Address, Memory, Width};

/// Runs `groups` groups of `at_once` independent loads, starting at `place(first)`. A group begins when the previous
/// one is complete. The memory must hold zeroes. On real memory the next group's addresses depend on the last group's
/// values; in the simulator a fence has the same effect.
#[inline]
pub fn independent_misses<M: Memory>(
    memory: &mut M,
    place: impl Fn(u64) -> Address,
    first: u64,
    at_once: u64,
    groups: u64,
) {
    let (mut carried, mut n) = (0, first);
    for _ in 0..groups {
        let mut next = 0;
        for _ in 0..at_once {
            next |= memory.load(place(n) + carried, Width::Eight);
            n += 1;
        }
        carried = next;
        memory.fence();
    }
}

/// Returns the number of concurrent misses after which one more costs most; `times` are for 1, 2, 3 and so on. All fill
/// buffers are in use there, and the next miss waits for one of them. Any other shared resource causes a slope, not a
/// step.
pub fn knee(times: &[f64]) -> usize {
    let steps = times.windows(2).map(|pair| pair[1] - pair[0]).enumerate();
    steps.max_by(|one, other| one.1.total_cmp(&other.1)).map_or(0, |(place, _)| place + 1)
}

/// Reads one line of each 4 KiB to warm the address translation caches: a miss that also waits for a page table entry
/// does not measure the memory.
#[inline]
pub fn pages<M: Memory>(memory: &mut M, base: Address, bytes: u64) {
    for at in (base..base + bytes).step_by(4096) {
        memory.read(at, 8);
    }
}
