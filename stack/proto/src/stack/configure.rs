//! Configuration of a stack's interfaces while it runs.

use super::Stack;
use crate::ip::InterfaceId;
use crate::{Address, Cidr, Identifier, Lease, Payload, Time};
use wire::MacAddress;

impl<P: Payload> Stack<P> {
    /// Starts a DHCP client (RFC 2131) on an interface, which assigns and removes address, default route and MTU.
    pub fn start_dhcp(&mut self, interface: InterfaceId, now: Time) {
        self.ip.start_dhcp(interface, now);
    }

    /// The lease of an interface with a DHCP client; `None` while it has none.
    pub fn lease(&self, interface: InterfaceId) -> Option<&Lease> {
        self.ip.lease(interface)
    }

    /// Starts stateless address configuration of IPv6 (RFC 4862) on an interface: a link-local address, and the
    /// addresses and routes that routers advertise. `kind` tells how interface identifiers are formed.
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
