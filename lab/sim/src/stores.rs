//! A core's store buffer: stores waiting to become visible, in program order, and forwarding to later loads.

use std::collections::VecDeque;

use super::Time;
use crate::memory::{Address, Cleaning};

/// A buffered store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Store {
    pub(super) at: Address,
    pub(super) bytes: u64,
    /// Value to store; `None` if it is not significant
    pub(super) value: Option<u64>,
    /// Value that a conditional store requires; the core receives the value found
    pub(super) expected: Option<u64>,
    /// Earliest time at which it may become visible
    pub(super) ready: Time,
    /// Non-temporal
    pub(super) past: bool,
    /// Not a store: a cleaning operation, executed once the earlier stores are visible
    pub(super) cleaning: Option<Cleaning>,
}

impl Store {
    pub(super) fn line(&self) -> u64 {
        self.at / 64
    }

    /// Returns `bytes` bytes from `at` on, previously `under`, after this store of `value`.
    fn over(&self, value: u64, under: u64, at: Address, bytes: u64) -> u64 {
        let mut result = under.to_le_bytes();
        for (n, byte) in value.to_le_bytes().iter().enumerate().take(self.bytes as usize) {
            let place = self.at + n as u64;
            if (at..at + bytes).contains(&place) {
                result[(place - at) as usize] = *byte;
            }
        }
        u64::from_le_bytes(result)
    }
}

/// The store buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Stores {
    waiting: VecDeque<Store>,
    /// Time at which the last store became visible
    pub(super) committed: Time,
    /// Number of times that the head was postponed
    delays: u32,
}

/// Limit of postponements of one store; a store that exceeds it would never become visible.
const MAX_DELAYS: u32 = 10_000;

impl Stores {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn push(&mut self, store: Store) {
        self.waiting.push_back(store);
    }

    pub(super) fn head(&self) -> Option<&Store> {
        self.waiting.front()
    }

    /// Earliest time at which the head can become visible.
    pub(super) fn due(&self, step: Time) -> Option<Time> {
        self.head().map(|store| store.ready.max(self.committed + step))
    }

    /// Postpones the head until `until`.
    pub(super) fn postpone(&mut self, until: Time) {
        self.delays += 1;
        assert!(self.delays < MAX_DELAYS, "a store never becomes visible: {:?}", self.head());
        if let Some(store) = self.waiting.front_mut() {
            store.ready = store.ready.max(until);
        }
    }

    pub(super) fn pop(&mut self, now: Time) -> Option<Store> {
        (self.committed, self.delays) = (now, 0);
        self.waiting.pop_front()
    }

    /// Returns the value that a load gets, where `under` is the globally visible value: a core sees its own stores
    /// first. Returns `None` if no buffered store overlaps the address range.
    pub(super) fn forward(&self, at: Address, bytes: u64, under: u64) -> Option<u64> {
        let mut seen = None;
        for store in self.waiting.iter().filter(|store| store.at < at + bytes && at < store.at + store.bytes)
        {
            let under = seen.unwrap_or(under);
            seen = Some(store.value.map_or(under, |value| store.over(value, under, at, bytes)));
        }
        seen
    }
}
