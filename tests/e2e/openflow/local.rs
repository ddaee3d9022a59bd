//! The port `LOCAL`: a TAP port, and a bridge with addresses of its own.

use super::*;

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_tap_port_is_the_local_port_of_its_bridge_in_every_version() {
    let folder = folder();
    let keys = "datapath_id = \"00000200000000ab\"\nlocal = \"left\"";
    let lab = Lab::start(folder.path(), keys);
    let sent = || lab.switch.counters("right").tx_packets;
    for version in VERSIONS {
        let run = |words: &[&str]| lab.ofctl(version, words);
        let ports = run(&["show", BRIDGE]) + &run(&["dump-ports-desc", BRIDGE]);
        assert!(
            ports.contains("LOCAL(br0): addr:02:00:00:00:00:ab") && ports.contains("1(right)"),
            "{ports}"
        );
        run(&["del-flows", BRIDGE]);
        run(&["add-flow", BRIDGE, "in_port=LOCAL,actions=output:1"]);
        run(&["add-flow", BRIDGE, "in_port=1,actions=LOCAL"]);
        lab.left.ping("10.9.0.2", 2, &[]);
        let flows = run(&["dump-flows", BRIDGE]);
        assert!(flows.contains("in_port=LOCAL") && flows.contains("actions=LOCAL"), "{flows}");
        let statistics = run(&["dump-ports", BRIDGE, "LOCAL"]);
        assert!(
            statistics.contains("port LOCAL: rx pkts=") && !statistics.contains("rx pkts=0,"),
            "{statistics}"
        );
        let before = sent();
        let frame = "0200000000aa0200000000bb88b5".to_owned() + &"00".repeat(46);
        run(&["packet-out", BRIDGE, &format!("in_port=LOCAL packet={frame} actions=TABLE")]);
        assert!(wait::until(LIMIT, || (sent() > before).then_some(())).is_some(), "{version}");
    }
    let shown = lab.switch.ask(&["flows", "show"]).expect("the switch runs");
    assert!(shown.to_string().contains("in_port=LOCAL"), "{shown}");
    lab.switch
        .tell(&["flows", "add", "priority=40000,in_port=left,actions=drop"])
        .expect("the name of a port");
    assert!(!lab.can_ping());
    lab.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_bridge_with_addresses_is_its_local_port() {
    let folder = folder();
    let keys = "[[underlay]]\naddresses = [\"10.9.0.9/24\"]\nmac = \"02:00:00:00:00:09\"";
    let lab = Lab::start(folder.path(), keys);
    for version in VERSIONS {
        let run = |words: &[&str]| lab.ofctl(version, words);
        let ports = run(&["show", BRIDGE]) + &run(&["dump-ports-desc", BRIDGE]);
        assert!(ports.contains("LOCAL(br0): addr:02:00:00:00:00:09"), "{ports}");
        assert!(run(&["dump-ports", BRIDGE]).contains("port LOCAL: rx pkts=?"));
        run(&["del-flows", BRIDGE]);
        run(&["add-flow", BRIDGE, "in_port=1,actions=LOCAL"]);
        run(&["add-flow", BRIDGE, "in_port=LOCAL,actions=output:1"]);
        lab.left.ping("10.9.0.9", 2, &[]);
    }
    lab.switch.stop();
}
