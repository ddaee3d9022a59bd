//! Scenarios of a bridge in simulated time.

use crate::message::{IGMP_LEAVE, IGMP_QUERY, IGMP_REPORT_1, IGMP_REPORT_2, IGMP_REPORT_3};
use crate::message::{MLD_DONE, MLD_QUERY, MLD_REPORT_1, MLD_REPORT_2};
use crate::*;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use wire::checksum::{Sum, protocol::ICMPV6};
use wire::{EtherType, Ethernet, Ipv4Fields, MacAddress, ipv6_header};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const GROUP_6: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 7);
const HOST: [u8; 4] = [10, 0, 0, 7];
const HOST_6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);
const ROUTER: [u8; 4] = [10, 0, 0, 1];

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// An IPv4 packet of this source with an IGMP message whose checksum is set.
fn igmp(source: [u8; 4], message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let sum = Sum::of(&message).finish();
    message[2..4].copy_from_slice(&sum);
    let header = Ipv4Fields {
        total_len: 20 + message.len() as u16,
        identification: 0,
        dont_fragment: true,
        ttl: 1,
        protocol: 2,
        source: source.into(),
        destination: GROUP,
    };
    [&header.header()[..], &message].concat()
}

fn old(kind: u8, group: Ipv4Addr) -> Vec<u8> {
    igmp(HOST, &[&[kind, 0, 0, 0][..], &group.octets()].concat())
}

/// A report of IGMP version 3 with one record.
fn record(kind: u8, group: Ipv4Addr, sources: &[[u8; 4]]) -> Vec<u8> {
    let start = [IGMP_REPORT_3, 0, 0, 0, 0, 0, 0, 1, kind, 0, 0, sources.len() as u8];
    igmp(HOST, &[&start[..], &group.octets(), &sources.concat()].concat())
}

fn query(source: [u8; 4], group: [u8; 4], code: u8) -> Vec<u8> {
    igmp(source, &[&[IGMP_QUERY, code, 0, 0][..], &group, &[2, 125, 0, 0]].concat())
}

/// An IPv6 packet with the option and an MLD message whose checksum is set.
fn mld(source: Ipv6Addr, message: &[u8]) -> Vec<u8> {
    let header = ipv6_header(8 + message.len() as u16, 0, 1, source, GROUP_6);
    let mut sum = Sum::pseudo(&header[8..], ICMPV6, message.len() as u32);
    sum.add(message);
    let mut message = message.to_vec();
    message[2..4].copy_from_slice(&sum.finish());
    [&header[..], &[ICMPV6, 0, 5, 2, 0, 0, 1, 0], &message].concat()
}

fn old_mld(kind: u8, group: Ipv6Addr) -> Vec<u8> {
    mld(HOST_6, &[&[kind, 0, 0, 0, 0, 0, 0, 0][..], &group.octets()].concat())
}

struct Bridge {
    snooper: Snooper,
    now: Duration,
}

impl Bridge {
    /// Ports 1 to 4 without VLANs.
    fn new(config: Config) -> Self {
        let mut snooper = Snooper::new(config, MacAddress::from_u64(0x0200_0000_0001));
        let port = PortConfig { untagged: Some(0), ..PortConfig::default() };
        (1..5).for_each(|number| snooper.add_port(number, port, Duration::ZERO));
        Self { snooper, now: Duration::ZERO }
    }

    fn receive(&mut self, port: u16, packet: &[u8]) {
        let ethertype = if packet[0] >> 4 == 6 { EtherType::IPV6 } else { EtherType::IPV4 };
        self.snooper.receive(port, 0, ethertype, packet, self.now);
        self.snooper.tick(self.now);
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.snooper.tick(self.now).filter(|next| *next <= end) {
            self.now = next;
        }
        self.now = end;
        self.snooper.tick(end);
    }

    fn members(&self, group: impl Into<IpAddr>) -> Vec<u16> {
        let group = group.into();
        self.snooper
            .groups(self.now)
            .filter(|status| status.group == group)
            .map(|status| status.port)
            .collect()
    }

    /// Queries since the last call: port, and group; `None` for general ones.
    fn queries(&mut self) -> Vec<(Option<u16>, Option<IpAddr>)> {
        let asked = |frame: &[u8]| {
            let view = Ethernet::new(frame).unwrap();
            match Message::parse(view.ethertype(), view.payload()).unwrap().body {
                Body::Query { group, .. } => group,
                other => panic!("{other:?}"),
            }
        };
        self.snooper.take_queries().iter().map(|query| (query.port, asked(&query.frame))).collect()
    }

