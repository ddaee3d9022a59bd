//! Guarded moves: a guest cannot divert frames of another by sending from its address.

use crate::harness::{BROADCAST, Lab, SECOND, access, frame, gratuitous_arp, mac, rarp};
use bridge::{BridgeConfig, MacMoves, PortConfig};
use port::PortId;

const VICTIM: u64 = 2;

fn trusted() -> PortConfig {
    PortConfig { trusted: true, ..PortConfig::default() }
}

/// Station [`VICTIM`] is at port 1 of four default ports, and station 1 at port 0 has sent to it.
fn lab() -> Lab {
    let mut lab = Lab::plain(4);
    lab.send(1, &[frame(VICTIM, BROADCAST, None)]);
    lab.send(0, &[frame(1, VICTIM, None)]);
    lab
}

/// Checks that frames to the victim are sent to `port`.
#[track_caller]
fn reached(lab: &mut Lab, port: u16) {
    for worker in 0..2 {
        let fate = lab.send_by(worker, 0, &vec![frame(1, VICTIM, None); 32]);
        assert!(fate.sent.iter().all(|ports| ports.keys().eq([&port])), "{:?}", fate.sent);
    }
}

#[test]
fn spoofed_frames_do_not_move_an_address() {
    let mut lab = lab();
    let attempts = [
        frame(VICTIM, BROADCAST, None),
        frame(VICTIM, 1, None),
        frame(VICTIM, VICTIM, None),
        rarp(VICTIM),
        gratuitous_arp(VICTIM, [10, 0, 0, 2]),
    ];
    for attempt in attempts.into_iter().cycle().take(20) {
        assert_eq!(lab.loss(2, attempt), Some("mac-move-refused"));
        reached(&mut lab, 1);
    }
    let ports = &lab.switch.statistics()[0].ports;
    assert_eq!((ports[2].refused_moves, ports[2].moves, ports[1].refused_moves), (20, 0, 0));
}

#[test]
fn refused_moves_are_reported_once_per_second() {
    let mut lab = lab();
    lab.send(2, &vec![frame(VICTIM, BROADCAST, None); 60]);
    lab.now = SECOND;
    lab.send(2, &vec![frame(VICTIM, BROADCAST, None); 60]);
    let statistics = &lab.switch.statistics()[0];
    let seen: Vec<_> = statistics
        .refused_moves
        .iter()
        .map(|refused| (refused.mac, refused.vlan, refused.old_port, refused.new_port, refused.second))
        .collect();
    assert_eq!(seen, [(mac(VICTIM), 0, 1, 2, 0), (mac(VICTIM), 0, 1, 2, 1)]);
    assert_eq!(statistics.ports[2].refused_moves, 120);
}

#[test]
fn full_and_non_learning_ports_are_refused_moves() {
    for thief in [
        PortConfig { max_macs: Some(1), ..PortConfig::default() },
        PortConfig { learn: false, ..PortConfig::default() },
    ] {
        let mut lab = Lab::with([(1, PortConfig::default()), (2, thief)]);
        lab.send(1, &[frame(VICTIM, BROADCAST, None)]);
        lab.send(2, &[frame(9, BROADCAST, None)]);
        assert_eq!(lab.loss(2, frame(VICTIM, BROADCAST, None)), Some("mac-move-refused"));
    }
}

#[test]
fn move_protection_applies_per_vlan() {
    let mut lab = Lab::with([(0, access(10)), (1, access(10)), (2, access(10)), (3, access(20))]);
    lab.send(1, &[frame(VICTIM, BROADCAST, None)]);
    assert_eq!(lab.loss(2, frame(VICTIM, BROADCAST, None)), Some("mac-move-refused"));
    assert_eq!(lab.loss(3, frame(VICTIM, 77, None)), Some("no-destination"), "alone in its VLAN");
    assert_eq!(lab.ports(0, frame(1, VICTIM, None)), [1]);
}

#[test]
fn station_of_a_removed_port_moves_at_once() {
    let mut lab = lab();
    lab.switch.remove_port(PortId(1)).unwrap();
    assert_eq!(lab.ports(2, frame(VICTIM, 1, None)), [0]);
    reached(&mut lab, 2);
}

