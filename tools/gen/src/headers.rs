//! Builds the frame of a stream, once per size: headers with the `etherparse` crate; MPLS (RFC 3032) and
//! VXLAN (RFC 7348) directly.
//!
//! Along with the bytes it records the positions of fields that may vary and the byte ranges of checksums, so that
//! later stages need no knowledge of headers. It runs before the first frame is sent and may allocate.

use super::description::{Description, Outer, Transport};
use super::tag::TAG;
use etherparse::{
    EtherType, Ethernet2Header, IpNumber, Ipv4Header, Ipv6Header, SingleVlanHeader, TcpHeader, UdpHeader,
    VlanId,
};
use port::MAX_HEAD;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use wire::checksum::protocol;
use wire::{Layers, MacAddress, Version};

const MPLS: EtherType = EtherType(0x8847);
/// UDP port of VXLAN (IANA).
const VXLAN_PORT: u16 = 4789;
const HOPS: u8 = 64;

/// Position of a field: `bits` bits, starting `shift` bits above the lowest bit of the `len` bytes at `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldPosition {
    pub(super) at: usize,
    pub(super) len: usize,
    pub(super) shift: u32,
    pub(super) bits: u32,
}

/// A checksum at `at` over the bytes in `ranges`, each starting at an even offset of the sum, and over `pseudo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Summed {
    pub(super) at: usize,
    pub(super) ranges: [Range<usize>; 2],
    pub(super) pseudo: u64,
    /// UDP, where zero means that there is no checksum.
    pub(super) nonzero: bool,
}

/// A frame with its fields and checksums.
#[derive(Clone, Debug, Default)]
pub(super) struct FrameLayout {
    pub(super) bytes: Vec<u8>,
    /// Bytes before the payload.
    pub(super) headers: usize,
    pub(super) spots: Vec<(String, FieldPosition)>,
    pub(super) sums: Vec<Summed>,
}

/// A frame of `size` bytes. Returns `None` if the headers leave no room for a tag.
pub(super) fn lay(stream: &Description, size: usize) -> Option<FrameLayout> {
    let mut laid = FrameLayout::default();
    match &stream.vxlan {
        Some(outer) => laid.outer(outer, stream, size),
        None => laid.ethernet("", [stream.destination_mac, stream.source_mac], stream, true),
    }
    if stream.vxlan.is_some() {
        laid.ethernet("", [stream.destination_mac, stream.source_mac], stream, false);
    }
    let number = match stream.transport {
        Transport::Udp => IpNumber::UDP,
        Transport::Tcp => IpNumber::TCP,
        // Reserved for experiments (RFC 3692).
        Transport::None => IpNumber(253),
    };
    let addresses = laid.ip("", stream.source, stream.destination, number, size);
    laid.transport(stream, size, addresses);
    laid.headers = laid.bytes.len();
    if laid.headers + TAG > size {
        return None;
    }
    laid.bytes.resize(size, 0);
    Some(laid)
}

/// The smallest frame size of this stream, in bytes.
pub(super) fn shortest(stream: &Description) -> usize {
    // Larger than any headers.
    lay(stream, 512).map_or(512, |laid| laid.headers + TAG)
}

/// Layout of a captured frame. Returns `None` if it has no room for a tag behind its headers.
pub(super) fn captured(mut bytes: Vec<u8>) -> Option<FrameLayout> {
    let Some(layers) = Layers::of(&bytes) else {
        return (bytes.len() >= 60).then(|| FrameLayout {
            headers: wire::HEADER_LEN,
            bytes,
            ..FrameLayout::default()
        });
    };
    let end = match layers.version {
        Version::V4 => be16(&bytes, layers.network + 2)? + layers.network,
        Version::V6 => be16(&bytes, layers.network + 4)? + layers.network + Ipv6Header::LEN,
    };
    if end > bytes.len() {
        return None;
    }
    bytes.truncate(end);
    let (header, field, nonzero) = match layers.protocol {
        protocol::UDP => (8, Some(6), true),
        protocol::TCP => (usize::from(bytes.get(layers.transport + 12)? >> 4) * 4, Some(16), false),
        _ => (0, None, false),
    };
    let headers = layers.transport + header;
    // The length field of a TCP header may be too small.
    let is_cut = layers.protocol == protocol::TCP && header < TcpHeader::MIN_LEN;
    if is_cut || layers.is_fragment || headers + TAG > end || headers > MAX_HEAD || end < 60 {
        return None;
    }
    let mut laid = FrameLayout { bytes, headers, ..FrameLayout::default() };
    if let Some(at) = field.map(|field| layers.transport + field)
        && laid.bytes[at..at + 2] != [0, 0]
    {
        let (from, len) = match layers.version {
            Version::V4 => (layers.network + 12, 8),
            Version::V6 => (layers.network + 8, 32),
        };
        laid.summed(at, from..from + len, layers.transport..end, layers.protocol, nonzero);
    }
    Some(laid)
}

fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|b| usize::from(u16::from_be_bytes(*b)))
}

fn ethertype(address: IpAddr) -> EtherType {
    if address.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 }
}

impl FrameLayout {
    fn spot(&mut self, prefix: &str, name: &str, at: usize, len: usize, shift: u32, bits: u32) {
        self.spots.push((format!("{prefix}{name}"), FieldPosition { at, len, shift, bits }));
    }

    /// Outer Ethernet, IP, UDP and VXLAN headers.
    fn outer(&mut self, outer: &Outer, stream: &Description, size: usize) {
        self.ethernet("outer_", [outer.destination_mac, outer.source_mac], stream, true);
        self.ip("outer_", outer.source, outer.destination, IpNumber::UDP, size);
        let at = self.bytes.len();
        self.spot("outer_", "source_port", at, 2, 0, 16);
        // Zero: no checksum, as recommended by RFC 7348 section 5 and RFC 6935.
        let udp = UdpHeader {
            source_port: outer.source_port,
            destination_port: VXLAN_PORT,
            length: (size.saturating_sub(at)) as u16,
            checksum: 0,
        };
        self.bytes.extend(udp.to_bytes());
        self.spot("", "vni", at + 12, 4, 8, 24);
        self.bytes.extend([8, 0, 0, 0]);
        self.bytes.extend((outer.vni << 8).to_be_bytes());
    }

    /// Ethernet header, with the stream's VLAN tags and MPLS labels if `with_tags`.
    fn ethernet(&mut self, prefix: &str, macs: [MacAddress; 2], stream: &Description, with_tags: bool) {
        let at = self.bytes.len();
        let network = match &stream.vxlan {
            Some(outer) if with_tags => ethertype(outer.source),
            _ => ethertype(stream.source),
        };
        let (vlan, mpls) = if with_tags { (&stream.vlan[..], &stream.mpls[..]) } else { (&[][..], &[][..]) };
        let inner = if mpls.is_empty() { network } else { MPLS };
        let tag_type = |i: usize| match vlan.len() - i {
            0 => inner,
            1 => EtherType::VLAN_TAGGED_FRAME,
            _ => EtherType::PROVIDER_BRIDGING,
        };
        let [destination, source] = macs.map(MacAddress::octets);
        self.bytes.extend(Ethernet2Header { source, destination, ether_type: tag_type(0) }.to_bytes());
        self.spot(prefix, "destination_mac", at, 6, 0, 48);
        self.spot(prefix, "source_mac", at + 6, 6, 0, 48);
        for (i, id) in vlan.iter().enumerate() {
            self.spot("", &indexed("vlan", i), self.bytes.len(), 2, 0, 12);
            let vlan_id = VlanId::try_new(*id).unwrap_or_default();
            let tag =
                SingleVlanHeader { vlan_id, ether_type: tag_type(i + 1), ..SingleVlanHeader::default() };
            self.bytes.extend(tag.to_bytes());
        }
        for (i, label) in mpls.iter().enumerate() {
            self.spot("", &indexed("mpls", i), self.bytes.len(), 4, 12, 20);
            let last = u32::from(i + 1 == mpls.len());
            self.bytes.extend((label << 12 | last << 8 | u32::from(HOPS)).to_be_bytes());
        }
    }

