//! Frames that no host should send: refused, counted, and within every limit.

use super::*;
use frames::{A, B, frame, ip, ip_frame, ip_with};
use proptest::prelude::*;

fn segment(source: &str, destination: &str) -> Vec<u8> {
    ip(source, destination, 6, &[0; 8])
}

#[test]
fn frames_for_others_are_counted() {
    let mut a = Host::new(1);
    let good = segment("10.0.0.2", "10.0.0.1");
    a.receive(&ip_frame(A, &good));
    assert_eq!((a.packets.len(), a.counters.not_for_us), (1, 0));
    let group = MacAddress::new([1, 0, 0x5e, 0, 0, 1]);
    let tagged = [&A.octets()[..], &B.octets(), &[0x81, 0, 0, 5, 8, 0], &good].concat();
    let others = [
        frame(B, MacAddress::new([2; 6]), EtherType::IPV4, &good),
        frame(A, A, EtherType::IPV4, &good),
        frame(A, group, EtherType::IPV4, &good),
        frame(A, B, EtherType(0x88cc), &good),
        ip_frame(MacAddress::BROADCAST, &good),
        ip_frame(A, &segment("10.0.0.2", "10.0.0.3")),
        ip_frame(A, &segment("10.0.0.2", "10.0.0.255")),
        ip_frame(group, &segment("10.0.0.2", "224.0.0.2")),
        ip_frame(MacAddress::BROADCAST, &segment("10.0.0.2", "224.0.0.1")),
        ip_frame(A, &segment("fd00::2", "fd00::3")),
        tagged.clone(),
        good[..10].to_vec(),
    ];
    for (number, other) in others.iter().enumerate() {
        a.receive(other);
        assert_eq!((a.packets.len(), a.counters.not_for_us), (1, number as u64 + 1), "{number}");
    }
    let mut priority = tagged;
    priority[15] = 0;
    a.receive(&priority);
    assert_eq!(a.packets.len(), 2, "a priority tag is no VLAN");
    a.receive(&ip_frame(group, &segment("10.0.0.2", "224.0.0.1")));
    assert!(a.packets[2].0.is_group);
}

#[test]
fn sources_that_no_host_has_are_refused() {
    let mut a = Host::new(1);
    for (own, sources) in [
        (
            "10.0.0.1",
            &["224.0.0.1", "255.255.255.255", "10.0.0.255", "127.0.0.1", "0.0.0.0", "0.1.2.3", "10.0.0.1"][..],
        ),
        ("fd00::1", &["ff02::1", "::1", "::", "fd00::1"]),
    ] {
        for source in sources {
            a.receive(&ip_frame(A, &segment(source, own)));
        }
    }
    assert_eq!((a.packets.len(), a.counters.not_for_us), (0, 11));
    a.receive(&ip_frame(A, &segment("10.0.0.2", "127.0.0.1")));
    a.receive(&ip_frame(A, &segment("fd00::2", "::1")));
    assert_eq!((a.packets.len(), a.counters.not_for_us), (0, 13), "loopback addresses are not on a link");
    for at in [8, 24] {
        let mut packet = segment("fd00::2", "fd00::1");
        packet[at..at + 16].copy_from_slice(address("10.0.0.1").octets());
        a.receive(&ip_frame(A, &packet));
    }
    assert_eq!((a.packets.len(), a.counters.ip_header_errors), (0, 2), "IPv4-mapped");
}

