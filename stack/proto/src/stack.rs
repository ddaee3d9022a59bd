//! The stack: interfaces, connections and sockets of one core.

use crate::ip::{InterfaceConfig, InterfaceId, Ip, Route};
use crate::tcp::{ConnectionId, ListenerId, Options};
use crate::udp::Udp;
use crate::{Cidr, Config, Counters, Endpoint, Event, Frame, Link, Payload, Slice, Time};
use alloc::collections::VecDeque;

mod udp;

/// TCP/IP of one core.
pub struct Stack<P: Payload> {
    ip: Ip<P>,
    counters: Counters,
    events: VecDeque<Event<P>>,
    udp: Udp<P>,
}

/// Reason why [`Stack::listen`] failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// Another listener has the port.
    #[error("address in use")]
    InUse,
    /// The address is not one of this stack.
    #[error("address not available")]
    NotLocal,
}

/// Reason why [`Stack::connect`] failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// No route leads to the destination, or the source address is not one of this stack.
    #[error("no route to the destination")]
    NoRoute,
    /// The connection exists, or all ports are in use.
    #[error("address in use")]
    InUse,
    /// The limit of connections is reached.
    #[error("too many connections")]
    TooMany,
}

/// Reason why [`Stack::send`] took no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The send buffer is full; [`Event::Writable`] reports space.
    #[error("send buffer full")]
    Full,
    /// The connection does not exist, or its sending side was closed.
    #[error("connection closed")]
    Closed,
}

#[expect(
    unused_variables,
    clippy::unused_self,
    clippy::needless_pass_by_value,
    reason = "not implemented yet"
)]
impl<P: Payload> Stack<P> {
    /// A stack without interfaces.
    pub fn new(config: Config, now: Time) -> Self {
        Self {
            ip: Ip::new(&config, now),
            counters: Counters::default(),
            events: VecDeque::new(),
            udp: Udp::new(&config),
        }
    }

    /// Adds an interface.
    pub fn add_interface(&mut self, interface: InterfaceConfig) -> InterfaceId {
        self.ip.add_interface(interface)
    }

    /// Adds an address with its network to an interface.
    pub fn add_address(&mut self, interface: InterfaceId, address: Cidr, now: Time) {
        self.ip.add_address(interface, address, now);
    }

    /// Adds a route.
    pub fn add_route(&mut self, route: Route) {
        self.ip.add_route(route);
    }

    /// Processes a received frame. Events and replies follow from [`Stack::poll_event`] and [`Stack::transmit`].
    pub fn receive<F: Frame<Payload = P>>(&mut self, interface: InterfaceId, frame: &mut F, now: Time) {
        todo!()
    }

    /// Runs timers that are due. Call at [`Stack::deadline`], and before [`Stack::transmit`].
    pub fn advance(&mut self, now: Time) {
        todo!()
    }

    /// Sends what is due, while the links have room.
    pub fn transmit<L: Link<Payload = P>>(&mut self, link: &mut L, now: Time) {
        todo!()
    }

    /// Latest time of the next call of [`Stack::advance`] and [`Stack::transmit`]; the time of the last call or earlier
    /// if there is something to send now; [`Time::NEVER`] if nothing is due.
    pub fn deadline(&self) -> Time {
        todo!()
    }

    /// Next event.
    pub fn poll_event(&mut self) -> Option<Event<P>> {
        self.events.pop_front().or_else(|| self.udp.poll_event())
    }

    /// Accepts connections to an address and port; the unspecified address stands for all addresses of its version.
    ///
    /// # Errors
    /// If the port is in use, or the address is not one of this stack.
    pub fn listen(&mut self, local: Endpoint, options: Options) -> Result<ListenerId, ListenError> {
        todo!()
    }

    /// Stops accepting. Established connections continue.
    pub fn unlisten(&mut self, listener: ListenerId) {
        todo!()
    }

    /// Opens a connection. `local` gives source address and port; an unspecified address and port 0 are chosen. The
    /// result is an event: [`Event::Connected`] or [`Event::Closed`].
    ///
    /// # Errors
    /// If there is no route, no free port, or a limit is reached.
    pub fn connect(
        &mut self,
        local: Endpoint,
        remote: Endpoint,
        options: Options,
        now: Time,
    ) -> Result<ConnectionId, ConnectError> {
        todo!()
    }

    /// Queues data for sending; it leaves with the next [`Stack::transmit`]. The handle is dropped when the peer has
    /// acknowledged its bytes.
    ///
    /// # Errors
    /// If the send buffer is full or the sending side is closed; no data was queued then.
    pub fn send(&mut self, connection: ConnectionId, data: Slice<P>) -> Result<(), SendError> {
        todo!()
    }

    /// Bytes that [`Stack::send`] accepts.
    pub fn send_space(&self, connection: ConnectionId) -> usize {
        todo!()
    }

    /// Reports that the application no longer holds `bytes` of received data, which opens the receive window.
    pub fn consumed(&mut self, connection: ConnectionId, bytes: usize) {
        todo!()
    }

    /// Closes the sending side after all queued data (FIN). Receiving continues until the peer closes.
    pub fn close(&mut self, connection: ConnectionId) {
        todo!()
    }

    /// Ends the connection at once with a reset. [`Event::Closed`] follows.
    pub fn abort(&mut self, connection: ConnectionId) {
        todo!()
    }

    /// Whether acknowledged data is reported ([`Event::Acknowledged`]).
    pub fn report_acks(&mut self, connection: ConnectionId, report: bool) {
        todo!()
    }

    /// Settings of a connection.
    pub fn options(&self, connection: ConnectionId) -> Option<Options> {
        todo!()
    }

    /// Changes the settings of a connection; those of the handshake have no effect any more.
    pub fn set_options(&mut self, connection: ConnectionId, options: Options) {
        todo!()
    }

    /// Local and remote end of a connection.
    pub fn endpoints(&self, connection: ConnectionId) -> Option<(Endpoint, Endpoint)> {
        todo!()
    }

    /// Counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