    fn counts(&self, port: u16) -> Counts {
        self.snooper.counts().find(|(number, _)| *number == port).unwrap().1
    }
}

fn with_querier(address: [u8; 4]) -> Config {
    Config { querier: Some(Querier { address: address.into() }), ..Config::default() }
}

#[test]
fn memberships_of_all_versions_are_tracked_and_end() {
    let joins =
        [old(IGMP_REPORT_1, GROUP), old(IGMP_REPORT_2, GROUP), record(2, GROUP, &[]), record(4, GROUP, &[])];
    for (version, join) in [1, 2, 3, 3].into_iter().zip(joins) {
        let mut bridge = Bridge::new(Config::default());
        bridge.receive(1, &join);
        let status = bridge.snooper.groups(bridge.now).next().unwrap();
        assert_eq!((status.port, status.version, status.is_exclude), (1, version, true));
        let table = bridge.snooper.take_table().unwrap();
        assert_eq!(table.receivers(0, GROUP.into()), Receivers::Ports(&[1]));
        assert_eq!(table.receivers(5, GROUP.into()), Receivers::All, "another VLAN");
        bridge.wait(seconds(259));
        assert_eq!(bridge.members(GROUP), [1]);
        bridge.wait(seconds(1));
        assert_eq!(bridge.members(GROUP), []);
        assert!(bridge.snooper.take_table().is_some());
    }
    let report = [&[MLD_REPORT_2, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0][..], &GROUP_6.octets()].concat();
    for join in [old_mld(MLD_REPORT_1, GROUP_6), mld(HOST_6, &report)] {
        let mut bridge = Bridge::new(Config::default());
        bridge.receive(2, &join);
        assert_eq!(bridge.members(GROUP_6), [2]);
        bridge.receive(2, &old_mld(MLD_DONE, GROUP_6));
        bridge.wait(seconds(2));
        assert_eq!(bridge.members(GROUP_6), []);
    }
}

#[test]
fn a_leave_message_ends_a_membership_unless_another_host_reports() {
    let leaves = [old(IGMP_LEAVE, GROUP), record(3, GROUP, &[])];
    for leave in leaves {
        let mut bridge = Bridge::new(with_querier([0; 4]));
        bridge.receive(1, &old(IGMP_REPORT_2, GROUP));
        bridge.queries();
        bridge.receive(1, &leave);
        assert_eq!(bridge.queries(), [(Some(1), Some(GROUP.into()))]);
        bridge.wait(seconds(1));
        assert_eq!(bridge.queries(), [(Some(1), Some(GROUP.into()))]);
        bridge.receive(1, &old(IGMP_REPORT_2, GROUP));
        bridge.wait(seconds(100));
        assert_eq!(bridge.members(GROUP), [1], "another host has answered");
        bridge.receive(1, &leave);
        bridge.wait(seconds(2));
        assert_eq!(bridge.members(GROUP), []);
    }
}

#[test]
fn leave_messages_act_at_once_with_fast_leave_and_never_for_hosts_of_version_1() {
    let mut bridge = Bridge::new(Config::default());
    let fast = PortConfig { fast_leave: true, ..PortConfig::default() };
    bridge.snooper.add_port(1, fast, bridge.now);
    bridge.receive(1, &old(IGMP_REPORT_2, GROUP));
    bridge.receive(1, &old(IGMP_LEAVE, GROUP));
    assert_eq!(bridge.members(GROUP), []);
    bridge.receive(1, &old(IGMP_REPORT_1, GROUP));
    bridge.receive(1, &old(IGMP_LEAVE, GROUP));
    assert_eq!(bridge.members(GROUP), [1]);
}

#[test]
fn a_membership_lasts_as_long_as_one_of_its_sources() {
    let (a, b) = ([10, 1, 1, 1], [10, 1, 1, 2]);
    let mut bridge = Bridge::new(Config::default());
    bridge.receive(1, &record(1, GROUP, &[]));
    assert_eq!(bridge.members(GROUP), [], "no source");
    bridge.receive(1, &record(5, GROUP, &[a, b]));
    let status = bridge.snooper.groups(bridge.now).next().unwrap();
    assert_eq!((status.is_exclude, status.sources), (false, vec![a.into(), b.into()]));
    bridge.receive(1, &record(6, GROUP, &[a]));
    bridge.wait(seconds(3));
    assert_eq!(bridge.snooper.groups(bridge.now).next().unwrap().sources, [IpAddr::from(b)]);
    bridge.receive(1, &record(3, GROUP, &[]));
    bridge.wait(seconds(3));
    assert_eq!(bridge.members(GROUP), []);
    let many: Vec<_> = (0..=MAX_SOURCES as u8).map(|n| [10, 1, 1, n]).collect();
    bridge.receive(1, &record(5, GROUP, &many));
    assert!(bridge.snooper.groups(bridge.now).next().unwrap().is_exclude, "too many to track");
}

