//! DHCP leases of ports, for another process with the same clock.

use super::Switch;
use port::{Now, PortId};
use std::net::IpAddr;

/// Second of the clock, as leases have it.
fn second(now: Now) -> u32 {
    (now.0 / 1_000_000_000) as u32
}

impl Switch {
    /// Leases of a port, each with the second at which it ends; none if the port does not use leases.
    pub fn leases(&self, port: PortId, now: Now) -> Vec<(IpAddr, u32)> {
        let table = self.published.current();
        let guard = table.member(port).and_then(|member| member.guard.as_deref());
        guard.map_or_else(Vec::new, |guard| guard.all_leases(second(now)))
    }

    /// Records a lease of a port until a second.
    pub fn restore_lease(&self, port: PortId, ip: IpAddr, until: u32) {
        let table = self.published.current();
        if let Some(guard) = table.member(port).and_then(|member| member.guard.as_deref()) {
            guard.bind(ip, 0, until);
        }
    }
}
