//! Program-side endpoint of a switch's memif port: attach, receive a burst, send a burst.
//!
//! For programs that need packets and are not a port of a switch. Ring content written by the switch is validated as
//! in a port. Frames are passed on as private copies, so that they do not change during processing. Attaching and
//! waiting block, at most for the given timeout; all other calls do not block. Nothing in this module reads a clock.

use super::link::Link;
use super::options::{MemifError, Options};
use super::queue::Rings;
use super::session::{ClientSession, End, Session};
use crate::socket::rights;
use crate::socket::sys as socket;
use crate::{BURST, Burst, BurstStats, Offload, PortFault, RxQueue, Slots, TxQueue};
use mem::copy::chosen;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// Maximum length of a received frame.
const MAX_FRAME: usize = 65_550;
/// Number of frames between two checks of the connection.
const BETWEEN_LOOKS: u32 = 1024;

/// Endpoint error. The endpoint must not be used after any of these; attach again.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Invalid options.
    #[error(transparent)]
    Options(#[from] MemifError),
    /// Nothing listens at this path.
    #[error("{0}: no switch listens on this socket: {1}; start it first, or try again")]
    NoServer(PathBuf, Errno),
    /// The server did not reply within the timeout.
    #[error("the switch did not send {0} in time")]
    Timeout(&'static str),
    /// The server closed the connection.
    #[error("the switch closed the connection; see its log")]
    Closed,
    /// The server rejected this client, or violated the protocol or a ring.
    #[error(transparent)]
    Fault(#[from] PortFault),
    /// A system call failed.
    #[error("waiting failed: {0}")]
    Wait(Errno),
}

impl From<End> for AttachError {
    fn from(end: End) -> Self {
        match end {
            End::Closed => AttachError::Closed,
            End::Fault(fault) => AttachError::Fault(fault),
        }
    }
}

/// Connects as a client to the server that listens at `path`. Returns when the rings run.
pub(super) fn attach(path: &Path, options: Options, timeout: Duration) -> Result<(Link, Rings), AttachError> {
    options.check()?;
    let socket = socket::connect_packets(path).map_err(|errno| AttachError::NoServer(path.into(), errno))?;
    let mut link = Link::new(socket, Session::Client(ClientSession::new(options)))?;
    loop {
        let expected = link.session().awaits().unwrap_or("anything");
        if let Some(rings) = link.advance()? {
            link.started()?;
            return Ok((link, rings));
        }
        if !rights::wait_readable(link.as_fd(), timeout).map_err(AttachError::Wait)? {
            return Err(AttachError::Timeout(expected));
        }
    }
}

/// One end of a memif connection, used by one thread.
pub struct Endpoint {
    link: Link,
    rx: Vec<Box<dyn RxQueue>>,
    tx: Vec<Box<dyn TxQueue>>,
    slots: Slots,
    burst: Burst,
    frame: Box<[u8]>,
    until_look: u32,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("queue_pairs", &self.rx.len()).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Connects as a client to the server that listens at `path`. `timeout` bounds the wait for each reply.
    ///
    /// # Errors
    /// Nothing listens at `path`, the server does not reply in time, or it rejects this client.
    pub fn attach(path: impl AsRef<Path>, options: Options, timeout: Duration) -> Result<Self, AttachError> {
        let (link, rings) = attach(path.as_ref(), options, timeout)?;
        Self::over(link, rings)
    }

    fn over(link: Link, rings: Rings) -> Result<Self, AttachError> {
        let (rx, tx) = rings.start().map_err(End::Fault)?;
        Ok(Self {
            link,
            rx,
            tx,
            slots: Slots::new(),
            burst: Burst::new(),
            frame: vec![0; MAX_FRAME].into(),
            until_look: BETWEEN_LOOKS,
        })
    }

    /// Passes every available frame to `each`, at most one burst (64) from each queue. Returns the number of frames,
    /// which may be 0. Frames have no frame check sequence.
    ///
    /// # Errors
    /// The switch has disconnected or violated a ring.
    pub fn receive(&mut self, mut each: impl FnMut(&[u8])) -> Result<usize, AttachError> {
        let mut received = 0;
        for (source, queue) in self.rx.iter_mut().enumerate() {
            let (burst, mut stats) = (&mut self.burst, BurstStats::default());
            burst.begin(source);
            let taken = queue.rx(burst, &mut stats);
            mem::with_kernel!(chosen(), K => {
                burst.load_heads::<K>();
                for i in 0..burst.len() {
                    let frame = burst.frame(i);
                    if frame.is_head_only() {
                        each(frame.head);
                    } else {
                        let len = frame.copy_to::<K>(&mut self.frame);
                        each(&self.frame[..len]);
                    }
                }
            });
            received += burst.len();
            if !burst.buf_ids().is_empty() {
                queue.complete(burst.buf_ids());
            }
            taken?;
        }
        self.check_connection(received)?;
        Ok(received)
    }

    /// Sends frames on queue 0. See [`Endpoint::send_by`].
    ///
    /// # Errors
    /// See [`Endpoint::send_by`].
    pub fn send<'a>(&mut self, frames: impl IntoIterator<Item = &'a [u8]>) -> Result<usize, AttachError> {
        self.send_by(0, frames)
    }

    /// Sends frames on one queue, in order, with one publish. Returns the number of frames sent. The call ends at the
    /// first frame for which no buffer is free. A frame that does not fit in all buffers of the ring is skipped and
    /// not counted. Up to [`BURST`] frames more than are sent may have been consumed from `frames`.
    ///
    /// # Errors
    /// The switch has disconnected or violated a ring. A queue that does not exist is reported as a disconnected
    /// switch.
    pub fn send_by<'a>(
        &mut self,
        queue: usize,
        frames: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<usize, AttachError> {
        let Some(tx) = self.tx.get_mut(queue) else { return Err(AttachError::Closed) };
        let (mut sent, mut frames, mut is_full) = (0, frames.into_iter(), false);
        while !is_full {
            let (mut few, mut n) = ([[].as_slice(); BURST], 0);
            few.iter_mut().zip(&mut frames).for_each(|(place, frame)| {
                *place = frame;
                n += 1;
            });
            if n == 0 {
                break;
            }
            let lengths = few.map(|frame| frame.len() as u32);
            let mut stats = BurstStats::default();
            is_full = tx.reserve(&lengths[..n], &mut self.slots, &mut stats)? < n;
            mem::with_kernel!(chosen(), K => for k in 0..self.slots.len() {
                let frame = few[self.slots.number(k)];
                self.slots.write::<K>(k, Offload::NONE, &[frame]);
            });
            tx.commit(&mut self.slots, &mut stats)?;
            sent += stats.packets as usize;
        }
        // Orders the store of the index before the load of the receiver's flags.
        fence(Ordering::SeqCst);
        if sent > 0 {
            tx.notify();
        }
        self.check_connection(sent)?;
        Ok(sent)
    }

    /// Number of transmit queues.
    pub fn queues(&self) -> usize {
        self.tx.len()
    }

    /// Waits until a frame may be available. Returns `false` on timeout.
    ///
    /// # Errors
    /// The switch has disconnected.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, AttachError> {
        let mut ready = false;
        for queue in &mut self.rx {
            ready |= queue.enable_notification()?;
        }
        let woken = if ready { Ok(true) } else { self.sleep(timeout) };
        self.rx.iter_mut().for_each(|queue| queue.disable_notification());
        self.is_there()?;
        woken
    }

    fn sleep(&self, timeout: Duration) -> Result<bool, AttachError> {
        let timeout =
            Timespec { tv_sec: timeout.as_secs().cast_signed(), tv_nsec: timeout.subsec_nanos().into() };
        let kicks = self.rx.iter().filter_map(|queue| queue.kick_fd());
        let mut fds: Vec<_> = kicks.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        fds.push(PollFd::from_borrowed_fd(self.link.as_fd(), PollFlags::IN));
        match poll(&mut fds, Some(&timeout)) {
            Ok(n) => Ok(n > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(AttachError::Wait(errno)),
        }
    }

    /// Checks the connection periodically, and whenever no frame was moved.
    fn check_connection(&mut self, moved: usize) -> Result<(), AttachError> {
        self.until_look = self.until_look.saturating_sub(moved.max(16) as u32);
        if self.until_look > 0 {
            return Ok(());
        }
        self.until_look = BETWEEN_LOOKS;
        self.is_there()
    }

    fn is_there(&mut self) -> Result<(), AttachError> {
        self.link.advance().map(|_| ()).map_err(AttachError::from)
    }
}
