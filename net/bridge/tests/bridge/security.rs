//! Port security: allowed addresses, sources and leases, with several ports.

use crate::harness::{BROADCAST, Lab, SECOND, access, frame, mac, rarp, trunk};
use bridge::{AddPortError, BridgeConfig, PortConfig, Selection, StaticError};
use port::{Now, PortId};

fn plain() -> PortConfig {
    PortConfig::default()
}

fn owner(stations: &[u64]) -> PortConfig {
    PortConfig { macs: stations.iter().copied().map(mac).collect(), ..plain() }
}

fn sources(list: &[&str]) -> PortConfig {
    let sources = list.iter().map(|text| text.parse().expect("an allowed source")).collect();
    PortConfig { sources: Some(sources), ..plain() }
}

#[test]
fn configured_macs_are_exclusive_to_their_port() {
    let mut lab = Lab::with([(0, plain()), (1, owner(&[1, 2])), (2, plain())]);
    assert_eq!(lab.ports(1, frame(1, BROADCAST, None)), [0, 2]);
    assert_eq!(lab.loss(1, frame(3, BROADCAST, None)), Some("mac-violation"));
    assert_eq!(lab.inject(0, 1, rarp(3)).lost.get("mac-violation"), Some(&1), "its front end neither");
    // It has not sent from address 2 yet.
    assert_eq!(lab.ports(0, frame(9, 2, None)), [1]);
    lab.now = 1_000_000 * SECOND;
    assert_eq!(lab.loss(2, frame(2, BROADCAST, None)), Some("static-mac-violation"));
    assert_eq!(lab.ports(0, frame(9, 2, None)), [1]);
}

#[test]
fn owned_address_is_learned_at_no_other_port() {
    let wide = PortConfig { macs: vec![mac(1)], ..trunk("1-4000", Some(5)) };
    let mut lab = Lab::with([(0, trunk("1-4000", None)), (1, wide), (2, access(7))]);
    lab.send(2, &[frame(1, BROADCAST, None)]);
    assert_eq!(lab.ports(0, frame(9, 1, Some(7))), [1, 2], "nothing was learned");
    assert_eq!(lab.ports(0, frame(9, 1, Some(5))), [1], "the untagged VLAN has a static entry");
    let narrow = PortConfig { macs: vec![mac(3)], ..trunk("7,8", None) };
    lab.switch.add_port(PortId(3), "br0", &narrow).unwrap();
    assert_eq!((lab.ports(0, frame(9, 3, Some(7))), lab.ports(0, frame(9, 3, Some(8)))), (vec![3], vec![3]));
}

#[test]
fn late_owner_reclaims_its_address_until_removed() {
    let mut lab = Lab::plain(2);
    lab.send(1, &[frame(5, BROADCAST, None)]);
    lab.switch.add_port(PortId(3), "br0", &owner(&[5])).unwrap();
    assert_eq!(lab.ports(0, frame(1, 5, None)), [3]);
    assert_eq!(lab.loss(1, frame(5, BROADCAST, None)), Some("static-mac-violation"));
    lab.switch.remove_port(PortId(3)).unwrap();
    assert_eq!(lab.ports(1, frame(5, 1, None)), [0]);
}

#[test]
fn invalid_owned_addresses_are_rejected_without_effect() {
    let lab = Lab::with([(0, plain()), (1, owner(&[1]))]);
    let add = |config: &PortConfig| lab.switch.add_port(PortId(2), "br0", config).unwrap_err();
    let taken = |port, owner| matches!(port, AddPortError::MacTaken { owner: PortId(at), .. } if at == owner);
    assert!(taken(add(&owner(&[7, 1])), 1));
    lab.switch.add_static("br0", mac(8), None, PortId(0)).unwrap();
    assert!(taken(add(&owner(&[8])), 0), "an operator's static entry stays");
    assert!(matches!(add(&owner(&[BROADCAST])), AddPortError::NoStation { .. }));
    assert!(matches!(add(&owner(&(0..65).collect::<Vec<_>>())), AddPortError::TooLong { entries: 65, .. }));
    assert!(matches!(add(&sources(&["dhcp"])), AddPortError::NoSnooping { .. }));
    let pinned = lab.switch.add_static("br0", mac(1), None, PortId(0));
    assert!(matches!(pinned, Err(StaticError::Reserved { owner: PortId(1), .. })));
    assert_eq!(lab.switch.statistics()[0].ports.len(), 2);
    lab.switch.add_port(PortId(2), "br0", &owner(&[7])).unwrap();
}

