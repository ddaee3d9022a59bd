//! Spanning trees over bonds: two switches with a loop of two bonds, and a bond to one of two kernel bridges of a ring.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use linerate_tests::netns::Netns;
use linerate_tests::switch::Switch;
use linerate_tests::{folder, wait};
use serde_json::Value;

use crate::links::{CONVERGED, HOSTS, assert_broadcasts_arrive_once, connect_kernel_bridges};

const LIMIT: Duration = Duration::from_secs(20);

/// A port section of an interface in a namespace.
fn port(name: &str, kind: &str, interface: &str, netns: &Netns) -> String {
    let netns = netns.name();
    format!(
        "[[port]]\nname = \"{name}\"\nkind = \"{kind}\"\ninterface = \"{interface}\"\nnetns = \"{netns}\"\n"
    )
}

/// Role and state of a port or bond in its tree.
fn in_tree(switch: &Switch, bridge: &str, port: &str) -> [String; 2] {
    let shown = switch.ask(&["bridges", "show", bridge]).unwrap();
    let found = shown["ports"].as_array().unwrap().iter().find(|found| found["port"] == port);
    let stp = found.map_or(Value::Null, |found| found["stp"].clone());
    ["role", "state"].map(|key| stp[key].as_str().unwrap_or_default().to_owned())
}

#[track_caller]
fn wait_tree(switch: &Switch, bridge: &str, wanted: &[(&str, [&str; 2])]) {
    let reached = wait::until(CONVERGED, || {
        wanted.iter().all(|(port, wanted)| in_tree(switch, bridge, port) == *wanted).then_some(())
    });
    let shown = |verb| String::from_utf8(switch.tell(&[verb, "show"]).unwrap()).unwrap();
    assert!(reached.is_some(), "not {wanted:?}:\n{}\n{}", shown("bridges"), shown("bonds"));
}

/// Waits until this number of members of a bond is used.
#[track_caller]
fn wait_members(switch: &Switch, bond: &str, members: usize) {
    let shown = || switch.ask(&["bonds", "show", bond]).unwrap();
    let used = |bond: &Value| {
        let members = bond["live"]["members"].as_array().into_iter().flatten();
        members.filter(|member| member["enabled"] == true).count()
    };
    let reached = wait::until(CONVERGED, || (used(&shown()) == members).then_some(()));
    assert!(reached.is_some(), "{:#}", shown());
}

