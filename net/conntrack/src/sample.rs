//! IP packets with valid checksums, for tests and the fuzz target.

use crate::tuple::Tuple;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::checksum::{Sum, protocol};
use wire::{IPV4_HEADER, IPV6_HEADER, Ipv4Fields, ipv6_fragment_header, ipv6_header};

/// Protocol number of the fragment header of IPv6.
const FRAGMENT: u8 = 44;

/// A TCP segment with these control bits, sequence and acknowledgement number.
pub fn tcp(tuple: &Tuple, flags: u8, (sequence, ack): (u32, u32), payload: &[u8]) -> Vec<u8> {
    let mut segment = ports(tuple);
    segment.extend(sequence.to_be_bytes().into_iter().chain(ack.to_be_bytes()));
    segment.extend([0x50, flags, 0x40, 0, 0, 0, 0, 0]);
    segment.extend(payload);
    ip(tuple, summed(tuple, segment, 16))
}

/// A UDP datagram.
pub fn udp(tuple: &Tuple, payload: &[u8]) -> Vec<u8> {
    let mut datagram = ports(tuple);
    datagram.extend((8 + payload.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    ip(tuple, summed(tuple, datagram, 6))
}

/// An ICMP request or reply.
pub fn message(tuple: &Tuple) -> Vec<u8> {
    let [high, low] = tuple.ports().0.to_be_bytes();
    let message = vec![tuple.message().unwrap_or_default(), 0, 0, 0, high, low, 0, 1, 7, 7];
    ip(tuple, summed(tuple, message, 2))
}

/// A packet of a protocol without ports.
pub fn other(tuple: &Tuple) -> Vec<u8> {
    ip(tuple, vec![1; 16])
}

/// The error that `from` sends about a packet: no route to the destination.
pub fn error(from: IpAddr, quoted: &[u8]) -> Vec<u8> {
    let (to, number, kind) = match quoted[0] >> 4 {
        4 => (IpAddr::from(<[u8; 4]>::try_from(&quoted[12..16]).unwrap_or_default()), protocol::ICMP, 3),
        _ => (IpAddr::from(<[u8; 16]>::try_from(&quoted[8..24]).unwrap_or_default()), protocol::ICMPV6, 1),
    };
    let tuple = Tuple::new((from, to), number, 0);
    let body = [&[kind, 0, 0, 0, 0, 0, 0, 0], quoted].concat();
    ip(&tuple, summed(&tuple, body, 2))
}

/// A packet in two fragments, the first with `first` bytes of payload, a multiple of eight.
pub fn fragments(packet: &[u8], first: usize, id: u32) -> [Vec<u8>; 2] {
    let (header, next) = match packet[0] >> 4 {
        4 => (IPV4_HEADER, 0),
        _ => (IPV6_HEADER, packet[6]),
    };
    let (start, rest) = packet[header..].split_at(first);
    [(start, 0_usize, true), (rest, first, false)].map(|(part, offset, more)| {
        let mut made = packet[..header].to_vec();
        if next == 0 {
            made[2..4].copy_from_slice(&((header + part.len()) as u16).to_be_bytes());
            made[4..6].copy_from_slice(&(id as u16).to_be_bytes());
            let flags = (offset / 8) as u16 | u16::from(more) << 13;
            made[6..8].copy_from_slice(&flags.to_be_bytes());
            made[10..12].fill(0);
            let sum = Sum::of(&made).finish();
            made[10..12].copy_from_slice(&sum);
        } else {
            made[4..6].copy_from_slice(&((8 + part.len()) as u16).to_be_bytes());
            made[6] = FRAGMENT;
            made.extend(ipv6_fragment_header(next, offset as u16, more, id));
        }
        [&made, part].concat()
    })
}

fn ports(tuple: &Tuple) -> Vec<u8> {
    let (source, destination) = tuple.ports();
    [source.to_be_bytes(), destination.to_be_bytes()].concat()
}

/// Sets the checksum at `at`.
fn summed(tuple: &Tuple, mut body: Vec<u8>, at: usize) -> Vec<u8> {
    let octets = |address| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let mut sum = if tuple.protocol() == protocol::ICMP {
        Sum::of(&[])
    } else {
        let addresses = [octets(tuple.source()), octets(tuple.destination())].concat();
        Sum::pseudo(&addresses, tuple.protocol(), body.len() as u32)
    };
    sum.add(&body);
    body[at..at + 2].copy_from_slice(&sum.finish_nonzero());
    body
}

fn ip(tuple: &Tuple, body: Vec<u8>) -> Vec<u8> {
    let (len, protocol) = (body.len() as u16, tuple.protocol());
    let header = match (tuple.source(), tuple.destination()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => v4(len, protocol, source, destination),
        (IpAddr::V6(source), IpAddr::V6(destination)) => v6(len, protocol, source, destination),
        _ => Vec::new(),
    };
    [header, body].concat()
}

fn v4(len: u16, protocol: u8, source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let total_len = IPV4_HEADER as u16 + len;
    let (identification, dont_fragment, ttl) = (1, false, 64);
    let fields = Ipv4Fields { total_len, identification, dont_fragment, ttl, protocol, source, destination };
    fields.header().to_vec()
}

fn v6(len: u16, protocol: u8, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    ipv6_header(len, protocol, 64, source, destination).to_vec()
}
