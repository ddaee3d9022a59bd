//! Most recent refused moves of a bridge.
//!
//! A worker adds an entry only if the lock is free, and at most one per port and second: the counters are complete, the
//! list is a sample.

use super::listing::RefusedMove;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Capacity of the list.
const KEPT: usize = 64;

#[derive(Default)]
pub(super) struct Refusals(Mutex<VecDeque<RefusedMove>>);

impl Refusals {
    /// Adds an entry, replacing the oldest if full. Does nothing if the lock is busy.
    pub(super) fn add(&self, refused: RefusedMove) {
        let Ok(mut kept) = self.0.try_lock() else { return };
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(refused);
    }

    /// All entries, oldest first.
    pub(super) fn list(&self) -> Vec<RefusedMove> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
