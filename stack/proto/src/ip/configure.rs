//! Automatic configuration of interfaces: DHCP and SLAAC.
//!
//! Carries out what the clients decide. It must not change addresses and routes that the application has added.

use super::input::Datagram;
use super::interface::solicited_node;
use super::resolve::{announcement, arp_probe};
use super::{InterfaceId, Ip, Route};
use crate::control::Control;
use crate::dhcp::{CLIENT_PORT, Dhcp};
use crate::random::Random;
use crate::slaac::{self, Action, Slaac};
use crate::{Address, Cidr, Counters, Frame, Identifier, Lease, Payload, Time};
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;
use wire::checksum::{Sum, protocol};
use wire::{UDP_HEADER, Udp};

/// Default network of IPv4.
const DEFAULT: Cidr = Cidr { address: Address::v4([0; 4]), prefix: 0 };

/// Time between the two announcements of an IPv4 address (RFC 5227 section 1.1, `ANNOUNCE_INTERVAL`).
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);

/// An address of the application that may be that of another host.
struct Probe {
    interface: InterfaceId,
    network: Cidr,
    /// Time of the probe, and then of the assignment.
    at: Time,
    is_sent: bool,
}

/// The clients of all interfaces.
#[derive(Default)]
pub(super) struct Clients {
    dhcp: Vec<(InterfaceId, Dhcp)>,
    /// Leases whose addresses are assigned: those of the clients, or of the stack that has the clients.
    leases: Vec<(InterfaceId, Lease)>,
    slaac: Vec<(InterfaceId, Slaac)>,
    probes: Vec<Probe>,
    /// Addresses that are announced again, and when.
    announcements: Vec<(InterfaceId, Address, Time)>,
    /// Whether addresses were added or removed since [`Ip::take_address_change`].
    has_changed: bool,
    /// Probed addresses that other hosts have, not counted yet.
    duplicates: u64,
}

impl Clients {
    fn dhcp(&mut self, id: InterfaceId) -> Option<&mut Dhcp> {
        self.dhcp.iter_mut().find(|(interface, _)| *interface == id).map(|(_, dhcp)| dhcp)
    }

    fn slaac(&mut self, id: InterfaceId) -> Option<&mut Slaac> {
        self.slaac.iter_mut().find(|(interface, _)| *interface == id).map(|(_, slaac)| slaac)
    }

    /// Another host has an address, or probes it: a DHCP client that is about to use it declines it (RFC 5227 section
    /// 2.1.1).
    pub(super) fn detect_conflict(&mut self, id: InterfaceId, claimed: Ipv4Addr, now: Time) {
        if let Some(client) = self.dhcp(id).filter(|client| client.probing() == Some(claimed)) {
            client.conflict(now);
            self.duplicates += 1;
        }
    }

    /// Schedules the second announcement of a new IPv4 address (RFC 5227 section 2.3).
    pub(super) fn repeat_announcement(&mut self, id: InterfaceId, address: Address, now: Time) {
        if address.is_v4() {
            self.announcements.push((id, address, now.after(ANNOUNCE_INTERVAL)));
        }
    }

    /// Number of addresses of other hosts that were probed since the last call.
    pub(super) fn take_duplicates(&mut self) -> u64 {
        core::mem::take(&mut self.duplicates)
    }

    pub(super) fn deadline(&self) -> Time {
        let dhcp = self.dhcp.iter().map(|(_, dhcp)| dhcp.deadline());
        let leases = self.leases.iter().map(|(_, lease)| lease.expires);
        let slaac = self.slaac.iter().map(|(_, slaac)| slaac.deadline());
        let probes = self.probes.iter().map(|probe| probe.at);
        let announcements = self.announcements.iter().map(|(_, _, at)| *at);
        let all = dhcp.chain(leases).chain(slaac).chain(probes).chain(announcements);
        all.min().unwrap_or(Time::NEVER)
    }
}

