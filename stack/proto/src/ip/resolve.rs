//! Messages of address resolution: ARP (RFC 826, RFC 5227) and Neighbor Discovery (RFC 4861 section 7).
//!
//! Both are without authentication. So an entry is created only by a request for an own address, and an ARP reply must
//! never change one unless it was asked for.

use super::input::Datagram;
use super::interface::{Interface, Interfaces, group_mac, is_link_local, solicited_node};
use super::neighbour::{News, Solicitation};
use super::outbox::OutFrame;
use super::route::{Hop, Plan};
use super::template::{Fields, Template};
use super::{InterfaceId, Ip};
use crate::{Address, Payload, Time};
use core::net::{Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use wire::checksum::{Sum, protocol};
use wire::{
    Arp, EtherType, MacAddress, NEIGHBOR_MESSAGE, NaFlags, Nd, NdKind, arp_packet, neighbor_advertisement,
    neighbor_solicitation, write_ethernet,
};

/// Hop limit of Neighbor Discovery, which proves that no router forwarded the packet (RFC 4861 section 3.1).
const ND_HOP_LIMIT: u8 = 255;
/// Minimum time between two announcements in defence of an address (RFC 5227 section 1.1, `DEFEND_INTERVAL`).
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
const ALL_NODES: Address = Address::v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

fn v4(address: Address) -> Ipv4Addr {
    address.last4().into()
}

fn v6(address: Address) -> Ipv6Addr {
    (*address.octets()).into()
}

/// A request for a neighbour's Ethernet address. Returns `None` if the interface has no address to send it from.
pub(super) fn solicitation<P: Payload>(
    interfaces: &Interfaces,
    request: &Solicitation,
    source: Option<Address>,
) -> Option<OutFrame<P>> {
    let interface = interfaces.get(request.interface)?;
    let Solicitation { interface: id, target, mac } = *request;
    let is_usable = |source: &Address| source.is_v4() == target.is_v4() && interface.has(*source);
    let source = source.filter(is_usable).or_else(|| interface.select_source(target))?;
    let own = interface.config.mac;
    if target.is_v4() {
        let packet = arp_packet(Arp::REQUEST, (own, v4(source)), (MacAddress::ZERO, v4(target)));
        return Some(arp_frame(id, interface, mac.unwrap_or(MacAddress::BROADCAST), &packet));
    }
    let message = neighbor_solicitation(v6(target), own);
    let destination = if mac.is_some() { target } else { solicited_node(target)? };
    let mac = mac.unwrap_or_else(|| group_mac(destination));
    Some(nd_frame((id, interface), (source, destination), mac, message))
}

/// An announcement of an own address, so that neighbours update what they hold for it (RFC 5227 section 2.3, RFC 4861
/// section 7.2.6).
pub(super) fn announcement<P: Payload>(
    interfaces: &Interfaces,
    id: InterfaceId,
    address: Address,
) -> Option<OutFrame<P>> {
    let interface = interfaces.get(id)?;
    let own = interface.config.mac;
    Some(if address.is_v4() {
        let packet = arp_packet(Arp::REQUEST, (own, v4(address)), (MacAddress::ZERO, v4(address)));
        arp_frame(id, interface, MacAddress::BROADCAST, &packet)
    } else {
        let flags = NaFlags { overrides: true, ..NaFlags::default() };
        let message = neighbor_advertisement(v6(address), own, flags);
        nd_frame((id, interface), (address, ALL_NODES), group_mac(ALL_NODES), message)
    })
}

/// An ARP probe of an IPv4 address that is not used yet (RFC 5227 section 2.1.1).
pub(super) fn arp_probe<P: Payload>(
    interfaces: &Interfaces,
    id: InterfaceId,
    address: Ipv4Addr,
) -> Option<OutFrame<P>> {
    let interface = interfaces.get(id)?;
    let sender = (interface.config.mac, Ipv4Addr::UNSPECIFIED);
    let packet = arp_packet(Arp::REQUEST, sender, (MacAddress::ZERO, address));
    Some(arp_frame(id, interface, MacAddress::BROADCAST, &packet))
}

fn arp_frame<P: Payload>(
    id: InterfaceId,
    interface: &Interface,
    destination: MacAddress,
    packet: &[u8],
) -> OutFrame<P> {
    let mut frame = OutFrame::new(id);
    let config = &interface.config;
    let len = write_ethernet(&mut frame.head, destination, config.mac, config.vlan, EtherType::ARP);
    frame.len = len.unwrap_or(0);
    frame.push(packet);
    frame
}

fn nd_frame<P: Payload>(
    (id, interface): (InterfaceId, &Interface),
    (source, destination): (Address, Address),
    mac: MacAddress,
    mut message: [u8; NEIGHBOR_MESSAGE],
) -> OutFrame<P> {
    let plan = Plan { interface: id, source, destination, hop: Hop::Group(mac) };
    let len = message.len();
    let mut sum = pseudo6(source, destination, len);
    sum.add(&message);
    message[2..4].copy_from_slice(&sum.finish());
    let fields = Fields {
        len,
        protocol: protocol::ICMPV6,
        ecn: 0,
        flow: 0,
        hop_limit: ND_HOP_LIMIT,
        identification: 0,
        dont_fragment: false,
    };
    let mut frame = OutFrame::new(id);
    frame.len = Template::new(interface, &plan, mac).write(mac, &fields, &mut frame.head);
    frame.push(&message);
    frame
}

/// Sum of the pseudo header of ICMPv6 (RFC 4443 section 2.3).
pub(super) fn pseudo6(source: Address, destination: Address, len: usize) -> Sum {
    let mut sum = Sum::pseudo(source.octets(), protocol::ICMPV6, len as u32);
    sum.add(destination.octets());
    sum
}

impl<P: Payload> Ip<P> {
    /// Processes an ARP packet.
    pub(super) fn arp(&mut self, id: InterfaceId, packet: &[u8], now: Time) {
        let Some(interface) = self.interfaces.get(id) else { return };
        let Some(view) = Arp::new(packet).filter(|view| is_host(view.sender_mac())) else { return };
        let (mac, sender) = (view.sender_mac(), Address::from(view.sender_ip()));
        let target = Address::from(view.target_ip());
        let (key, is_for_us) = ((id, sender), interface.has(target));
        let is_neighbour = interface.is_on_link(sender) && !interface.is_broadcast(sender);
        if mac != interface.config.mac {
            let claimed = if sender.is_unspecified() { view.target_ip() } else { view.sender_ip() };
            self.clients.detect_conflict(id, claimed, now);
        }
        if interface.has(sender) && mac != interface.config.mac {
            return self.defend(id, sender, now);
        }
        let is_request = view.operation() == Arp::REQUEST;
        // A probe has no sender address (RFC 5227 section 1.1).
        if is_request && is_for_us && (is_neighbour || sender.is_unspecified()) {
            let reply = arp_packet(Arp::REPLY, (interface.config.mac, v4(target)), (mac, view.sender_ip()));
            self.outbox.push(arp_frame(id, interface, mac, &reply));
        }
        let solicited = view.operation() == Arp::REPLY && is_for_us && self.neighbours.is_awaited(key);
        let may_create = is_request && is_for_us;
        if is_neighbour && (solicited || may_create || sender == target) {
            let news = News { mac: Some(mac), solicited, overrides: true, may_create };
            self.learn(key, news, now);
        }
    }

    /// Announces an own address that another host uses, at most once in an interval (RFC 5227 section 2.4 c).
    fn defend(&mut self, id: InterfaceId, address: Address, now: Time) {
        let is_recent = self.defended.is_some_and(|last| now < last.after(DEFEND_INTERVAL));
        if let Some(frame) = announcement(&self.interfaces, id, address).filter(|_| !is_recent) {
            self.defended = Some(now);
            self.outbox.push(frame);
        }
    }

    /// Processes a Neighbor Discovery message. Returns false if it is invalid (RFC 4861 section 7.1).
    pub(super) fn discover(&mut self, datagram: &Datagram, message: &[u8], now: Time) -> bool {
        let Some(view) = Nd::new(message).filter(|_| message.get(1) == Some(&0)) else { return false };
        if datagram.hop_limit != ND_HOP_LIMIT {
            return false;
        }
        match view.kind() {
            NdKind::NeighborSolicitation => self.solicited(datagram, &view, now),
            NdKind::NeighborAdvertisement => self.advertised(datagram, &view, now),
            NdKind::RouterAdvertisement => {
                let is_valid = self.advertised_router(datagram, message, now);
                if let Some(mac) = view.link_layers().next().filter(|mac| is_valid && is_host(*mac)) {
                    let news = News { mac: Some(mac), solicited: false, overrides: true, may_create: true };
                    self.learn((datagram.packet.interface, datagram.packet.source), news, now);
                }
                is_valid
            }
            // Redirects are ignored: any host on the link could send one.
            NdKind::RouterSolicitation | NdKind::Redirect => true,
        }
    }

    fn solicited(&mut self, datagram: &Datagram, view: &Nd<'_>, now: Time) -> bool {
        let packet = &datagram.packet;
        let Some(target) = view.target().map(Address::from).filter(|target| !target.is_multicast()) else {
            return false;
        };
        let (mac, is_probe) = (view.link_layers().next(), packet.source.is_unspecified());
        if is_probe && (mac.is_some() || Some(packet.destination) != solicited_node(target)) {
            return false;
        }
        self.detect_duplicate(datagram, target, false, now);
        let Some(interface) = self.interfaces.get(packet.interface) else { return false };
        // All stacks with an address learn that another host probes it, and one answers.
        if !interface.has(target) || is_probe && !self.config.affinity.is_first() {
            return true;
        }
        let (destination, to) =
            if is_probe { (ALL_NODES, group_mac(ALL_NODES)) } else { (packet.source, datagram.source_mac) };
        let flags = NaFlags { router: false, solicited: !is_probe, overrides: true };
        let message = neighbor_advertisement(v6(target), interface.config.mac, flags);
        let is_neighbour = interface.is_on_link(packet.source) || is_link_local(packet.source);
        self.outbox.push(nd_frame((packet.interface, interface), (target, destination), to, message));
        if let Some(mac) = mac.filter(|mac| is_neighbour && is_host(*mac)) {
            let news = News { mac: Some(mac), solicited: false, overrides: true, may_create: true };
            self.learn((packet.interface, packet.source), news, now);
        }
        true
    }

    fn advertised(&mut self, datagram: &Datagram, view: &Nd<'_>, now: Time) -> bool {
        let (packet, flags) = (&datagram.packet, view.flags());
        let Some(target) = view.target().map(Address::from).filter(|target| !target.is_multicast()) else {
            return false;
        };
        let mac = view.link_layers().next();
        if flags.solicited && packet.is_group || mac.is_some_and(|mac| !is_host(mac)) {
            return false;
        }
        self.detect_duplicate(datagram, target, true, now);
        let NaFlags { router, solicited, overrides } = flags;
        let key = (packet.interface, target);
        self.learn(key, News { mac, solicited, overrides, may_create: false }, now);
        // The flag counts if the advertisement was not ignored (RFC 4861 section 7.2.5).
        if !router && self.neighbours.is_resolved(key, mac) {
            self.remove_router(packet.interface, target, now);
        }
        true
    }

    /// Updates the neighbour cache, and sends packets that waited for the address.
    fn learn(&mut self, key: (InterfaceId, Address), news: News, now: Time) {
        let Some((mac, waiting)) = self.neighbours.learn(key, news, now) else { return };
        for mut frame in waiting {
            frame.set_destination(mac);
            self.outbox.push(frame);
        }
    }
}

/// Whether the address can be that of a host.
fn is_host(mac: MacAddress) -> bool {
    !mac.is_group() && !mac.is_zero()
}
