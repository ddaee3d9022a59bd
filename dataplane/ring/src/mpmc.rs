//! A bounded ring between any number of cores.
//!
//! Protocol (after Dmitry Vyukov's bounded queue): positions count up for ever and wrap with the integer; a
//! position's slot is its value modulo the capacity, a power of two of at least two. Each slot carries a turn:
//! the position whose item it may take next, or that position plus one while the item is in it. A producer
//! counts the slots from `tail` on whose turn is their own position, claims as many of them as it wants with one
//! compare-and-exchange of `tail`, fills each and stores its turn plus one with Release. A consumer counts the
//! slots from `head` on whose turn is their position plus one, claims them with one compare-and-exchange of
//! `head`, empties each and stores as turn the position of the next lap with Release. Both counts load turns with
//! Acquire, which pairs with those two stores.
//!
//! A slot that was counted stays as it was counted until the position passes it, and then the exchange fails and
//! the count begins anew. So nobody ever waits for a slot that it has claimed. The exchange itself orders nothing
//! and is Relaxed: everything that items need passes through the turns.
//!
//! No operation waits. One that was interrupted between claim and store keeps its slots back: to others the ring
//! looks full or empty from there on, and they carry on with something else.

use core::fmt;
use core::mem::MaybeUninit;
use mem::line::Padded;
use mem::shim::UnsafeCell;
use mem::shim::atomic::{AtomicUsize, Ordering};

struct Slot<T> {
    turn: AtomicUsize,
    item: UnsafeCell<MaybeUninit<T>>,
}

/// A bounded first-in, first-out ring; share it by reference or in an `Arc`.
pub struct Ring<T> {
    /// The next position to empty; written by consumers.
    head: Padded<AtomicUsize>,
    /// The next position to fill; written by producers.
    tail: Padded<AtomicUsize>,
    slots: Box<[Slot<T>]>,
}

// SAFETY: a slot's item is touched only by whoever claimed its position, and passes on with Release and Acquire.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send> Sync for Ring<T> {}

/// Positions that were claimed and must now all be filled, or all be emptied.
struct Claim {
    start: usize,
    count: usize,
}

impl Claim {
    fn positions(&self) -> impl Iterator<Item = usize> + use<> {
        let start = self.start;
        (0..self.count).map(move |i| start.wrapping_add(i))
    }
}

impl<T: Send> Ring<T> {
    /// A ring for at least `capacity` items: the next power of two, and at least two.
    ///
    /// # Panics
    /// When the capacity has no next power of two, or the allocator has no room for it.
    pub fn new(capacity: usize) -> Self {
        Self::starting_at(capacity, 0)
    }

    /// A ring whose positions start at `position`, so that tests reach the wrap of the integer.
    fn starting_at(capacity: usize, position: usize) -> Self {
        let capacity = capacity.max(2).checked_next_power_of_two().expect("a capacity that memory can hold");
        // The slots of the first lap, in the order of slots and not of positions.
        let lap = |slot: usize| position.wrapping_add(slot.wrapping_sub(position) & (capacity - 1));
        let slot = |i| Slot { turn: AtomicUsize::new(lap(i)), item: UnsafeCell::new(MaybeUninit::uninit()) };
        let at = || Padded(AtomicUsize::new(position));
        Self { head: at(), tail: at(), slots: (0..capacity).map(slot).collect() }
    }

    /// Items the ring holds when full.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    #[inline(always)]
    fn slot(&self, position: usize) -> &Slot<T> {
        &self.slots[position & (self.slots.len() - 1)]
    }

    /// Claims up to `most` positions from `cursor` on whose turn is the position plus `offset`.
    #[inline]
    fn claim(&self, cursor: &AtomicUsize, offset: usize, most: usize) -> Claim {
        let mut start = cursor.load(Ordering::Relaxed);
        loop {
            let count = self.count_ready(start, offset, most);
            let now = exchange(cursor, start, count);
            if now == start {
                return Claim { start, count };
            }
            start = now;
        }
    }

    /// Positions from `start` on, at most `most`, whose turn is the position plus `offset`.
    #[inline(always)]
    fn count_ready(&self, start: usize, offset: usize, most: usize) -> usize {
        let is_ready = |i: &usize| {
            let position = start.wrapping_add(*i);
            // Acquire pairs with the Release stores in `fill` and `empty`.
            self.slot(position).turn.load(Ordering::Acquire) == position.wrapping_add(offset)
        };
        (0..most.min(self.capacity())).take_while(is_ready).count()
    }

