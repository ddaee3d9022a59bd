//! The port's life: waiting for a front end, talking to one, letting go of it, for ever.
//!
//! One connection at a time. In server mode a second front end that connects meanwhile is accepted and closed at
//! once: it sees a clear end instead of waiting for a guest that may live for months, and it can never take a
//! running guest's port away. In client mode the port connects again with a growing pause. A front end that broke
//! the protocol leaves a named fault behind, and the port waits a moment before it listens to the next one, so
//! that a broken or hostile front end cannot keep the control thread busy. Never blocks, never reads a clock.

mod offer;

pub use offer::Options;

use super::message::{Header, feature_names};
use super::session::{Offer, Queues, Session};
use super::sys::ReceiveError;
use super::wire::{Channel, WireError};
use crate::socket::{ListenError, Listener, sys};
use crate::{Attach, PortControl, PortFault, PortState, PortStatus};
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The first pause before connecting or listening again; each further one is twice as long.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Messages carried out before other ports have their turn.
const MESSAGES_AT_ONCE: usize = 64;

/// A vhost-user back end: one port of a virtual machine.
#[derive(Debug)]
pub struct VhostUser {
    place: PathBuf,
    offer: Offer,
    queues: Queues,
    epoll: OwnedFd,
    listener: Option<Listener>,
    link: Option<Link>,
    state: PortState,
    last_fault: Option<PortFault>,
    connects: u64,
    pause: Duration,
    resume: Option<Instant>,
}

/// A front end that is connected.
#[derive(Debug)]
struct Link {
    channel: Channel,
    session: Session,
}

/// Why a link ended.
enum End {
    /// The front end closed it.
    Closed,
    /// It was ended here.
    Fault(PortFault),
}

impl VhostUser {
    /// A back end in server mode: front ends connect to a socket at `path`. A socket file that nobody listens on
    /// any more is replaced. The file is removed when the port is closed or dropped.
    pub fn listen(path: impl AsRef<Path>, options: Options) -> Result<Self, ListenError> {
        Self::listen_with(path, options, super::QUEUES)
    }

    /// A back end in client mode: it connects to a front end that listens at `path`, at `now` and then again and
    /// again whenever there is no connection, after 100 ms to 2 s.
    pub fn connect(path: impl AsRef<Path>, options: Options, now: Instant) -> Result<Self, ListenError> {
        Self::connect_with(path, options, now, super::QUEUES)
    }

    /// As [`VhostUser::listen`], with queues of another make.
    #[doc(hidden)]
    pub fn listen_with(
        path: impl AsRef<Path>,
        options: Options,
        queues: Queues,
    ) -> Result<Self, ListenError> {
        let listener = Listener::bind(path.as_ref())?;
        let mut port = Self::new(path.as_ref(), options, queues)?;
        port.watch(listener.as_fd()).map_err(|e| ListenError::Kernel(path.as_ref().into(), e))?;
        port.listener = Some(listener);
        Ok(port)
    }

    /// As [`VhostUser::connect`], with queues of another make.
    #[doc(hidden)]
    pub fn connect_with(
        path: impl AsRef<Path>,
        options: Options,
        now: Instant,
        queues: Queues,
    ) -> Result<Self, ListenError> {
        let mut port = Self::new(path.as_ref(), options, queues)?;
        port.resume = Some(now);
        Ok(port)
    }

