//! The four rings of an `AF_XDP` socket, each shared between this process and the kernel.
//!
//! Protocol (`Documentation/networking/af_xdp.rst`): the consumer owns the entries between consumer and producer
//! index. The producer writes entries, then stores the producer index with release; this pairs with the consumer's
//! acquire load. The consumer reads entries, then stores the consumer index with release, which completes its reads;
//! this pairs with the producer's acquire load. Each index has one writer and wraps at 2^32. Own indices are kept
//! privately; the kernel's are loaded only when the cached value is exhausted.
//!
//! The kernel is trusted with its indices. An index is nevertheless masked before it is used as an offset.

use super::sys::Mapping;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::net::xdp::XdpRingOffset;

/// `struct xdp_desc`: a packet, or one fragment of it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// Offset of the first byte in the UMEM.
    pub(super) address: u64,
    /// Length in bytes.
    pub(super) len: u32,
    /// [`CONTINUED`] or 0.
    pub(super) options: u32,
}

/// `XDP_PKT_CONTD`: the packet continues in the next entry.
pub(super) const CONTINUED: u32 = 1;
/// `XDP_RING_NEED_WAKEUP`
const NEED_WAKEUP: u32 = 1;

/// Addresses of the parts of a ring.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    mask: u32,
    _mapping: Mapping,
}

// SAFETY: the pointers point into the mapping that the ring holds; each side of the ring has one thread at a time.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps the ring of `size` entries (a power of two) at `offset` of `socket`.
    fn map(socket: BorrowedFd<'_>, offset: u64, parts: &XdpRingOffset, size: u32) -> Result<Self, Errno> {
        let bytes = size as usize * size_of::<T>();
        let mapping = Mapping::new(socket, offset, parts.desc as usize + bytes)?;
        let index = |at: u64| mapping.at(at as usize, 4).map(NonNull::cast::<AtomicU32>);
        Ok(Self {
            producer: index(parts.producer)?,
            consumer: index(parts.consumer)?,
            // Kernels before 5.4 have no flags, and no BPF links for XDP either.
            flags: index(parts.flags.ok_or(Errno::OPNOTSUPP)?)?,
            entries: mapping.at(parts.desc as usize, bytes)?.cast(),
            mask: size - 1,
            _mapping: mapping,
        })
    }

    /// Producer index.
    #[inline(always)]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: the index is inside the mapping held by `self`; an atomic may change behind a reference.
        unsafe { self.producer.as_ref() }
    }

    /// Consumer index.
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
        // SAFETY: the mask keeps the offset below the ring size, which the mapping covers.
        unsafe { self.entries.add((index & self.mask) as usize) }
    }
}

/// Producer side of a ring: free frames for the kernel (fill), or frames to send (TX).
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Next entry to write. Earlier entries may be unpublished.
    next: u32,
    /// Consumer index of the kernel at the last load.
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

    /// Whether `n` more entries fit, as far as the kernel has released entries.
    #[inline(always)]
    pub(super) fn has_room(&mut self, n: u32) -> bool {
        let size = self.ring.mask + 1;
        if self.next.wrapping_sub(self.taken) + n > size {
            self.taken = self.ring.consumer().load(Ordering::Acquire);
        }
        self.next.wrapping_sub(self.taken) + n <= size
    }

    /// Writes an entry. Returns `false` if the ring is full.
    #[inline(always)]
    pub(super) fn put(&mut self, entry: T) -> bool {
        if !self.has_room(1) {
            return false;
        }
        // SAFETY: the entry is inside the ring and owned by the producer until it is published; there is no other
        // writer.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Publishes all entries written so far.
    #[inline(always)]
    pub(super) fn publish(&mut self) {
        // Pairs with the kernel's acquire load.
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Number of entries that the kernel has not consumed yet.
    pub(super) fn waiting(&mut self) -> u32 {
        self.taken = self.ring.consumer().load(Ordering::Acquire);
        self.next.wrapping_sub(self.taken)
    }

    /// Whether the kernel needs a wakeup (system call) to process this ring.
    #[inline(always)]
    pub(super) fn wants_wakeup(&self) -> bool {
        self.ring.flags().load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

/// Consumer side of a ring: received frames (RX), or sent frames (completion).
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// Next entry to read.
    next: u32,
    /// Producer index of the kernel at the last load.
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

    /// Number of readable entries. The kernel's index is loaded only if the cached value is exhausted.
    #[inline(always)]
    pub(super) fn available(&mut self) -> u32 {
        if self.filled == self.next {
            self.filled = self.ring.producer().load(Ordering::Acquire);
        }
        self.filled.wrapping_sub(self.next)
    }

    /// Loads the kernel's index unconditionally and returns the number of readable entries.
    #[inline(always)]
    pub(super) fn refresh(&mut self) -> u32 {
        self.filled = self.ring.producer().load(Ordering::Acquire);
        self.filled.wrapping_sub(self.next)
    }

    /// Readable entry `i`.
    #[inline(always)]
    pub(super) fn peek(&self, i: u32) -> T {
        debug_assert!(i < self.filled.wrapping_sub(self.next));
        // SAFETY: the entry is inside the ring; the acquire load of the producer index orders this read after the
        // write.
        unsafe { self.ring.entry(self.next.wrapping_add(i)).read() }
    }

    /// Releases the first `n` entries to the kernel.
    #[inline(always)]
    pub(super) fn release(&mut self, n: u32) {
        if n > 0 {
            self.next = self.next.wrapping_add(n);
            // Pairs with the kernel's acquire load: our reads precede its next writes.
            self.ring.consumer().store(self.next, Ordering::Release);
        }
    }

    /// Prefetches the lines that are read first.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        mem::line::prefetch_read(self.ring.producer.as_ptr().cast_const().cast());
        mem::line::prefetch_read(self.ring.entry(self.next).as_ptr().cast_const().cast());
    }
}

/// A ring in a memory file, with both sides in the test.
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
    fn entries_are_visible_only_after_publish() {
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
    fn full_ring_rejects_entries() {
        let (mut producer, mut consumer, _file) = over_memory::<u64>(4);
        assert!((0..4).all(|entry| producer.put(entry)) && !producer.put(4));
        producer.publish();
        assert_eq!(consumer.available(), 4);
        consumer.release(1);
        assert!(!producer.has_room(2) && producer.has_room(1));
        assert!(producer.put(4) && !producer.put(5));
    }

    #[test]
    fn need_wakeup_flag_is_read() {
        let (producer, _consumer, file) = over_memory::<u64>(4);
        assert!(!producer.wants_wakeup());
        file.write_at(&1_u32.to_ne_bytes(), 128).unwrap();
        assert!(producer.wants_wakeup());
    }

    #[test]
    fn ring_beyond_its_mapping_is_rejected() {
        use rustix::fd::AsFd;
        let mapping = Mapping::new(tempfile::tempfile().unwrap().as_fd(), 0, 4096).unwrap();
        assert!(mapping.at(4092, 4).is_ok());
        assert_eq!(mapping.at(4093, 4), Err(Errno::RANGE));
        assert_eq!(mapping.at(usize::MAX, 4), Err(Errno::RANGE));
    }

    proptest! {
        #[test]
        fn entries_keep_their_order(
            steps in prop::collection::vec((0_u32..9, 0_u32..9), 1..200),
            start in prop::sample::select(vec![0_u32, u32::MAX - 5]),
        ) {
            let (mut producer, mut consumer, file) = over_memory::<Piece>(8);
            // Start indices so that they wrap at 2^32.
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
