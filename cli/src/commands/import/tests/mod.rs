//! Translations of a recorded database with many kinds of settings, and of small ones with a single setting.

use super::interfaces::CardKind;
use super::{Database, Translation, translate};
use crate::host::Host;
use crate::settings::config;
use serde_json::{Value, json};

/// Output of `ovsdb-client dump -f json` of Open vSwitch 3.1, whose sockets are in `/run/ovs`.
const MANY: &str = include_str!("many.json");
/// Its translation.
const MANY_FILE: &str = include_str!("many.toml");

fn host() -> Host {
    Host::of(&[0], &[0])
}

/// Translates the recorded database with another directory of sockets.
fn many(dir: &std::path::Path) -> Translation {
    let text = MANY.replace("/run/ovs", &dir.display().to_string());
    let file = dir.join("dump.json");
    std::fs::write(&file, text).unwrap();
    let database = super::source::read(&super::Source::File(file)).unwrap();
    translate(&database, CardKind::AfXdp, &host())
}

#[test]
fn a_recorded_database_becomes_a_valid_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("vhu")).unwrap();
    let result = many(dir.path());
    assert_eq!(result.errors, [""; 0]);
    let text = result.text.replace(&dir.path().display().to_string(), "/run/ovs");
    assert_eq!(text, MANY_FILE, "{text}");
    config::parse(&result.text, &host(), None).unwrap();
    let found: Vec<_> = result
        .findings
        .iter()
        .map(|finding| format!("{} {} {}", finding.table, finding.row, finding.column))
        .collect();
    let expected = [
        "Open_vSwitch other_config:dpdk-init",
        "Bridge lan flood_vlans",
        "Bridge lan netflow",
        "Port qinq vlan_mode",
        "Queue dscp",
        "sFlow agent",
        "Bridge wan protocols",
        "Interface gn1 type",
        "Interface gre1 options:psk",
        "Interface gre1 bfd:enable",
        "Interface stt1 type",
        // Without the section of stt1, which is a comment, they move up.
        "Interface to-lan ofport",
        "Interface vx1 ofport",
    ];
    for wanted in expected {
        let words: Vec<&str> = wanted.split(' ').collect();
        let matches = |found: &&String| words.iter().all(|word| found.split(' ').any(|own| own == *word));
        assert!(found.iter().any(|found| matches(&found)), "{wanted}: {found:?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:?}");
}

#[test]
fn what_this_machine_lacks_is_an_error_beside_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let result = many(dir.path());
    assert_eq!(result.errors.len(), 1, "{:?}", result.errors);
    assert!(result.errors[0].contains("its directory does not exist"), "{:?}", result.errors);
}

/// Adds or replaces columns.
fn with(row: &mut Value, columns: &Value) {
    for (column, value) in columns.as_object().unwrap() {
        row[column] = value.clone();
    }
}

