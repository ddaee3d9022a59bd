//! Offload plan of one packet, and the header fields that differ between segments.
//!
//! Same rules as Linux (`tcp_gso_segment`, `__udp_gso_segment`, `inet_gso_segment`, `ipv6_gso_segment`): IPv4
//! identifications are incremented, FIN and PSH are set only in the last segment, CWR only in the first.

use super::{MAX_SEGMENTS, sums};
use crate::{BadOffload, Burst, Offload, Segmentation};
use wire::checksum::{Sum, protocol};
use wire::{Ipv4, Layers, Version, rewrite_ipv4};

const TCP_SEQUENCE: usize = 4;
const TCP_FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;
const UDP_LENGTH: usize = 4;
const UDP_CHECKSUM: usize = 6;
const UDP_HEADER: usize = 8;
const GTPU_HEADER: usize = 8;
const GTPU_LENGTH: usize = 2;
const SCTP_CHECKSUM: usize = 8;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Offload of one packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Plan {
    /// Checksum with its field at `start + offset`.
    Checksum { start: usize, offset: usize, payload: usize, crc: bool },
    /// Segmentation.
    SegmentPlan(SegmentPlan),
}

/// Segmentation of one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentPlan {
    layers: Layers,
    /// Outer headers of a tunnel.
    outer: Option<Layers>,
    /// Length of all headers.
    headers: usize,
    payload: usize,
    segment: usize,
    packets: usize,
}

impl Plan {
    /// Validates the offload against the headers. `head` holds at least their beginning; the packet has `len` bytes.
    pub(super) fn of(head: &[u8], offload: Offload, len: usize) -> Result<Self, BadOffload> {
        let (start, offset) = offload.checksum().ok_or(BadOffload)?;
        if let Some(kind) = offload.segmentation() {
            return SegmentPlan::of(head, offload, kind, len).map(Plan::SegmentPlan);
        }
        let end = start + offset + 2;
        let layers = Layers::of(head);
        let crc = offset == SCTP_CHECKSUM
            && layers.is_some_and(|l| l.protocol == protocol::SCTP && l.transport == start);
        let end = if crc { end + 2 } else { end };
        if end > len {
            return Err(BadOffload);
        }
        Ok(Plan::Checksum { start, offset, payload: len - end, crc })
    }

    /// Number of leading bytes that must be in the private head.
    pub(super) fn private(&self) -> usize {
        self.headers()
    }

    /// Number of leading bytes that each output packet repeats, apart from the fields written here.
    pub(super) fn headers(&self) -> usize {
        match self {
            Plan::Checksum { start, offset, crc, .. } => start + offset + if *crc { 4 } else { 2 },
            Plan::SegmentPlan(cut) => cut.headers,
        }
    }

    /// Number of output packets.
    pub(super) fn packets(&self) -> usize {
        match self {
            Plan::Checksum { .. } => 1,
            Plan::SegmentPlan(cut) => cut.packets,
        }
    }

    /// Payload length of output packet `number`.
    pub(super) fn payload(&self, number: usize) -> usize {
        match self {
            Plan::Checksum { payload, .. } => *payload,
            Plan::SegmentPlan(cut) => cut.segment.min(cut.payload - number * cut.segment),
        }
    }

    /// Sets the header fields of output packet `number`, except the transport checksum.
    pub(super) fn write_headers(&self, head: &mut [u8], number: usize) {
        if let Plan::SegmentPlan(cut) = self {
            cut.write_network(&cut.layers, head, number, self.payload(number));
            if let Some(outer) = &cut.outer {
                cut.write_network(outer, head, number, self.payload(number));
                cut.write_tunnel(outer, head, self.payload(number));
            }
            cut.write_transport(head, number, self.payload(number));
        }
    }

    /// Computes the checksum of packet `i` of `made` and writes it to its head.
    pub(super) fn write_checksum(&self, made: &mut Burst, i: usize) {
        match *self {
            Plan::Checksum { start, offset, crc: true, .. } => {
                sums::put(made, i, start + offset, &[0; 4]);
                let crc = sums::crc32c(&made.frame(i), start);
                sums::put(made, i, start + offset, &crc.to_le_bytes());
            }
            Plan::Checksum { start, offset, .. } => {
                // The field contains the pseudo-header sum, so it is included in the sum.
                let sum = sums::internet(Sum::default(), &made.frame(i), start);
                sums::put(made, i, start + offset, &sum.finish_nonzero());
            }
            Plan::SegmentPlan(cut) => cut.write_checksum(made, i),
        }
    }
}

impl SegmentPlan {
    fn of(head: &[u8], offload: Offload, kind: Segmentation, len: usize) -> Result<Self, BadOffload> {
        let (layers, outer) = match offload.inner_network() {
            None => (Layers::of(head), None),
            Some(network) => (Layers::of_packet(head, network), Some(Layers::of(head).ok_or(BadOffload)?)),
        };
        let layers = layers.ok_or(BadOffload)?;
        let is_udp = kind == Segmentation::Udp;
        let version = match kind {
            Segmentation::Tcp4 => Version::V4,
            Segmentation::Tcp6 => Version::V6,
            Segmentation::Udp => layers.version,
        };
        let (wanted, field) =
            if is_udp { (protocol::UDP, UDP_CHECKSUM) } else { (protocol::TCP, TCP_CHECKSUM) };
        let agrees = layers.version == version && layers.protocol == wanted && !layers.is_fragment;
        if !agrees || offload.checksum() != Some((layers.transport, field)) {
            return Err(BadOffload);
        }
        let transport = if is_udp { UDP_HEADER } else { tcp_header(head, layers.transport)? };
        let headers = layers.transport + transport;
        let payload = len.checked_sub(headers).ok_or(BadOffload)?;
        let packets = payload.div_ceil(offload.segment()).max(1);
        let cut = Self { layers, outer, headers, payload, segment: offload.segment(), packets };
        let outermost = outer.as_ref().unwrap_or(&cut.layers);
        let longest = cut.network_len(outermost, cut.segment.min(payload));
        if packets > MAX_SEGMENTS || longest > usize::from(u16::MAX) {
            return Err(BadOffload);
        }
        Ok(cut)
    }

