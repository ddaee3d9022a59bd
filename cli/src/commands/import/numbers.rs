//! OpenFlow numbers of ports: those in Open vSwitch, and those that the order of the file gives.

use super::database::Row;
use super::document::Document;
use super::findings::Findings;
use super::plan::{self, BridgePlan, Plan, PortPlan};
use crate::settings::flows::FilePorts;
use flow::PortNo;
use flow::text::PortNames;

/// The number of the local port in Open vSwitch and OpenFlow 1.0.
const LOCAL: i64 = 65_534;

/// Adds a finding for each interface whose OpenFlow number changes. Sections that are not valid must be disabled
/// before, because their ports have no numbers.
pub(super) fn compare(plan: &Plan<'_>, document: &mut Document, findings: &mut Findings) {
    for bridge in plan.bridges.iter().filter(|bridge| bridge.has_flow_tables) {
        let names = written(bridge, document);
        let numbers = FilePorts::new(names.into_iter(), bridge.local());
        for port in &bridge.ports {
            let Some(after) = numbers.number(&port.name) else { continue };
            for (row, name) in &port.interfaces {
                let Some(changed) = changed(row, (port, after)) else { continue };
                let Some(section) = document.section("[[port]]", name) else { continue };
                let remedy = format!(
                    "name the port in flows, as `ovs-ofctl --names dump-flows {}` prints them, and change controllers \
                     that use the number",
                    bridge.row.text("name")
                );
                findings.add(section, (row, changed.0), changed.1, remedy);
            }
        }
    }
}

/// Bonds and then other ports of the file, as they are numbered.
fn written<'a>(bridge: &'a BridgePlan<'_>, document: &Document) -> Vec<&'a str> {
    let of = |is_bond: bool| bridge.ports.iter().filter(move |port| port.is_bond() == is_bond);
    let ports = of(true).chain(of(false)).filter(|port| document.has(header(port.is_bond()), &port.name));
    ports.map(|port| port.name.as_str()).collect()
}

fn header(is_bond: bool) -> &'static str {
    if is_bond { "[[bond]]" } else { "[[port]]" }
}

/// The column of a number that is another one in the file, and the reason.
fn changed(interface: &Row, (port, after): (&PortPlan<'_>, PortNo)) -> Option<(&'static str, String)> {
    let (column, before) = plan::number(interface)?;
    if before == LOCAL && after == PortNo::LOCAL || before == i64::from(after.0) {
        return None;
    }
    let after = if after == PortNo::LOCAL { "LOCAL".to_owned() } else { after.0.to_string() };
    let bond = if port.is_bond() { format!(", that of bond {}", port.name) } else { String::new() };
    let why = "numbers follow the order of the file";
    Some((column, format!("the OpenFlow number {before} becomes {after}{bond}: {why}")))
}
