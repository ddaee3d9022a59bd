//! The addresses of a switch: neighbours, routes, ping.

use stack::Time;
use std::net::IpAddr;
use tunnel::{Interface, Neighbour, Path, Request, Route, Underlay, Unreachable};
use wire::{Arp, MacAddress, arp_packet, write_ethernet};

const OWN: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const PEER: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 9]);
const SECOND: u64 = 1_000_000_000;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn underlay() -> Underlay {
    let route = Route { network: "0.0.0.0/0".parse().unwrap(), via: address("192.0.2.254") };
    let addresses = ["192.0.2.1/24", "2001:db8::1/64"].map(|text| text.parse().unwrap()).to_vec();
    let interface = Interface { network: 3, mac: OWN, mtu: 1500, addresses, routes: vec![route] };
    let mut underlay = Underlay::new(vec![interface], [7; 16], Time(0));
    underlay.transmit(Time(0));
    underlay
}

fn arp(operation: u16, target: &str) -> Vec<u8> {
    let mut frame = vec![0; 14];
    write_ethernet(&mut frame, OWN, PEER, None, wire::EtherType::ARP);
    let v4 = |text: &str| text.parse().unwrap();
    frame.extend(arp_packet(operation, (PEER, v4("192.0.2.254")), (OWN, v4(target))));
    frame
}

#[test]
fn next_hop_is_resolved_and_its_port_known() {
    let mut underlay = underlay();
    let paths = underlay.take_changed().unwrap();
    assert!(underlay.take_changed().is_none());
    let remote = address("203.0.113.5");
    let request = Request { network: 3, address: address("192.0.2.254") };
    assert_eq!(paths.find(None, remote), Err(Unreachable::Unresolved(request)));
    underlay.resolve(request, Time(1));
    let sent = underlay.transmit(Time(1));
    assert_eq!((sent.len(), sent[0].network, sent[0].frame[12..14].to_vec()), (1, 3, vec![8, 6]));
    underlay.receive(3, Some(5), &arp(Arp::REPLY, "192.0.2.1"), Time(2));
    let paths = underlay.take_changed().unwrap();
    let source = address("192.0.2.1");
    let path = Path { network: 3, macs: (OWN, PEER), source, mtu: 1500, path_mtu: 1500 };
    assert_eq!(paths.find(None, remote), Ok(path));
    assert_eq!(paths.find(Some(source), remote), paths.find(None, remote));
    assert_eq!(paths.find(Some(address("192.0.2.7")), remote), Err(Unreachable::NoRoute));
    assert_eq!(paths.find(None, address("2001:db8:9::1")), Err(Unreachable::NoRoute));
    assert_eq!(paths.find(None, source), Err(Unreachable::NoRoute), "an own address");
    assert_eq!((paths.port(3, PEER), paths.port(3, OWN), paths.port(4, PEER)), (Some(5), None, None));
    // The neighbour moves to another port.
    underlay.receive(3, Some(6), &arp(Arp::REQUEST, "192.0.2.1"), Time(3));
    let paths = underlay.take_changed().unwrap();
    let expected = (request, Neighbour { mac: PEER, port: Some(6) });
    assert_eq!(paths.neighbours().map(|(request, found)| (*request, *found)).collect::<Vec<_>>(), [expected]);
}

#[test]
fn address_that_does_not_answer_is_given_up() {
    let mut underlay = underlay();
    let request = Request { network: 3, address: address("192.0.2.77") };
    underlay.resolve(request, Time(1));
    let mut requests = 0;
    for second in 0..60 {
        underlay.advance(Time(second * SECOND + 2));
        requests += underlay.transmit(Time(second * SECOND + 2)).len();
    }
    assert!((3..=15).contains(&requests), "{requests}");
    assert!(underlay.take_changed().is_some_and(|paths| paths.neighbours().next().is_none()));
}

