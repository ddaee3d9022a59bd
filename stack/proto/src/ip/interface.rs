//! Interfaces with their addresses, and the choice of a source address.
//!
//! Each address belongs to one interface, and packets to it are accepted on that interface only (RFC 1122 section
//! 3.3.4.2, the strong model).

use super::{InterfaceConfig, InterfaceId};
use crate::{Address, Cidr};
use alloc::vec::Vec;
use wire::MacAddress;

/// An interface.
pub(super) struct Interface {
    pub(super) config: InterfaceConfig,
    addresses: Vec<Own>,
}

/// An address of an interface.
#[derive(Clone, Copy)]
struct Own {
    network: Cidr,
    /// Whether it is a source of new connections although there are others.
    is_preferred: bool,
}

impl Interface {
    /// Addresses with their networks.
    pub(super) fn networks(&self) -> impl Iterator<Item = &Cidr> {
        self.addresses.iter().map(|own| &own.network)
    }

    /// Whether the address is one of the interface.
    #[inline]
    pub(super) fn has(&self, address: Address) -> bool {
        self.networks().any(|own| own.address == address)
    }

    /// Whether it is the broadcast address of a network of the interface, or of all networks.
    pub(super) fn is_broadcast(&self, address: Address) -> bool {
        address.is_broadcast() || self.networks().any(|own| broadcast(own) == Some(address))
    }

    /// Whether the address is in a network of the interface.
    pub(super) fn is_on_link(&self, address: Address) -> bool {
        self.networks().any(|own| own.contains(address))
    }

    /// Whether it is a multicast group of every host, or that of an address of the interface (RFC 4291 section 2.8).
    pub(super) fn is_own_group(&self, group: Address) -> bool {
        const ALL_HOSTS: Address = Address::v4([224, 0, 0, 1]);
        group == ALL_HOSTS
            || matches!(group.octets(), [0xff, 1 | 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
            || self.networks().any(|own| solicited_node(own.address) == Some(group))
    }

    /// Source address for a destination: the destination itself, then one of its scope, a preferred one, and the one
    /// with the longest common prefix (RFC 6724 section 5, rules 1, 2, 3 and 8).
    pub(super) fn select_source(&self, destination: Address) -> Option<Address> {
        let version = |own: &&Own| own.network.address.is_v4() == destination.is_v4();
        let rank = |own: &&Own| {
            let address = own.network.address;
            let word = |address: Address| u128::from_be_bytes(*address.octets());
            let common = (word(address) ^ word(destination)).leading_zeros();
            let is_of_scope = is_link_local(address) == is_link_local(destination);
            (address == destination, is_of_scope, own.is_preferred, common)
        };
        // `max_by_key` returns the last of several maxima; the first address of the interface is to win.
        let best = self.addresses.iter().rev().filter(version).max_by_key(rank);
        best.map(|own| own.network.address)
    }
}

/// Whether the scope is the link: `fe80::/10`, 169.254.0.0/16, and multicast of that scope.
pub(super) fn is_link_local(address: Address) -> bool {
    match address.octets() {
        [0xfe, second, ..] => second & 0xc0 == 0x80,
        [0xff, second, ..] => second & 0x0f == 2,
        _ => address.is_v4() && address.last4().starts_with(&[169, 254]),
    }
}

/// Broadcast address of a network; `None` for IPv6 and for networks of one or two addresses (RFC 3021).
fn broadcast(network: &Cidr) -> Option<Address> {
    let hosts = u32::MAX.checked_shr(network.prefix.into())?;
    let word = u32::from_be_bytes(network.address.last4());
    (network.address.is_v4() && hosts > 1).then(|| Address::v4((word | hosts).to_be_bytes()))
}

/// Solicited-node multicast address of an IPv6 address (RFC 4291 section 2.7.1).
pub(super) fn solicited_node(address: Address) -> Option<Address> {
    let [_, a, b, c] = address.last4();
    (!address.is_v4()).then_some(Address::v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]))
}

/// Ethernet address of a multicast address (RFC 1112 section 6.4, RFC 2464 section 7).
pub(super) fn group_mac(group: Address) -> MacAddress {
    let [a, b, c, d] = group.last4();
    MacAddress::new(if group.is_v4() { [1, 0, 0x5e, b & 0x7f, c, d] } else { [0x33, 0x33, a, b, c, d] })
}

/// All interfaces of a stack.
#[derive(Default)]
pub(super) struct Interfaces(Vec<Interface>);

impl Interfaces {
    pub(super) fn add(&mut self, config: InterfaceConfig) -> InterfaceId {
        self.0.push(Interface { config, addresses: Vec::new() });
        InterfaceId(self.0.len() as u16 - 1)
    }

