//! Path MTU: the error about a packet that does not fit through a tunnel.
//!
//! The error comes from the destination of the packet, as that of the kernel's tunnels, because the bridge has no
//! address on the network of the sender.

use std::net::{IpAddr, Ipv4Addr};
use wire::checksum::{Sum, protocol};
use wire::{HEADER_LEN, IPV4_HEADER, Ipv4, Ipv4Fields, Ipv6, TAG_LEN, icmp_header, ipv6_header};

/// Maximum length of the IP packet with an error (RFC 1812 section 4.3.2.3, RFC 4443 section 2.4 c).
const LENGTHS: (usize, usize) = (576, 1280);
/// Time to live.
const TTL: u8 = 64;

/// The frame with an ICMP error "fragmentation needed" or ICMPv6 "packet too big", for the sender of `frame`. Returns
/// `None` if the packet may be fragmented, or no error may be sent about it (RFC 1122 section 3.2.2).
pub fn packet_too_big(frame: &[u8], mtu: u16) -> Option<Vec<u8>> {
    let (mut network, mut kind) = (HEADER_LEN, frame.get(12..14)?);
    while matches!(kind, [0x81, 0x00] | [0x88, 0xa8]) && network < HEADER_LEN + 2 * TAG_LEN {
        kind = frame.get(network + 2..network + 4)?;
        network += TAG_LEN;
    }
    let packet = frame.get(network..)?;
    let error = match kind {
        [0x08, 0x00] => v4(packet, mtu)?,
        [0x86, 0xdd] => v6(packet, mtu)?,
        _ => return None,
    };
    let (destination, source) = (frame.get(..6)?, frame.get(6..12)?);
    if source.first()? & 1 != 0 || destination.first()? & 1 != 0 {
        return None;
    }
    Some([source, destination, frame.get(12..network)?, &error].concat())
}

fn v4(packet: &[u8], mtu: u16) -> Option<Vec<u8>> {
    let view = Ipv4::new(packet)?;
    let (source, destination) = view.source_and_destination();
    let is_error =
        view.protocol() == protocol::ICMP && !matches!(packet.get(view.header_len())?, 0 | 8 | 13 | 14);
    if !view.dont_fragment() || view.fragment_offset() != 0 || is_error || !is_host(destination.into()) {
        return None;
    }
    let quoted = packet.get(..packet.len().min(LENGTHS.0 - IPV4_HEADER - 8))?;
    let mut message = icmp_header(3, 4, u32::from(mtu).to_be_bytes()).to_vec();
    message.extend(quoted);
    let sum = Sum::of(&message).finish();
    message.get_mut(2..4)?.copy_from_slice(&sum);
    let header = Ipv4Fields {
        total_len: (IPV4_HEADER + message.len()) as u16,
        identification: 0,
        dont_fragment: true,
        ttl: TTL,
        protocol: protocol::ICMP,
        source: destination,
        destination: is_host(source.into()).then_some(source)?,
    };
    Some([&header.header(), message.as_slice()].concat())
}

fn v6(packet: &[u8], mtu: u16) -> Option<Vec<u8>> {
    let view = Ipv6::new(packet)?;
    let upper = view.upper_layer()?;
    let (source, destination) = view.source_and_destination();
    // ICMPv6 errors have types below 128.
    let is_error = upper.protocol == protocol::ICMPV6 && packet.get(upper.at)? & 0x80 == 0;
    if upper.continues || is_error || !is_host(source.into()) || !is_host(destination.into()) {
        return None;
    }
    let quoted = packet.get(..packet.len().min(LENGTHS.1 - wire::IPV6_HEADER - 8))?;
    let mut message = icmp_header(2, 0, u32::from(mtu).to_be_bytes()).to_vec();
    message.extend(quoted);
    let header = ipv6_header(message.len() as u16, protocol::ICMPV6, TTL, destination, source);
    let mut sum = Sum::pseudo(header.get(8..)?, protocol::ICMPV6, message.len() as u32);
    sum.add(&message);
    message.get_mut(2..4)?.copy_from_slice(&sum.finish());
    Some([&header, message.as_slice()].concat())
}

fn is_host(address: IpAddr) -> bool {
    let is_special = address.is_unspecified() || address.is_multicast() || address.is_loopback();
    let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !is_special && !is_broadcast
}
