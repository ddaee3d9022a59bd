//! What is unsafe about `io_uring`: requests that name memory, and the ring of slots that the kernel reads.
//!
//! Reception: the kernel writes to slots that were offered and not yet come back, and to no others; whoever owns a
//! [`Receiver`] keeps the slots' map for as long. The ring of offers is written by us only and read by the kernel: entries
//! first, then the position with release, which pairs with the kernel's acquire load of it.
//! Sending: every request that [`Sender::send`] makes is complete when it returns.

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

/// Slots that the kernel can have in hand: a power of two.
const OFFERS: u16 = 2 * BURST as u16;
/// Bytes of an entry in the ring of offers (`struct io_uring_buf`), and where in it the fields are.
const ENTRY: usize = 16;
const LENGTH: usize = 8;
const NUMBER: usize = 12;
/// Where the position of the first entry that is not offered stands: in what is reserved in the first one.
const TAIL: usize = 14;
/// The only group of slots.
const GROUP: u16 = 0;
/// How long a thread of the kernel polls before it sleeps, in milliseconds.
const POLLS_FOR: u32 = 2;

/// Whether the kernel gives this process a ring that can do what is asked of it here.
pub(in super::super) fn probe() -> Result<()> {
    let (ring, mut probe) = (builder(false).build(4)?, Probe::new());
    ring.submitter().register_enable_rings()?;
    ring.submitter().register_probe(&mut probe)?;
    let known = probe.is_supported(opcode::ReadMulti::CODE);
    if known { Ok(()) } else { Err(std::io::ErrorKind::Unsupported.into()) }
}

/// A ring for one thread, which only then runs the kernel's work on it; or one with a thread of the kernel's.
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

/// A read that stays posted, and its slots.
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

/// What came of a read.
pub(super) enum Received {
    /// A packet in this slot, with header and all of this length.
    Packet(u16, usize),
    /// It has to be posted again.
    Ended,
    /// It cannot be.
    Failed(Errno),
}

