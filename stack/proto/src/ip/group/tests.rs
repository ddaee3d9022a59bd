use super::*;
use proptest::prelude::*;
use std::prelude::v1::*;
use wire::checksum::Sum;

const PORT: InterfaceId = InterfaceId(3);

fn address(text: &str) -> Address {
    text.parse::<std::net::IpAddr>().unwrap().into()
}

fn seconds(seconds: u64) -> Time {
    Time(seconds * 1_000_000_000)
}

/// A query with a delay of ten seconds, of the current or the older version.
fn query(is_v4: bool, group: Option<&str>, is_old: bool) -> Vec<u8> {
    let group = group.map_or(if is_v4 { Address::v4([0; 4]) } else { Address::UNSPECIFIED }, address);
    let fixed: &[u8] = if is_v4 { &[0x11, 100, 0, 0] } else { &[130, 0, 0, 0, 0x27, 0x10, 0, 0] };
    let mut message = [fixed, group.wire(), if is_old { &[] } else { &[0; 4] }].concat();
    let sum = Sum::of(&message).finish();
    message[2..4].copy_from_slice(&sum);
    message
}

struct Host {
    groups: Groups,
    now: Time,
}

impl Host {
    fn new(limit: u32) -> Self {
        let mut config = Config::new([6; 16]);
        config.limits.groups = limit;
        Self { groups: Groups::new(&config), now: Time(0) }
    }

    /// Runs timers up to a time; returns destination and ICMPv6 or IGMP message of what is sent.
    fn run(&mut self, to: Time) -> Vec<(Address, Vec<u8>)> {
        let mut sent = Vec::new();
        while self.groups.deadline() <= to {
            self.now = self.now.max(self.groups.deadline());
            let source = |_, is_v4| address(if is_v4 { "10.0.0.1" } else { "fe80::1" });
            while let Some((interface, control)) = self.groups.poll(self.now, source) {
                assert_eq!(interface, PORT);
                let at = if control.destination.is_v4() { 24 } else { 48 };
                sent.push((control.destination, control.packet[at..].to_vec()));
            }
        }
        self.now = to;
        sent
    }

    fn receive(&mut self, source: &str, message: &[u8]) -> bool {
        self.groups.receive(PORT, address(source), 1, message, self.now)
    }
}

/// Record types and groups of a report.
fn records(message: &[u8]) -> Vec<(u8, Address)> {
    let is_v4 = message[0] == 0x22;
    assert!(is_v4 || message[0] == 143, "{message:?}");
    let records: Vec<_> = message[8..]
        .chunks(if is_v4 { 8 } else { 20 })
        .map(|record| match record.len() {
            8 => (record[0], Address::v4(record[4..].try_into().unwrap())),
            _ => (record[0], Address::v6(record[4..].try_into().unwrap())),
        })
        .collect();
    assert_eq!(u16::from_be_bytes([message[6], message[7]]), records.len() as u16);
    records
}

const VERSIONS: [(bool, &str, &str, &str); 2] =
    [(true, "10.0.0.9", "224.1.2.3", "224.0.0.22"), (false, "fe80::9", "ff02::fb", "ff02::16")];

#[test]
fn changes_are_reported_twice_and_queries_answered_once() {
    for (is_v4, router, group, to) in VERSIONS {
        let mut host = Host::new(10);
        assert!(host.groups.join(PORT, address(group), host.now));
        let kinds = |sent: Vec<(Address, Vec<u8>)>| {
            assert!(sent.iter().all(|sent| sent.0 == address(to)));
            sent.iter().flat_map(|sent| records(&sent.1)).collect::<Vec<_>>()
        };
        let record = |kind| (kind, address(group));
        assert_eq!(kinds(host.run(seconds(2))), [record(4), record(4)]);
        for specific in [None, Some(group)] {
            assert!(host.receive(router, &query(is_v4, specific, false)));
            assert!(host.receive(router, &query(is_v4, specific, false)));
            let from = host.now;
            assert_eq!(kinds(host.run(from.after(Duration::from_secs(11)))), [record(2)]);
        }
        assert!(
            host.receive(router, &query(is_v4, Some(if is_v4 { "224.9.9.9" } else { "ff02::99" }), false))
        );
        assert!(host.run(seconds(50)).is_empty());
        host.groups.leave(PORT, address(group), host.now);
        assert!(!host.groups.is_joined(PORT, address(group)));
        assert_eq!(kinds(host.run(seconds(60))), [record(3), record(3)]);
        assert!(host.groups.members.is_empty() && host.groups.deadline().is_never());
    }
}

