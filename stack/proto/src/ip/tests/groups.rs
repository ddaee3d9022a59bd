//! Multicast groups: what is received, and what is reported.

use super::*;
use frames::{B, frame, ip};

#[test]
fn joined_groups_are_received_and_reported() {
    for (group, source) in [("239.1.2.3", "10.0.0.2"), ("ff05::7", "fd00::2")] {
        let mut a = Host::new(1);
        let mac = interface::group_mac(address(group));
        let ethertype = if mac.octets()[0] == 1 { EtherType::IPV4 } else { EtherType::IPV6 };
        let datagram = frame(mac, B, ethertype, &ip(source, group, 17, b"to all"));
        a.receive(&datagram);
        assert_eq!((a.packets.len(), a.counters.not_for_us), (0, 1));
        assert!(a.ip.join(InterfaceId(0), address(group), a.now));
        let reports = a.wait(1);
        assert_eq!((reports.len(), ethertypes(&reports)), (1, vec![ethertype]));
        a.receive(&datagram);
        assert!(a.packets[0].0.is_group);
        a.ip.leave(InterfaceId(0), address(group), a.now);
        a.receive(&datagram);
        assert_eq!(a.packets.len(), 1);
        assert_eq!(a.wait(1).len(), 1, "the group was left");
    }
}

#[test]
fn queries_are_answered_for_the_group_of_an_address() {
    let mut a = Host::new(1);
    let query = [&[130, 0, 0, 0, 0, 100, 0, 0][..], &[0; 16], &[2, 10, 0, 0]].concat();
    let ends = (address("fe80::2"), address("ff02::1"));
    // RFC 3810 section 6.2: link-local source, hop limit of 1, and the Router Alert of MLD.
    let (alert, other) = (&[58, 0, 5, 2, 0, 0, 1, 0][..], &[58, 0, 1, 0, 5, 2, 0, 1][..]);
    let cases = [(64, alert, 0), (1, &[][..], 0), (1, other, 0), (1, alert, 1)];
    for (hop_limit, options, reports) in cases {
        let mut packet = frames::icmp(ends, hop_limit, &query);
        if !options.is_empty() {
            packet.splice(40..40, options.iter().copied());
            (packet[5], packet[6]) = (packet[5] + 8, 0);
        }
        a.receive(&frame(interface::group_mac(ends.1), B, EtherType::IPV6, &packet));
        let sent = a.wait(101);
        assert_eq!(sent.len(), reports);
        assert!(sent.iter().all(|frame| frame.starts_with(&[0x33, 0x33, 0, 0, 0, 0x16])));
    }
    let query = [0x11, 1, 0xed, 0xfe, 0, 0, 0, 0, 2, 10, 0, 0];
    a.ip.join(InterfaceId(0), address("239.1.2.3"), a.now);
    (0..3).for_each(|_| drop(a.wait(1000)));
    let packet = ip_ttl1("10.0.0.2", "224.0.0.1", &query);
    a.receive(&frame(interface::group_mac(address("224.0.0.1")), B, EtherType::IPV4, &packet));
    assert_eq!(ethertypes(&a.wait(101)), [EtherType::IPV4]);
}

#[test]
fn an_address_is_resolved_although_the_limit_of_groups_is_reached() {
    let mut a = Host::with(Limits { groups: 1, ..Limits::default() }, 1, &["fd00::1/64"], None);
    assert!(a.ip.join(InterfaceId(0), address("ff05::7"), a.now));
    a.ip.add_address(InterfaceId(0), "fd00::9/64".parse().unwrap(), a.now);
    drop(a.output());
    let mut b = Host::new(2);
    let path = b.route("fd00::9");
    b.send(path, 17, &[], b"x", false);
    b.output().iter().for_each(|solicitation| a.receive(solicitation));
    assert_eq!(ethertypes(&a.output()), [EtherType::IPV6], "the advertisement");
}

/// An IGMP packet whose checksum is set.
fn ip_ttl1(source: &str, destination: &str, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    message[2..4].fill(0);
    let sum = Sum::of(&message).finish();
    message[2..4].copy_from_slice(&sum);
    frames::ip_with((address(source), address(destination)), 2, 1, &message)
}
