//! The latest refused moves of a bridge, for operators.
//!
//! A worker adds one only if the list is free at that moment, and at most one per port and second: the counters are
//! complete, the list is a sample.

use super::listing::RefusedMove;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Refused moves that are kept.
const KEPT: usize = 64;

#[derive(Default)]
pub(super) struct Refusals(Mutex<VecDeque<RefusedMove>>);

impl Refusals {
    /// Adds one in place of the oldest, unless the list is in use.
    pub(super) fn add(&self, refused: RefusedMove) {
        let Ok(mut kept) = self.0.try_lock() else { return };
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(refused);
    }

    /// All that are kept, oldest first.
    pub(super) fn list(&self) -> Vec<RefusedMove> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
