//! Settings of the whole switch: its CPUs, managers, and timeouts of connections.

use super::database::{Database, Row};
use super::document::{Section, list};
use super::findings::Findings;
use super::plan::Plan;
use crate::host::Host;
use console::words::numbers;

/// Sections of the switch: `[switch]`, and `[worker]` if CPUs are selected.
pub(super) fn write(
    database: &Database,
    plan: &Plan<'_>,
    host: &Host,
    findings: &mut Findings,
) -> Vec<Section> {
    let mut section = Section::new("[switch]");
    section.set("name", "linerate");
    let Some(row) = plan.switch else { return vec![section] };
    managers(&mut section, database, row, findings);
    connections(&mut section, database, row, findings);
    for key in ["rundir", "hostname", "system-id"] {
        row.key("external_ids", key);
    }
    if row.pairs("external_ids").iter().any(|(key, _)| key.starts_with("ovn-")) {
        let reason = "OVN is not supported: its controller programs the bridges by OVSDB";
        let remedy = "keep Open vSwitch for this machine, or configure its networks as bridges and flows";
        findings.add(&mut section, (row, "external_ids:ovn-*"), reason, remedy);
    }
    let workers = workers(&mut section, plan, row, host, findings);
    // Bridges read them.
    row.key("other_config", "vhost-sock-dir");
    row.text("ssl");
    findings.rest(&mut section, row);
    [section].into_iter().chain(workers).collect()
}

fn managers(section: &mut Section, database: &Database, row: &Row, findings: &mut Findings) {
    for manager in database.referred(row, "manager_options", "Manager") {
        let reason = format!("OVSDB is not served: {} cannot change the switch", manager.text("target"));
        let remedy = "use the control API (docs/reference/api.md)";
        findings.add(section, (row, "manager_options"), reason, remedy);
    }
}

/// Timeouts are those of the switch, and not of zones.
fn connections(section: &mut Section, database: &Database, row: &Row, findings: &mut Findings) {
    for path in database.referred(row, "datapaths", "Datapath") {
        for (number, zone) in database.numbered(path, "ct_zones", "CT_Zone") {
            let policies = database.referred(zone, "timeout_policy", "CT_Timeout_Policy");
            let shown: Vec<_> = policies.iter().flat_map(|policy| policy.pairs("timeouts")).collect();
            let shown: Vec<_> = shown.iter().map(|(name, time)| format!("{name} {time}s")).collect();
            let reason = format!("zone {number} has no timeouts of its own ({})", shown.join(", "));
            findings.add(section, (path, "ct_zones"), reason, "write `[conntrack.timeouts]`, for all zones");
        }
    }
}

/// Workers on the CPUs of the poll mode drivers, if this machine has them.
fn workers(
    section: &mut Section,
    plan: &Plan<'_>,
    row: &Row,
    host: &Host,
    findings: &mut Findings,
) -> Option<Section> {
    let is_polled = plan.bridges.iter().any(|bridge| bridge.row.text("datapath_type") == "netdev");
    let mask = row.key("other_config", "pmd-cpu-mask").filter(|_| is_polled)?;
    let cpus = cpus(mask);
    let unusable: Vec<usize> = cpus.iter().copied().filter(|cpu| host.unusable(*cpu).is_some()).collect();
    if cpus.is_empty() || !unusable.is_empty() {
        let reason = if cpus.is_empty() {
            format!("{mask} is not a mask of CPUs")
        } else {
            format!("this process may not run on CPU {}", numbers(&unusable))
        };
        let remedy = format!("write `[worker]` with work = {cpus:?} on the machine of the switch");
        findings.add(section, (row, "other_config:pmd-cpu-mask"), reason, remedy);
        return None;
    }
    let mut workers = Section::new("[worker]");
    workers.set("work", list(cpus.into_iter().filter_map(|cpu| i64::try_from(cpu).ok())));
    Some(workers)
}

/// CPUs of a hexadecimal mask.
fn cpus(mask: &str) -> Vec<usize> {
    let digits = mask.trim_start_matches("0x").chars().rev().enumerate();
    let bits = digits.map(|(at, digit)| Some((at, digit.to_digit(16)?)));
    let Some(bits) = bits.collect::<Option<Vec<_>>>() else { return Vec::new() };
    let of = |(at, digit): (usize, u32)| {
        (0..4).filter(move |bit| digit >> bit & 1 == 1).map(move |bit| at * 4 + bit)
    };
    bits.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_cpus_are_hexadecimal() {
        assert_eq!(cpus("0x6"), [1, 2]);
        assert_eq!(cpus("101"), [0, 8]);
        assert_eq!(cpus("zz"), [0; 0]);
    }
}