    fn new(path: &Path, options: Options, queues: Queues) -> Result<Self, ListenError> {
        let offer = options.offer()?;
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| ListenError::Kernel(path.into(), e))?;
        Ok(Self {
            place: path.into(),
            offer,
            queues,
            epoll,
            listener: None,
            link: None,
            state: PortState::Waiting,
            last_fault: None,
            connects: 0,
            pause: SHORTEST_PAUSE,
            resume: None,
        })
    }

    fn watch(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
    }

    /// The pause is over: listen or connect again.
    fn resume(&mut self, now: Instant) {
        if self.resume.is_none_or(|at| now < at) {
            return;
        }
        self.resume = None;
        let resumed = match &self.listener {
            Some(listener) => self.watch(listener.as_fd()),
            None => sys::connect(&self.place).and_then(|socket| self.begin(socket)),
        };
        if resumed.is_err() {
            self.rest(now);
        }
    }

    /// Pauses before the next try, longer each time until a front end has negotiated.
    fn rest(&mut self, now: Instant) {
        if let Some(listener) = &self.listener {
            // It may not be watched at the moment, which is what is wanted.
            let _ = epoll::delete(&self.epoll, listener);
        }
        self.resume = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn accept(&mut self, now: Instant) {
        if self.resume.is_some() {
            return;
        }
        let Some(listener) = &self.listener else { return };
        let begun = match sys::accept(listener.as_fd()) {
            Ok(Some(_second)) if self.link.is_some() => Ok(()),
            Ok(Some(socket)) => self.begin(socket),
            Ok(None) => Ok(()),
            Err(errno) => Err(errno),
        };
        // Without descriptors to spare the listener would stay readable, so it rests too.
        if begun.is_err() {
            self.rest(now);
        }
    }

    fn begin(&mut self, socket: OwnedFd) -> Result<(), Errno> {
        self.watch(socket.as_fd())?;
        let channel = Channel::new(socket, Header::expect_request);
        self.link = Some(Link { channel, session: Session::new(self.offer, self.queues) });
        self.state = PortState::Connected;
        self.connects += 1;
        Ok(())
    }

    fn serve(&mut self, now: Instant, engine: &mut dyn Attach) {
        let Some(link) = &mut self.link else { return };
        let served = link.serve(engine);
        if link.session.features().is_some() {
            self.pause = SHORTEST_PAUSE;
        }
        match served {
            Ok(()) => {}
            Err(End::Closed) => self.disconnect(None, now, engine),
            Err(End::Fault(fault)) => self.disconnect(Some(fault), now, engine),
        }
    }

    /// Stops the queues, lets go of the memory, closes the connection, in that order.
    fn disconnect(&mut self, fault: Option<PortFault>, now: Instant, engine: &mut dyn Attach) {
        let Some(mut link) = self.link.take() else { return };
        link.session.end(engine);
        drop(link);
        self.state = match &fault {
            Some(fault) => PortState::Faulted(fault.clone()),
            None => PortState::Waiting,
        };
        if self.listener.is_none() || fault.is_some() {
            self.rest(now);
        }
        self.last_fault = fault.or(self.last_fault.take());
    }
}

impl Link {
    /// Carries out the messages that are there.
    fn serve(&mut self, engine: &mut dyn Attach) -> Result<(), End> {
        for _ in 0..MESSAGES_AT_ONCE {
            let message = match self.channel.receive() {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(()),
                Err(WireError::Receive(ReceiveError::Closed | ReceiveError::Io(_))) => {
                    return Err(End::Closed);
                }
                Err(error) => return Err(End::Fault(PortFault::Protocol(error.to_string()))),
            };
            let answer = self
                .session
                .receive(message.header, message.payload, message.descriptors, engine)
                .map_err(End::Fault)?;
            if let Some(bytes) = answer {
                self.answer(&bytes)?;
            }
        }
        Ok(())
    }

    fn answer(&self, bytes: &[u8]) -> Result<(), End> {
        match self.channel.send(bytes, &[]) {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN) => Err(End::Fault(PortFault::Protocol("it does not read its answers".into()))),
            Err(_) => Err(End::Closed),
        }
    }
}

impl PortControl for VhostUser {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (self.state != PortState::Closed).then(|| self.epoll.as_fd())
    }

    fn deadline(&self) -> Option<Instant> {
        self.resume
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.state == PortState::Closed {
            return;
        }
        self.resume(now);
        // The link first: its front end may have gone, and the one that waits may be the same guest again.
        self.serve(now, engine);
        self.accept(now);
    }

    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach) {
        self.disconnect(Some(fault), now, engine);
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        if let Some(mut link) = self.link.take() {
            link.session.end(engine);
        }
        self.listener = None;
        self.resume = None;
        self.state = PortState::Closed;
    }

    fn status(&self) -> PortStatus {
        let session = self.link.as_ref().map(|link| &link.session);
        PortStatus {
            state: self.state.clone(),
            kind: "vhost-user",
            place: self.place.display().to_string(),
            features: session.and_then(Session::features).map(feature_names).unwrap_or_default(),
            queues: session.map(Session::queue_status).unwrap_or_default(),
            connects: self.connects,
            memory: session.map_or((0, 0), Session::memory_use),
            last_fault: self.last_fault.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
