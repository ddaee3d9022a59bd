//! Unsafe code of `io_uring`: requests that name memory which the kernel reads or writes later.
//!
//! Each request in the ring owns what it names (path, file, block) and is an entry of `in_flight`, which nothing reads
//! until its completion has arrived. Dropping the ring waits for all completions.

use crate::{ALIGNMENT, Done, OPEN, Op, RESOLVE};
use io_uring::types::{Fd, OpenHow};
use io_uring::{IoUring, opcode, squeue};
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use slab::Slab;
use std::collections::VecDeque;
use std::sync::Arc;

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
}

impl<T> std::fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight.len()).finish_non_exhaustive()
    }
}

impl<T> Ring<T> {
    /// An empty ring.
    pub(crate) fn new(root: &Arc<OwnedFd>) -> std::io::Result<Self> {
        let how = OpenHow::new().flags(OPEN.bits().into()).resolve(RESOLVE.bits());
        let in_flight = Slab::with_capacity(ENTRIES as usize);
        Ok(Self { kernel: IoUring::new(ENTRIES)?, in_flight, root: root.clone(), how: Box::new(how) })
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
        // handle (`Files::read`), so its bytes are not read before.
        let pushed = unsafe { self.kernel.submission().push(&entry) };
        debug_assert!(pushed.is_ok(), "the ring has as many entries as requests in flight");
    }

    /// Passes all requests to the kernel. On an error they stay in the ring for the next call.
    pub(crate) fn submit(&mut self) {
        if !self.kernel.submission().is_empty() {
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
            (op @ Op::Read { .. }, Err(Errno::AGAIN | Errno::INTR)) => {
                queue.push_back(op);
                None
            }
            (Op::Read { token, block, .. }, result) => Some(Done::Read(token, block, result)),
        }
    }

    /// Descriptor that is readable while completions are pending.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns the descriptor, and is borrowed as long as the result.
        unsafe { BorrowedFd::borrow_raw(self.kernel.as_raw_fd()) }
    }
}

/// The entry of a request.
fn entry<T>(op: &mut Op<T>, root: &OwnedFd, how: &OpenHow) -> squeue::Entry {
    match op {
        Op::Open { path, .. } => opcode::OpenAt2::new(Fd(root.as_raw_fd()), path.as_ptr(), how).build(),
        Op::Read { file, offset, len, block, .. } => {
            let bytes = block.bytes_mut().unwrap_or_default();
            debug_assert!(bytes.len() >= *len as usize && bytes.as_ptr().align_offset(ALIGNMENT) == 0);
            let len = (*len).min(bytes.len() as u32);
            opcode::Read::new(Fd(file.as_raw_fd()), bytes.as_mut_ptr(), len).offset(*offset).build()
        }
    }
}

impl<T> Drop for Ring<T> {
    /// Waits until the kernel writes nothing any more. If that fails, the memory is never freed.
    fn drop(&mut self) {
        let mut rest = VecDeque::new();
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