/// Columns of the rows of a bridge `br0` with one port `p`, and other rows.
#[derive(Default)]
struct Small {
    bridge: Value,
    port: Value,
    interface: Value,
    others: Vec<(&'static str, Value)>,
}

impl Small {
    fn translate(&self) -> Translation {
        let mut database = Database::default();
        let mut add = |table: &str, mut row: Value, columns: &Value| {
            if columns.is_object() {
                with(&mut row, columns);
            }
            database.add_object(table, &row).unwrap();
        };
        add("Open_vSwitch", json!({"_uuid": ["uuid", "s"], "bridges": ["uuid", "b"]}), &Value::Null);
        add("Bridge", json!({"_uuid": ["uuid", "b"], "name": "br0", "ports": ["uuid", "p"]}), &self.bridge);
        add("Port", json!({"_uuid": ["uuid", "p"], "name": "p", "interfaces": ["uuid", "i"]}), &self.port);
        add("Interface", json!({"_uuid": ["uuid", "i"], "name": "p"}), &self.interface);
        for (table, row) in &self.others {
            add(table, row.clone(), &Value::Null);
        }
        let result = translate(&database, CardKind::AfPacket, &host());
        assert_eq!(result.errors, [""; 0], "{}", result.text);
        config::parse(&result.text, &host(), None).unwrap();
        result
    }
}

/// Checks that the file has a line, and that there is one finding with this column and reason, or none.
fn check(small: &Small, line: &str, finding: Option<(&str, &str)>) {
    let Translation { text, findings, .. } = small.translate();
    assert!(text.lines().any(|own| own == line), "{line}:\n{text}");
    let found: Vec<_> = findings.iter().map(|f| (f.column.as_str(), f.reason.as_str())).collect();
    match finding {
        None => assert_eq!(found, [], "{line}"),
        Some((column, reason)) => {
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert!(found[0].0 == column && found[0].1.contains(reason), "{line}: {found:?}");
        }
    }
}

#[test]
fn vlans_of_every_mode() {
    let vlans = |port: Value, line: &str, finding| check(&Small { port, ..Small::default() }, line, finding);
    vlans(json!({"tag": 10}), "vlan = 10", None);
    vlans(json!({"trunks": ["set", [20, 10]]}), "vlan = { trunk = [10, 20] }", None);
    let dropped = Some(("trunks", "its untagged frames are dropped"));
    vlans(json!({"trunks": ["set", [0, 10]]}), "vlan = { trunk = [10] }", dropped);
    vlans(json!({"tag": 0}), "name = \"p\"", Some(("tag", "VLAN 0 alone")));
    vlans(json!({"trunks": 0}), "name = \"p\"", Some(("trunks", "VLAN 0 alone")));
    let native = json!({"vlan_mode": "native-untagged", "tag": 5, "trunks": ["set", [6]]});
    vlans(native, "vlan = { native = 5, trunk = [5, 6] }", None);
    let native = json!({"vlan_mode": "native-untagged", "tag": 5});
    vlans(native, "vlan = { native = 5, trunk = [5] }", Some(("trunks", "cannot carry all VLANs")));
    let native = json!({"vlan_mode": "native-tagged", "tag": 5, "trunks": 6});
    vlans(native, "vlan = { trunk = [5, 6] }", Some(("vlan_mode", "untagged frames are dropped")));
    let tunnel = json!({"vlan_mode": "dot1q-tunnel", "tag": 5});
    vlans(tunnel, "vlan = 5", Some(("vlan_mode", "802.1ad")));
}

#[test]
fn interfaces_of_every_type() {
    let kinds =
        |interface, line: &str, finding| check(&Small { interface, ..Small::default() }, line, finding);
    kinds(json!({"type": "system"}), "kind = \"af_packet\"", None);
    kinds(json!({"type": "tap"}), "kind = \"tap\"", None);
    let xdp = json!({"type": "afxdp", "options": ["map", [["xdp-mode", "native"], ["n_rxq", "4"]]]});
    kinds(xdp.clone(), "kind = \"af_xdp\"", None);
    kinds(xdp.clone(), "mode = \"copy\"", None);
    kinds(xdp, "queue_pairs = 4", None);
    let guest = json!({"type": "dpdkvhostuserclient", "options": ["map", [["vhost-server-path", "/tmp/lr-g"]]],
        "status": ["map", [["num_of_vrings", "8"]]]});
    kinds(guest.clone(), "queue_pairs = 4", None);
    kinds(guest, "mode = \"client\"", None);
    kinds(
        json!({"type": "dpdkvhostuserclient"}),
        "# kind = \"vhost-user\"",
        Some(("options", "vhost-server-path")),
    );
    let card = json!({"type": "dpdk", "options": ["map", [["dpdk-devargs", "0000:01:00.0"]]]});
    kinds(card, "interface = \"p\"", Some(("type", "0000:01:00.0")));
    kinds(json!({"type": "lisp"}), "# kind = \"null\"", Some(("type", "type lisp are not supported")));
    kinds(json!({"type": "patch"}), "# kind = \"patch\"", Some(("options:peer", "does not exist")));
    kinds(json!({"mtu_request": 9000}), "name = \"p\"", Some(("mtu_request", "MTU of 9000")));
    kinds(json!({"type": "internal", "mtu_request": 9000}), "mtu = 9000", None);
    let policed = json!({"ingress_policing_rate": 1000, "ingress_policing_burst": 80});
    kinds(policed, "policer = { cbs = 10000, cir = \"1000kbit/s\", exceed = \"drop\" }", None);
    kinds(
        json!({"ingress_policing_kpkts_rate": 1}),
        "name = \"p\"",
        Some(("ingress_policing_kpkts_rate", "bits")),
    );
    kinds(json!({"new": 1}), "name = \"p\"", Some(("new", "no counterpart")));
}

#[test]
fn tunnels_with_their_options() {
    let tunnel = |kind: &str, options: &[(&str, &str)], line: &str, more: Option<(&str, &str)>| {
        let interface = json!({"type": kind, "options": ["map", options]});
        let result = Small { interface, ..Small::default() }.translate();
        assert!(result.text.lines().any(|own| own == line), "{line}:\n{}", result.text);
        assert!(result.text.contains("pipeline = \"openflow\"") && result.text.contains("actions=NORMAL"));
        // Addresses of tunnels and flows of the bridge are unknown in each case.
        let is_own = |(column, reason): &(&str, &str)| {
            *column != "fail_mode" && !reason.contains("addresses of the switch")
        };
        let mut found =
            result.findings.iter().map(|finding| (finding.column.as_str(), finding.reason.as_str()));
        let found = found.find(is_own);
        match more {
            None => assert_eq!(found, None, "{line}"),
            Some((column, reason)) => {
                let found = found.unwrap();
                assert!(found.0 == column && found.1.contains(reason), "{line}: {found:?}");
            }
        }
    };
    let remote = ("remote_ip", "192.0.2.1");
    tunnel("vxlan", &[remote, ("key", "0x10")], "key = 16", None);
    tunnel("vxlan", &[remote, ("in_key", "7"), ("out_key", "7")], "key = 7", None);
    tunnel("geneve", &[("remote_ip", "flow"), ("key", "flow")], "key = \"flow\"", None);
    tunnel(
        "vxlan",
        &[remote, ("in_key", "7")],
        "# protocol = \"vxlan\"",
        Some(("options:in_key", "one key")),
    );
    tunnel("vxlan", &[], "# protocol = \"vxlan\"", Some(("options:remote_ip", "not the address")));
    tunnel(
        "vxlan",
        &[remote, ("local_ip", "192.0.2.9")],
        "remote = \"192.0.2.1\"",
        Some(("options:local_ip", "underlay")),
    );
    tunnel("vxlan", &[remote, ("ttl", "0")], "remote = \"192.0.2.1\"", Some(("options:ttl", "0 is not")));
    tunnel("ip6gre", &[("remote_ip", "2001:db8::1")], "protocol = \"gre\"", None);
    tunnel("gre", &[remote, ("csum", "true")], "protocol = \"gre\"", Some(("options:csum", "not sent")));
    tunnel("gre", &[remote, ("psk", "x")], "protocol = \"gre\"", Some(("options:psk", "NOT ENCRYPTED")));
    tunnel(
        "erspan",
        &[remote, ("erspan_ver", "2")],
        "# protocol = \"erspan\"",
        Some(("options:erspan_ver", "type II")),
    );
    // A key that the protocol cannot have is found by the validation of the file.
    tunnel("vxlan", &[remote, ("key", "99999999")], "# key = 99999999", Some(("disabled", "invalid value")));
}

#[test]
fn bonds_and_their_modes() {
    let bond = |port: Value, bridge: Value, line: &str, finding: Option<(&str, &str)>| {
        let mut port = port;
        port["interfaces"] = json!(["set", [["uuid", "i"], ["uuid", "j"]]]);
        port["name"] = "bond0".into();
        let others = vec![("Interface", json!({"_uuid": ["uuid", "j"], "name": "q"}))];
        let result = Small { bridge, port, others, ..Small::default() }.translate();
        assert!(result.text.lines().any(|own| own == line), "{line}:\n{}", result.text);
        assert!(result.text.contains("ports = [\"p\", \"q\"]"), "{}", result.text);
        let found = result.findings.iter().map(|f| (f.column.as_str(), f.reason.as_str()));
        let found: Vec<_> = found.filter(|(column, _)| *column != "fail_mode").collect();
        match finding {
            None => assert_eq!(found, []),
            Some((column, reason)) => {
                assert!(found[0].0 == column && found[0].1.contains(reason), "{found:?}");
            }
        }
    };
    let free = || json!({});
    bond(json!({}), free(), "mode = \"active-backup\"", None);
    bond(json!({"bond_mode": "balance-slb"}), free(), "mode = \"balance-slb\"", None);
    let slb = json!({"bond_mode": "balance-slb"});
    bond(slb, json!({"fail_mode": "secure"}), "mode = \"active-backup\"", Some(("bond_mode", "flow tables")));
    bond(
        json!({"bond_mode": "balance-tcp"}),
        free(),
        "mode = \"active-backup\"",
        Some(("bond_mode", "needs LACP")),
    );
    bond(json!({"bond_mode": "balance-tcp", "lacp": "active"}), free(), "mode = \"balance-tcp\"", None);
    bond(json!({"bond_downdelay": 1500}), free(), "down_delay = \"1500ms\"", None);
    bond(json!({"tag": 4}), free(), "vlan = 4", None);
    let primary = json!({"other_config": ["map", [["bond-primary", "q"], ["bond-rebalance-interval", "0"]]]});
    bond(primary.clone(), free(), "primary = \"q\"", None);
    bond(primary, free(), "rebalance = \"0s\"", None);
    let detect = json!({"other_config": ["map", [["bond-detect-mode", "miimon"]]]});
    bond(detect, free(), "mode = \"active-backup\"", Some(("other_config:bond-detect-mode", "carrier")));
}

#[test]
fn bridges_and_their_controllers() {
    let bridge = |bridge, others: &[(&'static str, Value)], line: &str, finding| {
        check(&Small { bridge, others: others.to_vec(), ..Small::default() }, line, finding);
    };
    let config = |key: &str, value: &str| json!({"other_config": ["map", [[key, value]]]});
    bridge(json!({}), &[], "mac_moves = \"free\"", None);
    bridge(config("mac-aging-time", "9999"), &[], "ageing = \"3600s\"", None);
    bridge(config("mac-table-size", "100"), &[], "max_macs_per_port = 100", None);
    bridge(json!({"stp_enable": true}), &[], "stp = \"stp\"", None);
    bridge(json!({"rstp_enable": true}), &[], "stp = \"rstp\"", None);
    let tree = json!({"stp_enable": true, "fail_mode": "standalone", "other_config": ["map", [["stp-max-age", "40"]]]});
    bridge(tree, &[], "stp = \"stp\"", Some(("other_config:stp-max-age", "not valid together")));
    bridge(
        json!({"mcast_snooping_enable": true}),
        &[],
        "multicast_snooping = { membership_interval = \"300s\" }",
        None,
    );
    bridge(json!({"fail_mode": "secure"}), &[], "pipeline = \"openflow\"", Some(("fail_mode", "ovs-ofctl")));
    let by = |target: &str| [("Controller", json!({"_uuid": ["uuid", "c"], "target": target}))];
    let controlled = json!({"controller": ["uuid", "c"], "datapath_id": "00005254000a0b0c"});
    bridge(controlled.clone(), &by("tcp:192.0.2.1"), "controllers = [\"tcp:192.0.2.1:6653\"]", None);
    bridge(controlled.clone(), &by("tcp:192.0.2.1"), "fail_mode = \"standalone\"", None);
    bridge(controlled.clone(), &by("ptcp:"), "flow = [\"priority=0,actions=NORMAL\"]", None);
    bridge(
        controlled.clone(),
        &by("ssl:192.0.2.1"),
        "pipeline = \"openflow\"",
        Some(("target", "needs certificates")),
    );
    bridge(controlled, &by("unix:relative"), "pipeline = \"openflow\"", Some(("target", "not absolute")));
    let both = json!({"controller": ["uuid", "c"], "datapath_id": "00005254000a0b0c",
        "other_config": ["map", [["datapath-id", "0xaa"]]]});
    let identified = json!({"fail_mode": "secure", "datapath_id": "00005254000a0b0c"});
    bridge(identified, &[], "datapath_id = \"00005254000a0b0c\"", Some(("fail_mode", "ovs-ofctl")));
    bridge(both, &by("tcp:192.0.2.1"), "datapath_id = \"00000000000000aa\"", None);
    let unknown = json!({"controller": ["uuid", "c"]});
    let finding = Some(("datapath_id", "derives another one"));
    bridge(unknown, &by("tcp:192.0.2.1"), "pipeline = \"openflow\"", finding);
    let manager = [("Manager", json!({"_uuid": ["uuid", "m"], "target": "ptcp:6640"}))];
    bridge(json!({}), &manager, "name = \"br0\"", Some(("(row)", "refers to the row")));
}

#[test]
fn changed_numbers_of_ports_are_findings() {
    // Two single ports, of which `p` is the first, and the interface of the host.
    let numbers = |[p, q, own]: [i64; 3], bridge: Value| {
        let mut columns = bridge;
        columns["ports"] = json!(["set", [["uuid", "p"], ["uuid", "o"], ["uuid", "l"]]]);
        let port = |uuid, name, interface| {
            ("Port", json!({"_uuid": ["uuid", uuid], "name": name, "interfaces": ["uuid", interface]}))
        };
        let interface = |uuid, name, number| {
            let columns =
                json!({"_uuid": ["uuid", uuid], "name": name, "type": "internal", "ofport": number});
            ("Interface", columns)
        };
        let others = vec![
            port("o", "q", "k"),
            port("l", "br0", "m"),
            interface("k", "q", q),
            interface("m", "br0", own),
        ];
        let small = Small { bridge: columns, interface: json!({"ofport": p}), others, ..Small::default() };
        let found = small.translate().findings.into_iter().filter(|finding| finding.column != "fail_mode");
        found.map(|f| (f.row, f.column, f.reason)).collect::<Vec<_>>()
    };
    let secure = || json!({"fail_mode": "secure"});
    assert_eq!(numbers([1, 2, 65_534], secure()), []);
    // The numbers of a bridge that learns addresses are not visible.
    assert_eq!(numbers([3, 7, 65_534], json!({})), []);
    let reason = |text: &str| format!("the OpenFlow number {text}: numbers follow the order of the file");
    let changed = |row: &str, text| (row.to_owned(), "ofport".to_owned(), reason(text));
    let expected = [changed("q", "3 becomes 1"), changed("p", "7 becomes 2")];
    assert_eq!(numbers([7, 3, 65_534], secure()), expected);
    // A port that could not be added has no number, and is last.
    assert_eq!(numbers([-1, 1, 65_534], secure()), []);

    let requested = json!({"ofport_request": 9});
    let small = Small { bridge: secure(), interface: requested, ..Small::default() };
    let findings = small.translate().findings;
    let requested = findings.iter().find(|finding| finding.column == "ofport_request").unwrap();
    assert!(requested.reason.contains("9 becomes 1"), "{}", requested.reason);
}

#[test]
fn members_have_the_number_of_their_bond() {
    let bond = json!({"name": "bond0", "interfaces": ["set", [["uuid", "i"], ["uuid", "j"]]]});
    let others = vec![("Interface", json!({"_uuid": ["uuid", "j"], "name": "q", "ofport": 2}))];
    let (bridge, interface) = (json!({"fail_mode": "secure"}), json!({"ofport": 1}));
    let findings = Small { bridge, port: bond, interface, others }.translate().findings;
    let found: Vec<_> = findings.iter().filter(|finding| finding.column == "ofport").collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].row == "q" && found[0].reason.contains("2 becomes 1, that of bond bond0"), "{found:?}");
}

