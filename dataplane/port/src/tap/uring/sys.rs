//! Unsafe code of `io_uring`: requests that refer to memory, and the provided-buffer ring read by the kernel.
//!
//! Receive: the kernel writes only to slots that were provided and have not returned; the owner of a [`Receiver`] must
//! keep the slots' memory alive for as long. Only this process writes the buffer ring, and the kernel reads it: entries
//! first, then the tail with release, which pairs with the kernel's acquire load. Transmit: every request of
//! [`Sender::send`] is complete when it returns.

use crate::arena::Arena;
use crate::{BURST, Burst, OFFLOAD_HEADER, PortFault};
use core::sync::atomic::Ordering::{Relaxed, Release};
use io_uring::types::{CancelBuilder, Fd};
use io_uring::{Builder, IoUring, Probe, cqueue, opcode};
use mem::VolatileSlice;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::io::Result;
use std::sync::Arc;
use std::sync::atomic::fence;

/// Number of entries of the buffer ring: a power of two.
const OFFERS: u16 = 2 * BURST as u16;
/// Size of a buffer ring entry (`struct io_uring_buf`) and its field offsets, in bytes.
const ENTRY: usize = 16;
const LENGTH: usize = 8;
const NUMBER: usize = 12;
/// Offset of the ring tail: in the reserved field of the first entry.
const TAIL: usize = 14;
/// The only buffer group.
const GROUP: u16 = 0;
/// Idle time of the SQPOLL thread before it sleeps, in milliseconds.
const POLLS_FOR: u32 = 2;

/// Checks whether the kernel supports the required ring features for this process.
pub(in super::super) fn probe() -> Result<()> {
    let (ring, mut probe) = (builder(false).build(4)?, Probe::new());
    ring.submitter().register_enable_rings()?;
    ring.submitter().register_probe(&mut probe)?;
    let known = probe.is_supported(opcode::ReadMulti::CODE);
    if known { Ok(()) } else { Err(std::io::ErrorKind::Unsupported.into()) }
}

/// A ring for one issuer thread with deferred task work; or one with an SQPOLL thread.
fn builder(thread: bool) -> Builder {
    let mut builder = IoUring::builder();
    builder.setup_r_disabled();
    if thread {
        builder.setup_sqpoll(POLLS_FOR);
    } else {
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    }
    builder
}

/// A multishot read and its buffer ring.
pub(super) struct Receiver {
    ring: IoUring,
    offers: Arena,
    tail: u16,
    tuns: Arc<[OwnedFd]>,
    pair: usize,
    event: OwnedFd,
    is_enabled: bool,
    is_posted: bool,
    has_thread: bool,
}

/// Completion of a read.
pub(super) enum Received {
    /// A packet in this slot; length of header and frame.
    Packet(u16, usize),
    /// The read must be reposted.
    Ended,
    /// The read failed.
    Failed(Errno),
}

impl Receiver {
    /// A receiver on descriptor `pair` of `tuns`. Not active before [`Receiver::enable`].
    pub(super) fn new(tuns: &Arc<[OwnedFd]>, pair: usize, event: OwnedFd, thread: bool) -> Result<Self> {
        let memory = |fault: PortFault| std::io::Error::other(fault.to_string());
        let offers = Arena::new(1, usize::from(OFFERS) * ENTRY).map_err(memory)?;
        let ring = builder(thread).setup_cqsize(4 * u32::from(OFFERS)).build(4)?;
        // SAFETY: the entries are at the start of separate pages, which are freed after the ring.
        unsafe {
            let at = offers.slot(0).addr() as u64;
            ring.submitter().register_buf_ring_with_flags(at, OFFERS, GROUP, 0)?;
        }
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        let tuns = tuns.clone();
        Ok(Self {
            ring,
            offers,
            tail: 0,
            tuns,
            pair,
            event,
            is_enabled: false,
            is_posted: false,
            has_thread: thread,
        })
    }

