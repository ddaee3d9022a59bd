//! Timers of many owners: a hierarchical timing wheel ("Hashed and Hierarchical Timing Wheels", Varghese and Lauck,
//! 1987). Each owner has one entry, the earliest of its deadlines.
//!
//! An owner whose deadline moves to a later time need not move its entry: the entry fires at the old time, and the
//! owner schedules it again. So the timers of an active connection cost nothing for each segment.

use crate::Time;
use alloc::vec::Vec;

/// A tick is 2^17 ns, 131 microseconds.
const TICK_BITS: u32 = 17;
const LEVELS: usize = 6;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    next: u32,
    prev: u32,
    /// Slot of the entry, by level and number; `u16::MAX` if the owner has none.
    slot: u16,
    /// Tick of the deadline.
    tick: u64,
}

const IDLE: Node = Node { next: NONE, prev: NONE, slot: u16::MAX, tick: 0 };

/// A timing wheel for owners with small numbers.
pub(crate) struct Wheel {
    now: u64,
    /// No slot must be looked at before this tick.
    next: u64,
    heads: [u32; LEVELS * SLOTS],
    /// A bit for each slot with entries.
    used: [u64; LEVELS],
    nodes: Vec<Node>,
}

impl Wheel {
    pub(crate) fn new(now: Time) -> Self {
        let now = now.0 >> TICK_BITS;
        Self { now, next: u64::MAX, heads: [NONE; LEVELS * SLOTS], used: [0; LEVELS], nodes: Vec::new() }
    }

    /// Time at which the entry of `owner` fires.
    #[inline]
    pub(crate) fn scheduled(&self, owner: u32) -> Time {
        match self.nodes.get(owner as usize) {
            Some(node) if node.slot != u16::MAX => Time(node.tick << TICK_BITS),
            _ => Time::NEVER,
        }
    }

    /// Ensures that the entry of `owner` fires at `at` or earlier, never before the tick of `at` if it had none.
    #[inline]
    pub(crate) fn schedule(&mut self, owner: u32, at: Time) {
        if at < self.scheduled(owner) {
            self.put(owner, at);
        }
    }

    fn put(&mut self, owner: u32, at: Time) {
        if self.nodes.len() <= owner as usize {
            self.nodes.resize(owner as usize + 1, IDLE);
        }
        self.cancel(owner);
        // Rounded up, so that an entry never fires before its deadline.
        let tick = (at.0.saturating_add((1 << TICK_BITS) - 1) >> TICK_BITS).max(self.now + 1);
        self.link(owner, tick);
    }

    fn link(&mut self, owner: u32, tick: u64) {
        let level = level(self.now, tick);
        // Entries of higher levels are looked at when their slot begins, which is earlier.
        self.next = self.next.min(tick >> (level as u32 * SLOT_BITS) << (level as u32 * SLOT_BITS));
        // Beyond the last level: fires early, at the wheel's horizon, and is scheduled again.
        let tick = tick.min(self.now + horizon());
        let number = (tick >> (level as u32 * SLOT_BITS)) as usize % SLOTS;
        let slot = level * SLOTS + number;
        let next = core::mem::replace(&mut self.heads[slot], owner);
        if let Some(node) = self.nodes.get_mut(next as usize) {
            node.prev = owner;
        }
        self.nodes[owner as usize] = Node { next, prev: NONE, slot: slot as u16, tick };
        self.used[level] |= 1 << number;
    }

    /// Removes the entry of `owner`.
    pub(crate) fn cancel(&mut self, owner: u32) {
        let Some(node) = self.nodes.get_mut(owner as usize) else { return };
        let old = core::mem::replace(node, IDLE);
        if old.slot == u16::MAX {
            return;
        }
        if let Some(next) = self.nodes.get_mut(old.next as usize) {
            next.prev = old.prev;
        }
        match self.nodes.get_mut(old.prev as usize) {
            Some(prev) => prev.next = old.next,
            None => self.heads[usize::from(old.slot)] = old.next,
        }
        if self.heads[usize::from(old.slot)] == NONE {
            self.used[usize::from(old.slot) / SLOTS] &= !(1 << (usize::from(old.slot) % SLOTS));
        }
    }

    /// The first tick at which a slot must be looked at.
    fn next_tick(&self) -> Option<u64> {
        (0..LEVELS).filter_map(|level| self.next_of(level)).min()
    }

    fn next_of(&self, level: usize) -> Option<u64> {
        let (shift, used) = (level as u32 * SLOT_BITS, self.used[level]);
        if used == 0 {
            return None;
        }
        let here = self.now >> shift;
        let ahead = used.rotate_right((here % SLOTS as u64) as u32).trailing_zeros();
        Some((here + u64::from(ahead)) << shift)
    }

