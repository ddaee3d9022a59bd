//! Protocols between neighbours: spanning tree, multicast snooping and LLDP, of bridges and of ports.

use super::database::Row;
use super::document::{Section, seconds, table};
use super::findings::Findings;
use super::plan::BridgePlan;
use rstp::{BridgeConfig, Protocol};

/// Writes the spanning tree of a bridge.
pub(super) fn tree(section: &mut Section, bridge: &BridgePlan<'_>, findings: &mut Findings) {
    let row = bridge.row;
    let is_rapid = row.flag("rstp_enable");
    let (prefix, column) = if is_rapid { ("rstp", "rstp_enable") } else { ("stp", "stp_enable") };
    if !is_rapid && !row.flag("stp_enable") {
        return ignore(row, &["stp-", "rstp-"]);
    }
    ignore(row, if is_rapid { &["stp-"] } else { &["rstp-"] });
    if bridge.has_flow_tables {
        ignore(row, &["stp-", "rstp-"]);
        let reason = "a bridge with flow tables has no spanning tree";
        let remedy = "see that the network has no loop, or write pipeline = \"learning\"";
        return findings.add(section, (row, column), reason, remedy);
    }
    let old = is_rapid && row.key("other_config", "rstp-force-protocol-version") == Some("0");
    section.set("stp", if is_rapid && !old { "rstp" } else { "stp" });
    let number = |key: &str| row.key("other_config", &format!("{prefix}-{key}"))?.parse::<i64>().ok();
    if let Some(priority) = number("priority") {
        let rounded = priority.clamp(0, 61_440) / 4096 * 4096;
        section.set("stp_priority", rounded);
        if rounded != priority {
            let reason = format!("priorities are multiples of 4096: {priority} became {rounded}");
            findings.add(
                section,
                (row, "other_config:stp-priority"),
                reason,
                "see that the same bridge is the root",
            );
        }
    }
    times(section, row, (number("hello-time"), number("max-age"), number("forward-delay")), findings);
    let address = if is_rapid { "rstp-address" } else { "stp-system-id" };
    section.set_some("stp_address", row.key("other_config", address));
}

/// Writes the times of a spanning tree if they are valid together.
fn times(
    section: &mut Section,
    row: &Row,
    (hello, max_age, delay): (Option<i64>, Option<i64>, Option<i64>),
    findings: &mut Findings,
) {
    let default = BridgeConfig::default();
    let of = |time: Option<i64>, default: u8| time.map_or(default, |time| time.clamp(0, 255) as u8);
    let config = BridgeConfig {
        protocol: Protocol::Rstp,
        hello: of(hello, default.hello),
        max_age: of(max_age, default.max_age),
        forward_delay: of(delay, default.forward_delay),
        ..default
    };
    let is_valid = BridgeConfig::HELLO.contains(&config.hello)
        && BridgeConfig::MAX_AGE.contains(&config.max_age)
        && BridgeConfig::FORWARD_DELAY.contains(&config.forward_delay)
        && config.validate().is_ok();
    if !is_valid {
        let reason = "the times of the spanning tree are not valid together (IEEE 802.1D, section 17.14)";
        return findings.add(section, (row, "other_config:stp-max-age"), reason, "write valid `stp_*` times");
    }
    section.set_some("stp_hello", hello.map(seconds));
    section.set_some("stp_max_age", max_age.map(seconds));
    section.set_some("stp_forward_delay", delay.map(seconds));
}

/// Reads keys that have no effect.
fn ignore(row: &Row, prefixes: &[&str]) {
    for prefix in prefixes {
        for key in [
            "system-id",
            "priority",
            "hello-time",
            "max-age",
            "forward-delay",
            "address",
            "ageing-time",
            "force-protocol-version",
            "transmit-hold-count",
        ] {
            row.key("other_config", &format!("{prefix}{key}"));
        }
    }
}

