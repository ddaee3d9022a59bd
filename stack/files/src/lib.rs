//! Files for servers: opening below one directory, and reading into memory from which the data is sent.
//!
//! Requests are queued and their results are collected later, so that a thread that also serves a network never waits
//! for a disk. With `io_uring` the queue is a page shared with the kernel. [`Mode::Copy`] makes the same requests by
//! blocking system calls, for comparison.
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

/// Result of a request, with the token of the request.
#[derive(Debug)]
pub enum Done<T> {
    /// Result of [`Files::open`].
    Opened(T, Result<OwnedFd, Errno>),
    /// Result of [`Files::read`]: number of bytes, less than requested only at the end of the file.
    Read(T, Block, Result<usize, Errno>),
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
}

impl<T> Files<T> {
    /// Requests to files below `root`, a directory.
    ///
    /// # Errors
    /// If the mode needs `io_uring` and the kernel does not permit it.
    pub fn new(root: OwnedFd, mode: Mode) -> Result<Self, FilesError> {
        let root = Arc::new(root);
        let ring = match mode {
            Mode::Copy => None,
            Mode::Direct | Mode::Cached => Some(Ring::new(&root).map_err(FilesError::Ring)?),
        };
        Ok(Self { root, mode, ring, queue: VecDeque::new(), done: VecDeque::new() })
    }

    /// Opens a file for reading. `path` is relative to the directory. The descriptor has `O_NONBLOCK`, because the kind of
    /// the file is not known yet; [`Files::prepare`] must be called before it is read.
    pub fn open(&mut self, path: CString, token: T) {
        self.start(Op::Open { token, path });
    }

    /// Reads `len` bytes at `offset` into a block that has no other handle. If the file was prepared for direct reads,
    /// both must be multiples of [`ALIGNMENT`].
    pub fn read(&mut self, file: &Arc<OwnedFd>, offset: u64, len: u32, mut block: Block, token: T) {
        if block.bytes_mut().is_none_or(|bytes| bytes.len() < len as usize) {
            debug_assert!(false, "a block that is too short, or in use");
            return self.done.push_back(Done::Read(token, block, Err(Errno::INVAL)));
        }
        self.start(Op::Read { token, file: file.clone(), offset, len, block });
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
            None => self.done.push_back(calls::perform(&self.root, op)),
            Some(_) => self.queue.push_back(op),
        }
    }

    /// Passes queued requests to the kernel, one system call for all. Must be called before the caller sleeps.
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

#[cfg(test)]
mod tests;