impl<P: Payload> Ip<P> {
    /// Starts a DHCP client on an interface. Of several stacks with the same addresses, the first one has the client.
    pub(crate) fn start_dhcp(&mut self, id: InterfaceId, now: Time) {
        let mac = self.interfaces.get(id).map(|interface| interface.config.mac);
        let is_new = self.config.affinity.is_first() && self.clients.dhcp(id).is_none();
        if let Some(mac) = mac.filter(|_| is_new) {
            self.clients.dhcp.push((id, Dhcp::new(&self.config, mac, now)));
        }
    }

    /// Replaces the lease of an interface without a DHCP client by that of another stack with the same addresses.
    pub(crate) fn set_lease(&mut self, id: InterfaceId, lease: Option<Lease>, now: Time) {
        if self.clients.dhcp(id).is_none() {
            self.assign_lease(id, lease, now);
        }
    }

    /// Stops all DHCP clients, and gives their addresses back to the servers.
    pub(crate) fn release_leases(&mut self, now: Time, counters: &mut Counters) {
        for at in 0..self.clients.dhcp.len() {
            let Some((id, client)) = self.clients.dhcp.get_mut(at) else { return };
            let id = *id;
            if let Some(control) = client.release() {
                // Sent before the address and the route to the server are removed.
                self.send_whole(id, control.destination, &control.packet, now, counters);
            }
            self.apply_lease(id, now);
        }
    }

    /// The lease of an interface.
    pub(crate) fn lease(&self, id: InterfaceId) -> Option<&Lease> {
        self.clients.leases.iter().find(|(interface, _)| *interface == id).map(|(_, lease)| lease)
    }

    /// Starts stateless address configuration of IPv6 on an interface, whose link-local address it forms.
    pub(crate) fn start_slaac(&mut self, id: InterfaceId, kind: Identifier, now: Time) {
        let Some(interface) =
            self.interfaces.get(id).filter(|_| self.clients.slaac.iter().all(|own| own.0 != id))
        else {
            return;
        };
        let slaac = Slaac::new(&self.config, interface.config.mac, interface.config.mtu, kind, now);
        self.clients.slaac.push((id, slaac));
    }

    pub(crate) fn take_address_change(&mut self) -> bool {
        core::mem::take(&mut self.clients.has_changed)
    }

    /// Adds an address, an IPv6 one after a probe.
    pub(crate) fn probe_address(&mut self, id: InterfaceId, network: Cidr, now: Time) {
        if network.address.is_v4() {
            return self.add_address(id, network, now);
        }
        let delay = Random::new(&self.config.secret, "probe", now.0).delay(slaac::DELAY);
        self.clients.probes.push(Probe { interface: id, network, at: now.after(delay), is_sent: false });
    }

    /// Sends the probes that are due, and assigns addresses that no other host has claimed.
    fn advance_probes(&mut self, now: Time, counters: &mut Counters) {
        while let Some(at) = self.clients.probes.iter().position(|probe| probe.at <= now) {
            let probe = &mut self.clients.probes[at];
            let (id, network) = (probe.interface, probe.network);
            let Some(group) = solicited_node(network.address) else { return };
            if probe.is_sent {
                self.clients.probes.swap_remove(at);
                // The address joins the group again.
                self.leave(id, group, now);
                self.clients.has_changed = true;
                self.add_address(id, network, now);
            } else {
                (probe.is_sent, probe.at) = (true, now.after(slaac::ANSWER));
                self.join_reserved(id, group, now);
                let Control { destination, packet } = slaac::probe(network.address);
                self.send_whole(id, destination, &packet, now, counters);
            }
        }
    }

    /// Runs the clients' timers.
    pub(super) fn advance_clients(&mut self, now: Time, counters: &mut Counters) {
        if self.clients.deadline() > now {
            return;
        }
        for at in 0..self.clients.dhcp.len() {
            while self.run_dhcp(at, now, counters) {}
        }
        while let Some(at) = self.clients.leases.iter().position(|(_, lease)| lease.expires <= now) {
            self.assign_lease(self.clients.leases[at].0, None, now);
        }
        for at in 0..self.clients.slaac.len() {
            let Some((id, slaac)) = self.clients.slaac.get_mut(at) else { continue };
            let id = *id;
            slaac.advance(now);
            self.act(id, now, counters);
        }
        self.advance_probes(now, counters);
        self.advance_announcements(now);
    }

