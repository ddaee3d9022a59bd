//! Tunnels as ports of kind `tunnel`.

use super::database::Row;
use super::document::Section;
use super::findings::Findings;
use std::net::IpAddr;

/// Writes a tunnel, or disables the section of an interface whose type is not supported.
pub(super) fn write(section: &mut Section, interface: &Row, findings: &mut Findings) {
    let kind = interface.text("type");
    let protocol = match kind {
        "vxlan" | "geneve" | "gre" | "erspan" | "gtpu" => kind,
        "ip6gre" => "gre",
        _ => return unsupported(section, interface, kind, findings),
    };
    section.set("kind", "tunnel");
    section.set("protocol", protocol);
    remote(section, interface, findings);
    key(section, interface, findings);
    if matches!(protocol, "vxlan" | "geneve" | "gtpu") {
        section.set_some("destination_port", number(interface, "dst_port").filter(|port| *port > 0));
    }
    header(section, interface, "ttl", 1..=255, findings);
    header(section, interface, "tos", 0..=255, findings);
    section.set_some("df", (interface.key("options", "df_default") == Some("false")).then_some(false));
    checksum(section, interface, protocol, findings);
    if protocol == "erspan" && interface.key("options", "erspan_ver") == Some("2") {
        let reason = "ERSPAN is of type II (version 1)";
        disable(
            section,
            interface,
            "options:erspan_ver",
            reason,
            "configure type II at the collector",
            findings,
        );
    }
}

fn unsupported(section: &mut Section, interface: &Row, kind: &str, findings: &mut Findings) {
    section.set("kind", "null");
    interface.pairs("options");
    let reason = format!("interfaces of type {kind} are not supported");
    disable(section, interface, "type", &reason, "see `kind` in docs/reference/configuration.md", findings);
}

fn disable(
    section: &mut Section,
    interface: &Row,
    column: &str,
    reason: &str,
    remedy: &str,
    findings: &mut Findings,
) {
    section.is_disabled = true;
    findings.add(section, (interface, column), format!("the port is not created: {reason}"), remedy);
}

fn number(row: &Row, key: &str) -> Option<i64> {
    value(row.key("options", key)?)
}

/// A decimal or hexadecimal number.
fn value(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The ends of a tunnel. The own address must be one of an `[[underlay]]`, and the database has none.
fn remote(section: &mut Section, interface: &Row, findings: &mut Findings) {
    let remote = interface.key("options", "remote_ip").unwrap_or_default();
    let is_unicast = |address: &IpAddr| !address.is_multicast() && !address.is_unspecified();
    let is_valid = remote == "flow" || remote.parse().is_ok_and(|address| is_unicast(&address));
    section.set("remote", remote);
    if !is_valid {
        let reason = "its remote_ip is not the address of a host";
        disable(section, interface, "options:remote_ip", reason, "write `remote`", findings);
    }
    match interface.key("options", "local_ip") {
        None | Some("flow") => {}
        Some(local) => {
            let reason = format!("the address {local} is not one of an [[underlay]] section yet");
            let remedy = format!("add it to an [[underlay]] section, and write local = \"{local}\"");
            findings.add(section, (interface, "options:local_ip"), reason, remedy);
        }
    }
}

/// The key, which is the same for both directions.
fn key(section: &mut Section, interface: &Row, findings: &mut Findings) {
    let both = interface.key("options", "key");
    let [received, sent] =
        ["in_key", "out_key"].map(|key| interface.key("options", key).or(both).unwrap_or("0"));
    if received != sent {
        let reason =
            format!("a tunnel has one key, and not {received} for received and {sent} for sent packets");
        let remedy = "write key = \"flow\", and set and match `tun_id` in flows";
        return disable(section, interface, "options:in_key", &reason, remedy, findings);
    }
    match received {
        "flow" => section.set("key", "flow"),
        text => section.set_some("key", value(text).filter(|key| *key != 0)),
    }
}

/// A field of the outer header: a number, or that of the packet.
fn header(
    section: &mut Section,
    interface: &Row,
    key: &str,
    range: std::ops::RangeInclusive<i64>,
    findings: &mut Findings,
) {
    let Some(text) = interface.key("options", key) else { return };
    if text == "inherit" {
        section.set(key, text);
    } else if let Some(value) = value(text).filter(|value| range.contains(value)) {
        section.set(key, value);
    } else {
        let reason = format!("{text} is not a number from {} to {}", range.start(), range.end());
        let column = format!("options:{key}");
        findings.add(section, (interface, &column), reason, format!("write `{key}`"));
    }
}

fn checksum(section: &mut Section, interface: &Row, protocol: &str, findings: &mut Findings) {
    if !interface.key_flag("options", "csum") {
        return;
    }
    if matches!(protocol, "vxlan" | "geneve" | "gtpu") {
        return section.set("checksum", true);
    }
    let reason = "checksums of GRE are understood, but not sent";
    findings.add(section, (interface, "options:csum"), reason, "nothing is needed");
}
