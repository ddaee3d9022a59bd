//! Automatic configuration of an interface by a DHCP server and a router.

use super::*;
use crate::Identifier;
use frames::{A, B, frame};
use wire::{Dhcp, DhcpMessage, Layers};

fn bare() -> Host {
    Host::with(Limits::default(), 1, &[], None)
}

/// Answer of a server to a frame with a DHCP message, if it is one.
fn serve(sent: &[u8]) -> Option<Vec<u8>> {
    let layers = Layers::of(sent).filter(|layers| layers.protocol == protocol::UDP)?;
    let request = Dhcp::new(&sent[layers.transport + 8..])?;
    let kind = if request.message_type() == Some(Dhcp::DISCOVER) { Dhcp::OFFER } else { Dhcp::ACK };
    let message = DhcpMessage {
        kind,
        transaction: request.transaction(),
        seconds: 0,
        broadcast: true,
        client_address: [0; 4].into(),
        mac: A,
        requested: None,
        server: Some([10, 0, 0, 2].into()),
    };
    let mut bytes = message.to_bytes();
    bytes[0] = Dhcp::REPLY;
    bytes[16..20].copy_from_slice(&[10, 0, 0, 5]);
    bytes.truncate(bytes.iter().rposition(|byte| *byte == 255)?);
    bytes.extend([1, 4, 255, 255, 255, 0, 3, 4, 10, 0, 0, 2, 26, 2, 5, 0, 51, 4, 0, 0, 14, 16, 255]);
    let (from, to) = (address("10.0.0.2"), address("255.255.255.255"));
    let packet = crate::control::Control::udp4(from, to, (67, 68), &bytes).packet;
    Some(frame(MacAddress::BROADCAST, B, EtherType::IPV4, &packet))
}

/// Runs the host for some seconds with the answers of a server.
fn run(a: &mut Host, seconds: u64, answer: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    for _ in 0..seconds * 10 {
        for answer in a.wait(100).iter().filter_map(|sent| answer(sent)) {
            a.receive(&answer);
        }
    }
}

#[test]
fn a_lease_gives_address_route_and_mtu_until_it_ends() {
    let mut a = bare();
    a.ip.start_dhcp(InterfaceId(0), a.now);
    run(&mut a, 10, serve);
    let lease = a.ip.lease(InterfaceId(0)).unwrap();
    assert_eq!(lease.network.to_string(), "10.0.0.5/24");
    let (path, source) = a.ip.route(None, address("192.168.9.9"), a.now).unwrap();
    assert_eq!((source, a.ip.path(path)), (address("10.0.0.5"), Some((InterfaceId(0), 1280))));
    assert!(a.packets.is_empty(), "the client's datagrams are not passed up");
    run(&mut a, 3700, |_| None);
    assert!(a.ip.lease(InterfaceId(0)).is_none() && !a.ip.is_local(source));
    assert_eq!(a.ip.route(None, address("192.168.9.9"), a.now), Err(NoRoute));
}

#[test]
fn stacks_with_the_same_addresses_have_the_lease_of_the_first_one() {
    let (mut first, mut other, id) = (bare(), bare(), InterfaceId(0));
    other.ip.config.affinity = crate::Affinity::new(1, 2, None);
    first.ip.start_dhcp(id, first.now);
    other.ip.start_dhcp(id, other.now);
    run(&mut first, 10, serve);
    run(&mut other, 10, |sent| unreachable!("{sent:02x?}"));
    let lease = first.ip.lease(id).cloned();
    let route = |host: &mut Host| {
        let (path, source) = host.ip.route(None, address("192.168.9.9"), host.now)?;
        Ok((source, host.ip.path(path)))
    };
    other.ip.set_lease(id, lease.clone(), other.now);
    assert_eq!((route(&mut other), other.ip.lease(id)), (route(&mut first), lease.as_ref()));
    other.ip.set_lease(id, None, other.now);
    assert_eq!((route(&mut other), other.ip.addresses(id).count()), (Err(NoRoute), 0));
    other.ip.set_lease(id, lease, other.now);
    run(&mut other, 3700, |_| None);
    assert!(other.ip.lease(id).is_none() && route(&mut other).is_err(), "its end needs no other stack");
    first.ip.set_lease(id, None, first.now);
    assert!(first.ip.lease(id).is_some(), "that of the client");
}

#[test]
fn a_leased_address_of_another_host_is_declined() {
    let mut a = bare();
    a.ip.start_dhcp(InterfaceId(0), a.now);
    let declined = core::cell::Cell::new(0);
    run(&mut a, 10, |sent| {
        let ethernet = Ethernet::new(sent).ok()?;
        if let Some(probe) = wire::Arp::new(ethernet.payload()) {
            let theirs = (B, probe.target_ip());
            assert_eq!(
                (probe.sender_ip().is_unspecified(), address("10.0.0.5")),
                (true, probe.target_ip().into())
            );
            let reply = wire::arp_packet(wire::Arp::REPLY, theirs, (probe.sender_mac(), probe.sender_ip()));
            return Some(frame(probe.sender_mac(), B, EtherType::ARP, &reply));
        }
        let kind =
            Layers::of(sent).and_then(|layers| Dhcp::new(&sent[layers.transport + 8..])?.message_type());
        declined.set(declined.get() + u32::from(kind == Some(Dhcp::DECLINE)));
        serve(sent)
    });
    assert!(a.ip.lease(InterfaceId(0)).is_none() && !a.ip.is_local(address("10.0.0.5")));
    assert_eq!((declined.get(), a.counters.duplicate_addresses), (1, 1));
}

