//! Address resolution between hosts, and what forged messages can change.

use super::*;
use core::net::Ipv4Addr;
use frames::{A, B, frame};
use wire::{Arp, NaFlags, arp_packet, neighbor_advertisement, neighbor_solicitation};

const EVIL: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 66]);

fn v4(last: u8) -> Ipv4Addr {
    [10, 0, 0, last].into()
}

fn arp(operation: u16, sender: (MacAddress, Ipv4Addr), target: Ipv4Addr) -> Vec<u8> {
    let packet = arp_packet(operation, sender, (MacAddress::ZERO, target));
    frame(A, sender.0, EtherType::ARP, &packet)
}

/// A Neighbor Discovery message.
fn nd(to: MacAddress, (source, destination): (&str, &str), hop_limit: u8, message: &[u8]) -> Vec<u8> {
    let packet = frames::icmp((address(source), address(destination)), hop_limit, message);
    frame(to, EVIL, EtherType::IPV6, &packet)
}

/// A host, and its path to a neighbour whose address it knows.
fn resolved(destination: &str) -> (Host, PathId) {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    a.ping(destination, &[]);
    exchange(&mut a, &mut b);
    let path = a.route(destination);
    (a, path)
}

fn next_hop(a: &mut Host, path: PathId) -> Option<MacAddress> {
    a.fast(path, 6, &[]).ok().map(|frame| Ethernet::new(&frame).unwrap().destination())
}

#[test]
fn requests_repeat_until_the_neighbour_answers_or_the_packets_are_dropped() {
    for destination in ["10.0.0.7", "fd00::7"] {
        let mut a = Host::new(1);
        let path = a.route(destination);
        (0..20).for_each(|_| a.send(path, 6, &[1; 20], &[], false));
        assert_eq!((a.output().len(), a.counters.neighbour_failed), (1, 4), "a queue of 16");
        assert_eq!((a.wait(1001).len(), a.wait(500).len(), a.wait(1001).len()), (1, 0, 1));
        assert!(!a.ip.deadline().is_never());
        assert_eq!((a.wait(1001).len(), a.counters.neighbour_failed), (0, 20));
        assert!(a.ip.deadline().is_never());
    }
}

#[test]
fn an_idle_neighbour_is_probed_by_unicast_when_it_is_used_again() {
    for destination in ["10.0.0.2", "fd00::2"] {
        let (mut a, path) = resolved(destination);
        a.wait(46_000);
        assert_eq!((next_hop(&mut a, path), a.wait(4_900).len()), (Some(B), 0));
        let probes = a.wait(200);
        assert_eq!(probes.iter().map(|f| Ethernet::new(f).unwrap().destination()).collect::<Vec<_>>(), [B]);
        let mut b = Host::new(2);
        b.receive(&probes[0]);
        a.receive(&b.output()[0]);
        assert_eq!((a.wait(14_000).len(), next_hop(&mut a, path)), (0, Some(B)));
        a.wait(46_000);
        next_hop(&mut a, path);
        a.ip.confirm(path, a.now);
        assert_eq!(a.wait(20_000).len(), 0, "an acknowledgement stands for a probe");
    }
}

#[test]
fn arp_replies_that_were_not_asked_for_change_nothing() {
    let (mut a, path) = resolved("10.0.0.2");
    a.receive(&arp(Arp::REPLY, (EVIL, v4(2)), v4(1)));
    a.receive(&arp(Arp::REQUEST, (EVIL, v4(2)), v4(9)));
    assert_eq!(next_hop(&mut a, path), Some(B));
    let entries = a.ip.neighbours.len();
    a.receive(&arp(Arp::REPLY, (EVIL, v4(9)), v4(1)));
    a.receive(&arp(Arp::REQUEST, (EVIL, v4(9)), v4(9)));
    assert_eq!(a.ip.neighbours.len(), entries, "announcements create no entry");
    a.receive(&arp(Arp::REQUEST, (EVIL, v4(2)), v4(2)));
    assert_eq!(next_hop(&mut a, path), Some(EVIL), "an announcement updates one");
    assert_eq!(a.output().len(), 0);
}

