//! Validates `[[bond]]` sections against bridges and ports.

use super::{names, security, validate};
use crate::settings::bonds::{BondMode, BondSettings, LacpMode};
use crate::settings::links::LinkSettings;
use crate::settings::policy::Policy;
use crate::settings::reader::notes::{Findings, Section};
use crate::settings::reader::words::exists;
use crate::settings::topology::{PipelineKind, PortSettings, Topology};
use bridge::MAX_MEMBERS;

/// Validates all bonds.
pub(super) fn validate(topology: &Topology, notes: &mut Findings) {
    (0..topology.bonds.len()).for_each(|i| bond(topology, i, notes));
}

/// Validates one bond against the others.
pub(super) fn bond(topology: &Topology, index: usize, notes: &mut Findings) {
    let (section, bond) = (Section::Bond(index), &topology.bonds[index]);
    names::validate((section, "name"), &bond.name, notes);
    named_once(topology, index, notes);
    let port = PortSettings::of_bond(bond);
    validate::membership(topology, section, &port, notes);
    security::validate(topology, section, (&port, &topology.ports), notes);
    validate::vlan(section, &port, notes);
    validate::links(topology, section, &port, notes);
    on_bridge(topology, section, bond, notes);
    members(topology, index, notes);
    if bond.mode == BondMode::BalanceTcp && bond.lacp.mode == LacpMode::Off {
        let reason = "`mode` is \"balance-tcp\", which needs LACP";
        notes.wrong((section, "mode"), reason, "write lacp = \"active\", or another mode");
    }
    let listed = |name: &String| bond.ports.contains(name);
    if let Some(primary) = bond.switching.primary.as_ref().filter(|name| !listed(name)) {
        let reason = format!("`primary` names \"{primary}\", which is not in `ports`");
        notes.wrong((section, "primary"), reason, "name one of `ports`");
    }
    if let Some(other) = bond.lacp.port_priorities.keys().find(|name| !listed(name)) {
        let reason = format!("`port_priorities` names \"{other}\", which is not in `ports`");
        notes.wrong((section, "port_priorities"), reason, "name only ports in `ports`");
    }
}

/// A name is that of one port or one bond.
fn named_once(topology: &Topology, index: usize, notes: &mut Findings) {
    let name = &topology.bonds[index].name;
    let earlier = topology.bonds[..index].iter().any(|other| other.name == *name);
    if earlier || topology.ports.iter().any(|port| port.name == *name) {
        let kind = if earlier { "bond" } else { "port" };
        let reason = format!("a {kind} of this name already exists");
        notes.taken((Section::Bond(index), "name"), reason, notes.rename());
    }
}

fn on_bridge(topology: &Topology, section: Section, bond: &BondSettings, notes: &mut Findings) {
    let bridge = topology.bridges.iter().find(|bridge| bridge.name == bond.bridge);
    let has_tables = bridge.is_some_and(|bridge| bridge.pipeline == PipelineKind::Openflow);
    if has_tables && bond.mode == BondMode::BalanceSlb {
        let reason = format!(
            "`mode` is \"balance-slb\", and bridge \"{}\" has flow tables, which learn nothing",
            bond.bridge
        );
        notes.wrong((section, "mode"), reason, "write mode = \"balance-tcp\" or mode = \"active-backup\"");
    }
}

fn members(topology: &Topology, index: usize, notes: &mut Findings) {
    let (place, bond) = ((Section::Bond(index), "ports"), &topology.bonds[index]);
    if bond.ports.is_empty() && !notes.is_spoiled(place) {
        let remedy = notes.example("ports", "[\"eth0\", \"eth1\"]");
        notes.wrong(place, "`ports` is missing", remedy);
    }
    if bond.ports.len() > MAX_MEMBERS {
        let reason = format!("`ports` lists {} ports", bond.ports.len());
        notes.wrong(place, reason, format!("list at most {MAX_MEMBERS}"));
    }
    if let Some(twice) = (1..bond.ports.len()).find(|i| bond.ports[..*i].contains(&bond.ports[*i])) {
        notes.wrong(place, format!("`ports` lists \"{}\" twice", bond.ports[twice]), "list it once");
    }
    for name in &bond.ports {
        let mut names = topology.ports.iter().map(|port| port.name.as_str());
        let Some(port) = topology.ports.iter().find(|port| port.name == *name) else {
            let remedy = exists("port", &mut names, name, notes);
            return notes.unknown(place, format!("there is no port \"{name}\""), remedy);
        };
        if let Some(reason) = unsuitable(topology, index, port, notes.is_request()) {
            let remedy = "list ports of the same bridge, without VLANs, limits and security of their own";
            notes.wrong(place, format!("port \"{name}\" {reason}"), remedy);
        }
    }
}

/// Why a port cannot be a member.
fn unsuitable(topology: &Topology, index: usize, port: &PortSettings, is_request: bool) -> Option<String> {
    let bond = &topology.bonds[index];
    // A conflict in a file is reported for the later bond.
    let others = topology.bonds.iter().enumerate();
    let mut others = others.filter(|(i, _)| *i < index || is_request && *i > index);
    if let Some((_, other)) = others.find(|(_, other)| other.ports.contains(&port.name)) {
        return Some(format!("is already a member of bond \"{}\"", other.name));
    }
    if port.bridge != bond.bridge {
        return Some(format!("belongs to bridge \"{}\", not \"{}\"", port.bridge, bond.bridge));
    }
    let has_policy = port.policy != Policy::default();
    let statics = topology.bridges.iter().flat_map(|bridge| &bridge.statics);
    if has_policy {
        Some("has VLANs, limits or security of its own, which belong to the bond".to_owned())
    } else if port.links != LinkSettings::default() {
        Some(
            "has LLDP or keys of a spanning tree or of multicast snooping, which members do not support"
                .to_owned(),
        )
    } else if statics.clone().any(|entry| entry.port == port.name) {
        Some("has static entries".to_owned())
    } else {
        None
    }
}
