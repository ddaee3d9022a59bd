//! Bonds against Open vSwitch: LACP in both roles, and switches that are not aware of the bond.
//!
//! Two cables connect the switch, with packet sockets, to Open vSwitch's user-space datapath. A TAP interface is the
//! guest at one end, the interface of Open vSwitch's bridge the host at the other.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use linerate_tests::netns::Netns;
use linerate_tests::ovs::Ovs;
use linerate_tests::switch::Switch;
use linerate_tests::{folder, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(40);
const GUEST: &str = "10.9.0.1";
const HOST: &str = "10.9.0.2";

struct Site {
    guest: Netns,
    host: Netns,
    /// Ends of the cables at the switch.
    near: Netns,
    ovs: Ovs,
    switch: Switch,
}

impl Site {
    /// Starts both. `bond` has the keys of the bond, `far` the command that adds the ends of the cables to `br0`.
    fn start(folder: &Path, bond: &str, far: &[&str]) -> Site {
        Self::start_with(folder, "", bond, far)
    }

    /// As [`Site::start`], with more sections of the file.
    fn start_with(folder: &Path, sections: &str, bond: &str, far: &[&str]) -> Site {
        let (guest, host, near) = (Netns::new(), Netns::new(), Netns::new());
        for number in [1, 2] {
            near.cable(&format!("near{number}"), &host, &format!("far{number}"));
        }
        // The kernel gets a copy of what Open vSwitch receives, and must not answer for the interface of its bridge.
        host.set("net/ipv4/conf/all/arp_ignore", 1);
        let ovs = Ovs::start_in(folder, &host);
        ovs.run("ovs-vsctl", far);
        host.configure("br0", &[&format!("{HOST}/24")]);
        let port = |number: u8| {
            let netns = near.name();
            format!(
                "[[port]]\nname = \"p{number}\"\nkind = \"af_packet\"\ninterface = \"near{number}\"\nnetns = \"{netns}\"\n"
            )
        };
        let tap = format!(
            "[[port]]\nname = \"guest\"\nkind = \"tap\"\ninterface = \"tap0\"\nnetns = \"{}\"\n",
            guest.name()
        );
        let text = format!(
            "{sections}[[bond]]\nname = \"uplink\"\nports = [\"p1\", \"p2\"]\n{bond}\n{}{}{tap}",
            port(1),
            port(2)
        );
        let switch = Switch::start_from(folder, &text);
        guest.wait_link("tap0", true, LIMIT);
        guest.configure("tap0", &[&format!("{GUEST}/24")]);
        Site { guest, host, near, ovs, switch }
    }

    fn bond(&self) -> Value {
        self.switch.ask(&["bonds", "show", "uplink"]).unwrap()
    }

    /// Waits until the bond is in the wanted state.
    #[track_caller]
    fn wait_bond(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let found = wait::until(LIMIT, || Some(self.bond()).filter(|bond| wanted(&bond["live"])));
        found.unwrap_or_else(|| panic!("{:#}", self.bond()))
    }

    /// Waits until this number of members is in use.
    #[track_caller]
    fn wait_enabled(&self, members: usize) -> Value {
        self.wait_bond(|live| enabled(live).len() == members)
    }

    /// Pings while the link of a member goes down. Returns the number of lost packets, of 100 within ten seconds.
    fn ping_while(&self, change: impl FnOnce()) -> usize {
        let folder = folder();
        let words = ["-n", "-q", "-i", "0.1", "-c", "100", "-W", "1", HOST];
        let mut ping = self.guest.spawn(folder.path(), "ping", "ping", &words);
        std::thread::sleep(Duration::from_secs(1));
        change();
        let ended = wait::until(LIMIT, || ping.ended());
        let said = ping.output();
        assert!(ended.is_some() && !said.contains("duplicates"), "{said}");
        let received = said.split(" received").next().and_then(|text| text.rsplit(' ').next());
        100 - received.and_then(|number| number.parse::<usize>().ok()).unwrap_or_else(|| panic!("{said}"))
    }

    /// Drops of all ports for one reason.
    fn lost(&self, reason: &str) -> u64 {
        let ports = self.switch.ask(&["ports", "show"]).unwrap();
        let lost = |port: &Value| port["live"]["drops"][reason].as_u64().unwrap_or(0);
        ports.as_array().unwrap().iter().map(lost).sum()
    }
}

/// Names of the members in use.
fn enabled(live: &Value) -> Vec<String> {
    let members = live["members"].as_array().into_iter().flatten();
    let used = members.filter(|member| member["enabled"] == true);
    used.map(|member| member["port"].as_str().unwrap().to_owned()).collect()
}

/// LACPDUs that each member has received.
fn received(live: &Value) -> Vec<u64> {
    let members = live["members"].as_array().into_iter().flatten();
    members.map(|member| member["lacp"]["received"].as_u64().unwrap()).collect()
}

const FAR_LACP: [&str; 9] = [
    "add-bond",
    "br0",
    "bond0",
    "far1",
    "far2",
    "bond_mode=balance-tcp",
    "other_config:lacp-time=fast",
    "other_config:bond-detect-mode=carrier",
    "lacp=active",
];
/// Two ports of a switch that is not aware of the bond.
const FAR_PLAIN: [&str; 7] = ["add-port", "br0", "far1", "--", "add-port", "br0", "far2"];

#[test]
#[ignore = "needs root and Open vSwitch; run by `cargo xtask test`"]
fn lacp_aggregates_links_to_open_vswitch_and_survives_the_loss_of_one() {
    let folder = folder();
    let keys =
        "mode = \"balance-tcp\"\nlacp = \"active\"\nlacp_rate = \"fast\"\nsystem_priority = 7\nkey = 77";
    let site = Site::start(folder.path(), keys, &FAR_LACP);
    let bond = site.wait_enabled(2);
    site.guest.ping(HOST, 5, &[]);
    site.host.ping(GUEST, 5, &[]);
    agree(&site, &bond);
    // The other end of a cable goes down: the kernel reports it, and no LACPDU is missed.
    let lost = site.ping_while(|| {
        site.host.ip("link set far1 down");
    });
    assert_eq!(enabled(&site.wait_enabled(1)["live"]), ["p2"]);
    assert!(lost <= 10, "{lost} pings were lost");
    site.host.ip("link set far1 up");
    site.wait_enabled(2);
    site.guest.ping(HOST, 5, &[]);
    // A change that does not concern LACP, and one that it carries out, lose nothing.
    let lost = site.ping_while(|| {
        for change in ["rebalance=5s", "lacp_rate=slow", "lacp_rate=fast", "rebalance=0s"] {
            site.switch.tell(&["bonds", "set", "uplink", change]).unwrap();
        }
    });
    assert_eq!(lost, 0, "{:#}", site.bond());
    assert_eq!(enabled(&site.bond()["live"]).len(), 2);
    // A LACPDU that arrived at the slow rate is valid for 90 s, and is followed by one of the fast rate within 30 s.
    let before = received(&site.bond()["live"]);
    site.wait_bond(|live| received(live).iter().zip(&before).all(|(now, before)| now > before));
    // Open vSwitch ends its side of the negotiation: the bond stops, because it has no partner.
    site.ovs.run("ovs-vsctl", &["set", "port", "bond0", "lacp=off"]);
    site.wait_bond(|live| live["lacp"] == "configured" && enabled(live).is_empty());
    site.switch.tell(&["bonds", "set", "uplink", "fallback=true"]).unwrap();
    site.wait_bond(|live| live["active"].is_string());
    // Passive at this end.
    site.ovs.run("ovs-vsctl", &["set", "port", "bond0", "lacp=active"]);
    site.switch.tell(&["bonds", "set", "uplink", "lacp=passive"]).unwrap();
    site.wait_bond(|live| live["lacp"] == "negotiated" && enabled(live).len() == 2);
    site.guest.ping(HOST, 5, &[]);
    site.switch.stop();
}

/// Both ends say the same about each other.
fn agree(site: &Site, bond: &Value) {
    let shown = site.ovs.control("lacp/show", &["bond0"]);
    let member = &bond["live"]["members"][0];
    let (actor, partner) = (&member["lacp"]["actor"], &member["lacp"]["partner"]);
    for line in [
        "status: active negotiated".to_owned(),
        "partner key: 77".to_owned(),
        "partner sys_priority: 7".to_owned(),
        format!("partner sys_id: {}", actor["system"].as_str().unwrap()),
        format!("sys_id: {}", partner["system"].as_str().unwrap()),
        format!("aggregation key: {}", partner["key"]),
        "partner state: activity timeout aggregation synchronized collecting distributing".to_owned(),
    ] {
        assert!(shown.contains(&line), "{line} is not in {shown}\n{bond:#}");
    }
    assert_eq!((&actor["key"], &member["lacp"]["receive"]), (&77.into(), &"current".into()), "{bond:#}");
    let peers = site.ovs.control("bond/show", &["bond0"]);
    for line in ["lacp_status: negotiated", "member far1: enabled", "member far2: enabled"] {
        assert!(peers.contains(line), "{peers}");
    }
}

#[test]
#[ignore = "needs root and Open vSwitch; run by `cargo xtask test`"]
fn active_backup_moves_stations_of_an_unaware_switch_to_the_new_member() {
    let folder = folder();
    let site = Site::start(folder.path(), "mode = \"active-backup\"\nprimary = \"p2\"", &FAR_PLAIN);
    let bond = site.wait_bond(|live| live["active"] == "p2");
    assert_eq!(bond["settings"]["mode"], "active-backup");
    site.guest.ping(HOST, 5, &[]);
    let lost = site.ping_while(|| {
        site.host.ip("link set far2 down");
    });
    site.wait_bond(|live| live["active"] == "p1");
    // The other switch needs some time to revalidate its cached flows.
    assert!(lost <= 60, "{lost} pings were lost");
    // The learning packets have told the other switch where the guest is, also without traffic of the guest.
    site.host.ip("link set far2 up");
    site.wait_bond(|live| live["active"] == "p2");
    let mac = site.guest.link("tap0").unwrap()["address"].as_str().unwrap().to_owned();
    let number = site.ovs.run("ovs-vsctl", &["get", "Interface", "far2", "ofport"]);
    let moved = wait::until(LIMIT, || {
        let table = site.ovs.control("fdb/show", &["br0"]);
        table
            .lines()
            .any(|line| line.contains(&mac) && line.split_whitespace().next() == Some(number.trim()))
            .then_some(())
    });
    assert!(moved.is_some(), "{}", site.ovs.control("fdb/show", &["br0"]));
    site.host.ping(GUEST, 5, &[]);
    assert!(site.lost("bond-inactive") > 0, "the backup receives broadcasts of the other switch");
    site.switch.stop();
}

#[test]
#[ignore = "needs root and Open vSwitch; run by `cargo xtask test`"]
fn source_balancing_to_an_unaware_switch_neither_loops_nor_duplicates() {
    let folder = folder();
    let site = Site::start(folder.path(), "mode = \"balance-slb\"", &FAR_PLAIN);
    site.wait_enabled(2);
    site.guest.ping(HOST, 5, &[]);
    let lost = site.ping_while(|| {
        site.host.ip("neigh flush all");
        site.near.ip("link set near1 down");
    });
    assert!(lost <= 10, "{lost} pings were lost");
    assert_eq!(enabled(&site.wait_enabled(1)["live"]), ["p2"]);
    site.near.ip("link set near1 up");
    site.wait_enabled(2);
    site.host.ip("neigh flush all");
    site.host.ping(GUEST, 5, &[]);
    // Without the bond, both cables would be a loop.
    site.switch.tell(&["ports", "remove", "p2"]).unwrap();
    assert_eq!(site.bond()["settings"]["ports"], serde_json::json!(["p1"]));
    site.switch.tell(&["bonds", "remove", "uplink"]).unwrap();
    assert_eq!(site.switch.ask(&["bonds", "show"]).unwrap(), Value::Array(Vec::new()));
    site.guest.ping(HOST, 5, &[]);
    site.switch.stop();
}

/// An OpenFlow bridge whose flows name the bond.
const FLOWS: &str = "[[bridge]]\nname = \"main\"\npipeline = \"openflow\"\n\
    [[flow]]\nflow = [\"in_port=guest,actions=output:uplink\", \"in_port=uplink,actions=output:guest\"]\n";

#[test]
#[ignore = "needs root and Open vSwitch; run by `cargo xtask test`"]
fn a_bond_is_one_port_of_flow_tables() {
    let folder = folder();
    let keys = "mode = \"balance-tcp\"\nlacp = \"active\"\nlacp_rate = \"fast\"";
    let site = Site::start_with(folder.path(), FLOWS, keys, &FAR_LACP);
    site.wait_enabled(2);
    site.guest.ping(HOST, 5, &[]);
    site.host.ping(GUEST, 5, &[]);
    let lost = site.ping_while(|| {
        site.host.ip("link set far1 down");
    });
    assert_eq!(enabled(&site.wait_enabled(1)["live"]), ["p2"]);
    assert!(lost <= 10, "{lost} pings were lost");
    let flows = site.switch.ask(&["flows", "show"]).unwrap();
    let used = |flow: &Value| flow["packets"].as_u64().unwrap() > 100;
    assert_eq!(flows["flows"].as_array().unwrap().iter().filter(|flow| used(flow)).count(), 2, "{flows:#}");
    let shown = || {
        let mut command = Command::new("ovs-ofctl");
        let words = ["--timeout=10", "-O", "OpenFlow13", "show", "main"];
        let output = command.args(words).env("OVS_RUNDIR", folder.path()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let described = wait::until(LIMIT, || Some(shown()).filter(|text| text.contains("(uplink)")));
    let described = described.unwrap_or_else(&shown);
    assert!(described.contains("(guest)") && !described.contains("(p1)"), "{described}");
    // Without the bond, its members are ports of the tables again.
    site.switch.tell(&["bonds", "remove", "uplink"]).unwrap();
    let described = wait::until(LIMIT, || Some(shown()).filter(|text| text.contains("(p2)")));
    assert!(described.is_some_and(|text| text.contains("(p1)") && !text.contains("(uplink)")), "{}", shown());
    site.switch.stop();
}
