//! Learning, moves, ageing, flooding, limits, static entries, adding and removing ports.

use crate::harness::{BROADCAST, Lab, SECOND, frame, mac, raw_frame};
use bridge::{
    AddBridgeError, AddPortError, BridgeConfig, BridgeStatistics, MacMoves, PortConfig, Rate,
    RemoveBridgeError, RemoveStationError, Selection, SetBridgeError, StaticError, Station,
};
use engine::Now;
use port::PortId;
use std::collections::BTreeMap;
use wire::MacAddress;

#[test]
fn a_frame_to_an_unknown_station_is_flooded_and_the_reply_is_not() {
    let mut lab = Lab::plain(4);
    assert_eq!(lab.ports(0, frame(1, 2, None)), [1, 2, 3]);
    assert_eq!(lab.ports(2, frame(2, 1, None)), [0]);
    assert_eq!(lab.ports(0, frame(1, 2, None)), [2]);
    assert_eq!(lab.ports(1, frame(3, BROADCAST, None)), [0, 2, 3]);
}

#[test]
fn packet_flooded_to_a_single_port_is_marked_and_a_unicast_packet_is_not() {
    let mut lab = Lab::plain(2);
    for (from, frame, flooded) in
        [(0, frame(1, 2, None), true), (1, frame(2, 1, None), false), (0, frame(1, BROADCAST, None), true)]
    {
        assert_eq!(lab.ports(from, frame), [1 - from]);
        assert_eq!(lab.is_flooded(), flooded);
    }
}

#[test]
fn learned_address_is_known_to_all_workers() {
    let mut lab = Lab::plain(4);
    lab.send_by(0, 0, &[frame(1, 2, None)]);
    let reply = lab.send_by(1, 2, &[frame(2, 1, None)]);
    assert_eq!(reply.sent[0].keys().collect::<Vec<_>>(), [&0]);
}

#[test]
fn cached_flow_follows_a_move_within_the_burst() {
    let mut lab = Lab::free(3);
    lab.send(2, &[frame(4, BROADCAST, None)]);
    let known = [frame(5, 4, None), frame(5, 4, None)];
    (0..2).for_each(|_| assert_eq!(lab.send(1, &known).sent[1].keys().collect::<Vec<_>>(), [&2]));
    // Station 4 now sends from port 1, so packets to it from port 1 are not forwarded.
    let fate = lab.send(1, &[frame(4, 6, None), frame(5, 4, None)]);
    assert!(fate.sent[1].is_empty(), "{fate:?}");
}

#[test]
fn frame_to_its_input_port_is_dropped() {
    let mut lab = Lab::plain(3);
    lab.send(0, &[frame(1, BROADCAST, None), frame(2, BROADCAST, None)]);
    assert_eq!(lab.loss(0, frame(1, 2, None)), Some("no-destination"));
}

#[test]
fn invalid_sources_short_frames_and_reserved_groups_are_dropped_by_reason() {
    let mut lab = Lab::plain(3);
    let group = MacAddress::new([1, 0, 0x5e, 0, 0, 1]);
    let reserved = MacAddress::new([1, 0x80, 0xc2, 0, 0, 0xe]);
    assert_eq!(lab.loss(0, raw_frame(group, mac(1), None)), Some("bad-source"));
    assert_eq!(lab.loss(0, raw_frame(MacAddress::ZERO, mac(1), None)), Some("bad-source"));
    assert_eq!(lab.loss(0, frame(1, 2, None)[..13].to_vec()), Some("too-short"));
    assert_eq!(lab.loss(0, Vec::new()), Some("too-short"));
    assert_eq!(lab.loss(0, raw_frame(mac(1), reserved, None)), Some("no-destination"));
    assert_eq!(lab.loss(9, frame(1, 2, None)), Some("no-destination"), "a port of no bridge");
    assert_eq!(lab.ports(0, frame(1, 2, None)[..14].to_vec()), [1, 2]);
}

