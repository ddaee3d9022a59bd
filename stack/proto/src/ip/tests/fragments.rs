//! Packets longer than the MTU, sent and received in fragments.

use super::*;
use frames::{A, ip_frame, ip_with};

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 7) >> 3) as u8).collect()
}

#[test]
fn long_pings_are_answered_in_fragments() {
    for destination in ["10.0.0.2", "fd00::2"] {
        let (mut a, mut b) = (Host::new(1), Host::new(2));
        a.ping(destination, &[]);
        exchange(&mut a, &mut b);
        a.ping(destination, &bytes(4001));
        let frames = exchange(&mut a, &mut b);
        assert_eq!(frames.len(), 6);
        assert!(frames.iter().all(|frame| frame.len() <= 1514));
        for host in [&a, &b] {
            assert_eq!((host.counters.fragments_in, host.counters.reassembled), (3, 1));
            assert_eq!((host.counters.icmp_errors, host.counters.reassembly_failed), (0, 0));
        }
        assert_eq!(b.counters.icmp_out, 2);
    }
}

#[test]
fn a_datagram_in_fragments_arrives_whole() {
    for destination in ["10.0.0.2", "fd00::2"] {
        let (mut a, mut b) = (Host::new(1), Host::new(2));
        let path = a.route(destination);
        for len in [1471, 1473, 3000, 20_000] {
            a.send(path, 17, b"headers!", &bytes(len), true);
            let frames = exchange(&mut a, &mut b);
            assert!(frames.iter().all(|frame| frame.len() <= 1514));
            let (packet, received) = b.packets.remove(0);
            assert_eq!((packet.protocol, packet.destination), (17, address(destination)));
            assert!(received.starts_with(b"headers!") && received[8..] == bytes(len));
        }
        a.send(path, 17, &[], &bytes(65_536), true);
        assert_eq!(a.counters.fragment_failed, 1);
    }
}

#[test]
fn missing_fragments_are_reported_after_their_time() {
    for destination in ["10.0.0.2", "fd00::2"] {
        let (mut a, mut b) = (Host::new(1), Host::new(2));
        a.ping(destination, &[]);
        exchange(&mut a, &mut b);
        let path = a.route(destination);
        a.send(path, 17, &[0, 7, 0, 9, 0, 0, 0, 0], &bytes(2000), true);
        b.receive(&a.output()[0]);
        assert!(b.wait(29_000).iter().all(|frame| icmp_of(frame).is_none_or(|(_, message)| message[0] > 3)));
        let sent = b.wait(1_001);
        a.receive(sent.last().unwrap());
        let error = a.errors[0];
        assert_eq!((error.kind, error.protocol), (ErrorKind::Unreachable, 17));
        assert_eq!((error.local.port, error.remote.address), (7, address(destination)));
        assert_eq!(b.counters.reassembly_failed, 1);
    }
}

#[test]
fn neighbor_discovery_in_fragments_is_refused() {
    let mut a = Host::new(1);
    let ends = (address("fd00::9"), address("fd00::1"));
    let message = wire::neighbor_solicitation("fd00::1".parse().unwrap(), frames::B);
    let whole = frames::icmp(ends, 255, &message);
    let atomic = [&[58, 0, 0, 0, 0, 0, 0, 1][..], &whole[40..]].concat();
    a.receive(&ip_frame(A, &ip_with(ends, 44, 255, &atomic)));
    assert_eq!((a.counters.reassembled, a.counters.icmp_errors, a.output().len()), (1, 1, 0));
}

#[test]
fn an_invalid_fragment_is_answered_with_its_fault() {
    let mut a = Host::new(1);
    a.ip.add_neighbour(InterfaceId(0), address("fd00::9"), frames::B, START);
    let ends = (address("fd00::9"), address("fd00::1"));
    let odd = [&[17, 0, 0, 1, 0, 0, 0, 1][..], &[1; 9]].concat();
    a.receive(&ip_frame(A, &ip_with(ends, 44, 60, &odd)));
    let (_, message) = icmp_of(&a.output()[0]).unwrap();
    assert_eq!((message[..2].to_vec(), &message[4..8]), (vec![4, 0], &[0, 0, 0, 4][..]));
}
