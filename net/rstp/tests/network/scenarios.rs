//! Behaviour that the standard promises, one network each.

use crate::simulation::Network;
use rstp::{
    Bpdu, BridgeConfig, Edge, Event, Flags, Parameters, PortConfig, Protocol, Role, State, Times, Vector,
};
use std::time::Duration;
use wire::MacAddress;

fn rapid(n: usize) -> Vec<BridgeConfig> {
    vec![BridgeConfig::default(); n]
}

#[test]
fn a_rapid_ring_blocks_one_port_and_recovers_at_once() {
    let mut network = Network::ring(&rapid(5));
    assert!(network.converge(3) <= 3);
    let alternates = (0..5).flat_map(|bridge| (1..=2).map(move |port| (bridge, port)));
    let alternates: Vec<_> = alternates
        .filter(|(bridge, port)| network.bridges[*bridge].port_status(*port).unwrap().role == Role::Alternate)
        .collect();
    assert_eq!(alternates.len(), 1, "{alternates:?}");
    network.run(30);
    network.flushed.clear();
    // Of the root.
    network.set_link(0, false);
    assert_eq!(network.converge(3), 0, "proposals and agreements need no timer");
    assert!(!network.flushed.is_empty());
    network.set_link(0, true);
    assert!(network.converge(3) <= 3);
}

#[test]
fn stp_waits_for_two_forward_delays() {
    let config = BridgeConfig { protocol: Protocol::Stp, ..BridgeConfig::default() };
    let mut network = Network::ring(&[config; 3]);
    network.run(15);
    assert!(network.states.values().all(|state| *state == State::Discarding));
    network.converge(36);
    network.run(60);
    // The link between the two that are not the root is blocked.
    let blocked = network.states.iter().filter(|(_, state)| **state == State::Discarding);
    assert_eq!(blocked.count(), 1);
    network.flushed.clear();
    network.set_link(0, false);
    let seconds = network.converge(55);
    assert!(seconds >= 15, "{seconds}");
    assert!(!network.flushed.is_empty());
}

#[test]
fn a_rapid_bridge_speaks_stp_with_an_old_neighbour_and_returns() {
    let old = BridgeConfig { protocol: Protocol::Stp, priority: 0, ..BridgeConfig::default() };
    let mut network = Network::new(&[old, BridgeConfig::default(), BridgeConfig::default()]);
    network.connect(0, 1, PortConfig::default());
    network.connect(1, 2, PortConfig::default());
    network.converge(60);
    let is_rapid = |network: &Network, port| network.bridges[1].port_status(port).unwrap().rapid;
    assert!(!is_rapid(&network, 1) && is_rapid(&network, 2));
    assert_eq!(network.bridges[2].status().root.address(), MacAddress::from_u64(0x10));
    let frame = Bpdu::Rapid(Parameters {
        flags: Flags(Flags::DESIGNATED),
        vector: Vector { root: network.bridges[0].status().id, ..Vector::default() },
        times: Times { message_age: 0, max_age: 20, hello: 2, forward_delay: 15 },
    });
    network.bridges[1].receive(1, &frame.encode(MacAddress::from_u64(9)));
    assert!(is_rapid(&network, 1), "a BPDU of RSTP ends the migration");
}

#[test]
fn edges_forward_and_a_guard_stops_a_port_until_its_link_was_down() {
    let mut network = Network::new(&rapid(2));
    let edge = network.add_port(0, PortConfig { edge: Edge::Yes, ..PortConfig::default() });
    let auto = network.add_port(0, PortConfig::default());
    let guarded = network.add_port(0, PortConfig { bpdu_guard: true, ..PortConfig::default() });
    for (bridge, port) in [edge, auto, guarded] {
        network.bridges[bridge].set_link(port, true);
    }
    network.run(1);
    assert_eq!((network.states[&edge], network.states[&auto]), (State::Forwarding, State::Discarding));
    network.run(4);
    assert_eq!((network.states[&auto], network.states[&guarded]), (State::Forwarding, State::Forwarding));
    let topology_changes = network.bridges[0].status().topology_changes;
    assert_eq!(topology_changes, 0, "hosts do not change the topology");
    let bpdu = Bpdu::TopologyChange.encode(MacAddress::from_u64(7));
    network.bridges[0].receive(guarded.1, &bpdu);
    network.run(1);
    assert_eq!((network.states[&guarded], network.guarded.len()), (State::Discarding, 1));
    network.bridges[0].set_link(guarded.1, false);
    network.bridges[0].set_link(guarded.1, true);
    network.run(5);
    assert_eq!(network.states[&guarded], State::Forwarding);
}

/// After the root has vanished, its information ages by one with each bridge, and ends.
#[test]
fn information_of_a_vanished_root_ends_at_the_maximum_age() {
    let mut configs = rapid(6);
    configs[0].priority = 0;
    let mut network = Network::new(&configs);
    let uplink = network.connect(0, 1, PortConfig::default());
    for i in 1..6 {
        network.connect(i, if i == 5 { 1 } else { i + 1 }, PortConfig::default());
    }
    network.connect(2, 5, PortConfig::default());
    network.converge(5);
    network.run(20);
    let before = network.frames;
    network.set_link(uplink, false);
    let seconds = network.converge(25);
    let limit = 14 * (6 + seconds as usize);
    assert!(network.frames - before < limit, "{} frames in {seconds} s", network.frames - before);
}

#[test]
fn own_and_invalid_bpdus_are_counted_and_ignored() {
    let mut network = Network::new(&rapid(1));
    let (bridge, port) = network.add_port(0, PortConfig::default());
    let bridge = &mut network.bridges[bridge];
    bridge.set_link(port, true);
    let sent = bridge.take_events().into_iter().find_map(|event| match event {
        Event::Send(_, frame) => Some(frame),
        _ => None,
    });
    bridge.receive(port, &*sent.unwrap());
    bridge.receive(port, &[1; 60]);
    bridge.receive(9, &[1; 60]);
    let counts = bridge.port_status(port).unwrap().counts;
    assert_eq!((counts.received, counts.invalid, counts.sent > 0), (0, 2, true));
    assert_eq!(bridge.tick(Duration::from_secs(1_000_000)), Duration::from_secs(1_000_001));
}
