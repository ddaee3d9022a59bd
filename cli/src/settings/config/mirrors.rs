//! Validates `[[mirror]]` sections against bridges and ports.

use crate::settings::reader::notes::{Findings, Section};
use crate::settings::reader::words::exists;
use crate::settings::topology::Topology;
use bridge::MirrorConfig;

/// Validates all sections.
pub(super) fn validate(topology: &Topology, notes: &mut Findings) {
    (0..topology.mirrors.len()).for_each(|i| one(topology, i, notes));
}

/// Validates the last mirror, which is to be added.
pub(super) fn last(topology: &Topology, notes: &mut Findings) {
    if let Some(index) = topology.mirrors.len().checked_sub(1) {
        one(topology, index, notes);
    }
}

fn one(topology: &Topology, index: usize, notes: &mut Findings) {
    let (section, mirror) = (Section::Mirror(index), &topology.mirrors[index]);
    super::names::validate((section, "name"), &mirror.name, notes);
    if topology.mirrors[..index].iter().any(|other| other.name == mirror.name) {
        let remedy = notes.rename();
        notes.taken((section, "name"), format!("there is a mirror \"{}\" already", mirror.name), remedy);
    }
    on_bridge(topology, index, notes);
    selection(topology, index, notes);
    match (&mirror.output_port, mirror.output_vlan) {
        (Some(_), None) | (None, Some(_)) => {}
        (None, None) => {
            let remedy = notes.example("output_port", "\"probe\"");
            notes.wrong((section, "output_port"), "the mirror has no output", remedy);
        }
        (Some(_), Some(_)) => {
            let reason = "the mirror has two outputs: `output_port` and `output_vlan`";
            notes.wrong((section, "output_vlan"), reason, "remove one of them");
        }
    }
}

fn on_bridge(topology: &Topology, index: usize, notes: &mut Findings) {
    let (section, bridge) = (Section::Mirror(index), topology.mirrors[index].bridge.as_str());
    let mut names = topology.bridges.iter().map(|bridge| bridge.name.as_str());
    if bridge.is_empty() {
        let remedy = notes.example("bridge", "\"br0\"");
        notes.wrong((section, "bridge"), "`bridge` is missing, and there are several bridges", remedy);
    } else if names.clone().all(|name| name != bridge) {
        let remedy = exists("bridge", &mut names, bridge, notes);
        notes.unknown((section, "bridge"), format!("there is no bridge \"{bridge}\""), remedy);
    }
    let before = topology.mirrors[..index].iter().filter(|other| other.bridge == bridge);
    if before.count() >= MirrorConfig::MAX {
        let reason = format!("bridge \"{bridge}\" has more than {} mirrors", MirrorConfig::MAX);
        notes.wrong((section, ""), reason, "select several ports in one mirror");
    }
}

fn selection(topology: &Topology, index: usize, notes: &mut Findings) {
    let (section, mirror) = (Section::Mirror(index), &topology.mirrors[index]);
    if !mirror.all && mirror.source_ports.is_empty() && mirror.destination_ports.is_empty() {
        let remedy = "name ports in `source_ports` and `destination_ports`, or write all = true";
        notes.wrong((section, ""), "the mirror selects no packets", remedy);
    }
    let members = topology.names_on(&mirror.bridge);
    for (key, name) in mirror.ports() {
        if !members.contains(&name) {
            let remedy = exists("port", members.iter().copied(), name, notes);
            let reason = format!("there is no port \"{name}\" on bridge \"{}\"", mirror.bridge);
            notes.unknown((section, key), reason, remedy);
        }
        if key != "output_port" && mirror.output_port.as_deref() == Some(name) {
            let reason = format!("`{key}` has the output port \"{name}\", which is reserved for copies");
            notes.wrong((section, key), reason, "remove it there, or name another output port");
        }
    }
}
