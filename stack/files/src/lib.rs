//! Files for servers: opening below one directory, and reading into memory from which the data is sent.
//!
//! Requests are queued and their results are collected later, so that a thread that also serves a network never waits
//! for a disk. With `io_uring` the queue is a page shared with the kernel, from which a kernel thread can take requests
//! without system calls ([`Submission::Thread`]). [`Mode::Copy`] makes the same requests by blocking system calls, for
//! comparison. Connected sockets of the kernel can use the same queue.
//!
//! The crate must not resolve a path to a file outside of the directory, and must not let memory be read or reused
//! while the kernel writes it. Unsafe code is in `uring` only.
#![deny(unsafe_code)]

mod block;
mod calls;
#[allow(unsafe_code, reason = "requests to the kernel name memory")]
mod uring;

pub use block::{ALIGNMENT, Block, BlockPool};
pub use calls::directory;

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;
use uring::Ring;

/// How files are opened. A FIFO does not block, and a terminal does not become that of the process.
const OPEN: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// How paths are resolved: neither `..` nor a symbolic link leaves the directory, and links of procfs are not followed.
const RESOLVE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// How files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By `io_uring` past the page cache (`O_DIRECT`), as far as the file system supports it.
    #[default]
    Direct,
    /// By `io_uring` through the page cache.
    Cached,
    /// By pread(2), which blocks the thread.
    Copy,
}

/// How requests are passed to the kernel in the modes with `io_uring`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Submission {
    /// One system call for all requests since the last one.
    #[default]
    Calls,
    /// A kernel thread takes requests from the ring (`IORING_SETUP_SQPOLL`). It polls, and uses a CPU, until there were
    /// no requests for some time; then the next request needs a system call. If the kernel refuses the thread, requests
    /// are passed by calls ([`Files::refused`]).
    Thread {
        /// Time without requests after which the thread sleeps, in whole milliseconds, at least one.
        idle: Duration,
        /// CPU of the thread; `None` for any.
        cpu: Option<u32>,
    },
}

/// Result of a request, with the token of the request.
#[derive(Debug)]
pub enum Done<T> {
    /// Result of [`Files::open`].
    Opened(T, Result<OwnedFd, Errno>),
    /// Result of [`Files::read`]: number of bytes, less than requested only at the end of the file. Or of
    /// [`Files::receive`]: number of bytes that have arrived, 0 at the end of the stream.
    Read(T, Block, Result<usize, Errno>),
    /// Result of [`Files::send`]: number of bytes.
    Sent(T, Block, Result<usize, Errno>),
}

/// Reason why [`Files::new`] failed.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The kernel offers no ring.
    #[error("io_uring is not available: {0}")]
    Ring(std::io::Error),
}

/// A request.
#[derive(Debug)]
enum Op<T> {
    Open { token: T, path: CString },
    Read { token: T, file: Arc<OwnedFd>, offset: u64, len: u32, block: Block },
    Receive { token: T, socket: Arc<OwnedFd>, len: u32, block: Block },
    Send { token: T, socket: Arc<OwnedFd>, len: u32, block: Block },
}

/// Requests to the files below one directory.
#[derive(Debug)]
pub struct Files<T> {
    root: Arc<OwnedFd>,
    mode: Mode,
    /// `None` for blocking calls.
    ring: Option<Ring<T>>,
    /// Requests that the ring has no room for. The owner bounds their number.
    queue: VecDeque<Op<T>>,
    done: VecDeque<Done<T>>,
    /// System calls of [`Mode::Copy`].
    calls: u64,
    /// Why there is no kernel thread.
    refused: Option<std::io::Error>,
}

impl<T> Files<T> {
    /// Requests to files below `root`, a directory. [`Mode::Copy`] does not use `submission`.
    ///
    /// # Errors
    /// If the mode needs `io_uring` and the kernel does not permit it.
    pub fn new(root: OwnedFd, mode: Mode, submission: Submission) -> Result<Self, FilesError> {
        let root = Arc::new(root);
        let (ring, refused) = match mode {
            Mode::Copy => (None, None),
            Mode::Direct | Mode::Cached => {
                let (ring, refused) = Ring::new(&root, submission).map_err(FilesError::Ring)?;
                (Some(ring), refused)
            }
        };
        Ok(Self { root, mode, ring, queue: VecDeque::new(), done: VecDeque::new(), calls: 0, refused })
    }

