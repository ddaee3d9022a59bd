//! Two cores and the lines between them.
//!
//! Protocol of the ping-pong and of the producer: a count in a place of each side, which only that side stores; the other one waits
//! until it sees it. Stores become visible in order, so who sees a count sees what was stored before it.

use super::chase::pointer_chase;
use crate::memory::{Address, LINE, Memory, Width};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Begins
    First,
    /// Answers
    Second,
}

/// Hands a count to and fro through one place: each side waits for the other one's, and stores the next.
#[inline]
pub fn ping_pong<M: Memory>(memory: &mut M, at: Address, rounds: u64, side: Side) {
    for round in 0..rounds {
        let turn = 2 * round + u64::from(side == Side::Second);
        memory.load_until(at, Width::Eight, |value| value == turn);
        memory.store(at, Width::Eight, turn + 1);
    }
}

/// Adds to a place of its own, again and again: two cores do it to two places, of one line or of two.
#[inline]
pub fn increments<M: Memory>(memory: &mut M, at: Address, rounds: u64) {
    for _ in 0..rounds {
        let value = memory.load(at, Width::Eight);
        memory.store(at, Width::Eight, value + 1);
        // What is added next is what was stored last.
        memory.fence();
    }
}

/// Fills slots of a line each, each with its number from 1 on, and waits for nobody: there are as many as items.
#[inline]
pub fn produce<M: Memory>(memory: &mut M, slots: Address, items: u64, work: u64) {
    for n in 0..items {
        memory.work(work);
        memory.store(slots + n * LINE, Width::Eight, n + 1);
    }
}

/// Waits for each slot to be filled, in order, and returns their sum.
#[inline]
pub fn consume<M: Memory>(memory: &mut M, slots: Address, items: u64) -> u64 {
    (0..items)
        .fold(0, |sum, n| sum + memory.load_until(slots + n * LINE, Width::Eight, |value| value == n + 1))
}

/// Whether who had lines first writes them or only reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Lines are left changed in its caches
    Modified,
    /// Lines are left there as they are in memory
    Clean,
}

/// Goes over a chain, so that its lines are left in this core's caches.
#[inline]
pub fn leave<M: Memory>(memory: &mut M, chain: &[(Address, u64)], left: Left) {
    match left {
        Left::Modified => chain.iter().for_each(|(at, next)| memory.store(*at, Width::Eight, *next)),
        Left::Clean => {
            let start = chain.first().map_or(0, |(at, _)| *at);
            pointer_chase(memory, start, chain.len() as u64);
        }
    }
    memory.fence();
}
