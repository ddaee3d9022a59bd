//! Headers of packets to send: prepared once for a tunnel and a path, completed for each packet.

use crate::kind::{ERSPAN, ETHERNET, GRE, IPV4, IPV6, UDP};
use crate::{Kind, geneve_options};
use std::net::IpAddr;
use wire::checksum::Sum;
use wire::{
    EtherType, HEADER_LEN, IPV4_HEADER, IPV6_HEADER, Ipv4Fields, MacAddress, UDP_HEADER, ipv6_header,
    udp_header, write_ethernet,
};

/// Maximum length of the outer headers in bytes: what an edit of the data plane inserts.
pub const MAX_HEADER: usize = 128;
/// First source port (RFC 7348 section 5 recommends the dynamic ports) and number of them.
const SOURCE_PORTS: (u16, u32) = (49_152, 16_384);

/// The headers do not fit into [`MAX_HEADER`], or source and destination have different IP versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the outer headers exceed 128 bytes, or their addresses have different IP versions")]
pub struct TooLong;

/// Outer headers of a tunnel on a path.
#[derive(Clone, Copy, Debug)]
pub struct Outer<'a> {
    /// Kind.
    pub kind: Kind,
    /// Ethernet address of the switch, and of the next hop.
    pub macs: (MacAddress, MacAddress),
    /// Source and destination.
    pub addresses: (IpAddr, IpAddr),
    /// VNI, VSID, GRE key, session of ERSPAN or TEID.
    pub key: Option<u32>,
    /// UDP destination port.
    pub port: u16,
    /// Time to live, if it is not that of the payload.
    pub ttl: u8,
    /// Whether IPv4 routers must not fragment the packet.
    pub dont_fragment: bool,
    /// Whether UDP has a checksum.
    pub checksum: bool,
    /// Whether it is a packet of operation and maintenance (Geneve).
    pub is_oam: bool,
    /// Options of Geneve, a multiple of 4 bytes.
    pub options: &'a [u8],
}

/// Properties of each packet that the headers depend on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inner {
    /// Length of the payload in bytes. It may exceed 65535 if the packet is segmented later, with new lengths.
    pub len: usize,
    /// Hash of the flow.
    pub hash: u32,
    /// Traffic class of the outer header.
    pub tos: u8,
    /// Time to live in place of that of the tunnel.
    pub ttl: Option<u8>,
    /// Whether the payload is an IPv6 packet.
    pub is_v6: bool,
    /// Identification of the IPv4 header.
    pub identification: u16,
    /// Number of the packet in its tunnel (ERSPAN).
    pub sequence: u32,
    /// Priority, drop eligibility and VLAN of the first tag of the payload (ERSPAN).
    pub tag: Option<u16>,
    /// Sum of the whole payload, if it is known. Otherwise a UDP checksum is left as the sum of the pseudo header.
    pub sum: Option<Sum>,
}

/// Prepared outer headers, from the Ethernet header on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Template {
    bytes: [u8; MAX_HEADER],
    len: u8,
    /// Offset of the header after the IP header.
    transport: u8,
    kind: Kind,
    is_v4: bool,
    has_checksum: bool,
    /// Of an IPv4 header, without the fields of [`Template::write_network`].
    fixed: Sum,
}

/// Completed outer headers.
#[derive(Clone, Copy)]
pub struct Header {
    bytes: [u8; MAX_HEADER],
    len: usize,
}

impl Header {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Template {
    /// Prepares headers.
    ///
    /// # Errors
    /// If they are too long.
    pub fn new(outer: &Outer<'_>) -> Result<Self, TooLong> {
        let mut bytes = Vec::with_capacity(MAX_HEADER);
        push_network(&mut bytes, outer)?;
        let transport = bytes.len() as u8;
        push_tunnel(&mut bytes, outer);
        let mut template = Self {
            bytes: [0; MAX_HEADER],
            len: bytes.len() as u8,
            transport,
            kind: outer.kind,
            is_v4: outer.addresses.0.is_ipv4(),
            has_checksum: outer.checksum && outer.kind.port().is_some(),
            fixed: Sum::default(),
        };
        template.bytes.get_mut(..bytes.len()).ok_or(TooLong)?.copy_from_slice(&bytes);
        template.fixed = template.fixed_sum();
        Ok(template)
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len.into()
    }

    /// Whether there are no headers, which is never so.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Offset of the UDP header if it has a checksum.
    pub fn checksum_start(&self) -> Option<usize> {
        self.has_checksum.then_some(self.transport.into())
    }

