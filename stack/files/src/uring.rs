//! Unsafe code of `io_uring`: requests that name memory which the kernel reads or writes later.
//!
//! Each request in the ring owns what it names (path, file, socket, block) and is an entry of `in_flight`, which
//! nothing reads until its completion has arrived. Dropping the ring waits for all completions.

use crate::{ALIGNMENT, Block, Done, OPEN, Op, RESOLVE, Submission};
use io_uring::types::{CancelBuilder, Fd, OpenHow};
use io_uring::{IoUring, opcode, squeue};
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SendFlags;
use slab::Slab;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of requests in the ring. Further ones wait in the queue of their owner.
const ENTRIES: u32 = 256;

/// Requests in the kernel.
pub(crate) struct Ring<T> {
    kernel: IoUring,
    in_flight: Slab<Op<T>>,
    /// Directory of all paths.
    root: Arc<OwnedFd>,
    /// Parameters of all requests to open a file, which the kernel reads.
    how: Box<OpenHow>,
    /// System calls so far.
    calls: u64,
}

impl<T> std::fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight.len()).finish_non_exhaustive()
    }
}

impl<T> Ring<T> {
    /// An empty ring, and why it has no kernel thread, if one was requested and the kernel refuses it.
    pub(crate) fn new(root: &Arc<OwnedFd>, submission: Submission) -> io::Result<(Self, Option<io::Error>)> {
        let (kernel, refused) = match submission {
            Submission::Calls => (IoUring::new(ENTRIES)?, None),
            Submission::Thread { idle, cpu } => match polled(idle, cpu) {
                Ok(kernel) => (kernel, None),
                Err(error) => (IoUring::new(ENTRIES)?, Some(error)),
            },
        };
        let how = Box::new(OpenHow::new().flags(OPEN.bits().into()).resolve(RESOLVE.bits()));
        let in_flight = Slab::with_capacity(ENTRIES as usize);
        Ok((Self { kernel, in_flight, root: root.clone(), how, calls: 0 }, refused))
    }

    /// Number of system calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    pub(crate) fn is_full(&self) -> bool {
        self.in_flight.len() >= ENTRIES as usize
    }

    /// Adds a request. The ring must not be full.
    pub(crate) fn push(&mut self, op: Op<T>) {
        let slot = self.in_flight.insert(op);
        let Some(op) = self.in_flight.get_mut(slot) else { return };
        let entry = entry(op, &self.root, &self.how).user_data(slot as u64);
        // SAFETY: what the entry names is owned by the request in `in_flight`, or by `self`, until the completion: the
        // path and the block are allocations of their own, which do not move with the request. The block has no other
        // handle (`crate::is_usable`), so its bytes are neither read nor written before. A kernel thread may read the
        // entry at once: `push` writes it before the Release store of the tail, which pairs with the thread's load.
        let pushed = unsafe { self.kernel.submission().push(&entry) };
        debug_assert!(pushed.is_ok(), "the ring has as many entries as requests in flight");
    }

    /// Passes all requests to the kernel: by a system call, which only wakes the kernel thread if there is one. On an
    /// error they stay in the ring for the next call.
    pub(crate) fn submit(&mut self) {
        let is_polled = self.kernel.params().is_setup_sqpoll();
        let ring = self.kernel.submission();
        // A thread that does not need to be woken sees all requests before it sleeps.
        if !ring.is_empty() && (!is_polled || ring.need_wakeup()) {
            drop(ring);
            self.calls += 1;
            let _ = self.kernel.submit();
        }
    }

    /// Whether completions have arrived.
    pub(crate) fn is_pending(&mut self) -> bool {
        !self.in_flight.is_empty() && !self.kernel.completion().is_empty()
    }

    /// The next completion. A request that the kernel interrupted returns to `queue`, without a result.
    pub(crate) fn next_done(&mut self, queue: &mut VecDeque<Op<T>>) -> Option<Done<T>> {
        if self.in_flight.is_empty() {
            return None;
        }
        let completion = self.kernel.completion().next()?;
        let (slot, value) = (completion.user_data() as usize, completion.result());
        let op = self.in_flight.try_remove(slot)?;
        let result = usize::try_from(value).map_err(|_| Errno::from_raw_os_error(-value));
        match (op, result) {
            (Op::Open { token, .. }, Ok(_)) => {
                // SAFETY: the kernel returned a new descriptor, which has no other owner.
                Some(Done::Opened(token, Ok(unsafe { OwnedFd::from_raw_fd(value) })))
            }
            (Op::Open { token, .. }, Err(error)) => Some(Done::Opened(token, Err(error))),
            (op, Err(Errno::AGAIN | Errno::INTR)) => {
                queue.push_back(op);
                None
            }
            (Op::Read { token, block, .. } | Op::Receive { token, block, .. }, result) => {
                Some(Done::Read(token, block, result))
            }
            (Op::Send { token, block, .. }, result) => Some(Done::Sent(token, block, result)),
        }
    }

    /// Cancels all requests that can be.
    fn cancel(&mut self) -> io::Result<()> {
        // Those that the kernel has not taken yet cannot be.
        while !self.kernel.submission().is_empty() {
            self.kernel.submit()?;
            std::thread::yield_now();
        }
        self.kernel.submitter().register_sync_cancel(None, CancelBuilder::any())
    }

    /// Descriptor that is readable while completions are pending.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns the descriptor, and is borrowed as long as the result.
        unsafe { BorrowedFd::borrow_raw(self.kernel.as_raw_fd()) }
    }
}

