//! The Internet Protocol, versions 4 and 6, and what it needs: neighbours, routes, ICMP, fragments, path MTU.
//!
//! The layer validates received frames and passes transport packets for this host up (`Ip::receive`). It writes the
//! Ethernet and IP header of packets to send (`Ip::header`), and holds its own packets and those that wait for a
//! neighbour's address until `Ip::transmit`.

mod configure;
mod deferred;
mod express;
mod fragment;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod group;
mod icmp;
mod input;
mod interface;
mod limiter;
mod lru;
mod neighbour;
mod outbox;
mod output;
mod packet;
mod path;
mod private;
pub(crate) mod reassembly;
mod resolve;
mod route;
mod template;
#[cfg(test)]
mod tests;

use crate::random::Random;
use crate::{Address, Cidr, Config, Counters, Link, Payload, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use configure::Clients;
pub(crate) use deferred::Deferred;
use fragment::Identifications;
pub(crate) use fragment::slices;
use group::Groups;
use interface::Interfaces;
use limiter::Limiter;
use neighbour::{Lookup, NeighbourId, Neighbours};
use outbox::{OutFrame, Outbox};
pub(crate) use packet::{ErrorKind, Header, Outgoing, Packet, TransportError};
use path::Paths;
use reassembly::Reassembly;
use route::Routes;
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
    /// Has the Ethernet header.
    bytes: Vec<u8>,
    is_checksum_valid: bool,
    payload: core::marker::PhantomData<P>,
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

/// Keyed hash of tables whose keys peers choose.
#[derive(Clone, Copy)]
struct Keyed([u8; 16]);

impl core::hash::BuildHasher for Keyed {
    type Hasher = siphasher::sip::SipHasher13;

    fn build_hasher(&self) -> Self::Hasher {
        siphasher::sip::SipHasher13::new_with_key(&self.0)
    }
}

/// The IP layer of a stack.
pub(crate) struct Ip<P: Payload> {
    interfaces: Interfaces,
    routes: Routes,
    neighbours: Neighbours<OutFrame<P>>,
    paths: Paths,
    outbox: Outbox<P>,
    /// Frames of this host to itself.
    loopback: VecDeque<(InterfaceId, PrivateFrame<P>)>,
    errors: Limiter,
    /// Time of the last announcement in defence of an own address.
    defended: Option<Time>,
    groups: Groups,
    reassembly: Reassembly,
    identifications: Identifications,
    /// Packets dropped since [`Ip::count_drops`] because they are longer than the path MTU.
    too_long: u64,
    clients: Clients,
    config: Config,
}

impl<P: Payload> Ip<P> {
    pub(crate) fn new(config: &Config, now: Time) -> Self {
        let (limits, hasher) = (&config.limits, Keyed(config.secret));
        Self {
            interfaces: Interfaces::default(),
            routes: Routes::default(),
            neighbours: Neighbours::new(limits, hasher, Random::new(&config.secret, "neighbours", 0), now),
            paths: Paths::new(limits.paths, hasher),
            outbox: Outbox::new(limits.outbox),
            loopback: VecDeque::new(),
            errors: Limiter::new(limits.errors, Random::new(&config.secret, "errors", 0), now),
            defended: None,
            groups: Groups::new(config),
            reassembly: Reassembly::new(limits),
            identifications: Identifications::new(&config.secret),
            too_long: 0,
            clients: Clients::default(),
            config: config.clone(),
        }
    }

    pub(crate) fn add_interface(&mut self, interface: InterfaceConfig) -> InterfaceId {
        self.interfaces.add(interface)
    }

    /// Adds an address with its network, and a route to the network. Announces the address.
    pub(crate) fn add_address(&mut self, interface: InterfaceId, address: Cidr, now: Time) {
        if !self.interfaces.add_address(interface, address) {
            return;
        }
        self.add_route(Route { network: address, interface, via: None });
        if let Some(group) = interface::solicited_node(address.address) {
            self.join_reserved(interface, group, now);
        }
        if let Some(frame) = resolve::announcement(&self.interfaces, interface, address.address) {
            self.outbox.push(frame);
            self.clients.repeat_announcement(interface, address.address, now);
        }
    }

    /// Addresses of an interface with their networks.
    pub(crate) fn addresses(&self, interface: InterfaceId) -> impl Iterator<Item = Cidr> {
        self.interfaces.get(interface).into_iter().flat_map(interface::Interface::networks).copied()
    }

    /// Removes an address, and the route to its network if no other address of the interface is in it.
    pub(crate) fn remove_address(&mut self, interface: InterfaceId, address: Address, now: Time) {
        let Some(network) = self.interfaces.remove_address(interface, address) else { return };
        if let Some(group) = interface::solicited_node(address) {
            self.leave(interface, group, now);
        }
        let is_same = |other: &Cidr| other.prefix == network.prefix && other.contains(network.address);
        if !self.interfaces.get(interface).is_some_and(|interface| interface.networks().any(is_same)) {
            self.routes.remove(&network, interface);
        }
        self.paths.clear();
    }

    /// Whether an address is a source of new connections although the interface has others (RFC 4862 section 5.5.4).
    pub(crate) fn set_preferred(&mut self, interface: InterfaceId, address: Address, is_preferred: bool) {
        self.interfaces.set_preferred(interface, address, is_preferred);
    }

    /// Changes the MTU of an interface, 1280 to 65535 bytes.
    pub(crate) fn set_mtu(&mut self, interface: InterfaceId, mtu: u16) {
        if let Some(interface) = self.interfaces.get_mut(interface) {
            interface.config.mtu = mtu;
            self.paths.clear();
        }
    }

    pub(crate) fn add_route(&mut self, route: Route) {
        self.routes.add(route);
        self.paths.clear();
    }

    /// Removes the route to a network over an interface.
    pub(crate) fn remove_route(&mut self, interface: InterfaceId, network: Cidr) {
        self.routes.remove(&network, interface);
        self.paths.clear();
    }

    /// Adds a neighbour whose Ethernet address does not change. Returns false if the limit of neighbours is reached.
    pub(crate) fn add_neighbour(
        &mut self,
        interface: InterfaceId,
        address: Address,
        mac: MacAddress,
        now: Time,
    ) -> bool {
        self.neighbours.add_static((interface, address), mac, now)
    }

    /// The Ethernet address of a neighbour. Starts its resolution if it is not known, and keeps it known.
    pub(crate) fn neighbour(&mut self, key: (InterfaceId, Address), now: Time) -> Option<MacAddress> {
        match self.neighbours.lookup(&mut { NeighbourId::NONE }, key, now) {
            Lookup::Ready(mac) => Some(mac),
            Lookup::Ask(request) => {
                self.solicit(&request, None);
                None
            }
            Lookup::Waiting | Lookup::Full => None,
        }
    }

    /// Whether the address is one of this host.
    pub(crate) fn is_local(&self, address: Address) -> bool {
        route::local(&self.interfaces, address).is_some()
    }

    /// Interface of an own address.
    pub(crate) fn owner(&self, address: Address) -> Option<InterfaceId> {
        self.interfaces.owner(address)
    }

    /// Interface over which packets to a destination leave.
    pub(crate) fn exit(&self, destination: Address) -> Option<InterfaceId> {
        self.routes.plan(&self.interfaces, None, destination).ok().map(|plan| plan.interface)
    }

    /// Finds the path to a destination and the source address for it. With `source`, that address must be local.
    pub(crate) fn route(
        &mut self,
        source: Option<Address>,
        destination: Address,
        now: Time,
    ) -> Result<(PathId, Address), NoRoute> {
        let known = source.and_then(|source| self.paths.find(source, destination).map(|id| (id, source)));
        if let Some(known) = known {
            return Ok(known);
        }
        let plan = self.routes.plan(&self.interfaces, source, destination)?;
        let known = self.paths.find(plan.source, destination);
        let interface = self.interfaces.get(plan.interface).ok_or(NoRoute)?;
        let id = known.unwrap_or_else(|| self.paths.insert(plan, interface, now));
        Ok((id, plan.source))
    }

    /// Interface of a path, and its path MTU in bytes; `None` if the path was removed.
    pub(crate) fn path(&self, path: PathId) -> Option<(InterfaceId, u16)> {
        self.paths.describe(path)
    }

    /// Interface of a path, its path MTU, and the size in bytes of a packet that probes for a larger one, or 0.
    #[inline]
    pub(crate) fn probed_path(&self, path: PathId) -> Option<(InterfaceId, u16, u16)> {
        self.paths.describe_probed(path)
    }

    /// Whether a probe of the path MTU may be sent now. The caller sends it and reports its fate ([`Ip::note_probe`]).
    pub(crate) fn take_probe(&mut self, path: PathId, now: Time) -> bool {
        self.paths.take_probe(path, now)
    }

    /// Notes whether a probe of `size` bytes was delivered. Returns whether it raised the path MTU.
    pub(crate) fn note_probe(&mut self, path: PathId, size: u16, is_delivered: bool, now: Time) -> bool {
        self.paths.note_probe(path, size, is_delivered, now)
    }

    /// Lowers a path MTU for a time, as reported about a packet that was sent.
    pub(crate) fn shrink_path(&mut self, ends: (Address, Address), mtu: u16, now: Time) {
        self.paths.shrink(ends, mtu, now);
    }

    /// Lowers a path MTU for a time because full segments are lost without a report.
    pub(crate) fn suspect_black_hole(&mut self, path: PathId, now: Time) {
        self.paths.suspect_black_hole(path, now);
    }

    /// Whether a neighbour was resolved since the last call.
    #[inline]
    pub(crate) fn take_resolved(&mut self) -> bool {
        self.neighbours.take_resolved()
    }

    /// Confirms that a path's neighbour is reachable: an acknowledgement of new data came (RFC 4861 section 7.3.1).
    pub(crate) fn confirm(&mut self, path: PathId, now: Time) {
        if let Some(path) = self.paths.get(path) {
            self.neighbours.confirm(path.neighbour, now);
        }
    }

    /// Sends queued packets while the link has room.
    pub(crate) fn transmit<L: Link<Payload = P>>(&mut self, link: &mut L, counters: &mut Counters) {
        self.outbox.transmit(&self.interfaces, link, counters);
    }

    /// Runs timers: neighbour probes, expiry of fragments and paths, address configuration.
    pub(crate) fn advance(&mut self, now: Time, counters: &mut Counters) {
        while let Some(request) = self.neighbours.expire(now) {
            self.solicit(&request, None);
        }
        self.paths.expire(now);
        while let Some(first) = self.reassembly.expire(now, counters) {
            self.report_expired(first, now, counters);
        }
        self.advance_clients(now, counters);
        self.report_groups(now, counters);
        self.count_drops(counters);
    }

    /// Time of the next call of [`Ip::advance`]; [`Time::NEVER`] if no timer runs.
    pub(crate) fn deadline(&self) -> Time {
        let tables = self.neighbours.deadline().min(self.paths.deadline());
        tables.min(self.reassembly.deadline()).min(self.groups.deadline()).min(self.clients.deadline())
    }

    /// Whether [`Ip::transmit`] or [`Ip::next_loopback`] has packets, or connections may have waited for a neighbour.
    pub(crate) fn has_output(&self) -> bool {
        !self.outbox.is_empty() || !self.loopback.is_empty() || self.neighbours.has_resolved()
    }
}