#[test]
fn mirrors_select_ports_of_their_bridge() {
    let mirror = |columns: Value, line: &str, finding| {
        let mut row = json!({"_uuid": ["uuid", "m"], "name": "a mirror"});
        with(&mut row, &columns);
        let bridge = json!({"mirrors": ["uuid", "m"], "ports": ["set", [["uuid", "p"], ["uuid", "o"]]]});
        let output = json!({"_uuid": ["uuid", "o"], "name": "out", "interfaces": ["uuid", "k"]});
        let others = vec![
            ("Mirror", row),
            ("Port", output),
            ("Interface", json!({"_uuid": ["uuid", "k"], "name": "out"})),
        ];
        check(&Small { bridge, others, ..Small::default() }, line, finding);
    };
    let out = || json!(["uuid", "o"]);
    mirror(json!({"select_src_port": ["uuid", "p"], "output_port": out()}), "source_ports = [\"p\"]", None);
    mirror(json!({"select_all": true, "output_vlan": 9}), "output_vlan = 9", None);
    mirror(json!({"select_all": true, "output_port": out()}), "name = \"a-mirror\"", None);
    let both = json!({"select_dst_port": ["set", [["uuid", "p"], ["uuid", "o"]]], "output_port": out(), "snaplen": 96});
    mirror(both.clone(), "destination_ports = [\"p\"]", None);
    mirror(both, "snap_length = 96", None);
    mirror(json!({"output_port": out()}), "# [[mirror]]", Some(("select_src_port", "selects no port")));
    mirror(json!({"select_all": true}), "# [[mirror]]", Some(("output_port", "no output")));
}