    #[inline]
    pub(super) fn get(&self, id: InterfaceId) -> Option<&Interface> {
        self.0.get(usize::from(id.0))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (InterfaceId, &Interface)> {
        self.0.iter().enumerate().map(|(at, interface)| (InterfaceId(at as u16), interface))
    }

    pub(super) fn get_mut(&mut self, id: InterfaceId) -> Option<&mut Interface> {
        self.0.get_mut(usize::from(id.0))
    }

    /// Adds an address. Returns false if there is no such interface, or an interface has the address.
    pub(super) fn add_address(&mut self, id: InterfaceId, network: Cidr) -> bool {
        if self.owner(network.address).is_some() {
            return false;
        }
        let own = Own { network, is_preferred: true };
        self.get_mut(id).map(|interface| interface.addresses.push(own)).is_some()
    }

    /// Removes an address, and returns it with its network.
    pub(super) fn remove_address(&mut self, id: InterfaceId, address: Address) -> Option<Cidr> {
        let addresses = &mut self.get_mut(id)?.addresses;
        let at = addresses.iter().position(|own| own.network.address == address)?;
        Some(addresses.remove(at).network)
    }

    /// Prefers an address as source, which it is at first, or avoids it.
    pub(super) fn set_preferred(&mut self, id: InterfaceId, address: Address, is_preferred: bool) {
        let addresses = self.get_mut(id).into_iter().flat_map(|interface| &mut interface.addresses);
        addresses
            .filter(|own| own.network.address == address)
            .for_each(|own| own.is_preferred = is_preferred);
    }

    /// Interface with the address.
    pub(super) fn owner(&self, address: Address) -> Option<InterfaceId> {
        self.iter().find(|(_, interface)| interface.has(address)).map(|(id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;
    use std::prelude::v1::*;

    fn address(text: &str) -> Address {
        text.parse::<IpAddr>().unwrap().into()
    }

    fn interface(addresses: &[&str]) -> Interface {
        let config = InterfaceConfig { mac: MacAddress::new([2; 6]), mtu: 1500, vlan: None };
        let own = |text: &&str| Own { network: text.parse().unwrap(), is_preferred: true };
        Interface { config, addresses: addresses.iter().map(own).collect() }
    }

    #[test]
    fn source_has_the_scope_and_the_longest_prefix_of_the_destination() {
        let own = interface(&["fe80::1/64", "fd00::1/64", "2001:db8:1::1/64", "10.0.0.1/24", "10.0.0.3/24"]);
        let source = |text| own.select_source(address(text)).unwrap().to_string();
        assert_eq!((source("fe80::9"), source("ff02::1")), ("fe80::1".into(), "fe80::1".into()));
        assert_eq!((source("2001:db8::5"), source("fd00::5")), ("2001:db8:1::1".into(), "fd00::1".into()));
        assert_eq!((source("192.168.0.1"), source("10.0.0.3")), ("10.0.0.1".into(), "10.0.0.3".into()));
        assert_eq!(interface(&["10.0.0.1/24"]).select_source(address("fd00::1")), None);
        let mut own = own;
        own.addresses[1].is_preferred = false;
        let source = |text| own.select_source(address(text)).unwrap().to_string();
        assert_eq!((source("fd00::5"), source("fd00::1")), ("2001:db8:1::1".into(), "fd00::1".into()));
        own.addresses[2].is_preferred = false;
        assert_eq!(own.select_source(address("fd00::5")), Some(address("fd00::1")));
    }

    #[test]
    fn broadcast_addresses_depend_on_the_network() {
        let own = interface(&["10.0.0.1/24", "10.1.0.0/31", "10.2.0.1/32", "fd00::1/64"]);
        for (text, is) in [
            ("10.0.0.255", true),
            ("255.255.255.255", true),
            ("10.0.0.254", false),
            ("10.1.0.1", false),
            ("10.2.0.1", false),
            ("fd00::ffff:ffff:ffff:ffff", false),
        ] {
            assert_eq!(own.is_broadcast(address(text)), is, "{text}");
        }
    }

    #[test]
    fn groups_map_to_ethernet_addresses() {
        assert_eq!(group_mac(address("224.128.0.5")).to_string(), "01:00:5e:00:00:05");
        assert_eq!(group_mac(address("ff02::1:ff00:9")).to_string(), "33:33:ff:00:00:09");
        let own = interface(&["fd00::12:3456/64"]);
        assert!(own.is_own_group(address("ff02::1:ff12:3456")) && own.is_own_group(address("ff02::1")));
        assert!(!own.is_own_group(address("ff02::1:ff12:3457")) && own.is_own_group(address("224.0.0.1")));
    }
}
