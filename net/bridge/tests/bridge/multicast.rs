//! Multicast snooping: packets of groups with and without members, membership messages, VLANs and bonds.

use crate::harness::{BROADCAST, Lab, SECOND, access, mac, trunk};
use bridge::{BondConfig, BridgeConfig, LinkEvent, MemberConfig, PortConfig, PortState, Rate, VlanPort};
use port::{Now, PortId};
use snooping::{Config, Snooper};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::checksum::Sum;
use wire::{EtherType, Ethernet, Ipv4Fields, MacAddress};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
/// A group with the same Ethernet address.
const ALIAS: Ipv4Addr = Ipv4Addr::new(239, 129, 2, 3);
const IGMP: u8 = 2;
const UDP: u8 = 17;

fn snooping(ports: impl IntoIterator<Item = (u16, PortConfig)>) -> Lab {
    Lab::configured(BridgeConfig { multicast_snooping: true, ..BridgeConfig::default() }, ports)
}

fn plain(ports: u16) -> Lab {
    snooping((0..ports).map(|port| (port, PortConfig::default())))
}

/// A packet of a host to a group.
fn packet(source: u64, group: Ipv4Addr, protocol: u8, payload: &[u8], tag: Option<u16>) -> Vec<u8> {
    let [_, b, c, d] = group.octets();
    let mut frame = [[1, 0, 0x5e, b & 0x7f, c, d], mac(source).octets()].concat();
    frame.extend(tag.iter().flat_map(|tag| [[0x81, 0], tag.to_be_bytes()]).flatten());
    frame.extend(EtherType::IPV4.0.to_be_bytes());
    let header = Ipv4Fields {
        total_len: 20 + payload.len() as u16,
        identification: 0,
        dont_fragment: true,
        ttl: 1,
        protocol,
        source: [10, 0, 0, source as u8].into(),
        destination: group,
    };
    frame.extend(header.header());
    frame.extend(payload);
    frame.resize(frame.len().max(60), 0);
    frame
}

fn data(source: u64, group: Ipv4Addr) -> Vec<u8> {
    packet(source, group, UDP, &[0; 20], None)
}

fn igmp(source: u64, kind: u8, group: Ipv4Addr, tag: Option<u16>) -> Vec<u8> {
    let mut message = [&[kind, 10, 0, 0][..], &group.octets()].concat();
    let sum = Sum::of(&message).finish();
    message[2..4].copy_from_slice(&sum);
    packet(source, group, IGMP, &message, tag)
}

fn report(source: u64) -> Vec<u8> {
    igmp(source, 0x16, GROUP, None)
}

/// A general query.
fn query(source: u64) -> Vec<u8> {
    let mut frame = igmp(source, 0x11, Ipv4Addr::UNSPECIFIED, None);
    frame[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 1]);
    frame
}

/// Messages that workers have punted, with port and VLAN.
type Received = Arc<Mutex<Vec<(PortId, u16, Box<[u8]>)>>>;

/// The control of the bridge: it gets what workers punt, and publishes groups.
struct Control {
    snooper: Snooper,
    received: Received,
}

impl Control {
    fn new(lab: &Lab, config: Config) -> Self {
        let mut snooper = Snooper::new(config, MacAddress::from_u64(2));
        (0..16).for_each(|port| snooper.add_port(port, snooping::PortConfig::default(), Duration::ZERO));
        let received = Received::default();
        let to = received.clone();
        lab.switch.listen(move |event| match event {
            LinkEvent::Membership(port, vlan, frame) => {
                to.lock().expect("a valid lock").push((port, vlan, frame));
            }
            LinkEvent::Received(..) => panic!("another protocol"),
            LinkEvent::Changed(..) | LinkEvent::Bond(..) | LinkEvent::Due => {}
        });
        let mut control = Self { snooper, received };
        control.publish(lab);
        control
    }

    /// A port receives a membership message, which is sent to the ports that are returned.
    fn receive(&mut self, lab: &mut Lab, port: u16, frame: Vec<u8>) -> Vec<u16> {
        lab.punt(port, &frame);
        let sent = lab.ports(port, frame);
        assert_eq!(lab.punted(), 1);
        self.publish(lab);
        sent
    }

