//! UDP sockets (RFC 768, RFC 1122 section 4.1): demultiplexing, checksums and the queue of received datagrams.
//!
//! Must not copy payload, and must not hold more than the limits of sockets and of queued events allow.

mod datagram;
mod table;

use crate::ip::{ErrorKind, InterfaceId, Packet, PathId, TransportError};
use crate::random::Random;
use crate::{Address, Config, Counters, DatagramError, Endpoint, Event, Frame, Limits, Payload, SocketId};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
pub(crate) use datagram::datagram;
use table::{Ends, Socket, Table};
use wire::checksum::{Sum, protocol};
use wire::{UDP_HEADER, Udp as Header};

/// Reason why an operation of a UDP socket failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UdpError {
    /// The socket was closed.
    #[error("socket closed")]
    Closed,
    /// Another socket has the port, or all ephemeral ports are in use.
    #[error("address in use")]
    InUse,
    /// The address is not one of this stack.
    #[error("address not available")]
    NotLocal,
    /// No route leads to the destination.
    #[error("no route to the destination")]
    NoRoute,
    /// The socket is not connected, and no destination was given.
    #[error("destination address required")]
    NotConnected,
    /// The address is not valid here: another IP version than that of the socket, or not a group address.
    #[error("invalid address")]
    InvalidAddress,
    /// The datagram is longer than this many bytes of payload.
    #[error("datagram too long: at most {0} bytes")]
    TooLong(u16),
    /// A limit of the stack is reached.
    #[error("too many sockets or groups")]
    TooMany,
}

/// Settings of a UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// Hop limit of datagrams to unicast addresses.
    pub hop_limit: u8,
    /// Hop limit of datagrams to group addresses (RFC 1112 section 6.1). With 0 they stay on this host, which does not
    /// receive them itself: they are dropped.
    pub group_hop_limit: u8,
    /// ECN field of sent datagrams: 0 to 3.
    pub ecn: u8,
    /// Source of datagrams to group addresses, if the socket is not bound to one: it selects the interface. `None` is
    /// the choice of the stack.
    pub group_source: Option<Address>,
    /// Whether datagrams longer than the path MTU are fragmented; otherwise [`UdpError::TooLong`] is returned.
    pub may_fragment: bool,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self { hop_limit: 64, group_hop_limit: 1, ecn: 0, group_source: None, may_fragment: true }
    }
}

/// No socket receives the datagram; the caller answers with an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPort;

/// A membership of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Membership {
    socket: u32,
    interface: InterfaceId,
    group: Address,
}

/// The sockets of a stack.
pub(crate) struct Udp<P: Payload> {
    table: Table,
    memberships: Vec<Membership>,
    events: VecDeque<Event<P>>,
    random: Random,
    limits: Limits,
}

