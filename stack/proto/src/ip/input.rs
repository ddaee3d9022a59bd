//! Receiving: checks of the Ethernet and IP header.
//!
//! Accepted frames are for this host, have valid lengths, and come from an address that a host can have. Each refused
//! frame is counted under one reason.

use super::group::Groups;
use super::icmp::MESSAGE;
use super::interface::{Interface, group_mac};
use super::reassembly::{Fragment, Reassembled};
use super::{InterfaceId, Ip, Packet, PrivateFrame, Received};
use crate::{Address, Counters, Frame, Payload, Time};
use alloc::vec;
use wire::checksum::protocol;
use wire::{EtherType, Ethernet, Ipv4, Ipv6, MacAddress, icmp_header};

/// IPv6 "No Next Header" (RFC 8200 section 4.7).
const NO_NEXT_HEADER: u8 = 59;
/// Internet Group Management Protocol (RFC 3376).
const IGMP: u8 = 2;

/// A valid IP packet for this host.
#[derive(Clone, Copy)]
pub(super) struct Datagram {
    pub(super) packet: Packet,
    /// Offset of the IP header from the start of the frame.
    pub(super) network: usize,
    pub(super) hop_limit: u8,
    pub(super) source_mac: MacAddress,
    pub(super) is_fragment: bool,
}

/// Ethernet header of a frame for this host.
#[derive(Clone, Copy)]
struct LinkHeader {
    destination: MacAddress,
    source: MacAddress,
    ethertype: EtherType,
    /// Offset of the network header.
    network: usize,
}

/// Reason why a frame is not processed.
enum Rejected {
    NotForUs,
    InvalidHeader,
}

impl<P: Payload> Ip<P> {
    /// Processes a received frame up to the transport header.
    pub(crate) fn receive<F: Frame<Payload = P>>(
        &mut self,
        interface: InterfaceId,
        frame: &mut F,
        now: Time,
        counters: &mut Counters,
    ) -> Received<P> {
        counters.frames_in += 1;
        let received = self.classify(interface, frame, now, counters);
        self.count_drops(counters);
        received.unwrap_or_else(|refusal| {
            match refusal {
                Rejected::NotForUs => counters.not_for_us += 1,
                Rejected::InvalidHeader => counters.ip_header_errors += 1,
            }
            Received::Consumed
        })
    }

    fn classify<F: Frame<Payload = P>>(
        &mut self,
        id: InterfaceId,
        frame: &mut F,
        now: Time,
        counters: &mut Counters,
    ) -> Result<Received<P>, Rejected> {
        let interface = self.interfaces.get(id).ok_or(Rejected::NotForUs)?;
        let link = link_header(interface, frame.head()).ok_or(Rejected::NotForUs)?;
        let (head, len) = (frame.head(), frame.len());
        let datagram = match link.ethertype {
            EtherType::ARP => {
                counters.arp_in += 1;
                self.arp(id, head.get(link.network..).unwrap_or_default(), now);
                return Ok(Received::Consumed);
            }
            EtherType::IPV4 => ipv4(id, &link, head, len)?,
            EtherType::IPV6 => ipv6(id, &link, head, len)?,
            _ => return Err(Rejected::NotForUs),
        };
        let datagram = admit(interface, &self.groups, &link, datagram)?;
        Ok(self.deliver(frame, &datagram, now, counters))
    }

    /// Passes a packet on to its protocol.
    fn deliver<F: Frame<Payload = P>>(
        &mut self,
        frame: &mut F,
        datagram: &Datagram,
        now: Time,
        counters: &mut Counters,
    ) -> Received<P> {
        if datagram.is_fragment {
            return self.reassemble(frame, datagram, now, counters);
        }
        let packet = datagram.packet;
        match (packet.protocol, packet.source.is_v4()) {
            (protocol::ICMP, true) | (protocol::ICMPV6, false) => self.icmp(frame, datagram, now, counters),
            (IGMP, true) => {
                counters.igmp_in += 1;
                counters.igmp_errors += u64::from(!self.membership(frame, datagram, now));
                Received::Consumed
            }
            (protocol::UDP, true) if self.take_dhcp(frame, datagram, now, counters) => Received::Consumed,
            (NO_NEXT_HEADER, false) => {
                counters.ip_unknown_protocol += 1;
                Received::Consumed
            }
            _ => Received::Packet(packet),
        }
    }