#[test]
fn joins_are_counted() {
    let mut host = Host::new(10);
    let group = address("224.1.2.3");
    assert!(host.groups.join(PORT, group, host.now) && host.groups.join(PORT, group, host.now));
    host.run(seconds(2));
    host.groups.leave(PORT, group, host.now);
    assert!(host.groups.is_joined(PORT, group) && host.run(seconds(4)).is_empty());
    assert!(!host.groups.is_joined(InterfaceId(4), group));
    host.groups.leave(PORT, group, host.now);
    host.groups.leave(PORT, group, host.now);
    assert!(!host.groups.is_joined(PORT, group));
}

#[test]
fn an_older_querier_gets_reports_of_its_version_for_a_time() {
    for ((is_v4, router, group, _), (report, leave, routers)) in
        VERSIONS.into_iter().zip([(0x16, 0x17, "224.0.0.2"), (131, 132, "ff02::2")])
    {
        let mut host = Host::new(10);
        host.groups.join(PORT, address(group), host.now);
        host.run(seconds(2));
        assert!(host.receive(router, &query(is_v4, None, true)));
        let sent = host.run(seconds(13));
        assert_eq!((sent.len(), sent[0].0, sent[0].1[0]), (1, address(group), report));
        assert!(host.receive(router, &query(is_v4, None, false)));
        assert_eq!(host.run(seconds(24))[0].1[0], report);
        assert!(host.receive(router, &query(is_v4, Some(group), true)));
        let mut heard = old_membership_report(address(group).ip(), false);
        let sum = Sum::of(&heard).finish();
        heard[2..4].copy_from_slice(&sum);
        assert!(host.receive(router, &heard));
        assert!(host.run(seconds(35)).is_empty(), "another host answered");
        host.groups.leave(PORT, address(group), host.now);
        let sent = host.run(seconds(40));
        assert!(sent.iter().all(|sent| (sent.0, sent.1[0]) == (address(routers), leave)));
        assert_eq!(sent.len(), 1, "a leave message is not repeated");
        host.run(seconds(300));
        host.groups.join(PORT, address(group), host.now);
        assert_eq!(records(&host.run(seconds(301))[0].1), [(4, address(group))]);
    }
}

/// RFC 3376 section 7.2.1, RFC 3810 section 8.2.1.
#[test]
fn a_change_of_the_version_cancels_reports() {
    for ((is_v4, router, group, _), report) in VERSIONS.into_iter().zip([0x16, 131]) {
        let left = address(if is_v4 { "224.9.9.9" } else { "ff02::99" });
        let mut host = Host::new(10);
        host.groups.join(PORT, left, host.now);
        host.run(seconds(2));
        host.groups.join(PORT, address(group), host.now);
        host.groups.leave(PORT, left, host.now);
        assert_eq!(host.run(seconds(2)).len(), 1, "both changes in one report, to be repeated");
        assert!(host.receive(router, &query(is_v4, None, true)));
        let sent = host.run(seconds(60));
        let kinds: Vec<_> = sent.iter().map(|sent| (sent.0, sent.1[0])).collect();
        assert_eq!(kinds, [(address(group), report)], "the answer to the query");
        assert_eq!(host.groups.members.len(), 1);
    }
}

#[test]
fn an_old_query_for_one_group_changes_the_version_of_mld_only() {
    for (is_v4, router, group, to) in VERSIONS {
        let mut host = Host::new(10);
        host.groups.join(PORT, address(group), host.now);
        host.run(seconds(2));
        assert!(host.receive(router, &query(is_v4, Some(group), true)));
        let sent = host.run(seconds(13));
        assert_eq!((sent.len(), sent[0].0), (1, address(if is_v4 { to } else { group })));
    }
}

/// RFC 2236 section 8.10, RFC 2710 section 7.10.
#[test]
fn older_reports_of_a_change_are_repeated_within_ten_seconds() {
    for (is_v4, router, ..) in VERSIONS {
        let mut host = Host::new(40);
        host.receive(router, &query(is_v4, None, true));
        for number in 1..30 {
            let octets = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, number];
            let group = if is_v4 { Address::v4([224, 9, 9, number]) } else { Address::v6(octets) };
            host.groups.join(PORT, group, host.now);
        }
        assert_eq!(host.run(Time(0)).len(), 29);
        assert!(host.run(seconds(2)).len() < 20);
        assert!(host.run(seconds(8)).len() > 1 && host.run(seconds(10)).len() > 1);
        assert!(host.groups.deadline().is_never());
    }
}

