//! A pointer chase: each load's address is the value of the load before, so nothing overlaps and a step is one latency.

use crate::cache::memory::{Address, LINE, Memory, Width};

/// Links so many lines from `start` on into one circle that visits each once, in an order that no prefetcher follows.
pub fn lay_chain<M: Memory>(memory: &mut M, start: Address, lines: u64) {
    let step = stride(lines);
    let at = |n: u64| start + n * step % lines * LINE;
    for n in 0..lines {
        memory.store(at(n), Width::Eight, at(n + 1));
    }
}

/// Follows the chain for so many steps and returns where it came to.
#[inline]
pub fn pointer_chase<M: Memory>(memory: &mut M, start: Address, steps: u64) -> Address {
    let mut at = start;
    for _ in 0..steps {
        at = memory.load_next(at, Width::Eight);
    }
    at
}

/// Scatters as the golden ratio does, and has no factor in common with the count.
fn stride(count: u64) -> u64 {
    let near = (count as f64 * 0.618_033_988_749) as u64 | 1;
    (near..=count.max(near)).find(|step| gcd(*step, count) == 1).unwrap_or(1)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
