//! Independent misses: loads that need not wait for each other take one latency together, as long as there are fill buffers for all.

use crate::memory::{Address, Memory, Width};

/// Groups of `at_once` loads that do not depend on each other, from the places of `first` on; a group begins when the one
/// before is complete. The memory must hold zeroes. On real memory the next group's addresses come from the last one's
/// values; in the simulator a fence says the same.
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

/// After how many misses at once one more costs most: times are for 1, 2, 3 and so on. The buffers are full there, and
/// the next miss waits for one of them; anything else that misses queue for makes a slope and no step.
pub fn knee(times: &[f64]) -> usize {
    let steps = times.windows(2).map(|pair| pair[1] - pair[0]).enumerate();
    steps.max_by(|one, other| one.1.total_cmp(&other.1)).map_or(0, |(place, _)| place + 1)
}

/// Reads one line of each 4 KiB, so that what translates addresses is near: a miss that also waits for a page's entry
/// says nothing of the memory.
#[inline]
pub fn pages<M: Memory>(memory: &mut M, base: Address, bytes: u64) {
    for at in (base..base + bytes).step_by(4096) {
        memory.read(at, 8);
    }
}
