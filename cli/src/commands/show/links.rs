//! Neighbours that LLDP has found.

use crate::dataplane::link_report::{LldpPortReport, NeighborReport, NeighborsReport};
use console::table;
use console::units::count;
use std::fmt::Write;

/// `linerate neighbors show`
pub(crate) fn neighbors(report: &NeighborsReport) -> String {
    let titles = ["PORT", "SYSTEM", "CHASSIS", "ITS PORT", "CAPABILITIES", "MANAGEMENT", ">EXPIRES"];
    let row = |neighbor: &NeighborReport| {
        vec![
            neighbor.port.clone(),
            neighbor.system_name.clone().unwrap_or_default(),
            neighbor.chassis.clone(),
            neighbor.port_id.clone(),
            neighbor.capabilities.join(", "),
            neighbor.management.join(", "),
            format!("{} s", neighbor.expires),
        ]
    };
    table(&titles, report.neighbors.iter().map(row))
}

/// `linerate neighbors show NAME`
pub(crate) fn port(report: &NeighborsReport) -> String {
    let mut text = String::new();
    for LldpPortReport { port, received, invalid, refused, aged, sent } in &report.ports {
        let [received, invalid, refused, aged, sent] =
            [received, invalid, refused, aged, sent].map(|n| count(*n));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{port}: {received} frames received, {invalid} invalid, {refused} refused, {aged} neighbours aged, \
             {sent} sent"
        );
    }
    report.neighbors.iter().map(described).fold(text, |text, neighbor| text + "\n" + &neighbor)
}

/// Attributes of a neighbour, one per line.
fn described(neighbor: &NeighborReport) -> String {
    let vlans = neighbor.vlans.iter().map(|vlan| format!("{} ({})", vlan.id, vlan.name));
    let rows = [
        ("chassis", Some(neighbor.chassis.clone())),
        ("port", Some(neighbor.port_id.clone())),
        ("port description", neighbor.port_description.clone()),
        ("system", neighbor.system_name.clone()),
        ("system description", neighbor.system_description.clone()),
        ("capabilities", Some(neighbor.capabilities.join(", "))),
        ("management", Some(neighbor.management.join(", "))),
        ("untagged VLAN", neighbor.port_vlan.map(|vlan| vlan.to_string())),
        ("VLANs", Some(vlans.collect::<Vec<_>>().join(", "))),
        ("expires", Some(format!("in {} s; known for {} s", neighbor.expires, neighbor.age))),
    ];
    let rows =
        rows.into_iter().filter_map(|(label, value)| Some((label, value.filter(|text| !text.is_empty())?)));
    rows.fold(String::new(), |mut text, (label, value)| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{label:<20}{value}");
        text
    })
}