    fn publish(&mut self, lab: &Lab) {
        for (port, vlan, frame) in self.received.lock().expect("a valid lock").drain(..) {
            let view = Ethernet::new(&frame).expect("a whole frame");
            self.snooper.receive(port.0, vlan, view.inner_ethertype(), view.payload(), Duration::ZERO);
        }
        self.snooper.tick(Duration::ZERO);
        if let Some(table) = self.snooper.take_table() {
            lab.switch.set_groups("br0", table).expect("the bridge is there");
        }
    }
}

#[test]
fn packets_of_a_group_go_to_its_members_and_routers() {
    let mut lab = plain(5);
    let mut control = Control::new(&lab, Config::default());
    assert_eq!(lab.ports(0, data(10, GROUP)), [1, 2, 3, 4], "no members yet");
    assert_eq!(control.receive(&mut lab, 1, report(11)), [0; 0], "no router is known");
    assert_eq!(lab.ports(0, data(10, GROUP)), [1]);
    assert_eq!(lab.loss(1, data(11, GROUP)), Some("no-destination"), "the member itself");
    assert_eq!(control.receive(&mut lab, 4, query(14)), [0, 1, 2, 3]);
    assert_eq!(control.receive(&mut lab, 2, report(12)), [4]);
    for _ in 0..3 {
        assert_eq!(lab.ports(0, data(10, GROUP)), [1, 2, 4]);
        assert!(lab.is_flooded());
    }
    assert_eq!(lab.ports(0, data(10, ALIAS)), [1, 2, 3, 4], "groups are told apart by their IP address");
    assert_eq!(lab.ports(0, data(10, [224, 0, 0, 251].into())), [1, 2, 3, 4]);
    assert_eq!(lab.ports(0, crate::harness::frame(10, BROADCAST, None)), [1, 2, 3, 4]);
    control.receive(&mut lab, 2, igmp(12, 0x17, GROUP, None));
    control.snooper.tick(Duration::from_secs(2));
    control.publish(&lab);
    assert_eq!(lab.ports(0, data(10, GROUP)), [1, 4]);
}

#[test]
fn groups_without_members_go_to_routers_only_if_configured() {
    let mut lab = plain(4);
    let mut control = Control::new(&lab, Config { flood_unregistered: false, ..Config::default() });
    assert_eq!(lab.loss(0, data(10, GROUP)), Some("no-destination"));
    control.receive(&mut lab, 3, query(13));
    assert_eq!(lab.ports(0, data(10, GROUP)), [3]);
    assert_eq!(lab.ports(0, data(10, [224, 0, 0, 5].into())), [1, 2, 3]);
}

#[test]
fn a_burst_of_several_kinds_keeps_its_order() {
    let mut lab = plain(3);
    let mut control = Control::new(&lab, Config::default());
    control.receive(&mut lab, 1, report(11));
    let known = crate::harness::frame(10, 11, None);
    let frames =
        [data(10, ALIAS), data(10, GROUP), known, report(10), data(10, ALIAS), query(10), data(10, GROUP)];
    let fate = lab.send(0, &frames);
    let ports: Vec<Vec<u16>> = fate.sent.iter().map(|sent| sent.keys().copied().collect()).collect();
    assert_eq!(ports, [vec![1, 2], vec![1], vec![1], vec![], vec![1, 2], vec![1, 2], vec![1]]);
    assert_eq!((lab.punted(), fate.lost.len()), (2, 0));
}

