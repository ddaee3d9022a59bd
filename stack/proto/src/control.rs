//! Complete IP packets of the protocols that configure the host: DHCP, Router Solicitation, IGMP and MLD.
//!
//! They leave before routes exist, or need options that transport packets have not, so each is built whole, in memory
//! of the stack. The IP layer only adds the Ethernet header.

use crate::Address;
use alloc::vec::Vec;
use wire::checksum::{Sum, protocol};
use wire::{IPV4_HEADER, IPV6_HEADER, UDP_HEADER, udp_header};

/// IP option Router Alert (RFC 2113) with its padding to four bytes.
const ROUTER_ALERT_4: [u8; 4] = [148, 4, 0, 0];
/// Hop-by-hop header of `next` with the option Router Alert for MLD (RFC 2711).
const fn router_alert_6(next: u8) -> [u8; 8] {
    [next, 0, 5, 2, 0, 0, 1, 0]
}

/// A packet to send on one interface, independent of routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// Determines the Ethernet address: that of the group, broadcast, or the neighbour's.
    pub(crate) destination: Address,
    /// The IP packet.
    pub(crate) packet: Vec<u8>,
}

impl Control {
    /// A UDP datagram over IPv4; `ports` are source and destination port.
    pub(crate) fn udp4(source: Address, destination: Address, ports: (u16, u16), payload: &[u8]) -> Self {
        let len = (UDP_HEADER + payload.len()) as u16;
        let mut sum = Sum::pseudo(source.wire(), protocol::UDP, len.into());
        sum.add(destination.wire());
        sum.add(&udp_header(ports.0, ports.1, len, [0, 0]));
        sum.add(payload);
        let header = udp_header(ports.0, ports.1, len, sum.finish_nonzero());
        let packet = ipv4(source, destination, (64, protocol::UDP), &[], &[&header, payload]);
        Self { destination, packet }
    }

    /// An IGMP message (RFC 3376 section 4) with its checksum in place of bytes 2 and 3.
    pub(crate) fn igmp(source: Address, destination: Address, message: &mut [u8]) -> Self {
        const IGMP: u8 = 2;
        set_checksum(message, Sum::default());
        let packet = ipv4(source, destination, (1, IGMP), &ROUTER_ALERT_4, &[message]);
        Self { destination, packet }
    }

    /// An ICMPv6 message with its checksum in place of bytes 2 and 3, as Neighbor Discovery (RFC 4861) or MLD (RFC
    /// 3810) sends it.
    pub(crate) fn icmpv6(source: Address, destination: Address, is_mld: bool, message: &mut [u8]) -> Self {
        const ICMPV6: u8 = 58;
        let mut sum = Sum::pseudo(source.wire(), ICMPV6, message.len() as u32);
        sum.add(destination.wire());
        set_checksum(message, sum);
        let packet = if is_mld {
            ipv6(source, destination, (1, 0), &[&router_alert_6(ICMPV6), message])
        } else {
            ipv6(source, destination, (255, ICMPV6), &[message])
        };
        Self { destination, packet }
    }
}

fn set_checksum(message: &mut [u8], mut sum: Sum) {
    if let Some(field) = message.get_mut(2..4) {
        field.fill(0);
    }
    sum.add(message);
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&sum.finish());
    }
}

fn ipv4(
    source: Address,
    destination: Address,
    (ttl, protocol): (u8, u8),
    options: &[u8],
    body: &[&[u8]],
) -> Vec<u8> {
    // Precedence internetwork control (RFC 3376 section 4) is for IGMP; don't-fragment for all.
    let words = ((IPV4_HEADER + options.len()) / 4) as u8;
    let tos = if options.is_empty() { 0 } else { 0xc0 };
    let mut packet = Vec::new();
    packet.extend_from_slice(&[0x40 | words, tos, 0, 0, 0, 0, 0x40, 0, ttl, protocol, 0, 0]);
    packet.extend_from_slice(source.wire());
    packet.extend_from_slice(destination.wire());
    packet.extend_from_slice(options);
    for part in body {
        packet.extend_from_slice(part);
    }
    let len = packet.len() as u16;
    wire::rewrite_ipv4(&mut packet, len, 0);
    packet
}

fn ipv6(source: Address, destination: Address, (hop_limit, next): (u8, u8), body: &[&[u8]]) -> Vec<u8> {
    let len = body.iter().map(|part| part.len()).sum::<usize>() as u16;
    let mut packet = Vec::with_capacity(IPV6_HEADER + usize::from(len));
    packet.extend_from_slice(&[0x60, 0, 0, 0]);
    packet.extend_from_slice(&len.to_be_bytes());
    packet.extend_from_slice(&[next, hop_limit]);
    packet.extend_from_slice(source.octets());
    packet.extend_from_slice(destination.octets());
    for part in body {
        packet.extend_from_slice(part);
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::v1::*;
    use wire::{Ipv4, Ipv6, Udp};

    #[test]
    fn datagrams_have_valid_checksums() {
        let ends = (Address::v4([0; 4]), Address::v4([255; 4]));
        let packet = Control::udp4(ends.0, ends.1, (68, 67), b"hello").packet;
        let view = Ipv4::new(&packet).unwrap();
        assert_eq!((view.header_len(), view.total_len(), Sum::of(&packet[..20]).finish()), (20, 33, [0, 0]));
        let datagram = Udp::new(&packet[20..]).unwrap();
        assert_eq!((datagram.source_port(), datagram.destination_port(), datagram.len()), (68, 67, 13));
        let mut sum = Sum::pseudo(view.addresses(), protocol::UDP, 13);
        sum.add(&packet[20..]);
        assert_eq!(sum.finish(), [0, 0]);
    }

    #[test]
    fn group_messages_carry_router_alert() {
        let group = Address::v4([224, 0, 0, 22]);
        let packet =
            Control::igmp(Address::v4([10, 0, 0, 1]), group, &mut [0x22, 9, 9, 9, 0, 0, 0, 0]).packet;
        assert_eq!((&packet[20..24], packet[8]), (&ROUTER_ALERT_4[..], 1));
        assert_eq!((Sum::of(&packet[..24]).finish(), Sum::of(&packet[24..]).finish()), ([0, 0], [0, 0]));

        let (source, group) = (Address::v6([0xfe; 16]), Address::v6([0xff; 16]));
        for (is_mld, at, hop_limit) in [(true, 48, 1), (false, 40, 255)] {
            let packet = Control::icmpv6(source, group, is_mld, &mut [143, 0, 9, 9, 0, 0, 0, 0]).packet;
            let view = Ipv6::new(&packet).unwrap();
            let upper = view.upper_layer().unwrap();
            assert_eq!((upper.protocol, upper.at, packet[7]), (58, at, hop_limit));
            let mut sum = Sum::pseudo(view.addresses(), 58, 8);
            sum.add(&packet[at..]);
            assert_eq!((sum.finish(), usize::from(view.payload_len())), ([0, 0], packet.len() - 40));
        }
    }
}
