//! The addresses of a switch on the networks that carry its tunnels.
//!
//! A TCP/IP stack on the control side answers ARP, Neighbor Discovery and ping for these addresses, and resolves the
//! next hops that workers ask for. Workers read a snapshot of routes, neighbours and path MTUs ([`Paths`]). The state
//! that others can create in the switch is bounded: at most `MAX_WANTED` neighbours, and the limits of the stack.

use crate::path_mtu::{PathMtus, Report};
use stack::ip::{InterfaceConfig, InterfaceId};
use stack::{Cidr, Config, Frame, Limits, Link, LinkOffloads, Piece, Slice, Stack, Time, TxOffload};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use wire::MacAddress;
use wire::checksum::Sum;

pub use stack::Address;

/// Neighbours that are kept resolved.
pub(crate) const MAX_WANTED: usize = 1024;
/// Ethernet addresses whose port is remembered.
const MAX_SEEN: usize = 4096;
/// Time after which an address that does not resolve is given up, until a worker asks again.
const GIVE_UP: Duration = Duration::from_secs(10);

/// A route to a network over a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destinations.
    pub network: Cidr,
    /// Router.
    pub via: IpAddr,
}

/// The addresses of the switch on one network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Number of the network, chosen by the caller.
    pub network: u16,
    /// Ethernet address.
    pub mac: MacAddress,
    /// Maximum length of an IP packet in bytes, from 1280.
    pub mtu: u16,
    /// Addresses with the prefixes of their networks.
    pub addresses: Vec<Cidr>,
    /// Routes.
    pub routes: Vec<Route>,
}

/// The Ethernet address of a next hop, and the port on which it was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Ethernet address.
    pub mac: MacAddress,
    /// Port.
    pub port: Option<u32>,
}

/// A next hop to resolve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// Network.
    pub network: u16,
    /// Address.
    pub address: IpAddr,
}

/// Why there is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// No route leads to the destination, or the source is not an address of the switch.
    #[error("no route leads to the destination")]
    NoRoute,
    /// The Ethernet address of the next hop is not known.
    #[error("the Ethernet address of the next hop {} is not known", .0.address)]
    Unresolved(Request),
    /// The outer headers exceed [`crate::MAX_HEADER`].
    #[error("the outer headers with their options exceed 128 bytes")]
    TooLong,
}

/// How packets reach a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Network.
    pub network: u16,
    /// Ethernet addresses of the switch and of the next hop.
    pub macs: (MacAddress, MacAddress),
    /// Source address.
    pub source: IpAddr,
    /// Maximum length in bytes of an IP packet on the link.
    pub mtu: u16,
    /// Maximum length in bytes of an IP packet that routers must not fragment: at most that of the link.
    pub path_mtu: u16,
}

/// Routes, neighbours and path MTUs at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    interfaces: Vec<Interface>,
    /// Those of the longest prefix first: network, its number, and the router.
    routes: Vec<(Cidr, u16, Option<IpAddr>)>,
    neighbours: BTreeMap<Request, Neighbour>,
    /// Path MTUs below that of the link, by destination.
    mtus: BTreeMap<IpAddr, u16>,
}

impl Paths {
    fn new(interfaces: Vec<Interface>) -> Self {
        let mut routes = Vec::new();
        for interface in &interfaces {
            routes.extend(interface.addresses.iter().map(|own| (*own, interface.network, None)));
            routes.extend(interface.routes.iter().map(|r| (r.network, interface.network, Some(r.via))));
        }
        routes.sort_by_key(|(network, ..)| std::cmp::Reverse(network.prefix));
        Self { interfaces, routes, ..Self::default() }
    }

