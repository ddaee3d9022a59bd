//! A bounded ring from one core to one other.
//!
//! Protocol: positions count up for ever and wrap with the integer; a position's slot is its value modulo the
//! capacity, a power of two. The producer alone writes `tail`, the consumer alone writes `head`. Slots from
//! `head` up to `tail` hold items and belong to the consumer; the others belong to the producer. The producer
//! fills slots and then stores `tail` with Release, which pairs with the consumer's Acquire load of it; the
//! consumer empties slots and then stores `head` with Release, which pairs with the producer's Acquire load.
//!
//! Each side keeps the other's position as it last saw it, and looks again only when that says full (or empty),
//! so a ring that is neither moves one line of slots and less than one line of positions per batch. `head` and
//! `tail` lie on lines of their own; the two copies lie in the two ends, which different cores own.
//!
//! Neither side ever waits. A ring that goes with items in it drops them.

use core::fmt;
use core::mem::MaybeUninit;
use mem::line::Padded;
use mem::shim::atomic::{AtomicUsize, Ordering};
use mem::shim::{Arc, UnsafeCell};

struct Ring<T> {
    /// Written by the consumer.
    head: Padded<AtomicUsize>,
    /// Written by the producer.
    tail: Padded<AtomicUsize>,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a slot is touched only by the side that owns it, and ownership passes with Release and Acquire.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as for `Send`; there is one `Producer` and one `Consumer`, and their methods take `&mut self`.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// Puts an item into the slot of `position`.
    ///
    /// # Safety
    /// The caller is the producer and owns the slot.
    #[inline(always)]
    unsafe fn write(&self, position: usize, item: T) {
        let slot = &self.slots[position & (self.slots.len() - 1)];
        // SAFETY: the slot is the producer's by contract, so nobody else has a pointer to its content.
        slot.with_mut(|to| unsafe { (*to).write(item) });
    }

    /// Takes the item out of the slot of `position`.
    ///
    /// # Safety
    /// The caller is the consumer, owns the slot, and takes its item once.
    #[inline(always)]
    unsafe fn read(&self, position: usize) -> T {
        let slot = &self.slots[position & (self.slots.len() - 1)];
        // SAFETY: the slot is the consumer's by contract, so the producer has filled it and stays away.
        slot.with(|from| unsafe { (*from).assume_init_read() })
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let (mut head, tail) = (self.head.load(Ordering::Relaxed), self.tail.load(Ordering::Relaxed));
        while head != tail {
            // SAFETY: both ends are gone, so every item that is left is ours; each position is visited once.
            drop(unsafe { self.read(head) });
            head = head.wrapping_add(1);
        }
    }
}

/// The end that items go into.
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    tail: usize,
    /// `head` as it was last seen: it may have moved on since, never back.
    head_seen: usize,
}

/// The end that items come out of.
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    head: usize,
    /// `tail` as it was last seen: it may have moved on since, never back.
    tail_seen: usize,
}

impl<T> Drop for Producer<T> {
    /// A batch that was forgotten instead of dropped has not published its items; the ring owns them all the same.
    fn drop(&mut self) {
        // Release pairs with the last owner's drop of the ring, through its reference count.
        self.ring.tail.store(self.tail, Ordering::Release);
    }
}

impl<T> Drop for Consumer<T> {
    /// A drain that was forgotten instead of dropped has not published what it took; the ring must not drop that
    /// again.
    fn drop(&mut self) {
        // Release pairs with the last owner's drop of the ring, through its reference count.
        self.ring.head.store(self.head, Ordering::Release);
    }
}

/// A ring for at least `capacity` items: the next power of two.
///
/// # Panics
/// When the capacity has no next power of two, or the allocator has no room for it.
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    ring_at(capacity, 0)
}

