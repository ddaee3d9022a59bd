//! Frames of other hosts.

use super::{address, resolve};
use crate::Address;
use std::prelude::v1::*;
use wire::checksum::{Sum, protocol};
use wire::{EtherType, Ipv4Fields, MacAddress, ipv6_header, write_ethernet};

/// Ethernet address of host 1.
pub(super) const A: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
/// Ethernet address of host 2.
pub(super) const B: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 2]);

pub(super) fn frame(to: MacAddress, from: MacAddress, ethertype: EtherType, packet: &[u8]) -> Vec<u8> {
    let mut head = [0; 14];
    write_ethernet(&mut head, to, from, None, ethertype).unwrap();
    [&head[..], packet].concat()
}

/// A frame of host 2 with an IP packet.
pub(super) fn ip_frame(to: MacAddress, packet: &[u8]) -> Vec<u8> {
    frame(to, B, if packet[0] >> 4 == 4 { EtherType::IPV4 } else { EtherType::IPV6 }, packet)
}

/// An IP packet.
pub(super) fn ip(source: &str, destination: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    ip_with((address(source), address(destination)), protocol, 60, payload)
}

/// An IP packet with this hop limit.
pub(super) fn ip_with(
    (source, destination): (Address, Address),
    protocol: u8,
    hop_limit: u8,
    payload: &[u8],
) -> Vec<u8> {
    if source.is_v4() {
        let fields = Ipv4Fields {
            total_len: (20 + payload.len()) as u16,
            identification: 9,
            dont_fragment: false,
            ttl: hop_limit,
            protocol,
            source: source.last4().into(),
            destination: destination.last4().into(),
        };
        return [&fields.header()[..], payload].concat();
    }
    let [from, to] = [source, destination].map(|address| (*address.octets()).into());
    [&ipv6_header(payload.len() as u16, protocol, hop_limit, from, to)[..], payload].concat()
}

/// An IP packet with an ICMP message, whose checksum is set.
pub(super) fn icmp(ends: (Address, Address), hop_limit: u8, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let is_v4 = ends.0.is_v4();
    let mut sum = if is_v4 { Sum::default() } else { resolve::pseudo6(ends.0, ends.1, message.len()) };
    sum.add(&message);
    message[2..4].copy_from_slice(&sum.finish());
    ip_with(ends, if is_v4 { protocol::ICMP } else { protocol::ICMPV6 }, hop_limit, &message)
}