#[test]
fn own_addresses_answer_arp_and_ping() {
    let mut underlay = underlay();
    underlay.receive(3, Some(1), &arp(Arp::REQUEST, "192.0.2.1"), Time(1));
    let sent = underlay.transmit(Time(1));
    assert_eq!(
        (sent.len(), &sent[0].frame[..12], sent[0].frame[21]),
        (1, &[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1][..], 2)
    );
    let mut message = [8, 0, 0, 0, 0, 1, 0, 1];
    let sum = wire::checksum::Sum::of(&message).finish();
    message[2..4].copy_from_slice(&sum);
    let fields = wire::Ipv4Fields {
        total_len: 28,
        identification: 0,
        dont_fragment: false,
        ttl: 9,
        protocol: 1,
        source: [192, 0, 2, 254].into(),
        destination: [192, 0, 2, 1].into(),
    };
    let mut frame = vec![0; 14];
    write_ethernet(&mut frame, OWN, PEER, None, wire::EtherType::IPV4);
    frame.extend(fields.header());
    frame.extend(message);
    underlay.receive(3, Some(1), &frame, Time(2));
    let sent = underlay.transmit(Time(2));
    assert_eq!((sent.len(), sent[0].frame[34]), (1, 0), "an echo reply");
}

/// The error of a router that a packet from `source` to a remote end is too long.
fn too_big(source: &str, protocol: u8, mtu: u16) -> Vec<u8> {
    let v4 = |text: &str| text.parse().unwrap();
    let quoted = wire::Ipv4Fields {
        total_len: 1500,
        identification: 7,
        dont_fragment: true,
        ttl: 60,
        protocol,
        source: v4(source),
        destination: v4("203.0.113.5"),
    };
    let mut message = wire::icmp_header(3, 4, u32::from(mtu).to_be_bytes()).to_vec();
    message.extend(quoted.header());
    message.extend([0; 8]);
    let sum = wire::checksum::Sum::of(&message).finish();
    message[2..4].copy_from_slice(&sum);
    let fields = wire::Ipv4Fields {
        total_len: (20 + message.len()) as u16,
        protocol: 1,
        source: v4("192.0.2.254"),
        destination: v4("192.0.2.1"),
        ..quoted
    };
    let mut frame = vec![0; 14];
    write_ethernet(&mut frame, OWN, PEER, None, wire::EtherType::IPV4);
    frame.extend(fields.header());
    frame.extend(message);
    frame
}

#[test]
fn reports_of_routers_lower_the_path_mtu() {
    let mut underlay = underlay();
    let (remote, other) = (address("203.0.113.5"), address("203.0.113.6"));
    underlay.resolve(Request { network: 3, address: address("192.0.2.254") }, Time(1));
    underlay.receive(3, Some(5), &arp(Arp::REPLY, "192.0.2.1"), Time(2));
    underlay.take_changed();
    let mut broken = too_big("192.0.2.1", 17, 1400);
    *broken.last_mut().unwrap() ^= 1;
    for (case, frame) in [
        ("a packet of another host", too_big("192.0.2.7", 17, 1400)),
        ("a packet of no tunnel", too_big("192.0.2.1", 6, 1400)),
        ("a wrong checksum", broken),
    ] {
        underlay.receive(3, Some(5), &frame, Time(3));
        assert!(underlay.take_changed().is_none(), "{case}");
    }
    underlay.receive(3, Some(5), &too_big("192.0.2.1", 17, 1400), Time(3));
    let paths = underlay.take_changed().unwrap();
    let mtus = |paths: &tunnel::Paths, to| paths.find(None, to).map(|path| (path.mtu, path.path_mtu));
    assert_eq!((mtus(&paths, remote), mtus(&paths, other)), (Ok((1500, 1400)), Ok((1500, 1500))));
    // The neighbour is asked again and again until then.
    let later = Time(601 * SECOND);
    underlay.receive(3, Some(5), &arp(Arp::REPLY, "192.0.2.1"), later);
    underlay.advance(later);
    assert_eq!(mtus(&underlay.take_changed().unwrap(), remote), Ok((1500, 1500)));
}