#[test]
fn port_is_rejected_if_its_addresses_do_not_fit() {
    let small = BridgeConfig { capacity: 16, ..BridgeConfig::default() };
    let lab = Lab::configured(small, [(0, plain())]);
    let error = lab.switch.add_port(PortId(1), "br0", &owner(&(1..60).collect::<Vec<_>>())).unwrap_err();
    assert!(matches!(error, AddPortError::Full { .. }));
    let statistics = &lab.switch.statistics()[0];
    assert_eq!((statistics.ports.len(), statistics.stations), (1, 0));
    lab.switch.add_port(PortId(1), "br0", &owner(&[1])).unwrap();
}

#[test]
fn non_learning_port_keeps_only_configured_addresses() {
    let mut lab = Lab::with([(0, plain()), (1, PortConfig { learn: false, ..owner(&[1]) }), (2, plain())]);
    lab.send(1, &[frame(1, BROADCAST, None)]);
    assert_eq!(lab.ports(0, frame(9, 1, None)), [1]);
    assert_eq!(lab.switch.statistics()[0].ports[1].learned, 0);
}

#[test]
fn source_guard_applies_to_cached_flows() {
    let mut lab = Lab::with([(0, owner(&[1])), (1, plain())]);
    lab.send(1, &[frame(2, BROADCAST, None)]);
    (0..3).for_each(|_| assert_eq!(lab.ports(0, frame(1, 2, None)), [1]));
    let fate = lab.send(0, &[frame(1, 2, None), frame(3, 2, None), frame(1, 2, None)]);
    assert_eq!((fate.sent[0].len(), fate.sent[1].len(), fate.sent[2].len()), (1, 0, 1));
    assert_eq!(fate.lost.get("mac-violation"), Some(&1));
}

/// A broadcast IPv4/UDP packet from `station` with these ports and `payload`.
fn udp(station: u64, source: [u8; 4], ports: [u16; 2], payload: &[u8], tag: Option<u16>) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend((28 + payload.len() as u16).to_be_bytes());
    header.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    header.extend([&source[..], &[255; 4], &ports[0].to_be_bytes(), &ports[1].to_be_bytes()].concat());
    header.extend((8 + payload.len() as u16).to_be_bytes());
    header.extend([0, 0]);
    let ethernet = frame(station, BROADCAST, tag);
    let headers = if tag.is_some() { 18 } else { 14 };
    [&ethernet[..headers], &header, payload].concat()
}

fn dhcp(operation: u8, kind: u8, client: u64, has: [u8; 4], gets: [u8; 4]) -> Vec<u8> {
    let mut message = vec![0; 236];
    message[..3].copy_from_slice(&[operation, 1, 6]);
    message[12..16].copy_from_slice(&has);
    message[16..20].copy_from_slice(&gets);
    message[28..34].copy_from_slice(&mac(client).octets());
    message.extend([99, 130, 83, 99, 53, 1, kind, 51, 4, 0, 0, 0, 60, 255]);
    message
}

const SERVER: u64 = 50;
const LEASED: [u8; 4] = [10, 0, 0, 77];

/// Ports 0 and 1 allow DHCP leases, port 2 is the uplink with the server, port 3 has no rules.
fn snooping() -> Lab {
    let config = BridgeConfig { dhcp_snooping: true, ..BridgeConfig::default() };
    let uplink = PortConfig { trusted: true, ..plain() };
    Lab::configured(config, [(0, sources(&["dhcp"])), (1, sources(&["dhcp"])), (2, uplink), (3, plain())])
}

fn discover(lab: &mut Lab, port: u16, client: u64) {
    let fate = lab.send(port, &[udp(client, [0; 4], [68, 67], &dhcp(1, 1, client, [0; 4], [0; 4]), None)]);
    assert!(fate.lost.is_empty(), "{fate:?}");
}

fn acknowledge(lab: &mut Lab, worker: usize, client: u64, gets: [u8; 4]) {
    let reply = udp(SERVER, [10, 0, 0, 1], [67, 68], &dhcp(2, 5, client, [0; 4], gets), None);
    assert!(lab.send_by(worker, 2, &[reply]).lost.is_empty());
}

fn speaks(lab: &mut Lab, port: u16, client: u64, ip: [u8; 4]) -> Option<&'static str> {
    lab.loss(port, udp(client, ip, [1, 2], &[0; 200], None))
}