    /// Value of the IPv4 or IPv6 length field of `layers` for a segment with `payload` bytes; IPv6 excludes its header.
    /// No other length field of the segment is larger than that of the outermost header.
    fn network_len(&self, layers: &Layers, payload: usize) -> usize {
        let len = self.headers - layers.network + payload;
        match layers.version {
            Version::V4 => len,
            Version::V6 => len - wire::IPV6_HEADER,
        }
    }

    /// Sets the IPv4 or IPv6 length field of `layers`, the identification and the header checksum.
    fn write_network(&self, layers: &Layers, head: &mut [u8], number: usize, payload: usize) {
        let packet = &mut head[layers.network..];
        // No truncation: `of` rejects longer segments.
        let len = self.network_len(layers, payload) as u16;
        match layers.version {
            Version::V4 => {
                let first = Ipv4::new(packet).map_or(0, |view| view.identification());
                rewrite_ipv4(packet, len, first.wrapping_add(number as u16));
            }
            Version::V6 => {
                packet[4..6].copy_from_slice(&len.to_be_bytes());
            }
        }
    }

    /// Sets the length fields of the headers between the outer and the inner IP header.
    fn write_tunnel(&self, outer: &Layers, head: &mut [u8], payload: usize) {
        if outer.protocol != protocol::UDP {
            return;
        }
        let len = self.headers - outer.transport + payload;
        let mut put = |at: usize, len: usize| {
            if let Some(field) = head.get_mut(outer.transport + at..outer.transport + at + 2) {
                field.copy_from_slice(&(len as u16).to_be_bytes());
            }
        };
        put(UDP_LENGTH, len);
        // Only GTP-U has a header of 8 bytes and no Ethernet header.
        if self.layers.network == outer.transport + UDP_HEADER + GTPU_HEADER {
            put(UDP_HEADER + GTPU_LENGTH, len - UDP_HEADER - GTPU_HEADER);
        }
    }

    fn write_transport(&self, head: &mut [u8], number: usize, payload: usize) {
        let transport = &mut head[self.layers.transport..self.headers];
        if self.layers.protocol == protocol::UDP {
            transport[UDP_LENGTH..UDP_LENGTH + 2]
                .copy_from_slice(&((UDP_HEADER + payload) as u16).to_be_bytes());
            return;
        }
        let place = &mut transport[TCP_SEQUENCE..TCP_SEQUENCE + 4];
        let first = place.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let sequence = first.wrapping_add((number * self.segment) as u32);
        place.copy_from_slice(&sequence.to_be_bytes());
        if number > 0 {
            transport[TCP_FLAGS] &= !CWR;
        }
        if number + 1 < self.packets {
            transport[TCP_FLAGS] &= !(FIN | PSH);
        }
    }

    fn write_checksum(&self, made: &mut Burst, i: usize) {
        let Layers { transport, protocol, .. } = self.layers;
        let is_udp = protocol == protocol::UDP;
        let field = transport + if is_udp { UDP_CHECKSUM } else { TCP_CHECKSUM };
        sums::put(made, i, field, &[0; 2]);
        let len = made.frame_len(i) - transport;
        let frame = made.frame(i);
        let pseudo = Sum::pseudo(self.layers.addresses(frame.head), protocol, len as u32);
        let sum = sums::internet(pseudo, &frame, transport);
        let sum = if is_udp { sum.finish_nonzero() } else { sum.finish() };
        sums::put(made, i, field, &sum);
        if let Some(outer) = self.outer {
            Self::write_outer_checksum(&outer, made, i);
        }
    }

    /// Computes the UDP checksum of the outer headers, if the packet has one.
    fn write_outer_checksum(outer: &Layers, made: &mut Burst, i: usize) {
        let field = outer.transport + UDP_CHECKSUM;
        let is_set = made.head(i).get(field..field + 2).is_some_and(|sum| sum != [0; 2]);
        if outer.protocol != protocol::UDP || !is_set {
            return;
        }
        sums::put(made, i, field, &[0; 2]);
        let (frame, len) = (made.frame(i), made.frame_len(i) - outer.transport);
        let pseudo = Sum::pseudo(outer.addresses(frame.head), protocol::UDP, len as u32);
        let sum = sums::internet(pseudo, &frame, outer.transport).finish_nonzero();
        sums::put(made, i, field, &sum);
    }
}

/// Length of the TCP header at `at`.
fn tcp_header(head: &[u8], at: usize) -> Result<usize, BadOffload> {
    let len = head.get(at + 12).map_or(0, |offset| usize::from(offset >> 4) * 4);
    if len < 20 { Err(BadOffload) } else { Ok(len) }
}
