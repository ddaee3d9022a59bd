//! Offsets of the network and transport headers of a frame, and the fields that identify its flow.
//!
//! Combines the single-header views. [`Layers::of`] returns `None` for other protocols and truncated headers; this is
//! not an error.

use crate::checksum::protocol;
use crate::{EtherType, HEADER_LEN, Ipv4, Ipv6, TAG_LEN};

/// Maximum number of VLAN tags skipped.
const MAX_TAGS: usize = 2;

/// IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

/// Header offsets of an IP frame, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    /// IPv4 or IPv6.
    pub version: Version,
    /// Offset of the network header.
    pub network: usize,
    /// Offset of the transport header.
    pub transport: usize,
    /// Transport protocol number (IANA).
    pub protocol: u8,
    /// Whether the packet is a fragment; only the first fragment has a transport header.
    pub is_fragment: bool,
}

impl Layers {
    /// Parses VLAN tags and extension headers.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let (ethertype, network) = inner(frame)?;
        Self::at(frame, network, ethertype)
    }

    /// Parses the IP packet at `network`, for example that of a tunnel's payload.
    pub fn of_packet(frame: &[u8], network: usize) -> Option<Self> {
        let ethertype = if frame.get(network)? >> 4 == 6 { EtherType::IPV6 } else { EtherType::IPV4 };
        Self::at(frame, network, ethertype)
    }

    fn at(frame: &[u8], network: usize, ethertype: EtherType) -> Option<Self> {
        let packet = frame.get(network..)?;
        match ethertype {
            EtherType::IPV4 => Ipv4::new(packet).map(|view| Self {
                version: Version::V4,
                network,
                transport: network + view.header_len(),
                protocol: view.protocol(),
                is_fragment: view.is_fragment(),
            }),
            EtherType::IPV6 => Ipv6::new(packet)?.upper_layer().map(|upper| Self {
                version: Version::V6,
                network,
                transport: network + upper.at,
                protocol: upper.protocol,
                is_fragment: upper.is_fragment,
            }),
            _ => None,
        }
    }

    /// Source and destination address, contiguous as in the header: 8 or 32 bytes.
    pub fn addresses<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let range = match self.version {
            Version::V4 => self.network + 12..self.network + 20,
            Version::V6 => self.network + 8..self.network + 40,
        };
        frame.get(range).unwrap_or_default()
    }

    /// Source and destination port, contiguous. Returns `None` for fragments and for protocols other than TCP, UDP and
    /// SCTP.
    pub fn ports<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8; 4]> {
        let has = matches!(self.protocol, protocol::TCP | protocol::UDP | protocol::SCTP);
        if has && !self.is_fragment { frame.get(self.transport..)?.first_chunk() } else { None }
    }
}

/// EtherType after all VLAN tags, and the offset after it.
fn inner(frame: &[u8]) -> Option<(EtherType, usize)> {
    let mut at = HEADER_LEN;
    for _ in 0..=MAX_TAGS {
        let bytes = frame.get(at - 2..at)?;
        let ethertype = EtherType(u16::from_be_bytes([bytes[0], bytes[1]]));
        if !matches!(ethertype, EtherType::VLAN | EtherType::SERVICE_VLAN) {
            return Some((ethertype, at));
        }
        at += TAG_LEN;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;
    use std::vec;

    fn frame(tags: &[u16], ethertype: u16, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for tag in tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 10]);
        }
        frame.extend(ethertype.to_be_bytes());
        frame.extend(packet);
        frame
    }

    fn v4(protocol: u8, flags: u8) -> Vec<u8> {
        let mut packet = vec![0x46, 0, 0, 32, 0, 0, flags, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([1, 1, 1, 1, 0x12, 0x34, 0x56, 0x78, 0, 8, 0, 0]);
        packet
    }

    #[test]
    fn options_and_tags_are_skipped() {
        let bytes = frame(&[0x88a8, 0x8100], 0x0800, &v4(17, 0));
        let layers = Layers::of(&bytes).unwrap();
        assert_eq!((layers.network, layers.transport, layers.protocol), (22, 46, 17));
        assert_eq!(layers.addresses(&bytes), [10, 0, 0, 1, 10, 0, 0, 2]);
        assert_eq!(layers.ports(&bytes), Some(&[0x12, 0x34, 0x56, 0x78]));
    }

    #[test]
    fn fragments_and_other_transports_have_no_ports() {
        for packet in [v4(17, 0x20), v4(1, 0)] {
            let bytes = frame(&[], 0x0800, &packet);
            assert_eq!(Layers::of(&bytes).unwrap().ports(&bytes), None);
        }
    }

    #[test]
    fn unsupported_frames_have_no_layers() {
        assert_eq!(Layers::of(&frame(&[], 0x0806, &[0; 28])), None);
        assert_eq!(Layers::of(&frame(&[0x8100; 3], 0x0800, &v4(6, 0))), None, "one tag too many");
        assert_eq!(Layers::of(&frame(&[], 0x86dd, &v4(6, 0))), None, "the version contradicts the type");
        assert_eq!(Layers::of(&[0; 13]), None);
    }

    proptest! {
        #[test]
        fn arbitrary_frames_do_not_panic(ethertype in prop_oneof![Just(0x0800_u16), Just(0x86dd), Just(0x8100)], first in prop_oneof![Just(0x45_u8), Just(0x60), any::<u8>()], mut packet in prop::collection::vec(any::<u8>(), 0..90)) {
            if let Some(byte) = packet.first_mut() {
                *byte = first;
            }
            let bytes = frame(&[], ethertype, &packet);
            if let Some(layers) = Layers::of(&bytes) {
                prop_assert!(layers.transport >= layers.network + 20);
                let _ = (layers.ports(&bytes), layers.addresses(&bytes));
            }
        }
    }
}
