//! Validates `[[flow]]` and `[[acl]]` sections against bridges and ports.

use crate::settings::flows::acl::RULES;
use crate::settings::reader::notes::{Findings, Section};
use crate::settings::reader::words::exists;
use crate::settings::topology::{PipelineKind, Topology};

/// Validates all sections. The flows of a bridge are read as its ports will be numbered.
pub(super) fn validate(topology: &Topology, notes: &mut Findings) {
    for (section, bridge) in topology.flows.bridges() {
        on_bridge(topology, section, bridge, notes);
    }
    for i in 0..topology.flows.acl.len() {
        rule_ports(topology, i, notes);
    }
    let openflow = topology.bridges.iter().filter(|bridge| bridge.pipeline == PipelineKind::Openflow);
    for bridge in openflow {
        limit(topology, &bridge.name, notes);
        for bad in topology.flow_changes(&bridge.name).err().into_iter().flatten() {
            let remedy =
                "see ovs-fields(7) and ovs-actions(7); ports are named as in [[port]] sections of the bridge";
            notes.wrong((bad.section, ""), bad.reason, remedy);
        }
    }
}

fn on_bridge(topology: &Topology, section: Section, bridge: &str, notes: &mut Findings) {
    let place = (section, "bridge");
    match topology.bridges.iter().find(|candidate| candidate.name == bridge) {
        Some(found) if found.pipeline == PipelineKind::Openflow => {}
        Some(_) => {
            let reason = format!("bridge \"{bridge}\" does not have flow tables");
            notes.wrong(place, reason, "write pipeline = \"openflow\" in its [[bridge]] section");
        }
        None if bridge.is_empty() => {
            let remedy = notes.example("bridge", "\"br0\"");
            notes.wrong(place, "`bridge` is missing, and there are several bridges", remedy);
        }
        None => {
            let names = topology.bridges.iter().map(|candidate| candidate.name.as_str());
            let remedy = exists("bridge", names, bridge, notes);
            notes.unknown(place, format!("there is no bridge \"{bridge}\""), remedy);
        }
    }
}

/// The ports of a rule must be ports or bonds of its bridge in this file.
fn rule_ports(topology: &Topology, index: usize, notes: &mut Findings) {
    let rule = &topology.flows.acl[index];
    for (key, name) in [("from", &rule.from), ("to", &rule.to)] {
        let Some(name) = name else { continue };
        let members = topology.names_on(&rule.bridge);
        if !members.contains(&name.as_str()) {
            let remedy = exists("port", members.iter().copied(), name, notes);
            let reason = format!("there is no port \"{name}\" on bridge \"{}\"", rule.bridge);
            notes.unknown((Section::Acl(index), key), reason, remedy);
        }
    }
}

/// The priorities of rules are those from 60000 downwards.
fn limit(topology: &Topology, bridge: &str, notes: &mut Findings) {
    let mut rules = topology.flows.acl.iter().enumerate().filter(|(_, rule)| rule.bridge == bridge);
    if let Some((first, _)) = rules.nth(RULES) {
        let reason = format!("bridge \"{bridge}\" has more than {RULES} rules");
        notes.wrong(
            (Section::Acl(first), ""),
            reason,
            "write prefixes and port ranges, or [[flow]] sections",
        );
    }
}
