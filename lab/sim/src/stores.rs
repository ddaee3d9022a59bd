//! A core's store buffer: stores on their way out, in program order, and what later loads can take from them.

use std::collections::VecDeque;

use super::Time;
use crate::memory::{Address, Cleaning};

/// One store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Store {
    pub(super) at: Address,
    pub(super) bytes: u64,
    /// What is stored, where anybody will ask for it
    pub(super) value: Option<u64>,
    /// Only if this is there is it stored, and the core is told what was
    pub(super) expected: Option<u64>,
    /// Not before this may it become visible
    pub(super) ready: Time,
    /// Goes past the caches
    pub(super) past: bool,
    /// No store at all: the line is sent away once the stores before it are visible
    pub(super) cleaning: Option<Cleaning>,
}

impl Store {
    pub(super) fn line(&self) -> u64 {
        self.at / 64
    }

    /// `bytes` bytes from `at` on, which were `under`, after this store of `value`.
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

/// The buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Stores {
    waiting: VecDeque<Store>,
    /// When the last one became visible
    pub(super) committed: Time,
    /// How often the head was put off
    delays: u32,
}

/// No store is put off as often: one that was would be put off for ever.
const MOST_DELAYS: u32 = 10_000;

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

    /// When the head can become visible.
    pub(super) fn due(&self, step: Time) -> Option<Time> {
        self.head().map(|store| store.ready.max(self.committed + step))
    }

    /// The head cannot before this.
    pub(super) fn postpone(&mut self, until: Time) {
        self.delays += 1;
        assert!(self.delays < MOST_DELAYS, "a store never becomes visible: {:?}", self.head());
        if let Some(store) = self.waiting.front_mut() {
            store.ready = store.ready.max(until);
        }
    }

    pub(super) fn pop(&mut self, now: Time) -> Option<Store> {
        (self.committed, self.delays) = (now, 0);
        self.waiting.pop_front()
    }

    /// What a load of this place gets, where `under` is what everybody sees there: a core sees its own stores first. Nothing, if none
    /// of those on their way touches the place.
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
