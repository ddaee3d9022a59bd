//! Bonds: which members accept and send which packets, failover, balancing and LACP.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use crate::harness::{BROADCAST, Lab, SECOND, frame, gratuitous_arp, mac, trunk};
use bridge::{
    BondConfig, BondError, BondMode, BridgeConfig, LacpStatus, MacMoves, MemberConfig, MirrorConfig,
    MirrorOutput, PortConfig,
};
use engine::Now;
use lacp::{Group, GroupConfig, SlowFrame, lacp_frame};
use port::PortId;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

const BOND: u16 = 10;
const MEMBER: MemberConfig = MemberConfig { priority: 1, is_primary: false };

/// Frames that the bridge sends itself, with their ports.
type Sent = Arc<Mutex<Vec<(u16, Box<[u8]>)>>>;

/// Two ports, 0 and 1, and a bond of 2 and 3, whose links are up.
fn lab(mut lab: Lab, config: BondConfig) -> (Lab, Sent) {
    let sent = Sent::default();
    let list = sent.clone();
    lab.switch.connect_bonds(move |port, frame, _| {
        list.lock().unwrap().push((port.0, frame));
        true
    });
    lab.switch.add_bond(PortId(BOND), "br0", &PortConfig::default(), config).unwrap();
    for port in [2, 3] {
        lab.switch.join_bond(PortId(port), PortId(BOND), MEMBER, Now(0)).unwrap();
        lab.set_link(port, true);
    }
    (lab, sent)
}

fn mode(mode: BondMode) -> BondConfig {
    BondConfig { mode, ..BondConfig::default() }
}

#[test]
fn active_backup_uses_one_member_until_it_fails() {
    let (mut lab, _) = lab(Lab::plain(2), mode(BondMode::ActiveBackup));
    assert_eq!(lab.ports(0, frame(1, 9, None)), [1, 2]);
    assert_eq!(lab.ports(2, frame(9, BROADCAST, None)), [0, 1]);
    assert_eq!(lab.loss(3, frame(8, 1, None)), Some("bond-inactive"));
    assert_eq!(lab.ports(0, frame(1, 9, None)), [2]);
    let places: Vec<_> = lab.switch.stations("br0", Now(0)).unwrap().iter().map(|s| s.port).collect();
    assert_eq!(places, [0, BOND]);
    lab.set_link(2, false);
    assert_eq!(lab.ports(0, frame(1, 9, None)), [3], "the station stays at the bond");
    assert_eq!(lab.ports(3, frame(9, 1, None)), [0]);
    lab.set_link(2, true);
    assert_eq!(lab.ports(0, frame(1, 9, None)), [3]);
    lab.set_link(2, false);
    lab.set_link(3, false);
    assert_eq!(lab.loss(0, frame(1, 9, None)), Some("bond-down"));
}

#[test]
fn cached_flows_to_a_bond_follow_its_members() {
    let (mut lab, _) = lab(Lab::plain(2), mode(BondMode::ActiveBackup));
    lab.send(2, &[frame(9, 1, None)]);
    for _ in 0..3 {
        let fate = lab.send(0, &vec![frame(1, 9, None); 8]);
        assert!(fate.sent.iter().all(|ports| ports.keys().eq([&2])), "{fate:?}");
    }
    lab.set_link(2, false);
    let fate = lab.send(0, &vec![frame(1, 9, None); 8]);
    assert!(fate.sent.iter().all(|ports| ports.keys().eq([&3])), "{fate:?}");
}

