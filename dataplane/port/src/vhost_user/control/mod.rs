//! Control side of the port: waits for a front end, serves it, disconnects, and repeats.
//!
//! The port has one connection at a time. In server mode a second front end is accepted and closed immediately: it gets
//! a clear error instead of waiting for a guest that may run for months, and cannot take over a running guest's port.
//! In client mode reconnects back off exponentially. If a front end violates the protocol, the port records a named
//! fault and pauses before it accepts the next one, so that a broken or hostile front end cannot keep the control
//! thread busy. An invalid ring is a fault only if the front end neither stops it nor disconnects within a grace
//! period. Never blocks and never reads a clock.

mod handover;
mod offer;

pub use offer::{Options, PlugError};

use super::positions::Positions;
use super::session::{Offer, Queues, Session};
use crate::handover::{HandOver, NotHandedOver};
use crate::socket::rights::ReceiveError;
use crate::socket::{Connector, SocketAddress};
use crate::vhost::message::{Code, Header, Reply, feature_names};
use crate::vhost::wire::{Channel, WireError};
use crate::{Attach, GrantEnd, PortControl, PortDetail, PortDetails, PortFault, PortState, PortStatus};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Maximum messages processed per call, so that other ports are not delayed.
const MESSAGES_AT_ONCE: usize = 64;

/// A vhost-user back end: one port of a virtual machine.
#[derive(Debug)]
pub struct VhostUser {
    connector: Connector,
    /// Whether the port is in server mode.
    listens: bool,
    offer: Offer,
    queues: Queues,
    link: Option<Link>,
    state: PortState,
    connects: u64,
    /// Number of times that a worker found a ring invalid.
    ring_faults: u64,
    /// Positions of packed rings, or why they cannot be kept; `None` if they are not kept.
    positions: Option<Result<Arc<Positions>, String>>,
}

/// A connection to a front end.
#[derive(Debug)]
struct Link {
    channel: Channel,
    session: Session,
}

/// Reason why a link ended.
enum End {
    /// The front end closed it.
    Closed,
    /// This side ended it.
    Fault(PortFault),
}

impl VhostUser {
    /// Creates a back end in server mode: front ends connect to a socket at `path`. A stale socket file is replaced.
    /// The file is removed when the port is closed or dropped.
    pub fn listen(path: impl AsRef<Path>, options: Options) -> Result<Self, PlugError> {
        Self::listen_with(path, options, super::QUEUES)
    }

    /// Creates a back end in client mode: it connects to a front end that listens at `path`, first at `now` and,
    /// while not connected, again after 100 ms to 2 s.
    pub fn connect(path: impl AsRef<Path>, options: Options, now: Instant) -> Result<Self, PlugError> {
        Self::connect_with(path, options, now, super::QUEUES)
    }

    /// Like [`VhostUser::listen`], with other queue constructors.
    #[doc(hidden)]
    pub fn listen_with(path: impl AsRef<Path>, options: Options, queues: Queues) -> Result<Self, PlugError> {
        let offer = options.offer()?;
        Ok(Self::behind(Connector::listen(&SocketAddress::Unix(path.as_ref().into()))?, true, offer, queues))
    }

    /// Like [`VhostUser::connect`], with other queue constructors.
    #[doc(hidden)]
    pub fn connect_with(
        path: impl AsRef<Path>,
        options: Options,
        now: Instant,
        queues: Queues,
    ) -> Result<Self, PlugError> {
        let offer = options.offer()?;
        Ok(Self::behind(
            Connector::connect(&SocketAddress::Unix(path.as_ref().into()), now)?,
            false,
            offer,
            queues,
        ))
    }

    /// Creates a back end on a connection that a switch grants to an application: `socket` is connected and
    /// non-blocking. The port ends with its connection, and tells the front end why before ([`GrantEnd`]). `place` is
    /// shown as its place.
    pub fn over(socket: OwnedFd, place: String, options: Options, now: Instant) -> Result<Self, PlugError> {
        let offer = options.offer()?;
        let connector = Connector::over(socket, place, now).map_err(PlugError::Descriptor)?;
        Ok(Self::behind(connector, false, offer, super::QUEUES))
    }

    /// Creates a back end that continues the one of another process ([`HandOver::take_over`]). Until then it does
    /// nothing.
    pub fn successor(path: impl AsRef<Path>, listens: bool, options: Options) -> Result<Self, PlugError> {
        let offer = options.offer()?;
        let connector = Connector::idle(&SocketAddress::Unix(path.as_ref().into()))?;
        Ok(Self::behind(connector, listens, offer, super::QUEUES))
    }

    fn behind(connector: Connector, listens: bool, offer: Offer, queues: Queues) -> Self {
        let (link, state) = (None, PortState::Waiting(None));
        Self { connector, listens, offer, queues, link, state, connects: 0, ring_faults: 0, positions: None }
    }

    /// Keeps the positions of packed rings in a file at `path`, so that a process continues them after this one was
    /// killed. Without the file, the port works in all other respects. `recovers` is whether positions of a process
    /// before are continued; those of a port that is taken over are in its description.
    #[must_use]
    pub fn keep_positions(mut self, path: &Path, recovers: bool) -> Self {
        let rings = 2 * usize::from(self.offer.queue_pairs);
        let positions = Positions::open(path, rings, recovers).map(Arc::new);
        self.positions = Some(positions.map_err(|error| error.to_string()));
        self
    }

    fn session(&self) -> Session {
        Session::new(self.offer, self.queues).keep_positions(self.positions.clone().and_then(Result::ok))
    }

