//! The four rings of an `AF_XDP` socket: one side of each is ours, the other the kernel's.
//!
//! Protocol (`Documentation/networking/af_xdp.rst`): entries between consumer and producer are the consumer's. The
//! producer writes entries and then the producer index, with release; that pairs with the consumer's acquire load of
//! it. The consumer reads entries and then writes the consumer index, with release, so that its reads are over; that
//! pairs with the producer's acquire load. Each index has one writer and wraps at 2^32. Ours are kept in private and
//! the kernel's are loaded only when what was known of them is used up.
//!
//! The kernel is trusted with its indices. An index from it is reduced by the ring's mask all the same before it
//! becomes an offset.

use super::sys::Mapping;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::net::xdp::XdpRingOffset;

/// `struct xdp_desc`: a frame, or a piece of one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// Offset of its first byte in the UMEM.
    pub(super) address: u64,
    /// Bytes.
    pub(super) len: u32,
    /// [`CONTINUED`], or nothing.
    pub(super) options: u32,
}

/// `XDP_PKT_CONTD`: the frame goes on in the next entry.
pub(super) const CONTINUED: u32 = 1;
/// `XDP_RING_NEED_WAKEUP`
const NEED_WAKEUP: u32 = 1;

/// Where a ring's parts lie.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    mask: u32,
    _mapping: Mapping,
}

// SAFETY: the pointers lead into the mapping that the ring holds; one thread at a time has each side of it.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps the ring of `size` entries, a power of two, that `socket` has at `offset`.
    fn map(socket: BorrowedFd<'_>, offset: u64, parts: &XdpRingOffset, size: u32) -> Result<Self, Errno> {
        let bytes = size as usize * size_of::<T>();
        let mapping = Mapping::new(socket, offset, parts.desc as usize + bytes)?;
        let index = |at: u64| mapping.at(at as usize, 4).map(NonNull::cast::<AtomicU32>);
        Ok(Self {
            producer: index(parts.producer)?,
            consumer: index(parts.consumer)?,
            // Kernels before 5.4 have none, and no links for programs either.
            flags: index(parts.flags.ok_or(Errno::OPNOTSUPP)?)?,
            entries: mapping.at(parts.desc as usize, bytes)?.cast(),
            mask: size - 1,
            _mapping: mapping,
        })
    }

    /// The index that the producer writes.
    #[inline(always)]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: it lies in the mapping that `self` holds; an atomic may change under a reference.
        unsafe { self.producer.as_ref() }
    }

    /// The index that the consumer writes.
    #[inline(always)]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as in `producer`.
        unsafe { self.consumer.as_ref() }
    }

    #[inline(always)]
    fn flags(&self) -> &AtomicU32 {
        // SAFETY: as in `producer`.
        unsafe { self.flags.as_ref() }
    }

    #[inline(always)]
    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: the mask keeps the offset below the ring's size, which the mapping has room for.
        unsafe { self.entries.add((index & self.mask) as usize) }
    }
}

/// A ring that we fill: free frames for the kernel, or frames to send.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// The next entry to write; those before it may be unpublished.
    next: u32,
    /// The kernel's index, as it was loaded last.
    taken: u32,
}

impl<T: Copy> Producer<T> {
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        offset: u64,
        parts: &XdpRingOffset,
        size: u32,
    ) -> Result<Self, Errno> {
        let ring = Ring::map(socket, offset, parts, size)?;
        let (next, taken) =
            (ring.producer().load(Ordering::Relaxed), ring.consumer().load(Ordering::Acquire));
        Ok(Self { ring, next, taken })
    }

    /// Whether `n` more entries can be written, as far as the kernel has shown what it took.
    #[inline(always)]
    pub(super) fn has_room(&mut self, n: u32) -> bool {
        let size = self.ring.mask + 1;
        if self.next.wrapping_sub(self.taken) + n > size {
            self.taken = self.ring.consumer().load(Ordering::Acquire);
        }
        self.next.wrapping_sub(self.taken) + n <= size
    }

    /// Writes an entry. `false`: there is no room.
    #[inline(always)]
    pub(super) fn put(&mut self, entry: T) -> bool {
        if !self.has_room(1) {
            return false;
        }
        // SAFETY: the entry lies in the ring and is ours until it is published; there is no other writer.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Shows the kernel everything written so far.
    #[inline(always)]
    pub(super) fn publish(&mut self) {
        // Pairs with the kernel's acquire load.
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// How many entries the kernel has not taken yet.
    pub(super) fn waiting(&mut self) -> u32 {
        self.taken = self.ring.consumer().load(Ordering::Acquire);
        self.next.wrapping_sub(self.taken)
    }

    /// Whether the kernel has to be called to look at this ring.
    #[inline(always)]
    pub(super) fn wants_wakeup(&self) -> bool {
        self.ring.flags().load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

/// A ring that the kernel fills: frames that were received, or that were sent and are free again.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// The next entry to read.
    next: u32,
    /// The kernel's index, as it was loaded last.
    filled: u32,
}

impl<T: Copy> Consumer<T> {
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        offset: u64,
        parts: &XdpRingOffset,
        size: u32,
    ) -> Result<Self, Errno> {
        let ring = Ring::map(socket, offset, parts, size)?;
        let next = ring.consumer().load(Ordering::Relaxed);
        Ok(Self { ring, next, filled: next })
    }

    /// How many entries can be read; the kernel is asked only when nothing is left of what it said before.
    #[inline(always)]
    pub(super) fn available(&mut self) -> u32 {
        if self.filled == self.next {
            self.filled = self.ring.producer().load(Ordering::Acquire);
        }
        self.filled.wrapping_sub(self.next)
    }

    /// Asks the kernel again, whatever is left. How many entries can be read now.
    #[inline(always)]
    pub(super) fn refresh(&mut self) -> u32 {
        self.filled = self.ring.producer().load(Ordering::Acquire);
        self.filled.wrapping_sub(self.next)
    }

    /// Entry number `i` of those that can be read.
    #[inline(always)]
    pub(super) fn peek(&self, i: u32) -> T {
        debug_assert!(i < self.filled.wrapping_sub(self.next));
        // SAFETY: the entry lies in the ring; the acquire load that showed it orders this read behind its writing.
        unsafe { self.ring.entry(self.next.wrapping_add(i)).read() }
    }

    /// Gives the first `n` entries back to the kernel.
    #[inline(always)]
    pub(super) fn release(&mut self, n: u32) {
        if n > 0 {
            self.next = self.next.wrapping_add(n);
            // Pairs with the kernel's acquire load: what it writes next it writes after our reads.
            self.ring.consumer().store(self.next, Ordering::Release);
        }
    }

    /// Fetches the lines that are read first.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        mem::line::prefetch_read(self.ring.producer.as_ptr().cast_const().cast());
        mem::line::prefetch_read(self.ring.entry(self.next).as_ptr().cast_const().cast());
    }
}