#[test]
fn station_of_a_disconnected_port_moves_at_once_and_is_protected() {
    let mut lab = lab();
    lab.stop(1);
    reached(&mut lab, 1);
    assert_eq!(lab.ports(2, frame(VICTIM, 1, None)), [0]);
    reached(&mut lab, 2);
    assert_eq!(lab.loss(3, frame(VICTIM, 1, None)), Some("mac-move-refused"));
}

#[test]
fn reconnected_peer_is_protected_again() {
    let mut lab = lab();
    lab.stop(1);
    lab.now += SECOND;
    lab.send(1, &[frame(VICTIM, 1, None)]);
    assert_eq!(lab.loss(2, frame(VICTIM, 1, None)), Some("mac-move-refused"));
    lab.stop(2);
    assert_eq!(lab.loss(2, frame(VICTIM, 1, None)), Some("mac-move-refused"), "stopping itself is no use");
}

#[test]
fn an_aged_station_moves() {
    let mut lab = lab();
    lab.now = 299 * SECOND;
    assert_eq!(lab.loss(2, frame(VICTIM, 1, None)), Some("mac-move-refused"));
    lab.now = 300 * SECOND;
    lab.send(0, &[frame(1, BROADCAST, None)]);
    assert_eq!(lab.ports(2, frame(VICTIM, 1, None)), [0]);
}

#[test]
fn rarp_of_a_front_end_moves_and_that_of_a_guest_does_not() {
    let mut lab = lab();
    assert_eq!(lab.loss(2, rarp(VICTIM)), Some("mac-move-refused"));
    assert!(lab.inject(1, 2, rarp(VICTIM)).lost.is_empty());
    reached(&mut lab, 2);
    let disguised = gratuitous_arp(VICTIM, [10, 0, 0, 2]);
    assert_eq!(
        lab.inject(1, 3, disguised).lost.get("mac-move-refused"),
        Some(&1),
        "only a reverse ARP announces"
    );
}

#[test]
fn rarp_of_a_trusted_port_moves_and_other_frames_do_not() {
    let plain = PortConfig::default;
    let mut lab = Lab::with([(0, plain()), (1, plain()), (2, trusted())]);
    lab.send(1, &[frame(VICTIM, BROADCAST, None)]);
    assert_eq!(lab.loss(2, frame(VICTIM, 1, None)), Some("mac-move-refused"));
    let mut forged = rarp(VICTIM);
    forged[22..28].copy_from_slice(&mac(99).octets());
    assert_eq!(lab.loss(2, forged), Some("mac-move-refused"), "it announces another");
    assert_eq!(lab.ports(2, rarp(VICTIM)), [0, 1]);
    reached(&mut lab, 2);
    assert_eq!(lab.loss(1, rarp(VICTIM)), Some("mac-move-refused"));
}

#[test]
fn an_announcement_does_not_move_a_static_entry() {
    let mut lab = lab();
    lab.switch.add_static("br0", mac(VICTIM), None, PortId(1)).unwrap();
    assert_eq!(lab.inject(0, 2, rarp(VICTIM)).lost.get("static-mac-violation"), Some(&1));
    reached(&mut lab, 1);
}

#[test]
fn stations_move_between_trusted_ports_or_if_configured() {
    let mut lab = Lab::with([(0, PortConfig::default()), (1, trusted()), (2, trusted())]);
    lab.send(1, &[frame(VICTIM, BROADCAST, None)]);
    lab.send(2, &[frame(VICTIM, BROADCAST, None)]);
    reached(&mut lab, 2);
    let free = BridgeConfig { mac_moves: MacMoves::Free, ..BridgeConfig::default() };
    let mut lab = Lab::configured(free, (0..3).map(|port| (port, PortConfig::default())));
    lab.send(1, &[frame(VICTIM, BROADCAST, None)]);
    lab.send(2, &[frame(VICTIM, BROADCAST, None)]);
    reached(&mut lab, 2);
}