/// A ring with a kernel thread. It has twice the entries: the thread may report the results of a whole ring before it
/// frees their entries.
fn polled(idle: Duration, cpu: Option<u32>) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_sqpoll(u32::try_from(idle.as_millis()).unwrap_or(u32::MAX).max(1));
    if let Some(cpu) = cpu {
        builder.setup_sqpoll_cpu(cpu);
    }
    let kernel = builder.build(2 * ENTRIES)?;
    if !kernel.params().is_feature_sqpoll_nonfixed() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the thread uses registered files only"));
    }
    Ok(kernel)
}

/// The memory of a request.
fn memory(block: &mut Block, len: u32) -> (*mut u8, u32) {
    let bytes = block.bytes_mut().unwrap_or_default();
    debug_assert!(bytes.len() >= len as usize && bytes.as_ptr().align_offset(ALIGNMENT) == 0);
    (bytes.as_mut_ptr(), len.min(bytes.len() as u32))
}

/// The entry of a request.
fn entry<T>(op: &mut Op<T>, root: &OwnedFd, how: &OpenHow) -> squeue::Entry {
    match op {
        Op::Open { path, .. } => opcode::OpenAt2::new(Fd(root.as_raw_fd()), path.as_ptr(), how).build(),
        Op::Read { file, offset, len, block, .. } => {
            let (at, len) = memory(block, *len);
            opcode::Read::new(Fd(file.as_raw_fd()), at, len).offset(*offset).build()
        }
        Op::Receive { socket, len, block, .. } => {
            let (at, len) = memory(block, *len);
            opcode::Recv::new(Fd(socket.as_raw_fd()), at, len).build()
        }
        Op::Send { socket, len, block, .. } => {
            let (at, len) = memory(block, *len);
            let flags = SendFlags::NOSIGNAL.bits().cast_signed();
            opcode::Send::new(Fd(socket.as_raw_fd()), at, len).flags(flags).build()
        }
    }
}

impl<T> Drop for Ring<T> {
    /// Waits until the kernel uses none of the memory any more. If that fails, the memory is never freed.
    fn drop(&mut self) {
        let mut rest = VecDeque::new();
        if self.in_flight.iter().any(|(_, op)| matches!(op, Op::Receive { .. })) {
            // Data may never arrive. Linux before 6.0 cannot cancel, so the peer must end the stream there.
            let _ = self.cancel();
        }
        while !self.in_flight.is_empty() {
            if self.kernel.submit_and_wait(1).is_err() {
                return std::mem::forget(std::mem::take(&mut self.in_flight));
            }
            while self.is_pending() {
                drop(self.next_done(&mut rest));
            }
        }
    }
}
