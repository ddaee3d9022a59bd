//! A memory table that can be replaced while packets flow.
//!
//! Protocol: the control thread calls [`MemTable::replace`], then has every worker that uses the table call
//! [`MemTable::refresh`] at a burst boundary. `refresh` compares the generation (one relaxed load of a line written
//! only by `replace`) and takes the new `Arc` if it changed. The lock is held only to copy or swap one pointer, so a
//! worker always gets the newest table. Old regions are unmapped when the last `Arc` drops, so the control thread must
//! wait for all refreshes before it reports them to the front end as removed.

use crate::{GuestMemory, Translator};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Current memory table of one front end.
#[derive(Debug, Default)]
pub struct MemTable {
    generation: AtomicU64,
    current: Mutex<Arc<GuestMemory>>,
}

impl MemTable {
    /// Creates a table that holds `map`.
    pub fn new(map: GuestMemory) -> Self {
        Self { generation: AtomicU64::new(1), current: Mutex::new(Arc::new(map)) }
    }

    /// The current memory table.
    pub fn load(&self) -> Arc<GuestMemory> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A translator over the current memory table, for a new user; sets `seen` to its generation.
    pub fn current(&self, seen: &mut u64) -> Translator {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = self.generation.load(Ordering::Acquire);
        Translator::new(current.clone())
    }

    /// Replaces the memory table with `map` and returns the old one.
    pub fn replace(&self, map: GuestMemory) -> Arc<GuestMemory> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, Arc::new(map));
        // Release pairs with the Acquire load in `current`; the lock orders the memory table itself.
        self.generation.fetch_add(1, Ordering::Release);
        old
    }

    /// Generation of the current memory table; incremented by each `replace`.
    #[inline(always)]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// A translator over the current memory table, or `None` if `seen` is its generation.
    #[inline(always)]
    pub fn refresh(&self, seen: &mut u64) -> Option<Translator> {
        if self.generation() == *seen {
            return None;
        }
        Some(self.current(seen))
    }
}