#[test]
fn messages_from_beyond_the_link_have_no_effect() {
    let mut host = Host::new(10);
    host.groups.join(PORT, address("ff02::fb"), host.now);
    host.run(seconds(2));
    let message = query(false, None, false);
    assert!(!host.receive("2001:db8::1", &message) && !host.receive("10.0.0.1", &message));
    assert!(!host.groups.receive(PORT, address("fe80::1"), 2, &message, host.now));
    assert!(host.groups.deadline().is_never());
}

#[test]
fn groups_of_all_nodes_are_not_reported() {
    let mut host = Host::new(10);
    for group in ["224.0.0.1", "ff02::1", "ff01::99"] {
        assert!(
            host.groups.join(PORT, address(group), host.now) && host.groups.is_joined(PORT, address(group))
        );
    }
    assert!(host.groups.deadline().is_never());
    host.receive("10.0.0.9", &query(true, None, false));
    assert!(host.run(seconds(20)).is_empty());
    host.groups.leave(PORT, address("ff02::1"), host.now);
    assert_eq!(host.groups.members.len(), 2);
}

#[test]
fn many_groups_need_several_reports() {
    let mut host = Host::new(100);
    for number in 0..100 {
        assert!(host.groups.join(PORT, Address::v4([224, 1, 2, number]), host.now));
    }
    assert!(!host.groups.join(PORT, address("224.2.2.2"), host.now));
    let sent = host.run(Time(0));
    let counts: Vec<_> = sent.iter().map(|sent| records(&sent.1).len()).collect();
    assert_eq!(counts, [60, 40]);
    host.groups.leave(PORT, Address::v4([224, 1, 2, 7]), host.now);
    assert!(host.groups.join(PORT, address("224.2.2.2"), host.now), "in place of the left one");
    assert_eq!(host.groups.members.len(), 100);
}

#[test]
fn groups_of_addresses_need_no_room() {
    let mut host = Host::new(1);
    let [own, first, second] = ["ff02::1:ff00:1", "ff02::fb", "ff02::fc"].map(address);
    assert!(host.groups.join(PORT, first, host.now));
    host.groups.join_reserved(PORT, own, host.now);
    assert!(host.groups.is_joined(PORT, own) && !host.groups.join(PORT, second, host.now));
    host.groups.leave(PORT, first, host.now);
    assert!(host.groups.join(PORT, second, host.now), "the group of the address takes no room from sockets");
    host.groups.leave(PORT, own, host.now);
    host.run(seconds(5));
    assert_eq!(host.groups.members.len(), 1);
}

proptest! {
    #[test]
    fn arbitrary_scripts_exceed_no_limit(
        script in prop::collection::vec(
            (0u8..5, 0u8..6, any::<bool>(), 0u64..3000, prop::collection::vec(any::<u8>(), 0..40)), 0..60),
    ) {
        let mut host = Host::new(3);
        let mut joins = [0u32; 12];
        for (step, number, is_v4, wait, bytes) in script {
            let [four, six] = [Address::v4([224, 1, 1, number]), address(&std::format!("ff02::{number:x}99"))];
            let group = if is_v4 { four } else { six };
            let count = &mut joins[usize::from(number) + if is_v4 { 6 } else { 0 }];
            match step {
                0 => *count += u32::from(host.groups.join(PORT, group, host.now)),
                1 => {
                    host.groups.leave(PORT, group, host.now);
                    *count = count.saturating_sub(1);
                }
                2 => {
                    let router = if is_v4 { "10.0.0.9" } else { "fe80::9" };
                    host.receive(router, &query(is_v4, None, number < 3));
                }
                3 => {
                    host.receive("fe80::9", &bytes);
                }
                _ => {
                    let sent = host.run(Time(host.now.0 + wait * 1_000_000));
                    prop_assert!(sent.len() as u64 <= 8 + 3 * wait / 10);
                }
            }
            prop_assert_eq!(host.groups.is_joined(PORT, group), *count > 0);
            prop_assert!(host.groups.members.len() <= 3);
        }
    }
}
