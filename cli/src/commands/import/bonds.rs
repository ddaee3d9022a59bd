//! Ports with several interfaces as `[[bond]]` sections.

use super::database::Row;
use super::document::{Section, list, milliseconds};
use super::findings::Findings;
use super::plan::{BridgePlan, PortPlan};
use toml::Value;

/// Longest delay of a link in milliseconds.
const HOUR: i64 = 3_600_000;

/// The section of a bond, without VLANs and keys of protocols.
pub(super) fn section(port: &PortPlan<'_>, bridge: &BridgePlan<'_>, findings: &mut Findings) -> Section {
    let mut section = Section::new("[[bond]]");
    section.set("name", port.name.as_str());
    section.set("bridge", bridge.name.as_str());
    section.set("ports", list(port.interfaces.iter().map(|(_, name)| name.as_str())));
    let lacp = Some(port.row.text("lacp")).filter(|mode| matches!(*mode, "active" | "passive"));
    mode(&mut section, port.row, (bridge, lacp.is_some()), findings);
    if let Some(mode) = lacp {
        section.set("lacp", mode);
        lacp_keys(&mut section, port, findings);
    }
    delays(&mut section, port.row);
    primary(&mut section, port);
    section
}

fn mode(
    section: &mut Section,
    port: &Row,
    (bridge, has_lacp): (&BridgePlan<'_>, bool),
    findings: &mut Findings,
) {
    let wanted = Some(port.text("bond_mode")).filter(|mode| !mode.is_empty()).unwrap_or("active-backup");
    let problem = match wanted {
        "balance-tcp" if !has_lacp => {
            Some(("balance-tcp needs LACP", "write lacp = \"active\" and mode = \"balance-tcp\""))
        }
        "balance-slb" if bridge.has_flow_tables => Some((
            "a bridge with flow tables learns no addresses, by which balance-slb distributes",
            "use mode = \"balance-tcp\" with LACP",
        )),
        _ => None,
    };
    section.set("mode", if problem.is_some() { "active-backup" } else { wanted });
    if let Some((reason, remedy)) = problem {
        findings.add(section, (port, "bond_mode"), format!("{reason}: it became active-backup"), remedy);
    }
}

/// Settings of LACP, some of which belong to interfaces.
fn lacp_keys(section: &mut Section, port: &PortPlan<'_>, findings: &mut Findings) {
    let row = port.row;
    section.set_some("lacp_rate", (row.key("other_config", "lacp-time") == Some("fast")).then_some("fast"));
    let number = |row: &Row, key: &str| row.key("other_config", key)?.parse::<i64>().ok();
    section.set_some("system_priority", number(row, "lacp-system-priority"));
    section.set_some("system_id", row.key("other_config", "lacp-system-id"));
    section.set_some("fallback", row.key_flag("other_config", "lacp-fallback-ab").then_some(true));
    let priority = |(row, name): &(&Row, String)| {
        Some((name.clone(), Value::Integer(number(row, "lacp-port-priority")?)))
    };
    let priorities: toml::Table = port.interfaces.iter().filter_map(priority).collect();
    if !priorities.is_empty() {
        section.set("port_priorities", Value::Table(priorities));
    }
    let keys: Vec<_> = port.interfaces.iter().map(|(row, _)| number(row, "lacp-aggregation-key")).collect();
    match keys.first() {
        Some(Some(key)) if keys.iter().all(|other| other == &Some(*key)) => section.set("key", *key),
        _ if keys.iter().any(Option::is_some) => {
            let reason = "all members of a bond have one key";
            let place = (port.interfaces[0].0, "other_config:lacp-aggregation-key");
            findings.add(section, place, reason, "write `key`, or divide the bond");
        }
        _ => {}
    }
}

fn delays(section: &mut Section, port: &Row) {
    let delay =
        |column| port.integer(column).filter(|delay| *delay > 0).map(|delay| milliseconds(delay.min(HOUR)));
    section.set_some("up_delay", delay("bond_updelay"));
    section.set_some("down_delay", delay("bond_downdelay"));
    let interval: Option<i64> =
        port.key("other_config", "bond-rebalance-interval").and_then(|interval| interval.parse().ok());
    // Open vSwitch rebalances at most once a second.
    let interval = interval.map(|interval| if interval <= 0 { 0 } else { interval.clamp(1000, HOUR) });
    section.set_some("rebalance", interval.map(milliseconds));
}

fn primary(section: &mut Section, port: &PortPlan<'_>) {
    let Some(primary) = port.row.key("other_config", "bond-primary") else { return };
    let found = port.interfaces.iter().find(|(row, _)| row.text("name") == primary);
    section.set_some("primary", found.map(|(_, name)| name.as_str()));
}
