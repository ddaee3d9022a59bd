//! One connection, as the queues and control hold it together.
//!
//! *Sending.* Bytes go out under one lock, because the frames of all workers share one row of bytes and none may
//! begin in the middle of another. A frame that the socket took a part of is kept here with what is missing of it,
//! and nothing else goes out before that. The rest is sent by the next caller: a worker with more frames, or
//! control, which is told by the doorbell and waits for room on the socket, so that the last frame of a burst never stays
//! half sent. The lock is held over one call to the kernel, two after a full socket; that call is what takes time,
//! and the kernel takes a lock of the socket around it as well.
//!
//! *Ending.* The queue that reads finds that the peer has gone, after everything it sent; it says so once (`ended`)
//! and rings the doorbell, and control ends the connection. `ended` is a flag that only ever rises and guards no other
//! memory, so it is read and written relaxed.

use super::frames::{LONGEST, PREFIX};
use super::sys::{self, Stop};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tells control that a connection wants something. One for a port, shared by all its connections.
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

    /// A doorbell that rings already needs no second ring.
    fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Takes what was rung.
    pub(super) fn quiet(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Wire {
    socket: OwnedFd,
    doorbell: Doorbell,
    ended: AtomicBool,
    out: Mutex<Out>,
}

/// A frame of which the socket has taken a part: `bytes[from..to]` is what is missing.
#[derive(Debug)]
struct Out {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
}

impl Wire {
    pub(super) fn new(socket: OwnedFd, doorbell: Doorbell) -> Self {
        let bytes = vec![0; PREFIX + LONGEST].into();
        let out = Mutex::new(Out { bytes, from: 0, to: 0 });
        Self { socket, doorbell, ended: AtomicBool::new(false), out }
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether the peer has gone.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// The peer has gone.
    #[cold]
    pub(super) fn end(&self) {
        if !self.ended.swap(true, Ordering::Relaxed) {
            self.doorbell.ring();
        }
    }

    /// Shows the peer a clear end, even while a worker that hangs still holds this.
    pub(super) fn shut(&self) {
        // A peer that has gone already sees nothing any more.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// A panic elsewhere leaves what is missing of a frame as it was: it changes in one step.
    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends frames that lie one behind the other in `bytes`, each with its length in front and its end in `ends`, as
    /// far as there is room. Returns how many have gone or will go without being given again.
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

    /// Sends what is missing of a frame. Whether nothing is missing any more.
    pub(super) fn finish(&self) -> Result<bool, Stop> {
        self.out().finish(self.socket())
    }
}

impl Out {
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