#[test]
fn reserved_groups_are_flooded_if_configured() {
    let config = BridgeConfig { forward_reserved: true, ..BridgeConfig::default() };
    let mut lab = Lab::configured(config, (0..3).map(|port| (port, PortConfig::default())));
    let reserved = MacAddress::new([1, 0x80, 0xc2, 0, 0, 0xe]);
    assert_eq!(lab.ports(0, raw_frame(mac(1), reserved, None)), [1, 2]);
}

#[test]
fn station_move_is_followed_at_once_with_cached_flows() {
    let mut lab = Lab::free(3);
    lab.send(1, &[frame(2, 1, None)]);
    lab.send(0, &[frame(1, 2, None)]);
    assert_eq!(lab.ports(0, frame(1, 2, None)), [1]);
    lab.send_by(1, 2, &[frame(2, 1, None)]);
    assert_eq!(lab.ports(0, frame(1, 2, None)), [2]);
    assert_eq!(lab.switch.statistics()[0].ports[2].moves, 1);
}

#[test]
fn station_move_to_the_sender_applies_within_the_burst() {
    let mut lab = Lab::free(3);
    lab.send(1, &[frame(2, BROADCAST, None)]);
    let fate = lab.send(0, &[frame(1, 2, None), frame(2, BROADCAST, None), frame(1, 2, None)]);
    let ports: Vec<usize> = fate.sent.iter().map(BTreeMap::len).collect();
    assert_eq!((ports, fate.lost.get("no-destination")), (vec![1, 2, 0], Some(&1)));
}

#[test]
fn aged_station_is_relearned_within_the_burst() {
    let mut lab = Lab::plain(3);
    lab.send(0, &[frame(2, BROADCAST, None)]);
    lab.now = 300 * SECOND;
    let fate = lab.send(0, &[frame(3, 2, None), frame(2, 2, None)]);
    assert_eq!((fate.sent[0].len(), fate.sent[1].len()), (2, 0));
}

#[test]
fn silent_station_ages_and_active_one_does_not() {
    let mut lab = Lab::plain(3);
    lab.send(1, &[frame(2, BROADCAST, None)]);
    for second in 0..299 {
        lab.now = second * SECOND;
        assert_eq!(lab.ports(0, frame(1, 2, None)), [1], "second {second}");
    }
    lab.now = 300 * SECOND;
    assert_eq!(lab.ports(0, frame(1, 2, None)), [1, 2]);
    assert_eq!(lab.ports(2, frame(3, 1, None)), [0]);
}

#[test]
fn traffic_of_any_port_sweeps_aged_entries() {
    let mut lab = Lab::plain(3);
    for station in 10..500 {
        lab.send(1, &[frame(station, BROADCAST, None)]);
    }
    assert_eq!(lab.switch.statistics()[0].stations, 490);
    for second in 300..380 {
        lab.now = second * SECOND;
        (0..10).for_each(|_| _ = lab.send(0, &[frame(1, BROADCAST, None)]));
    }
    assert_eq!(lab.switch.statistics()[0].stations, 1);
}

#[test]
fn flood_limits_apply_per_kind_and_refill() {
    let limited = PortConfig {
        broadcast_limit: Rate::new(10, 3),
        unknown_limit: Rate::new(10, 5),
        ..PortConfig::default()
    };
    let mut lab = Lab::with([(0, limited), (1, PortConfig::default())]);
    lab.now = SECOND;
    let fate = lab.send(0, &vec![frame(1, BROADCAST, None); 20]);
    assert_eq!(fate.lost.into_iter().collect::<Vec<_>>(), [("broadcast-limit", 17)]);
    let fate = lab.send(0, &vec![frame(1, 9, None); 20]);
    assert_eq!(fate.lost.into_iter().collect::<Vec<_>>(), [("unknown-limit", 15)]);
    lab.send(1, &[frame(2, BROADCAST, None)]);
    assert!(lab.send(0, &vec![frame(1, 2, None); 60]).lost.is_empty(), "known stations have no limit");
    lab.now += SECOND / 10;
    assert_eq!(lab.send_by(1, 0, &vec![frame(1, BROADCAST, None); 20]).lost["broadcast-limit"], 19);
}

