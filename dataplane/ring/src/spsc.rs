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

// SAFETY: a slot is touched only by the side that owns it, and ownership passes with Release and Acquire.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as for `Send`; there is one `Producer` and one `Consumer`, and their methods take `&mut self`.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let (mut head, tail) = (self.head.load(Ordering::Relaxed), self.tail.load(Ordering::Relaxed));
        while head != tail {
            // SAFETY: both ends are gone, so every item that is left is ours; each position is visited once.
            drop(unsafe { self.slots.take(head) });
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

impl<T> Consumer<T> {
    /// Publishes `head` if it is not: a drain that was forgotten instead of dropped has not given its slots back.
    #[inline(always)]
    fn settle(&self) {
        // Relaxed: nobody else writes it.
        if self.ring.head.load(Ordering::Relaxed) != self.head {
            // Release pairs with the Acquire load in `Producer::room`: the slots before it are empty.
            self.ring.head.store(self.head, Ordering::Release);
        }
    }
}

impl<T> Drop for Consumer<T> {
    /// The ring must not drop what a drain took that was forgotten.
    fn drop(&mut self) {
        // Also seen by the last owner's drop of the ring, through its reference count.
        self.settle();
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
    let slots = Slots::new(capacity);
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

    /// The position behind the last item that was appended: how many there were so far. It wraps.
    pub fn appended(&self) -> usize {
        self.tail
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
        // SAFETY: there is room, so the slot at `tail` is ours and empty.
        unsafe { self.ring.slots.put(self.tail, item) };
        self.publish(self.tail.wrapping_add(1));
        Ok(())
    }

    /// Appends items until the iterator ends or the ring is full, published at once. Returns how many; an item
    /// that does not fit is not taken from the iterator.
    #[inline]
    pub fn push_all(&mut self, items: &mut impl Iterator<Item = T>) -> usize {
        let start = self.tail;
        let mut batch = Batch { next: start, producer: self };
        loop {
            let room = batch.room();
            let full = batch.next.wrapping_add(room);
            // SAFETY: as many slots behind the batch are ours and empty.
            unsafe { batch.producer.ring.slots.fill(&mut batch.next, room, items) };
            // Full when it was looked last, which may be long ago.
            if room == 0 || batch.next != full {
                return batch.next.wrapping_sub(start);
            }
        }
    }

    /// Appends the first items of a slice, as many as fit, published at once. Returns how many.
    #[inline]
    pub fn push_slice(&mut self, items: &[T]) -> usize
    where
        T: Copy,
    {
        let count = self.room(items.len()).min(items.len());
        if count > 0 {
            // SAFETY: as many slots from `tail` on are ours and empty.
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

/// Publishes what was filled, also when the iterator panics half-way.
struct Batch<'a, T: Send> {
    producer: &'a mut Producer<T>,
    /// Behind the last slot that is filled.
    next: usize,
}

impl<T: Send> Batch<'_, T> {
    /// Slots that can be filled; another look only if none is known.
    #[inline(always)]
    fn room(&mut self) -> usize {
        let filled = self.next.wrapping_sub(self.producer.tail);
        self.producer.room(filled + 1) - filled
    }
}

impl<T: Send> Drop for Batch<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // Without an item the line that the consumer reads stays as it is.
        if self.next != self.producer.tail {
            self.producer.publish(self.next);
        }
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
        if self.tail_seen == self.head {
            // Else a ring whose items a forgotten drain took would be empty here and full there, for ever.
            self.settle();
        }
        self.tail_seen.wrapping_sub(self.head)
    }

    /// How many of the `most` oldest items `keep` accepts, up to the first that it does not. They stay in the ring.
    #[inline(always)]
    pub fn count_while(&mut self, most: usize, keep: impl FnMut(&T) -> bool) -> usize {
        let ready = self.ready(most).min(most);
        // SAFETY: as many slots from `head` on are ours and hold items.
        unsafe { self.ring.slots.count(self.head, ready, keep) }
    }

    /// Takes the oldest item.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.ready(1) == 0 {
            return None;
        }
        // SAFETY: there is an item at `head`, and `head` moves past it.
        let item = unsafe { self.ring.slots.take(self.head) };
        self.publish(self.head.wrapping_add(1));
        Some(item)
    }

    /// Takes up to `most` items, oldest first. The slots are given back at once, when the iterator is dropped;
    /// items that it did not hand out by then stay in the ring. With an iterator that is forgotten they are lost, and
    /// never dropped; its slots are given back when more is taken, or nothing is left.
    #[inline]
    pub fn drain(&mut self, most: usize) -> Drain<'_, T> {
        let (next, left) = (self.head, self.ready(most).min(most));
        // Nothing is handed out twice, whatever becomes of the iterator.
        self.head = next.wrapping_add(left);
        Drain { start: next, next, end: self.head, consumer: self }
    }

    /// Takes items to the front of a slice, as many as there are and fit. Returns how many.
    #[inline]
    pub fn pop_slice(&mut self, items: &mut [T]) -> usize
    where
        T: Copy,
    {
        let count = self.ready(items.len()).min(items.len());
        if count > 0 {
            // SAFETY: as many slots from `head` on are ours and hold items.
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

/// Items on their way out of a ring.
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
        // SAFETY: `at` lies between `head` and a `tail` that was seen, and `next` has just moved past it.
        Some(unsafe { self.consumer.ring.slots.take(at) })
    }

    /// Piece by piece, without a look at the end of the ring for each item.
    #[inline(always)]
    fn fold<B, F: FnMut(B, T) -> B>(mut self, first: B, mut f: F) -> B {
        let Self { consumer, next, end, .. } = &mut self;
        // SAFETY: the items up to `end` lie between `head` and a `tail` that was seen; `next` moves past each before it is
        // handed out.
        unsafe { consumer.ring.slots.empty(next, *end, first, &mut f) }
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
        // An empty poll leaves the line that the producer reads alone.
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