    /// Why the kernel refused the thread of [`Submission::Thread`]; `None` if there is one, or none was requested.
    pub fn refused(&self) -> Option<&std::io::Error> {
        self.refused.as_ref()
    }

    /// Number of system calls so far that passed requests to the kernel.
    pub fn calls(&self) -> u64 {
        self.calls + self.ring.as_ref().map_or(0, Ring::calls)
    }

    /// Opens a file for reading. `path` is relative to the directory. The descriptor has `O_NONBLOCK`, because the kind
    /// of the file is not known yet; [`Files::prepare`] must be called before it is read.
    pub fn open(&mut self, path: CString, token: T) {
        self.start(Op::Open { token, path });
    }

    /// Reads `len` bytes at `offset` into a block that has no other handle. If the file was prepared for direct reads,
    /// both must be multiples of [`ALIGNMENT`].
    pub fn read(&mut self, file: &Arc<OwnedFd>, offset: u64, len: u32, mut block: Block, token: T) {
        if !is_usable(&mut block, len) {
            return self.done.push_back(Done::Read(token, block, Err(Errno::INVAL)));
        }
        self.start(Op::Read { token, file: file.clone(), offset, len, block });
    }

    /// Receives at most `len` bytes into a block that has no other handle, as soon as there are some. The socket must
    /// be blocking, and have one such request at a time; in [`Mode::Copy`] the thread blocks until there are bytes.
    pub fn receive(&mut self, socket: &Arc<OwnedFd>, len: u32, mut block: Block, token: T) {
        if !is_usable(&mut block, len) {
            return self.done.push_back(Done::Read(token, block, Err(Errno::INVAL)));
        }
        self.start(Op::Receive { token, socket: socket.clone(), len, block });
    }

    /// Sends the first `len` bytes of a block that has no other handle. The socket must be blocking, and have one such
    /// request at a time.
    pub fn send(&mut self, socket: &Arc<OwnedFd>, len: u32, mut block: Block, token: T) {
        if !is_usable(&mut block, len) {
            return self.done.push_back(Done::Sent(token, block, Err(Errno::INVAL)));
        }
        self.start(Op::Send { token, socket: socket.clone(), len, block });
    }

    /// Prepares a regular file for reads: past the page cache if `is_large` and the mode is [`Mode::Direct`].
    ///
    /// # Errors
    /// If the kernel refuses the flags.
    pub fn prepare(&self, file: &OwnedFd, is_large: bool) -> Result<(), Errno> {
        if self.mode == Mode::Direct && is_large && rustix::fs::fcntl_setfl(file, OFlags::DIRECT).is_ok() {
            return Ok(());
        }
        rustix::fs::fcntl_setfl(file, OFlags::empty())
    }

    fn start(&mut self, op: Op<T>) {
        match &self.ring {
            None => self.done.push_back(calls::perform(&self.root, op, &mut self.calls)),
            Some(_) => self.queue.push_back(op),
        }
    }

    /// Passes queued requests to the kernel, with at most one system call. Must be called before the caller sleeps.
    pub fn submit(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        while !ring.is_full()
            && let Some(op) = self.queue.pop_front()
        {
            ring.push(op);
        }
        ring.submit();
    }

    /// The next result.
    #[inline]
    pub fn next_done(&mut self) -> Option<Done<T>> {
        let Some(ring) = &mut self.ring else { return self.done.pop_front() };
        loop {
            match ring.next_done(&mut self.queue) {
                Some(done) => return Some(done),
                None if ring.is_pending() => {}
                None => return self.done.pop_front(),
            }
        }
    }

    /// A descriptor that is readable while there are results.
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.ring.as_ref().map(Ring::fd)
    }
}

/// Whether a block has `len` bytes and no other handle.
fn is_usable(block: &mut Block, len: u32) -> bool {
    let is_usable = block.bytes_mut().is_some_and(|bytes| bytes.len() >= len as usize);
    debug_assert!(is_usable, "a block that is too short, or in use");
    is_usable
}

#[cfg(test)]
mod tests;