#[test]
fn routers_are_found_by_queries_with_an_address_and_by_pim() {
    let mut bridge = Bridge::new(Config { flood_unregistered: false, ..Config::default() });
    bridge.receive(4, &query([0; 4], [0; 4], 100));
    assert!(bridge.snooper.routers(bridge.now).is_empty());
    bridge.receive(3, &query(ROUTER, [0; 4], 100));
    bridge.receive(1, &old(IGMP_REPORT_2, GROUP));
    let table = bridge.snooper.take_table().unwrap();
    assert_eq!((table.routers(0), table.receivers(0, GROUP.into())), (&[3][..], Receivers::Ports(&[1, 3])));
    assert_eq!(table.receivers(0, [239, 9, 9, 9].into()), Receivers::Ports(&[3]));
    let solicited = IpAddr::from(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1));
    assert_eq!(table.receivers(0, solicited), Receivers::All);
    bridge.wait(seconds(255));
    assert!(bridge.snooper.routers(bridge.now).is_empty());
    let always = PortConfig { router: RouterPort::Always, ..PortConfig::default() };
    let never = PortConfig { router: RouterPort::Never, ..PortConfig::default() };
    bridge.snooper.add_port(2, always, bridge.now);
    bridge.snooper.add_port(4, never, bridge.now);
    let mut hello = igmp(ROUTER, &[0x20, 0, 0, 0]);
    hello[9] = 103;
    hello[16..20].copy_from_slice(&[224, 0, 0, 13]);
    hello[10..12].fill(0);
    let sum = Sum::of(&hello[..20]).finish();
    hello[10..12].copy_from_slice(&sum);
    for port in [1, 4] {
        bridge.receive(port, &hello);
    }
    assert_eq!(bridge.snooper.take_table().unwrap().routers(0), [1, 2]);
}

#[test]
fn the_querier_stops_while_a_preferred_one_is_heard() {
    let mut bridge = Bridge::new(with_querier([10, 0, 0, 5]));
    bridge.wait(Duration::ZERO);
    let general = [(None, None); 2];
    assert_eq!(bridge.queries(), general, "IGMP and MLD");
    bridge.wait(seconds(31));
    assert_eq!(bridge.queries().len(), 0, "a quarter of the interval");
    bridge.wait(seconds(1));
    assert_eq!(bridge.queries(), general);
    bridge.receive(3, &query([10, 0, 0, 6], [0; 4], 100));
    bridge.wait(seconds(125));
    assert_eq!(bridge.queries(), general, "its address is higher");
    bridge.receive(3, &query(ROUTER, [0; 4], 100));
    bridge.wait(seconds(125));
    assert_eq!(bridge.queries(), [(None, None)], "MLD only");
    let queriers = bridge.snooper.queriers();
    assert!(
        queriers.iter().any(|querier| querier.address == IpAddr::from(ROUTER) && querier.port == Some(3))
    );
    bridge.wait(seconds(255));
    bridge.queries();
    bridge.wait(seconds(125));
    assert_eq!(bridge.queries(), general, "it is not heard any more");
    let lower = mld(
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
        &[&[MLD_QUERY, 0, 0, 0, 0, 0, 0, 0][..], &[0; 16]].concat(),
    );
    bridge.receive(3, &lower);
    bridge.wait(seconds(125));
    assert_eq!(bridge.queries().len(), 1, "IGMP only");
}

#[test]
fn a_group_specific_query_of_a_router_shortens_memberships() {
    let mut bridge = Bridge::new(Config::default());
    for port in [1, 2] {
        bridge.receive(port, &old(IGMP_REPORT_2, GROUP));
    }
    bridge.receive(4, &query([0; 4], GROUP.octets(), 10));
    bridge.wait(seconds(5));
    assert_eq!(bridge.members(GROUP), [1, 2], "no router");
    bridge.receive(4, &query(ROUTER, GROUP.octets(), 0));
    bridge.receive(2, &old(IGMP_REPORT_2, GROUP));
    bridge.wait(seconds(2));
    assert_eq!(bridge.members(GROUP), [2]);
}

