//! A core's store buffer: stores on their way out, in program order, and what later loads can take from them.

use std::collections::VecDeque;

use super::Time;
use crate::cache::memory::Address;

/// One store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Store {
    pub(super) at: Address,
    pub(super) bytes: u64,
    /// What is stored, where anybody will ask for it
    pub(super) value: Option<u64>,
    /// Not before this may it become visible
    pub(super) ready: Time,
    /// Goes past the caches
    pub(super) past: bool,
}

impl Store {
    pub(super) fn line(&self) -> u64 {
        self.at / 64
    }
}

/// The buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Stores {
    waiting: VecDeque<Store>,
    /// When the last one became visible
    pub(super) committed: Time,
}

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
        if let Some(store) = self.waiting.front_mut() {
            store.ready = store.ready.max(until);
        }
    }

    pub(super) fn pop(&mut self, now: Time) -> Option<Store> {
        self.committed = now;
        self.waiting.pop_front()
    }

    /// The value that the youngest store to this very place left, if one is on its way.
    pub(super) fn forward(&self, at: Address, bytes: u64) -> Option<u64> {
        let store =
            self.waiting.iter().rev().find(|store| store.at < at + bytes && at < store.at + store.bytes)?;
        (store.at == at && store.bytes == bytes).then_some(store.value).flatten()
    }
}
