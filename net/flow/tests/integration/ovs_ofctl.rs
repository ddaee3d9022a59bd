//! The examples of text, as ovs-ofctl reads, encodes, decodes and prints them with OpenFlow 1.3.

#[path = "../../src/text/examples.rs"]
mod examples;

use examples::{ACTIONS, MATCHES};
use flow::Match;
use flow::arbitrary::{any_actions, any_match};
use flow::text::{NoNames, parse_actions, parse_instructions, parse_match, show};
use proptest::prelude::*;
use std::process::{Command, Stdio};

/// Matches that are too narrow for an action are refused, so each action is tried with these.
const MATCHING: &[&str] = &["tcp", "ipv6", "mpls", "tcp,ct_state=+trk-inv,ct_nw_proto=6", "dl_vlan=9"];

/// Text that ovs-ofctl does not know, or that its messages change: actions of OpenFlow that it does not implement,
/// notes (padded), and `vlan_tci` (OpenFlow 1.3 has no priority of absent tags).
const DIFFERENT: &[&str] = &["copy_ttl_out", "note", "vlan_tci=0"];

fn is_different(text: &str) -> bool {
    DIFFERENT.iter().any(|word| text.contains(word) && text != "vlan_tci=0x0123/0x0fff")
}

/// Output of ovs-ofctl for a flow: its match and its actions; `None` if it refuses the flow.
fn ovs_ofctl(flow: &str) -> Option<(String, String)> {
    use std::io::Write;
    let mut command = Command::new("ovs-ofctl");
    command.args(["-O", "OpenFlow13", "parse-flows", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => panic!("SKIPPED: ovs-ofctl cannot be executed ({error}); install openvswitch-common"),
    };
    writeln!(child.stdin.take().unwrap(), "{flow}").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.split_once("ADD "))?.1;
    let (properties, actions) = line.split_once("actions=")?;
    let matching = properties.split(' ').find(|word| !word.starts_with("table:")).unwrap_or("");
    output.status.success().then(|| (matching.to_owned(), actions.to_owned()))
}

#[test]
fn matches_are_printed_alike() {
    for (text, printed) in MATCHES.iter().filter(|(text, _)| !is_different(text)) {
        let expected = if printed.is_empty() { text } else { printed };
        let (matching, _) =
            ovs_ofctl(&format!("{text} actions=drop")).unwrap_or_else(|| panic!("refused: {text}"));
        assert_eq!(matching, *expected, "{text}");
    }
}

#[test]
fn actions_are_read_and_printed_alike() {
    for (text, printed) in ACTIONS.iter().filter(|(text, _)| !is_different(text)) {
        let mut flows =
            MATCHING.iter().map(|matching| (matching, ovs_ofctl(&format!("{matching} actions={text}"))));
        let accepted = flows.find_map(|(matching, flow)| Some((matching, flow?.1)));
        let (matching, actions) = accepted.unwrap_or_else(|| panic!("refused: {text}"));
        let matching: Match = parse_match(matching, &NoNames).unwrap();
        let read = |text: &str| parse_instructions(text, &matching, &NoNames).unwrap();
        assert_eq!(read(&actions), read(text), "{text}");
        // The model does not tell `load` from `set_field`.
        if !actions.contains("load:") || actions.contains("learn") {
            assert_eq!(actions, *if printed.is_empty() { text } else { printed });
        }
    }
}

/// Fields whose values ovs-ofctl changes: it has 8 bits of `arp_op`, prints no mask of `tun_gbp_flags`, prints a packet
/// type beside `recirc_id`, and encodes `vlan_tci` as VLAN and priority. It pads notes and loads values with a mask in
/// pieces.
const CHANGED: &[&str] = &["arp_op", "tun_gbp_flags", "recirc_id", "vlan_tci", "note:"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn random_matches_are_printed_alike(found in any_match()) {
        let text = show(&found, &NoNames).to_string();
        let is_changed = CHANGED.iter().any(|name| text.contains(name));
        if let (false, Some((printed, _))) = (is_changed, ovs_ofctl(&format!("{text} actions=drop"))) {
            prop_assert_eq!(printed, text);
        }
    }

    #[test]
    fn random_actions_are_read_alike(actions in any_actions()) {
        let text = show(&actions[..], &NoNames).to_string();
        let is_changed = CHANGED.iter().any(|name| text.contains(name)) || text.contains('/');
        if let (false, Some((_, printed))) = (is_changed, ovs_ofctl(&format!("tcp actions={text}"))) {
            let tcp = parse_match("tcp", &NoNames).unwrap();
            prop_assert_eq!(parse_actions(&printed, &tcp, &NoNames), Ok(actions), "{}", printed);
        }
    }
}
