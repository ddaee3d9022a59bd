//! The parts of an IP packet that connection tracking reads.

use crate::tcp::Segment;
use crate::tuple::Tuple;
use std::net::IpAddr;
use wire::checksum::protocol;
use wire::{Icmp, Ipv4, Ipv6, Quoted, Tcp, Version};

/// Shortest header of UDP and SCTP, in bytes.
const UDP: usize = 8;
const SCTP: usize = 12;
const ICMP: usize = 8;

/// An IP packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    /// Its direction; of an ICMP error, the opposite of that of the quoted packet.
    pub(crate) tuple: Tuple,
    pub(crate) content: Content,
    pub(crate) fragment: Option<Fragment>,
    /// Bytes after the transport header, as far as they are in the head.
    pub(crate) payload: &'a [u8],
}

/// Event of the packet for its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Tcp(Segment),
    /// A request, which may begin a connection, or a reply.
    Icmp {
        is_request: bool,
    },
    /// UDP and other protocols.
    Other,
    /// An ICMP error about a packet of the connection.
    Error,
    /// A fragment other than the first.
    Later,
}

/// Names a fragmented packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment {
    /// Addresses and protocol; the identification in place of the ports.
    pub(crate) key: Tuple,
    pub(crate) is_later: bool,
}

/// The IP payload.
struct Body<'a> {
    addresses: (IpAddr, IpAddr),
    version: Version,
    protocol: u8,
    /// Bytes of it in the head.
    bytes: &'a [u8],
    /// Length of it.
    len: usize,
    /// Identification of a fragment, and whether it is not the first.
    fragment: Option<(u32, bool)>,
}

impl<'a> Packet<'a> {
    /// Reads a packet that begins with `head`, of which bytes may be missing at the end. Returns `None` for a packet
    /// that has no place in any connection.
    pub(crate) fn parse(head: &'a [u8], zone: u16) -> Option<Self> {
        let body = match head.first()? >> 4 {
            4 => ipv4(head),
            _ => ipv6(head),
        }?;
        let tuple = Tuple::new(body.addresses, body.protocol, zone);
        let fragment = body
            .fragment
            .map(|(id, is_later)| Fragment { key: tuple.with_ports((id >> 16) as u16, id as u16), is_later });
        if fragment.is_some_and(|fragment| fragment.is_later) {
            return Some(Self { tuple, content: Content::Later, fragment, payload: &[] });
        }
        let mut packet = Self { tuple, content: Content::Other, fragment, payload: &[] };
        packet.transport(&body)?;
        // An error whose quoted packet is incomplete would be about an unknown connection.
        (packet.content != Content::Error || fragment.is_none()).then_some(packet)
    }

    /// Whether all of the payload of a TCP segment is in the head.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.content, Content::Tcp(segment) if segment.payload_len() == self.payload.len())
    }

    fn transport(&mut self, body: &Body<'a>) -> Option<()> {
        match (body.protocol, body.version) {
            (protocol::TCP, _) => self.tcp(body),
            (protocol::UDP, _) => self.udp(body),
            (protocol::SCTP, _) if body.len < SCTP => None,
            (protocol::SCTP, _) => self.ports(body.bytes),
            (protocol::ICMP, Version::V4) | (protocol::ICMPV6, Version::V6) => self.icmp(body),
            _ => Some(()),
        }
    }

    /// Port 0 is not valid.
    fn ports(&mut self, header: &[u8]) -> Option<()> {
        let [a, b, c, d] = *header.first_chunk()?;
        let (source, destination) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        self.tuple = self.tuple.with_ports(source, destination);
        (source != 0 && destination != 0).then_some(())
    }

    fn tcp(&mut self, body: &Body<'a>) -> Option<()> {
        let view = Tcp::new(body.bytes)?;
        let len = body.len.checked_sub(view.header_len())?;
        self.content = Content::Tcp(Segment::new(&view, len as u32));
        self.payload = body.bytes.get(view.header_len()..)?;
        self.ports(body.bytes)
    }

    fn udp(&mut self, body: &Body<'a>) -> Option<()> {
        let header: &[u8; UDP] = body.bytes.first_chunk()?;
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        if len < UDP || body.fragment.is_none() && len > body.len {
            return None;
        }
        self.payload = &body.bytes[UDP..];
        self.ports(header)
    }

    fn icmp(&mut self, body: &Body<'a>) -> Option<()> {
        let message = Icmp::new(body.version, body.bytes).filter(|_| body.len >= ICMP)?;
        let [kind, code, _, _, high, low, ..] = *message.header();
        if code != 0 || !is_message(body.version, kind) {
            return self.error(body, message.quoted()?);
        }
        self.tuple = self.tuple.with_message(kind, u16::from_be_bytes([high, low]));
        self.content = Content::Icmp { is_request: matches!(kind, 8 | 13 | 15 | 128) };
        Some(())
    }

    /// The receiver of an error must be the sender of the quoted packet.
    fn error(&mut self, body: &Body<'a>, quoted: Quoted) -> Option<()> {
        if quoted.source != body.addresses.1 {
            return None;
        }
        let tuple = Tuple::new((quoted.source, quoted.destination), quoted.protocol, self.tuple.zone());
        let mut inner = Self { tuple, ..*self };
        match (quoted.protocol, body.version) {
            (protocol::TCP | protocol::UDP | protocol::SCTP, _) => inner.ports(&quoted.transport)?,
            (protocol::ICMP, Version::V4) | (protocol::ICMPV6, Version::V6) => {
                let [kind, .., high, low, _, _] = quoted.transport;
                is_message(body.version, kind).then_some(())?;
                inner.tuple = tuple.with_message(kind, u16::from_be_bytes([high, low]));
            }
            _ => {}
        }
        (self.tuple, self.content) = (inner.tuple.reversed(), Content::Error);
        Some(())
    }
}

/// Whether an ICMP type is that of a request or a reply.
fn is_message(version: Version, kind: u8) -> bool {
    match version {
        Version::V4 => matches!(kind, 0 | 8 | 13..=16),
        Version::V6 => matches!(kind, 128 | 129),
    }
}

fn ipv4(head: &[u8]) -> Option<Body<'_>> {
    let view = Ipv4::new(head).filter(Ipv4::is_checksum_valid)?;
    let (header, total) = (view.header_len(), usize::from(view.total_len()));
    let (source, destination) = view.source_and_destination();
    let is_later = view.fragment_offset() != 0;
    Some(Body {
        addresses: (source.into(), destination.into()),
        version: Version::V4,
        protocol: view.protocol(),
        bytes: head.get(header..head.len().min(total))?,
        len: total - header,
        fragment: view.is_fragment().then(|| (view.identification().into(), is_later)),
    })
}

fn ipv6(head: &[u8]) -> Option<Body<'_>> {
    let view = Ipv6::new(head)?;
    let end = wire::IPV6_HEADER + usize::from(view.payload_len());
    let upper = view.upper_layer()?;
    let (source, destination) = view.source_and_destination();
    let is_fragment = upper.is_fragment;
    Some(Body {
        addresses: (source.into(), destination.into()),
        version: Version::V6,
        protocol: upper.protocol,
        bytes: head.get(upper.at..head.len().min(end))?,
        len: end.checked_sub(upper.at)?,
        fragment: is_fragment.then_some((upper.identification, upper.continues)),
    })
}