    /// IPv4 or IPv6 header, with a length up to the end of the frame. Returns the byte range of the addresses.
    fn ip(
        &mut self,
        prefix: &str,
        source: IpAddr,
        destination: IpAddr,
        number: IpNumber,
        size: usize,
    ) -> Range<usize> {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.ipv4(prefix, source, destination, number, size)
            }
            (source, destination) => self.ipv6(prefix, source, destination, number, size),
        }
    }

    fn ipv4(
        &mut self,
        prefix: &str,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        number: IpNumber,
        size: usize,
    ) -> Range<usize> {
        let at = self.bytes.len();
        let header = Ipv4Header {
            total_len: size.saturating_sub(at) as u16,
            time_to_live: HOPS,
            protocol: number,
            source: source.octets(),
            destination: destination.octets(),
            ..Ipv4Header::default()
        };
        self.bytes.extend(header.to_bytes());
        self.spot(prefix, "dscp", at, 2, 2, 6);
        self.spot(prefix, "identification", at + 4, 2, 0, 16);
        self.spot(prefix, "ttl", at + 8, 2, 8, 8);
        self.spot(prefix, "source", at + 12, 4, 0, 32);
        self.spot(prefix, "destination", at + 16, 4, 0, 32);
        let ranges = [at..at + Ipv4Header::MIN_LEN, 0..0];
        self.sums.push(Summed { at: at + 10, ranges, pseudo: 0, nonzero: false });
        at + 12..at + 20
    }

    fn ipv6(
        &mut self,
        prefix: &str,
        source: IpAddr,
        destination: IpAddr,
        number: IpNumber,
        size: usize,
    ) -> Range<usize> {
        let at = self.bytes.len();
        let octets = |address: IpAddr| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        let header = Ipv6Header {
            payload_length: size.saturating_sub(at + Ipv6Header::LEN) as u16,
            next_header: number,
            hop_limit: HOPS,
            source: octets(source),
            destination: octets(destination),
            ..Ipv6Header::default()
        };
        self.bytes.extend(header.to_bytes());
        self.spot(prefix, "dscp", at, 2, 6, 6);
        self.spot(prefix, "flow_label", at, 4, 0, 20);
        self.spot(prefix, "ttl", at + 6, 2, 0, 8);
        self.spot(prefix, "source", at + 16, 8, 0, 64);
        self.spot(prefix, "destination", at + 32, 8, 0, 64);
        at + 8..at + 40
    }

    fn transport(&mut self, stream: &Description, size: usize, addresses: Range<usize>) {
        let at = self.bytes.len();
        let (field, number, nonzero) = match stream.transport {
            Transport::None => return,
            Transport::Udp => {
                let udp = UdpHeader {
                    source_port: stream.source_port,
                    destination_port: stream.destination_port,
                    length: size.saturating_sub(at) as u16,
                    checksum: 0,
                };
                self.bytes.extend(udp.to_bytes());
                (6, protocol::UDP, true)
            }
            Transport::Tcp => {
                let mut tcp = TcpHeader::new(stream.source_port, stream.destination_port, 1, u16::MAX);
                (tcp.ack, tcp.psh) = (true, true);
                self.bytes.extend(tcp.to_bytes());
                self.spot("", "tcp_sequence", at + 4, 4, 0, 32);
                (16, protocol::TCP, false)
            }
        };
        self.spot("", "source_port", at, 2, 0, 16);
        self.spot("", "destination_port", at + 2, 2, 0, 16);
        if stream.checksums {
            self.summed(at + field, addresses, at..size, number, nonzero);
        }
    }

    /// Records a transport checksum with its pseudo-header.
    fn summed(&mut self, at: usize, addresses: Range<usize>, own: Range<usize>, number: u8, nonzero: bool) {
        let pseudo = u64::from(number) + own.len() as u64;
        self.sums.push(Summed { at, ranges: [addresses, own], pseudo, nonzero });
    }
}

/// `vlan`, `vlan_2`, `vlan_3`.
fn indexed(name: &str, i: usize) -> String {
    if i == 0 { name.to_owned() } else { format!("{name}_{}", i + 1) }
}
