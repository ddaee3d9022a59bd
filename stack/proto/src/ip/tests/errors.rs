//! ICMP errors received and sent, and echo requests that are not answered.

use super::*;
use frames::{A, B, ip, ip_frame};

/// Ports 1000 and 80, sequence number 0x01020304.
const PORTS: [u8; 8] = [3, 232, 0, 80, 1, 2, 3, 4];

/// An ICMP message of a router to host 1.
fn icmp(source: &str, destination: &str, header: [u8; 8], payload: &[u8]) -> Vec<u8> {
    let ends = (address(source), address(destination));
    ip_frame(A, &frames::icmp(ends, 60, &[&header[..], payload].concat()))
}

fn errors(a: &mut Host, frame: &[u8]) -> Vec<TransportError> {
    a.receive(frame);
    core::mem::take(&mut a.errors)
}

#[test]
fn errors_name_the_connection_they_are_about() {
    let mut a = Host::new(1);
    for (own, remote, router) in [("10.0.0.1", "192.168.0.5", "10.0.0.9"), ("fd00::1", "2001::5", "fd00::9")]
    {
        let kinds = if address(own).is_v4() {
            [
                ((3, 1), ErrorKind::Unreachable),
                ((3, 3), ErrorKind::Refused),
                ((11, 0), ErrorKind::Unreachable),
            ]
        } else {
            [((1, 0), ErrorKind::Unreachable), ((1, 4), ErrorKind::Refused), ((3, 0), ErrorKind::Unreachable)]
        };
        for ((kind, code), expected) in kinds {
            let quote = ip(own, remote, 6, &PORTS);
            let found = errors(&mut a, &icmp(router, own, icmp_header(kind, code, [0; 4]), &quote));
            let local = crate::Endpoint::new(address(own), 1000);
            let remote = crate::Endpoint::new(address(remote), 80);
            let (protocol, sequence) = (6, 0x0102_0304);
            assert_eq!(found, [TransportError { kind: expected, protocol, local, remote, sequence }]);
        }
    }
}

#[test]
fn errors_without_a_packet_of_this_host_are_ignored() {
    let mut a = Host::new(1);
    let refused = icmp_header(3, 3, [0; 4]);
    let from = "10.0.0.9";
    for (quote, name) in [
        (ip("10.0.0.7", "192.168.0.5", 6, &PORTS), "another source"),
        (ip("10.0.0.1", "192.168.0.5", 1, &PORTS), "not a transport"),
        (ip("10.0.0.1", "192.168.0.5", 6, &PORTS[..7]), "truncated"),
        (ip("fd00::1", "fd00::2", 6, &PORTS), "another version"),
        (Vec::new(), "no packet"),
    ] {
        assert!(errors(&mut a, &icmp(from, "10.0.0.1", refused, &quote)).is_empty(), "{name}");
    }
    let mut fragment = ip("10.0.0.1", "192.168.0.5", 6, &PORTS);
    fragment[7] = 1;
    assert!(errors(&mut a, &icmp(from, "10.0.0.1", refused, &fragment)).is_empty());
    let mut broken = icmp(from, "10.0.0.1", refused, &ip("10.0.0.1", "192.168.0.5", 6, &PORTS));
    *broken.last_mut().unwrap() ^= 1;
    assert!(errors(&mut a, &broken).is_empty());
    assert_eq!((a.counters.icmp_errors, a.output().len()), (1, 0));
}

#[test]
fn too_big_lowers_the_path_mtu_for_ten_minutes() {
    let mut a = Host::new(1);
    let route = |network: &str, via: &str| Route {
        network: network.parse().unwrap(),
        interface: InterfaceId(0),
        via: Some(address(via)),
    };
    a.ip.add_route(route("0.0.0.0/0", "10.0.0.9"));
    a.ip.add_route(route("::/0", "fd00::9"));
    let long = |own, remote| {
        let mut quote = ip(own, remote, 17, &[&PORTS[..], &[0; 1452]].concat());
        quote.truncate(60);
        quote
    };
    for (own, remote, router, kind) in
        [("10.0.0.1", "192.168.0.5", "10.0.0.9", 3), ("fd00::1", "2001::5", "fd00::9", 2)]
    {
        let too_big = |mtu: u32| {
            let code = if kind == 3 { 4 } else { 0 };
            icmp(router, own, icmp_header(kind, code, mtu.to_be_bytes()), &long(own, remote))
        };
        assert!(errors(&mut a, &too_big(1400)).is_empty(), "no such path");
        let path = a.route(remote);
        let found = errors(&mut a, &too_big(1400));
        assert_eq!(found[0].kind, ErrorKind::TooBig(1400));
        assert_eq!(a.ip.path(path).unwrap().1, 1400);
        assert!(a.ip.deadline() <= a.now.after_micros(600_000_000));
        let lowest = if kind == 3 { 576 } else { 1400 };
        errors(&mut a, &too_big(200));
        assert_eq!(a.ip.path(path).unwrap().1, lowest);
        a.send(path, 6, &[0; 20], &[0; 1390], false);
        assert_eq!(a.counters.fragment_failed, if kind == 3 { 1 } else { 2 });
        // No connection probes the path.
        a.wait(600_100);
        a.wait(60_100);
        assert_eq!(a.ip.path(path).unwrap().1, 1500);
    }
}