#[test]
fn static_station_is_dropped_elsewhere_and_reached_at_its_port() {
    let mut lab = Lab::plain(3);
    lab.send(0, &[frame(1, BROADCAST, None)]);
    lab.send(1, &[frame(2, 1, None)]);
    assert_eq!(lab.ports(1, frame(2, 1, None)), [0]);
    lab.switch.add_static("br0", mac(1), None, PortId(2)).unwrap();
    assert_eq!(lab.ports(1, frame(2, 1, None)), [2]);
    assert_eq!(lab.loss(0, frame(1, 2, None)), Some("static-mac-violation"));
    assert_eq!(lab.ports(2, frame(1, 2, None)), [1]);
    lab.now = 1_000_000 * SECOND;
    assert_eq!(lab.ports(1, frame(2, 1, None)), [2]);
    lab.switch.remove_static("br0", mac(1), None).unwrap();
    assert_eq!(lab.ports(1, frame(2, 1, None)), [0, 2]);
}

#[test]
fn port_removal_flushes_its_own_stations_only() {
    let mut lab = Lab::plain(4);
    (0..4).for_each(|port| _ = lab.send(port, &[frame(u64::from(port), BROADCAST, None)]));
    assert_eq!(lab.ports(0, frame(0, 2, None)), [2]);
    lab.switch.add_static("br0", mac(77), None, PortId(2)).unwrap();
    lab.switch.remove_port(PortId(2)).unwrap();
    assert_eq!(lab.ports(0, frame(0, 2, None)), [1, 3]);
    assert_eq!(lab.ports(0, frame(0, 77, None)), [1, 3]);
    assert_eq!(lab.ports(0, frame(0, 3, None)), [3]);
    assert_eq!(lab.loss(2, frame(2, 0, None)), Some("no-destination"));
    lab.switch.add_port(PortId(2), "br0", &PortConfig::default()).unwrap();
    assert_eq!(lab.ports(0, frame(0, 2, None)), [1, 2, 3]);
}

#[test]
fn bridges_are_isolated() {
    let mut lab = Lab::plain(2);
    lab.switch.add_bridge("br1", BridgeConfig::default()).unwrap();
    (4..6).for_each(|port| lab.switch.add_port(PortId(port), "br1", &PortConfig::default()).unwrap());
    assert_eq!(lab.ports(0, frame(1, BROADCAST, None)), [1]);
    assert_eq!(lab.ports(4, frame(2, 1, None)), [5]);
    assert_eq!(lab.ports(1, frame(3, 2, None)), [0]);
    lab.switch.remove_port(PortId(0)).unwrap();
    lab.switch.add_port(PortId(0), "br1", &PortConfig::default()).unwrap();
    assert_eq!(lab.ports(1, frame(3, 1, None)), Vec::<u16>::new());
    assert_eq!(lab.ports(0, frame(1, 2, None)), [4]);
}

#[test]
fn flush_removes_learned_and_keeps_static_entries() {
    let mut lab = Lab::plain(3);
    lab.send(1, &[frame(2, BROADCAST, None)]);
    lab.send(2, &[frame(3, BROADCAST, None)]);
    lab.switch.add_static("br0", mac(4), None, PortId(1)).unwrap();
    let at = |port| Selection { port: Some(PortId(port)), vlan: None };
    assert_eq!(lab.switch.flush("br0", at(1)), Ok(1));
    assert_eq!(lab.ports(0, frame(1, 2, None)), [1, 2]);
    assert_eq!(lab.ports(0, frame(1, 3, None)), [2]);
    assert_eq!(lab.switch.flush("br0", Selection { vlan: Some(9), ..Selection::default() }), Ok(0));
    assert_eq!(lab.switch.flush("br0", Selection::default()), Ok(2), "stations 1 and 3");
    assert_eq!(lab.ports(0, frame(1, 3, None)), [1, 2]);
    assert_eq!(lab.ports(0, frame(1, 4, None)), [1]);
}

