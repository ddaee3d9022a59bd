use super::*;
use proptest::prelude::*;
use std::net::IpAddr;
use std::time::Duration;
use wire::MacAddress;

fn mac(n: u64) -> MacAddress {
    MacAddress::from_u64(n)
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn full() -> Lldpdu {
    Lldpdu {
        chassis: Id::chassis(mac(0x0200_0000_0001)),
        port: Id::interface("red"),
        ttl: 121,
        port_description: Some("port red".into()),
        system_name: Some("host".into()),
        system_description: Some("linerate".into()),
        capabilities: Some(Capabilities { supported: Capabilities::BRIDGE, enabled: Capabilities::BRIDGE }),
        management: vec![IpAddr::from([192, 0, 2, 1]), "2001:db8::1".parse().unwrap()],
        port_vlan: Some(10),
        vlans: vec![Vlan { id: 10, name: "ten".into() }, Vlan { id: 20, name: "twenty".into() }],
    }
}

#[test]
fn an_lldpdu_is_decoded_as_it_was_encoded() {
    let minimal = Lldpdu { chassis: Id::chassis(mac(1)), port: Id::interface("a"), ..Lldpdu::default() };
    for lldpdu in [full(), minimal] {
        assert_eq!(Lldpdu::decode(&lldpdu.encode(mac(2))), Ok(lldpdu));
    }
    let text = (full().chassis.chassis_text(), full().port.port_text(), full().to_string());
    assert_eq!((text.0.as_str(), text.1.as_str()), ("02:00:00:00:00:01", "red"));
    assert_eq!(text.2, "02:00:00:00:00:01 port red");
    assert_eq!(full().capabilities.unwrap().names().collect::<Vec<_>>(), ["bridge"]);
}

#[test]
fn invalid_frames_are_errors() {
    let frame = full().encode(mac(2));
    assert_eq!(Lldpdu::decode(&frame[..10]), Err(LldpError::NotLldp));
    assert_eq!(Lldpdu::decode(&[&[2; 6], &frame[6..]].concat()), Err(LldpError::NotLldp));
    assert_eq!(Lldpdu::decode(&frame[..20]), Err(LldpError::Cut));
    assert_eq!(Lldpdu::decode(&frame[..14]), Err(LldpError::Mandatory(1)));
    // The port comes first.
    let swapped = [&frame[..14], &frame[23..29], &frame[14..23], &frame[29..]].concat();
    assert_eq!(Lldpdu::decode(&swapped), Err(LldpError::Mandatory(1)));
    let twice = [&frame[..33], &frame[14..23], &frame[33..]].concat();
    assert_eq!(Lldpdu::decode(&twice), Err(LldpError::Twice(1)));
    assert_eq!(Lldpdu::decode(&[&frame[..], &[0; 1500]].concat()), Err(LldpError::TooLong));
}

#[test]
fn control_characters_of_neighbors_are_removed() {
    let frame = Lldpdu { system_name: Some("a\u{1b}[31mb\n".into()), ..full() }.encode(mac(2));
    assert_eq!(Lldpdu::decode(&frame).unwrap().system_name.unwrap(), "a[31mb");
}

#[test]
fn many_vlans_fit_into_one_frame() {
    let vlans = (1..200).map(|id| Vlan { id, name: format!("a name of VLAN {id}") }).collect();
    let frame = Lldpdu { vlans, ..full() }.encode(mac(2));
    assert!(frame.len() <= MAX_FRAME);
    assert!(Lldpdu::decode(&frame).unwrap().vlans.len() > 40);
}

/// Times at which a port sends, in a run of `until` seconds with ticks at the announced times.
fn sent(agent: &mut Agent, from: u64, until: u64) -> Vec<u64> {
    let (mut now, mut times) = (seconds(from), Vec::new());
    while now < seconds(until) {
        let next = agent.tick(now).expect("a timer runs");
        times.extend(agent.take_frames().iter().map(|_| now.as_secs()));
        assert!(next > now, "time advances");
        now = next;
    }
    times
}

fn agent() -> Agent {
    let mut agent = Agent::new(mac(2));
    agent.add_port(1, Lldpdu { ttl: 0, ..full() });
    agent.set_link(1, true, Duration::ZERO);
    agent
}

#[test]
fn a_new_link_and_a_new_neighbor_start_fast() {
    let mut agent = agent();
    assert_eq!(sent(&mut agent, 0, 70), [0, 1, 2, 3, 33, 63]);
    agent.receive(1, &full().encode(mac(3)), seconds(70));
    assert_eq!(sent(&mut agent, 70, 110), [70, 71, 72, 73, 103]);
    agent.receive(1, &full().encode(mac(3)), seconds(110));
    assert_eq!(sent(&mut agent, 110, 130), [] as [u64; 0], "it is known");
}

#[test]
fn neighbors_leave_with_time_to_live_shutdown_and_link() {
    let mut agent = agent();
    let with = |port: &str, ttl| Lldpdu { port: Id::interface(port), ttl, ..full() }.encode(mac(3));
    let ports =
        |agent: &Agent| agent.neighbors().map(|(_, known)| known.lldpdu.port.port_text()).collect::<Vec<_>>();
    agent.receive(1, &with("a", 5), seconds(1));
    agent.receive(1, &with("b", 9), seconds(1));
    agent.receive(1, &with("c", 9), seconds(1));
    agent.receive(1, &with("c", 0), seconds(2));
    assert_eq!(ports(&agent), ["a", "b"]);
    agent.tick(seconds(6));
    assert_eq!((ports(&agent), agent.counts(1).unwrap().aged), (vec!["b".to_owned()], 1));
    agent.set_link(1, false, seconds(7));
    assert_eq!((ports(&agent).len(), agent.tick(seconds(8))), (0, None));
    agent.receive(1, &with("a", 5), seconds(8));
    assert_eq!(ports(&agent).len(), 0, "the link is down");
}

#[test]
fn a_flood_of_neighbors_is_bounded_and_costs_one_frame_a_second() {
    let mut agent = agent();
    for n in 0..100 {
        let lldpdu = Lldpdu { chassis: Id::chassis(mac(n)), ..full() };
        agent.receive(1, &lldpdu.encode(mac(3)), seconds(1));
        agent.tick(seconds(1));
    }
    let counts = agent.counts(1).unwrap();
    assert_eq!((agent.neighbors().count(), counts.refused), (MAX_NEIGHBORS, 100 - MAX_NEIGHBORS as u64));
    assert!(agent.take_frames().len() <= 5);
    agent.receive(1, &[0; 60], seconds(1));
    assert_eq!(agent.counts(1).unwrap().invalid, 1);
}

#[test]
fn a_removed_port_says_good_bye() {
    let mut agent = agent();
    agent.remove_port(1);
    let frames = agent.take_frames();
    let [(1, frame)] = frames.as_slice() else { panic!("one frame") };
    assert_eq!(Lldpdu::decode(frame).unwrap().ttl, 0);
    assert_eq!(agent.counts(1), None);
}

proptest! {
    #[test]
    fn arbitrary_texts_and_addresses_survive(
        name in "[^\\p{Cc}]{0,80}", ttl: u16, vlan in proptest::option::of(0_u16..4095), address: u128, supported: u16,
    ) {
        let lldpdu = Lldpdu {
            system_name: Some(name.chars().take(60).collect()),
            ttl,
            port_vlan: vlan,
            management: vec![std::net::Ipv6Addr::from(address).into()],
            capabilities: Some(Capabilities { supported, enabled: !supported }),
            ..full()
        };
        prop_assert_eq!(Lldpdu::decode(&lldpdu.encode(mac(2))), Ok(lldpdu));
    }

    #[test]
    fn arbitrary_bytes_are_survived(script in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz::fuzz_frame(&script);
        fuzz::fuzz_frame(&[&full().encode(mac(2))[14..], &script].concat());
    }
}
