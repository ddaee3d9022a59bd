//! The stack: interfaces, connections and sockets of one core.

use crate::ip::{InterfaceConfig, InterfaceId, Ip, Packet, PrivateFrame, Received, Route, TransportError};
use crate::tcp::{ConnectionId, ConnectionInfo, Io, ListenerId, Options, Tcp};
use crate::udp::Udp;
use crate::{Address, Cidr, Config, Counters, Endpoint, Event, Frame, Link, Payload, Slice, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use wire::checksum::protocol;

/// Packets to this host itself in one call, before others have their turn.
const LOOPBACK_BURST: usize = 64;
/// Maximum number of datagrams for other stacks that wait for [`Stack::take_handoff`]: a burst of last fragments.
const HANDOFFS: usize = 64;

mod configure;
mod udp;

/// TCP/IP of one core.
pub struct Stack<P: Payload> {
    ip: Ip<P>,
    tcp: Tcp<P>,
    udp: Udp<P>,
    config: Config,
    counters: Counters,
    events: VecDeque<Event<P>>,
    handoffs: VecDeque<Handoff>,
    /// Time of the last call that had one.
    now: Time,
}

/// A datagram whose fragments this stack has reassembled, and whose socket may be one of another stack with the same
/// addresses: only the first fragment has the port, which names the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handoff {
    /// Number of the other stack ([`crate::Affinity`]).
    pub to: u16,
    /// The packet in an Ethernet frame, longer than the MTU.
    pub frame: Vec<u8>,
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
    /// The connection exists, or no port is free among those tested in this call; the next call tests others.
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

impl<P: Payload> Stack<P> {
    /// A stack without interfaces.
    pub fn new(config: Config, now: Time) -> Self {
        let (ip, tcp, udp) = (Ip::new(&config, now), Tcp::new(&config, now), Udp::new(&config));
        let (counters, events, handoffs) = (Counters::default(), VecDeque::new(), VecDeque::new());
        Self { ip, tcp, udp, config, counters, events, handoffs, now }
    }

    /// Settings.
    pub fn config(&self) -> &Config {
        &self.config
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

    /// The Ethernet address of a neighbour, for a caller that sends packets to it on its own. Starts the resolution of
    /// an address that is not known; [`Stack::transmit`] sends the requests. A neighbour that is looked up at least
    /// every few seconds is probed before its address is too old (RFC 4861 section 7.3).
    pub fn neighbour(
        &mut self,
        interface: InterfaceId,
        address: Address,
        now: Time,
    ) -> Option<wire::MacAddress> {
        self.ip.neighbour((interface, address), now)
    }

    /// TCP, and what its calls work with.
    fn split(&mut self, now: Time) -> (&mut Tcp<P>, Io<'_, P>) {
        self.now = now;
        let Self { ip, tcp, counters, events, .. } = self;
        (tcp, Io { ip, counters, events, now })
    }

    /// Processes a received frame. Events and replies follow from [`Stack::poll_event`] and [`Stack::transmit`].
    #[inline]
    pub fn receive<F: Frame<Payload = P>>(&mut self, interface: InterfaceId, frame: &mut F, now: Time) {
        if let Some(packet) = self.ip.express(interface, frame) {
            let (tcp, mut io) = self.split(now);
            if tcp.receive_known(frame, &packet, &mut io) {
                return;
            }
        }
        self.receive_any(interface, frame, now);
    }

    #[cold]
    fn receive_any<F: Frame<Payload = P>>(&mut self, interface: InterfaceId, frame: &mut F, now: Time) {
        match self.ip.receive(interface, frame, now, &mut self.counters) {
            Received::Packet(packet) => self.transport(frame, &packet, now),
            Received::Reassembled(packet, mut frame) if !self.config.affinity.is_shared() => {
                self.transport(&mut frame, &packet, now);
            }
            Received::Reassembled(packet, frame) => self.receive_reassembled(frame, &packet, now),
            Received::Error(error) => self.error(&error, now),
            Received::Consumed => {}
        }
    }

    /// Processes a reassembled packet to an address that several stacks have. All of them receive the fragments of TCP,
    /// and only the one with the connection must answer; one receives those of a datagram, and may not have its socket.
    fn receive_reassembled(&mut self, mut frame: PrivateFrame<P>, packet: &Packet, now: Time) {
        match packet.protocol {
            protocol::TCP if !self.tcp.has_connection(&frame, packet) => {
                self.counters.tcp_in += 1;
                self.counters.tcp_no_connection += 1;
                return;
            }
            protocol::UDP if self.handoffs.len() < HANDOFFS => {
                if let Some(to) = self.udp.other_owner(&frame, packet) {
                    return self.handoffs.push_back(Handoff { to, frame: frame.into_bytes() });
                }
            }
            _ => {}
        }
        self.transport(&mut frame, packet, now);
    }

    /// The next reassembled datagram for another stack with the same addresses, whose [`Stack::receive`] processes it.
    /// Should be called after a burst was received; what does not fit until then is processed as if no stack had the
    /// socket.
    #[inline]
    pub fn take_handoff(&mut self) -> Option<Handoff> {
        self.handoffs.pop_front()
    }

    /// Passes a packet to its transport protocol.
    #[inline]
    fn transport<F: Frame<Payload = P>>(&mut self, frame: &mut F, packet: &Packet, now: Time) {
        match packet.protocol {
            protocol::TCP => {
                let (tcp, mut io) = self.split(now);
                tcp.receive(frame, packet, &mut io);
            }
            protocol::UDP => self.receive_udp(frame, packet, now),
            _ => {
                self.counters.ip_unknown_protocol += 1;
                self.ip.refuse(frame, packet, now, &mut self.counters);
            }
        }
    }

    fn error(&mut self, error: &TransportError, now: Time) {
        match error.protocol {
            protocol::TCP => {
                let (tcp, mut io) = self.split(now);
                tcp.error(error, &mut io);
            }
            protocol::UDP => self.fail_udp(error),
            _ => {}
        }
    }

    /// Runs timers that are due. Call at [`Stack::deadline`], and before [`Stack::transmit`].
    pub fn advance(&mut self, now: Time) {
        self.ip.advance(now, &mut self.counters);
        let (tcp, mut io) = self.split(now);
        tcp.advance(&mut io);
    }

    /// Sends what is due, while the links have room.
    pub fn transmit<L: Link<Payload = P>>(&mut self, link: &mut L, now: Time) {
        // The outbox goes first: connections hold back data without room, and would not leave any.
        self.ip.transmit(link, &mut self.counters);
        let (tcp, mut io) = self.split(now);
        tcp.transmit(link, &mut io);
        self.ip.transmit(link, &mut self.counters);
        for _ in 0..LOOPBACK_BURST {
            let Some((packet, mut frame)) = self.ip.next_loopback(now, &mut self.counters) else { return };
            self.transport(&mut frame, &packet, now);
        }
    }

    /// Latest time of the next call of [`Stack::advance`] and [`Stack::transmit`]; the time of the last call or earlier
    /// if there is something to send now; [`Time::NEVER`] if nothing is due.
    pub fn deadline(&self) -> Time {
        if self.ip.has_output() {
            return Time(0);
        }
        self.tcp.deadline().min(self.ip.deadline())
    }

    /// Next event.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event<P>> {
        self.events.pop_front().or_else(|| self.udp.poll_event())
    }

    /// Number of events that [`Stack::poll_event`] returns before others occur.
    #[inline]
    pub fn pending_events(&self) -> usize {
        self.events.len() + self.udp.pending_events()
    }

    /// Accepts connections to an address and port; the unspecified address stands for all addresses of its version, and
    /// port 0 is replaced by an ephemeral port ([`Stack::listener`]).
    ///
    /// # Errors
    /// If the port is in use, or the address is not one of this stack.
    pub fn listen(&mut self, local: Endpoint, options: Options) -> Result<ListenerId, ListenError> {
        if !local.address.is_unspecified() && !self.ip.is_local(local.address) {
            return Err(ListenError::NotLocal);
        }
        self.tcp.listen(local, options)
    }

    /// Address and port of a listener.
    pub fn listener(&self, listener: ListenerId) -> Option<Endpoint> {
        self.tcp.listener(listener)
    }

    /// Stops accepting. Established connections continue.
    pub fn unlisten(&mut self, listener: ListenerId) {
        self.tcp.unlisten(listener);
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
        let (tcp, mut io) = self.split(now);
        tcp.connect(local, remote, options, &mut io)
    }

    /// Number of the stack, among those with the same addresses, to which segments of a connection from a chosen local
    /// port belong: only there can it be opened. An unspecified local address is chosen as [`Stack::connect`] does.
    /// Returns `None` if the owner is unknown ([`Affinity::with_flows`](crate::Affinity::with_flows)).
    ///
    /// # Errors
    /// [`ConnectError::NoRoute`].
    pub fn owner_of_flow(
        &mut self,
        local: Endpoint,
        remote: Endpoint,
        now: Time,
    ) -> Result<Option<u16>, ConnectError> {
        let source = Some(local.address).filter(|address| !address.is_unspecified());
        let (_, source) = self.ip.route(source, remote.address, now).map_err(|_| ConnectError::NoRoute)?;
        Ok(self.config.affinity.owner_of_flow(Endpoint::new(source, local.port), remote))
    }

    /// Queues data for sending; it leaves with the next [`Stack::transmit`]. The handle is dropped when the peer has
    /// acknowledged its bytes.
    ///
    /// # Errors
    /// If the send buffer is full or the sending side is closed; no data was queued then.
    #[inline]
    pub fn send(&mut self, connection: ConnectionId, data: Slice<P>) -> Result<(), SendError> {
        self.tcp.send(connection, data)
    }

    /// Queues data like [`Stack::send`], and announces to the peer that the stream is urgent up to its end (RFC 9293
    /// section 3.8.5). The data stays in the stream, as with `SO_OOBINLINE`; new applications should not use it
    /// (RFC 6093 section 5). Received urgent data is in the stream too, without an indication.
    ///
    /// # Errors
    /// Those of [`Stack::send`].
    pub fn send_urgent(&mut self, connection: ConnectionId, data: Slice<P>) -> Result<(), SendError> {
        self.tcp.send_urgent(connection, data)
    }

    /// Bytes that [`Stack::send`] accepts.
    pub fn send_space(&self, connection: ConnectionId) -> usize {
        self.tcp.send_space(connection)
    }

    /// Reports that the application no longer holds `bytes` of received data, which opens the receive window.
    #[inline]
    pub fn consumed(&mut self, connection: ConnectionId, bytes: usize) {
        self.tcp.consumed(connection, bytes);
    }

    /// Closes the sending side after all queued data (FIN). Receiving continues until the peer closes. A connection
    /// that is not established yet sends its queued data once it is; without any, it ends now.
    pub fn close(&mut self, connection: ConnectionId) {
        let (tcp, mut io) = self.split(self.now);
        tcp.close(connection, &mut io);
    }

    /// Ends the connection at once with a reset. [`Event::Closed`] follows.
    pub fn abort(&mut self, connection: ConnectionId) {
        let (tcp, mut io) = self.split(self.now);
        tcp.abort(connection, &mut io);
    }

    /// Whether acknowledged data is reported ([`Event::Acknowledged`]).
    pub fn report_acks(&mut self, connection: ConnectionId, report: bool) {
        self.tcp.report_acks(connection, report);
    }

    /// Settings of a connection.
    pub fn options(&self, connection: ConnectionId) -> Option<Options> {
        self.tcp.get(connection).map(|c| *c.options)
    }

    /// Changes the settings of a connection; those of the handshake have no effect any more.
    pub fn set_options(&mut self, connection: ConnectionId, options: Options) {
        self.tcp.set_options(connection, options, self.now);
    }

    /// Local and remote end of a connection.
    pub fn endpoints(&self, connection: ConnectionId) -> Option<(Endpoint, Endpoint)> {
        self.tcp.get(connection).map(|c| (c.key.local(), c.key.remote()))
    }

    /// A connection, for display.
    pub fn connection(&self, connection: ConnectionId) -> Option<ConnectionInfo> {
        self.tcp.connection(connection)
    }

    /// All connections, for display.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionInfo> + '_ {
        self.tcp.connections()
    }

    /// Connections in a range of slots, with their slots, for display in parts whose time is bounded. A connection
    /// keeps its slot.
    pub fn connections_in(&self, slots: Range<u32>) -> impl Iterator<Item = (u32, ConnectionInfo)> + '_ {
        self.tcp.connections_in(slots)
    }

    /// Number of slots of connections, in use or free.
    pub fn connection_slots(&self) -> u32 {
        self.tcp.connection_slots()
    }

    /// Number of connections without those in TIME-WAIT.
    pub fn connection_count(&self) -> usize {
        self.tcp.len()
    }

    /// Whether a received segment from `remote` to `local`, with these sequence and acknowledgement numbers, belongs to
    /// a connection or returns a SYN cookie of this stack. TIME-WAIT does not count: another stack may have a newer
    /// connection of the same ends.
    #[inline]
    pub fn claims(&self, (local, remote): (Endpoint, Endpoint), numbers: (u32, u32), now: Time) -> bool {
        self.tcp.claims((local, remote), numbers, now)
    }

    /// Number of connections in TIME-WAIT.
    pub fn time_waits(&self) -> usize {
        self.tcp.time_waits()
    }

    /// Counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
