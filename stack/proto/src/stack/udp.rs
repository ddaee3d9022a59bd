//! UDP sockets of a stack.

use super::Stack;
use crate::ip::{InterfaceId, Packet, PathId, TransportError};
use crate::udp::{NoPort, UdpError, UdpOptions, datagram};
use crate::{Address, Endpoint, Frame, Payload, Slice, SocketId, Time};
use alloc::vec::Vec;

/// Datagrams of one call, as with Linux's `UDP_SEGMENT`.
const MAX_SEGMENTS: usize = 64;
/// Payload of a packet that is cut into datagrams, in bytes: IP and UDP headers have space beside it.
const MAX_SEGMENTED: usize = u16::MAX as usize - wire::IPV6_HEADER - wire::UDP_HEADER;

impl<P: Payload> Stack<P> {
    /// Opens a socket that receives datagrams to an address and port. The unspecified address stands for all addresses
    /// of its version; port 0 is replaced by an ephemeral port. Of several sockets, the most specific one receives a
    /// datagram.
    ///
    /// # Errors
    /// If the port is in use, the address is not one of this stack, or the limit of sockets is reached.
    pub fn udp_bind(&mut self, local: Endpoint, options: UdpOptions) -> Result<SocketId, UdpError> {
        let address = local.address;
        if !(address.is_unspecified() || address.is_multicast() || self.ip.is_local(address)) {
            return Err(UdpError::NotLocal);
        }
        self.udp.bind(local, options)
    }

    /// The socket that is bound to an address and port and not connected.
    pub fn udp_bound(&self, local: Endpoint) -> Option<SocketId> {
        self.udp.bound(local)
    }

    /// Limits a socket to one remote end: it receives only its datagrams, and ICMP errors about its own
    /// ([`crate::Event::DatagramLost`]).
    ///
    /// # Errors
    /// If there is no route, or another socket has the same ends.
    pub fn udp_connect(&mut self, socket: SocketId, remote: Endpoint, now: Time) -> Result<(), UdpError> {
        let bound = self.udp.socket(socket)?.bound.address;
        let (path, source) = self.udp_route(bound, remote.address, now)?;
        self.udp.connect(socket, source, remote, path)
    }

    /// Settings of a socket; `None` if it was closed.
    pub fn udp_options(&self, socket: SocketId) -> Option<UdpOptions> {
        self.udp.socket(socket).ok().map(|socket| socket.options)
    }

    /// Changes the settings of a socket for later datagrams.
    ///
    /// # Errors
    /// If the socket was closed.
    pub fn udp_set_options(&mut self, socket: SocketId, options: UdpOptions) -> Result<(), UdpError> {
        self.udp.set_options(socket, options)
    }

    /// Local and remote end of a socket; the remote end is `None` if it is not connected.
    pub fn udp_endpoints(&self, socket: SocketId) -> Option<(Endpoint, Option<Endpoint>)> {
        let ends = self.udp.socket(socket).ok()?.ends;
        Some((ends.local, ends.is_connected().then_some(ends.remote)))
    }

    /// Queues a datagram for the next [`Stack::transmit`]. `to` is not needed by a connected socket. The payload is not
    /// copied; its handles are dropped when the datagram was sent, or dropped at a limit of the outbox.
    ///
    /// # Errors
    /// If there is no destination or no route, or the datagram is too long.
    pub fn udp_send(
        &mut self,
        socket: SocketId,
        to: Option<Endpoint>,
        payload: Vec<Slice<P>>,
        now: Time,
    ) -> Result<(), UdpError> {
        let (path, from, to) = self.udp_path(socket, to, now)?;
        let options = self.udp.socket(socket)?.options;
        let packet = datagram(path, from, to, options, payload, 0)?;
        if packet.hop_limit == 0 {
            return Ok(());
        }
        if !options.may_fragment {
            self.udp_fits(path, packet.payload.iter().map(Slice::len).sum(), to.address)?;
        }
        self.counters.udp_out += 1;
        self.ip.send(packet, now, &mut self.counters);
        Ok(())
    }

    /// Queues datagrams to one destination: the payload in pieces of `segment` bytes, the last of which may be shorter.
    /// Costs one look-up of the path, and the link cuts the payload if it can (USO). No datagram is fragmented. Nothing
    /// is queued without payload.
    ///
    /// # Errors
    /// If there is no destination or no route, a segment is longer than the path MTU allows, or there are more than 64.
    pub fn udp_send_segments(
        &mut self,
        socket: SocketId,
        to: Option<Endpoint>,
        payload: &[Slice<P>],
        segment: u16,
        now: Time,
    ) -> Result<(), UdpError> {
        let (path, from, to) = self.udp_path(socket, to, now)?;
        let options = self.udp.socket(socket)?.options;
        let (len, step) = (payload.iter().map(Slice::len).sum::<usize>(), usize::from(segment).max(1));
        self.udp_fits(path, len.min(step), to.address)?;
        if to.address.is_multicast() && options.group_hop_limit == 0 {
            return Ok(());
        }
        if len.div_ceil(step) > MAX_SEGMENTS {
            return Err(UdpError::TooLong(u16::try_from(step * MAX_SEGMENTS).unwrap_or(u16::MAX)));
        }
        // Headers have the length of all segments of a packet, in 16 bits.
        let most = (MAX_SEGMENTED / step).max(1) * step;
        for start in (0..len).step_by(most) {
            let part = start..len.min(start + most);
            let (segments, is_one) = (part.len().div_ceil(step), part.len() <= step);
            let part = crate::ip::slices(payload, part).collect();
            let packet = datagram(path, from, to, options, part, if is_one { 0 } else { segment })?;
            self.counters.udp_out += segments as u64;
            self.ip.send(packet, now, &mut self.counters);
        }
        Ok(())
    }

