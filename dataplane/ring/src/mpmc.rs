//! A bounded multi-producer, multi-consumer ring.
//!
//! Protocol (after Dmitry Vyukov's bounded MPMC queue): positions increase monotonically and wrap with the integer; the
//! slot of a position is its value modulo the capacity, a power of two of at least two. Each slot has a turn: position
//! `p` if it is empty and accepts the item of `p`, or `p + 1` if it holds that item. A producer counts the consecutive
//! slots from `tail` whose turn equals their position, claims up to the wanted number with one compare-exchange of
//! `tail`, fills each and stores turn `p + 1` with Release. A consumer counts the slots from `head` whose turn is
//! position plus one, claims them with one compare-exchange of `head`, empties each and stores the position of the next
//! lap as turn with Release. Both counts load turns with Acquire, which pairs with those two stores.
//!
//! A counted slot does not change until the cursor passes it, and then the exchange fails and the count restarts. So no
//! thread waits for a slot that it has claimed. The exchange itself is Relaxed: the turns order all accesses to items.
//!
//! No operation blocks. While a thread is preempted between claim and store, its slots make the ring look full or empty
//! from that position on; other threads continue with other work.

use core::fmt;
use core::mem::MaybeUninit;
use mem::line::Padded;
use mem::shim::UnsafeCell;
use mem::shim::atomic::{AtomicUsize, Ordering};

struct Slot<T> {
    turn: AtomicUsize,
    item: UnsafeCell<MaybeUninit<T>>,
}

/// A bounded FIFO ring; share it by reference or in an `Arc`.
pub struct Ring<T> {
    /// Next position to empty; written by consumers.
    head: Padded<AtomicUsize>,
    /// Next position to fill; written by producers.
    tail: Padded<AtomicUsize>,
    slots: Box<[Slot<T>]>,
}

// SAFETY: only the thread that claimed a position accesses its item; ownership passes with Release and Acquire.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send> Sync for Ring<T> {}