#[test]
fn links_and_topology_changes_end_memberships() {
    let mut bridge = Bridge::new(Config::default());
    for port in [1, 2, 3] {
        bridge.receive(port, &old(IGMP_REPORT_2, GROUP));
    }
    bridge.snooper.set_link(1, false, bridge.now);
    assert_eq!(bridge.members(GROUP), [2, 3]);
    bridge.snooper.topology_changed(&[2].into(), bridge.now);
    assert_eq!(bridge.queries(), [(None, None)]);
    bridge.wait(seconds(3));
    assert_eq!(bridge.members(GROUP), [3]);
    bridge.snooper.remove_port(3);
    assert_eq!(bridge.members(GROUP), []);
    bridge.receive(4, &old(IGMP_REPORT_2, GROUP));
    assert_eq!(bridge.snooper.flush(|vlan, _, port| vlan == 0 && port == 4), 1);
}

#[test]
fn a_hostile_port_is_limited() {
    let config = Config { max_groups: 6, max_groups_per_port: 4, ..Config::default() };
    let mut bridge = Bridge::new(config);
    let group = |n| Ipv4Addr::new(239, 0, 0, n);
    (0..10).for_each(|n| bridge.receive(1, &old(IGMP_REPORT_2, group(n))));
    (0..10).for_each(|n| bridge.receive(2, &old(IGMP_REPORT_2, group(n))));
    (10..13).for_each(|n| bridge.receive(3, &old(IGMP_REPORT_2, group(n))));
    let refused = |port| (bridge.counts(port).port_full, bridge.counts(port).bridge_full);
    assert_eq!([refused(1), refused(2), refused(3)], [(6, 0), (6, 0), (0, 1)]);
    bridge.receive(1, &old(IGMP_REPORT_2, Ipv4Addr::new(224, 0, 0, 251)));
    assert_eq!(bridge.counts(1).reserved, 1);
}

#[test]
fn invalid_messages_are_counted_by_reason() {
    let good = old(IGMP_REPORT_2, GROUP);
    let changed = |at: usize, value: u8| {
        let mut packet = good.clone();
        packet[at] = value;
        packet[10..12].fill(0);
        let sum = Sum::of(&packet[..20]).finish();
        packet[10..12].copy_from_slice(&sum);
        packet
    };
    let six = old_mld(MLD_REPORT_1, GROUP_6);
    let with = |at: usize, value: u8| [&six[..at], &[value], &six[at + 1..]].concat();
    let cases = [
        (good[..27].to_vec(), MessageError::Truncated),
        (changed(6, 0x20), MessageError::Fragment),
        (changed(27, 9), MessageError::Checksum),
        (changed(8, 2), MessageError::HopLimit),
        (old(IGMP_REPORT_2, HOST.into()), MessageError::Group),
        (old(0x13, GROUP), MessageError::Type),
        (record(4, HOST.into(), &[]), MessageError::Group),
        (record(4, GROUP, &[HOST])[..36].to_vec(), MessageError::Truncated),
        (with(7, 255), MessageError::HopLimit),
        (with(8, 0x20), MessageError::Source),
        (with(42, 6), MessageError::RouterAlert),
        (with(60, 1), MessageError::Checksum),
        (with(48, 200), MessageError::Type),
    ];
    let mut bridge = Bridge::new(Config::default());
    for (packet, error) in cases {
        let ethertype = if packet[0] >> 4 == 6 { EtherType::IPV6 } else { EtherType::IPV4 };
        assert_eq!(Message::parse(ethertype, &packet), Err(error), "{packet:x?}");
        bridge.receive(1, &packet);
    }
    let counts = bridge.counts(1);
    assert_eq!((counts.invalid().map(|(_, count)| count).sum::<u64>(), counts.reports), (13, 0));
}

proptest! {
    /// After any sequence of messages, the table has the members that are shown.
    #[test]
    fn tables_have_the_members_that_are_shown(
        steps in prop::collection::vec((1u16..5, 0u8..7, 0u8..3, 0u64..200), 1..60),
    ) {
        let mut bridge = Bridge::new(with_querier([0; 4]));
        for (port, kind, group, pause) in steps {
            let group = Ipv4Addr::new(239, 0, 0, group);
            let message = match kind {
                0 => old(IGMP_LEAVE, group),
                kind => record(kind, group, &[[10, 0, 0, kind]]),
            };
            bridge.receive(port, &message);
            bridge.wait(seconds(pause));
            let Some(table) = bridge.snooper.take_table() else { continue };
            for n in 0..3 {
                let group = Ipv4Addr::new(239, 0, 0, n);
                let members = bridge.members(group);
                let expected = if members.is_empty() { Receivers::All } else { Receivers::Ports(&members) };
                prop_assert_eq!(table.receivers(0, group.into()), expected);
            }
        }
    }

    #[test]
    fn arbitrary_messages_keep_the_invariants(script in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz::fuzz_messages(&script);
    }
}