    /// Passes a fragment to reassembly, and a packet that it completes to its protocol.
    fn reassemble<F: Frame<Payload = P>>(
        &mut self,
        frame: &mut F,
        datagram: &Datagram,
        now: Time,
        counters: &mut Counters,
    ) -> Received<P> {
        let Datagram { packet, network, .. } = datagram;
        let Some(fragment) = Fragment::new(packet.interface, frame.head(), *network) else {
            counters.ip_header_errors += 1;
            return Received::Consumed;
        };
        let at = fragment.payload().start;
        match self.reassembly.receive(&fragment, |to| frame.copy_to(at, to), now, counters) {
            Reassembled::Complete(whole) => {
                self.deliver_whole(PrivateFrame::new(whole, false), packet, now, counters)
            }
            Reassembled::Refused { code, pointer } => {
                let mut quote = vec![0; packet.end - network];
                frame.copy_to(*network, &mut quote);
                let header = icmp_header(4, code, pointer.to_be_bytes());
                self.send_error((packet.destination, packet.source), header, quote, now, counters);
                Received::Consumed
            }
            Reassembled::Pending | Reassembled::Discarded => Received::Consumed,
        }
    }

    /// Delivers a packet assembled from fragments, of which `last` is one.
    fn deliver_whole(
        &mut self,
        mut frame: PrivateFrame<P>,
        last: &Packet,
        now: Time,
        counters: &mut Counters,
    ) -> Received<P> {
        let Some(mut datagram) = self.looped(last.interface, &frame) else {
            counters.ip_header_errors += 1;
            return Received::Consumed;
        };
        datagram.packet.is_group = last.is_group;
        // Neighbor Discovery and group membership in fragments are refused (RFC 6980).
        datagram.hop_limit = 0;
        match self.deliver(&mut frame, &datagram, now, counters) {
            Received::Packet(packet) => Received::Reassembled(packet, frame),
            other => other,
        }
    }

    /// Processes an IGMP message. Returns whether it is valid.
    fn membership<F: Frame<Payload = P>>(&mut self, frame: &F, datagram: &Datagram, now: Time) -> bool {
        let packet = &datagram.packet;
        let mut message = vec![0; (packet.end - packet.transport).min(MESSAGE)];
        frame.copy_to(packet.transport, &mut message);
        self.groups.receive(packet.interface, packet.source, datagram.hop_limit, &message, now)
    }

    /// Next frame of this host to itself, which the caller passes to the transport protocols.
    pub(crate) fn next_loopback(
        &mut self,
        now: Time,
        counters: &mut Counters,
    ) -> Option<(Packet, PrivateFrame<P>)> {
        while let Some((id, mut frame)) = self.loopback.pop_front() {
            let Some(datagram) = self.looped(id, &frame) else { continue };
            match self.deliver(&mut frame, &datagram, now, counters) {
                Received::Packet(packet) => return Some((packet, frame)),
                Received::Reassembled(packet, whole) => return Some((packet, whole)),
                Received::Consumed | Received::Error(_) => {}
            }
        }
        None
    }

    fn looped(&self, id: InterfaceId, frame: &PrivateFrame<P>) -> Option<Datagram> {
        let link = ethernet(self.interfaces.get(id)?, frame.head())?;
        let parse = if link.ethertype == EtherType::IPV4 { ipv4 } else { ipv6 };
        parse(id, &link, frame.head(), frame.len()).ok()
    }
}

/// Parses the Ethernet header of a frame to this host, with the VLAN of the interface.
#[inline]
fn link_header(interface: &Interface, head: &[u8]) -> Option<LinkHeader> {
    let link = ethernet(interface, head)?;
    let own = interface.config.mac;
    let is_for_us = link.destination == own || link.destination.is_group();
    (is_for_us && link.source != own && !link.source.is_group()).then_some(link)
}