/// Claimed positions; all must be filled, or all emptied.
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
    /// A ring for at least `capacity` items: rounded up to a power of two, at least two.
    ///
    /// # Panics
    /// If `capacity` cannot be rounded up to a power of two, or the allocation fails.
    pub fn new(capacity: usize) -> Self {
        Self::starting_at(capacity, 0)
    }

    /// A ring whose positions start at `position`, to test integer wrap.
    fn starting_at(capacity: usize, position: usize) -> Self {
        let capacity = capacity.max(2).checked_next_power_of_two().expect("a capacity that memory can hold");
        // Turns of the first lap, by slot index.
        let lap = |slot: usize| position.wrapping_add(slot.wrapping_sub(position) & (capacity - 1));
        let slot = |i| Slot { turn: AtomicUsize::new(lap(i)), item: UnsafeCell::new(MaybeUninit::uninit()) };
        let at = || Padded(AtomicUsize::new(position));
        Self { head: at(), tail: at(), slots: (0..capacity).map(slot).collect() }
    }

    /// Maximum number of items.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    #[inline(always)]
    fn slot(&self, position: usize) -> &Slot<T> {
        &self.slots[position & (self.slots.len() - 1)]
    }

    /// Claims up to `most` consecutive positions from `cursor` whose turn is the position plus `offset`.
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

    /// Number of consecutive positions from `start`, at most `most`, whose turn is the position plus `offset`.
    #[inline(always)]
    fn count_ready(&self, start: usize, offset: usize, most: usize) -> usize {
        let is_ready = |i: &usize| {
            let position = start.wrapping_add(*i);
            // Acquire pairs with the Release stores in `fill` and `empty`.
            self.slot(position).turn.load(Ordering::Acquire) == position.wrapping_add(offset)
        };
        (0..most.min(self.capacity())).take_while(is_ready).count()
    }

    /// Writes an item to a claimed position.
    ///
    /// # Safety
    /// The caller claimed the position for filling and fills it once.
    #[inline(always)]
    unsafe fn fill(&self, position: usize, item: T) {
        let slot = self.slot(position);
        // SAFETY: between claim and turn store, the claiming thread owns the slot exclusively.
        slot.item.with_mut(|to| unsafe { (*to).write(item) });
        // Release pairs with the Acquire load in a consumer's `claim`: publishes the item.
        slot.turn.store(position.wrapping_add(1), Ordering::Release);
    }

    /// Takes the item out of a claimed position.
    ///
    /// # Safety
    /// The caller claimed the position for emptying and empties it once.
    #[inline(always)]
    unsafe fn empty(&self, position: usize) -> T {
        let slot = self.slot(position);
        // SAFETY: between claim and turn store, the claiming thread owns the slot exclusively, and it is filled.
        let item = slot.item.with(|from| unsafe { (*from).assume_init_read() });
        // Release pairs with the Acquire load in a producer's `claim`: the slot is empty.
        slot.turn.store(position.wrapping_add(self.capacity()), Ordering::Release);
        item
    }

    /// Appends one item; returns it as the error if the ring is full.
    #[inline]
    pub fn push(&self, item: T) -> Result<(), T> {
        let claim = self.claim(&self.tail, 0, 1);
        if claim.count == 0 {
            return Err(item);
        }
        // SAFETY: claimed above.
        unsafe { self.fill(claim.start, item) };
        Ok(())
    }

    /// Moves the first items of `items` into consecutive positions, as many as fit. Returns their number.
    #[inline]
    pub fn push_all(&self, items: &mut Vec<T>) -> usize {
        let claim = self.claim(&self.tail, 0, items.len());
        // Takes a vector because no code may panic between claim and fill.
        for (position, item) in claim.positions().zip(items.drain(..claim.count)) {
            // SAFETY: claimed above, and each position occurs once.
            unsafe { self.fill(position, item) };
        }
        claim.count
    }

    /// Appends the first items of a slice to consecutive positions, as many as fit. Returns their number.
    #[inline]
    pub fn push_slice(&self, items: &[T]) -> usize
    where
        T: Copy,
    {
        let claim = self.claim(&self.tail, 0, items.len());
        for (position, item) in claim.positions().zip(items) {
            // SAFETY: claimed above, and each position occurs once.
            unsafe { self.fill(position, *item) };
        }
        claim.count
    }

    /// Takes the oldest item. Returns `None` if the ring is empty.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let claim = self.claim(&self.head, 1, 1);
        // SAFETY: claimed above.
        (claim.count == 1).then(|| unsafe { self.empty(claim.start) })
    }

    /// Moves up to `most` consecutive items, oldest first, to the end of `items`. Returns their number.
    #[inline]
    pub fn pop_all(&self, items: &mut Vec<T>, most: usize) -> usize {
        // Reserves first because no code may panic between claim and empty.
        items.reserve(most.min(self.capacity()));
        let claim = self.claim(&self.head, 1, most);
        for position in claim.positions() {
            // SAFETY: claimed above, and each position occurs once.
            items.push(unsafe { self.empty(position) });
        }
        claim.count
    }

    /// Takes consecutive items, oldest first, into a slice, as many as are available and fit. Returns their number.
    #[inline]
    pub fn pop_slice(&self, items: &mut [T]) -> usize
    where
        T: Copy,
    {
        let claim = self.claim(&self.head, 1, items.len());
        for (position, item) in claim.positions().zip(items) {
            // SAFETY: claimed above, and each position occurs once.
            *item = unsafe { self.empty(position) };
        }
        claim.count
    }
}

/// Advances `cursor` from `start` by `count`. Returns the previous value, which is `start` on success. A `count` of
/// zero does not write, so that an empty poll keeps the line shared.
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
            // SAFETY: exclusive access, and no claim is left unfilled, so each position up to `tail` holds an item;
            // each is visited once.
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
