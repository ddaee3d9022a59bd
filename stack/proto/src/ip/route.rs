//! Routes, and the decision where a packet goes: interface, source address and next hop.

use super::interface::{Interface, Interfaces, group_mac};
use super::{InterfaceId, NoRoute, Route};
use crate::{Address, Cidr};
use alloc::vec::Vec;
use wire::MacAddress;

/// Where packets of a source to a destination go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) interface: InterfaceId,
    pub(super) source: Address,
    pub(super) destination: Address,
    pub(super) hop: Hop,
}

/// Receiver of a packet on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hop {
    /// This host.
    Local,
    /// All hosts with this Ethernet group address.
    Group(MacAddress),
    /// The destination or a router.
    Neighbour(Address),
}

/// Routes, those of the longest prefix first.
#[derive(Default)]
pub(super) struct Routes(Vec<Route>);

impl Routes {
    /// Adds a route, in place of one with the same network and interface.
    pub(super) fn add(&mut self, route: Route) {
        let bits = |network: &Cidr| u32::from(network.prefix) + if network.address.is_v4() { 96 } else { 0 };
        self.remove(&route.network, route.interface);
        let at = self.0.partition_point(|other| bits(&other.network) >= bits(&route.network));
        self.0.insert(at, route);
    }

    /// Removes the route to a network over an interface.
    pub(super) fn remove(&mut self, network: &Cidr, interface: InterfaceId) {
        let is_same = |other: &Cidr| other.prefix == network.prefix && other.contains(network.address);
        self.0.retain(|other| other.interface != interface || !is_same(&other.network));
    }

    /// The route with the longest prefix; among equal ones, one over the preferred interface.
    pub(super) fn find(&self, destination: Address, preferred: Option<InterfaceId>) -> Option<&Route> {
        let mut matching = self.0.iter().filter(|route| route.network.contains(destination));
        let first = matching.next()?;
        let is_preferred = |route: &&Route| Some(route.interface) == preferred;
        let mut equal = core::iter::once(first)
            .chain(matching.take_while(|route| route.network.prefix == first.network.prefix));
        Some(equal.find(is_preferred).unwrap_or(first))
    }

    /// Decides where a packet goes.
    pub(super) fn plan(
        &self,
        interfaces: &Interfaces,
        source: Option<Address>,
        destination: Address,
    ) -> Result<Plan, NoRoute> {
        let from = source.and_then(|source| interfaces.owner(source));
        if let Some(interface) = local(interfaces, destination) {
            let source = source.unwrap_or(destination);
            let is_own = local(interfaces, source).is_some() && source.is_v4() == destination.is_v4();
            return if is_own {
                Ok(Plan { interface, source, destination, hop: Hop::Local })
            } else {
                Err(NoRoute)
            };
        }
        if source.is_some() && from.is_none() || destination.is_unspecified() {
            return Err(NoRoute);
        }
        let (id, via) = self.exit(interfaces, from, destination).ok_or(NoRoute)?;
        let interface = interfaces.get(id).ok_or(NoRoute)?;
        let source = source.or_else(|| interface.select_source(destination)).ok_or(NoRoute)?;
        let hop = match hop_on_link(interface, destination) {
            Hop::Neighbour(_) => Hop::Neighbour(via.unwrap_or(destination)),
            group => group,
        };
        let versions = source.is_v4() == destination.is_v4();
        versions.then_some(Plan { interface: id, source, destination, hop }).ok_or(NoRoute)
    }

    /// Interface and router. Group addresses without a route leave over the source's interface, or the first one.
    fn exit(
        &self,
        interfaces: &Interfaces,
        from: Option<InterfaceId>,
        destination: Address,
    ) -> Option<(InterfaceId, Option<Address>)> {
        let is_group = destination.is_multicast() || destination.is_broadcast();
        if is_group && from.is_some() {
            return from.map(|id| (id, None));
        }
        match self.find(destination, from) {
            Some(route) => Some((route.interface, route.via)),
            None if is_group => {
                let has = |id: &InterfaceId| interfaces.get(*id)?.select_source(destination);
                interfaces.iter().map(|(id, _)| id).find(|id| has(id).is_some()).map(|id| (id, None))
            }
            None => None,
        }
    }
}

/// Receiver of a packet whose destination is on the link.
pub(super) fn hop_on_link(interface: &Interface, destination: Address) -> Hop {
    if destination.is_multicast() {
        Hop::Group(group_mac(destination))
    } else if interface.is_broadcast(destination) {
        Hop::Group(MacAddress::BROADCAST)
    } else {
        Hop::Neighbour(destination)
    }
}

