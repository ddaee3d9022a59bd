//! Bridges with their ports, bonds and mirrors as sections.

use super::database::{Database, Row};
use super::document::{Section, list, seconds};
use super::findings::Findings;
use super::interfaces::{self, Place};
use super::names::Names;
use super::plan::{BridgePlan, PortPlan, TUNNELS};
use super::{bonds, controllers, export, links, mirrors, vlan};
use std::collections::BTreeSet;

/// State that bridges share.
pub(super) struct Shared<'a> {
    pub(super) database: &'a Database,
    /// Names of mirrors.
    pub(super) mirrors: Names,
    /// Observation domains.
    pub(super) domains: BTreeSet<i64>,
}

/// Sections of one bridge.
pub(super) fn write(shared: &mut Shared<'_>, place: &Place<'_>, findings: &mut Findings) -> Vec<Section> {
    let bridge = &place.plan.bridges[place.bridge];
    let mut section = Section::new("[[bridge]]");
    section.set("name", bridge.name.as_str());
    let tls = flow_tables(&mut section, shared.database, place, findings);
    table(&mut section, bridge.row);
    links::tree(&mut section, bridge, findings);
    links::snooping(&mut section, bridge, findings);
    export::write(&mut section, shared.database, bridge.row, &mut shared.domains, findings);
    unsupported(&mut section, shared.database, bridge.row, findings);
    underlay(&mut section, bridge, findings);
    // The kind of data path is not a matter of the file.
    bridge.row.text("datapath_type");
    let ports: Vec<_> = bridge.ports.iter().flat_map(|port| ports(port, place, findings)).collect();
    let mirrors = shared.database.referred(bridge.row, "mirrors", "Mirror").into_iter();
    let (names, own) = (&mut shared.mirrors, (place.plan, place.bridge));
    let mirrors: Vec<_> =
        mirrors.map(|row| mirrors::section(shared.database, own, row, names, findings)).collect();
    findings.rest(&mut section, bridge.row);
    [section].into_iter().chain(tls).chain(ports).chain(normal(bridge)).chain(mirrors).collect()
}

/// Keys of a bridge with flow tables.
fn flow_tables(
    section: &mut Section,
    database: &Database,
    place: &Place<'_>,
    findings: &mut Findings,
) -> Option<Section> {
    let bridge = &place.plan.bridges[place.bridge];
    let configured = bridge.row.key("other_config", "datapath-id").map(|id| id.trim_start_matches("0x"));
    if !bridge.has_flow_tables {
        return None;
    }
    section.set("pipeline", "openflow");
    identifier(section, bridge, configured, findings);
    section.set_some("local", bridge.local());
    let tls = controllers::write(section, database, (place.plan, bridge), findings);
    if bridge.controllers.is_empty() {
        let reason = "flows that were added with ovs-ofctl are not in the database";
        let remedy =
            format!("add the flows of `ovs-ofctl dump-flows {}` as `[[flow]]`", bridge.row.text("name"));
        findings.add(section, (bridge.row, "fail_mode"), reason, remedy);
    }
    tls
}

/// The datapath identifier by which controllers know the bridge: the configured one, or the one that a running Open
/// vSwitch has derived from addresses of interfaces.
fn identifier(
    section: &mut Section,
    bridge: &BridgePlan<'_>,
    configured: Option<&str>,
    findings: &mut Findings,
) {
    let used = Some(bridge.row.text("datapath_id")).filter(|id| !id.is_empty());
    let identifier = configured.or(used);
    section.set_some("datapath_id", identifier.map(|id| format!("{id:0>16}")));
    if identifier.is_none() && !bridge.controllers.is_empty() {
        let reason = "the identifier is not in the database, and the switch derives another one";
        let remedy = format!(
            "write `datapath_id` with the output of `ovs-vsctl get bridge {} datapath_id`",
            bridge.row.text("name")
        );
        findings.add(section, (bridge.row, "datapath_id"), reason, remedy);
    }
}

/// The flow of a bridge that Open vSwitch lets learn addresses: without controllers that it connects to, it has one.
fn normal(bridge: &BridgePlan<'_>) -> Option<Section> {
    let is_passive = |row: &&Row| row.text("target").starts_with('p');
    let is_alone = bridge.controllers.iter().all(is_passive) && bridge.row.text("fail_mode") != "secure";
    (bridge.has_flow_tables && is_alone).then(|| {
        let mut section = Section::new("[[flow]]");
        section.set("bridge", bridge.name.as_str());
        section.set("flow", list(["priority=0,actions=NORMAL"]));
        section
    })
}