    fn begin(&mut self, socket: OwnedFd, now: Instant) {
        if self.connector.watch(socket.as_fd()).is_err() {
            self.connector.rest(now);
            self.state = self.state_after(None);
            return;
        }
        let channel = Channel::new(socket, Header::expect_request);
        self.link = Some(Link { channel, session: self.session() });
        self.state = PortState::Connected;
        self.connects += 1;
    }

    fn serve(&mut self, now: Instant, engine: &mut dyn Attach) {
        let Some(link) = &mut self.link else { return };
        let served = link.serve(engine);
        if link.session.features().is_some() {
            self.connector.succeeded();
        }
        match served {
            Ok(()) => {}
            Err(End::Closed) => self.disconnect(None, now, engine),
            Err(End::Fault(fault)) => self.disconnect(Some(fault), now, engine),
        }
    }

    /// Stops the queues, releases the memory and closes the connection, in this order.
    fn disconnect(&mut self, fault: Option<PortFault>, now: Instant, engine: &mut dyn Attach) {
        let Some(mut link) = self.link.take() else { return };
        let is_suspended = link.session.is_suspended();
        link.session.end(engine);
        if self.connector.is_single() {
            link.end_grant(fault.is_some().then_some(GrantEnd::Violation));
        }
        drop(link);
        if !self.listens || fault.is_some() || is_suspended {
            self.connector.rest(now);
        }
        self.state = self.state_after(fault);
    }

    /// State after a connection that ended because of `fault`, or that the front end closed.
    fn state_after(&self, fault: Option<PortFault>) -> PortState {
        if self.connector.is_single() {
            return PortState::Ended(fault.unwrap_or(PortFault::Disconnected("application")));
        }
        let left = || PortState::Waiting(Some(PortFault::Disconnected("guest")));
        fault.map_or_else(left, PortState::Faulted)
    }
}

impl Link {
    /// Reports the end of a grant to the front end, if it has a reason, and closes the connection also for other
    /// descriptors of the socket. A front end that does not read is not waited for.
    fn end_grant(&self, end: Option<GrantEnd>) {
        if let Some(number) = end.and_then(GrantEnd::number) {
            let _ = self.channel.send(&Reply::U64(number).encode(Code::ResetOwner), &[]);
        }
        let _ = rustix::net::shutdown(&self.channel, Shutdown::Both);
    }

    /// Processes the available messages.
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
                self.send_reply(&bytes)?;
            }
        }
        Ok(())
    }

    fn send_reply(&self, bytes: &[u8]) -> Result<(), End> {
        match self.channel.send(bytes, &[]) {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN) => Err(End::Fault(PortFault::Protocol("it does not read its answers".into()))),
            Err(_) => Err(End::Closed),
        }
    }
}

impl PortControl for VhostUser {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (self.state != PortState::Closed).then(|| self.connector.as_fd())
    }

    fn deadline(&self) -> Option<Instant> {
        let grace = self.link.as_ref().and_then(|link| link.session.deadline());
        self.connector.deadline().into_iter().chain(grace).min()
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.state == PortState::Closed {
            return;
        }
        if let Some(socket) = self.connector.try_connect(now) {
            self.begin(socket, now);
        }
        // Process the link first: its front end may have disconnected, and the pending connection may be from the
        // same guest. The next call accepts it, so that the status shows the disconnect in between.
        let was_linked = self.link.is_some();
        self.serve(now, engine);
        if let Some(fault) = self.link.as_ref().and_then(|link| link.session.expired(now)) {
            self.disconnect(Some(fault), now, engine);
        }
        if was_linked && self.link.is_none() {
            return;
        }
        if let Some(socket) = self.connector.accept(self.link.is_some(), now) {
            self.begin(socket, now);
        }
    }

    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach) {
        let Some(link) = &mut self.link else { return };
        self.ring_faults += u64::from(fault.is_invalid_ring());
        if let Err(fault) = link.session.suspend(engine.faulty_queue(), fault, now, engine) {
            self.disconnect(Some(fault), now, engine);
        }
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        if let Some(mut link) = self.link.take() {
            link.session.end(engine);
            if self.connector.is_single() {
                link.end_grant(Some(GrantEnd::Revoked));
            }
        }
        self.connector.close();
        // The file is removed with it.
        self.positions = None;
        self.state = PortState::Closed;
    }

    fn status(&self) -> PortStatus {
        let session = self.link.as_ref().map(|link| &link.session);
        PortStatus {
            state: self.connector.explain(&self.state),
            kind: "vhost-user",
            place: self.connector.place(),
            features: session.and_then(Session::features).map(feature_names).unwrap_or_default(),
            queues: session.map(Session::queue_status).unwrap_or_default(),
            connects: self.connects,
            memory: session.map_or((0, 0), Session::memory_use),
        }
    }

    fn as_handover(&mut self) -> Result<&mut dyn HandOver, NotHandedOver> {
        match &self.link {
            _ if self.connector.is_single() => Err(NotHandedOver::Granted),
            Some(link) if link.session.is_logged() => Err(NotHandedOver::Migrates),
            _ => Ok(self),
        }
    }

    fn details(&self) -> PortDetails {
        let faults = (self.ring_faults > 0).then(|| (PortDetail::RingFaults, self.ring_faults.to_string()));
        let lost = self.positions.as_ref().and_then(|positions| positions.as_ref().err());
        let lost = lost.map(|why| (PortDetail::PositionsNotKept, why.clone()));
        faults.into_iter().chain(lost).collect()
    }
}

#[cfg(test)]
mod tests;