    /// Announces addresses again that are still those of their interface.
    fn advance_announcements(&mut self, now: Time) {
        for (id, address, _) in self.clients.announcements.extract_if(.., |(_, _, at)| *at <= now) {
            if self.interfaces.get(id).is_some_and(|interface| interface.has(address))
                && let Some(frame) = announcement(&self.interfaces, id, address)
            {
                self.outbox.push(frame);
            }
        }
    }

    /// Sends a message or probe of a DHCP client that is due. Returns whether there was one.
    fn run_dhcp(&mut self, at: usize, now: Time, counters: &mut Counters) -> bool {
        let Some((id, client)) = self.clients.dhcp.get_mut(at) else { return false };
        let id = *id;
        if let Some(address) = client.probe(now) {
            if let Some(frame) = arp_probe(&self.interfaces, id, address) {
                self.outbox.push(frame);
            }
            return true;
        }
        let control = client.poll(now);
        self.apply_lease(id, now);
        if let Some(control) = &control {
            self.send_whole(id, control.destination, &control.packet, now, counters);
        }
        control.is_some()
    }

    /// Processes a datagram for the DHCP client of its interface. Returns false if there is none, or the datagram is
    /// for another port.
    pub(super) fn take_dhcp<F: Frame>(
        &mut self,
        frame: &F,
        datagram: &Datagram,
        now: Time,
        counters: &mut Counters,
    ) -> bool {
        let packet = &datagram.packet;
        let head = frame.head().get(packet.transport..packet.transport + UDP_HEADER);
        let is_for_client = head.is_some_and(|head| head.get(2..4) == Some(&CLIENT_PORT.to_be_bytes()[..]));
        let Some(client) = self.clients.dhcp(packet.interface).filter(|_| is_for_client) else {
            return false;
        };
        let mut bytes = vec![0; packet.end.saturating_sub(packet.transport)];
        frame.copy_to(packet.transport, &mut bytes);
        if let Some(payload) = payload((packet.source, packet.destination), &bytes, frame.is_checksum_valid())
        {
            counters.dhcp_in += 1;
            client.receive(payload, now);
            self.apply_lease(packet.interface, now);
        } else {
            counters.udp_errors += 1;
        }
        true
    }

    /// Takes over a change of the lease of a DHCP client.
    fn apply_lease(&mut self, id: InterfaceId, now: Time) {
        let Some(client) = self.clients.dhcp(id) else { return };
        if client.take_change() {
            let lease = client.lease().cloned();
            self.assign_lease(id, lease, now);
        }
    }

    /// Assigns the leased address, or removes the one of a lease that ended.
    fn assign_lease(&mut self, id: InterfaceId, lease: Option<Lease>, now: Time) {
        let leases = &mut self.clients.leases;
        let at = leases.iter().position(|(interface, _)| *interface == id);
        let old = at.map(|at| leases.swap_remove(at).1);
        leases.extend(lease.iter().map(|lease| (id, lease.clone())));
        let settings = |lease: &Lease| (lease.network, lease.router, lease.mtu);
        if old.as_ref().map(settings) == lease.as_ref().map(settings) {
            return;
        }
        self.clients.has_changed = true;
        if let Some(old) = old {
            self.remove_address(id, old.network.address, now);
            if old.router.is_some() {
                self.remove_route(id, DEFAULT);
            }
        }
        if let Some(lease) = lease {
            self.add_address(id, lease.network, now);
            if lease.router.is_some() {
                self.add_route(Route { network: DEFAULT, interface: id, via: lease.router });
            }
            let current = self.interfaces.get(id).map_or(0, |interface| interface.config.mtu);
            if let Some(mtu) = lease.mtu.filter(|mtu| *mtu < current) {
                self.set_mtu(id, mtu);
            }
        }
    }