/// A switch with the bonds `a` and `b` of two cables each, whose ends are in `ends`, and a host.
fn bonded(folder: &Path, bridge: &str, priority: u16, ends: &Netns, host: (&Netns, &str)) -> Switch {
    let mut text = format!(
        "[switch]\nname = \"{bridge}\"\n[[worker]]\n[[bridge]]\nname = \"{bridge}\"\nstp = \"rstp\"\nstp_priority = {priority}\n"
    );
    for bond in ["a", "b"] {
        let keys = "mode = \"balance-tcp\"\nlacp = \"active\"\nlacp_rate = \"fast\"";
        let _ = write!(text, "[[bond]]\nname = \"{bond}\"\nports = [\"{bond}1\", \"{bond}2\"]\n{keys}\n");
        for member in [1, 2].map(|number| format!("{bond}{number}")) {
            text += &port(&member, "af_packet", &member, ends);
        }
    }
    text += &port("host", "tap", "eth0", host.0);
    text += "stp_edge = \"yes\"\n";
    let switch = Switch::start_from(folder, &text);
    host.0.wait_link("eth0", true, LIMIT);
    host.0.configure("eth0", &[&format!("{}/24", host.1)]);
    switch
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn a_loop_of_bonds_between_two_switches_is_a_tree() {
    let [left, right, near, far] = std::array::from_fn(|_| Netns::new());
    for cable in ["a1", "a2", "b1", "b2"] {
        left.cable(cable, &right, cable);
    }
    let folders = [folder(), folder()];
    let one = bonded(folders[0].path(), "one", 4096, &left, (&near, HOSTS[0]));
    let two = bonded(folders[1].path(), "two", 8192, &right, (&far, HOSTS[1]));
    let designated = ["designated", "forwarding"];
    for bond in ["a", "b"] {
        wait_members(&one, bond, 2);
        wait_members(&two, bond, 2);
    }
    wait_tree(&one, "one", &[("a", designated), ("b", designated)]);
    wait_tree(&two, "two", &[("a", ["root", "forwarding"]), ("b", ["alternate", "discarding"])]);
    assert_broadcasts_arrive_once(&near, &far);
    // The loss of a member changes the bond, and not the tree.
    left.ip("link set a1 down");
    wait_members(&two, "a", 1);
    assert_eq!(in_tree(&two, "two", "a"), ["root", "forwarding"]);
    near.ping(HOSTS[1], 3, &[]);
    // The loss of the bond changes the tree.
    left.ip("link set a2 down");
    wait_tree(&two, "two", &[("a", ["disabled", "discarding"]), ("b", ["root", "forwarding"])]);
    assert_broadcasts_arrive_once(&near, &far);
    left.ip("link set a1 up");
    left.ip("link set a2 up");
    wait_tree(&two, "two", &[("a", ["root", "forwarding"]), ("b", ["alternate", "discarding"])]);
    // Without the bond, each of its members is a port of the tree, and one cable is enough for the loop.
    two.tell(&["bonds", "remove", "b"]).unwrap();
    one.tell(&["bonds", "remove", "b"]).unwrap();
    wait_tree(&one, "one", &[("b1", designated), ("b2", designated)]);
    wait_tree(&two, "two", &[("b1", ["alternate", "discarding"]), ("b2", ["alternate", "discarding"])]);
    assert_broadcasts_arrive_once(&near, &far);
    for switch in [&one, &two] {
        switch.assert_sums_agree(&["host", "a1", "a2", "b1", "b2"]);
    }
    one.stop();
    two.stop();
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn a_bond_to_a_kernel_bridge_is_one_port_of_a_ring() {
    let (folder, near, bridges, far) = (folder(), Netns::new(), Netns::new(), Netns::new());
    let times = "stp_hello = \"1s\"\nstp_max_age = \"6s\"\nstp_forward_delay = \"4s\"";
    let mut text = format!("[[worker]]\n[[bridge]]\nname = \"lan\"\nstp = \"rstp\"\n{times}\n");
    text += "[[bond]]\nname = \"up\"\nports = [\"p1\", \"p3\"]\nmode = \"active-backup\"\nprimary = \"p1\"\n";
    text += "trusted = true\n";
    for name in ["p1", "p2", "p3"] {
        text += &port(name, "tap", name, &bridges);
    }
    text += &port("host", "tap", "eth0", &near);
    text += "stp_edge = \"yes\"\n";
    let switch = Switch::start_from(folder.path(), &text);
    near.wait_link("eth0", true, LIMIT);
    near.configure("eth0", &[&format!("{}/24", HOSTS[0])]);
    bridges.cable("far", &far, "eth0");
    far.configure("eth0", &[&format!("{}/24", HOSTS[1])]);
    // `p1` and `p3` are ports of `k1`, which is not aware of the bond.
    connect_kernel_bridges(&bridges, &[("p1", "k1"), ("p3", "k1"), ("p2", "k2"), ("far", "k2")]);
    wait_tree(&switch, "lan", &[("up", ["root", "forwarding"]), ("p2", ["alternate", "discarding"])]);
    let forwards = || (bridge_port(&bridges, "p2") == "forwarding").then_some(());
    assert!(wait::until(CONVERGED, forwards).is_some(), "designated for the blocked link");
    assert_broadcasts_arrive_once(&near, &far);
    bridges.ip("link set p1 down");
    wait_members(&switch, "up", 1);
    wait_tree(&switch, "lan", &[("up", ["root", "forwarding"]), ("p2", ["alternate", "discarding"])]);
    near.ping(HOSTS[1], 3, &[]);
    bridges.ip("link set p3 down");
    wait_tree(&switch, "lan", &[("up", ["disabled", "discarding"]), ("p2", ["root", "forwarding"])]);
    near.ping(HOSTS[1], 3, &[]);
    switch.assert_sums_agree(&["host", "p1", "p2", "p3"]);
    switch.stop();
}

fn bridge_port(bridges: &Netns, port: &str) -> String {
    let link = bridges.link(port).unwrap();
    link["linkinfo"]["info_slave_data"]["state"].as_str().unwrap_or_default().to_owned()
}