    /// The interface on a network.
    pub fn interface(&self, network: u16) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.network == network)
    }

    /// Finds the path to a destination, possibly from a given source.
    ///
    /// # Errors
    /// If there is no route, or the next hop is not resolved.
    pub fn find(&self, source: Option<IpAddr>, destination: IpAddr) -> Result<Path, Unreachable> {
        let of = |address: IpAddr| Address::from(address);
        let matching = self.routes.iter().filter(|(network, ..)| network.contains(of(destination)));
        let is_usable = |network: &u16| {
            source.is_none_or(|source| self.interface(*network).is_some_and(|own| own.has(source)))
        };
        let route = matching.into_iter().find(|(_, network, _)| is_usable(network));
        let (_, network, via) = route.ok_or(Unreachable::NoRoute)?;
        let interface = self.interface(*network).ok_or(Unreachable::NoRoute)?;
        let address = via.unwrap_or(destination);
        let source = source.or_else(|| interface.source(address)).ok_or(Unreachable::NoRoute)?;
        if source.is_ipv4() != destination.is_ipv4() || interface.has(destination) {
            return Err(Unreachable::NoRoute);
        }
        let request = Request { network: *network, address };
        let neighbour = self.neighbours.get(&request).ok_or(Unreachable::Unresolved(request))?;
        let (mtu, macs) = (interface.mtu, (interface.mac, neighbour.mac));
        let path_mtu = self.mtus.get(&destination).map_or(mtu, |lowered| mtu.min(*lowered));
        Ok(Path { network: *network, macs, source, mtu, path_mtu })
    }

    /// The port on which a neighbour was heard last.
    pub fn port(&self, network: u16, mac: MacAddress) -> Option<u32> {
        let mut of_network = self.neighbours.iter().filter(|(request, _)| request.network == network);
        of_network.find(|(_, neighbour)| neighbour.mac == mac)?.1.port
    }

    /// The resolved neighbours.
    pub fn neighbours(&self) -> impl Iterator<Item = (&Request, &Neighbour)> {
        self.neighbours.iter()
    }
}

impl Interface {
    /// Whether it is an address of the switch on this network.
    pub fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.address.ip() == address)
    }

    /// The source address of packets to a next hop: one of its network, or any of its version.
    fn source(&self, next: IpAddr) -> Option<IpAddr> {
        let own = || self.addresses.iter().filter(|own| own.address.is_v4() == next.is_ipv4());
        let found = own().find(|own| own.contains(next.into())).or_else(|| own().next());
        found.map(|own| own.address.ip())
    }
}

/// A frame to send on a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Network.
    pub network: u16,
    /// Frame.
    pub frame: Vec<u8>,
}

/// The control side.
pub struct Underlay {
    stack: Stack<Arc<[u8]>>,
    ids: Vec<(u16, InterfaceId)>,
    paths: Paths,
    /// Next hops that workers need, with the time at which they were asked for or known last.
    wanted: BTreeMap<Request, Time>,
    /// Ports on which Ethernet addresses were heard last.
    seen: BTreeMap<(u16, MacAddress), u32>,
    mtus: PathMtus,
    is_changed: bool,
}

impl Underlay {
    /// Starts with the addresses of the switch. `secret` is random for each run.
    pub fn new(interfaces: Vec<Interface>, secret: [u8; 16], now: Time) -> Self {
        // Nothing but ARP, Neighbor Discovery and ICMP is answered.
        let limits = Limits { connections: 0, neighbours: 2 * MAX_WANTED as u32, ..Limits::default() };
        let mut stack = Stack::new(Config { limits, ..Config::new(secret) }, now);
        let mut ids = Vec::new();
        for Interface { network, mac, mtu, addresses, routes } in &interfaces {
            let id = stack.add_interface(InterfaceConfig { mac: *mac, mtu: *mtu, vlan: None });
            for own in addresses {
                stack.add_address(id, *own, now);
            }
            for Route { network, via } in routes {
                let via = Some((*via).into());
                stack.add_route(stack::ip::Route { network: *network, interface: id, via });
            }
            ids.push((*network, id));
        }
        let (wanted, seen, mtus) = (BTreeMap::new(), BTreeMap::new(), PathMtus::default());
        Self { stack, ids, paths: Paths::new(interfaces), wanted, seen, mtus, is_changed: true }
    }

    fn id(&self, network: u16) -> Option<InterfaceId> {
        self.ids.iter().find(|(of, _)| *of == network).map(|(_, id)| *id)
    }

    /// Processes a frame that was received on `port`.
    pub fn receive(&mut self, network: u16, port: Option<u32>, frame: &[u8], now: Time) {
        let Some(id) = self.id(network) else { return };
        if let (Some(port), Some(mac)) = (port, wire::Ethernet::new(frame).ok().map(|view| view.source())) {
            if self.seen.len() >= MAX_SEEN && !self.seen.contains_key(&(network, mac)) {
                self.seen.clear();
            }
            self.seen.insert((network, mac), port);
        }
        if let Some(report) = Report::read(frame) {
            self.note(network, &report, now);
        }
        self.stack.receive(id, &mut Received(frame), now);
        while self.stack.poll_event().is_some() {}
        self.refresh(now);
    }