    /// Puts an item into a position that the caller has claimed for filling.
    ///
    /// # Safety
    /// The position was claimed by this caller and is filled once.
    #[inline(always)]
    unsafe fn fill(&self, position: usize, item: T) {
        let slot = self.slot(position);
        // SAFETY: between claim and store of the turn, the slot is the claimant's alone.
        slot.item.with_mut(|to| unsafe { (*to).write(item) });
        // Release pairs with the Acquire load in a consumer's `claim`: the item is there.
        slot.turn.store(position.wrapping_add(1), Ordering::Release);
    }

    /// Takes the item out of a position that the caller has claimed for emptying.
    ///
    /// # Safety
    /// The position was claimed by this caller and is emptied once.
    #[inline(always)]
    unsafe fn empty(&self, position: usize) -> T {
        let slot = self.slot(position);
        // SAFETY: between claim and store of the turn, the slot is the claimant's alone, and it was filled.
        let item = slot.item.with(|from| unsafe { (*from).assume_init_read() });
        // Release pairs with the Acquire load in a producer's `claim`: the slot is empty.
        slot.turn.store(position.wrapping_add(self.capacity()), Ordering::Release);
        item
    }

    /// Appends one item, or gives it back if the ring is full.
    #[inline]
    pub fn push(&self, item: T) -> Result<(), T> {
        let claim = self.claim(&self.tail, 0, 1);
        if claim.count == 0 {
            return Err(item);
        }
        // SAFETY: claimed just now.
        unsafe { self.fill(claim.start, item) };
        Ok(())
    }

    /// Moves the first items of `items` into the ring, as many as fit, in a row. Returns how many.
    #[inline]
    pub fn push_all(&self, items: &mut Vec<T>) -> usize {
        let claim = self.claim(&self.tail, 0, items.len());
        // The items come from a vector because nothing may panic between claim and fill.
        for (position, item) in claim.positions().zip(items.drain(..claim.count)) {
            // SAFETY: claimed just now, and each position comes once.
            unsafe { self.fill(position, item) };
        }
        claim.count
    }

    /// Appends the first items of a slice, as many as fit, in a row. Returns how many.
    #[inline]
    pub fn push_slice(&self, items: &[T]) -> usize
    where
        T: Copy,
    {
        let claim = self.claim(&self.tail, 0, items.len());
        for (position, item) in claim.positions().zip(items) {
            // SAFETY: claimed just now, and each position comes once.
            unsafe { self.fill(position, *item) };
        }
        claim.count
    }

    /// Takes the oldest item.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let claim = self.claim(&self.head, 1, 1);
        // SAFETY: claimed just now.
        (claim.count == 1).then(|| unsafe { self.empty(claim.start) })
    }

    /// Takes up to `most` items in a row, oldest first, to the end of `items`. Returns how many.
    #[inline]
    pub fn pop_all(&self, items: &mut Vec<T>, most: usize) -> usize {
        // The room is made first because nothing may panic between claim and empty.
        items.reserve(most.min(self.capacity()));
        let claim = self.claim(&self.head, 1, most);
        for position in claim.positions() {
            // SAFETY: claimed just now, and each position comes once.
            items.push(unsafe { self.empty(position) });
        }
        claim.count
    }

    /// Takes items to the front of a slice, as many as there are and fit, in a row. Returns how many.
    #[inline]
    pub fn pop_slice(&self, items: &mut [T]) -> usize
    where
        T: Copy,
    {
        let claim = self.claim(&self.head, 1, items.len());
        for (position, item) in claim.positions().zip(items) {
            // SAFETY: claimed just now, and each position comes once.
            *item = unsafe { self.empty(position) };
        }
        claim.count
    }
}

/// Moves `cursor` from `start` by `count`; returns what it was, which is `start` if it was moved. Nothing is
/// written to move it by nothing, so that an empty poll leaves the line where it is.
#[inline(always)]
fn exchange(cursor: &AtomicUsize, start: usize, count: usize) -> usize {
    if count == 0 {
        return cursor.load(Ordering::Relaxed);
    }
    let end = start.wrapping_add(count);
    let result = cursor.compare_exchange(start, end, Ordering::Relaxed, Ordering::Relaxed);
    result.unwrap_or_else(|now| now)
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let (mut head, tail) = (self.head.load(Ordering::Relaxed), self.tail.load(Ordering::Relaxed));
        while head != tail {
            let slot = &self.slots[head & (self.slots.len() - 1)];
            // SAFETY: nobody else is left, and no claim is ever left unfilled, so each position up to `tail` holds
            // an item; each is visited once.
            drop(slot.item.with(|from| unsafe { (*from).assume_init_read() }));
            head = head.wrapping_add(1);
        }
    }
}

impl<T> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("capacity", &self.slots.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
