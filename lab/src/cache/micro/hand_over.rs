//! Two cores and the lines between them.
//!
//! Protocol of the ping-pong and of the producer: a count in a place of each side, which only that side stores; the other one waits
//! until it sees it. Stores become visible in order, so who sees a count sees what was stored before it.

use crate::cache::memory::{Address, Memory, Width};

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
        await_value(memory, at, |value| value == turn);
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
        memory.store(slots + n * crate::cache::memory::LINE, Width::Eight, n + 1);
    }
}

/// Waits for each slot to be filled, in order, and returns their sum.
#[inline]
pub fn consume<M: Memory>(memory: &mut M, slots: Address, items: u64) -> u64 {
    (0..items).fold(0, |sum, n| {
        sum + await_value(memory, slots + n * crate::cache::memory::LINE, |value| value == n + 1)
    })
}

#[inline]
fn await_value<M: Memory>(memory: &mut M, at: Address, wanted: impl Fn(u64) -> bool) -> u64 {
    loop {
        let value = memory.load(at, Width::Eight);
        if wanted(value) {
            return value;
        }
        memory.pause(at);
    }
}
