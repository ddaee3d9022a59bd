//! Tables of bonds.

use crate::api::model::BondReport;
use crate::dataplane::bond_report::{BondState, LacpEnd, LacpStatus, MemberState};
use console::table;
use console::units::{bytes, count};
use std::fmt::Write;

/// `linerate bonds show`
pub(crate) fn bonds(bonds: &[BondReport]) -> String {
    let titles =
        ["BOND", "BRIDGE", "MODE", "LACP", "MEMBER", "LINK", "STATE", ">BUCKETS", ">LOAD", "PARTNER"];
    let row = |bond: &BondReport, state: &BondState, member: &MemberState| {
        let partner = member.lacp.as_ref().map(|lacp| &lacp.partner).filter(|end| !end.system.is_zero());
        vec![
            bond.settings.name.clone(),
            bond.settings.bridge.clone(),
            bond.settings.mode.name().to_owned(),
            lacp(state.lacp).to_owned(),
            member.port.clone(),
            if member.up { "up" } else { "down" }.to_owned(),
            state_of(state, member),
            count(member.buckets as u64),
            bytes(member.load),
            partner.map_or_else(|| "-".to_owned(), |end| format!("{} port {}", end.system, end.port)),
        ]
    };
    let rows = bonds.iter().filter_map(|bond| Some((bond, bond.live.as_ref()?)));
    let rows =
        rows.flat_map(|(bond, state)| state.members.iter().map(move |member| row(bond, state, member)));
    table(&titles, rows)
}

fn lacp(status: LacpStatus) -> &'static str {
    match status {
        LacpStatus::Off => "off",
        LacpStatus::Configured => "no partner",
        LacpStatus::Negotiated => "negotiated",
    }
}

fn state_of(state: &BondState, member: &MemberState) -> String {
    let is_active = state.active.as_ref() == Some(&member.port);
    let mut text = match (is_active, member.enabled) {
        (true, _) => "active".to_owned(),
        (false, true) => "enabled".to_owned(),
        (false, false) => "disabled".to_owned(),
    };
    if let Some(seconds) = member.changes_in {
        // Writing to a String cannot fail.
        let _ = write!(text, ", changes in {seconds:.1} s");
    }
    text
}

/// `linerate bonds show NAME`
pub(crate) fn bond(report: &BondReport) -> String {
    let mut text = format!("{}, bridge {}\n", report.settings, report.settings.bridge);
    let Some(state) = &report.live else { return text };
    text += &bonds(std::slice::from_ref(report));
    if let Some(seconds) = state.rebalance_in {
        let _ = write!(text, "\nrebalanced in {seconds:.1} s; {} buckets moved so far", count(state.moves));
    }
    for member in &state.members {
        let Some(lacp) = &member.lacp else { continue };
        let _ = write!(text, "\n{}: {}, {}", member.port, lacp.receive, lacp.mux);
        let _ = write!(text, "\n  actor    {}\n  partner  {}", end(&lacp.actor), end(&lacp.partner));
    }
    for bucket in &state.buckets {
        let port = bucket.port.as_deref().unwrap_or("-");
        let _ = write!(text, "\nbucket {:>3}: {port}, {}", bucket.bucket, bytes(bucket.load));
    }
    text
}

fn end(end: &LacpEnd) -> String {
    let LacpEnd { system, system_priority, key, port, port_priority, state } = end;
    format!(
        "system {system_priority},{system} key {key} port {port_priority},{port}: {}",
        if state.is_empty() { "-".to_owned() } else { state.join(" ") }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::bond_report::BucketState;
    use serde_json::json;

    #[test]
    fn members_have_a_line_each_and_buckets_follow() {
        let settings = json!({
            "name": "up", "bridge": "main", "ports": ["a", "b"], "mode": "balance-slb", "lacp": "off",
            "lacp_rate": "slow", "system_priority": 1, "fallback": false, "up_delay": "0s", "down_delay": "0s",
            "rebalance": "10s",
        });
        let member = |port: &str, enabled| MemberState {
            port: port.to_owned(),
            up: enabled,
            enabled,
            changes_in: (!enabled).then_some(1.5),
            buckets: if enabled { 256 } else { 0 },
            load: 2048,
            lacp: None,
        };
        let state = BondState {
            lacp: LacpStatus::Off,
            active: Some("a".to_owned()),
            members: vec![member("a", true), member("b", false)],
            buckets: vec![BucketState { bucket: 7, port: Some("a".to_owned()), load: 2048 }],
            rebalance_in: Some(3.0),
            moves: 4,
        };
        let report = BondReport { settings: serde_json::from_value(settings).unwrap(), live: Some(state) };
        let text = bond(&report);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "bond up: balance-slb of a, b, bridge main");
        assert!(lines[2].contains("active") && lines[2].contains("256"), "{text}");
        assert!(lines[3].contains("disabled, changes in 1.5 s"), "{text}");
        assert_eq!(lines.last(), Some(&"bucket   7: a, 2.00 KiB"));
        assert!(text.contains("rebalanced in 3.0 s; 4 buckets moved so far"), "{text}");
    }
}
