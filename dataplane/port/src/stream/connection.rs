//! A connection, shared by its queues and the control side.
//!
//! *Sending.* Writes are serialised by one lock, because the frames of all workers share one byte stream and must not
//! interleave. The rest of a partially written frame is kept here and sent before anything else: by the next worker
//! with frames, or by the control thread, which is notified by the doorbell and polls for writability, so that the last
//! frame of a burst is always completed. The lock is held over one system call, two after a full socket; that call
//! dominates the cost, and the kernel takes a socket lock around it as well.
//!
//! *Ending.* The receive queue detects that the peer has left, after all data it sent; it sets `ended` once and rings
//! the doorbell, and the control thread closes the connection. `ended` is only ever set and guards no other memory, so
//! its accesses are relaxed.

use super::frames::{MAX_FRAME, PREFIX};
use super::sys::{self, Stop};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Wakes the control thread. One per port, shared by all its connections.
#[derive(Clone, Debug)]
pub(super) struct Doorbell(Arc<OwnedFd>);

impl Doorbell {
    pub(super) fn new() -> Result<Self, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(Arc::new(eventfd(0, flags)?)))
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Rings the doorbell; has no effect if it is already ringing.
    fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Clears the doorbell.
    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    doorbell: Doorbell,
    ended: AtomicBool,
    out: Mutex<PartialSend>,
}

/// A partially sent frame: `bytes[from..to]` is the unsent rest.
#[derive(Debug)]
struct PartialSend {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, doorbell: Doorbell) -> Self {
        let bytes = vec![0; PREFIX + MAX_FRAME].into();
        let out = Mutex::new(PartialSend { bytes, from: 0, to: 0 });
        Self { socket, doorbell, ended: AtomicBool::new(false), out }
    }

    /// A connection on which `rest` of a partially sent frame is sent first. Returns `None` if it is longer than a
    /// frame.
    pub(super) fn continued(socket: OwnedFd, doorbell: Doorbell, rest: &[u8]) -> Option<Self> {
        let mut connection = Self::new(socket, doorbell);
        let out = connection.out.get_mut().unwrap_or_else(PoisonError::into_inner);
        (rest.len() <= out.bytes.len()).then(|| out.keep(rest))?;
        connection.doorbell.ring();
        Some(connection)
    }

    /// The rest of a partially sent frame.
    pub(super) fn rest(&self) -> Vec<u8> {
        let out = self.out();
        out.bytes[out.from..out.to].to_vec()
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether the peer has left.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Records that the peer has left.
    #[cold]
    pub(super) fn end(&self) {
        if !self.ended.swap(true, Ordering::Relaxed) {
            self.doorbell.ring();
        }
    }

    /// Shuts down the socket, so that the peer sees the end even if a hung worker still holds this connection.
    pub(super) fn shut(&self) {
        // Fails harmlessly if the peer has left already.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// The lock may be poisoned: the state of the partial frame changes in one step, so it is consistent.
    fn out(&self) -> MutexGuard<'_, PartialSend> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends contiguous frames from `bytes`, each with its length prefix and ending at `ends`, as far as they fit.
    /// Returns the number sent or kept for sending.
    pub(super) fn send(&self, bytes: &[u8], ends: &[usize]) -> Result<usize, Stop> {
        let mut out = self.out();
        if !out.finish(self.socket())? {
            return Ok(0);
        }
        let sent = match sys::send(self.socket(), bytes) {
            Err(Stop::Now) => return Ok(0),
            sent => sent?,
        };
        let whole = ends.partition_point(|end| *end <= sent);
        let begun = whole.checked_sub(1).map_or(0, |last| ends[last]) < sent;
        if !begun {
            return Ok(whole);
        }
        out.keep(&bytes[sent..ends[whole]]);
        self.doorbell.ring();
        Ok(whole + 1)
    }

    /// Sends the rest of a partially sent frame. Returns whether nothing is left.
    pub(super) fn finish(&self) -> Result<bool, Stop> {
        self.out().finish(self.socket())
    }
}

impl PartialSend {
    fn keep(&mut self, missing: &[u8]) {
        (self.from, self.to) = (0, missing.len());
        self.bytes[..missing.len()].copy_from_slice(missing);
    }

    fn finish(&mut self, socket: BorrowedFd<'_>) -> Result<bool, Stop> {
        if self.from == self.to {
            return Ok(true);
        }
        match sys::send(socket, &self.bytes[self.from..self.to]) {
            Ok(sent) => self.from += sent,
            Err(Stop::Now) => {}
            Err(stop) => return Err(stop),
        }
        Ok(self.from == self.to)
    }
}
