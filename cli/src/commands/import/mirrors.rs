//! Mirrors of a bridge as `[[mirror]]` sections.

use super::database::{Database, Row};
use super::document::{Section, list};
use super::findings::Findings;
use super::names::Names;
use super::plan::Plan;

/// The section of a mirror.
pub(super) fn section(
    database: &Database,
    (plan, bridge): (&Plan<'_>, usize),
    mirror: &Row,
    names: &mut Names,
    findings: &mut Findings,
) -> Section {
    let mut section = Section::new("[[mirror]]");
    section.set("name", names.take(mirror.text("name")));
    section.set("bridge", plan.bridges[bridge].name.as_str());
    let ports = |column| {
        let rows = database.referred(mirror, column, "Port");
        let names = rows.into_iter().filter_map(|row| plan.port_on(bridge, row));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let output = ports("output_port").into_iter().next();
    selection(
        &mut section,
        mirror,
        (ports("select_src_port"), ports("select_dst_port")),
        output.as_deref(),
        findings,
    );
    vlans(&mut section, mirror, findings);
    target(&mut section, mirror, output, findings);
    section.set_some("snap_length", mirror.integer("snaplen"));
    findings.rest(&mut section, mirror);
    section
}

/// Ports whose packets are copied. The output is reserved for copies and is none of them.
fn selection(
    section: &mut Section,
    mirror: &Row,
    (mut sources, mut destinations): (Vec<String>, Vec<String>),
    output: Option<&str>,
    findings: &mut Findings,
) {
    for ports in [&mut sources, &mut destinations] {
        ports.retain(|port| Some(port.as_str()) != output);
        ports.sort();
    }
    let is_all = mirror.flag("select_all");
    if !is_all && sources.is_empty() && destinations.is_empty() {
        section.is_disabled = true;
        let reason = "the mirror selects no port of its bridge other than its output";
        return findings.add(section, (mirror, "select_src_port"), reason, "name ports, or write all = true");
    }
    section.set_some("all", is_all.then_some(true));
    for (key, ports) in [("source_ports", sources), ("destination_ports", destinations)] {
        section.set_some(key, (!ports.is_empty()).then(|| list(ports)));
    }
}

fn vlans(section: &mut Section, mirror: &Row, findings: &mut Findings) {
    let selected = mirror.integers("select_vlan");
    let valid: Vec<i64> = selected.iter().copied().filter(|vlan| (1..=4094).contains(vlan)).collect();
    if valid.len() < selected.len() {
        let reason = "packets without a VLAN cannot be selected beside VLANs";
        findings.add(section, (mirror, "select_vlan"), reason, "write a mirror without `vlans`");
    }
    section.set_some("vlans", (!valid.is_empty()).then(|| list(valid)));
}

fn target(section: &mut Section, mirror: &Row, output: Option<String>, findings: &mut Findings) {
    let vlan = mirror.integer("output_vlan").filter(|vlan| (1..=4094).contains(vlan));
    match (output, vlan) {
        (Some(port), None) => section.set("output_port", port),
        (None, Some(vlan)) => section.set("output_vlan", vlan),
        (output, _) => {
            section.is_disabled = true;
            let reason = if output.is_some() {
                "the mirror has two outputs"
            } else {
                "the mirror has no output on its bridge"
            };
            findings.add(section, (mirror, "output_port"), reason, "write `output_port` or `output_vlan`");
        }
    }
}
