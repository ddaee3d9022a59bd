//! Spanning trees of bridges and ports.

use super::*;
use crate::settings::links::{EdgeSetting, StpVersion};
use rstp::{Edge, PortConfig, Protocol};

/// A file whose bridge has these lines, from line 7 on.
fn file(port: &str, lines: &str) -> String {
    format!("{PORT}{port}\n[[bridge]]\nname = \"br0\"\n{lines}\n")
}

#[track_caller]
fn bridge_line(lines: &str, expected: &str) {
    only(&file("", lines), expected);
}

#[test]
fn a_tree_and_its_ports_are_read_and_shown() {
    let bridge = "stp = \"stp\"\nstp_priority = 4096\nstp_hello = \"1s\"\nstp_max_age = \"6s\"\n\
        stp_forward_delay = \"4s\"\nstp_address = \"02:00:00:00:00:09\"";
    let port =
        "stp_priority = 16\nstp_cost = 7\nstp_edge = \"no\"\nstp_point_to_point = false\nbpdu_guard = true";
    let topology = parse(&file(port, bridge), &host(), None).unwrap();
    let stp = topology.bridges[0].stp.as_ref().unwrap();
    assert_eq!((stp.version, stp.config().protocol, stp.config().hello), (StpVersion::Stp, Protocol::Stp, 1));
    assert!(topology.bridges[0].to_string().contains("STP with priority 4096"), "{}", topology.bridges[0]);
    let links = &topology.ports[0].links;
    let expected =
        PortConfig { priority: 16, cost: 7, edge: Edge::No, point_to_point: false, bpdu_guard: true };
    assert_eq!(links.config(None), expected);
    assert!(topology.ports[0].to_string().contains("STP cost 7, no STP edge, BPDU guard"));
    let default = parse(&file("", "stp = \"rstp\""), &host(), None).unwrap();
    assert_eq!(default.bridges[0].stp.as_ref().unwrap().config(), rstp::BridgeConfig::default());
    assert_eq!(default.ports[0].links.stp_edge, EdgeSetting::Auto);
    assert_eq!(default.ports[0].links.config(Some(10_000_000_000)).cost, 2000);
}

#[test]
fn each_key_of_a_tree_has_its_error() {
    bridge_line(
        "stp_hello = \"1s\"",
        "7: bridge \"br0\": `stp_hello` has no effect: `stp` is off (write stp = \"rstp\", or remove it)",
    );
    bridge_line(
        "stp = \"rstp\"\nstp_priority = 5000",
        "8: bridge \"br0\": invalid value 5000 for `stp_priority`: expected a multiple of 4096 (give 4096 or 8192)",
    );
    bridge_line(
        "stp = \"rstp\"\nstp_hello = \"1500ms\"",
        "8: bridge \"br0\": invalid value 1s 500ms for `stp_hello`: expected whole seconds (write \"1s\")",
    );
    bridge_line(
        "stp = \"rstp\"\nstp_max_age = \"40s\"",
        "8: bridge \"br0\": invalid times: expected 2 * (forward delay - 1 s) >= max age >= 2 * (hello time + 1 s) \
         (raise `stp_forward_delay`, or lower `stp_max_age` or `stp_hello`)",
    );
    bridge_line(
        "stp = \"rstp\"\nstp_address = \"01:80:c2:00:00:00\"",
        "8: bridge \"br0\": invalid value \"01:80:c2:00:00:00\" for `stp_address`: expected a unicast address \
         (write such as \"02:00:00:00:00:01\")",
    );
    bridge_line(
        "pipeline = \"openflow\"\nstp = \"rstp\"",
        "8: bridge \"br0\": `stp` is not supported: the bridge has flow tables \
         (write pipeline = \"learning\", or remove it)",
    );
    only(
        &file("bpdu_guard = true", ""),
        "4: port \"a\": `bpdu_guard` has no effect: bridge \"br0\" has no spanning tree \
         (write stp = \"rstp\" in the [[bridge]] section, or remove the key)",
    );
}