impl<P: Payload> Udp<P> {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            table: Table::new(config),
            memberships: Vec::new(),
            events: VecDeque::new(),
            random: Random::new(&config.secret, "udp ports", 0),
            limits: config.limits.clone(),
        }
    }

    /// Adds a socket. Port 0 is replaced by an ephemeral port. The caller has checked the address.
    pub(crate) fn bind(&mut self, local: Endpoint, options: UdpOptions) -> Result<SocketId, UdpError> {
        if self.table.len() >= self.limits.udp_sockets as usize {
            return Err(UdpError::TooMany);
        }
        let local = self.table.with_port(local, &mut self.random).ok_or(UdpError::InUse)?;
        self.table.insert(local, options).ok_or(UdpError::InUse)
    }

    /// The socket that is bound to this end and not connected.
    pub(crate) fn bound(&self, local: Endpoint) -> Option<SocketId> {
        self.table.find(&Ends::bound(local))
    }

    /// Removes a socket with its memberships and events; returns its memberships one by one. Call until it returns
    /// `None`.
    pub(crate) fn close(&mut self, socket: SocketId) -> Option<(InterfaceId, Address)> {
        self.socket(socket).ok()?;
        if let Some(at) = self.memberships.iter().position(|member| member.socket == socket.index) {
            let member = self.memberships.swap_remove(at);
            return Some((member.interface, member.group));
        }
        self.table.remove(socket);
        self.events.retain(|event| owner(event) != Some(socket));
        None
    }

    /// Limits a socket to one remote end, reached from `source`.
    pub(crate) fn connect(
        &mut self,
        socket: SocketId,
        source: Address,
        remote: Endpoint,
        path: PathId,
    ) -> Result<(), UdpError> {
        let local = Endpoint::new(source, self.socket(socket)?.ends.local.port);
        self.table.rename(socket, Ends { local, remote }).ok_or(UdpError::InUse)?;
        self.set_path(socket, path);
        Ok(())
    }

    /// Changes the path of a connected socket.
    pub(crate) fn set_path(&mut self, socket: SocketId, path: PathId) {
        if let Some(socket) = self.table.get_mut(socket) {
            socket.path = Some(path);
        }
    }

    /// Changes the settings of a socket.
    pub(crate) fn set_options(&mut self, socket: SocketId, options: UdpOptions) -> Result<(), UdpError> {
        self.table.get_mut(socket).ok_or(UdpError::Closed)?.options = options;
        Ok(())
    }

    /// The socket with this identifier.
    pub(crate) fn socket(&self, socket: SocketId) -> Result<&Socket, UdpError> {
        self.table.get(socket).ok_or(UdpError::Closed)
    }

    /// Adds a membership. Returns whether the socket did not have it. Its datagrams are received by one socket, as
    /// others are.
    pub(crate) fn join(
        &mut self,
        socket: SocketId,
        interface: InterfaceId,
        group: Address,
    ) -> Result<bool, UdpError> {
        if self.socket(socket)?.ends.local.address.is_v4() != group.is_v4() || !group.is_multicast() {
            return Err(UdpError::InvalidAddress);
        }
        if self.is_member(socket.index, interface, group) {
            return Ok(false);
        }
        if self.memberships.len() >= self.limits.groups as usize {
            return Err(UdpError::TooMany);
        }
        self.memberships.push(Membership { socket: socket.index, interface, group });
        Ok(true)
    }

    /// Removes a membership, on any interface if none is given. Returns its interface if the socket had it.
    pub(crate) fn leave(
        &mut self,
        socket: SocketId,
        interface: Option<InterfaceId>,
        group: Address,
    ) -> Result<Option<InterfaceId>, UdpError> {
        self.socket(socket)?;
        let is_left = |member: &Membership| {
            (member.socket, member.group) == (socket.index, group)
                && interface.is_none_or(|interface| member.interface == interface)
        };
        let at = self.memberships.iter().position(is_left);
        Ok(at.map(|at| self.memberships.swap_remove(at).interface))
    }

    fn is_member(&self, socket: u32, interface: InterfaceId, group: Address) -> bool {
        self.memberships.contains(&Membership { socket, interface, group })
    }

    /// Delivers a datagram to the most specific socket: connected, bound to the address, bound to all addresses. A
    /// socket receives datagrams to a multicast group only if it joined the group on the interface.
    pub(crate) fn receive<F: Frame<Payload = P>>(
        &mut self,
        frame: &mut F,
        packet: &Packet,
        counters: &mut Counters,
    ) -> Result<(), NoPort> {
        let Some((ends, end)) = validate(frame, packet) else {
            counters.udp_errors += 1;
            return Ok(());
        };
        let Some(socket) = self.find(&ends, packet.interface) else {
            counters.udp_no_port += 1;
            return Err(NoPort);
        };
        let start = packet.transport + UDP_HEADER;
        let step = frame.segment().map_or(end - start, usize::from).max(1);
        for at in (start..end.max(start + 1)).step_by(step) {
            let data = self.has_room(socket).then(|| frame.retain(at..end.min(at + step))).flatten();
            let Some(data) = data else {
                counters.udp_overflow += 1;
                continue;
            };
            counters.udp_in += 1;
            self.queue(socket, Event::Datagram { socket, from: ends.remote, to: ends.local, data });
        }
        Ok(())
    }

    /// Number of the stack, among those with the same addresses, to which a valid datagram without a socket here
    /// belongs.
    pub(crate) fn other_owner<F: Frame>(&self, frame: &F, packet: &Packet) -> Option<u16> {
        let (ends, _) = validate(frame, packet)?;
        let owner = self.table.affinity().other_owner(ends.local, ends.remote)?;
        self.find(&ends, packet.interface).is_none().then_some(owner)
    }

    fn find(&self, ends: &Ends, interface: InterfaceId) -> Option<SocketId> {
        let group = ends.local.address;
        let receives =
            |socket: &SocketId| !group.is_multicast() || self.is_member(socket.index, interface, group);
        ends.keys().into_iter().filter_map(|key| self.table.find(&key)).find(receives)
    }

    /// Reports an ICMP error to the connected socket whose datagram caused it.
    pub(crate) fn fail(&mut self, error: &TransportError, counters: &mut Counters) {
        let ends = Ends { local: error.local, remote: error.remote };
        let Some(socket) = self.table.find(&ends) else { return };
        if !self.has_room(socket) {
            counters.udp_errors_dropped += 1;
            return;
        }
        let error = match error.kind {
            ErrorKind::Unreachable => DatagramError::Unreachable,
            ErrorKind::Refused => DatagramError::Refused,
            ErrorKind::TooBig(mtu) => DatagramError::TooBig(mtu),
        };
        self.queue(socket, Event::DatagramLost { socket, error });
    }

    fn has_room(&self, socket: SocketId) -> bool {
        self.table.get(socket).is_some_and(|socket| socket.queued < self.limits.udp_queue)
    }

    fn queue(&mut self, socket: SocketId, event: Event<P>) {
        if let Some(socket) = self.table.get_mut(socket) {
            socket.queued += 1;
            self.events.push_back(event);
        }
    }

    /// Number of events of all sockets.
    #[inline]
    pub(crate) fn pending_events(&self) -> usize {
        self.events.len()
    }

    /// Next event of a socket.
    pub(crate) fn poll_event(&mut self) -> Option<Event<P>> {
        let event = self.events.pop_front()?;
        if let Some(socket) = owner(&event).and_then(|socket| self.table.get_mut(socket)) {
            socket.queued -= 1;
        }
        Some(event)
    }
}