/// Interface of an address of this host. Loopback addresses belong to the first interface.
pub(super) fn local(interfaces: &Interfaces, address: Address) -> Option<InterfaceId> {
    if address.is_loopback() {
        return interfaces.iter().next().map(|(id, _)| id);
    }
    interfaces.owner(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::InterfaceConfig;
    use std::net::IpAddr;
    use std::prelude::v1::*;

    fn address(text: &str) -> Address {
        text.parse::<IpAddr>().unwrap().into()
    }

    fn host() -> (Interfaces, Routes) {
        let (mut interfaces, mut routes) = (Interfaces::default(), Routes::default());
        for (number, own) in [(0, ["10.0.0.1/24", "fe80::1/64"]), (1, ["10.1.0.1/16", "fe80::2/64"])] {
            let mac = MacAddress::new([2, 0, 0, 0, 0, number]);
            let interface = interfaces.add(InterfaceConfig { mac, mtu: 1500, vlan: None });
            for own in own {
                let network: Cidr = own.parse().unwrap();
                assert!(interfaces.add_address(interface, network));
                routes.add(Route { network, interface, via: None });
            }
        }
        let route = |network: &str, interface, via| Route {
            network: network.parse().unwrap(),
            interface: InterfaceId(interface),
            via: Some(address(via)),
        };
        routes.add(route("0.0.0.0/0", 0, "10.0.0.9"));
        routes.add(route("10.1.128.0/17", 0, "10.0.0.8"));
        (interfaces, routes)
    }

    fn plan(source: Option<&str>, destination: &str) -> Option<(u16, String, Hop)> {
        let (interfaces, routes) = host();
        let plan = routes.plan(&interfaces, source.map(address), address(destination)).ok()?;
        Some((plan.interface.0, plan.source.to_string(), plan.hop))
    }

    #[test]
    fn the_longest_prefix_decides() {
        let via = |text| Hop::Neighbour(address(text));
        assert_eq!(plan(None, "10.0.0.7"), Some((0, "10.0.0.1".into(), via("10.0.0.7"))));
        assert_eq!(plan(None, "10.1.0.7"), Some((1, "10.1.0.1".into(), via("10.1.0.7"))));
        assert_eq!(plan(None, "10.1.200.7"), Some((0, "10.0.0.1".into(), via("10.0.0.8"))));
        assert_eq!(plan(None, "192.168.0.1"), Some((0, "10.0.0.1".into(), via("10.0.0.9"))));
        assert_eq!(plan(None, "fd00::1"), None);
    }

    #[test]
    fn the_source_decides_among_equal_routes_and_must_be_local() {
        assert_eq!(plan(Some("fe80::2"), "fe80::9").map(|plan| plan.0), Some(1));
        assert_eq!(plan(Some("fe80::1"), "fe80::9").map(|plan| plan.0), Some(0));
        assert_eq!(plan(Some("10.0.0.2"), "10.0.0.9"), None);
        assert_eq!(plan(Some("10.0.0.1"), "fe80::9"), None);
    }

    #[test]
    fn own_and_group_addresses_need_no_neighbour() {
        assert_eq!(plan(None, "10.1.0.1"), Some((1, "10.1.0.1".into(), Hop::Local)));
        assert_eq!(plan(Some("10.0.0.1"), "127.0.0.1"), Some((0, "10.0.0.1".into(), Hop::Local)));
        assert_eq!(plan(Some("8.8.8.8"), "10.0.0.1"), None);
        let all = Hop::Group(MacAddress::BROADCAST);
        assert_eq!(plan(None, "10.0.0.255"), Some((0, "10.0.0.1".into(), all)));
        assert_eq!(plan(None, "255.255.255.255"), Some((0, "10.0.0.1".into(), all)));
        let group = Hop::Group("33:33:00:00:00:05".parse().unwrap());
        assert_eq!(plan(Some("fe80::2"), "ff02::5"), Some((1, "fe80::2".into(), group)));
    }

    #[test]
    fn a_route_replaces_one_to_the_same_network() {
        let (_, mut routes) = host();
        let count = routes.0.len();
        let route = |via| Route {
            network: "10.1.128.5/17".parse().unwrap(),
            interface: InterfaceId(0),
            via: Some(address(via)),
        };
        routes.add(route("10.0.0.7"));
        assert_eq!(routes.0.len(), count);
        assert_eq!(routes.find(address("10.1.128.1"), None).unwrap().via, Some(address("10.0.0.7")));
        routes.remove(&route("10.0.0.7").network, InterfaceId(0));
        assert_eq!(routes.find(address("10.1.128.1"), None).unwrap().interface, InterfaceId(1));
    }
}