    /// Binds the ring to the calling thread.
    pub(super) fn enable(&mut self) -> Result<()> {
        if !self.is_enabled {
            self.ring.submitter().register_enable_rings()?;
            self.is_enabled = true;
        }
        Ok(())
    }

    /// Provides a slot to the kernel. The caller must keep its memory alive.
    #[inline(always)]
    pub(super) fn offer(&mut self, slot: u16, whole: VolatileSlice) {
        let (ring, at) = (self.offers.slot(0), usize::from(self.tail % OFFERS) * ENTRY);
        // SAFETY: `self` holds the arena, and the offset is inside it. The last two bytes of an entry are not written:
        // in the first entry they are the tail.
        unsafe {
            ring.store_u64(at, whole.addr() as u64, Relaxed);
            ring.store_u32(at + LENGTH, whole.len() as u32, Relaxed);
            ring.store_u16(at + NUMBER, slot, Relaxed);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Makes provided slots visible.
    #[inline(always)]
    pub(super) fn publish(&mut self) {
        // SAFETY: as in `offer`; the tail is aligned. Release pairs with the kernel's acquire load.
        unsafe { self.offers.slot(0).store_u16(TAIL, self.tail, Release) };
    }

    /// Whether the read is posted.
    #[inline(always)]
    pub(super) fn is_posted(&self) -> bool {
        self.is_posted
    }

    /// Posts the read. Slots must be provided before.
    #[cold]
    pub(super) fn post(&mut self) -> Result<()> {
        let read = opcode::ReadMulti::new(Fd(self.tuns[self.pair].as_raw_fd()), 0, GROUP).build();
        // SAFETY: it refers only to memory of the buffer group. `self` holds the descriptor.
        let pushed = unsafe { self.ring.submission().push(&read) };
        pushed.map_err(std::io::Error::other)?;
        uninterrupted(|| self.ring.submit())?;
        self.is_posted = true;
        Ok(())
    }

    /// Whether completions may be available. Needs no system call.
    #[inline(always)]
    pub(super) fn is_ready(&mut self) -> bool {
        self.ring.submission().taskrun() || !self.ring.completion().is_empty()
    }

    /// Enters the kernel if it has pending work.
    #[inline(always)]
    pub(super) fn enter(&mut self) -> Result<()> {
        if self.ring.submission().taskrun() || self.ring.submission().cq_overflow() {
            uninterrupted(|| self.ring.submit())?;
        }
        Ok(())
    }

    /// Reaps up to `most` completions.
    #[inline(always)]
    pub(super) fn harvest(&mut self, most: usize, mut each: impl FnMut(Received)) {
        let mut ended = false;
        for entry in self.ring.completion().take(most) {
            ended |= !cqueue::more(entry.flags());
            each(received(&entry));
        }
        self.is_posted &= !ended;
    }

    /// Eventfd that becomes readable when packets arrive, if notification is enabled.
    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Enables the eventfd. Returns whether completions are already available.
    pub(super) fn enable_notification(&mut self) -> bool {
        self.ring.completion().enable_eventfd();
        // Orders the flag store before the check; pairs with the kernel's atomic update before it reads the flag.
        fence(std::sync::atomic::Ordering::SeqCst);
        self.is_ready()
    }

    /// Disables the eventfd.
    pub(super) fn disable_notification(&mut self) {
        self.ring.completion().disable_eventfd();
    }
}

/// Repeats a call that a signal has interrupted, such as SIGCONT. Requests that the kernel has taken are not submitted
/// again.
#[inline(always)]
fn uninterrupted(call: impl Fn() -> Result<usize>) -> Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn received(entry: &cqueue::Entry) -> Received {
    match (entry.result(), cqueue::buffer_select(entry.flags())) {
        (len, Some(slot)) if len >= 0 => Received::Packet(slot, len as usize),
        // Out of slots, interrupted, or an empty read: repost the read.
        (0.., None) => Received::Ended,
        (errno, _) => match Errno::from_raw_os_error(-errno) {
            Errno::NOBUFS | Errno::AGAIN | Errno::INTR | Errno::CANCELED => Received::Ended,
            errno => Received::Failed(errno),
        },
    }
}

impl Receiver {
    /// Ends the read, and reaps its last completions: the kernel writes to no slot afterwards. Without a kernel thread,
    /// it writes to slots only during the worker's calls, of which there are none any more.
    pub(super) fn end(&mut self, mut each: impl FnMut(Received)) {
        self.harvest(usize::MAX, &mut each);
        while self.has_thread && self.is_posted {
            // Does not find a read that the thread executes at this moment, or has not begun.
            let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
            self.harvest(usize::MAX, &mut each);
            std::thread::yield_now();
        }
    }
}

impl Drop for Receiver {
    /// The slots are freed next.
    fn drop(&mut self) {
        self.end(|_| ());
    }
}

/// Writer of whole bursts.
pub(in super::super) struct Sender {
    ring: IoUring,
    is_enabled: bool,
    headers: [[u8; OFFLOAD_HEADER]; BURST],
    pieces: Vec<libc::iovec>,
}

// SAFETY: the iovecs are used only during one call of `send`, which creates them.
unsafe impl Send for Sender {}

/// Capacity in iovecs for all packets of a burst.
const PIECES: usize = 4 * BURST;

impl Sender {
    /// Creates a sender. The ring is enabled by the first call.
    pub(in super::super) fn new() -> Result<Self> {
        Ok(Self {
            ring: builder(false).setup_submit_all().build(BURST as u32)?,
            is_enabled: false,
            headers: [[0; OFFLOAD_HEADER]; BURST],
            pieces: Vec::with_capacity(PIECES),
        })
    }

    /// Writes packets of `burst` in the order of `indices`, as far as their iovecs fit, and calls `each` with position
    /// in `indices` and result of each. Returns the number taken.
    pub(in super::super) fn send(
        &mut self,
        tun: BorrowedFd<'_>,
        burst: &Burst,
        indices: &[u8],
        mut each: impl FnMut(usize, i32),
    ) -> Result<usize> {
        if !self.is_enabled {
            self.ring.submitter().register_enable_rings()?;
            self.is_enabled = true;
        }
        self.pieces.clear();
        let mut taken = 0;
        while taken < indices.len() && self.put(tun, burst, indices[taken], taken) {
            taken += 1;
        }
        if taken > 0 {
            let mut seen = 0;
            while seen < taken {
                uninterrupted(|| self.ring.submit_and_wait(taken - seen))?;
                for entry in self.ring.completion() {
                    each(entry.user_data() as usize, entry.result());
                    seen += 1;
                }
            }
        }
        Ok(taken)
    }

    /// Queues one write. Returns `false` if its iovecs do not fit.
    #[inline(always)]
    fn put(&mut self, tun: BorrowedFd<'_>, burst: &Burst, pick: u8, number: usize) -> bool {
        let frame = burst.frame(usize::from(pick));
        let (first, room) = (self.pieces.len(), PIECES - self.pieces.len());
        if frame.rest().count() + 2 > room {
            return false;
        }
        let header = &mut self.headers[number];
        *header = frame.offload.header(frame.head);
        self.pieces.push(piece(header.as_ptr(), header.len()));
        self.pieces.push(piece(frame.head.as_ptr(), frame.head.len()));
        self.pieces.extend(frame.rest().map(|seg| piece(seg.as_ptr(), seg.len())));
        let write = opcode::Writev::new(
            Fd(tun.as_raw_fd()),
            self.pieces[first..].as_ptr(),
            (self.pieces.len() - first) as u32,
        )
        .rw_flags(libc::RWF_NOWAIT)
        .build()
        .user_data(number as u64);
        // SAFETY: iovecs and headers do not move, because the vector never exceeds its capacity; heads are borrowed
        // with the burst, which has pinned the memory of the rest; and `send` returns after all writes are complete.
        unsafe { self.ring.submission().push(&write) }.is_ok()
    }
}

fn piece(base: *const u8, len: usize) -> libc::iovec {
    libc::iovec { iov_base: base.cast_mut().cast(), iov_len: len }
}