/// The address table.
fn table(section: &mut Section, bridge: &Row) {
    let number = |key| bridge.key("other_config", key)?.parse::<i64>().ok();
    section.set_some("ageing", number("mac-aging-time").map(|time| seconds(time.clamp(15, 3600))));
    if let Some(size) = number("mac-table-size") {
        let size = size.clamp(16, 1_000_000);
        section.set("table", size);
        // One port may have all of them, as in Open vSwitch.
        section.set("max_macs_per_port", size.min(65_536));
    }
    section.set_some("forward_reserved", bridge.key_flag("other_config", "forward-bpdu").then_some(true));
    section.set("mac_moves", "free");
}

/// Rows of a bridge that have no counterpart.
fn unsupported(section: &mut Section, database: &Database, bridge: &Row, findings: &mut Findings) {
    if !database.referred(bridge, "auto_attach", "AutoAttach").is_empty() {
        let reason = "IEEE 802.1Qcj auto attach is not supported";
        findings.add(section, (bridge, "auto_attach"), reason, "configure the VLANs at the other switch");
    }
    let tables = database.numbered(bridge, "flow_tables", "Flow_Table");
    for (number, table) in tables {
        let shown: Vec<_> =
            table.rest().into_iter().map(|(column, value)| format!("{column} {value}")).collect();
        let reason = format!("table {number} has no settings of its own ({})", shown.join(", "));
        findings.add(section, (bridge, "flow_tables"), reason, "see `max_flows` of `[[bridge]]`");
    }
}

/// Addresses of tunnels are those of the host in Open vSwitch.
fn underlay(section: &mut Section, bridge: &BridgePlan<'_>, findings: &mut Findings) {
    let mut interfaces = bridge.ports.iter().flat_map(|port| &port.interfaces);
    if let Some((tunnel, _)) = interfaces.find(|(row, _)| TUNNELS.contains(&row.text("type"))) {
        let reason = "tunnels end at addresses of the switch, which the database does not have";
        let remedy = "add an `[[underlay]]` section to the OpenFlow bridge of the network card (docs/guide/tunnels.md)";
        findings.add(section, (tunnel, "type"), reason, remedy);
    }
}

/// Sections of a port: one, or a bond and those of its members.
fn ports(port: &PortPlan<'_>, place: &Place<'_>, findings: &mut Findings) -> Vec<Section> {
    let bridge = &place.plan.bridges[place.bridge];
    // The bond reads settings of its interfaces first.
    let mut bond = port.is_bond().then(|| bonds::section(port, bridge, findings));
    let interfaces = port.interfaces.iter();
    let mut sections: Vec<_> =
        interfaces.map(|(row, name)| interface(row, name, (port, place), findings)).collect();
    let Some(own) = bond.as_mut().or(sections.first_mut()) else { return sections };
    vlan::write(own, port.row, &bridge.vlans(), findings);
    links::port(own, port.row, bridge, findings);
    single(own, port, findings);
    findings.rest(own, port.row);
    bond.into_iter().chain(sections).collect()
}

/// Settings of bonds at a port with one interface, and of a bridge within a bridge.
fn single(section: &mut Section, port: &PortPlan<'_>, findings: &mut Findings) {
    let row = port.row;
    if !port.is_bond() {
        for column in ["bond_mode", "bond_updelay", "bond_downdelay"] {
            row.text(column);
        }
        if matches!(row.text("lacp"), "active" | "passive") {
            let reason = "a port with one interface has no LACP";
            findings.add(section, (row, "lacp"), reason, "write a `[[bond]]` section with this port");
        }
    }
    if row.flag("fake_bridge") {
        let reason = "a bridge within a bridge is a port in its VLAN";
        findings.add(section, (row, "fake_bridge"), reason, "nothing is needed");
    }
}

/// The section of an interface.
fn interface(
    row: &Row,
    name: &str,
    (port, place): (&PortPlan<'_>, &Place<'_>),
    findings: &mut Findings,
) -> Section {
    let mut section = Section::new("[[port]]");
    section.set("name", name);
    section.set("bridge", place.plan.bridges[place.bridge].name.as_str());
    interfaces::write(&mut section, row, port, place, findings);
    links::lldp(&mut section, row, port.is_bond(), findings);
    if name != row.text("name") {
        let reason = format!("the name is not valid in the file, or taken: it became {name}");
        findings.add(&mut section, (row, "name"), reason, "use the new name in flows and commands");
    }
    findings.rest(&mut section, row);
    section
}