/// A ring whose positions start at `position`, so that tests reach the wrap of the integer.
fn ring_at<T: Send>(capacity: usize, position: usize) -> (Producer<T>, Consumer<T>) {
    let capacity = capacity.checked_next_power_of_two().expect("a capacity that memory can hold");
    let slots = (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let at = || Padded(AtomicUsize::new(position));
    let ring = Arc::new(Ring { head: at(), tail: at(), slots });
    let producer = Producer { ring: ring.clone(), tail: position, head_seen: position };
    (producer, Consumer { ring, head: position, tail_seen: position })
}

impl<T: Send> Producer<T> {
    /// Items the ring holds when full.
    pub fn capacity(&self) -> usize {
        self.ring.slots.len()
    }

    /// Slots that can be filled now, if at least `wanted` are; otherwise as many as there are after a fresh look.
    #[inline(always)]
    pub fn room(&mut self, wanted: usize) -> usize {
        let room = self.capacity() - self.tail.wrapping_sub(self.head_seen);
        if room >= wanted {
            return room;
        }
        // Acquire pairs with the Release store in `Consumer::publish`: the slots before it are empty.
        self.head_seen = self.ring.head.load(Ordering::Acquire);
        self.capacity() - self.tail.wrapping_sub(self.head_seen)
    }

    /// Appends one item, or gives it back if the ring is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.room(1) == 0 {
            return Err(item);
        }
        // SAFETY: there is room, so the slot at `tail` is ours.
        unsafe { self.ring.write(self.tail, item) };
        self.tail = self.tail.wrapping_add(1);
        self.publish();
        Ok(())
    }

    /// Appends items until the iterator ends or the ring is full, published at once. Returns how many; an item
    /// that does not fit is not taken from the iterator.
    #[inline]
    pub fn push_all(&mut self, items: &mut impl Iterator<Item = T>) -> usize {
        let batch = Batch(self);
        let mut count = 0;
        while batch.0.room(1) > 0 {
            let Some(item) = items.next() else { break };
            // SAFETY: there is room, so the slot at `tail` is ours.
            unsafe { batch.0.ring.write(batch.0.tail, item) };
            batch.0.tail = batch.0.tail.wrapping_add(1);
            count += 1;
        }
        count
    }

    /// Appends the first items of a slice, as many as fit, published at once. Returns how many.
    #[inline]
    pub fn push_slice(&mut self, items: &[T]) -> usize
    where
        T: Copy,
    {
        self.push_all(&mut items.iter().copied())
    }

    #[inline(always)]
    fn publish(&self) {
        // Release pairs with the Acquire load in `Consumer::ready`: the slots before it are filled.
        self.ring.tail.store(self.tail, Ordering::Release);
    }
}

/// Publishes what was filled, also when the iterator panics half-way.
struct Batch<'a, T: Send>(&'a mut Producer<T>);

impl<T: Send> Drop for Batch<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.publish();
    }
}

impl<T: Send> Consumer<T> {
    /// Items the ring holds when full.
    pub fn capacity(&self) -> usize {
        self.ring.slots.len()
    }

    /// Items that can be taken now, if at least `wanted` are; otherwise as many as there are after a fresh look.
    #[inline(always)]
    pub fn ready(&mut self, wanted: usize) -> usize {
        let ready = self.tail_seen.wrapping_sub(self.head);
        if ready >= wanted {
            return ready;
        }
        // Acquire pairs with the Release store in `Producer::publish`: the slots before it are filled.
        self.tail_seen = self.ring.tail.load(Ordering::Acquire);
        self.tail_seen.wrapping_sub(self.head)
    }

    /// Takes the oldest item.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.drain(1).next()
    }

    /// Takes up to `most` items, oldest first. The slots are given back at once, when the iterator is dropped;
    /// items that it did not hand out by then stay in the ring.
    #[inline]
    pub fn drain(&mut self, most: usize) -> Drain<'_, T> {
        let left = self.ready(most).min(most);
        Drain { start: self.head, left, consumer: self }
    }

    /// Takes items to the front of a slice, as many as there are and fit. Returns how many.
    #[inline]
    pub fn pop_slice(&mut self, items: &mut [T]) -> usize
    where
        T: Copy,
    {
        let drain = self.drain(items.len());
        let count = drain.len();
        for (to, item) in items.iter_mut().zip(drain) {
            *to = item;
        }
        count
    }

    #[inline(always)]
    fn publish(&self) {
        // Release pairs with the Acquire load in `Producer::room`: the slots before it are empty.
        self.ring.head.store(self.head, Ordering::Release);
    }
}

/// Items on their way out of a ring.
pub struct Drain<'a, T: Send> {
    consumer: &'a mut Consumer<T>,
    start: usize,
    left: usize,
}

impl<T: Send> Iterator for Drain<'_, T> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        let at = self.consumer.head;
        self.consumer.head = at.wrapping_add(1);
        // SAFETY: `at` lies between `head` and a `tail` that was seen, and `head` has just moved past it.
        Some(unsafe { self.consumer.ring.read(at) })
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T: Send> ExactSizeIterator for Drain<'_, T> {}

impl<T: Send> Drop for Drain<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // An empty poll leaves the line that the producer reads alone.
        if self.consumer.head != self.start {
            self.consumer.publish();
        }
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("tail", &self.tail).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("head", &self.head).finish_non_exhaustive()
    }
}

impl<T: Send> fmt::Debug for Drain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("left", &self.left).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
