//! Header fields for the guard, parsed from the private head only.
//!
//! Any packet in which a receiver could find other content after the headers parsed here (more tags, longer options,
//! more extension headers, a first fragment without its transport header) is [`Malformed`].

use std::net::IpAddr;
use wire::{EtherType, HEADER_LEN, Ipv4, Ipv6, TAG_LEN, checksum::protocol};

/// Maximum number of VLAN tags parsed.
const MAX_TAGS: usize = 2;
const ICMPV6: u8 = 58;

/// The headers are truncated, malformed, or longer than the private head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// A packet by network protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    /// ARP or RARP packet, from its first byte.
    Arp(&'a [u8]),
    Ip(Ip),
    /// Any other protocol.
    Other,
}

/// An IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ip {
    pub(super) source: IpAddr,
    pub(super) upper: Upper,
    /// Whether the packet is not a fragment.
    pub(super) is_whole: bool,
    /// Offset of the packet's end in the frame, according to its header.
    pub(super) end: usize,
}

/// Upper-layer protocol of an IP packet. Offsets are from the start of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upper {
    Udp { source: u16, destination: u16, payload: usize },
    Icmpv6 { kind: u8, at: usize },
    Other,
}

impl<'a> Packet<'a> {
    /// Parses the headers of a frame whose first bytes are `head`.
    pub(super) fn of(head: &'a [u8]) -> Result<Self, Malformed> {
        let (ethertype, at) = untagged(head)?;
        match ethertype {
            EtherType::ARP | EtherType::RARP => Ok(Self::Arp(&head[at..])),
            EtherType::IPV4 => v4(head, at).map(Self::Ip),
            EtherType::IPV6 => v6(head, at).map(Self::Ip),
            _ => Ok(Self::Other),
        }
    }
}

/// EtherType after all tags, and the offset after it.
fn untagged(head: &[u8]) -> Result<(EtherType, usize), Malformed> {
    let mut at = HEADER_LEN;
    for _ in 0..=MAX_TAGS {
        let [high, low] = *head.get(at - 2..).and_then(<[u8]>::first_chunk).ok_or(Malformed)?;
        match EtherType(u16::from_be_bytes([high, low])) {
            EtherType::VLAN | EtherType::SERVICE_VLAN => at += TAG_LEN,
            ethertype => return Ok((ethertype, at)),
        }
    }
    Err(Malformed)
}

fn v4(head: &[u8], at: usize) -> Result<Ip, Malformed> {
    let view = Ipv4::new(&head[at..]).ok_or(Malformed)?;
    let transport = at + view.header_len();
    let upper = match view.protocol() {
        _ if view.fragment_offset() > 0 => Upper::Other,
        protocol::UDP => udp(head, transport)?,
        _ => Upper::Other,
    };
    let (source, end) = (view.source_and_destination().0.into(), at + usize::from(view.total_len()));
    Ok(Ip { source, upper, is_whole: !view.is_fragment(), end })
}

fn v6(head: &[u8], at: usize) -> Result<Ip, Malformed> {
    let view = Ipv6::new(&head[at..]).ok_or(Malformed)?;
    let layer = view.upper_layer().ok_or(Malformed)?;
    let transport = at + layer.at;
    let upper = match layer.protocol {
        _ if layer.continues => Upper::Other,
        protocol::UDP => udp(head, transport)?,
        ICMPV6 => Upper::Icmpv6 { kind: *head.get(transport).ok_or(Malformed)?, at: transport },
        _ => Upper::Other,
    };
    let end = at + wire::IPV6_HEADER + usize::from(view.payload_len());
    Ok(Ip { source: view.source_and_destination().0.into(), upper, is_whole: !layer.is_fragment, end })
}

fn udp(head: &[u8], at: usize) -> Result<Upper, Malformed> {
    let header: &[u8; 8] = head.get(at..).and_then(<[u8]>::first_chunk).ok_or(Malformed)?;
    let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    Ok(Upper::Udp { source: port(0), destination: port(2), payload: at + 8 })
}
