//! `[[grant]]` and the socket for grants.

use super::{PORT, host, only};
use crate::settings::config::parse;

const SWITCH: &str = "[switch]\ngrants = \"/tmp/lr-none.grants\"\n";

#[test]
fn a_grant_has_the_keys_of_its_ports() {
    let text = format!(
        "{SWITCH}[[grant]]\nusers = [\"root\", \"1001\"]\ngroups = [\"7\"]\nports = 3\nqueue_pairs = 2\nmemory = 8\n\
         vlan = 10\nmax_macs = 1\n"
    );
    let topology = parse(&text, &host(), None).unwrap();
    let [grant] = topology.grants.as_slice() else { panic!("{topology}") };
    assert_eq!((grant.users.as_slice(), grant.groups.as_slice()), (&[0, 1001][..], &[7][..]));
    assert_eq!((grant.bridge.as_str(), grant.bytes()), ("main", 8 << 20));
    let told = topology.to_string();
    assert!(told.contains(", grants at /tmp/lr-none.grants"), "{told}");
    let leaf = "grants to users 0, 1001 groups 7: bridge main, at most 3 ports of 2 queue pairs and 8 MiB, \
                access VLAN 10, at most 1 addresses";
    assert!(told.contains(leaf), "{told}");
}

#[test]
fn a_grant_without_users_is_for_the_user_of_the_switch() {
    let topology = parse(&format!("{SWITCH}[[grant]]\n"), &host(), None).unwrap();
    assert_eq!(topology.grants[0].users, [rustix::process::geteuid().as_raw()]);
}

#[test]
fn invalid_grants_are_rejected_with_a_remedy() {
    only(
        "[[grant]]\n",
        "1: grant 0: `grants` of [switch] is missing, so that no application can ask (add a line to [switch] such as: \
         grants = \"/run/linerate-grants.sock\")",
    );
    let line = |line: &str, expected: &str| only(&format!("{SWITCH}[[grant]]\n{line}\n"), expected);
    line(
        "users = [\"no such user\"]",
        "4: grant 0: there is no user \"no such user\" (write a list such as users = [\"web\", \"1001\"])",
    );
    line("ports = 0", "4: grant 0: invalid value 0 for `ports`: expected 1 to 1024 (give 1 to 1024 ports)");
    line(
        "bridge = \"x\"",
        "4: grant 0: there is no bridge \"x\" (name \"main\", or add a [[bridge]] section with this name)",
    );
    line(
        "sources = [\"dhcp\"]",
        "4: grant 0: `sources` lists \"dhcp\", and bridge \"main\" does not snoop DHCP (write dhcp_snooping = true in \
         the [[bridge]] section)",
    );
    line(
        "learn = false\nmax_macs = 3",
        "5: grant 0: `max_macs` has no effect: `learn` is false (remove one of the two)",
    );
}

#[test]
fn the_socket_for_grants_is_its_own() {
    only(
        "[switch]\ncontrol = \"/tmp/lr-none.control\"\ngrants = \"/tmp/lr-none.control\"\n",
        "3: switch: `grants` is the control socket (give it a path of its own)",
    );
    only(
        &format!("[switch]\ngrants = \"/tmp/lr-a.sock\"\n{PORT}"),
        "5: port \"a\": `socket` is the socket for grants (give the port a path of its own)",
    );
}