#[test]
fn slb_distributes_sources_and_refuses_reflections() {
    let config = BridgeConfig { mac_moves: MacMoves::Free, ..BridgeConfig::default() };
    let free = Lab::configured(config, (0..2).map(|port| (port, PortConfig::default())));
    let (mut lab, _) = lab(free, mode(BondMode::BalanceSlb));
    lab.send(2, &[frame(9, BROADCAST, None)]);
    let mut used = BTreeSet::new();
    for source in 100..140 {
        let first = lab.ports(0, frame(source, 9, None));
        assert_eq!(lab.ports(0, frame(source, 9, None)), first, "one member for each source");
        used.extend(first);
    }
    assert_eq!(used, BTreeSet::from([2, 3]));
    // Unicast frames arrive on each member, group frames on the active one only.
    assert_eq!(lab.ports(3, frame(9, 100, None)), [0]);
    assert_eq!(lab.loss(3, frame(9, BROADCAST, None)), Some("bond-inactive"));
    assert_eq!(lab.ports(2, frame(9, BROADCAST, None)), [0, 1]);
    for member in [2, 3] {
        assert_eq!(lab.loss(member, frame(100, 9, None)), Some("bond-reflected"));
    }
    assert_eq!(lab.loss(2, frame(100, BROADCAST, None)), Some("bond-reflected"));
    assert_eq!(lab.ports(0, frame(100, 9, None)).len(), 1, "the station has not moved");
    // A gratuitous ARP packet says that it has.
    assert_eq!(lab.ports(2, gratuitous_arp(100, [10, 0, 0, 1])), [0, 1]);
    assert_eq!(lab.ports(3, frame(100, 101, None)), [0]);
}

#[test]
fn vlans_of_a_bond_are_those_of_one_port() {
    let sections = [(0, trunk("10,20", None)), (1, trunk("20", None))];
    let lab = Lab::with(sections);
    lab.switch.add_bond(PortId(BOND), "br0", &trunk("20", Some(10)), mode(BondMode::BalanceSlb)).unwrap();
    lab.switch.join_bond(PortId(2), PortId(BOND), MEMBER, Now(0)).unwrap();
    let mut lab = lab;
    lab.set_link(2, true);
    let fate = lab.send(0, &[frame(1, BROADCAST, Some(10))]);
    assert_eq!(fate.sent[0].get(&2), Some(&frame(1, BROADCAST, None)), "native VLAN");
    assert_eq!(lab.ports(0, frame(1, BROADCAST, Some(20))), [1, 2]);
    assert_eq!(lab.loss(2, frame(9, BROADCAST, Some(30))), Some("vlan-denied"));
}

#[test]
fn a_new_active_member_announces_the_stations_behind_other_ports() {
    let (mut lab, sent) = lab(Lab::plain(2), mode(BondMode::ActiveBackup));
    lab.switch.run_bonds(Now(1));
    lab.send(0, &[frame(1, BROADCAST, None)]);
    lab.send(2, &[frame(9, BROADCAST, None)]);
    sent.lock().unwrap().clear();
    lab.switch.run_bonds(Now(2));
    assert!(sent.lock().unwrap().is_empty(), "nothing has changed");
    lab.set_link(2, false);
    lab.switch.run_bonds(Now(3));
    let sent = sent.lock().unwrap();
    let [(port, packet)] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((*port, &packet[6..14]), (3, &[&mac(1).octets()[..], &[0x80, 0x35]].concat()[..]));
}

#[test]
fn measured_load_moves_to_the_other_member() {
    let (mut lab, _) = lab(Lab::plain(2), mode(BondMode::BalanceSlb));
    lab.switch.run_bonds(Now(1));
    lab.send(2, &[frame(9, BROADCAST, None)]);
    // Stations whose buckets are all at one member.
    let busy: Vec<u64> = (100..400).filter(|s| lab.ports(0, frame(*s, 9, None)) == [2]).take(20).collect();
    for station in busy.iter().cycle().take(4000) {
        assert_eq!(lab.ports(0, frame(*station, 9, None)), [2]);
    }
    lab.switch.run_bonds(Now(11 * SECOND));
    let moved = busy.iter().filter(|station| lab.ports(0, frame(**station, 9, None)) == [3]).count();
    assert!((5..=15).contains(&moved), "{moved} of 20 stations");
    let state = &lab.switch.bonds(Now(11 * SECOND))[0];
    assert!(state.moves > 0 && state.members.iter().all(|member| member.load > 20_000), "{state:?}");
}