/// Writes the multicast snooping of a bridge.
pub(super) fn snooping(section: &mut Section, bridge: &BridgePlan<'_>, findings: &mut Findings) {
    let row = bridge.row;
    let number = |key| row.key("other_config", key)?.parse::<i64>().ok();
    let ageing = number("mcast-snooping-aging-time").unwrap_or(300).clamp(15, 3600);
    let groups = number("mcast-snooping-table-size").map(|size| size.clamp(10, 65_536));
    let quiet = row.key_flag("other_config", "mcast-snooping-disable-flood-unregistered");
    if !row.flag("mcast_snooping_enable") {
        return;
    }
    if bridge.has_flow_tables {
        let reason = "a bridge with flow tables has no multicast snooping";
        let remedy = "write pipeline = \"learning\", or groups in the flows";
        return findings.add(section, (row, "mcast_snooping_enable"), reason, remedy);
    }
    let settings = table([
        ("max_groups", groups.map(Into::into)),
        // One port may have all of them, as in Open vSwitch.
        ("max_groups_per_port", groups.map(|groups| groups.min(2048).into())),
        ("membership_interval", Some(seconds(ageing))),
        ("flood_unregistered", quiet.then(|| false.into())),
    ]);
    section.set("multicast_snooping", settings);
}

/// Writes the settings of a port or bond for the protocols of its bridge.
pub(super) fn port(section: &mut Section, port: &Row, bridge: &BridgePlan<'_>, findings: &mut Findings) {
    let number = |key| port.key("other_config", key)?.parse::<i64>().ok();
    let flag = |key| port.key("other_config", key).map(|value| value == "true");
    let is_rapid = bridge.row.flag("rstp_enable");
    let [enable, priority, cost] = if is_rapid {
        ["rstp-enable", "rstp-port-priority", "rstp-path-cost"]
    } else {
        ["stp-enable", "stp-port-priority", "stp-path-cost"]
    };
    let (is_on, priority, cost) = (flag(enable), number(priority), number(cost));
    let (edge, auto) = (flag("rstp-port-admin-edge"), flag("rstp-port-auto-edge"));
    if bridge.has_tree() {
        section.set_some("stp_priority", priority.map(|priority| priority.clamp(0, 240) / 16 * 16));
        section.set_some("stp_cost", cost.filter(|cost| *cost > 0).map(|cost| cost.min(200_000_000)));
        let word = if edge == Some(true) { Some("yes") } else { (auto == Some(false)).then_some("no") };
        section.set_some("stp_edge", word.filter(|_| is_rapid));
        if is_on == Some(false) {
            let reason = "all ports of the bridge take part in its spanning tree";
            findings.add(
                section,
                (port, &format!("other_config:{enable}")),
                reason,
                "write stp_edge = \"yes\"",
            );
        }
    }
    multicast(section, port, bridge, findings);
}

fn multicast(section: &mut Section, port: &Row, bridge: &BridgePlan<'_>, findings: &mut Findings) {
    let packets = port.key_flag("other_config", "mcast-snooping-flood");
    let reports = port.key_flag("other_config", "mcast-snooping-flood-reports");
    if !bridge.has_snooping() || !(packets || reports) {
        return;
    }
    section.set("multicast_router", "always");
    if packets != reports {
        let reason = "a port gets all multicast packets and all reports, or neither: it gets both";
        let remedy = "remove multicast_router if that is too much";
        findings.add(section, (port, "other_config:mcast-snooping-flood"), reason, remedy);
    }
}

/// Writes LLDP of an interface.
pub(super) fn lldp(section: &mut Section, interface: &Row, is_member: bool, findings: &mut Findings) {
    if !interface.key_flag("lldp", "enable") {
        return;
    }
    if is_member {
        let reason = "members of bonds have no LLDP";
        return findings.add(section, (interface, "lldp:enable"), reason, "nothing is needed");
    }
    section.set("lldp", true);
}
