//! ICMP (RFC 792) and ICMPv6 (RFC 4443): echo messages, and errors with the packet that they are about.
//!
//! Neighbor Discovery has its own view, [`crate::Nd`].

use crate::{Ipv4, Ipv6, Version};
use core::net::IpAddr;

/// Length of the header of echo messages and errors, in bytes.
pub const ICMP_HEADER: usize = 8;

/// Meaning of an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpKind {
    /// Echo request.
    EchoRequest,
    /// Echo reply.
    EchoReply,
    /// The destination has no such port or protocol.
    Refused,
    /// The destination is unreachable for another reason, or the packet's time or hops were exceeded.
    Unreachable,
    /// The packet is longer than this MTU in bytes; 0 if the router does not give it (RFC 1191 section 5).
    TooBig(u32),
    /// Another message.
    Other,
}

/// An ICMP message with a complete header.
#[derive(Clone, Copy, Debug)]
pub struct Icmp<'a> {
    version: Version,
    header: &'a [u8; ICMP_HEADER],
    payload: &'a [u8],
}

/// The packet that an ICMP error is about: a packet that the receiver of the error sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Its source.
    pub source: IpAddr,
    /// Its destination.
    pub destination: IpAddr,
    /// Protocol number (IANA).
    pub protocol: u8,
    /// Length of the IP packet according to its header, in bytes.
    pub len: usize,
    /// The first bytes of the transport header.
    pub transport: [u8; 8],
}

impl<'a> Icmp<'a> {
    /// Returns `None` if the header is incomplete.
    pub fn new(version: Version, message: &'a [u8]) -> Option<Self> {
        let (header, payload) = message.split_first_chunk()?;
        Some(Self { version, header, payload })
    }

    /// Meaning of type and code.
    pub fn kind(&self) -> IcmpKind {
        match self.version {
            Version::V4 => self.kind4(),
            Version::V6 => self.kind6(),
        }
    }

    fn kind4(&self) -> IcmpKind {
        let [kind, code, .., high, low] = *self.header;
        match (kind, code) {
            (8, 0) => IcmpKind::EchoRequest,
            (0, 0) => IcmpKind::EchoReply,
            (3, 2 | 3) => IcmpKind::Refused,
            (3, 4) => IcmpKind::TooBig(u16::from_be_bytes([high, low]).into()),
            (3 | 11 | 12, _) => IcmpKind::Unreachable,
            _ => IcmpKind::Other,
        }
    }

    fn kind6(&self) -> IcmpKind {
        let [kind, code, _, _, mtu @ ..] = *self.header;
        match (kind, code) {
            (128, 0) => IcmpKind::EchoRequest,
            (129, 0) => IcmpKind::EchoReply,
            (1, 4) | (4, 1) => IcmpKind::Refused,
            (2, _) => IcmpKind::TooBig(u32::from_be_bytes(mtu)),
            (1 | 3 | 4, _) => IcmpKind::Unreachable,
            _ => IcmpKind::Other,
        }
    }

    /// Checksum field.
    pub fn checksum(&self) -> [u8; 2] {
        [self.header[2], self.header[3]]
    }

    /// The header.
    pub fn header(&self) -> &'a [u8; ICMP_HEADER] {
        self.header
    }

    /// The quoted packet of an error. Returns `None` for other messages, and if the quote is truncated or a fragment
    /// other than the first.
    pub fn quoted(&self) -> Option<Quoted> {
        match self.kind() {
            IcmpKind::Refused | IcmpKind::Unreachable | IcmpKind::TooBig(_) => match self.version {
                Version::V4 => quoted4(self.payload),
                Version::V6 => quoted6(self.payload),
            },
            _ => None,
        }
    }
}

fn quoted4(packet: &[u8]) -> Option<Quoted> {
    let view = Ipv4::new(packet).filter(|view| view.fragment_offset() == 0)?;
    let (source, destination) = view.source_and_destination();
    Some(Quoted {
        source: source.into(),
        destination: destination.into(),
        protocol: view.protocol(),
        len: view.total_len().into(),
        transport: *packet.get(view.header_len()..)?.first_chunk()?,
    })
}

fn quoted6(packet: &[u8]) -> Option<Quoted> {
    let view = Ipv6::new(packet)?;
    let upper = view.upper_layer().filter(|upper| !upper.continues)?;
    let (source, destination) = view.source_and_destination();
    Some(Quoted {
        source: source.into(),
        destination: destination.into(),
        protocol: upper.protocol,
        len: crate::IPV6_HEADER + usize::from(view.payload_len()),
        transport: *packet.get(upper.at..)?.first_chunk()?,
    })
}

/// An ICMP header with checksum 0. `rest` is the word after the checksum.
#[must_use]
pub fn icmp_header(kind: u8, code: u8, rest: [u8; 4]) -> [u8; ICMP_HEADER] {
    let [a, b, c, d] = rest;
    [kind, code, 0, 0, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ipv4Fields, ipv6_header};
    use proptest::prelude::*;
    use std::prelude::v1::*;

    const PORTS: [u8; 8] = [0x12, 0x34, 0, 80, 1, 2, 3, 4];

    #[test]
    fn errors_quote_the_packet_they_are_about() {
        let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let fields = Ipv4Fields {
            total_len: 1500,
            identification: 7,
            dont_fragment: true,
            ttl: 3,
            protocol: 6,
            source,
            destination,
        };
        let message = [&icmp_header(3, 4, [0, 0, 5, 0])[..], &fields.header(), &PORTS].concat();
        let view = Icmp::new(Version::V4, &message).unwrap();
        assert_eq!(view.kind(), IcmpKind::TooBig(1280));
        let quoted = view.quoted().unwrap();
        assert_eq!((quoted.source, quoted.destination), (source.into(), destination.into()));
        assert_eq!((quoted.protocol, quoted.len, quoted.transport), (6, 1500, PORTS));
        assert!(Icmp::new(Version::V4, &message[..35]).unwrap().quoted().is_none(), "truncated");

        let (source, destination) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        let header = ipv6_header(100, 17, 64, source, destination);
        let message = [&icmp_header(1, 4, [0; 4])[..], &header, &PORTS].concat();
        let view = Icmp::new(Version::V6, &message).unwrap();
        let quoted = view.quoted().unwrap();
        assert_eq!((view.kind(), quoted.source, quoted.len), (IcmpKind::Refused, source.into(), 140));
    }

    #[test]
    fn other_messages_quote_nothing() {
        let message = [&icmp_header(8, 0, [0; 4])[..], &[0x45; 40]].concat();
        let view = Icmp::new(Version::V4, &message).unwrap();
        assert_eq!((view.kind(), view.quoted()), (IcmpKind::EchoRequest, None));
        assert_eq!(Icmp::new(Version::V6, &message).unwrap().kind(), IcmpKind::Other);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(
            kind in prop_oneof![0_u8..13, 128_u8..130],
            first in prop_oneof![Just(0x45_u8), Just(0x60)],
            rest in prop::collection::vec(any::<u8>(), 0..90),
        ) {
            let message = [&icmp_header(kind, 4, [9; 4])[..], &[first], &rest].concat();
            for version in [Version::V4, Version::V6] {
                let view = Icmp::new(version, &message).unwrap();
                let _ = (view.kind(), view.quoted(), view.checksum());
            }
        }
    }
}