#[inline]
fn ethernet(interface: &Interface, head: &[u8]) -> Option<LinkHeader> {
    let view = Ethernet::new(head).ok()?;
    // VLAN 0 marks a priority tag of an untagged frame (IEEE 802.1Q clause 9.6).
    let vlan = view.tag().map_or(0, wire::Tag::vlan);
    (vlan == interface.config.vlan.map_or(0, wire::VlanId::get)).then(|| LinkHeader {
        destination: view.destination(),
        source: view.source(),
        ethertype: view.inner_ethertype(),
        network: head.len() - view.payload().len(),
    })
}

fn ipv4(id: InterfaceId, link: &LinkHeader, head: &[u8], len: usize) -> Result<Datagram, Rejected> {
    let view = head.get(link.network..).and_then(Ipv4::new).ok_or(Rejected::InvalidHeader)?;
    let total = usize::from(view.total_len());
    let end = link.network + total;
    let is_valid = total >= view.header_len() && end <= len && view.is_checksum_valid();
    if !is_valid || view.has_source_route() {
        return Err(Rejected::InvalidHeader);
    }
    let (source, destination) = view.source_and_destination();
    let packet = Packet {
        interface: id,
        source: source.into(),
        destination: destination.into(),
        protocol: view.protocol(),
        transport: link.network + view.header_len(),
        end,
        ecn: view.ecn(),
        is_group: false,
    };
    Ok(Datagram {
        packet,
        network: link.network,
        hop_limit: view.ttl(),
        source_mac: link.source,
        is_fragment: view.is_fragment(),
    })
}

fn ipv6(id: InterfaceId, link: &LinkHeader, head: &[u8], len: usize) -> Result<Datagram, Rejected> {
    let view = head.get(link.network..).and_then(Ipv6::new).ok_or(Rejected::InvalidHeader)?;
    let end = link.network + wire::IPV6_HEADER + usize::from(view.payload_len());
    let upper = view.upper_layer().ok_or(Rejected::InvalidHeader)?;
    let transport = link.network + upper.at;
    if end > len || transport > end || view.must_discard() {
        return Err(Rejected::InvalidHeader);
    }
    let (source, destination) = view.source_and_destination();
    let (source, destination) = (Address::from(source), Address::from(destination));
    // IPv4-mapped addresses never appear on the wire; in tables they stand for IPv4.
    if source.is_v4() || destination.is_v4() {
        return Err(Rejected::InvalidHeader);
    }
    let packet = Packet {
        interface: id,
        source,
        destination,
        protocol: upper.protocol,
        transport,
        end,
        ecn: view.ecn(),
        is_group: false,
    };
    Ok(Datagram {
        packet,
        network: link.network,
        hop_limit: view.hop_limit(),
        source_mac: link.source,
        is_fragment: upper.is_fragment,
    })
}

/// Checks source and destination of a packet from the link.
fn admit(
    interface: &Interface,
    groups: &Groups,
    link: &LinkHeader,
    mut datagram: Datagram,
) -> Result<Datagram, Rejected> {
    let Packet { interface: id, source, destination, .. } = datagram.packet;
    let is_admitted = if interface.has(destination) {
        !link.destination.is_group()
    } else {
        datagram.packet.is_group = true;
        if destination.is_multicast() {
            let is_mapped = link.destination == group_mac(destination);
            // One receiver of a group may be addressed by unicast on the link (RFC 6085).
            let is_joined = interface.is_own_group(destination) || groups.is_joined(id, destination);
            (is_mapped || !link.destination.is_group()) && is_joined
        } else {
            link.destination.is_group() && interface.is_broadcast(destination)
        }
    };
    if is_admitted && is_possible_source(interface, source, &datagram.packet) {
        Ok(datagram)
    } else {
        Err(Rejected::NotForUs)
    }
}

/// Whether a packet from the link can have this source address (RFC 1122 section 3.2.1.3, RFC 4291 section 2.5).
fn is_possible_source(interface: &Interface, source: Address, packet: &Packet) -> bool {
    if source.is_unspecified() {
        // Duplicate address detection.
        return !source.is_v4() && packet.protocol == protocol::ICMPV6;
    }
    let is_this_network = source.is_v4() && source.last4().first() == Some(&0);
    let is_invalid = source.is_multicast() || source.is_loopback() || is_this_network;
    !is_invalid && !interface.is_broadcast(source) && !interface.has(source)
}
