//! `[[bond]]` sections.

use super::{PORT, host, only};
use crate::settings::bonds::{BondMode, LacpMode};
use crate::settings::config::{parse, requests};
use serde_json::json;

const TWO: &str = "[[port]]\nname = \"a\"\nkind = \"null\"\n[[port]]\nname = \"b\"\nkind = \"null\"\n";
const BOND: &str = "[[bond]]\nname = \"up\"\nports = [\"a\", \"b\"]\n";

/// A bond of two ports with one more line, which is line 10.
#[track_caller]
fn bond_line(line: &str, expected: &str) {
    only(&format!("{TWO}{BOND}{line}\n"), expected);
}

#[test]
fn a_bond_is_a_port_of_the_only_bridge() {
    let keys =
        "mode = \"balance-tcp\"\nlacp = \"active\"\nport_priorities = { a = 3 }\nvlan = 5\ntrusted = true\n";
    let topology = parse(&format!("{TWO}{BOND}{keys}"), &host(), None).unwrap();
    let bond = &topology.bonds[0];
    assert_eq!(
        (bond.mode, bond.lacp.mode, bond.bridge.as_str()),
        (BondMode::BalanceTcp, LacpMode::Active, "main")
    );
    assert_eq!((bond.priority("a"), bond.priority("b")), (3, 65_535));
    let own = bond.lacp.system_id.unwrap();
    assert!(own.is_local() && !own.is_group(), "an address of this machine: {own}");
    let shown = bond.to_string();
    assert!(shown.starts_with("bond up: balance-tcp of a, b, LACP active, "), "{shown}");
    assert!(shown.ends_with("VLAN 5, trusted") && topology.to_string().contains(&shown), "{topology}");
}

#[test]
fn errors_of_bonds_name_their_remedy() {
    bond_line(
        "mode = \"balance-tcp\"",
        "10: bond \"up\": `mode` is \"balance-tcp\", which needs LACP (write lacp = \"active\", or another mode)",
    );
    bond_line(
        "primary = \"c\"",
        "10: bond \"up\": `primary` names \"c\", which is not in `ports` (name one of `ports`)",
    );
    bond_line(
        "port_priorities = { c = 1 }",
        "10: bond \"up\": `port_priorities` names \"c\", which is not in `ports` (name only ports in `ports`)",
    );
    bond_line(
        "system_id = \"01:00:00:00:00:00\"",
        "10: bond \"up\": invalid value \"01:00:00:00:00:00\" for `system_id`: expected a unicast address (write a \
         unicast address such as 02:00:00:00:00:01)",
    );
    only(
        &format!("{TWO}[[bond]]\nname = \"up\"\nports = [\"a\", \"bb\"]\n"),
        "9: bond \"up\": there is no port \"bb\" (name \"a\" or \"b\", or add a [[port]] section with this name)",
    );
    only(
        &format!("{TWO}[[bond]]\nname = \"a\"\nports = [\"b\"]\n"),
        "8: bond \"a\": a port of this name already exists (rename one of them)",
    );
    only(
        &format!("{TWO}{BOND}[[bond]]\nname = \"other\"\nports = [\"b\"]\n"),
        "12: bond \"other\": port \"b\" is already a member of bond \"up\" (list ports of the same bridge, without VLANs, \
         limits and security of their own)",
    );
    only(
        &format!("{PORT}vlan = 3\n[[bond]]\nname = \"up\"\nports = [\"a\"]\n"),
        "7: bond \"up\": port \"a\" has VLANs, limits or security of its own, which belong to the bond (list ports of the \
         same bridge, without VLANs, limits and security of their own)",
    );
    only(
        &format!(
            "[[bridge]]\nname = \"br0\"\npipeline = \"openflow\"\n{PORT}[[bond]]\nname = \"up\"\nports = [\"a\"]\nmode = \"balance-slb\"\n"
        ),
        "10: bond \"up\": `mode` is \"balance-slb\", and bridge \"br0\" has flow tables, which learn nothing (write mode = \
         \"balance-tcp\" or mode = \"active-backup\")",
    );
}

#[test]
fn a_change_keeps_other_keys_and_null_is_the_default() {
    let text = format!("{TWO}{BOND}primary = \"a\"\nup_delay = \"2s\"\nvlan = 5\n");
    let running = parse(&text, &host(), None).unwrap();
    let change = |json| requests::changed_bond(&json, &running, 0);
    let changed = change(json!({ "ports": ["a"], "up_delay": null, "lacp": "passive" })).unwrap();
    assert_eq!(
        (changed.ports.as_slice(), changed.switching.primary.as_deref()),
        (&["a".to_owned()][..], Some("a"))
    );
    assert_eq!((changed.switching.up_delay.0.as_secs(), changed.lacp.mode), (0, LacpMode::Passive));
    for (json, key) in
        [(json!({ "name": "x" }), "`name`"), (json!({ "vlan": 6 }), "VLANs, limits and security")]
    {
        let (_, error) = change(json).unwrap_err();
        assert_eq!(error.reason, format!("{key} of a bond cannot be changed"));
    }
    let (_, error) = change(json!({ "ports": ["b"] })).unwrap_err();
    assert_eq!(error.reason, "`primary` names \"a\", which is not in `ports`");
}

#[test]
fn a_bond_is_one_port_of_a_spanning_tree() {
    let bridge = "[[bridge]]\nname = \"br0\"\nstp = \"rstp\"\n";
    let text = format!("{bridge}{TWO}{BOND}stp_cost = 7\nbpdu_guard = true\n");
    let running = parse(&text, &host(), None).unwrap();
    assert_eq!(running.bonds[0].links.config(None).cost, 7);
    assert!(running.bonds[0].to_string().ends_with(", STP cost 7, BPDU guard"), "{}", running.bonds[0]);
    let (_, error) = requests::changed_bond(&json!({ "stp_cost": 8 }), &running, 0).unwrap_err();
    assert_eq!(error.reason, "keys for the spanning tree and multicast snooping of a bond cannot be changed");
    bond_line(
        "stp_cost = 7",
        "10: bond \"up\": `stp_cost` has no effect: bridge \"main\" has no spanning tree (write stp = \"rstp\" in the \
         [[bridge]] section, or remove the key)",
    );
}

#[test]
fn a_bond_is_one_port_of_multicast_snooping() {
    let bridge = "[[bridge]]\nname = \"br0\"\nmulticast_snooping = {}\n";
    let text = format!("{bridge}{TWO}{BOND}multicast_router = \"always\"\n");
    let topology = parse(&text, &host(), None).unwrap();
    assert!(topology.bonds[0].to_string().ends_with(", multicast router"), "{}", topology.bonds[0]);
    bond_line(
        "fast_leave = true",
        "10: bond \"up\": `fast_leave` has no effect: bridge \"main\" has no multicast snooping (write \
         multicast_snooping = {} in the [[bridge]] section, or remove the key)",
    );
}
