//! IGMP and MLD snooping with the kernel as host, as bridge and as querier: packets of groups reach members only, the
//! switch keeps memberships alive as querier, and the kernel's bridge and the switch know each other's members.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use std::path::Path;
use std::time::Duration;

use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::switch::Switch;
use linerate_tests::{folder, need, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);
const PYTHON: &str = "python3";
const GROUPS: [&str; 2] = ["239.1.2.3", "ff05::7"];

/// Joins a group, for one source if a second address is given, and leaves it when it has received the text `end`.
const MEMBER: &str = r#"
import socket, struct, sys
group, own = sys.argv[1], sys.argv[2]
v4 = ":" not in group
member = socket.socket(socket.AF_INET if v4 else socket.AF_INET6, socket.SOCK_DGRAM)
member.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
member.bind(("", 5000))
if len(sys.argv) > 3:
    level, join, leave = socket.IPPROTO_IP, 39, 40
    request = b"".join(socket.inet_aton(address) for address in (group, own, sys.argv[3]))
elif v4:
    level, join, leave = socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.IP_DROP_MEMBERSHIP
    request = socket.inet_aton(group) + socket.inet_aton(own)
else:
    level, join, leave = socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.IPV6_LEAVE_GROUP
    request = socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", socket.if_nametoindex("eth0"))
member.setsockopt(level, join, request)
print("joined", flush=True)
text = ""
while text != "end":
    text = member.recv(100).decode()
    print("received", text, flush=True)
member.setsockopt(level, leave, request)
print("left", flush=True)
sys.stdin.readline()
"#;

/// Sends a text to an address.
const SENDER: &str = r#"
import socket, sys
address, own, text = sys.argv[1:]
sender = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
if ":" in address:
    sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex("eth0"))
    sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 3)
else:
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 3)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
sender.sendto(text.encode(), (address, 5000))
"#;

/// The hosts `red`, `blue` and `green` at a switch, and the namespace of the port `up`.
struct Site {
    hosts: [Netns; 3],
    up: Netns,
    switch: Switch,
}

impl Site {
    fn start(folder: &Path, snooping: &str) -> Self {
        let (hosts, up) = ([(), (), ()].map(|()| Netns::new()), Netns::new());
        let places =
            || [("red", &hosts[0]), ("blue", &hosts[1]), ("green", &hosts[2]), ("up", &up)].into_iter();
        let ports = places().map(|(name, netns)| {
            let netns = netns.name();
            let trusted = if name == "up" { "trusted = true\n" } else { "" };
            let kind = "kind = \"tap\"\ninterface = \"eth0\"";
            format!("[[port]]\nname = \"{name}\"\n{kind}\nnetns = \"{netns}\"\n{trusted}")
        });
        let ports: String = ports.collect();
        let bridge = format!("[[bridge]]\nname = \"lan\"\nmulticast_snooping = {{ {snooping} }}\n");
        let switch = Switch::start_from(folder, &format!("[[worker]]\n[[worker]]\n{bridge}{ports}"));
        for (n, (name, netns)) in (1..).zip(places()) {
            netns.wait_link("eth0", true, LIMIT);
            let addresses = [format!("10.9.0.{n}/24"), format!("fd09::{n}/64")];
            let addresses = if name == "up" { &[][..] } else { &addresses };
            netns.configure("eth0", &addresses.iter().map(String::as_str).collect::<Vec<_>>());
            switch.wait_state(name, "connected", LIMIT);
        }
        Self { hosts, up, switch }
    }

    /// Starts a member of a group at host `n`, and waits until it has joined.
    fn join(&self, folder: &Path, n: usize, group: &str, source: &[&str]) -> Process {
        let (name, own) = (format!("member-{n}-{group}"), format!("10.9.0.{}", n + 1));
        let words = [&["-c", MEMBER, group, &own][..], source].concat();
        let mut member = self.hosts[n].spawn(folder, &name, PYTHON, &words);
        member.wait_for("joined", 0, LIMIT);
        member
    }

    /// Host 0 sends a text.
    fn send(&self, address: &str, text: &str) {
        self.hosts[0].run(PYTHON, &["-c", SENDER, address, "10.9.0.1", text]);
    }

    /// The state of the bridge.
    fn shown(&self) -> Value {
        self.switch.ask(&["multicast", "show"]).unwrap()[0].clone()
    }

    /// The entry of a group at a port.
    fn member(&self, group: &str, port: &str) -> Option<Value> {
        let shown = self.shown();
        let groups = shown["groups"].as_array().unwrap();
        groups.iter().find(|entry| entry["group"] == group && entry["port"] == port).cloned()
    }

    /// Waits until a port is a member of a group, or is not.
    fn wait_member(&self, group: &str, port: &str, wanted: bool) {
        let reached = wait::until(LIMIT, || (self.member(group, port).is_some() == wanted).then_some(()));
        assert!(reached.is_some(), "{group} at {port}: {}", self.shown());
    }