    /// The headers as far as they are the same for all packets.
    pub fn prefix(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or_default()
    }

    /// Length of the outer IP packet for a payload of `len` bytes.
    pub fn packet_len(&self, len: usize) -> usize {
        self.len() - HEADER_LEN + len
    }

    /// The headers of a packet.
    #[inline]
    pub fn header(&self, inner: &Inner) -> Header {
        let mut header = Header { bytes: self.bytes, len: self.len() };
        let bytes = &mut header.bytes;
        self.write_network(bytes, inner);
        let (at, after) = (usize::from(self.transport), self.len() - usize::from(self.transport));
        if self.kind.port().is_some() {
            let len = saturated(after + inner.len);
            put(bytes, at, (SOURCE_PORTS.0 + (inner.hash % SOURCE_PORTS.1) as u16).to_be_bytes());
            put(bytes, at + 4, len.to_be_bytes());
            if self.kind == Kind::Gtpu {
                put(bytes, at + 10, saturated(after + inner.len - UDP_HEADER - 8).to_be_bytes());
            }
            if self.has_checksum {
                let sum = self.checksum(bytes, inner, len);
                put(bytes, at + 6, sum);
            }
        } else if self.kind == Kind::Nvgre {
            // FlowID (RFC 7637 section 3.2).
            put(bytes, at + 7, [inner.hash as u8]);
        } else if self.kind == Kind::Erspan {
            put(bytes, at + 4, inner.sequence.to_be_bytes());
            if let Some(tag) = inner.tag {
                write_erspan_tag(bytes, at + 8, tag);
            }
        }
        header
    }

    /// Sum of the IPv4 header without length, identification, traffic class, time to live and protocol.
    fn fixed_sum(&self) -> Sum {
        let mut sum = Sum::of(&[self.bytes[HEADER_LEN], 0]);
        sum.add(&self.bytes[HEADER_LEN + 6..HEADER_LEN + 8]);
        sum.add(&self.bytes[HEADER_LEN + 12..HEADER_LEN + IPV4_HEADER]);
        sum
    }

    fn write_network(&self, bytes: &mut [u8; MAX_HEADER], inner: &Inner) {
        let payload = self.len() + inner.len - HEADER_LEN;
        let protocol = if inner.is_v6 { IPV6 } else { IPV4 };
        if self.is_v4 {
            let [high, low] = saturated(payload).to_be_bytes();
            let [first, last] = inner.identification.to_be_bytes();
            put(bytes, HEADER_LEN + 1, [inner.tos, high, low, first, last]);
            let ttl = inner.ttl.unwrap_or(bytes[HEADER_LEN + 8]);
            let protocol = if self.kind == Kind::Ipip { protocol } else { bytes[HEADER_LEN + 9] };
            let mut sum = self.fixed;
            sum.add(&[0, inner.tos, high, low, first, last, ttl, protocol]);
            let [sum_high, sum_low] = sum.finish();
            return put(bytes, HEADER_LEN + 8, [ttl, protocol, sum_high, sum_low]);
        }
        put(bytes, HEADER_LEN, [0x60 | inner.tos >> 4, inner.tos << 4]);
        put(bytes, HEADER_LEN + 4, saturated(payload - IPV6_HEADER).to_be_bytes());
        if self.kind == Kind::Ipip {
            put(bytes, HEADER_LEN + 6, [protocol]);
        }
        if let Some(ttl) = inner.ttl {
            put(bytes, HEADER_LEN + 7, [ttl]);
        }
    }

    /// Value of the checksum field of UDP.
    fn checksum(&self, bytes: &[u8; MAX_HEADER], inner: &Inner, len: u16) -> [u8; 2] {
        let addresses =
            if self.is_v4 { HEADER_LEN + 12..HEADER_LEN + 20 } else { HEADER_LEN + 8..HEADER_LEN + 40 };
        let mut sum = Sum::pseudo(&bytes[addresses], UDP, len.into());
        let Some(payload) = inner.sum else { return sum.partial() };
        sum.add(&bytes[self.transport.into()..self.len()]);
        // All headers have an even length.
        sum.add_words(payload.total(), 0);
        sum.finish_nonzero()
    }
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Template").field(&self.prefix()).finish()
    }
}