fn owner<P: Payload>(event: &Event<P>) -> Option<SocketId> {
    match event {
        Event::Datagram { socket, .. } | Event::DatagramLost { socket, .. } => Some(*socket),
        _ => None,
    }
}

/// Both ends of a datagram, local end first, and the end of its payload in the frame. Returns `None` if header, length
/// or checksum is invalid.
fn validate<F: Frame>(frame: &F, packet: &Packet) -> Option<(Ends, usize)> {
    let room = packet.end.min(frame.len()).checked_sub(packet.transport)?;
    let mut header = [0; UDP_HEADER];
    if room < UDP_HEADER {
        return None;
    }
    // Behind extension headers, the header may lie beyond the private head: it is read once, here.
    match frame.head().get(packet.transport..packet.transport + UDP_HEADER) {
        Some(private) => header.copy_from_slice(private),
        None => frame.copy_to(packet.transport, &mut header),
    }
    let view = Header::new(&header).filter(|view| usize::from(view.len()) <= room)?;
    let end = packet.transport + usize::from(view.len());
    let ends = Ends {
        local: Endpoint::new(packet.destination, view.destination_port()),
        remote: Endpoint::new(packet.source, view.source_port()),
    };
    // Optional for IPv4 only (RFC 8200 section 8.1).
    let may_lack = packet.source.is_v4() && !view.has_checksum();
    let must_have =
        view.has_checksum() && (frame.is_checksum_valid() || is_sum_valid(frame, packet, header, end));
    (may_lack || must_have).then_some((ends, end))
}

fn is_sum_valid<F: Frame>(frame: &F, packet: &Packet, header: [u8; UDP_HEADER], end: usize) -> bool {
    let (data, len) = (packet.transport + UDP_HEADER, (end - packet.transport) as u32);
    let mut sum = datagram::pseudo(packet.source, packet.destination, len);
    sum.add(&header);
    sum.add_words(frame.sum(data..end), end - data);
    sum.finish() == [0, 0]
}

#[cfg(test)]
mod tests;