#[test]
fn invalid_headers_are_refused() {
    let mut a = Host::new(1);
    let good = segment("10.0.0.2", "10.0.0.1");
    let broken = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = good.clone();
        change(&mut packet);
        frame(A, B, EtherType::IPV4, &packet)
    };
    let lengths = |len| move |packet: &mut Vec<u8>| wire::rewrite_ipv4(packet, len, 0);
    let options = |options: [u8; 4]| {
        move |packet: &mut Vec<u8>| {
            packet[0] = 0x46;
            packet.splice(20..20, options);
            wire::rewrite_ipv4(packet, 32, 0);
        }
    };
    for (number, frame) in [
        broken(&|packet| packet[8] ^= 1),
        broken(&lengths(19)),
        broken(&lengths(29)),
        broken(&options([131, 3, 4, 0])),
        broken(&options([137, 3, 4, 0])),
        broken(&|packet| packet.truncate(19)),
        broken(&|packet| packet[0] = 0x65),
    ]
    .iter()
    .enumerate()
    {
        a.receive(frame);
        assert_eq!((a.packets.len(), a.counters.ip_header_errors), (0, number as u64 + 1), "{number}");
    }
    a.receive(&broken(&options([148, 4, 0, 0])));
    assert_eq!(a.packets.len(), 1, "other options are ignored");
    let mut routed = segment("fd00::2", "fd00::1");
    routed[6] = 43;
    routed[40..].copy_from_slice(&[6, 0, 0, 1, 0, 0, 0, 0]);
    a.receive(&ip_frame(A, &routed));
    assert_eq!((a.packets.len(), a.counters.ip_header_errors), (1, 8));
}

fn tiny() -> Limits {
    Limits { neighbours: 4, neighbour_queue: 2, paths: 3, outbox: 5, errors: 50, ..Limits::default() }
}

/// Frames that pass the first checks more often than arbitrary bytes do.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let to =
        prop_oneof![Just(A), Just(MacAddress::BROADCAST), Just(interface::group_mac(address("ff02::1")))];
    let byte = prop_oneof![Just(0), Just(1), Just(255), 0_u8..9, any::<u8>()];
    let rest = prop::collection::vec(byte, 0..160);
    (to, 0..6, any::<[u8; 3]>(), rest).prop_map(|(to, form, [last, number, kind], rest)| {
        let ends4 = (Address::v4([10, 0, 0, last]), address("10.0.0.1"));
        let own = address(if to == A { "fd00::1" } else { "ff02::1" });
        let ends6 = (address(&format!("fd00::{last:x}")), own);
        let message = |kind: u8| [&[kind, 0, 0, 0][..], &rest].concat();
        ip_frame(
            to,
            &match form {
                0 => {
                    let (sender, target) = ([10, 0, 0, last].into(), [10, 0, 0, kind % 3].into());
                    let sender = (MacAddress::new([2; 6]), sender);
                    return frame(
                        to,
                        B,
                        EtherType::ARP,
                        &wire::arp_packet(u16::from(number % 3), sender, (A, target)),
                    );
                }
                1 => frames::icmp(ends4, 1, &message(kind % 13)),
                2 => ip_with(ends4, number % 61, 1, &rest),
                3 => frames::icmp(ends6, 255, &message(133 + kind % 5)),
                4 => frames::icmp(ends6, 1, &message(kind % 5)),
                _ => ip_with(ends6, number % 61, 1, &rest),
            },
        )
    })
}

proptest! {
    #[test]
    fn no_sequence_of_frames_panics_or_exceeds_a_limit(
        frames in prop::collection::vec((frames(), any::<prop::sample::Index>(), any::<u8>(), 0_u64..4000), 1..40),
    ) {
        let mut a = Host::with(tiny(), 1, &["10.0.0.1/24", "fd00::1/64"], None);
        for (mut bytes, at, flip, millis) in frames {
            if flip < 100 {
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
            }
            a.receive(&bytes);
            for (packet, bytes) in core::mem::take(&mut a.packets) {
                prop_assert_eq!(packet.end - packet.transport, bytes.len());
                if let Ok((path, _)) = a.ip.route(Some(packet.destination), packet.source, a.now) {
                    a.send(path, 6, &[0; 20], b"answer", false);
                }
            }
            prop_assert!(a.ip.outbox.len() <= 5 && a.ip.paths.len() <= 3 && a.ip.neighbours.len() <= 4);
            if flip % 3 == 0 {
                a.wait(millis);
            }
        }
        while !a.ip.deadline().is_never() {
            a.wait(600_000);
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut a = Host::with(tiny(), 1, &["10.0.0.1/24", "fd00::1/64"], None);
        a.receive(&bytes);
        a.receive(&frame(A, B, EtherType::IPV4, &bytes));
        a.receive(&frame(A, B, EtherType::IPV6, &bytes));
        prop_assert_eq!(a.counters.frames_in, 3);
    }
}
