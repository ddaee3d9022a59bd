//! A bounded single-producer, single-consumer ring.
//!
//! Protocol: positions increase monotonically and wrap with the integer; the slot of a position is its value modulo the
//! capacity, a power of two. Only the producer writes `tail`, only the consumer writes `head`. Slots from `head` up to
//! `tail` hold items and belong to the consumer; the others belong to the producer. The producer fills slots and then
//! stores `tail` with Release, which pairs with the consumer's Acquire load; the consumer empties slots and then stores
//! `head` with Release, which pairs with the producer's Acquire load.
//!
//! Each side caches the other's position and reloads it only if the cached value means full (or empty), so a ring that
//! is neither transfers its slot lines and less than one position line per batch. `head` and `tail` are on separate
//! lines; each cached copy is in the end that uses it, owned by a different core.
//!
//! No operation blocks. Dropping the ring drops its items.

mod slots;

use core::fmt;
use mem::line::Padded;
use mem::shim::Arc;
use mem::shim::atomic::{AtomicUsize, Ordering};
use slots::Slots;

struct Ring<T> {
    /// Written by the consumer.
    head: Padded<AtomicUsize>,
    /// Written by the producer.
    tail: Padded<AtomicUsize>,
    slots: Slots<T>,
}

// SAFETY: only the side that owns a slot accesses it, and ownership passes with Release and Acquire.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as for `Send`; there is one `Producer` and one `Consumer`, and their methods take `&mut self`.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let (mut head, tail) = (self.head.load(Ordering::Relaxed), self.tail.load(Ordering::Relaxed));
        while head != tail {
            // SAFETY: both ends are gone, so the ring owns all remaining items; each position is visited once.
            drop(unsafe { self.slots.take(head) });
            head = head.wrapping_add(1);
        }
    }
}

/// Producer end.
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    tail: usize,
    /// Last loaded value of `head`; the actual value is the same or later.
    head_seen: usize,
}

/// Consumer end.
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    head: usize,
    /// Last loaded value of `tail`; the actual value is the same or later.
    tail_seen: usize,
}

impl<T> Consumer<T> {
    /// Publishes `head` if a leaked drain left it unpublished.
    #[inline(always)]
    fn settle(&self) {
        // Relaxed is sufficient: only this thread writes it.
        if self.ring.head.load(Ordering::Relaxed) != self.head {
            // Release pairs with the Acquire load in `Producer::room`: the slots before it are empty.
            self.ring.head.store(self.head, Ordering::Release);
        }
    }
}

impl<T> Drop for Consumer<T> {
    /// Publishes `head`, so that the ring does not drop items taken by a leaked drain.
    fn drop(&mut self) {
        // The reference count also orders this before the ring is dropped.
        self.settle();
    }
}

/// Creates a ring for at least `capacity` items, rounded up to a power of two.
///
/// # Panics
/// If `capacity` cannot be rounded up to a power of two, or the allocation fails.
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    ring_at(capacity, 0)
}

/// A ring whose positions start at `position`, to test integer wrap.
fn ring_at<T: Send>(capacity: usize, position: usize) -> (Producer<T>, Consumer<T>) {
    let capacity = capacity.checked_next_power_of_two().expect("a capacity that memory can hold");
    let slots = Slots::new(capacity);
    let at = || Padded(AtomicUsize::new(position));
    let ring = Arc::new(Ring { head: at(), tail: at(), slots });
    let producer = Producer { ring: ring.clone(), tail: position, head_seen: position };
    (producer, Consumer { ring, head: position, tail_seen: position })
}

impl<T: Send> Producer<T> {
    /// Maximum number of items.
    pub fn capacity(&self) -> usize {
        self.ring.slots.len()
    }

    /// Position after the last appended item: the number of items appended so far (wraps).
    pub fn appended(&self) -> usize {
        self.tail
    }

    /// Free slots. Reloads `head` only if fewer than `wanted` are known to be free.
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

    /// Appends one item; returns it as the error if the ring is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.room(1) == 0 {
            return Err(item);
        }
        // SAFETY: there is room, so the producer owns the slot at `tail`, and it is empty.
        unsafe { self.ring.slots.put(self.tail, item) };
        self.publish(self.tail.wrapping_add(1));
        Ok(())
    }

    /// Appends items until the iterator ends or the ring is full, and publishes them at once. Returns their number. An
    /// item that does not fit is not taken from the iterator.
    #[inline]
    pub fn push_all(&mut self, items: &mut impl Iterator<Item = T>) -> usize {
        let start = self.tail;
        let mut batch = Batch { next: start, producer: self };
        loop {
            let room = batch.room();
            let full = batch.next.wrapping_add(room);
            // SAFETY: the producer owns `room` slots from `batch.next` on, and they are empty.
            unsafe { batch.producer.ring.slots.fill(&mut batch.next, room, items) };
            // Full as of the last load of `head`, which may be old; `batch.room` reloads it.
            if room == 0 || batch.next != full {
                return batch.next.wrapping_sub(start);
            }
        }
    }

    /// Appends the first items of a slice, as many as fit, and publishes them at once. Returns their number.
    #[inline]
    pub fn push_slice(&mut self, items: &[T]) -> usize
    where
        T: Copy,
    {
        let count = self.room(items.len()).min(items.len());
        if count > 0 {
            // SAFETY: the producer owns `count` slots from `tail` on, and they are empty.
            unsafe { self.ring.slots.copy_in(self.tail, &items[..count]) };
            self.publish(self.tail.wrapping_add(count));
        }
        count
    }

    #[inline(always)]
    fn publish(&mut self, tail: usize) {
        self.tail = tail;
        // Release pairs with the Acquire load in `Consumer::ready`: the slots before it are filled.
        self.ring.tail.store(tail, Ordering::Release);
    }
}