#[test]
fn arp_requests_for_own_addresses_are_answered_and_teach_the_sender() {
    let mut a = Host::new(1);
    a.receive(&arp(Arp::REQUEST, (B, v4(2)), v4(1)));
    let frames = a.output();
    let reply = Arp::new(Ethernet::new(&frames[0]).unwrap().payload()).unwrap();
    assert_eq!((reply.operation(), reply.sender_mac(), reply.sender_ip()), (Arp::REPLY, A, v4(1)));
    assert_eq!((reply.target_ip(), Ethernet::new(&frames[0]).unwrap().destination()), (v4(2), B));
    let path = a.route("10.0.0.2");
    assert_eq!(next_hop(&mut a, path), Some(B));
    for (sender, name) in [
        ((EVIL, [192, 168, 0, 1].into()), "another network"),
        ((EVIL, v4(255)), "broadcast"),
        ((MacAddress::BROADCAST, v4(3)), "a group address"),
        ((MacAddress::ZERO, v4(3)), "no address"),
    ] {
        let packet = arp_packet(Arp::REQUEST, sender, (MacAddress::ZERO, v4(1)));
        a.receive(&frame(A, EVIL, EtherType::ARP, &packet));
        assert_eq!(a.ip.neighbours.len(), 1, "{name}");
    }
    a.output();
    a.receive(&arp(Arp::REQUEST, (EVIL, v4(0)), v4(3)));
    a.receive(&frame(A, EVIL, EtherType::ARP, &arp_packet(Arp::REQUEST, (EVIL, [0; 4].into()), (A, v4(1)))));
    assert_eq!((a.output().len(), a.ip.neighbours.len()), (1, 1), "an address probe is answered");
}

#[test]
fn an_own_address_is_defended_at_most_every_ten_seconds() {
    let mut a = Host::new(1);
    for announcements in [1, 0, 0, 1] {
        a.receive(&arp(Arp::REQUEST, (EVIL, v4(1)), v4(1)));
        let frames = a.output();
        assert_eq!((frames.len(), a.ip.neighbours.len()), (announcements, 0));
        assert!(frames.iter().all(|frame| Arp::new(&frame[14..]).unwrap().sender_mac() == A));
        a.wait(4_000);
    }
}

#[test]
fn neighbour_solicitations_are_answered_if_they_are_valid() {
    let mut a = Host::new(1);
    let group = interface::group_mac(address("ff02::1:ff00:1"));
    let valid = neighbor_solicitation("fd00::1".parse().unwrap(), EVIL);
    let mut answers = |to, ends, hop_limit, message: &[u8]| {
        a.receive(&nd(to, ends, hop_limit, message));
        a.output().into_iter().map(|frame| icmp_of(&frame).unwrap().1).collect::<Vec<_>>()
    };
    let ends = ("fd00::66", "ff02::1:ff00:1");
    let found = answers(group, ends, 255, &valid);
    assert_eq!((found.len(), found[0][0], found[0][4]), (1, 136, 0x60));
    assert_eq!(answers(A, ("fd00::66", "fd00::1"), 255, &valid).len(), 1, "a unicast probe");
    assert!(answers(group, ends, 254, &valid).is_empty(), "from another link");
    assert_eq!(answers(A, ends, 255, &valid).len(), 1, "a group address in a unicast frame");
    let mut code = valid;
    code[1] = 1;
    assert!(answers(group, ends, 255, &code).is_empty());
    let probe = ("::", "ff02::1:ff00:1");
    assert!(answers(group, probe, 255, &valid).is_empty(), "a probe has no address option");
    let found = answers(group, probe, 255, &valid[..24]);
    assert_eq!((found.len(), found[0][0], found[0][4]), (1, 136, 0x20));
    let other = neighbor_solicitation("fd00::9".parse().unwrap(), EVIL);
    assert!(answers(group, ends, 255, &other).is_empty());
    assert_eq!((a.ip.neighbours.len(), a.counters.icmp_errors), (1, 3));
}

#[test]
fn neighbour_advertisements_follow_their_flags() {
    let (mut a, path) = resolved("fd00::2");
    let advertise = |a: &mut Host, target: &str, flags| {
        let message = neighbor_advertisement(target.parse().unwrap(), EVIL, flags);
        a.receive(&nd(A, ("fd00::66", "fd00::1"), 255, &message));
    };
    let entries = a.ip.neighbours.len();
    advertise(&mut a, "fd00::9", NaFlags { solicited: true, overrides: true, router: false });
    assert_eq!(a.ip.neighbours.len(), entries, "no entry is created");
    advertise(&mut a, "fd00::2", NaFlags::default());
    assert_eq!(next_hop(&mut a, path), Some(B));
    advertise(&mut a, "fd00::2", NaFlags { overrides: true, ..NaFlags::default() });
    assert_eq!(next_hop(&mut a, path), Some(EVIL));
}

