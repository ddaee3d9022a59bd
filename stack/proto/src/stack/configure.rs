//! Configuration of a stack's interfaces while it runs.

use super::Stack;
use crate::ip::InterfaceId;
use crate::{Address, Cidr, Identifier, Lease, Payload, Time};
use wire::MacAddress;

impl<P: Payload> Stack<P> {
    /// Starts a DHCP client (RFC 2131) on an interface, which assigns and removes address, default route and MTU. Of
    /// several stacks with the same addresses ([`crate::Affinity`]), only the first one starts a client; the caller
    /// passes its leases to the others ([`Stack::set_lease`]).
    pub fn start_dhcp(&mut self, interface: InterfaceId, now: Time) {
        self.ip.start_dhcp(interface, now);
    }

    /// The lease of an interface; `None` while it has none.
    pub fn lease(&self, interface: InterfaceId) -> Option<&Lease> {
        self.ip.lease(interface)
    }

    /// Replaces the lease of an interface: that of the first stack with the same addresses, with its end in the time of
    /// this one. Without a lease, and at its end, the address is removed. No effect on an interface with a DHCP client.
    pub fn set_lease(&mut self, interface: InterfaceId, lease: Option<Lease>, now: Time) {
        self.ip.set_lease(interface, lease, now);
    }

    /// Stops all DHCP clients and gives their addresses back (RFC 2131 section 4.4.6), before the application ends. The
    /// messages leave with the next [`Stack::transmit`].
    pub fn release_leases(&mut self, now: Time) {
        self.ip.release_leases(now, &mut self.counters);
    }

    /// Addresses of an interface with their networks, without those that are being probed.
    pub fn addresses(&self, interface: InterfaceId) -> impl Iterator<Item = Cidr> {
        self.ip.addresses(interface)
    }

    /// Whether DHCP or SLAAC added or removed addresses since the last call.
    pub fn take_address_change(&mut self) -> bool {
        self.ip.take_address_change()
    }

    /// Adds an address like [`Stack::add_address`], an IPv6 one only after duplicate address detection, which takes one
    /// to two seconds (RFC 4862 section 5.4). An address of another host is not added, and is counted
    /// ([`crate::Counters::duplicate_addresses`]).
    pub fn probe_address(&mut self, interface: InterfaceId, address: Cidr, now: Time) {
        self.ip.probe_address(interface, address, now);
    }

    /// Starts stateless address configuration of IPv6 (RFC 4862) on an interface: a link-local address, and the
    /// addresses and routes that routers advertise. `kind` selects how interface identifiers are formed.
    pub fn start_slaac(&mut self, interface: InterfaceId, kind: Identifier, now: Time) {
        self.ip.start_slaac(interface, kind, now);
    }

    /// Removes the route to a network over an interface.
    pub fn remove_route(&mut self, interface: InterfaceId, network: Cidr) {
        self.ip.remove_route(interface, network);
    }

    /// Adds a neighbour whose Ethernet address does not change. Returns false if the limit of neighbours is reached.
    pub fn add_neighbour(
        &mut self,
        interface: InterfaceId,
        address: Address,
        mac: MacAddress,
        now: Time,
    ) -> bool {
        self.ip.add_neighbour(interface, address, mac, now)
    }
}