#[test]
fn a_lease_is_given_back() {
    let mut a = bare();
    assert!(a.ip.add_neighbour(InterfaceId(0), address("10.0.0.2"), B, a.now));
    a.ip.start_dhcp(InterfaceId(0), a.now);
    run(&mut a, 10, serve);
    a.ip.release_leases(a.now, &mut a.counters);
    let sent = a.output();
    let is_release = |sent: &Vec<u8>| {
        let layers = Layers::of(sent).filter(|layers| layers.protocol == protocol::UDP)?;
        (Dhcp::new(&sent[layers.transport + 8..])?.message_type() == Some(Dhcp::RELEASE)).then_some(())
    };
    assert_eq!(sent.iter().filter_map(is_release).count(), 1, "{sent:02x?}");
    assert!(a.ip.lease(InterfaceId(0)).is_none() && !a.ip.is_local(address("10.0.0.5")));
}

/// A Router Advertisement for `2001:db8::/64`.
fn advertisement() -> Vec<u8> {
    let mut message = vec![134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
    message.extend(B.octets());
    message.extend([3, 4, 64, 0xc0, 0, 0, 14, 16, 0, 0, 7, 8, 0, 0, 0, 0]);
    message.extend(address("2001:db8::").octets());
    let ends = (address("fe80::2"), address("ff02::1"));
    let packet = frames::icmp(ends, 255, &message);
    frame(interface::group_mac(ends.1), B, EtherType::IPV6, &packet)
}

#[test]
fn a_router_gives_addresses_and_a_route() {
    let mut a = bare();
    a.ip.start_slaac(InterfaceId(0), Identifier::Eui64, a.now);
    let solicited = |sent: &[u8]| (icmp_of(sent)?.1[0] == 133).then(advertisement);
    run(&mut a, 5, solicited);
    let own = [address("fe80::ff:fe00:1"), address("2001:db8::ff:fe00:1")];
    assert!(own.iter().all(|own| a.ip.is_local(*own)), "after duplicate address detection");
    let (path, source) = a.ip.route(None, address("2001:4860::1"), a.now).unwrap();
    assert_eq!(source, own[1]);
    let frame = a.fast(path, 6, &[]).unwrap();
    assert_eq!(Ethernet::new(&frame).unwrap().destination(), B, "the advertisement has the router's address");
    run(&mut a, 4000, |_| None);
    assert!(a.ip.is_local(own[0]) && !a.ip.is_local(own[1]));
    assert_eq!(a.ip.route(None, address("2001:4860::1"), a.now), Err(NoRoute));
}

/// RFC 4861 section 7.2.5: a router that advertises itself as a host is no default router any more.
#[test]
fn a_router_that_becomes_a_host_is_not_used() {
    let mut a = bare();
    a.ip.start_slaac(InterfaceId(0), Identifier::Eui64, a.now);
    run(&mut a, 5, |sent| (icmp_of(sent)?.1[0] == 133).then(advertisement));
    let ends = (address("fe80::2"), address("fe80::ff:fe00:1"));
    let other = MacAddress::new([2, 0, 0, 0, 0, 9]);
    for (mac, router, overrides, is_router) in
        [(B, true, true, true), (other, false, false, true), (B, false, false, false)]
    {
        let flags = wire::NaFlags { router, solicited: false, overrides };
        let message = wire::neighbor_advertisement((*ends.0.octets()).into(), mac, flags);
        a.receive(&frame(A, B, EtherType::IPV6, &frames::icmp(ends, 255, &message)));
        let route = a.ip.route(None, address("2001:4860::1"), a.now);
        assert_eq!(route.is_ok(), is_router, "{flags:?}");
    }
}

/// A claim of `own` by another host, in answer to a probe.
fn claim(own: Address) -> impl Fn(&[u8]) -> Option<Vec<u8>> {
    move |sent| {
        let flags = wire::NaFlags { overrides: true, ..wire::NaFlags::default() };
        let message = wire::neighbor_advertisement((*own.octets()).into(), B, flags);
        let ends = (own, address("ff02::1"));
        let packet = frames::icmp(ends, 255, &message);
        let answer = frame(interface::group_mac(ends.1), B, EtherType::IPV6, &packet);
        (icmp_of(sent)?.1[0] == 135).then_some(answer)
    }
}

#[test]
fn an_address_of_another_host_is_not_assigned() {
    let mut a = bare();
    a.ip.start_slaac(InterfaceId(0), Identifier::Eui64, a.now);
    let own = address("fe80::ff:fe00:1");
    run(&mut a, 5, claim(own));
    assert!(!a.ip.is_local(own));
    assert_eq!(a.counters.duplicate_addresses, 1);
}

#[test]
fn an_address_of_the_application_is_assigned_unless_another_host_has_it() {
    let mut a = bare();
    let [own, theirs] = ["fd00::7/64", "fd00::8/64"].map(|text| text.parse::<Cidr>().unwrap());
    a.ip.probe_address(InterfaceId(0), own, a.now);
    assert!(!a.ip.is_local(own.address), "tentative");
    run(&mut a, 3, |_| None);
    assert!(a.ip.is_local(own.address));
    a.ip.probe_address(InterfaceId(0), theirs, a.now);
    run(&mut a, 3, claim(theirs.address));
    assert!(!a.ip.is_local(theirs.address) && a.ip.deadline() > a.now);
    assert_eq!((a.counters.duplicate_addresses, a.ip.addresses(InterfaceId(0)).count()), (1, 1));
}
