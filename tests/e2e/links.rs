//! Spanning trees of rings with the kernel's bridges (STP) and with Open vSwitch (RSTP): broadcasts do not circulate,
//! both sides know the blocked port, and another path is used when a link goes down. LLDP with `lldpd`, decoded by
//! tshark.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use linerate_tests::netns::Netns;
use linerate_tests::ovs::Ovs;
use linerate_tests::switch::Switch;
use linerate_tests::{folder, need, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);
/// Longest time until a tree is stable, on a loaded machine.
pub(crate) const CONVERGED: Duration = Duration::from_mins(2);
pub(crate) const HOSTS: [&str; 2] = ["10.9.0.1", "10.9.0.2"];
const BROADCAST: &str = "10.9.0.255";
const BROADCASTS: u64 = 5;

/// A host at the switch, the namespace of the other bridges, and a host behind them.
struct Site {
    near: Netns,
    bridges: Netns,
    far: Netns,
}

impl Site {
    fn new() -> Site {
        Site { near: Netns::new(), bridges: Netns::new(), far: Netns::new() }
    }

    /// A switch with the port `host`, and ports `p1` and `p2` whose interfaces are in the namespace of the bridges.
    fn switch(&self, folder: &Path, bridge: &str) -> Switch {
        let mut text = format!("[[worker]]\n[[bridge]]\nname = \"lan\"\n{bridge}\n");
        let guard = "stp_edge = \"yes\"\nbpdu_guard = true";
        let uplink = "trusted = true";
        let ports = [
            ("host", "eth0", &self.near, guard),
            ("p1", "p1", &self.bridges, uplink),
            ("p2", "p2", &self.bridges, uplink),
        ];
        for (name, interface, netns, more) in ports {
            let netns = netns.name();
            let place = format!("interface = \"{interface}\"\nnetns = \"{netns}\"");
            let _ = write!(text, "[[port]]\nname = \"{name}\"\nkind = \"tap\"\n{place}\n{more}\n");
        }
        let switch = Switch::start_from(folder, &text);
        self.near.wait_link("eth0", true, LIMIT);
        self.near.configure("eth0", &[&format!("{}/24", HOSTS[0])]);
        for port in ["p1", "p2"] {
            self.bridges.wait_link(port, true, LIMIT);
            self.bridges.ip(&format!("link set {port} up"));
        }
        switch
    }

    /// Connects the far host to the interface `far` of the bridges.
    fn add_far(&self) {
        self.bridges.cable("far", &self.far, "eth0");
        self.far.configure("eth0", &[&format!("{}/24", HOSTS[1])]);
    }

    fn assert_broadcasts_arrive_once(&self) {
        assert_broadcasts_arrive_once(&self.near, &self.far);
    }
}

/// Each broadcast of the near host arrives once at the far host.
#[track_caller]
pub(crate) fn assert_broadcasts_arrive_once(near: &Netns, far: &Netns) {
    near.ping(HOSTS[1], 2, &[]);
    let before = broadcasts(far);
    let count = BROADCASTS.to_string();
    // Broadcasts are not answered, which is an error of ping.
    let _ = near.attempt("ping", &["-b", "-c", &count, "-i", "0.05", "-W", "1", BROADCAST]);
    let received = wait::settled(Duration::from_millis(500), LIMIT, || broadcasts(far) - before);
    assert_eq!(received, BROADCASTS);
}

