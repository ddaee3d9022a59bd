//! Control side: connects to a peer, runs the queues, disconnects, reconnects.
//!
//! One peer at a time; further connections are closed immediately. The receive queue detects that a peer has left,
//! after all data it sent; a protocol violation is a fault with a reason. After each connection the port pauses before
//! the next one. Never blocks, never reads a clock.

use super::connection::{Connection, Doorbell};
use super::rx::{MEMORY, Rx};
use super::tx;
use crate::handover::{HandOver, NotHandedOver};
use crate::socket::{Connector, ListenError, SocketAddress};
use crate::{Attach, PortControl, PortFault, PortState, PortStatus, QueueStatus};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// A port whose peer exchanges frames over a stream socket.
#[derive(Debug)]
pub struct Stream {
    pub(super) connector: Connector,
    pub(super) doorbell: Doorbell,
    pub(super) link: Option<Link>,
    pub(super) state: PortState,
    connects: u64,
}

/// A connected peer.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) wire: Arc<Connection>,
    since: Instant,
    /// Whether the connector polls the socket for writability.
    waits_for_room: bool,
    /// Bytes that the receive queue had read when it stopped for a hand-over.
    pub(super) received: Option<Box<[u8]>>,
}

impl Stream {
    /// A port in server mode: peers connect to a socket at `site`. Replaces a stale socket file; the file is removed
    /// when the port is closed or dropped. After a peer has left, the next one is accepted after 100 ms to 2 s.
    ///
    /// # Errors
    /// [`ListenError`] if the socket cannot be created.
    pub fn listen(site: &SocketAddress) -> Result<Self, ListenError> {
        Self::behind(Connector::listen(site)?, site)
    }

    /// A port in client mode: connects to a listener at `site`, at `now` and then whenever there is no connection,
    /// after 100 ms to 2 s.
    ///
    /// # Errors
    /// [`ListenError`] if the process is out of file descriptors. A missing listener is not an error.
    pub fn connect(site: &SocketAddress, now: Instant) -> Result<Self, ListenError> {
        Self::behind(Connector::connect(site, now)?, site)
    }

    /// A port that continues the one of another process ([`HandOver::take_over`]). Until then it does nothing.
    ///
    /// # Errors
    /// [`ListenError`] if the process is out of file descriptors.
    pub fn successor(site: &SocketAddress) -> Result<Self, ListenError> {
        Self::behind(Connector::idle(site)?, site)
    }

    fn behind(connector: Connector, site: &SocketAddress) -> Result<Self, ListenError> {
        let kernel = |errno| ListenError::at(site, errno);
        let doorbell = Doorbell::new().map_err(kernel)?;
        connector.watch(doorbell.as_fd()).map_err(kernel)?;
        Ok(Self { connector, doorbell, link: None, state: PortState::Waiting(None), connects: 0 })
    }

    fn begin(&mut self, socket: OwnedFd, now: Instant, engine: &mut dyn Attach) {
        self.connected(Connection::new(socket, self.doorbell.clone()), now);
        if let Err(fault) = self.start(&[], engine) {
            self.disconnect(Some(fault), now, engine);
        }
    }

    pub(super) fn connected(&mut self, connection: Connection, now: Instant) {
        let wire = Arc::new(connection);
        self.link = Some(Link { wire, since: now, waits_for_room: false, received: None });
        self.state = PortState::Connected;
        self.connects += 1;
    }

    /// Passes both queues to the engine. `received` was read before.
    ///
    /// # Errors
    /// Out of memory, or a worker may still use resources of the previous connection.
    pub(super) fn start(&self, received: &[u8], engine: &mut dyn Attach) -> Result<(), PortFault> {
        let Some(Link { wire, .. }) = &self.link else { return Ok(()) };
        let rx = Rx::new(wire.clone(), received)?;
        engine.start_tx(0, tx::start(wire.clone()));
        engine.start_rx(0, Box::new(rx));
        engine.failure().map_or(Ok(()), Err)
    }

    /// Handles a doorbell: disconnects an ended connection, or sends the rest of a partially sent frame.
    fn serve(&mut self, now: Instant, engine: &mut dyn Attach) {
        let Some(link) = &mut self.link else { return };
        if link.wire.has_ended() {
            return self.disconnect(None, now, engine);
        }
        // After a send error, do not wait for writability.
        let finished = link.wire.finish().unwrap_or(true);
        if finished == link.waits_for_room {
            let socket = link.wire.socket();
            if finished {
                self.connector.forget(socket);
            } else if self.connector.watch_room(socket).is_err() {
                // A partially sent frame would block all later ones.
                return self.disconnect(None, now, engine);
            }
            link.waits_for_room = !finished;
        }
    }

    /// Stops the queues, then closes the connection.
    pub(super) fn disconnect(&mut self, fault: Option<PortFault>, now: Instant, engine: &mut dyn Attach) {
        stop(engine);
        let Some(link) = self.link.take() else { return };
        self.connector.forget(link.wire.socket());
        link.wire.shut();
        self.connector.part(Some(link.since), now);
        let left = || PortState::Waiting(Some(PortFault::Disconnected("peer")));
        self.state = fault.map_or_else(left, PortState::Faulted);
    }
}

fn stop(engine: &mut dyn Attach) {
    drop(engine.stop_rx(0));
    drop(engine.stop_tx(0));
}

impl PortControl for Stream {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (self.state != PortState::Closed).then(|| self.connector.as_fd())
    }

    fn deadline(&self) -> Option<Instant> {
        self.connector.deadline()
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.state == PortState::Closed {
            return;
        }
        self.doorbell.clear();
        if let Some(socket) = self.connector.try_connect(now) {
            self.begin(socket, now, engine);
        }
        // Serve the link first: if its peer has left, the pending connection may be the same peer, which is accepted
        // after the pause instead of being rejected.
        self.serve(now, engine);
        if let Some(socket) = self.connector.accept(self.link.is_some(), now) {
            self.begin(socket, now, engine);
        }
    }

    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach) {
        self.disconnect(Some(fault), now, engine);
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        stop(engine);
        if let Some(link) = self.link.take() {
            link.wire.shut();
        }
        self.connector.close();
        self.state = PortState::Closed;
    }

    fn as_handover(&mut self) -> Result<&mut dyn HandOver, NotHandedOver> {
        Ok(self)
    }

    fn status(&self) -> PortStatus {
        let runs = self.link.is_some();
        let queue = QueueStatus { size: 0, rx_running: runs, tx_running: runs };
        PortStatus {
            state: self.connector.explain(&self.state),
            kind: "stream",
            place: self.connector.place(),
            features: Vec::new(),
            queues: if runs { vec![queue] } else { Vec::new() },
            connects: self.connects,
            memory: if runs { (1, MEMORY as u64) } else { (0, 0) },
        }
    }
}
