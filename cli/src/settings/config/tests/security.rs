//! Static entries and port security.

use super::*;

#[test]
fn a_static_entry_names_a_station_and_a_port_of_its_bridge() {
    let file = |entries: &str| format!("{PORT}[[bridge]]\nname = \"main\"\n[[bridge.static]]\n{entries}");
    let station = "write the address of one station, such as 02:00:00:00:00:01";
    let told = |reason: &str| format!("7: bridge \"main\", static entry 0: `mac` {reason} ({station})");
    only(&file("mac = \"zz\"\nport = \"a\"\n"), &told("\"zz\" is not an Ethernet address"));
    let group = told("01:00:5e:00:00:01 is a group address or zero");
    only(&file("mac = \"01:00:5e:00:00:01\"\nport = \"a\"\n"), &group);
    let lost = "8: bridge \"main\", static entry 0: there is no port \"b\" \
        (name \"a\", or add a [[port]] section with this name)";
    only(&file("mac = \"02:00:00:00:00:01\"\nport = \"b\"\n"), lost);
    let entry = "mac = \"02:00:00:00:00:01\"\nport = \"a\"\n";
    let twice = "10: bridge \"main\", static entry 1: `mac` 02:00:00:00:00:01 is already pinned (line 7) \
        (remove one of the two entries)";
    only(&file(&format!("{entry}[[bridge.static]]\n{entry}")), twice);
    let elsewhere = format!(
        "{PORT}bridge = \"red\"\n[[bridge]]\nname = \"red\"\n[[bridge]]\nname = \"main\"\n[[bridge.static]]\n{entry}"
    );
    let expected = "11: bridge \"main\", static entry 0: port \"a\" belongs to bridge \"red\", not \"main\" \
        (move the entry to that bridge, or the port to this one)";
    only(&elsewhere, expected);
}

#[test]
fn a_static_entry_is_in_a_vlan_that_its_port_carries() {
    let file = |vlan: &str, entry: &str| {
        let bridge =
            "[[bridge]]\nname = \"main\"\n[[bridge.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"a\"\n";
        errors(&format!("{PORT}{vlan}\n{bridge}{entry}\n"))
    };
    let denied = "10: bridge \"main\", static entry 0: port \"a\" does not carry VLAN 5 \
        (name a VLAN of that port, or add this one to it)";
    assert_eq!(file("vlan = 4", "vlan = 5"), [denied]);
    assert_eq!(file("", "vlan = 5"), [denied]);
    assert_eq!(file("vlan = { trunk = [4] }", "vlan = 5"), [denied]);
    let missing = "7: bridge \"main\", static entry 0: `vlan` is missing, and port \"a\" has no VLAN for untagged frames \
        (add a line such as: vlan = 10)";
    assert_eq!(file("vlan = { trunk = [4] }", ""), [missing]);
    for (vlan, entry) in
        [("vlan = 4", ""), ("vlan = 4", "vlan = 4"), ("vlan = { trunk = [4], native = 5 }", "vlan = 5")]
    {
        assert_eq!(file(vlan, entry), [""; 0], "{vlan} {entry}");
    }
}

#[test]
fn port_security_is_read_and_printed() {
    let text = format!(
        "{PORT}trusted = true\nmacs = [\"52:54:00:00:00:01\"]\nlearn = false\n\
         sources = [\"10.0.0.5\", \"10.1.0.0/24\", \"fd00::5\", \"dhcp\"]\n\
         [[bridge]]\nname = \"main\"\nmac_moves = \"free\"\ndhcp_snooping = true\n"
    );
    let topology = parse(&text, &host(), None).unwrap();
    let (port, bridge) = (&topology.ports[0], &topology.bridges[0]);
    let expected = "1 queue pair, only from 52:54:00:00:00:01, IP sources 10.0.0.5, 10.1.0.0/24, fd00::5, dhcp, \
         no learning, trusted";
    assert!(port.to_string().ends_with(expected), "{port}");
    assert!(bridge.to_string().ends_with(", addresses move freely, DHCP snooping"), "{bridge}");
    let plain = parse(PORT, &host(), None).unwrap();
    assert_eq!(plain.ports[0].policy.security, crate::settings::security::Security::default());
    assert_eq!(plain.bridges[0].mac_moves, crate::settings::topology::MacMoves::Guarded);
}

#[test]
fn invalid_macs_and_sources_are_rejected_with_an_example() {
    let macs = "(write a list such as macs = [\"52:54:00:00:00:01\"])";
    for text in ["01:00:5e:00:00:01", "00:00:00:00:00:00", "52:54"] {
        let expected =
            format!("4: port \"a\": `macs` lists \"{text}\", which is not a unicast address {macs}");
        port_line(&format!("macs = [\"{text}\"]"), &expected);
    }
    let sources = "write a list such as sources = [\"10.0.0.5\", \"10.1.0.0/24\", \"fd00::5\", \"dhcp\"]";
    port_line(
        "sources = [\"10.0.0.5/24\"]",
        &format!(
            "4: port \"a\": `sources`: invalid source \"10.0.0.5/24\": the address has bits behind its prefix; expected \
             \"10.0.0.0/24\" ({sources})"
        ),
    );
    port_line(
        "sources = []",
        &format!("4: port \"a\": `sources` is an empty list ({sources}, or remove it)"),
    );
    port_line("macs = [7]", &format!("4: port \"a\": `macs` lists an integer, not a string {macs}"));
    let remedy = "remove one of the two";
    let expected = format!("5: port \"a\": `max_macs` has no effect: `learn` is false ({remedy})");
    only(&format!("{PORT}learn = false\nmax_macs = 5\n"), &expected);
}

#[test]
fn an_address_belongs_to_one_port_and_leases_need_a_bridge_that_follows_dhcp() {
    let b = PORT.replace("\"a\"", "\"b\"").replace("lr-a", "lr-b");
    let own = "macs = [\"52:54:00:00:00:01\"]\n";
    let expected = "8: port \"b\": `macs` lists 52:54:00:00:00:01, which already belongs to port \"a\" (give each address to one port)";
    only(&format!("{PORT}{own}{b}{own}"), expected);
    let twice = "macs = [\"52:54:00:00:00:01\", \"52:54:00:00:00:01\"]";
    port_line(twice, "4: port \"a\": `macs` lists 52:54:00:00:00:01 twice (list it once)");
    let expected = "4: port \"a\": `sources` lists \"dhcp\", and bridge \"main\" does not snoop DHCP \
         (write dhcp_snooping = true in the [[bridge]] section)";
    port_line("sources = [\"dhcp\"]", expected);
    let bridge = "[[bridge]]\nname = \"main\"\nstatic = [{ mac = \"52:54:00:00:00:01\", port = \"b\" }]\n";
    let expected = "4: port \"a\": `macs` lists 52:54:00:00:00:01, which a static entry pins to port \"b\" (remove one of the two)";
    only(&format!("{PORT}{own}{b}{bridge}"), expected);
    let expected = "3: bridge \"x\": invalid value \"fast\" for `mac_moves`: expected \"guarded\" or \"free\" (write \"guarded\" or \"free\")";
    only("[[bridge]]\nname = \"x\"\nmac_moves = \"fast\"\n", expected);
}