/// Received IPv4 broadcasts.
fn broadcasts(host: &Netns) -> u64 {
    let text = host.run("nstat", &["-asz", "IpExtInBcastPkts"]);
    let line = text.lines().find(|line| line.starts_with("IpExtInBcastPkts")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

/// Spanning tree of a port.
fn in_tree(switch: &Switch, port: &str) -> Value {
    switch.ask(&["ports", "show", port]).unwrap()["stp"].clone()
}

fn role_and_state(switch: &Switch, port: &str) -> [String; 2] {
    let stp = in_tree(switch, port);
    ["role", "state"].map(|key| stp[key].as_str().unwrap_or_default().to_owned())
}

/// Waits until the ports have these roles and states.
fn wait_ports(switch: &Switch, wanted: &[(&str, [&str; 2])]) {
    let reached = wait::until(CONVERGED, || {
        wanted.iter().all(|(port, wanted)| role_and_state(switch, port) == *wanted).then_some(())
    });
    let shown = || String::from_utf8(switch.tell(&["bridges", "show"]).unwrap()).unwrap();
    assert!(reached.is_some(), "not {wanted:?}:\n{}", shown());
}

fn tree(switch: &Switch) -> Value {
    switch.ask(&["bridges", "show", "lan"]).unwrap()["stp"].clone()
}

/// Kernel bridges `k1`, the root, and `k2`, with a cable between them, and other ports on them.
pub(crate) fn connect_kernel_bridges(bridges: &Netns, ports: &[(&str, &str)]) {
    let times = "stp_state 1 forward_delay 400 hello_time 100 max_age 600";
    for (name, priority) in [("k1", 4096), ("k2", 8192)] {
        bridges.ip(&format!("link add {name} type bridge {times} priority {priority}"));
        bridges.ip(&format!("link set {name} up"));
    }
    bridges.ip("link add c1 type veth peer name c2");
    for (port, bridge) in [("c1", "k1"), ("c2", "k2")].iter().chain(ports) {
        bridges.ip(&format!("link set {port} master {bridge} up"));
    }
    // Without a speed, the kernel takes 10 Mbit/s: a path over the switch is the longest one.
    bridges.ip("link set c2 type bridge_slave cost 2");
}

fn kernel_state(site: &Site, port: &str) -> String {
    let link = site.bridges.link(port).unwrap();
    link["linkinfo"]["info_slave_data"]["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn a_ring_with_kernel_bridges_uses_stp() {
    let (folder, site) = (folder(), Site::new());
    let bridge = "stp = \"rstp\"\nstp_hello = \"1s\"\nstp_max_age = \"6s\"\nstp_forward_delay = \"4s\"";
    let switch = site.switch(folder.path(), bridge);
    site.add_far();
    connect_kernel_bridges(&site.bridges, &[("p1", "k1"), ("p2", "k2"), ("far", "k2")]);
    wait_ports(
        &switch,
        &[
            ("host", ["designated", "forwarding"]),
            ("p1", ["root", "forwarding"]),
            ("p2", ["alternate", "discarding"]),
        ],
    );
    let version = || (in_tree(&switch, "p1")["version"] == "stp").then_some(());
    assert!(wait::until(CONVERGED, version).is_some(), "the neighbour knows no other");
    assert_eq!(tree(&switch)["root_port"], "p1");
    let forwards = || (kernel_state(&site, "p2") == "forwarding").then_some(());
    assert!(wait::until(CONVERGED, forwards).is_some(), "designated for the blocked link");
    site.assert_broadcasts_arrive_once();
    site.bridges.ip("link set p1 down");
    wait_ports(&switch, &[("p1", ["disabled", "discarding"]), ("p2", ["root", "forwarding"])]);
    site.near.ping(HOSTS[1], 3, &[]);
    site.bridges.ip("link set p1 up");
    wait_ports(&switch, &[("p1", ["root", "forwarding"]), ("p2", ["alternate", "discarding"])]);
    site.assert_broadcasts_arrive_once();
    switch.assert_sums_agree(&["host", "p1", "p2"]);
    switch.stop();
}

/// Bridges of Open vSwitch as the kernel's above.
fn ovs_bridges(site: &Site, ovs: &Ovs) {
    site.bridges.ip("link add c1 type veth peer name c2");
    for port in ["c1", "c2"] {
        site.bridges.ip(&format!("link set {port} up"));
    }
    for (bridge, priority) in [("br1", 4096), ("br2", 8192)] {
        let priority = format!("other_config:rstp-priority={priority}");
        let settings = ["datapath_type=netdev", "rstp_enable=true", &priority];
        ovs.run("ovs-vsctl", &[&["add-br", bridge, "--", "set", "bridge", bridge], &settings[..]].concat());
    }
    for (port, bridge) in [("c1", "br1"), ("c2", "br2"), ("p1", "br1"), ("p2", "br2"), ("far", "br2")] {
        let direct = "other_config:rstp-admin-p2p-mac=1";
        ovs.run("ovs-vsctl", &["add-port", bridge, port, "--", "set", "port", port, direct]);
    }
}

/// Role and state of a port as Open vSwitch shows them.
fn ovs_port(ovs: &Ovs, bridge: &str, port: &str) -> [String; 2] {
    let shown = ovs.control("rstp/show", &[bridge]);
    let line = shown.lines().find(|line| line.split_whitespace().next() == Some(port)).unwrap_or_default();
    let mut words = line.split_whitespace().skip(1);
    [words.next(), words.next()].map(|word| word.unwrap_or_default().to_lowercase())
}

#[test]
#[ignore = "needs root and Open vSwitch; run by `cargo xtask test`"]
fn a_ring_with_open_vswitch_uses_rstp() {
    let (folder, site) = (folder(), Site::new());
    let ovs = Ovs::start_in(folder.path(), &site.bridges);
    let switch = site.switch(folder.path(), "stp = \"rstp\"\nstp_priority = 61440");
    site.add_far();
    ovs_bridges(&site, &ovs);
    wait_ports(
        &switch,
        &[
            ("host", ["designated", "forwarding"]),
            ("p1", ["root", "forwarding"]),
            ("p2", ["alternate", "discarding"]),
        ],
    );
    assert_eq!(in_tree(&switch, "p1")["version"], "rstp");
    let agrees = |bridge, port, wanted: [&str; 2]| {
        let reached = wait::until(CONVERGED, || (ovs_port(&ovs, bridge, port) == wanted).then_some(()));
        assert!(reached.is_some(), "{port}: {}", ovs.control("rstp/show", &[bridge]));
    };
    agrees("br1", "p1", ["designated", "forwarding"]);
    agrees("br2", "p2", ["designated", "forwarding"]);
    agrees("br2", "c2", ["root", "forwarding"]);
    site.assert_broadcasts_arrive_once();
    site.bridges.ip("link set p1 down");
    wait_ports(&switch, &[("p1", ["disabled", "discarding"]), ("p2", ["root", "forwarding"])]);
    site.near.ping(HOSTS[1], 3, &[]);
    site.bridges.ip("link set p1 up");
    wait_ports(&switch, &[("p1", ["root", "forwarding"]), ("p2", ["alternate", "discarding"])]);
    // The link between the others fails: the switch is on the only path.
    site.bridges.ip("link set c1 down");
    wait_ports(&switch, &[("p1", ["root", "forwarding"]), ("p2", ["designated", "forwarding"])]);
    agrees("br2", "p2", ["root", "forwarding"]);
    site.assert_broadcasts_arrive_once();
    switch.assert_sums_agree(&["host", "p1", "p2"]);
    switch.stop();
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn a_bpdu_stops_a_guarded_port_until_its_link_was_down() {
    let (folder, site) = (folder(), Site::new());
    let switch = site.switch(folder.path(), "stp = \"rstp\"");
    let forwards = [("host", ["designated", "forwarding"])];
    wait_ports(&switch, &forwards);
    site.near.ip("link add br0 type bridge stp_state 1 hello_time 100");
    site.near.ip("link set eth0 master br0");
    site.near.ip("link set br0 up");
    wait_ports(&switch, &[("host", ["disabled", "discarding"])]);
    let reason = in_tree(&switch, "host")["reason"].to_string();
    assert!(reason.contains("bpdu-guard"), "{reason}");
    let drops = || switch.port("host")["drops"]["stp-blocked"].as_u64().filter(|drops| *drops > 0);
    // Solicitations of the kernel's bridge.
    assert!(wait::until(LIMIT, drops).is_some(), "{}", switch.port("host"));
    site.near.ip("link set eth0 nomaster");
    site.near.ip("link set eth0 down");
    wait::until(LIMIT, || (switch.port("host")["state"] != "connected").then_some(()));
    site.near.ip("link set eth0 up");
    wait_ports(&switch, &forwards);
    switch.stop();
}

/// Neighbours according to `lldpcli` of a running `lldpd`.
fn known_by_lldpd(host: &Netns, socket: &Path) -> Value {
    let socket = socket.display().to_string();
    let said = host.attempt("lldpcli", &["-u", &socket, "-f", "json0", "show", "neighbors", "details"]);
    said.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

#[test]
#[ignore = "needs root, lldpd and tshark; run by `cargo xtask test`"]
fn lldpd_and_the_switch_find_each_other() {
    find_each_other("learning");
}

#[test]
#[ignore = "needs root, lldpd and tshark; run by `cargo xtask test`"]
fn lldpd_and_a_switch_with_flow_tables_find_each_other() {
    find_each_other("openflow");
}

fn find_each_other(pipeline: &str) {
    need::program("lldpd");
    let (folder, near) = (folder(), Netns::new());
    let place = format!("interface = \"eth0\"\nnetns = \"{}\"", near.name());
    let switch = Switch::start_from(
        folder.path(),
        &format!(
            "[switch]\nname = \"rack7\"\nmanagement_addresses = [\"192.0.2.7\", \"2001:db8::7\"]\n[[worker]]\n\
         [[bridge]]\nname = \"lan\"\npipeline = \"{pipeline}\"\n[[port]]\nname = \"up\"\nkind = \"tap\"\n{place}\nlldp = true\n\
         vlan = {{ trunk = [10, 20], native = 1 }}\n"
        ),
    );
    near.wait_link("eth0", true, LIMIT);
    near.configure("eth0", &["10.9.0.1/24"]);
    need::program("tshark");
    let fields = ["lldp.port.id", "lldp.time_to_live", "lldp.mgn.addr.ip4", "_ws.malformed"];
    let fields: Vec<_> = fields.iter().flat_map(|field| ["-e", field]).collect();
    let decode = ["-l", "-n", "-i", "eth0", "-f", "ether proto 0x88cc", "-T", "fields", "-E", "separator=,"];
    let mut tshark = near.spawn(folder.path(), "tshark", "tshark", &[&decode[..], &fields].concat());
    tshark.wait_for("Capturing on", 0, CONVERGED);
    let socket = folder.path().join("lldpd.socket");
    let path = socket.display().to_string();
    let words = ["-d", "-u", &path, "-I", "eth0", "-C", "eth0", "-S", "a test"];
    let daemon = near.spawn(folder.path(), "lldpd", "lldpd", &words);
    let neighbor = || {
        let report = switch.ask(&["neighbors", "show", "up"]).unwrap();
        report["neighbors"].as_array()?.first().cloned()
    };
    let neighbor = wait::until(CONVERGED, neighbor).unwrap_or_else(|| panic!("{}", daemon.output()));
    assert_eq!((&neighbor["port"], &neighbor["system_description"]), (&"up".into(), &"a test".into()));
    assert_eq!(neighbor["management"][0], "10.9.0.1", "{neighbor}");
    // The link is new or lldpd is: the switch sends at once.
    let known = wait::until(CONVERGED, || {
        let known = known_by_lldpd(&near, &socket).to_string();
        known.contains("192.0.2.7").then_some(known)
    });
    let known = known.unwrap_or_else(|| panic!("{}", known_by_lldpd(&near, &socket)));
    for told in ["rack7", "linerate", "\"up\"", "2001:db8::7", "Bridge", "VLAN 10", "VLAN 20"] {
        assert!(known.contains(told), "{told} is not in {known}");
    }
    // Without a malformed packet at the end.
    tshark.wait_for("up,121,192.0.2.7,\n", 0, CONVERGED);
    let counters = switch.counters("up");
    assert!(counters.punted > 0 && counters.tx_packets > 0, "{counters:?}");
    near.ip("link set eth0 down");
    let gone =
        || switch.ask(&["neighbors", "show"]).unwrap()["neighbors"].as_array()?.is_empty().then_some(());
    assert!(wait::until(LIMIT, gone).is_some(), "neighbours of a link that is down");
    switch.stop();
}
