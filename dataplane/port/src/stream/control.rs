//! The port's life: finding a peer, letting frames pass, letting go of it, for ever.
//!
//! One peer at a time; another one that connects meanwhile is shown the door. A peer that leaves is found by the
//! queue that reads, after everything it sent; a peer that breaks the protocol leaves a named fault behind. Whatever
//! ended a connection, the port waits a moment before it turns to the next one. Never blocks, never reads a clock.

use super::rx::{MEMORY, Rx};
use super::tx;
use super::wire::{Doorbell, Wire};
use crate::socket::{Connector, ListenError, Site};
use crate::{Attach, PortControl, PortFault, PortState, PortStatus, QueueStatus};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// A port whose peer sends and takes frames over a stream socket.
#[derive(Debug)]
pub struct Stream {
    connector: Connector,
    doorbell: Doorbell,
    link: Option<Link>,
    state: PortState,
    last_fault: Option<PortFault>,
    connects: u64,
}

/// A peer that is connected.
#[derive(Debug)]
struct Link {
    wire: Arc<Wire>,
    since: Instant,
    /// Whether the door waits for room on the socket.
    waits_for_room: bool,
}

impl Stream {
    /// A port in server mode: peers connect to a socket at `site`. A socket file without a listener any more is
    /// replaced, and the file is removed when the port is closed or dropped. Once a peer has gone, the next one is
    /// let in after 100 ms to 2 s.
    ///
    /// # Errors
    /// [`ListenError`] where nothing can be listened on there.
    pub fn listen(site: &Site) -> Result<Self, ListenError> {
        Self::behind(Connector::listen(site.clone())?, site)
    }

    /// A port in client mode: it connects to a peer that listens at `site`, at `now` and then again and again
    /// whenever there is no connection, after 100 ms to 2 s.
    ///
    /// # Errors
    /// [`ListenError`] where the kernel has no descriptors left. A missing listener is no error.
    pub fn connect(site: &Site, now: Instant) -> Result<Self, ListenError> {
        Self::behind(Connector::connect(site.clone(), now)?, site)
    }

    fn behind(connector: Connector, site: &Site) -> Result<Self, ListenError> {
        let kernel = |errno| ListenError::at(site, errno);
        let doorbell = Doorbell::new().map_err(kernel)?;
        connector.watch(doorbell.as_fd()).map_err(kernel)?;
        Ok(Self { connector, doorbell, link: None, state: PortState::Waiting, last_fault: None, connects: 0 })
    }

    fn begin(&mut self, socket: OwnedFd, now: Instant, engine: &mut dyn Attach) {
        let wire = Arc::new(Wire::new(socket, self.doorbell.clone()));
        self.link = Some(Link { wire: wire.clone(), since: now, waits_for_room: false });
        self.state = PortState::Connected;
        self.connects += 1;
        if let Err(fault) = start(&wire, engine) {
            self.disconnect(Some(fault), now, engine);
        }
    }

    /// Does what the queues rang for: ends what has ended, and sees what is missing of a frame on its way.
    fn serve(&mut self, now: Instant, engine: &mut dyn Attach) {
        let Some(link) = &mut self.link else { return };
        if link.wire.has_ended() {
            return self.disconnect(None, now, engine);
        }
        // A peer that takes no more has no room to wait for.
        let finished = link.wire.finish().unwrap_or(true);
        if finished == link.waits_for_room {
            let socket = link.wire.socket();
            if finished {
                self.connector.forget(socket);
            } else if self.connector.watch_room(socket).is_err() {
                // A frame that stays half sent would hold up whatever comes behind it.
                return self.disconnect(None, now, engine);
            }
            link.waits_for_room = !finished;
        }
    }

    /// Stops the queues and closes the connection, in that order.
    fn disconnect(&mut self, fault: Option<PortFault>, now: Instant, engine: &mut dyn Attach) {
        stop(engine);
        let Some(link) = self.link.take() else { return };
        self.connector.forget(link.wire.socket());
        link.wire.shut();
        self.connector.part(Some(link.since), now);
        self.state = fault.clone().map_or(PortState::Waiting, PortState::Faulted);
        self.last_fault = fault.or(self.last_fault.take());
    }
}

/// Hands both queues to the engine.
///
/// # Errors
/// There is no memory, or a worker may still use what this port had before.
fn start(wire: &Arc<Wire>, engine: &mut dyn Attach) -> Result<(), PortFault> {
    let rx = Rx::new(wire.clone())?;
    engine.start_tx(0, tx::start(wire.clone()));
    engine.start_rx(0, Box::new(rx));
    engine.failure().map_or(Ok(()), Err)
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
        self.doorbell.quiet();
        if let Some(socket) = self.connector.try_connect(now) {
            self.begin(socket, now, engine);
        }
        // The link first: if its peer has gone, the one that waits may be the same one again, and it is let in after
        // the pause instead of being turned away.
        self.serve(now, engine);
        if let Some(socket) = self.connector.admit(self.link.is_some(), now) {
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

    fn status(&self) -> PortStatus {
        let runs = self.link.is_some();
        let queue = QueueStatus { size: 0, rx_running: runs, tx_running: runs };
        let refused = || self.connector.refused().map(|errno| PortFault::Unreachable(errno.to_string()));
        PortStatus {
            state: self.state.clone(),
            kind: "stream",
            place: self.connector.place(),
            features: Vec::new(),
            queues: if runs { vec![queue] } else { Vec::new() },
            connects: self.connects,
            memory: if runs { (1, MEMORY as u64) } else { (0, 0) },
            last_fault: if runs { None } else { refused() }.or_else(|| self.last_fault.clone()),
        }
    }
}