impl Receiver {
    /// A receiver from number `pair` of `tuns`, of which nothing is used before [`Receiver::enable`].
    pub(super) fn new(tuns: &Arc<[OwnedFd]>, pair: usize, event: OwnedFd, thread: bool) -> Result<Self> {
        let memory = |fault: PortFault| std::io::Error::other(fault.to_string());
        let offers = Arena::new(1, usize::from(OFFERS) * ENTRY).map_err(memory)?;
        let ring = builder(thread).setup_cqsize(4 * u32::from(OFFERS)).build(4)?;
        // SAFETY: the entries lie at the start of pages of their own, which go after the ring does.
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

    /// Makes the calling thread the one that uses the ring.
    pub(super) fn enable(&mut self) -> Result<()> {
        if !self.is_enabled {
            self.ring.submitter().register_enable_rings()?;
            self.is_enabled = true;
        }
        Ok(())
    }

    /// Lets the kernel have a slot, of whose map the caller takes care.
    #[inline(always)]
    pub(super) fn offer(&mut self, slot: u16, whole: VolatileSlice) {
        let (ring, at) = (self.offers.slot(0), usize::from(self.tail % OFFERS) * ENTRY);
        // SAFETY: the arena is held by `self`, and a position below the number of entries lies inside. The last two
        // bytes of an entry are left alone: in the first one they are the position.
        unsafe {
            ring.store_u64(at, whole.addr() as u64, Relaxed);
            ring.store_u32(at + LENGTH, whole.len() as u32, Relaxed);
            ring.store_u16(at + NUMBER, slot, Relaxed);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Makes what was offered visible.
    #[inline(always)]
    pub(super) fn publish(&mut self) {
        // SAFETY: as in `offer`; the position is aligned. Release: pairs with the kernel's acquire load.
        unsafe { self.offers.slot(0).store_u16(TAIL, self.tail, Release) };
    }

    /// Whether the read is posted, so that packets come.
    #[inline(always)]
    pub(super) fn is_posted(&self) -> bool {
        self.is_posted
    }

    /// Posts the read. The caller has offered slots.
    #[cold]
    pub(super) fn post(&mut self) -> Result<()> {
        let read = opcode::ReadMulti::new(Fd(self.tuns[self.pair].as_raw_fd()), 0, GROUP).build();
        // SAFETY: it names no memory but the group's. The descriptor is held by `self`.
        let pushed = unsafe { self.ring.submission().push(&read) };
        pushed.map_err(std::io::Error::other)?;
        self.ring.submit()?;
        self.is_posted = true;
        Ok(())
    }

    /// Whether a look would find anything. Costs no system call.
    #[inline(always)]
    pub(super) fn is_ready(&mut self) -> bool {
        self.ring.submission().taskrun() || !self.ring.completion().is_empty()
    }

    /// Has the kernel do what it has noted, if it has.
    #[inline(always)]
    pub(super) fn enter(&mut self) -> Result<()> {
        if self.ring.submission().taskrun() || self.ring.submission().cq_overflow() {
            self.ring.submit()?;
        }
        Ok(())
    }

    /// Harvests up to `most` packets.
    #[inline(always)]
    pub(super) fn harvest(&mut self, most: usize, mut each: impl FnMut(Received)) {
        let mut ended = false;
        for entry in self.ring.completion().take(most) {
            ended |= !cqueue::more(entry.flags());
            each(received(&entry));
        }
        self.is_posted &= !ended;
    }

    /// Becomes readable when packets come, once it was armed.
    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Asks for the event. Whether there is something already.
    pub(super) fn enable_notification(&mut self) -> bool {
        self.ring.completion().enable_eventfd();
        // Orders our flag before our look; pairs with the kernel's locked setting of its own before it looks at ours.
        fence(std::sync::atomic::Ordering::SeqCst);
        self.is_ready()
    }

    /// Asks for no event.
    pub(super) fn disable_notification(&mut self) {
        self.ring.completion().disable_eventfd();
    }
}

fn received(entry: &cqueue::Entry) -> Received {
    match (entry.result(), cqueue::buffer_select(entry.flags())) {
        (len, Some(slot)) if len >= 0 => Received::Packet(slot, len as usize),
        // No slots, interrupted, or a read of nothing: the next try says more.
        (0.., None) => Received::Ended,
        (errno, _) => match Errno::from_raw_os_error(-errno) {
            Errno::NOBUFS | Errno::AGAIN | Errno::INTR | Errno::CANCELED => Received::Ended,
            errno => Received::Failed(errno),
        },
    }
}

impl Drop for Receiver {
    /// Without a thread of its own the kernel writes to slots only inside calls of the worker, and there are none any
    /// more. With one, it must have let go of them before they go.
    fn drop(&mut self) {
        if self.has_thread && self.is_enabled {
            // That there was nothing to cancel is as good.
            let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
        }
    }
}

/// Writes of one burst.
pub(in super::super) struct Sender {
    ring: IoUring,
    is_enabled: bool,
    headers: [[u8; OFFLOAD_HEADER]; BURST],
    pieces: Vec<libc::iovec>,
}

// SAFETY: the pieces are of use during one call of `send` only, which makes them first.
unsafe impl Send for Sender {}

/// Pieces of all packets of a burst.
const PIECES: usize = 4 * BURST;

impl Sender {
    /// A sender of which nothing is used before the first call.
    pub(in super::super) fn new() -> Result<Self> {
        Ok(Self {
            ring: builder(false).setup_submit_all().build(BURST as u32)?,
            is_enabled: false,
            headers: [[0; OFFLOAD_HEADER]; BURST],
            pieces: Vec::with_capacity(PIECES),
        })
    }

    /// Writes packets of `burst` in the order of `indices`, as far as their pieces find room, and tells for each how that
    /// ended, by its place in `indices`. How many were taken.
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
                self.ring.submit_and_wait(taken - seen)?;
                for entry in self.ring.completion() {
                    each(entry.user_data() as usize, entry.result());
                    seen += 1;
                }
            }
        }
        Ok(taken)
    }

    /// Queues one write. `false` when there is no room for its pieces.
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
        // SAFETY: pieces and headers stay where they are, because their vector never grows beyond its room; heads are
        // borrowed with the burst, which has pinned the maps of the rest; and `send` returns when all of it is written.
        unsafe { self.ring.submission().push(&write) }.is_ok()
    }
}

fn piece(base: *const u8, len: usize) -> libc::iovec {
    libc::iovec { iov_base: base.cast_mut().cast(), iov_len: len }
}
