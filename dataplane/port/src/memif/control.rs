//! The port's life: finding a peer, agreeing with it on rings, letting go of it, for ever.
//!
//! One peer at a time; as a server a second one that connects meanwhile is shown the door at once. Memory, rings and
//! descriptors belong to a connection and go with it, whatever the peer still holds. A peer that broke the protocol or
//! a ring, or that would not have this port, leaves a named fault behind, and is told the reason. Whatever ended a
//! connection, the port waits a moment before the next one. Never blocks, never reads a clock.

use super::link::{Link, TIMEOUT};
use super::options::{MemifError, Options};
use super::queue::Rings;
use super::session::{ClientSession, End, ServerSession, Session};
use crate::socket::{Connector, Site};
use crate::{Attach, PortControl, PortFault, PortState, PortStatus, QueueStatus};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

/// Which end this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Server,
    Client,
}

/// A memif interface: a port that shares memory with one other process.
#[derive(Debug)]
pub struct Memif {
    connector: Connector,
    role: Role,
    options: Options,
    link: Option<Link>,
    /// Until when everything must be said.
    until: Option<Instant>,
    /// Receive and transmit queues that the engine has.
    running: (u16, u16),
    /// When it took all of them.
    started: Option<Instant>,
    state: PortState,
    last_fault: Option<PortFault>,
    connects: u64,
}

impl Memif {
    /// A server: clients connect to a socket at `path` and bring their memory. A socket file without a listener any
    /// more is replaced. The file is removed when the port is closed or dropped. Once a client has gone, the next one is
    /// let in after 100 ms to 2 s. A path that begins with `@` is a name of the abstract namespace ([`super::is_abstract`]).
    pub fn listen(path: impl AsRef<Path>, options: Options) -> Result<Self, MemifError> {
        options.check()?;
        let connector = Connector::listen(Site::Packets(path.as_ref().into()))?;
        Ok(Self::behind(connector, Role::Server, options))
    }

    /// A client: it connects to a server that listens at `path`, at `now` and then again and again whenever there is no
    /// connection, after 100 ms to 2 s, with fresh memory each time.
    pub fn connect(path: impl AsRef<Path>, options: Options, now: Instant) -> Result<Self, MemifError> {
        options.check()?;
        let connector = Connector::connect(Site::Packets(path.as_ref().into()), now)?;
        Ok(Self::behind(connector, Role::Client, options))
    }

    fn behind(connector: Connector, role: Role, options: Options) -> Self {
        Self {
            connector,
            role,
            options,
            link: None,
            until: None,
            running: (0, 0),
            started: None,
            state: PortState::Waiting,
            last_fault: None,
            connects: 0,
        }
    }

    fn begin(&mut self, socket: OwnedFd, now: Instant) {
        let session = match self.role {
            Role::Server => Session::Server(ServerSession::new(self.options)),
            Role::Client => Session::Client(ClientSession::new(self.options)),
        };
        let watched = self.connector.watch(socket.as_fd()).is_ok();
        match Link::new(socket, session) {
            Ok(link) if watched => {
                self.link = Some(link);
                self.until = Some(now + TIMEOUT);
                self.state = PortState::Connected;
                self.connects += 1;
            }
            _ => self.connector.rest(now),
        }
    }

    fn serve(&mut self, now: Instant, engine: &mut dyn Attach) {
        let Some(link) = &mut self.link else { return };
        let served = match link.advance() {
            Ok(Some(rings)) => self.start(rings, now, engine),
            Ok(None) if self.until.is_some_and(|until| now >= until) => link.overdue().map_or(Ok(()), Err),
            Ok(None) => Ok(()),
            Err(end) => Err(end),
        };
        match served {
            Ok(()) => {}
            Err(End::Closed) => self.disconnect(None, now, engine),
            Err(End::Fault(fault)) => self.disconnect(Some(fault), now, engine),
        }
    }

    /// Hands every queue to the engine, and then tells the peer.
    ///
    /// # Errors
    /// A worker may still use what this port had before. Then the engine took nothing more, and the peer must not be
    /// left with rings that are not served.
    fn start(&mut self, rings: Rings, now: Instant, engine: &mut dyn Attach) -> Result<(), End> {
        let (rx, tx) = rings.start().map_err(End::Fault)?;
        for (pair, queue) in (0..).zip(tx) {
            engine.start_tx(pair, queue);
            self.running.1 = pair + 1;
        }
        for (pair, queue) in (0..).zip(rx) {
            engine.start_rx(pair, queue);
            self.running.0 = pair + 1;
        }
        if let Some(failure) = engine.failure() {
            return Err(End::Fault(failure));
        }
        (self.started, self.until) = (Some(now), None);
        self.link.as_mut().map_or(Ok(()), Link::started)
    }

    /// Stops the queues, says why, lets go of the memory, closes the connection, in that order.
    fn disconnect(&mut self, fault: Option<PortFault>, now: Instant, engine: &mut dyn Attach) {
        let since = self.started.take();
        self.stop(engine);
        self.until = None;
        let Some(link) = self.link.take() else { return };
        if let Some(fault) = &fault {
            link.part(&fault.to_string());
        }
        self.connector.part(since, now);
        self.state = fault.clone().map_or(PortState::Waiting, PortState::Faulted);
        self.last_fault = fault.or(self.last_fault.take());
    }

    fn stop(&mut self, engine: &mut dyn Attach) {
        let (rx, tx) = std::mem::take(&mut self.running);
        (0..rx).for_each(|pair| drop(engine.stop_rx(pair)));
        (0..tx).for_each(|pair| drop(engine.stop_tx(pair)));
    }

    fn queue_status(&self) -> Vec<QueueStatus> {
        let Some(link) = &self.link else { return vec![] };
        let (rx, tx) = self.running;
        let size = link.session().ring_size();
        (0..rx.max(tx))
            .map(|pair| QueueStatus { size, rx_running: pair < rx, tx_running: pair < tx })
            .collect()
    }
}

impl PortControl for Memif {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (self.state != PortState::Closed).then(|| self.connector.as_fd())
    }

    fn deadline(&self) -> Option<Instant> {
        self.connector.deadline().into_iter().chain(self.until).min()
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.state == PortState::Closed {
            return;
        }
        if let Some(socket) = self.connector.try_connect(now) {
            self.begin(socket, now);
        }
        // The link first: if its peer has gone, the one that waits may be the same one again, and it is let in after the
        // pause instead of being turned away.
        self.serve(now, engine);
        if let Some(socket) = self.connector.admit(self.link.is_some(), now) {
            self.begin(socket, now);
            self.serve(now, engine);
        }
    }

    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach) {
        self.disconnect(Some(fault), now, engine);
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        self.stop(engine);
        if let Some(link) = self.link.take() {
            link.part("the port was closed");
        }
        (self.started, self.until) = (None, None);
        self.connector.close();
        self.state = PortState::Closed;
    }

    fn status(&self) -> PortStatus {
        PortStatus {
            state: self.state.clone(),
            kind: "memif",
            place: self.connector.place(),
            features: vec![match self.role {
                Role::Server => "server",
                Role::Client => "client",
            }],
            queues: self.queue_status(),
            connects: self.connects,
            memory: self.link.as_ref().map_or((0, 0), |link| link.session().memory()),
            last_fault: self.last_fault.clone(),
        }
    }
}
