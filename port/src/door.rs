//! Where peers come from: a socket that is listened on, or one that is connected to again and again.
//!
//! After each peer, and after each failure, the door stays shut for a while, longer each time until one has stayed
//! for a while, so that a broken or hostile peer cannot keep the control thread busy. Whoever connects
//! meanwhile waits in the listener's queue. Never blocks, never reads a clock.

use crate::vhost_user::ListenError;
use crate::vhost_user::socket::Listener;
use crate::vhost_user::sys;
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketType;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The first pause before connecting or listening again; each further one is twice as long.
pub(crate) const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause, and how long a peer must stay for the next pause to be a short one again.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A door.
#[derive(Debug)]
pub(crate) struct Door {
    place: PathBuf,
    kind: SocketType,
    epoll: OwnedFd,
    listener: Option<Listener>,
    pause: Duration,
    resume: Option<Instant>,
}

impl Door {
    /// Peers connect to a socket at `place`, of this kind.
    pub(crate) fn listen(place: &Path, kind: SocketType) -> Result<Self, ListenError> {
        let listener = Listener::bind(place, kind)?;
        let mut door = Self::new(place, kind)?;
        door.watch(listener.as_fd()).map_err(|e| ListenError::Kernel(place.into(), e))?;
        door.listener = Some(listener);
        Ok(door)
    }

    /// A peer listens at `place`, now or later.
    pub(crate) fn connect(place: &Path, kind: SocketType, now: Instant) -> Result<Self, ListenError> {
        let mut door = Self::new(place, kind)?;
        door.resume = Some(now);
        Ok(door)
    }

    fn new(place: &Path, kind: SocketType) -> Result<Self, ListenError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(|e| ListenError::Kernel(place.into(), e))?;
        Ok(Self { place: place.into(), kind, epoll, listener: None, pause: SHORTEST_PAUSE, resume: None })
    }

    /// Where it is, for people.
    pub(crate) fn place(&self) -> String {
        self.place.display().to_string()
    }

    /// When it opens again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.resume
    }

    /// Becomes readable with `fd` too, until that is closed.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
    }

    /// Once the pause is over: listens again, or knocks and returns the connection.
    pub(crate) fn knock(&mut self, now: Instant) -> Option<OwnedFd> {
        if self.resume.is_none_or(|at| now < at) {
            return None;
        }
        self.resume = None;
        let resumed = match &self.listener {
            Some(listener) => self.watch(listener.as_fd()).map(|()| None),
            None => sys::connect(&self.place, self.kind).map(Some),
        };
        resumed.unwrap_or_else(|_| {
            self.rest(now);
            None
        })
    }

    /// A peer that has connected. While another one is `inside` it is shown the door at once, so that it sees
    /// a clear end.
    pub(crate) fn admit(&mut self, inside: bool, now: Instant) -> Option<OwnedFd> {
        if self.resume.is_some() {
            return None;
        }
        let accepted = sys::accept(self.listener.as_ref()?.as_fd());
        // Without descriptors to spare the listener would stay readable, so it rests.
        let socket = accepted.unwrap_or_else(|_| {
            self.rest(now);
            None
        });
        socket.filter(|_| !inside)
    }

    /// Pauses before the next try, longer each time.
    pub(crate) fn rest(&mut self, now: Instant) {
        if let Some(listener) = &self.listener {
            // It may not be watched at the moment, which is what is wanted.
            let _ = epoll::delete(&self.epoll, listener);
        }
        self.resume = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// A peer has stayed for a while: the next pause is a short one again.
    pub(crate) fn succeeded(&mut self) {
        self.pause = SHORTEST_PAUSE;
    }

    /// Never again.
    pub(crate) fn close(&mut self) {
        (self.listener, self.resume) = (None, None);
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