    /// Passes a Router Advertisement on. Returns whether it is valid.
    pub(super) fn advertised_router(&mut self, datagram: &Datagram, message: &[u8], now: Time) -> bool {
        let (id, source) = (datagram.packet.interface, datagram.packet.source);
        let slaac = self.clients.slaac(id);
        slaac.is_none_or(|slaac| slaac.advertise(source, datagram.hop_limit, message, now))
    }

    /// A neighbour advertised that it is no router.
    pub(super) fn remove_router(&mut self, id: InterfaceId, address: Address, now: Time) {
        if let Some(slaac) = self.clients.slaac(id) {
            slaac.remove_router(address, now);
        }
    }

    /// Passes a Neighbor Solicitation or Advertisement on, for duplicate address detection.
    pub(super) fn detect_duplicate(
        &mut self,
        datagram: &Datagram,
        target: Address,
        is_advertisement: bool,
        now: Time,
    ) {
        let (id, source) = (datagram.packet.interface, datagram.packet.source);
        let is_claim = is_advertisement || source.is_unspecified();
        let is_ours = |probe: &Probe| probe.interface == id && probe.network.address == target;
        if let Some(at) = self.clients.probes.iter().position(is_ours).filter(|_| is_claim) {
            let is_sent = self.clients.probes.swap_remove(at).is_sent;
            self.clients.duplicates += 1;
            if let Some(group) = solicited_node(target).filter(|_| is_sent) {
                self.leave(id, group, now);
            }
        }
        if let Some(slaac) = self.clients.slaac(id) {
            slaac.neighbor(source, target, is_advertisement, now);
        }
    }

    /// Carries out what the address configuration of an interface decided.
    pub(super) fn act(&mut self, id: InterfaceId, now: Time, counters: &mut Counters) {
        while let Some(action) = self.clients.slaac(id).and_then(Slaac::next_action) {
            match action {
                Action::Send(control) => {
                    self.send_whole(id, control.destination, &control.packet, now, counters);
                }
                Action::Join(group) => self.join_reserved(id, group, now),
                Action::Leave(group) => self.leave(id, group, now),
                Action::AddAddress(network) => {
                    self.clients.has_changed = true;
                    self.add_address(id, network, now);
                }
                Action::RemoveAddress(address) => {
                    self.clients.has_changed = true;
                    self.remove_address(id, address, now);
                }
                Action::SetPreferred(address, is_preferred) => self.set_preferred(id, address, is_preferred),
                Action::Duplicate(_) => counters.duplicate_addresses += 1,
                Action::AddRoute { network, via } => self.add_route(Route { network, interface: id, via }),
                Action::RemoveRoute(network) => self.remove_route(id, network),
                Action::SetMtu(mtu) => self.set_mtu(id, mtu),
            }
        }
    }
}

/// Payload of a UDP datagram over IPv4, if its length is valid, and its checksum unless the port has verified it.
fn payload((source, destination): (Address, Address), bytes: &[u8], is_verified: bool) -> Option<&[u8]> {
    let view = Udp::new(bytes)?;
    let datagram = bytes.get(..view.len().into())?;
    let mut sum = Sum::pseudo(source.wire(), protocol::UDP, view.len().into());
    sum.add(destination.wire());
    sum.add(datagram);
    let is_valid = is_verified || !view.has_checksum() || sum.finish() == [0, 0];
    datagram.get(UDP_HEADER..).filter(|_| is_valid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::v1::*;

    #[test]
    fn a_checksum_left_to_offload_counts_as_valid() {
        let ends = (Address::v4([10, 0, 0, 2]), Address::v4([10, 0, 0, 5]));
        let mut packet = Control::udp4(ends.0, ends.1, (67, 68), b"lease").packet.split_off(20);
        assert_eq!(payload(ends, &packet, false), Some(&b"lease"[..]));
        packet[6] ^= 1;
        assert_eq!(
            (payload(ends, &packet, false), payload(ends, &packet, true)),
            (None, Some(&b"lease"[..]))
        );
        assert_eq!(payload(ends, &packet[..10], true), None, "truncated");
    }
}
