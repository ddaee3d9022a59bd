//! The Internet Protocol, versions 4 and 6, and what it needs: neighbours, routes, ICMP, fragments, path MTU.
//!
//! The layer validates received frames and passes transport packets for this host up ([`Ip::receive`]). It writes the
//! Ethernet and IP header of packets to send ([`Ip::header`]), and holds its own packets and those that wait for a
//! neighbour's address until [`Ip::transmit`].

mod fragment;
mod group;
pub(crate) mod reassembly;

use crate::{Address, Cidr, Config, Counters, Frame, Link, Payload, Slice, Time};
use alloc::vec::Vec;
use wire::{MacAddress, VlanId};

/// Space for the headers of a frame, in bytes.
pub(crate) const HEAD: usize = 192;

/// An interface of the stack: a port with its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InterfaceId(pub u16);

/// Settings of an interface.
#[derive(Clone, Debug)]
pub struct InterfaceConfig {
    /// Ethernet address.
    pub mac: MacAddress,
    /// Maximum length of an IP packet in bytes, 1280 to 65535.
    pub mtu: u16,
    /// VLAN of all frames; `None` for untagged frames.
    pub vlan: Option<VlanId>,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destinations.
    pub network: Cidr,
    /// Interface.
    pub interface: InterfaceId,
    /// Router; `None` for destinations on the link.
    pub via: Option<Address>,
}

/// A destination with its route, neighbour and path MTU. The number of a removed path is used again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// A transport packet for this host, in a received frame. Header and lengths are valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) interface: InterfaceId,
    pub(crate) source: Address,
    pub(crate) destination: Address,
    /// Protocol number (IANA).
    pub(crate) protocol: u8,
    /// Offset of the transport header from the start of the frame.
    pub(crate) transport: usize,
    /// End of the transport payload from the start of the frame; padding may follow.
    pub(crate) end: usize,
    /// ECN field (RFC 3168): the low two bits of the traffic class.
    pub(crate) ecn: u8,
    /// Whether it was sent to a multicast or broadcast address of the link or the network.
    pub(crate) is_group: bool,
}

/// An ICMP error about a packet of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransportError {
    pub(crate) kind: ErrorKind,
    /// Protocol, addresses and ports of the packet that was sent.
    pub(crate) protocol: u8,
    pub(crate) local: crate::Endpoint,
    pub(crate) remote: crate::Endpoint,
    /// The four bytes after the ports: the sequence number for TCP.
    pub(crate) sequence: u32,
}

/// Kind of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// Network or host unreachable, time exceeded: may be temporary (RFC 1122 section 4.2.3.9, RFC 5461).
    Unreachable,
    /// Port or protocol unreachable.
    Refused,
    /// The path MTU is at most this; already recorded for the path.
    TooBig(u16),
}

/// Result of [`Ip::receive`].
pub(crate) enum Received<P: Payload> {
    /// The frame needs no further processing.
    Consumed,
    /// A transport packet in the frame.
    Packet(Packet),
    /// A transport packet assembled from fragments; offsets are those of the assembled frame.
    Reassembled(Packet, PrivateFrame<P>),
    /// An ICMP error.
    Error(TransportError),
}

/// A frame in private memory: assembled from fragments, or looped back.
pub(crate) struct PrivateFrame<P> {
    bytes: Vec<u8>,
    payload: core::marker::PhantomData<P>,
}

/// A packet of the stack itself: replies, datagrams, and the first packets of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing<P> {
    pub(crate) path: PathId,
    pub(crate) protocol: u8,
    pub(crate) ecn: u8,
    pub(crate) hop_limit: u8,
    /// Transport header, complete with its checksum over header and payload.
    pub(crate) header: Header,
    pub(crate) payload: Vec<Slice<P>>,
    /// Whether the packet may be fragmented if it is longer than the path MTU; otherwise it is dropped.
    pub(crate) may_fragment: bool,
}

/// A transport header of up to 64 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) bytes: [u8; 64],
    pub(crate) len: u8,
}

/// Reason why [`Ip::header`] writes no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotReady {
    /// The neighbour's address is not known: pass the packet to [`Ip::send`], which holds it.
    Resolving,
    /// The path leads to this host: pass the packet to [`Ip::send`].
    Loopback,
    /// The path was removed: look up the route again.
    Removed,
}

/// No route leads to the destination, or the source address is not one of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no route to the destination")]
pub struct NoRoute;

