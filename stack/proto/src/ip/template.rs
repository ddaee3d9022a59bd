//! Ethernet and IP header of a path, prepared so that each packet needs a copy and few changes.

use super::interface::Interface;
use super::outbox::OutFrame;
use super::route::Plan;
use super::{HEAD, InterfaceId};
use crate::Payload;
use core::net::Ipv6Addr;
use wire::checksum::{Sum, fold};
use wire::{EtherType, IPV4_HEADER, IPV6_HEADER, Ipv4Fields, MacAddress, ipv6_header, write_ethernet};

/// Longest Ethernet header with a tag, and IPv6 header.
const MAX: usize = 18 + IPV6_HEADER;

/// Hop limit of packets (RFC 1700).
pub(super) const HOP_LIMIT: u8 = 64;

/// A prepared header.
#[derive(Clone, Copy)]
pub(super) struct Template {
    bytes: [u8; MAX],
    /// Length of the Ethernet header.
    ethernet: u8,
    len: u8,
    /// Sum of the IPv4 addresses; 0 for IPv6.
    addresses: u16,
}

/// Fields that differ between the packets of a path.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    /// Bytes after the IP header. The length field is limited to 65535 in case of segmentation offload.
    pub(super) len: usize,
    pub(super) protocol: u8,
    pub(super) ecn: u8,
    /// IPv6 flow label, 20 bits.
    pub(super) flow: u32,
    pub(super) hop_limit: u8,
    /// Identification and don't-fragment flag for IPv4.
    pub(super) identification: u16,
    pub(super) dont_fragment: bool,
}

impl Template {
    /// A header to `destination`; the Ethernet address is set later if it is not known yet.
    pub(super) fn new(interface: &Interface, plan: &Plan, destination: MacAddress) -> Self {
        let is_v4 = plan.destination.is_v4();
        let ethertype = if is_v4 { EtherType::IPV4 } else { EtherType::IPV6 };
        let mut bytes = [0; MAX];
        let config = &interface.config;
        let ethernet =
            write_ethernet(&mut bytes, destination, config.mac, config.vlan, ethertype).unwrap_or(0);
        let len = ethernet + if is_v4 { IPV4_HEADER } else { IPV6_HEADER };
        if is_v4 {
            bytes[ethernet..len].copy_from_slice(&header4(plan));
        } else {
            bytes[ethernet..len].copy_from_slice(&header6(plan));
        }
        let addresses = if is_v4 { &bytes[len - 8..len] } else { &[] };
        let addresses = u16::from_ne_bytes(Sum::of(addresses).partial());
        Self { bytes, ethernet: ethernet as u8, len: len as u8, addresses }
    }

    /// Length of the IP header in bytes.
    pub(super) fn ip_len(&self) -> usize {
        usize::from(self.len - self.ethernet)
    }

    /// A frame with the Ethernet header only.
    pub(super) fn ethernet<P: Payload>(&self, interface: InterfaceId) -> OutFrame<P> {
        let mut frame = OutFrame::new(interface);
        frame.push(self.bytes.get(..usize::from(self.ethernet)).unwrap_or_default());
        frame
    }

    /// Writes the header of a packet and returns its length.
    #[inline]
    pub(super) fn write(&self, to: MacAddress, fields: &Fields, head: &mut [u8; HEAD]) -> usize {
        head[..MAX].copy_from_slice(&self.bytes);
        head[..6].copy_from_slice(&to.octets());
        let (at, len) = (usize::from(self.ethernet), usize::from(self.len));
        match head.get_mut(at..len).and_then(<[u8]>::first_chunk_mut::<IPV4_HEADER>) {
            Some(header) if len == at + IPV4_HEADER => write4(header, fields, self.addresses),
            Some(header) => write6(header, fields),
            None => {}
        }
        len
    }
}

fn header4(plan: &Plan) -> [u8; IPV4_HEADER] {
    Ipv4Fields {
        total_len: 0,
        identification: 0,
        dont_fragment: false,
        ttl: 0,
        protocol: 0,
        source: plan.source.last4().into(),
        destination: plan.destination.last4().into(),
    }
    .header()
}

fn header6(plan: &Plan) -> [u8; IPV6_HEADER] {
    let [source, destination] =
        [plan.source, plan.destination].map(|address| Ipv6Addr::from(*address.octets()));
    ipv6_header(0, 0, 0, source, destination)
}

/// Writes the fields and their checksum, which is computed from the values: reading the bytes again would wait for the
/// stores.
#[inline]
fn write4(header: &mut [u8; IPV4_HEADER], fields: &Fields, addresses: u16) {
    let total = u16::try_from(fields.len + IPV4_HEADER).unwrap_or(u16::MAX);
    let first = [header[0], fields.ecn & 3];
    let fragment = [if fields.dont_fragment { 0x40 } else { 0 }, 0];
    let (identification, protocol) =
        (fields.identification.to_be_bytes(), [fields.hop_limit, fields.protocol]);
    let words = [first, total.to_be_bytes(), identification, fragment, protocol];
    let sum =
        words.iter().map(|word| u64::from(u16::from_ne_bytes(*word))).sum::<u64>() + u64::from(addresses);
    header[1] = first[1];
    header[2..4].copy_from_slice(&words[1]);
    header[4..6].copy_from_slice(&words[2]);
    header[6] = fragment[0];
    header[8..10].copy_from_slice(&protocol);
    header[10..12].copy_from_slice(&(!fold(sum)).to_ne_bytes());
}

/// `header` is the first half of the IPv6 header; the changed fields are at its start.
#[inline]
fn write6(header: &mut [u8; IPV4_HEADER], fields: &Fields) {
    let len = u16::try_from(fields.len).unwrap_or(u16::MAX);
    let [_, high, flow @ ..] = fields.flow.to_be_bytes();
    header[1] = (fields.ecn & 3) << 4 | high & 0xf;
    header[2..4].copy_from_slice(&flow);
    header[4..6].copy_from_slice(&len.to_be_bytes());
    (header[6], header[7]) = (fields.protocol, fields.hop_limit);
}