    fn assert_sums_agree(&self) {
        self.switch.assert_sums_agree(&["red", "blue", "green", "up"]);
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn packets_of_a_group_reach_members_only() {
    let folder = folder();
    let site = Site::start(folder.path(), "querier = true, query_interval = \"20s\"");
    for group in GROUPS {
        let mut member = site.join(folder.path(), 1, group, &[]);
        site.wait_member(group, "blue", true);
        let name = format!("tcpdump-{group}");
        let filter = ["--immediate-mode", "-n", "-l", "-i", "eth0", "udp port 5000"];
        let mut capture = site.hosts[2].spawn(folder.path(), &name, "tcpdump", &filter);
        capture.wait_for("listening on", 0, LIMIT);
        site.send(group, "one");
        site.send(group, "end");
        member.wait_for("received one", 0, LIMIT);
        member.wait_for("left", 0, LIMIT);
        // All hosts receive the broadcast, which follows the packets to the group.
        site.send("10.9.0.255", "to all");
        capture.wait_for("10.9.0.255.5000", 0, LIMIT);
        let seen = capture.output();
        assert!(!seen.contains(group), "{seen}");
        site.wait_member(group, "blue", false);
        // Without members, the packet is flooded.
        site.send(group, "flooded");
        capture.wait_for(&format!("{group}.5000"), 0, LIMIT);
    }
    let shown = site.shown();
    let blue = shown["ports"].as_array().unwrap().iter().find(|port| port["port"] == "blue").unwrap().clone();
    assert!(blue["reports"].as_u64().unwrap() >= 4, "{shown}");
    assert!(blue["invalid"].as_object().unwrap().values().all(|count| *count == 0), "{shown}");
    assert!(site.switch.counters("blue").punted >= 4);
    site.assert_sums_agree();
    site.switch.stop();
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn the_querier_keeps_memberships_which_are_flushed_on_request() {
    let folder = folder();
    let intervals = "query_interval = \"1s\", membership_interval = \"6s\"";
    let mut site = Site::start(folder.path(), &format!("querier = true, {intervals}"));
    let _members = GROUPS.map(|group| site.join(folder.path(), 1, group, &[]));
    let source = site.join(folder.path(), 2, "232.1.1.1", &["10.9.0.1"]);
    let entry = |group, port| wait::until(LIMIT, || site.member(group, port)).unwrap();
    let limited = entry("232.1.1.1", "green");
    assert_eq!(
        (&limited["mode"], &limited["sources"][0]),
        (&"include".into(), &"10.9.0.1".into()),
        "{limited}"
    );
    let version = |group| entry(group, "blue")["version"].as_str().unwrap().to_owned();
    assert_eq!(GROUPS.map(version), ["IGMPv3", "MLDv2"]);
    for group in GROUPS {
        let is_old = || {
            let age = site.member(group, "blue")?["age"].as_u64()?;
            (age >= 10).then_some(())
        };
        assert!(wait::until(LIMIT, is_old).is_some(), "hosts answer queries: {}", site.shown());
    }
    let refused = site.switch.upgrade(&[]).unwrap_err();
    assert!(refused.contains("bridge \"lan\"") && refused.contains("groups are learned again"), "{refused}");
    let queriers = site.shown()["queriers"].clone();
    assert!(queriers.as_array().unwrap().iter().any(|querier| querier["address"] == "0.0.0.0"), "{queriers}");
    let flushed = site.switch.ask(&["multicast", "flush", "--port", "green"]).unwrap();
    assert!(flushed["flushed"].as_u64().unwrap() >= 1, "{flushed}");
    site.wait_member("232.1.1.1", "green", true);
    drop(source);
    site.wait_member("232.1.1.1", "green", false);
    site.switch.tell(&["ports", "remove", "blue"]).unwrap();
    site.wait_member(GROUPS[0], "blue", false);
    site.switch.stop();
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn the_switch_and_the_bridge_of_the_kernel_know_each_others_members() {
    need::program("bridge");
    let folder = folder();
    let site = Site::start(folder.path(), "flood_unregistered = false");
    let far = Netns::new();
    let querier = "mcast_snooping 1 mcast_querier 1 mcast_query_use_ifaddr 1 mcast_igmp_version 3 mcast_startup_query_interval 200";
    site.up.ip(&format!("link add br0 type bridge {querier} mcast_query_interval 200"));
    site.up.ip("link set br0 up");
    site.up.ip("address add 10.9.0.9/24 dev br0");
    site.up.cable("far", &far, "eth0");
    far.configure("eth0", &["10.9.0.5/24"]);
    for port in ["eth0", "far"] {
        site.up.ip(&format!("link set {port} master br0 up"));
    }
    let router = || {
        let shown = site.shown();
        let routers = shown["routers"].as_array()?.clone();
        routers.into_iter().find(|router| router["port"] == "up" && router["address"] == "10.9.0.9")
    };
    assert!(wait::until(LIMIT, router).is_some(), "{}", site.shown());
    let mut member = site.join(folder.path(), 1, GROUPS[0], &[]);
    let is_known = || site.up.run("bridge", &["mdb", "show"]).contains(GROUPS[0]).then_some(());
    assert!(wait::until(LIMIT, is_known).is_some(), "reports go to router ports");
    // The far host sends over both.
    far.run(PYTHON, &["-c", SENDER, GROUPS[0], "10.9.0.5", "from far"]);
    member.wait_for("received from far", 0, LIMIT);
    // The router port receives what has no members.
    let filter = ["--immediate-mode", "-n", "-l", "-i", "eth0", "udp port 5000"];
    let mut capture = site.up.spawn(folder.path(), "tcpdump-up", "tcpdump", &filter);
    capture.wait_for("listening on", 0, LIMIT);
    site.send("239.9.9.9", "for the router");
    capture.wait_for("239.9.9.9.5000", 0, LIMIT);
    site.assert_sums_agree();
    site.switch.stop();
}
