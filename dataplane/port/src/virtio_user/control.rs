//! Control side of the port: connects to a back end, runs a device, disconnects, and repeats.
//!
//! The port has one connection at a time, and each has its own device: memory, rings and eventfds are created after
//! feature negotiation and released with the connection, regardless of the descriptors that the back end still holds.
//! If the back end violates the protocol or a ring, or lacks a required feature, the port records a named fault.
//! After each connection the port pauses before it accepts or opens the next one, because each costs the control
//! thread the creation of a device. Never blocks and never reads a clock.

use super::device::Device;
use super::link::{End, Link, Progress};
use super::options::{Options, PlugError};
use super::{rx, tx};
use crate::handover::{HandOver, NotHandedOver};
use crate::socket::{Connector, SocketAddress};
use crate::vhost::message::feature_names;
use crate::{
    Attach, GrantEnd, PortControl, PortFault, PortState, PortStatus, QueueState, QueueStatus, RxQueue,
    TxQueue,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

/// A queue pair, ready for the engine.
type Pair = (Box<dyn RxQueue>, Box<dyn TxQueue>);

/// A virtio-user front end: a port that connects to a back end as a virtual machine would.
#[derive(Debug)]
pub struct VirtioUser {
    pub(super) connector: Connector,
    pub(super) options: Options,
    pub(super) link: Option<Link>,
    /// Number of queue pairs passed to the engine.
    pub(super) running: u16,
    /// Time at which the engine had received all queue pairs.
    pub(super) started: Option<Instant>,
    pub(super) state: PortState,
    pub(super) connects: u64,
    /// States of the queues of each pair, if they were stopped for a hand-over.
    pub(super) stopped: Vec<[QueueState; 2]>,
}

impl VirtioUser {
    /// Creates a front end in server mode: back ends connect to a socket at `path`. A stale socket file is replaced.
    /// The file is removed when the port is closed or dropped. After a back end disconnects, the next one is accepted
    /// after 100 ms to 2 s.
    pub fn listen(path: impl AsRef<Path>, options: Options) -> Result<Self, PlugError> {
        options.check()?;
        Ok(Self::behind(Connector::listen(&SocketAddress::Unix(path.as_ref().into()))?, options))
    }

    /// Creates a front end in client mode: it connects to a back end that listens at `path`, first at `now` and,
    /// while not connected, again after 100 ms to 2 s.
    pub fn connect(path: impl AsRef<Path>, options: Options, now: Instant) -> Result<Self, PlugError> {
        options.check()?;
        Ok(Self::behind(Connector::connect(&SocketAddress::Unix(path.as_ref().into()), now)?, options))
    }

    /// Creates a front end on a connection to a back end of this project, which a switch has granted: `socket` is
    /// connected and non-blocking. The port ends with its connection. `place` is shown as its place.
    pub fn over(socket: OwnedFd, place: String, options: Options, now: Instant) -> Result<Self, PlugError> {
        options.check()?;
        Ok(Self::behind(Connector::over(socket, place, now).map_err(PlugError::Descriptor)?, options))
    }

    fn behind(connector: Connector, options: Options) -> Self {
        Self {
            connector,
            options,
            link: None,
            running: 0,
            started: None,
            state: PortState::Waiting(None),
            connects: 0,
            stopped: Vec::new(),
        }
    }

    /// Creates a front end that continues the one of another process ([`HandOver::take_over`]). Until then it does
    /// nothing.
    pub fn successor(path: impl AsRef<Path>, options: Options) -> Result<Self, PlugError> {
        options.check()?;
        Ok(Self::behind(Connector::idle(&SocketAddress::Unix(path.as_ref().into()))?, options))
    }

    fn begin(&mut self, socket: OwnedFd, now: Instant) {
        if self.connector.watch(socket.as_fd()).is_err() {
            self.connector.rest(now);
            self.state = self.state_after(None);
            return;
        }
        self.link = Some(Link::new(socket, self.options));
        self.state = PortState::Connected;
        self.connects += 1;
    }

    fn serve(&mut self, now: Instant, engine: &mut dyn Attach) {
        let Some(link) = &mut self.link else { return };
        let served = match link.advance(now) {
            Ok(Progress::Started) => self.start(now, engine).map_err(End::Fault),
            Ok(Progress::Waits) => Ok(()),
            Err(end) => Err(end),
        };
        match served {
            Ok(()) => {}
            Err(End::Closed) => self.disconnect(None, now, engine),
            Err(End::Fault(fault)) => self.disconnect(Some(fault), now, engine),
        }
    }

    /// Passes every queue to the engine.
    ///
    /// # Errors
    /// A worker may still use the previous queues of this port. The engine then accepted no further queue, and the
    /// connection must end, because its rings are not served.
    pub(super) fn start(&mut self, now: Instant, engine: &mut dyn Attach) -> Result<(), PortFault> {
        for (pair, (rx, tx)) in (0..).zip(self.queues()?) {
            engine.start_tx(pair, tx);
            engine.start_rx(pair, rx);
            self.running = pair + 1;
            if let Some(failure) = engine.failure() {
                return Err(failure);
            }
        }
        self.started = Some(now);
        Ok(())
    }

    fn queues(&mut self) -> Result<Vec<Pair>, PortFault> {
        let mut stopped = std::mem::take(&mut self.stopped).into_iter();
        let device = self.link.as_ref().and_then(Link::device);
        let pairs = device.into_iter().flat_map(Device::pairs);
        let thaw = |(rx, tx)| {
            let [of_rx, of_tx] = stopped.next().unwrap_or_default();
            Ok((rx::thaw(rx, of_rx)?, tx::thaw(tx, of_tx)?))
        };
        pairs.map(thaw).collect()
    }

    /// Stops the queues, releases the memory and closes the connection, in this order.
    pub(super) fn disconnect(&mut self, fault: Option<PortFault>, now: Instant, engine: &mut dyn Attach) {
        let since = self.started.take();
        self.stop(engine);
        if self.link.take().is_none() {
            return;
        }
        self.connector.part(since, now);
        self.state = self.state_after(fault);
    }

    /// State after a connection that ended because of `fault`, or that the back end closed.
    fn state_after(&self, fault: Option<PortFault>) -> PortState {
        if self.connector.is_single() {
            return PortState::Ended(fault.unwrap_or(PortFault::Grant(GrantEnd::Disconnected)));
        }
        let left = || PortState::Waiting(Some(PortFault::Disconnected("back end")));
        fault.map_or_else(left, PortState::Faulted)
    }

    fn stop(&mut self, engine: &mut dyn Attach) {
        for pair in 0..std::mem::take(&mut self.running) {
            drop(engine.stop_rx(pair));
            drop(engine.stop_tx(pair));
        }
    }

    fn queue_status(&self) -> Vec<QueueStatus> {
        let pairs = if self.link.is_some() { self.options.queue_pairs } else { 0 };
        let status = |pair| QueueStatus {
            size: self.options.queue_size,
            rx_running: pair < self.running,
            tx_running: pair < self.running,
        };
        (0..pairs).map(status).collect()
    }
}

impl PortControl for VirtioUser {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (self.state != PortState::Closed).then(|| self.connector.as_fd())
    }

    fn deadline(&self) -> Option<Instant> {
        let link = self.link.as_ref().and_then(Link::deadline);
        self.connector.deadline().into_iter().chain(link).min()
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.state == PortState::Closed {
            return;
        }
        if let Some(socket) = self.connector.try_connect(now) {
            self.begin(socket, now);
        }
        // Process the link first: if its back end has disconnected, the pending connection may be from the same one,
        // and is accepted after the pause instead of being rejected.
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
        (self.link, self.started) = (None, None);
        self.connector.close();
        self.state = PortState::Closed;
    }

    fn as_handover(&mut self) -> Result<&mut dyn HandOver, NotHandedOver> {
        if self.connector.is_single() { Err(NotHandedOver::Kind("grant")) } else { Ok(self) }
    }

    fn status(&self) -> PortStatus {
        let agreed = self.link.as_ref().and_then(Link::agreed);
        let device = self.link.as_ref().and_then(Link::device);
        PortStatus {
            state: self.connector.explain(&self.state),
            kind: "virtio-user",
            place: self.connector.place(),
            features: agreed.map(|agreed| feature_names(agreed.features)).unwrap_or_default(),
            queues: self.queue_status(),
            connects: self.connects,
            memory: device.map_or((0, 0), |device| (1, device.bytes())),
        }
    }
}