#[test]
fn queues_have_guarantees_and_ranks() {
    let queues = |qos: Value, queue: Value, line: &str, finding| {
        let mut own =
            json!({"_uuid": ["uuid", "q"], "type": "linux-htb", "queues": ["map", [[1, ["uuid", "r"]]]]});
        with(&mut own, &qos);
        let mut row = json!({"_uuid": ["uuid", "r"]});
        with(&mut row, &queue);
        let port = json!({"qos": ["uuid", "q"]});
        check(&Small { port, others: vec![("QoS", own), ("Queue", row)], ..Small::default() }, line, finding);
    };
    let rate = |rate: &str| json!({"other_config": ["map", [["max-rate", rate]]]});
    let least = |least: &str| json!({"other_config": ["map", [["min-rate", least], ["priority", "900"]]]});
    let line = "queues = { classes = [\"0 rate=12kbit/s ceil=1Gbit/s priority=0\", \
        \"1 rate=500Mbit/s ceil=1Gbit/s priority=1\"], rate = \"1Gbit/s\" }";
    queues(rate("1000000000"), least("500000000"), line, None);
    queues(rate("1000000"), least("1000000"), "name = \"p\"", Some(("queues", "above its 1Mbit/s")));
    let marked = json!({"dscp": 46});
    let line = "queues = { classes = [\"0 rate=12kbit/s ceil=10Gbit/s priority=0\", \
        \"1 rate=12kbit/s ceil=10Gbit/s priority=0\"], rate = \"10Gbit/s\" }";
    queues(json!({}), marked, line, Some(("dscp", "do not mark")));
    queues(json!({"type": "linux-netem"}), json!({}), "name = \"p\"", Some(("type", "impairs")));
}