/// Publishes the filled slots on drop, also if the iterator panics.
struct Batch<'a, T: Send> {
    producer: &'a mut Producer<T>,
    /// Position after the last filled slot.
    next: usize,
}

impl<T: Send> Batch<'_, T> {
    /// Free slots after the batch; reloads `head` only if none is known.
    #[inline(always)]
    fn room(&mut self) -> usize {
        let filled = self.next.wrapping_sub(self.producer.tail);
        self.producer.room(filled + 1) - filled
    }
}

impl<T: Send> Drop for Batch<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // An empty batch does not write the line that the consumer reads.
        if self.next != self.producer.tail {
            self.producer.publish(self.next);
        }
    }
}

impl<T: Send> Consumer<T> {
    /// Maximum number of items.
    pub fn capacity(&self) -> usize {
        self.ring.slots.len()
    }

    /// Available items. Reloads `tail` only if fewer than `wanted` are known to be available.
    #[inline(always)]
    pub fn ready(&mut self, wanted: usize) -> usize {
        let ready = self.tail_seen.wrapping_sub(self.head);
        if ready >= wanted {
            return ready;
        }
        // Acquire pairs with the Release store in `Producer::publish`: the slots before it are filled.
        self.tail_seen = self.ring.tail.load(Ordering::Acquire);
        if self.tail_seen == self.head {
            // After a leaked drain the ring would otherwise stay empty here and full for the producer.
            self.settle();
        }
        self.tail_seen.wrapping_sub(self.head)
    }

    /// Number of items, among the `most` oldest, before the first that `keep` rejects. The items stay in the ring.
    #[inline(always)]
    pub fn count_while(&mut self, most: usize, keep: impl FnMut(&T) -> bool) -> usize {
        let ready = self.ready(most).min(most);
        // SAFETY: the consumer owns `ready` slots from `head` on, and they hold items.
        unsafe { self.ring.slots.count(self.head, ready, keep) }
    }

    /// Takes the oldest item. Returns `None` if the ring is empty.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.ready(1) == 0 {
            return None;
        }
        // SAFETY: the slot at `head` holds an item, and `head` moves past it.
        let item = unsafe { self.ring.slots.take(self.head) };
        self.publish(self.head.wrapping_add(1));
        Some(item)
    }

    /// Takes up to `most` items, oldest first. Dropping the iterator releases their slots at once; items not yielded
    /// stay in the ring. Leaking the iterator leaks those items; its slots are released by the next take, or when the
    /// ring is found empty.
    #[inline]
    pub fn drain(&mut self, most: usize) -> Drain<'_, T> {
        let (next, left) = (self.head, self.ready(most).min(most));
        // Prevents items from being yielded twice if the iterator is leaked.
        self.head = next.wrapping_add(left);
        Drain { start: next, next, end: self.head, consumer: self }
    }

    /// Takes items into a slice, as many as are available and fit. Returns their number.
    #[inline]
    pub fn pop_slice(&mut self, items: &mut [T]) -> usize
    where
        T: Copy,
    {
        let count = self.ready(items.len()).min(items.len());
        if count > 0 {
            // SAFETY: the consumer owns `count` slots from `head` on, and they hold items.
            unsafe { self.ring.slots.copy_out(self.head, &mut items[..count]) };
            self.publish(self.head.wrapping_add(count));
        }
        count
    }

    #[inline(always)]
    fn publish(&mut self, head: usize) {
        self.head = head;
        // Release pairs with the Acquire load in `Producer::room`: the slots before it are empty.
        self.ring.head.store(head, Ordering::Release);
    }
}

/// Draining iterator, see [`Consumer::drain`].
pub struct Drain<'a, T: Send> {
    consumer: &'a mut Consumer<T>,
    start: usize,
    next: usize,
    end: usize,
}

impl<T: Send> Iterator for Drain<'_, T> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        if self.next == self.end {
            return None;
        }
        let at = self.next;
        self.next = at.wrapping_add(1);
        // SAFETY: `at` is between `head` and a loaded `tail`, and `next` has just moved past it.
        Some(unsafe { self.consumer.ring.slots.take(at) })
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end.wrapping_sub(self.next);
        (left, Some(left))
    }
}

impl<T: Send> ExactSizeIterator for Drain<'_, T> {}

impl<T: Send> Drop for Drain<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // An empty poll does not write the line that the producer reads.
        if self.next == self.start {
            self.consumer.head = self.start;
        } else {
            self.consumer.publish(self.next);
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
        f.debug_struct("Drain").field("left", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