    /// Closes a socket. Its events that were not polled are dropped, and its groups are left.
    pub fn udp_close(&mut self, socket: SocketId, now: Time) {
        while let Some((interface, group)) = self.udp.close(socket) {
            self.ip.leave(interface, group, now);
        }
    }

    /// Interface of an own address, by which programs name the interface of a group (RFC 3678 section 4.1.1).
    pub fn interface_of(&self, address: Address) -> Option<InterfaceId> {
        self.ip.owner(address)
    }

    /// Receives datagrams to a multicast group on an interface; by default, on the one over which datagrams to the
    /// group leave. Returns whether the socket was no member there. The socket must be bound to the unspecified address
    /// or to the group. Of several sockets with the port, one receives a datagram ([`Stack::udp_bind`]). Datagrams that
    /// this stack sends to the group are not received.
    ///
    /// # Errors
    /// If the address is not a group of the socket's IP version, the limit of groups is reached, or no interface has an
    /// address of that version.
    pub fn udp_join(
        &mut self,
        socket: SocketId,
        interface: Option<InterfaceId>,
        group: Address,
        now: Time,
    ) -> Result<bool, UdpError> {
        if !group.is_multicast() {
            return Err(UdpError::InvalidAddress);
        }
        let interface = interface.or_else(|| self.ip.exit(group)).ok_or(UdpError::NoRoute)?;
        let is_new = self.udp.join(socket, interface, group)?;
        if is_new && !self.ip.join(interface, group, now) {
            self.udp.leave(socket, Some(interface), group)?;
            return Err(UdpError::TooMany);
        }
        Ok(is_new)
    }

    /// Leaves a multicast group on an interface, or on any if none is given. Returns whether the socket was a member.
    ///
    /// # Errors
    /// If the socket was closed.
    pub fn udp_leave(
        &mut self,
        socket: SocketId,
        interface: Option<InterfaceId>,
        group: Address,
        now: Time,
    ) -> Result<bool, UdpError> {
        let left = self.udp.leave(socket, interface, group)?;
        if let Some(interface) = left {
            self.ip.leave(interface, group, now);
        }
        Ok(left.is_some())
    }

    /// Delivers a received datagram, or answers it with an ICMP error.
    pub(crate) fn receive_udp<F: Frame<Payload = P>>(&mut self, frame: &mut F, packet: &Packet, now: Time) {
        if let Err(NoPort) = self.udp.receive(frame, packet, &mut self.counters) {
            self.ip.refuse(frame, packet, now, &mut self.counters);
        }
    }

    /// Reports an ICMP error about a sent datagram.
    pub(crate) fn fail_udp(&mut self, error: &TransportError) {
        self.udp.fail(error, &mut self.counters);
    }

    /// Path, source and destination of the next datagram of a socket.
    fn udp_path(
        &mut self,
        id: SocketId,
        to: Option<Endpoint>,
        now: Time,
    ) -> Result<(PathId, Endpoint, Endpoint), UdpError> {
        let socket = self.udp.socket(id)?;
        let (ends, path, group_source) = (socket.ends, socket.path, socket.options.group_source);
        let is_remote = to.is_none_or(|to| to == ends.remote) && ends.is_connected();
        if let Some(path) = path.filter(|path| is_remote && self.ip.path(*path).is_some()) {
            return Ok((path, ends.local, ends.remote));
        }
        let to = if is_remote { ends.remote } else { to.ok_or(UdpError::NotConnected)? };
        let is_any = ends.local.address.is_unspecified() || ends.local.address.is_multicast();
        let local = group_source.filter(|_| is_any && to.address.is_multicast());
        let (path, source) = self.udp_route(local.unwrap_or(ends.local.address), to.address, now)?;
        if is_remote {
            self.udp.set_path(id, path);
        }
        Ok((path, Endpoint::new(source, ends.local.port), to))
    }

    fn udp_route(&mut self, local: Address, to: Address, now: Time) -> Result<(PathId, Address), UdpError> {
        if local.is_v4() != to.is_v4() || to.is_unspecified() {
            return Err(UdpError::InvalidAddress);
        }
        let source = (!local.is_unspecified() && !local.is_multicast()).then_some(local);
        self.ip.route(source, to, now).map_err(|_| UdpError::NoRoute)
    }

    fn udp_fits(&self, path: PathId, len: usize, to: Address) -> Result<(), UdpError> {
        let headers = wire::UDP_HEADER + if to.is_v4() { wire::IPV4_HEADER } else { wire::IPV6_HEADER };
        let longest = self.ip.path(path).map_or(0, |(_, mtu)| usize::from(mtu).saturating_sub(headers));
        if len > longest { Err(UdpError::TooLong(longest as u16)) } else { Ok(()) }
    }
}