#[test]
fn groups_are_separate_in_each_vlan() {
    let ports = [
        (0, trunk("10,20", None)),
        (1, access(10)),
        (2, access(20)),
        (3, access(10)),
        (4, trunk("10,20", None)),
    ];
    let mut lab = snooping(ports);
    let mut control = Control::new(&lab, Config::default());
    control.receive(&mut lab, 1, report(11));
    control.receive(&mut lab, 4, igmp(14, 0x16, GROUP, Some(10)));
    let tagged = |tag| packet(10, GROUP, UDP, &[0; 20], Some(tag));
    let fate = lab.send(0, &[tagged(10), tagged(20)]);
    let ports: Vec<Vec<u16>> = fate.sent.iter().map(|sent| sent.keys().copied().collect()).collect();
    assert_eq!(ports, [vec![1, 4], vec![2, 4]]);
    assert_eq!((fate.sent[0][&1][12], fate.sent[0][&4][12]), (0x08, 0x81), "tags are removed and kept");
    let vlan_port = |port, is_tagged| VlanPort { port: PortId(port), sender: PortId(port), is_tagged };
    let vlan_ports = lab.switch.vlan_ports("br0", 20).unwrap();
    assert_eq!(vlan_ports, [vlan_port(0, true), vlan_port(2, false), vlan_port(4, true)]);
}

#[test]
fn ports_that_do_not_forward_receive_nothing() {
    let tree = PortConfig { stp: true, ..PortConfig::default() };
    let mut lab = snooping([(0, PortConfig::default()), (1, tree.clone()), (2, tree)]);
    let set = |lab: &Lab, port, state| lab.switch.set_states("br0", [(PortId(port), state)].into_iter());
    for port in [1, 2] {
        set(&lab, port, PortState::Forwarding);
    }
    let mut control = Control::new(&lab, Config::default());
    control.receive(&mut lab, 1, report(11));
    control.receive(&mut lab, 2, report(12));
    set(&lab, 1, PortState::Discarding);
    assert_eq!(lab.ports(0, data(10, GROUP)), [2]);
    assert_eq!(lab.loss(1, report(11)), Some("stp-blocked"));
    assert_eq!(lab.punted(), 0);
    assert_eq!(lab.switch.vlan_ports("br0", 0).unwrap().len(), 2);
}

#[test]
fn a_bond_is_a_member_as_one_port() {
    let mut lab = plain(3);
    let mode = bridge::BondMode::ActiveBackup;
    let config = BondConfig { mode, ..BondConfig::default() };
    lab.switch.add_bond(PortId(9), "br0", &PortConfig::default(), config).unwrap();
    for port in [5, 6] {
        lab.set_link(port, true);
        lab.switch
            .join_bond(PortId(port), PortId(9), MemberConfig { priority: 1, is_primary: port == 5 }, Now(0))
            .unwrap();
    }
    let mut control = Control::new(&lab, Config::default());
    let active =
        lab.switch.vlan_ports("br0", 0).unwrap().iter().find(|o| o.port == PortId(9)).unwrap().sender.0;
    control.receive(&mut lab, active, report(15));
    assert_eq!(lab.ports(0, data(10, GROUP)), [active]);
    assert_eq!(lab.loss(active, data(15, GROUP)), Some("no-destination"));
}

#[test]
fn floods_of_messages_and_packets_are_limited() {
    let limited = PortConfig { broadcast_limit: Rate::new(1000, 10), ..PortConfig::default() };
    let mut lab = snooping([(0, PortConfig::default()), (1, PortConfig::default()), (2, limited)]);
    let mut control = Control::new(&lab, Config::default());
    control.receive(&mut lab, 1, report(11));
    lab.now += SECOND;
    let flood = vec![report(10); 60];
    let punted: u64 = (0..5).map(|_| (lab.send(0, &flood), lab.punted()).1).sum();
    assert_eq!(punted, 200);
    assert_eq!(lab.loss(0, report(10)), Some("protocol-limit"));
    let fate = lab.send(2, &vec![data(12, GROUP); 30]);
    assert_eq!(fate.lost["broadcast-limit"], 20);
}

#[test]
fn bridges_without_snooping_flood() {
    let mut lab = Lab::plain(3);
    let flooding = snooping::Table::default();
    lab.switch.set_groups("br0", flooding).unwrap();
    assert_eq!(lab.ports(0, report(10)), [1, 2]);
    assert_eq!(lab.punted(), 0);
}