/// A ring over a file of memory, of which a test has both sides.
#[cfg(test)]
pub(super) fn over_memory<T: Copy>(size: u32) -> (Producer<T>, Consumer<T>, std::fs::File) {
    use rustix::fd::AsFd;
    let parts = XdpRingOffset { producer: 0, consumer: 64, flags: Some(128), desc: 192 };
    let file = tempfile::tempfile().unwrap();
    file.set_len(192 + u64::from(size) * size_of::<T>() as u64).unwrap();
    let producer = Producer::map(file.as_fd(), 0, &parts, size).unwrap();
    (producer, Consumer::map(file.as_fd(), 0, &parts, size).unwrap(), file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::os::unix::fs::FileExt;

    #[test]
    fn nothing_is_seen_before_it_is_published() {
        let (mut producer, mut consumer, _file) = over_memory::<u64>(4);
        assert!(producer.put(7) && producer.put(8));
        assert_eq!(consumer.available(), 0);
        producer.publish();
        assert_eq!((consumer.available(), consumer.peek(0), consumer.peek(1)), (2, 7, 8));
        assert_eq!(producer.waiting(), 2);
        consumer.release(1);
        assert_eq!((producer.waiting(), consumer.available()), (1, 1));
    }

    #[test]
    fn a_full_ring_takes_no_more() {
        let (mut producer, mut consumer, _file) = over_memory::<u64>(4);
        assert!((0..4).all(|entry| producer.put(entry)) && !producer.put(4));
        producer.publish();
        assert_eq!(consumer.available(), 4);
        consumer.release(1);
        assert!(!producer.has_room(2) && producer.has_room(1));
        assert!(producer.put(4) && !producer.put(5));
    }

    #[test]
    fn the_flag_that_asks_for_a_call_is_seen() {
        let (producer, _consumer, file) = over_memory::<u64>(4);
        assert!(!producer.wants_wakeup());
        file.write_at(&1_u32.to_ne_bytes(), 128).unwrap();
        assert!(producer.wants_wakeup());
    }

    #[test]
    fn a_ring_that_ends_before_its_entries_do_is_refused() {
        use rustix::fd::AsFd;
        let mapping = Mapping::new(tempfile::tempfile().unwrap().as_fd(), 0, 4096).unwrap();
        assert!(mapping.at(4092, 4).is_ok());
        assert_eq!(mapping.at(4093, 4), Err(Errno::RANGE));
        assert_eq!(mapping.at(usize::MAX, 4), Err(Errno::RANGE));
    }

    proptest! {
        #[test]
        fn entries_come_out_in_the_order_in_which_they_were_put_in(
            steps in prop::collection::vec((0_u32..9, 0_u32..9), 1..200),
            start in prop::sample::select(vec![0_u32, u32::MAX - 5]),
        ) {
            let (mut producer, mut consumer, file) = over_memory::<Piece>(8);
            // Indices wrap at 2^32 as they do anywhere else.
            file.write_at(&start.to_ne_bytes(), 0).unwrap();
            file.write_at(&start.to_ne_bytes(), 64).unwrap();
            (producer.next, producer.taken) = (start, start);
            (consumer.next, consumer.filled) = (start, start);
            let (mut expected, mut number) = (VecDeque::new(), 0);
            for (puts, takes) in steps {
                for _ in 0..puts {
                    let piece = Piece { address: number, len: number as u32, options: 0 };
                    prop_assert_eq!(producer.put(piece), expected.len() < 8);
                    if expected.len() < 8 {
                        expected.push_back(piece);
                        number += 1;
                    }
                }
                producer.publish();
                let n = takes.min(consumer.refresh());
                for i in 0..n {
                    prop_assert_eq!(Some(consumer.peek(i)), expected.pop_front());
                }
                consumer.release(n);
            }
        }
    }
}
