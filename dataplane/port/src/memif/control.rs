//! Control side of the port: finds a peer, negotiates rings, disconnects, and repeats.
//!
//! The port has one peer at a time; a server rejects further connections immediately. Memory, rings and eventfds
//! belong to a connection and are released with it, regardless of what the peer still holds. If the peer violates the
//! protocol or a ring, or rejects this port, the port records a named fault and sends the reason. After each
//! connection the port pauses before the next one. Never blocks and never reads a clock.

use super::link::{Link, TIMEOUT};
use super::options::{MemifError, Options};
use super::queue::{Rings, States};
use super::session::{ClientSession, End, ServerSession, Session};
use crate::handover::{HandOver, NotHandedOver};
use crate::socket::{Connector, SocketAddress};
use crate::{Attach, PortControl, PortFault, PortState, PortStatus, QueueStatus};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

/// The end of this port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Server,
    Client,
}

/// A memif interface: a port that shares memory with one other process.
#[derive(Debug)]
pub struct Memif {
    pub(super) connector: Connector,
    pub(super) role: Role,
    pub(super) options: Options,
    pub(super) link: Option<Link>,
    /// Deadline of the handshake.
    pub(super) until: Option<Instant>,
    /// Number of receive and transmit queues passed to the engine.
    pub(super) running: (u16, u16),
    /// Time at which the engine had received all queues.
    pub(super) started: Option<Instant>,
    pub(super) state: PortState,
    pub(super) connects: u64,
    /// States of the queues, if they were stopped for a hand-over.
    pub(super) stopped: States,
}

impl Memif {
    /// Creates a server: clients connect to a socket at `path` and provide the memory. A stale socket file is
    /// replaced. The file is removed when the port is closed or dropped. After a client disconnects, the next one is
    /// accepted after 100 ms to 2 s. A path that begins with `@` is a name in the abstract namespace
    /// ([`super::is_abstract`]).
    pub fn listen(path: impl AsRef<Path>, options: Options) -> Result<Self, MemifError> {
        options.check()?;
        let connector = Connector::listen(&SocketAddress::Packets(path.as_ref().into()))?;
        Ok(Self::behind(connector, Role::Server, options))
    }

    /// Creates a client: it connects to a server that listens at `path`, first at `now` and, while not connected,
    /// again after 100 ms to 2 s, with new memory each time.
    pub fn connect(path: impl AsRef<Path>, options: Options, now: Instant) -> Result<Self, MemifError> {
        options.check()?;
        let connector = Connector::connect(&SocketAddress::Packets(path.as_ref().into()), now)?;
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
            state: PortState::Waiting(None),
            connects: 0,
            stopped: States::default(),
        }
    }

    /// Creates a server, or else a client, that continues the one of another process ([`HandOver::take_over`]). Until
    /// then it does nothing.
    pub fn successor(path: impl AsRef<Path>, is_server: bool, options: Options) -> Result<Self, MemifError> {
        options.check()?;
        let connector = Connector::idle(&SocketAddress::Packets(path.as_ref().into()))?;
        Ok(Self::behind(connector, if is_server { Role::Server } else { Role::Client }, options))
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

    /// Passes every queue to the engine, then notifies the peer.
    ///
    /// # Errors
    /// A worker may still use the previous queues of this port. The engine then accepted no further queue, and the
    /// connection must end, because its rings are not served.
    pub(super) fn start(&mut self, rings: Rings, now: Instant, engine: &mut dyn Attach) -> Result<(), End> {
        let (rx, tx) = rings.thaw(std::mem::take(&mut self.stopped)).map_err(End::Fault)?;
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

    /// Stops the queues, sends the reason, releases the memory and closes the connection, in this order.
    pub(super) fn disconnect(&mut self, fault: Option<PortFault>, now: Instant, engine: &mut dyn Attach) {
        let since = self.started.take();
        self.stop(engine);
        self.until = None;
        let Some(link) = self.link.take() else { return };
        if let Some(fault) = &fault {
            link.part(&fault.to_string());
        }
        self.connector.part(since, now);
        let left = || PortState::Waiting(Some(PortFault::Disconnected("peer")));
        self.state = fault.map_or_else(left, PortState::Faulted);
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
        // Process the link first: if its peer has disconnected, the pending connection may be from the same one, and
        // is accepted after the pause instead of being rejected.
        self.serve(now, engine);
        if let Some(socket) = self.connector.accept(self.link.is_some(), now) {
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

    fn as_handover(&mut self) -> Result<&mut dyn HandOver, NotHandedOver> {
        Ok(self)
    }

    fn status(&self) -> PortStatus {
        PortStatus {
            state: self.connector.explain(&self.state),
            kind: "memif",
            place: self.connector.place(),
            features: vec![match self.role {
                Role::Server => "server",
                Role::Client => "client",
            }],
            queues: self.queue_status(),
            connects: self.connects,
            memory: self.link.as_ref().map_or((0, 0), |link| link.session().memory()),
        }
    }
}