#[test]
fn dhcp_client_may_use_its_lease_until_expiry() {
    let mut lab = snooping();
    discover(&mut lab, 0, 1);
    assert_eq!(speaks(&mut lab, 0, 1, LEASED), Some("source-violation"));
    acknowledge(&mut lab, 1, 1, LEASED);
    assert_eq!(
        (speaks(&mut lab, 0, 1, LEASED), speaks(&mut lab, 1, 2, LEASED)),
        (None, Some("source-violation"))
    );
    lab.now = 59 * SECOND;
    assert_eq!(speaks(&mut lab, 0, 1, LEASED), None);
    lab.now = 60 * SECOND;
    assert_eq!(speaks(&mut lab, 0, 1, LEASED), Some("source-violation"));
    acknowledge(&mut lab, 0, 1, LEASED);
    assert_eq!(speaks(&mut lab, 0, 1, LEASED), None);
    let release = udp(1, LEASED, [68, 67], &dhcp(1, 7, 1, LEASED, [0; 4]), None);
    assert!(lab.send(0, &[release]).lost.is_empty());
    assert_eq!(speaks(&mut lab, 0, 1, LEASED), Some("source-violation"));
}

#[test]
fn leases_continue_in_another_switch() {
    let (mut one, mut other) = (snooping(), snooping());
    discover(&mut one, 0, 1);
    acknowledge(&mut one, 0, 1, LEASED);
    let (port, now) = (PortId(0), Now(one.now));
    let leases = one.switch.leases(port, now);
    assert_eq!((leases.as_slice(), one.switch.leases(PortId(1), now).len()), (&[(LEASED.into(), 60)][..], 0));
    assert_eq!(speaks(&mut other, 0, 1, LEASED), Some("source-violation"));
    for (ip, until) in leases {
        other.switch.restore_lease(port, ip, until);
    }
    assert_eq!(speaks(&mut other, 0, 1, LEASED), None);
    other.now = 60 * SECOND;
    assert_eq!(speaks(&mut other, 0, 1, LEASED), Some("source-violation"));
}

#[test]
fn new_lease_moves_the_address_to_its_client() {
    let mut lab = snooping();
    discover(&mut lab, 0, 1);
    discover(&mut lab, 1, 2);
    acknowledge(&mut lab, 0, 1, LEASED);
    acknowledge(&mut lab, 0, 2, LEASED);
    assert_eq!(
        (speaks(&mut lab, 0, 1, LEASED), speaks(&mut lab, 1, 2, LEASED)),
        (Some("source-violation"), None)
    );
}

#[test]
fn guests_cannot_serve_or_affect_other_leases() {
    let mut lab = snooping();
    discover(&mut lab, 0, 1);
    acknowledge(&mut lab, 0, 1, LEASED);
    let reply = dhcp(2, 5, 2, [0; 4], [10, 0, 0, 78]);
    for port in [1, 3] {
        assert_eq!(lab.loss(port, udp(2, [0; 4], [67, 68], &reply, None)), Some("dhcp-violation"));
    }
    let for_another = dhcp(1, 1, 1, [0; 4], [0; 4]);
    assert_eq!(lab.loss(1, udp(2, [0; 4], [68, 67], &for_another, None)), Some("dhcp-violation"));
    let release = dhcp(1, 7, 2, LEASED, [0; 4]);
    lab.send(1, &[udp(2, LEASED, [68, 67], &release, None)]);
    assert_eq!(speaks(&mut lab, 0, 1, LEASED), None);
}

#[test]
fn dhcp_is_not_inspected_without_snooping() {
    let mut lab = Lab::plain(2);
    let reply = dhcp(2, 5, 2, [0; 4], LEASED);
    assert_eq!(lab.loss(0, udp(1, [9; 4], [67, 68], &reply, None)), None);
    assert_eq!(lab.switch.flush("br0", Selection::default()), Ok(1));
    let mut lab = Lab::with([(0, sources(&["10.0.0.5"])), (1, plain())]);
    assert_eq!(lab.loss(0, udp(1, [10, 0, 0, 5], [67, 68], &reply, None)), Some("dhcp-violation"));
    assert_eq!(speaks(&mut lab, 0, 1, [10, 0, 0, 5]), None);
}

#[test]
fn lease_applies_in_the_vlan_of_its_client() {
    let config = BridgeConfig { dhcp_snooping: true, ..BridgeConfig::default() };
    let client = PortConfig { vlan: access(10).vlan, ..sources(&["dhcp"]) };
    let uplink = PortConfig { trusted: true, ..trunk("10,20", None) };
    let mut lab = Lab::configured(config, [(0, client), (2, uplink)]);
    discover(&mut lab, 0, 1);
    let reply = |tag| udp(SERVER, [10, 0, 0, 1], [67, 68], &dhcp(2, 5, 1, [0; 4], LEASED), Some(tag));
    lab.send(2, &[reply(20)]);
    assert_eq!(speaks(&mut lab, 0, 1, LEASED), Some("source-violation"));
    lab.send(2, &[reply(10)]);
    assert_eq!(speaks(&mut lab, 0, 1, LEASED), None);
}
