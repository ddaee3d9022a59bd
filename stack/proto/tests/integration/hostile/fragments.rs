//! Fragments of TCP, which all stacks of an address receive ([`stack::Affinity`]).

use super::*;
use crate::packet::ETHERNET;
use stack::Affinity;

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
    let [mut own, mut other] = [share(0, 2), share(1, 2)];
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
fn a_stack_with_addresses_of_its_own_answers_a_fragmented_segment_of_no_connection() {
    let mut alone = share(0, 1);
    let peer = Peer { port: 1000, snd: IRS + 1, rcv: 1 };
    let data = peer.data(&alone, &[b'x'; 100]);
    assert_eq!(inject(&mut alone, &data), 1);
    assert!(alone.host.sent.back().unwrap().1.has(flag::RST));
}
