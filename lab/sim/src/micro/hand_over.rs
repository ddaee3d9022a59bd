//! Line transfers between two cores.
//!
//! Protocol of the ping-pong and of the producer: each side stores counts that the other side polls. Stores become
//! visible in order, so a core that sees a count also sees all earlier stores.

use super::chase::pointer_chase;
use crate::memory::{Address, LINE, Memory, Width};

/// Role in the ping-pong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Starts
    First,
    /// Responds
    Second,
}

/// Passes a count back and forth through one address: each side waits for the other's count and stores the next.
#[inline]
pub fn ping_pong<M: Memory>(memory: &mut M, at: Address, rounds: u64, side: Side) {
    for round in 0..rounds {
        let turn = 2 * round + u64::from(side == Side::Second);
        memory.load_until(at, Width::Eight, |value| value == turn);
        memory.store(at, Width::Eight, turn + 1);
    }
}

/// Increments one value repeatedly. Two cores run it on two addresses, on one line or on two.
#[inline]
pub fn increments<M: Memory>(memory: &mut M, at: Address, rounds: u64) {
    for _ in 0..rounds {
        let value = memory.load(at, Width::Eight);
        memory.store(at, Width::Eight, value + 1);
        // The next increment loads the value stored last.
        memory.fence();
    }
}

/// Fills one slot per line with its number, from 1 on, without waiting: there are as many slots as items.
#[inline]
pub fn produce<M: Memory>(memory: &mut M, slots: Address, items: u64, work: u64) {
    for n in 0..items {
        memory.work(work);
        memory.store(slots + n * LINE, Width::Eight, n + 1);
    }
}

/// Waits for each slot in order and returns the sum of the values.
#[inline]
pub fn consume<M: Memory>(memory: &mut M, slots: Address, items: u64) -> u64 {
    (0..items)
        .fold(0, |sum, n| sum + memory.load_until(slots + n * LINE, Width::Eight, |value| value == n + 1))
}

/// State in which `leave` leaves lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Modified in this core's caches
    Modified,
    /// Clean in this core's caches
    Clean,
}

/// Accesses a chain so that its lines stay in this core's caches.
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