/// Kind, addresses, key, time to live and options.
impl std::fmt::Display for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const PAYLOAD: usize = 20;
        let header = self.header(&Inner { len: PAYLOAD, ..Inner::default() });
        let mut packet = header.bytes()[HEADER_LEN..].to_vec();
        packet.extend([0x45; PAYLOAD]);
        let Ok(opened) = crate::open(self.kind, &packet, packet.len()) else { return self.kind.fmt(f) };
        write!(f, "{},src={},dst={}", self.kind, opened.source, opened.destination)?;
        if let Some(key) = opened.key {
            write!(f, ",key={key}")?;
        }
        write!(f, ",ttl={}", opened.ttl)?;
        let options = packet.get(opened.options).unwrap_or_default();
        geneve_options(options).flatten().try_for_each(|option| write!(f, ",option={option}"))
    }
}

fn push_network(bytes: &mut Vec<u8>, outer: &Outer<'_>) -> Result<(), TooLong> {
    let protocol = match outer.kind {
        Kind::Gre | Kind::Nvgre | Kind::Erspan => GRE,
        Kind::Ipip => IPV4,
        Kind::Vxlan | Kind::Geneve | Kind::Gtpu => UDP,
    };
    let ethertype = if outer.addresses.0.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    let mut ethernet = [0; HEADER_LEN];
    write_ethernet(&mut ethernet, outer.macs.1, outer.macs.0, None, ethertype).ok_or(TooLong)?;
    bytes.extend(ethernet);
    match outer.addresses {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let (ttl, dont_fragment, total_len) = (outer.ttl, outer.dont_fragment, 0);
            let identification = 0;
            let fields =
                Ipv4Fields { total_len, identification, dont_fragment, ttl, protocol, source, destination };
            let mut header = fields.header();
            header[10..12].fill(0);
            bytes.extend(header);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            bytes.extend(ipv6_header(0, protocol, outer.ttl, source, destination));
        }
        _ => return Err(TooLong),
    }
    Ok(())
}

fn push_tunnel(bytes: &mut Vec<u8>, outer: &Outer<'_>) {
    let key = outer.key.unwrap_or_default();
    if outer.kind.port().is_some() {
        bytes.extend(udp_header(0, outer.port, 0, [0; 2]));
    }
    let ethernet = ETHERNET.to_be_bytes();
    match outer.kind {
        Kind::Vxlan => {
            bytes.extend([0x08, 0, 0, 0]);
            bytes.extend((key << 8).to_be_bytes());
        }
        Kind::Geneve => {
            let is_critical = geneve_options(outer.options).flatten().any(|option| option.is_critical());
            let flags = u8::from(outer.is_oam) << 7 | u8::from(is_critical) << 6;
            bytes.extend([(outer.options.len() / 4) as u8 & 0x3f, flags, ethernet[0], ethernet[1]]);
            bytes.extend((key << 8).to_be_bytes());
            bytes.extend(outer.options);
        }
        Kind::Gre => {
            bytes.extend([if outer.key.is_some() { 0x20 } else { 0 }, 0, ethernet[0], ethernet[1]]);
            bytes.extend(outer.key.into_iter().flat_map(u32::to_be_bytes));
        }
        Kind::Nvgre => {
            bytes.extend([0x20, 0, ethernet[0], ethernet[1]]);
            bytes.extend((key << 8).to_be_bytes());
        }
        Kind::Erspan => {
            let [high, low] = ERSPAN.to_be_bytes();
            // With a sequence number, version 1, no tag, the session, and index 0.
            bytes.extend([0x10, 0, high, low, 0, 0, 0, 0]);
            bytes.extend((1 << 28 | key & 0x3ff).to_be_bytes());
            bytes.extend([0; 4]);
        }
        Kind::Gtpu => {
            bytes.extend([0x30, 255, 0, 0]);
            bytes.extend(key.to_be_bytes());
        }
        Kind::Ipip => {}
    }
}

/// Writes the VLAN and the priority of a payload that has kept its tag into the header of ERSPAN at `at`.
fn write_erspan_tag(bytes: &mut [u8; MAX_HEADER], at: usize, tag: u16) {
    let [high, low] = tag.to_be_bytes();
    let session = bytes.get(at + 2).copied().unwrap_or_default() & 0x03;
    put(bytes, at, [0x10 | high & 0x0f, low, high & 0xe0 | 0x18 | session]);
}

fn saturated(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

#[inline(always)]
fn put<const N: usize>(bytes: &mut [u8; MAX_HEADER], at: usize, new: [u8; N]) {
    if let Some(place) = bytes.get_mut(at..at + N) {
        place.copy_from_slice(&new);
    }
}
