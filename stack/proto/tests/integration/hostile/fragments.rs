//! Fragments to an address of several stacks ([`stack::Affinity`]): all receive those of TCP, and one those of UDP.

use super::*;
use crate::packet::ETHERNET;
use stack::{Affinity, UdpOptions};

const IPV4: usize = 20;
/// Bytes of the packet in the first fragment.
const FIRST: usize = 32;

/// Stack `index` of `of` with the same address.
fn share(index: u16, of: u16) -> Victim {
    let affinity = Affinity::new(index, of, None);
    let mut host = Host::new(Config { affinity, ..Config::new([7; 16]) }, false, 1500);
    host.stack.listen(Endpoint::new(host.local, PORT), Options::default()).unwrap();
    Victim { host, frames: Vec::new() }
}

/// The segment in two fragments.
fn fragments(segment: &Segment) -> [Vec<u8>; 2] {
    let frame = segment.encode(MAC, ROUTER_MAC);
    let (head, payload) = frame.split_at(ETHERNET + IPV4);
    split(head, payload)
}

/// A packet with this link and IP header in two fragments.
fn split(head: &[u8], payload: &[u8]) -> [Vec<u8>; 2] {
    let fragment = |field: u16, payload: &[u8]| {
        let mut fragment = [head, payload].concat();
        let packet = &mut fragment[ETHERNET..];
        packet[6..8].copy_from_slice(&field.to_be_bytes());
        let len = packet.len() as u16;
        wire::rewrite_ipv4(packet, len, 5);
        fragment
    };
    [fragment(0x2000, &payload[..FIRST]), fragment(FIRST as u16 / 8, &payload[FIRST..])]
}

fn inject(victim: &mut Victim, segment: &Segment) -> usize {
    let before = victim.host.sent.len();
    for fragment in fragments(segment) {
        victim.host.receive(&fragment);
    }
    victim.host.pump();
    victim.host.sent.len() - before
}

#[test]
fn a_fragmented_segment_is_processed_by_the_stack_with_its_connection_only() {
    let (mut own, mut other) = (share(0, 2), share(1, 2));
    let mut peer = own.connect(1000);
    let connection = own.accepted()[0];
    let data = peer.data(&own, &[b'x'; 100]);
    assert_eq!(inject(&mut other, &data), 0, "no reset");
    assert_eq!(other.host.stack.counters().tcp_no_connection, 1);
    inject(&mut own, &data);
    assert_eq!(own.delivered(), [b'x'; 100]);
    own.host.stack.consumed(connection, 100);
    peer.snd += 100;
    own.works(&mut peer, connection);
}

#[test]
fn a_fragmented_datagram_reaches_the_stack_with_its_socket() {
    let (mut own, mut other) = (share(1, 2), share(0, 2));
    let local = Endpoint::new(own.host.local, 0);
    let socket = own.host.stack.udp_bind(local, UdpOptions::default()).unwrap();
    let port = own.host.stack.udp_endpoints(socket).unwrap().0.port;
    let any = Peer { port: 1000, snd: 1, rcv: 1 }.data(&own, b"x").encode(MAC, ROUTER_MAC);
    let mut head = any[..ETHERNET + IPV4].to_vec();
    head[ETHERNET + 9] = 17;
    let header = wire::udp_header(1000, port, 108, [0, 0]);
    let datagram = [&header[..], &[b'x'; 100]].concat();
    let before = other.host.sent.len();
    for fragment in split(&head, &datagram) {
        other.host.receive(&fragment);
    }
    other.host.pump();
    assert_eq!((other.host.sent.len(), other.host.stack.counters().udp_no_port), (before, 0), "no error");
    let handoff = other.host.stack.take_handoff().unwrap();
    assert_eq!((handoff.to, other.host.stack.take_handoff()), (1, None));
    own.host.receive(&handoff.frame);
    let Some(stack::Event::Datagram { socket: receiver, data, .. }) = own.host.stack.poll_event() else {
        panic!("no datagram")
    };
    assert_eq!((receiver, data.to_vec()), (socket, vec![b'x'; 100]));
    assert_eq!(own.host.stack.take_handoff(), None, "it is not handed on");
}

#[test]
fn a_stack_with_addresses_of_its_own_answers_a_fragmented_segment_of_no_connection() {
    let mut alone = share(0, 1);
    let peer = Peer { port: 1000, snd: IRS + 1, rcv: 1 };
    let data = peer.data(&alone, &[b'x'; 100]);
    assert_eq!(inject(&mut alone, &data), 1);
    assert!(alone.host.sent.back().unwrap().1.has(flag::RST));
}
