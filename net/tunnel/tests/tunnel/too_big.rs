//! Errors about packets that do not fit.

use tunnel::packet_too_big;
use wire::checksum::{Sum, protocol};
use wire::{Icmp, IcmpKind, Ipv4, Ipv4Fields, Ipv6, Version, ipv6_header};

fn frame(tags: &[u8], kind: u16, packet: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], tags, &kind.to_be_bytes(), packet].concat()
}

fn v4(dont_fragment: bool, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let fields = Ipv4Fields {
        total_len: 1500,
        identification: 1,
        dont_fragment,
        ttl: 9,
        protocol,
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
    };
    [&fields.header(), payload].concat()
}

#[test]
fn sender_of_ipv4_gets_fragmentation_needed() {
    let packet = v4(true, protocol::TCP, &[7; 1000]);
    let error = packet_too_big(&frame(&[0x81, 0, 0, 9], 0x0800, &packet), 1450).unwrap();
    assert_eq!(error[..18], *[&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], &[0x81, 0, 0, 9, 8, 0][..]].concat());
    let view = Ipv4::new(&error[18..]).unwrap();
    assert_eq!(view.addresses(), &[10, 0, 0, 2, 10, 0, 0, 1]);
    assert!(view.is_checksum_valid() && usize::from(view.total_len()) == error.len() - 18);
    assert_eq!(error.len() - 18, 576);
    let message = &error[38..];
    assert_eq!((Sum::of(message).finish(), message[..2] == [3, 4]), ([0, 0], true));
    assert_eq!((&message[6..8], &message[8..]), (&1450_u16.to_be_bytes()[..], &packet[..548]));
}

#[test]
fn sender_of_ipv6_gets_packet_too_big() {
    let (source, destination) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
    let packet = [&ipv6_header(8, protocol::UDP, 9, source, destination), &[1; 8][..]].concat();
    let error = packet_too_big(&frame(&[], 0x86dd, &packet), 1400).unwrap();
    let view = Ipv6::new(&error[14..]).unwrap();
    assert_eq!(view.source_and_destination(), (destination, source));
    let message = &error[54..];
    let mut sum = Sum::pseudo(view.addresses(), protocol::ICMPV6, message.len() as u32);
    sum.add(message);
    assert_eq!(
        (sum.finish(), Icmp::new(Version::V6, message).unwrap().kind()),
        ([0, 0], IcmpKind::TooBig(1400))
    );
}

#[test]
fn packets_without_an_error() {
    for (reason, packet) in [
        ("it may be fragmented", v4(false, protocol::TCP, &[])),
        ("an error", v4(true, protocol::ICMP, &[3; 8])),
    ] {
        assert_eq!(packet_too_big(&frame(&[], 0x0800, &packet), 1400), None, "{reason}");
    }
    assert!(packet_too_big(&frame(&[], 0x0800, &v4(true, protocol::ICMP, &[8; 8])), 1400).is_some());
    let mut group = frame(&[], 0x0800, &v4(true, protocol::UDP, &[]));
    group[0] |= 1;
    assert_eq!(packet_too_big(&group, 1400), None);
    assert_eq!(packet_too_big(&frame(&[], 0x0806, &[0; 28]), 1400), None);
}
