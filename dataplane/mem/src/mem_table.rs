//! A map that can be swapped while packets flow.
//!
//! Protocol: control calls [`MemTable::replace`] and then has every holder call [`MemTable::refresh`] at a burst
//! boundary. A holder compares the generation (one relaxed load of a line that is written only here) and, when it
//! changed, takes the new `Arc`. The lock is held for the copy of one pointer, never by a control that waits, so
//! a holder always leaves with the newest map. Control unmaps nothing itself; the old regions go with the last
//! `Arc`, so control waits until every holder has refreshed before it tells the front end that they are gone.

use crate::{GuestMemory, Translator};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The current map of one front end.
#[derive(Debug, Default)]
pub struct MemTable {
    generation: AtomicU64,
    current: Mutex<Arc<GuestMemory>>,
}

impl MemTable {
    /// A cell that holds `map`.
    pub fn new(map: GuestMemory) -> Self {
        Self { generation: AtomicU64::new(1), current: Mutex::new(Arc::new(map)) }
    }

    /// The map of now.
    pub fn load(&self) -> Arc<GuestMemory> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A translator over the map of now, for a holder that begins; `seen` becomes its generation.
    pub fn current(&self, seen: &mut u64) -> Translator {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = self.generation.load(Ordering::Acquire);
        Translator::new(current.clone())
    }

    /// Puts `map` in place and returns the old one.
    pub fn replace(&self, map: GuestMemory) -> Arc<GuestMemory> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, Arc::new(map));
        // Release pairs with the Acquire load in `refresh`; the lock orders the map itself.
        self.generation.fetch_add(1, Ordering::Release);
        old
    }

    /// The number of the current map; it grows by one with each replacement.
    #[inline(always)]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// A translator over the current map if it is not generation `seen` any more.
    #[inline(always)]
    pub fn refresh(&self, seen: &mut u64) -> Option<Translator> {
        if self.generation() == *seen {
            return None;
        }
        Some(self.current(seen))
    }
}