#[test]
fn packets_without_a_receiver_are_refused_with_a_quote() {
    let mut a = Host::new(1);
    for (source, own, number, kind, longest) in [
        ("10.0.0.9", "10.0.0.1", 17, (3, 3), 576),
        ("10.0.0.9", "10.0.0.1", 99, (3, 2), 576),
        ("fd00::9", "fd00::1", 17, (1, 4), 1280),
        ("fd00::9", "fd00::1", 99, (4, 1), 1280),
    ] {
        a.ip.add_neighbour(InterfaceId(0), address(source), B, START);
        for len in [9, 1400] {
            let packet = ip(source, own, number, &vec![1; len]);
            let frame = [&ip_frame(A, &packet)[..], &[0; 5]].concat();
            a.receive(&frame);
            let (arrived, _) = a.packets.pop().unwrap();
            a.ip.refuse(&TestFrame(frame), &arrived, a.now, &mut a.counters);
            let sent = a.output();
            let (version, message) = icmp_of(&sent[0]).unwrap();
            assert_eq!((message[0], message[1]), kind);
            assert_eq!(
                sent[0].len() - 14,
                longest.min(packet.len() + if len == 9 { packet.len() - len + 8 } else { 9999 })
            );
            assert!(packet.starts_with(&message[8..]));
            assert_eq!(message[4..8], if kind == (4, 1) { [0, 0, 0, 6] } else { [0; 4] });
            let view = Icmp::new(version, &message).unwrap();
            assert_eq!(view.quoted().unwrap().protocol, number);
            let mut b = Host::with(Limits::default(), 9, &["10.0.0.9/24", "fd00::9/64"], None);
            let before = b.counters.icmp_errors;
            let mut back = sent[0].clone();
            back[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
            b.receive(&back);
            assert_eq!((b.counters.icmp_in, b.counters.icmp_errors), (1, before), "the checksum is valid");
        }
    }
}

#[test]
fn errors_are_limited_and_never_about_group_addresses() {
    let limits = Limits { errors: 20, ..Limits::default() };
    let mut a = Host::with(limits, 1, &["10.0.0.1/24"], None);
    a.ip.add_neighbour(InterfaceId(0), address("10.0.0.9"), B, START);
    let unicast = ip_frame(A, &ip("10.0.0.9", "10.0.0.1", 17, &PORTS));
    let group = ip_frame(MacAddress::BROADCAST, &ip("10.0.0.9", "10.0.0.255", 17, &PORTS));
    let mut refused = |frame: &Vec<u8>| {
        a.receive(frame);
        let (packet, _) = a.packets.pop().unwrap();
        a.ip.refuse(&TestFrame(frame.clone()), &packet, a.now, &mut a.counters);
        a.output().len()
    };
    assert_eq!(refused(&group), 0);
    let sent = (0..10).map(|_| refused(&unicast)).sum::<usize>();
    assert!((1..=2).contains(&sent) && a.counters.rate_limited == 10 - sent as u64);
}

#[test]
fn broadcast_pings_are_not_answered_and_multicast_ones_from_an_own_address() {
    let mut a = Host::new(1);
    a.ip.add_neighbour(InterfaceId(0), address("fd00::9"), B, START);
    let mut ping = icmp("10.0.0.9", "10.0.0.255", icmp_header(8, 0, [0; 4]), &[]);
    ping[..6].fill(0xff);
    a.receive(&ping);
    assert_eq!((a.output().len(), a.counters.icmp_in), (0, 1));
    let mut ping = icmp("fd00::9", "ff02::1", icmp_header(128, 0, [7; 4]), b"odd");
    ping[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
    a.receive(&ping);
    let sent = a.output();
    let view = Ipv6::new(&sent[0][14..]).unwrap();
    assert_eq!(Address::from(view.source_and_destination().0), address("fd00::1"));
    let mut back = sent[0].clone();
    back[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    let mut b = Host::with(Limits::default(), 9, &["fd00::9/64"], None);
    b.receive(&back);
    assert_eq!((b.counters.icmp_in, b.counters.icmp_errors), (1, 0), "the checksum is valid");
}