#[test]
fn forget_removes_a_learned_or_static_station() {
    let mut lab = Lab::plain(3);
    lab.send(1, &[frame(2, BROADCAST, None)]);
    lab.switch.add_static("br0", mac(4), None, PortId(1)).unwrap();
    assert_eq!(lab.ports(0, frame(1, 2, None)), [1]);
    lab.switch.forget("br0", mac(2), 0).unwrap();
    assert_eq!(lab.ports(0, frame(1, 2, None)), [1, 2], "a remembered answer must not outlive its station");
    lab.switch.forget("br0", mac(4), 0).unwrap();
    assert_eq!(lab.ports(0, frame(1, 4, None)), [1, 2]);
    let missing = lab.switch.forget("br0", mac(4), 0).unwrap_err();
    assert!(missing.to_string().contains("does not know 52:54:00:00:00:04"), "{missing}");
    assert!(matches!(lab.switch.forget("br7", mac(1), 0), Err(RemoveStationError::Unknown(_))));
    assert_eq!(lab.ports(2, frame(3, 1, None)), [0], "the others stay");
    lab.send(1, &[frame(2, BROADCAST, None)]);
    assert_eq!(lab.ports(0, frame(1, 2, None)), [1], "and it is learned again");
}

#[test]
fn listing_has_address_port_age_and_kind_in_json() {
    let mut lab = Lab::plain(3);
    lab.now = 5 * SECOND;
    lab.send(1, &[frame(2, BROADCAST, None)]);
    lab.switch.add_static("br0", mac(1), None, PortId(2)).unwrap();
    let stations = lab.switch.stations("br0", Now(9 * SECOND)).unwrap();
    let pinned = Station { mac: mac(1), vlan: 0, port: 2, age_seconds: None, pinned: true };
    let learned = Station { mac: mac(2), vlan: 0, port: 1, age_seconds: Some(4), pinned: false };
    assert_eq!(stations, [pinned, learned]);
    let json = serde_json::to_string(&stations).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Station>>(&json).unwrap(), stations);
    assert!(json.contains(r#""mac":"52:54:00:00:00:01","vlan":0,"port":2,"age_seconds":null,"static":true"#));
    assert_eq!(lab.switch.stations("br0", Now(400 * SECOND)).unwrap().len(), 1);

    let statistics = lab.switch.statistics();
    assert_eq!((statistics[0].stations, statistics[0].static_entries), (2, 1));
    assert_eq!((statistics[0].ports[1].learned, statistics[0].ports[2].static_entries), (1, 1));
    let json = serde_json::to_string(&statistics).unwrap();
    assert_eq!(serde_json::from_str::<Vec<BridgeStatistics>>(&json).unwrap(), statistics);
}

#[test]
fn settings_of_a_bridge_change_while_packets_are_forwarded() {
    let mut lab = Lab::plain(3);
    let reserved = MacAddress::new([1, 0x80, 0xc2, 0, 0, 0xe]);
    lab.send(1, &[frame(2, BROADCAST, None)]);
    assert_eq!(lab.ports(0, frame(1, 2, None)), [1]);
    assert_eq!(lab.loss(2, frame(2, 1, None)), Some("mac-move-refused"));
    assert_eq!(lab.loss(0, raw_frame(mac(1), reserved, None)), Some("no-destination"));
    let config = BridgeConfig {
        ageing_seconds: 10,
        mac_moves: MacMoves::Free,
        forward_reserved: true,
        ..BridgeConfig::default()
    };
    lab.switch.set_bridge("br0", &config).unwrap();
    assert_eq!(lab.ports(0, raw_frame(mac(1), reserved, None)), [1, 2]);
    assert_eq!(lab.ports(0, frame(1, 2, None)), [1], "stations stay");
    assert_eq!(lab.ports(2, frame(2, 1, None)), [0]);
    assert_eq!(lab.ports(0, frame(1, 2, None)), [2], "and move");
    lab.now = 10 * SECOND;
    assert_eq!(lab.ports(0, frame(1, 2, None)), [1, 2], "and age");
    assert_eq!(lab.switch.statistics()[0].ageing_seconds, 10);
    lab.switch.set_bridge("br0", &BridgeConfig::default()).unwrap();
    assert_eq!(lab.loss(0, raw_frame(mac(1), reserved, None)), Some("no-destination"));
}

#[test]
fn limit_of_stations_changes_while_packets_are_forwarded() {
    let mut lab = Lab::plain(2);
    let limit = |lab: &Lab, port, max_macs| {
        let config = PortConfig { max_macs, ..PortConfig::default() };
        lab.switch.limit_stations(PortId(port), &config);
    };
    let learned = |lab: &mut Lab| {
        lab.send(0, &[frame(1, BROADCAST, None), frame(2, BROADCAST, None)]);
        let port = &lab.switch.statistics()[0].ports[0];
        (port.learned, port.max_macs)
    };
    limit(&lab, 0, Some(1));
    assert_eq!(learned(&mut lab), (1, 1));
    limit(&lab, 0, None);
    assert_eq!(learned(&mut lab), (2, 65_536 / 4));
    limit(&lab, 0, Some(1));
    limit(&lab, 9, Some(1));
    assert_eq!(learned(&mut lab), (2, 1), "a port keeps what it has");
}

#[test]
fn invalid_change_is_rejected_without_effect() {
    let lab = Lab::plain(2);
    let switch = &lab.switch;
    let tiny = BridgeConfig { capacity: 15, ..BridgeConfig::default() };
    let hasty = BridgeConfig { ageing_seconds: 9, ..BridgeConfig::default() };
    assert!(matches!(switch.add_bridge("br1", tiny), Err(AddBridgeError::Capacity { capacity: 15, .. })));
    assert!(matches!(
        switch.add_bridge("br1", hasty.clone()),
        Err(AddBridgeError::Ageing { seconds: 9, .. })
    ));
    assert!(matches!(switch.add_bridge("br0", BridgeConfig::default()), Err(AddBridgeError::Exists(_))));
    let snooping = BridgeConfig { dhcp_snooping: true, ..BridgeConfig::default() };
    assert!(matches!(switch.set_bridge("br0", &hasty), Err(SetBridgeError::Ageing { seconds: 9, .. })));
    assert!(matches!(switch.set_bridge("br0", &snooping), Err(SetBridgeError::Fixed(_))));
    assert!(matches!(switch.set_bridge("br1", &snooping), Err(SetBridgeError::Unknown(_))));
    assert!(matches!(switch.remove_bridge("br0"), Err(RemoveBridgeError::InUse { ports: 2, .. })));
    let add = |port, bridge| switch.add_port(PortId(port), bridge, &PortConfig::default());
    assert!(matches!(add(5, "br1"), Err(AddPortError::Unknown(_))));
    assert!(matches!(add(1, "br0"), Err(AddPortError::Member { .. })));
    assert!(matches!(add(16, "br0"), Err(AddPortError::OutOfRange { ports: 16, .. })));
    let pin = |mac, port| switch.add_static("br0", mac, None, PortId(port));
    assert!(matches!(pin(mac(1), 7), Err(StaticError::NoMember { .. })));
    assert!(matches!(pin(MacAddress::BROADCAST, 1), Err(StaticError::NoStation(_))));
    assert!(matches!(switch.remove_static("br0", mac(1), None), Err(StaticError::Missing { .. })));
    assert!(switch.remove_port(PortId(5)).is_err() && switch.flush("br1", Selection::default()).is_err());
    assert_eq!(switch.statistics().len(), 1);
    assert_eq!(switch.statistics()[0].stations, 0);
}

#[test]
fn empty_bridge_can_be_removed_and_readded() {
    let lab = Lab::plain(0);
    lab.switch.remove_bridge("br0").unwrap();
    assert!(lab.switch.statistics().is_empty());
    lab.switch.add_bridge("br0", BridgeConfig::default()).unwrap();
    lab.switch.add_port(PortId(0), "br0", &PortConfig::default()).unwrap();
}