/// The IP layer of a stack.
pub(crate) struct Ip<P: Payload> {
    interfaces: Vec<InterfaceConfig>,
    payload: core::marker::PhantomData<P>,
}

#[expect(unused_variables, clippy::unused_self, reason = "not implemented yet")]
impl<P: Payload> Ip<P> {
    pub(crate) fn new(config: &Config, now: Time) -> Self {
        Self { interfaces: Vec::new(), payload: core::marker::PhantomData }
    }

    pub(crate) fn add_interface(&mut self, interface: InterfaceConfig) -> InterfaceId {
        todo!()
    }

    /// Adds an address with its network, and a route to the network.
    pub(crate) fn add_address(&mut self, interface: InterfaceId, address: Cidr, now: Time) {
        todo!()
    }

    pub(crate) fn add_route(&mut self, route: Route) {
        todo!()
    }

    /// Whether the address is one of this host.
    pub(crate) fn is_local(&self, address: Address) -> bool {
        todo!()
    }

    /// Processes a received frame up to the transport header.
    pub(crate) fn receive<F: Frame<Payload = P>>(
        &mut self,
        interface: InterfaceId,
        frame: &mut F,
        now: Time,
        counters: &mut Counters,
    ) -> Received<P> {
        todo!()
    }

    /// Answers a UDP datagram to a port without a socket, or another protocol without handler, with an ICMP error
    /// (rate-limited; never for group addresses).
    pub(crate) fn refuse<F: Frame<Payload = P>>(
        &mut self,
        frame: &F,
        packet: &Packet,
        now: Time,
        counters: &mut Counters,
    ) {
        todo!()
    }

    /// Finds the path to a destination and the source address for it. With `source`, that address must be local.
    pub(crate) fn route(
        &mut self,
        source: Option<Address>,
        destination: Address,
        now: Time,
    ) -> Result<(PathId, Address), NoRoute> {
        todo!()
    }

    /// Interface of a path, and its path MTU in bytes; `None` if the path was removed.
    pub(crate) fn path(&self, path: PathId) -> Option<(InterfaceId, u16)> {
        todo!()
    }

    /// Writes the Ethernet and IP header of a packet with `len` bytes after the IP header into `head`, and returns the
    /// interface and the length of both headers. Source and destination are those of the path. Starts the resolution of
    /// the neighbour if its address is not known. Don't-fragment is set for IPv4. `len` may exceed the MTU for
    /// segmentation offload. This is the fast path: it copies a prepared header and changes lengths, identification,
    /// ECN and header checksum.
    pub(crate) fn header(
        &mut self,
        path: PathId,
        len: usize,
        protocol: u8,
        ecn: u8,
        head: &mut [u8; HEAD],
        now: Time,
    ) -> Result<(InterfaceId, usize), NotReady> {
        todo!()
    }

    /// Queues a packet: until there is room on the link, and, if necessary, until the neighbour is resolved. Counted and
    /// dropped if the queues are full.
    pub(crate) fn send(&mut self, packet: Outgoing<P>, now: Time, counters: &mut Counters) {
        todo!()
    }

    /// Confirms that a path's neighbour is reachable: an acknowledgement of new data came (RFC 4861 section 7.3.1).
    pub(crate) fn confirm(&mut self, path: PathId, now: Time) {
        todo!()
    }

    /// Sends queued packets while the link has room.
    pub(crate) fn transmit<L: Link<Payload = P>>(
        &mut self,
        link: &mut L,
        now: Time,
        counters: &mut Counters,
    ) {
        todo!()
    }

    /// Next frame of this host to itself, which the caller passes to the transport protocols.
    pub(crate) fn next_loopback(
        &mut self,
        now: Time,
        counters: &mut Counters,
    ) -> Option<(Packet, PrivateFrame<P>)> {
        todo!()
    }

    /// Runs timers: neighbour probes, expiry of fragments and paths, address configuration.
    pub(crate) fn advance(&mut self, now: Time, counters: &mut Counters) {
        todo!()
    }

    /// Time of the next call of [`Ip::advance`]; [`Time::NEVER`] if no timer runs.
    pub(crate) fn deadline(&self) -> Time {
        todo!()
    }

    /// Whether [`Ip::transmit`] has packets to send.
    pub(crate) fn has_output(&self) -> bool {
        todo!()
    }
}
