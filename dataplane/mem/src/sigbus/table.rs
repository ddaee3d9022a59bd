//! Table of watched ranges, written under a lock and read by the signal handler. See the parent module for the
//! protocol.
//!
//! Uses the standard library's atomics directly: loom models neither statics nor signal handlers.

use crate::line::Padded;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError};

const SLOTS: usize = 512;

/// One watched range; unused while `len` is zero.
#[derive(Debug)]
pub(super) struct Slot {
    version: AtomicUsize,
    start: AtomicUsize,
    len: AtomicUsize,
    tripped: AtomicBool,
}

struct Chunk {
    slots: [Slot; SLOTS],
    next: *const Chunk,
}

static NEWEST: AtomicPtr<Chunk> = AtomicPtr::new(std::ptr::null_mut());
/// Number of losses so far, on a line that is written only on a loss.
pub(super) static TRIPS: Padded<AtomicU64> = Padded(AtomicU64::new(0));
static FREE: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

impl Slot {
    const fn new() -> Self {
        Self {
            version: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            tripped: AtomicBool::new(false),
        }
    }

    pub(super) fn tripped(&self) -> bool {
        // Acquire pairs with the Release store in `trip`.
        self.tripped.load(Ordering::Acquire)
    }

    /// Sets the mark. Must be called before the pages are replaced.
    pub(super) fn trip(&self) {
        // Release pairs with the Acquire load in `tripped`.
        self.tripped.store(true, Ordering::Release);
        // Release orders the mark before the count: a reader that sees the new count also sees the mark.
        TRIPS.0.fetch_add(1, Ordering::Release);
    }

    /// The range. Returns `None` while it is being changed.
    fn range(&self) -> Option<(usize, usize)> {
        let before = self.version.load(Ordering::Acquire);
        let range = (self.start.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed));
        // Keeps the loads above from moving below the second version load.
        fence(Ordering::Acquire);
        let after = self.version.load(Ordering::Relaxed);
        (before == after && before.is_multiple_of(2)).then_some(range)
    }

    /// Changes the range. Must be called only by the owner of the slot.
    fn set(&self, start: usize, len: usize) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // Pairs with the fence in `range`: a reader that sees a new value below also sees the odd version.
        fence(Ordering::Release);
        self.start.store(start, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        self.tripped.store(false, Ordering::Relaxed);
        // Release pairs with the first Acquire load in `range`.
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }
}

/// Allocates a slot for this range.
pub(super) fn register(start: usize, len: usize) -> &'static Slot {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if free.is_empty() {
        free.extend(&grow().slots);
    }
    let slot = free.pop().expect("a chunk was just added");
    slot.set(start, len);
    slot
}

/// Frees a slot; afterwards no fault matches its range.
pub(super) fn unregister(slot: &'static Slot) {
    slot.set(0, 0);
    FREE.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
}

/// Publishes one more chunk. The caller must hold the lock.
fn grow() -> &'static Chunk {
    let next = NEWEST.load(Ordering::Relaxed);
    let chunk = Box::leak(Box::new(Chunk { slots: [const { Slot::new() }; SLOTS], next }));
    // Release pairs with the Acquire load in `find`.
    NEWEST.store(chunk, Ordering::Release);
    chunk
}

/// The watched range that holds `address`, with its slot. Async-signal-safe.
pub(super) fn find(address: usize) -> Option<(&'static Slot, usize, usize)> {
    // SAFETY: chunks are leaked, so a published pointer stays valid and immutable.
    let mut chunk = unsafe { NEWEST.load(Ordering::Acquire).as_ref::<'static>() };
    while let Some(here) = chunk {
        if let Some(found) = here.slots.iter().find_map(|slot| slot.holds(address)) {
            return Some(found);
        }
        // SAFETY: as above; `next` was written before its chunk was published.
        chunk = unsafe { here.next.as_ref() };
    }
    None
}

impl Slot {
    fn holds(&'static self, address: usize) -> Option<(&'static Slot, usize, usize)> {
        let (start, len) = self.range()?;
        (address.wrapping_sub(start) < len).then_some((self, start, len))
    }
}