    /// Time of the next call of [`Wheel::expire`], or earlier than the earliest entry; [`Time::NEVER`] without entries.
    #[inline]
    pub(crate) fn deadline(&self) -> Time {
        if self.next == u64::MAX { Time::NEVER } else { Time(self.next.max(self.now + 1) << TICK_BITS) }
    }

    /// Removes an entry that is due at `now` and returns its owner. Call until it returns `None`.
    #[inline]
    pub(crate) fn expire(&mut self, now: Time) -> Option<u32> {
        let to = now.0 >> TICK_BITS;
        if to < self.next {
            // The wheel turns without slots to look at.
            self.now = self.now.max(to);
            return None;
        }
        self.turn(to)
    }

    #[cold]
    fn turn(&mut self, to: u64) -> Option<u32> {
        loop {
            self.next = self.next_tick().unwrap_or(u64::MAX);
            if self.next > to {
                self.now = self.now.max(to);
                return None;
            }
            let tick = self.next;
            self.now = self.now.max(tick);
            self.cascade();
            let slot = (self.now % SLOTS as u64) as usize;
            let owner = self.heads[slot];
            if owner != NONE {
                self.cancel(owner);
                return Some(owner);
            }
        }
    }

    /// Moves the entries of the current slots of higher levels to lower ones.
    fn cascade(&mut self) {
        for level in 1..LEVELS {
            let shift = level as u32 * SLOT_BITS;
            let slot = level * SLOTS + (self.now >> shift) as usize % SLOTS;
            while self.heads[slot] != NONE {
                let owner = self.heads[slot];
                let tick = self.nodes[owner as usize].tick;
                self.cancel(owner);
                self.link(owner, tick.max(self.now));
            }
        }
    }
}

const fn horizon() -> u64 {
    (1 << (LEVELS as u32 * SLOT_BITS)) - (1 << ((LEVELS as u32 - 1) * SLOT_BITS))
}

/// Level on which `tick` differs from `now`.
fn level(now: u64, tick: u64) -> usize {
    let differ = (now ^ tick) | (SLOTS as u64 - 1);
    ((differ.ilog2() / SLOT_BITS) as usize).min(LEVELS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;
    use std::vec;

    const TICK: u64 = 1 << TICK_BITS;

    #[test]
    fn later_deadlines_keep_the_entry_and_earlier_ones_move_it() {
        let mut wheel = Wheel::new(Time(0));
        wheel.schedule(3, Time(10 * TICK));
        wheel.schedule(3, Time(20 * TICK));
        assert_eq!(wheel.scheduled(3), Time(10 * TICK));
        wheel.schedule(3, Time(5 * TICK));
        assert_eq!((wheel.scheduled(3), wheel.expire(Time(4 * TICK))), (Time(5 * TICK), None));
        assert_eq!((wheel.expire(Time(5 * TICK)), wheel.expire(Time(5 * TICK))), (Some(3), None));
        assert_eq!((wheel.scheduled(3), wheel.deadline()), (Time::NEVER, Time::NEVER));
    }

    proptest! {
        #[test]
        fn every_entry_fires_once_at_its_tick(
            deadlines in prop::collection::vec(0u64..1 << 45, 1..40),
            steps in prop::collection::vec(1u64..1 << 40, 1..200),
            origin in 0u64..1 << 50,
        ) {
            let mut wheel = Wheel::new(Time(origin));
            let mut fired = vec![0; deadlines.len()];
            for (owner, at) in deadlines.iter().enumerate() {
                wheel.schedule(owner as u32, Time(origin + at));
            }
            let mut now = origin;
            for step in steps.iter().chain([&(1 << 46)]) {
                let next = now + step;
                while let Some(owner) = wheel.expire(Time(next)) {
                    let due = origin + deadlines[owner as usize];
                    prop_assert!(due <= next, "fired {} ns early", due - next);
                    prop_assert!(due + 2 * TICK >= now, "fired late");
                    fired[owner as usize] += 1;
                }
                let deadline = wheel.deadline();
                if !deadline.is_never() {
                    prop_assert!(deadline.0 > next - TICK);
                    let pending = deadlines.iter().zip(&fired).filter(|(_, n)| **n == 0).map(|(at, _)| origin + at);
                    prop_assert!(pending.min().is_some_and(|first| deadline.0 <= first + 2 * TICK));
                }
                now = next;
            }
            prop_assert!(fired.iter().all(|n| *n == 1));
        }
    }
}