    /// Notes the report of a router about a packet of the switch.
    fn note(&mut self, network: u16, report: &Report, now: Time) {
        let interface = self.paths.interface(network).filter(|own| own.has(report.source));
        if interface.is_some_and(|own| self.mtus.note(report, own.mtu, now)) {
            (self.paths.mtus, self.is_changed) = (self.mtus.all(), true);
        }
    }

    /// Resolves a next hop from now on. Without effect if too many are wanted.
    pub fn resolve(&mut self, request: Request, now: Time) {
        if self.wanted.len() < MAX_WANTED || self.wanted.contains_key(&request) {
            self.wanted.insert(request, now);
        }
        self.refresh(now);
    }

    /// Runs timers. Must be called at least every second.
    pub fn advance(&mut self, now: Time) {
        self.stack.advance(now);
        if self.mtus.expire(now) {
            (self.paths.mtus, self.is_changed) = (self.mtus.all(), true);
        }
        self.refresh(now);
    }

    /// Looks wanted neighbours up, which keeps them in use.
    fn refresh(&mut self, now: Time) {
        let Self { stack, ids, paths, wanted, seen, is_changed, .. } = self;
        let mut known = BTreeMap::new();
        wanted.retain(|request, last| {
            let Some((_, id)) = ids.iter().find(|(network, _)| *network == request.network) else {
                return false;
            };
            if let Some(mac) = stack.neighbour(*id, request.address.into(), now) {
                let port = seen.get(&(request.network, mac)).copied();
                known.insert(*request, Neighbour { mac, port });
                *last = now;
            }
            now < last.after(GIVE_UP)
        });
        if known != paths.neighbours {
            (paths.neighbours, *is_changed) = (known, true);
        }
    }

    /// The snapshot, if it has changed since the last call.
    pub fn take_changed(&mut self) -> Option<Paths> {
        std::mem::take(&mut self.is_changed).then(|| self.paths.clone())
    }

    /// Frames to send.
    pub fn transmit(&mut self, now: Time) -> Vec<Sent> {
        let mut link = Sender { ids: &self.ids, frames: Vec::new() };
        self.stack.transmit(&mut link, now);
        link.frames
    }
}

impl std::fmt::Debug for Underlay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Underlay").field("paths", &self.paths).finish_non_exhaustive()
    }
}

/// A received frame.
struct Received<'a>(&'a [u8]);

impl Frame for Received<'_> {
    type Payload = Arc<[u8]>;

    fn head(&self) -> &[u8] {
        self.0
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_checksum_valid(&self) -> bool {
        false
    }

    fn sum(&self, range: Range<usize>) -> u64 {
        self.0.get(range).map_or(0, |bytes| Sum::of(bytes).total())
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) {
        if let Some(bytes) = self.0.get(at..at + to.len()) {
            to.copy_from_slice(bytes);
        }
    }

    fn retain(&mut self, range: Range<usize>) -> Option<Slice<Arc<[u8]>>> {
        self.0.get(range).map(|bytes| Slice::new(Arc::from(bytes)))
    }
}

/// Collects the frames of the stack.
struct Sender<'a> {
    ids: &'a [(u16, InterfaceId)],
    frames: Vec<Sent>,
}

impl Link for Sender<'_> {
    type Payload = Arc<[u8]>;

    fn offloads(&self, _: InterfaceId) -> LinkOffloads {
        LinkOffloads::default()
    }

    fn has_room(&mut self, _: InterfaceId) -> bool {
        self.frames.len() < MAX_WANTED
    }

    fn send<'a>(
        &mut self,
        interface: InterfaceId,
        head: &[u8],
        pieces: impl Iterator<Item = Piece<'a, Arc<[u8]>>>,
        _: TxOffload,
    ) where
        Arc<[u8]>: 'a,
    {
        let mut frame = head.to_vec();
        for piece in pieces {
            frame.extend(piece.data.get(piece.range).unwrap_or_default());
        }
        if let Some((network, _)) = self.ids.iter().find(|(_, id)| *id == interface) {
            self.frames.push(Sent { network: *network, frame });
        }
    }
}