#[test]
fn members_join_and_leave_a_running_bridge() {
    let (mut lab, _) = lab(Lab::plain(2), mode(BondMode::ActiveBackup));
    lab.send(1, &[frame(7, BROADCAST, None)]);
    assert_eq!(
        lab.switch.join_bond(PortId(2), PortId(BOND), MEMBER, Now(0)),
        Err(BondError::Member(PortId(2)))
    );
    assert_eq!(lab.switch.remove_bond(PortId(BOND)), Err(BondError::HasMembers(PortId(BOND))));
    lab.switch.join_bond(PortId(1), PortId(BOND), MEMBER, Now(0)).unwrap();
    assert!(lab.switch.stations("br0", Now(0)).unwrap().is_empty(), "it is no port of the bridge any more");
    assert_eq!(lab.loss(1, frame(7, BROADCAST, None)), Some("bond-inactive"));
    for port in [1, 2, 3] {
        lab.switch.leave_bond(PortId(port), Now(0)).unwrap();
        assert_eq!(lab.loss(port, frame(7, BROADCAST, None)), Some("no-destination"));
    }
    lab.switch.set_bond(PortId(BOND), mode(BondMode::BalanceSlb), &[], Now(0)).unwrap();
    lab.switch.remove_bond(PortId(BOND)).unwrap();
    lab.switch.add_port(PortId(1), "br0", &PortConfig::default()).unwrap();
    assert_eq!(lab.ports(1, frame(7, BROADCAST, None)), [0]);
    assert_eq!(lab.switch.run_bonds(Now(1)), None);
}

#[test]
fn members_that_stay_carry_packets_while_a_bond_changes() {
    let (mut lab, _) = lab(Lab::free(2), mode(BondMode::ActiveBackup));
    lab.send(2, &[frame(9, BROADCAST, None)]);
    assert_eq!(lab.ports(0, frame(1, 9, None)), [2]);
    let both = [(PortId(2), MEMBER), (PortId(3), MEMBER)];
    for new in [BondMode::BalanceSlb, BondMode::ActiveBackup] {
        let config = BondConfig { rebalance: None, ..mode(new) };
        lab.switch.set_bond(PortId(BOND), config, &both, Now(1)).unwrap();
        let used: BTreeSet<u16> =
            (100..140).flat_map(|source| lab.ports(0, frame(source, 9, None))).collect();
        let expected: &[u16] = if new == BondMode::BalanceSlb { &[2, 3] } else { &[2] };
        assert!(used.iter().eq(expected), "{new:?}: {used:?}");
        assert_eq!(lab.ports(2, frame(9, 1, None)), [0]);
    }
    // Another primary, and an order in which it is not the first.
    let primary = MemberConfig { is_primary: true, ..MEMBER };
    let members = [(PortId(2), MEMBER), (PortId(3), primary)];
    lab.switch.set_bond(PortId(BOND), mode(BondMode::ActiveBackup), &members, Now(2)).unwrap();
    assert_eq!(lab.ports(0, frame(1, 9, None)), [3]);
    // LACP without a partner: no member may be used until it falls back.
    let lacp = BondConfig { lacp: Some(group(60)), ..mode(BondMode::ActiveBackup) };
    lab.switch.set_bond(PortId(BOND), lacp.clone(), &both, Now(3)).unwrap();
    assert_eq!(lab.loss(0, frame(1, 9, None)), Some("bond-down"));
    let lacp = BondConfig { fallback: true, ..lacp };
    lab.switch.set_bond(PortId(BOND), lacp, &both, Now(4)).unwrap();
    assert_eq!(lab.ports(0, frame(1, 9, None)).len(), 1);
    assert_eq!(
        lab.switch.set_bond(PortId(0), mode(BondMode::ActiveBackup), &[], Now(5)),
        Err(BondError::NoBond(PortId(0)))
    );
}

