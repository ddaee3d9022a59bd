//! Options of Geneve: between two switches, and with Open vSwitch.

use std::path::Path;

use linerate_tests::capture::printed;
use linerate_tests::netns::Netns;
use linerate_tests::ovs::Ovs;
use linerate_tests::switch::Switch;
use linerate_tests::{folder, wait};
use serde_json::Value;

use super::{LIMIT, bridges, exchange, sites, tap, tunnel};

/// Options that flows use: a critical one, and another one.
const OPTIONS: [&str; 2] =
    ["{class=0x102,type=0x80,len=4}->tun_metadata0", "{class=0x102,type=0x1,len=8}->tun_metadata1"];

/// Binds the options on the bridge of the guests.
fn bind(switch: &Switch) {
    let verb = [&["tunnels", "options", "add", "--bridge", "guests"], &OPTIONS[..]].concat();
    switch.tell(&verb).expect("the options are valid");
}

fn add_flows(switch: &Switch, flows: &[&str]) {
    let verb = [&["flows", "add", "--bridge", "guests"], flows].concat();
    switch.tell(&verb).expect("the flows are valid");
}

/// Packets of the first flow of the guests' bridge with these actions.
fn packets_of(switch: &Switch, actions: &str) -> u64 {
    let found = shown_flows(switch);
    let mut flows = found["flows"].as_array().expect("a list").iter();
    let flow = flows.find(|flow| flow["actions"] == actions).expect("a flow with these actions");
    flow["packets"].as_u64().expect("a number")
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn options_of_geneve_are_set_on_one_side_and_matched_on_the_other() {
    let (folder, one, other) = (folder(), Netns::new(), Netns::new());
    let [here, there] = sites(folder.path(), [&one, &other], ("geneve", "key = 7"), false);
    for switch in [&here, &there] {
        bind(switch);
        let refused = switch.tell(&["tunnels", "options", "add", "--bridge", "guests", OPTIONS[0]]);
        assert!(refused.is_err_and(|error| error.contains("is bound to an option")));
        add_flows(
            switch,
            &[
                "priority=9,in_port=guest,actions=set_field:0xabcd->tun_metadata0,set_field:7->tun_metadata1,output:tunnel",
                "priority=9,in_port=tunnel,tun_metadata0=0xabcd,tun_metadata1=7/0xff,actions=output:guest",
                "priority=8,in_port=tunnel,actions=drop",
            ],
        );
    }
    let shown = here.ask(&["tunnels", "options", "show"]).expect("the switch runs");
    assert_eq!((&shown[0]["class"], &shown[1]["length"]), (&"0x102".into(), &8.into()), "{shown}");
    let passes = || one.attempt("ping", &["-c", "1", "-W", "1", "10.9.0.2"]).ok();
    assert!(wait::until(LIMIT, passes).is_some(), "{}", shown_flows(&there));
    exchange(&one, &other, 1400);
    let used = here.tell(&["tunnels", "options", "remove", "tun_metadata0", "--bridge", "guests"]);
    assert!(used.is_err_and(|error| error.contains("used by a flow")));
    assert_eq!(packets_of(&there, "drop"), 0, "{}", shown_flows(&there));
    for switch in [here, there] {
        switch.assert_sums_agree(&["guest", "tunnel", "uplink"]);
        switch.stop();
    }
    let file = folder.path().join("first/uplink.pcapng");
    let dissected = ["--enable-protocol", "geneve"];
    let show = ["-T", "fields", "-e", "geneve.option.class", "-e", "geneve.option.type"];
    let more = ["-e", "geneve.option.unknown.data", "-e", "geneve.flags.critical"];
    let lines = printed(&file, "geneve && icmp", &[&dissected[..], &show, &more].concat());
    let expected = "0x0102,0x0102\t0x80,0x01\t0000abcd,0000000000000007\t1";
    assert!(!lines.is_empty() && lines.lines().all(|line| line == expected), "{lines}");
    assert_eq!(printed(&file, "_ws.malformed", &dissected), "", "malformed packets");
}

/// All flows, for messages of failed tests.
fn shown_flows(switch: &Switch) -> Value {
    switch.ask(&["flows", "show", "--bridge", "guests"]).expect("the switch runs")
}

/// A switch with a Geneve tunnel to the namespace `peer`, which has an address on the underlay.
fn beside_a_peer(folder: &Path, guest: &Netns, peer: &Netns) -> Switch {
    let text = [
        bridges(1),
        tap("guest", "guests", guest),
        tunnel("protocol = \"geneve\"\nremote = \"192.0.2.2\"\nkey = 7"),
        tap("uplink", "under", peer),
    ];
    let switch = Switch::start_from(folder, &text.concat());
    for (name, netns) in [("guest", guest), ("uplink", peer)] {
        netns.wait_link("eth0", true, LIMIT);
        switch.wait_state(name, "connected", LIMIT);
    }
    peer.configure("eth0", &["192.0.2.2/24"]);
    guest.configure("eth0", &["10.9.0.1/24"]);
    guest.set_mtu("eth0", 1400);
    bind(&switch);
    switch
}

/// Open vSwitch in the namespace `peer`, whose bridge `br1` has a Geneve tunnel and is the host 10.9.0.2.
fn open_vswitch(folder: &Path, peer: &Netns) -> Ovs {
    let ovs = Ovs::start_in(folder, peer);
    ovs.run("ovs-vsctl", &["add-port", "br0", "eth0"]);
    peer.configure("br0", &["192.0.2.2/24"]);
    ovs.run("ovs-vsctl", &["add-br", "br1", "--", "set", "bridge", "br1", "datapath_type=netdev"]);
    let port = ["add-port", "br1", "gnv", "--", "set", "Interface", "gnv", "type=geneve", "ofport_request=5"];
    let options = ["options:remote_ip=192.0.2.1", "options:key=7"];
    ovs.run("ovs-vsctl", &[&port[..], &options].concat());
    peer.configure("br1", &["10.9.0.2/24"]);
    peer.set_mtu("br1", 1400);
    ovs.run("ovs-ofctl", &["add-tlv-map", "br1", &OPTIONS.join(",")]);
    for flow in [
        "priority=9,in_port=LOCAL,actions=set_field:0x1234->tun_metadata0,set_field:0x99->tun_metadata1,output:5",
        "priority=9,in_port=5,tun_metadata0=0xabcd,tun_metadata1=7/0xff,actions=LOCAL",
        "priority=8,in_port=5,actions=drop",
    ] {
        ovs.run("ovs-ofctl", &["add-flow", "br1", flow]);
    }
    ovs
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn options_of_geneve_are_exchanged_with_open_vswitch() {
    let (folder, guest, peer) = (folder(), Netns::new(), Netns::new());
    let switch = beside_a_peer(folder.path(), &guest, &peer);
    peer.ip("addr flush dev eth0");
    let ovs = open_vswitch(folder.path(), &peer);
    add_flows(
        &switch,
        &[
            "priority=9,in_port=guest,actions=set_field:0xabcd->tun_metadata0,set_field:0x107->tun_metadata1,output:tunnel",
            "priority=9,in_port=tunnel,tun_metadata0=0x1234,tun_metadata1=0x99,actions=output:guest",
            "priority=8,in_port=tunnel,actions=drop",
        ],
    );
    let passes = || guest.attempt("ping", &["-c", "1", "-W", "1", "10.9.0.2"]).ok();
    let state = || format!("{} {}", shown_flows(&switch), ovs.run("ovs-ofctl", &["dump-flows", "br1"]));
    assert!(wait::until(LIMIT, passes).is_some(), "{}", state());
    guest.ping("10.9.0.2", 3, &[]);
    assert_eq!(packets_of(&switch, "drop"), 0, "{}", state());
    // Another value is another flow.
    add_flows(&switch, &["priority=9,in_port=guest,actions=set_field:0xabce->tun_metadata0,output:tunnel"]);
    let fails = || guest.attempt("ping", &["-c", "1", "-W", "1", "10.9.0.2"]).is_err().then_some(());
    assert!(wait::until(LIMIT, fails).is_some(), "{}", state());
    switch.assert_sums_agree(&["guest", "tunnel", "uplink"]);
    switch.stop();
}
