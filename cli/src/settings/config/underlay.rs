//! Validates `[[underlay]]` sections and tunnels against bridges.

use crate::settings::kinds::PortKind;
use crate::settings::reader::notes::{Findings, Section};
use crate::settings::reader::words::exists;
use crate::settings::topology::{PipelineKind, Topology};

/// Validates all sections.
pub(super) fn validate(topology: &Topology, notes: &mut Findings) {
    for (i, underlay) in topology.underlays.iter().enumerate() {
        let place = (Section::Underlay(i), "bridge");
        on_openflow(topology, place, &underlay.bridge, notes);
        let before = &topology.underlays[..i];
        if before.iter().any(|other| other.bridge == underlay.bridge) {
            let reason = format!("bridge \"{}\" has an underlay already", underlay.bridge);
            notes.taken(place, reason, "list all addresses of a bridge in one section");
        }
    }
}

/// Validates the tunnel that a port is, if it is one.
pub(super) fn port(topology: &Topology, index: usize, notes: &mut Findings) {
    let (section, port) = (Section::Port(index), &topology.ports[index]);
    let PortKind::Tunnel(tunnel) = &port.kind else { return };
    on_openflow(topology, (section, "bridge"), &port.bridge, notes);
    if topology.is_local(port) {
        let reason = format!("a tunnel cannot be the local port of bridge \"{}\"", port.bridge);
        notes.wrong((section, "kind"), reason, "name another port as `local` in the [[bridge]] section");
    }
    if let Some(local) = tunnel.local
        && !topology.underlays.iter().any(|underlay| underlay.has(local))
    {
        let reason = format!("`local` {local} is not an address of the switch");
        notes.wrong((section, "local"), reason, "list it in an [[underlay]] section");
    }
    let same = |other: &PortKind| match other {
        PortKind::Tunnel(other) => {
            let mut tunnels = tunnel::Tunnels::default();
            tunnels.add(&other.settings(), ()).and(tunnels.add(&tunnel.settings(), ())).is_err()
        }
        _ => false,
    };
    if let Some(other) = topology.ports[..index].iter().find(|other| same(&other.kind)) {
        let reason =
            format!("port \"{}\" receives the same packets, or those of another protocol", other.name);
        notes.taken(
            (section, "remote"),
            reason,
            "choose another `remote`, `local`, `key` or `destination_port`",
        );
    }
}

fn on_openflow(topology: &Topology, place: (Section, &'static str), bridge: &str, notes: &mut Findings) {
    match topology.bridges.iter().find(|candidate| candidate.name == bridge) {
        Some(found) if found.pipeline == PipelineKind::Openflow => {}
        Some(_) => {
            let reason = format!("bridge \"{bridge}\" does not have flow tables, which tunnels need");
            notes.wrong(place, reason, "write pipeline = \"openflow\" in its [[bridge]] section");
        }
        None if matches!(place.0, Section::Port(_)) => {}
        None => {
            let names = topology.bridges.iter().map(|bridge| bridge.name.as_str());
            let remedy = exists("bridge", names, bridge, notes);
            notes.unknown(place, format!("there is no bridge \"{bridge}\""), remedy);
        }
    }
}