/// Deadlines are exact: a run before one changes nothing, and an event that starts an earlier one reports it.
#[test]
fn timers_are_known_in_advance() {
    let delay = std::time::Duration::from_millis(300);
    let config = BondConfig { down_delay: delay, up_delay: delay, ..mode(BondMode::ActiveBackup) };
    let (mut lab, _) = lab(Lab::plain(2), config);
    let events = Arc::new(Mutex::new(Vec::new()));
    let list = events.clone();
    lab.switch.listen(move |event| list.lock().unwrap().push(format!("{event:?}")));
    lab.now = SECOND;
    while let Some(Now(due)) = lab.switch.run_bonds(Now(lab.now)) {
        assert!(due > lab.now, "a timer in the past would run for ever");
        lab.now = due;
    }
    events.lock().unwrap().clear();
    lab.set_link(2, false);
    let told = std::mem::take(&mut *events.lock().unwrap());
    assert_eq!(told, ["Changed(PortId(2), false)", "Due"]);
    let due = lab.switch.run_bonds(Now(lab.now)).unwrap();
    assert_eq!(due, Now(lab.now + 300_000_000));
    lab.switch.run_bonds(Now(due.0 - 1));
    assert_eq!(lab.ports(0, frame(1, 9, None)), [1, 2]);
    lab.switch.run_bonds(due);
    assert_eq!(lab.ports(0, frame(1, 9, None)), [1, 3]);
    lab.set_link(3, false);
    let down = Now(lab.now + 600_000_000);
    lab.switch.run_bonds(down);
    assert!(events.lock().unwrap().contains(&format!("Bond(PortId({BOND}), false)")));
}

/// A tree has one port for a bond: its BPDUs are those of the active member, and leave there.
#[test]
fn bpdus_are_those_of_the_bond() {
    let mut lab = Lab::plain(2);
    let tree = PortConfig { stp: true, ..PortConfig::default() };
    lab.switch.add_bond(PortId(BOND), "br0", &tree, mode(BondMode::BalanceSlb)).unwrap();
    assert_eq!(lab.switch.sender(PortId(BOND)), None);
    for port in [2, 3] {
        lab.switch.join_bond(PortId(port), PortId(BOND), MEMBER, Now(0)).unwrap();
        lab.set_link(port, true);
    }
    assert_eq!(lab.switch.sender(PortId(BOND)), Some(PortId(2)));
    assert_eq!(lab.switch.sender(PortId(0)), Some(PortId(0)));
    let events = Arc::new(Mutex::new(Vec::new()));
    let list = events.clone();
    lab.switch.listen(move |event| list.lock().unwrap().push(format!("{event:?}")));
    let bpdu = crate::stp::bpdu(None);
    for member in [2, 3] {
        assert!(lab.loss(member, frame(9, BROADCAST, None)).is_some(), "the tree discards");
        lab.send(member, std::slice::from_ref(&bpdu));
        assert_eq!(lab.punted(), 1);
        lab.punt(member, &[1, 2]);
    }
    assert_eq!(*events.lock().unwrap(), [format!("Received(PortId({BOND}), [1, 2])")]);
    lab.switch.set_states("br0", [(PortId(BOND), bridge::PortState::Forwarding)].into_iter());
    assert_eq!(lab.ports(2, frame(9, BROADCAST, None)), [0, 1]);
    assert_eq!(lab.ports(0, frame(1, 9, None)).len(), 1);
}

#[test]
fn mirrors_select_a_bond_and_not_its_members() {
    let (mut lab, _) = lab(Lab::plain(2), mode(BondMode::ActiveBackup));
    let mirror = MirrorConfig {
        name: "m".to_owned(),
        sources: vec![PortId(BOND)],
        destinations: vec![PortId(BOND)],
        all: false,
        vlans: None,
        output: Some(MirrorOutput::Port(PortId(1))),
        snap_length: None,
    };
    lab.switch.set_mirrors("br0", &[mirror]).unwrap();
    for member in [2, 3] {
        assert_eq!(lab.ports(member, frame(9, 5, None)), [0, 1], "received by member {member}");
        assert_eq!(lab.ports(0, frame(1, 9, None)), [1, member], "sent");
        assert_eq!(lab.switch.mirrors("br0").unwrap()[0].packets, 2 * u64::from(member - 1));
        lab.set_link(2, false);
    }
}

fn group(station: u64) -> GroupConfig {
    GroupConfig { is_active: true, is_fast: true, system_priority: 1, system: mac(station), key: 5 }
}