#[test]
fn new_addresses_are_announced() {
    let mut a = Host::new(1);
    a.ip.add_address(InterfaceId(0), "10.0.0.8/24".parse().unwrap(), START);
    a.ip.add_address(InterfaceId(0), "fd00::8/64".parse().unwrap(), START);
    let frames = a.output();
    assert_eq!(ethertypes(&frames), [EtherType::ARP, EtherType::IPV6]);
    let view = Arp::new(&frames[0][14..]).unwrap();
    assert_eq!((view.sender_ip(), view.target_ip()), (v4(8), v4(8)));
    assert_eq!(icmp_of(&frames[1]).unwrap().1[0], 136);
    // RFC 5227 section 2.3: twice, unless the address is removed before.
    a.ip.add_address(InterfaceId(0), "10.0.0.9/24".parse().unwrap(), START);
    a.ip.remove_address(InterfaceId(0), address("10.0.0.9"), START);
    drop(a.output());
    assert!(ethertypes(&a.wait(1_900)).iter().all(|kind| *kind != EtherType::ARP));
    let repeated: Vec<_> = a.wait(200).into_iter().filter(|sent| sent[12..14] == [8, 6]).collect();
    assert_eq!(repeated, frames[..1]);
    assert!(ethertypes(&a.wait(10_000)).iter().all(|kind| *kind != EtherType::ARP));
    let (mut b, path) = resolved("fd00::2");
    assert_eq!(next_hop(&mut b, path), Some(B));
}

#[test]
fn configured_neighbours_need_no_resolution() {
    let mut a = Host::new(1);
    assert!(a.ip.add_neighbour(InterfaceId(0), address("10.0.0.5"), EVIL, START));
    let path = a.route("10.0.0.5");
    assert_eq!(next_hop(&mut a, path), Some(EVIL));
    let router = Route {
        network: "0.0.0.0/0".parse().unwrap(),
        interface: InterfaceId(0),
        via: Some(address("10.0.0.5")),
    };
    a.ip.add_route(router);
    let path = a.route("192.168.7.7");
    assert_eq!((next_hop(&mut a, path), a.output().len()), (Some(EVIL), 0));
    a.ip.remove_route(InterfaceId(0), router.network);
    assert_eq!(a.ip.route(None, address("192.168.7.7"), START), Err(NoRoute));
}

/// RFC 792 and RFC 4861 section 8 let a router name a better next hop. Any host could send such a message, so a path
/// keeps its own.
#[test]
fn redirects_change_no_path() {
    for (neighbour, remote, own) in
        [("10.0.0.2", "192.168.0.5", "10.0.0.1"), ("fd00::2", "2001::5", "fd00::1")]
    {
        let (mut a, _) = resolved(neighbour);
        let is_v4 = address(own).is_v4();
        let network = if is_v4 { "0.0.0.0/0" } else { "::/0" };
        let via = Some(address(neighbour));
        a.ip.add_route(Route { network: network.parse().unwrap(), interface: InterfaceId(0), via });
        let path = a.route(remote);
        assert_eq!(next_hop(&mut a, path), Some(B));
        let quote = frames::ip(own, remote, 6, &[0; 8]);
        if is_v4 {
            let message = [&icmp_header(5, 1, [10, 0, 0, 66])[..], &quote].concat();
            a.receive(&frames::ip_frame(A, &frames::icmp((address(neighbour), address(own)), 60, &message)));
        } else {
            let [target, destination] = ["fd00::66", remote].map(|text| *address(text).octets());
            let link_layer = [&[2, 1][..], &EVIL.octets()].concat();
            let head = icmp_header(137, 0, [0; 4]);
            let message = [&head[..], &target, &destination, &link_layer].concat();
            a.receive(&nd(A, ("fe80::2", own), 255, &message));
        }
        let (again, entries) = (a.route(remote), a.ip.neighbours.len());
        assert_eq!((next_hop(&mut a, again), next_hop(&mut a, path)), (Some(B), Some(B)), "{remote}");
        assert_eq!((entries, a.output().len(), a.errors.len(), a.counters.icmp_errors), (1, 0, 0, 0));
    }
}