/// Runs bond and partner for a time, in steps of 100 ms.
fn negotiate(lab: &mut Lab, sent: &Sent, partner: &mut Group, seconds: u64) {
    for _ in 0..10 * seconds {
        lab.now += SECOND / 10;
        let mut answers = Vec::new();
        partner.run(lab.now, |port, pdu| answers.push((port, lacp_frame(mac(50), pdu))));
        for (port, answer) in answers {
            let fate = lab.send(port, &[answer.to_vec()]);
            assert_eq!((lab.punted(), fate.lost.len()), (1, 0), "LACPDUs are for control");
            lab.punt(port, &answer);
        }
        lab.switch.run_bonds(Now(lab.now)).unwrap();
        for (port, packet) in std::mem::take(&mut *sent.lock().unwrap()) {
            let Ok(SlowFrame::Lacp(pdu)) = SlowFrame::parse(&packet) else { continue };
            partner.receive(port, &pdu, lab.now);
        }
    }
}

/// A UDP packet of flow `port`.
fn udp(port: u8) -> Vec<u8> {
    let mut packet = frame(1, 9, None);
    let header = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, port, 0, 9];
    packet[14..14 + header.len()].copy_from_slice(&header);
    packet
}

#[test]
fn a_negotiated_bond_accepts_on_all_members_and_distributes_flows() {
    let config = BondConfig { lacp: Some(group(60)), ..mode(BondMode::BalanceTcp) };
    let (mut lab, sent) = lab(Lab::plain(2), config);
    assert_eq!(lab.loss(2, frame(9, 1, None)), Some("bond-inactive"), "no partner");
    assert_eq!(lab.ports(0, frame(1, 9, None)), [1], "and no member that sends");
    let mut partner = Group::new(group(50));
    for port in [2, 3] {
        partner.add(port, 1);
        partner.set_enabled(port, true, 0);
    }
    negotiate(&mut lab, &sent, &mut partner, 4);
    assert_eq!(lab.switch.bonds(Now(lab.now))[0].lacp, LacpStatus::Negotiated);
    for member in [2, 3] {
        assert_eq!(lab.ports(member, frame(9, BROADCAST, None)), [0, 1]);
    }
    let used: BTreeSet<u16> = (0..40).flat_map(|port| lab.ports(0, udp(port))).collect();
    assert_eq!(used, BTreeSet::from([2, 3]));
    // The partner falls silent on one link.
    partner.set_enabled(3, false, lab.now);
    negotiate(&mut lab, &sent, &mut partner, 4);
    assert_eq!(lab.loss(3, frame(9, BROADCAST, None)), Some("bond-inactive"));
    let used: BTreeSet<u16> = (0..40).flat_map(|port| lab.ports(0, udp(port))).collect();
    assert_eq!(used, BTreeSet::from([2]));
}

#[test]
fn without_partner_a_bond_falls_back_if_configured() {
    let config = BondConfig { lacp: Some(group(60)), fallback: true, ..mode(BondMode::BalanceTcp) };
    let (mut lab, _) = lab(Lab::plain(2), config);
    assert_eq!(lab.ports(2, frame(9, BROADCAST, None)), [0, 1]);
    assert_eq!(lab.loss(3, frame(9, BROADCAST, None)), Some("bond-inactive"));
    let used: BTreeSet<u16> = (0..40).flat_map(|port| lab.ports(0, udp(port))).collect();
    assert_eq!(used, BTreeSet::from([2]), "as active-backup");
}

#[test]
fn lacpdus_pass_every_check_of_a_member() {
    let config = BondConfig { lacp: Some(group(60)), fallback: true, ..mode(BondMode::BalanceSlb) };
    let security = PortConfig { macs: vec![mac(9)], ..PortConfig::default() };
    let mut lab = Lab::plain(2);
    lab.switch.add_bond(PortId(BOND), "br0", &security, config).unwrap();
    for port in [2, 3] {
        lab.switch.join_bond(PortId(port), PortId(BOND), MEMBER, Now(0)).unwrap();
        lab.set_link(port, true);
    }
    assert_eq!(lab.loss(2, frame(8, 1, None)), Some("mac-violation"));
    let end = lacp::Endpoint::default();
    let pdu = lacp_frame(mac(50), &lacp::Pdu { actor: end, partner: end });
    for member in [2, 3] {
        lab.send(member, &[pdu.to_vec()]);
        assert_eq!(lab.punted(), 1);
    }
}
