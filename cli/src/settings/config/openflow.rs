//! Validates and completes the OpenFlow settings of bridges.

use crate::host;
use crate::settings::kinds::claim::Claim;
use crate::settings::openflow::{DatapathId, FailMode, OpenflowSettings, Target};
use crate::settings::reader::notes::{Findings, Section};
use crate::settings::reader::paths;
use crate::settings::reader::words::exists;
use crate::settings::topology::Topology;
use std::path::Path;

/// Maximum number of controllers of a bridge.
const MAX_CONTROLLERS: usize = 16;

/// Sets what the file leaves to the switch: the identifier, and the management socket beside the control socket.
pub(super) fn complete(topology: &mut Topology, control: &Path) {
    for bridge in &mut topology.bridges {
        let Some(openflow) = &mut bridge.openflow else { continue };
        openflow.datapath_id.get_or_insert_with(|| DatapathId::of(&host::id(), &bridge.name));
        let beside = || control.with_file_name(format!("{}.mgmt", bridge.name));
        openflow.management.get_or_insert_with(beside);
    }
}

/// Validates the settings of one bridge.
pub(super) fn validate(topology: &Topology, index: usize, notes: &mut Findings) {
    let section = Section::Bridge(index);
    let Some(openflow) = &topology.bridges[index].openflow else { return };
    controllers(openflow, section, notes);
    tls(openflow, section, notes);
    local(topology, index, notes);
    sockets(topology, openflow, index, notes);
}

fn controllers(openflow: &OpenflowSettings, section: Section, notes: &mut Findings) {
    let (place, targets) = ((section, "controllers"), &openflow.controllers);
    if targets.len() > MAX_CONTROLLERS {
        let reason = format!("`controllers` has {} entries", targets.len());
        notes.wrong(place, reason, format!("list at most {MAX_CONTROLLERS}"));
    }
    if let Some(twice) = (1..targets.len()).find(|i| targets[..*i].contains(&targets[*i])) {
        notes.wrong(place, format!("`controllers` lists {} twice", targets[twice]), "list it once");
    }
    let is_alone = !targets.iter().any(Target::is_active);
    if openflow.auxiliary > 0 && is_alone && !notes.is_spoiled(place) {
        let reason = "`auxiliary` has no effect: the bridge connects to no controller";
        let remedy = "list a controller with tcp, ssl or unix in `controllers`, or remove it";
        notes.wrong((section, "auxiliary"), reason, remedy);
    }
    if openflow.fail_mode == FailMode::Standalone && is_alone && !notes.is_spoiled(place) {
        let reason = "`fail_mode` is \"standalone\", and the bridge connects to no controller";
        let remedy =
            "list a controller with tcp, ssl or unix in `controllers`, or write pipeline = \"learning\"";
        notes.wrong((section, "fail_mode"), reason, remedy);
    }
}

/// TLS needs its files, which must be readable.
fn tls(openflow: &OpenflowSettings, section: Section, notes: &mut Findings) {
    let user = openflow.controllers.iter().find(|target| target.uses_tls());
    match (&openflow.tls, user) {
        (None, Some(target)) if !notes.is_spoiled((section, "tls")) => {
            let reason = format!("`controllers` lists {target}, and the bridge has no `tls`");
            let remedy = "add a section [bridge.tls] with private_key, certificate and ca_certificate";
            notes.wrong((section, "controllers"), reason, remedy);
        }
        (Some(tls), _) => {
            for (key, path) in tls.files() {
                let error = match std::fs::File::open(path) {
                    _ if !path.is_absolute() => "the path is not absolute".to_owned(),
                    Ok(_) => continue,
                    Err(error) => format!("it cannot be read: {error}"),
                };
                let reason = format!("`{key}` {}: {error}", path.display());
                notes.wrong((section, key), reason, "name a file in PEM that the switch may read");
            }
        }
        _ => {}
    }
}

/// Validates the socket files that the bridge creates: each is used once.
fn sockets(topology: &Topology, openflow: &OpenflowSettings, index: usize, notes: &mut Findings) {
    let own: Vec<_> = files(openflow).collect();
    let mut earlier: Vec<&Path> = topology.switch.grants.iter().map(AsRef::as_ref).collect();
    let before = topology.bridges[..index].iter().filter_map(|bridge| bridge.openflow.as_ref());
    earlier.extend(topology.switch.control.as_deref());
    earlier.extend(before.flat_map(files).map(|(_, path)| path));
    for (key, path) in own {
        let place = (Section::Bridge(index), key);
        paths::socket(place, path, notes);
        if earlier.iter().any(|other| Claim::file(key, other).is(&Claim::file(key, path))) {
            let reason = format!("`{key}` {} is already used by the switch", path.display());
            notes.taken(place, reason, "give each socket a path of its own");
        }
        earlier.push(path);
    }
}

/// Only OpenFlow bridges track connections.
pub(super) fn conntrack(topology: &Topology, notes: &mut Findings) {
    let is_used = topology.bridges.iter().any(|bridge| bridge.openflow.is_some());
    if !is_used && !topology.conntrack.is_default() {
        let reason = "the section has no effect: no bridge has flow tables";
        let remedy = "write pipeline = \"openflow\" in a [[bridge]] section, or remove it";
        notes.wrong((Section::Conntrack, ""), reason, remedy);
    }
}

/// The local port is a port of the bridge, unless the bridge itself has addresses.
fn local(topology: &Topology, index: usize, notes: &mut Findings) {
    let (bridge, place) = (&topology.bridges[index], (Section::Bridge(index), "local"));
    let Some(name) = bridge.local() else { return };
    if topology.underlays.iter().any(|underlay| underlay.bridge == bridge.name) {
        let reason = "`local` cannot be combined with [[underlay]]: the port LOCAL is the bridge itself";
        return notes.wrong(place, reason, "remove one of them");
    }
    let members = topology.ports.iter().filter(|port| port.bridge == bridge.name);
    let mut members = members.map(|port| port.name.as_str());
    if members.clone().all(|member| member != name) {
        let remedy = exists("port", &mut members, name, notes);
        let reason = format!("there is no port \"{name}\" on bridge \"{}\"", bridge.name);
        notes.unknown(place, reason, remedy);
    }
}

/// Socket files that a bridge creates, each with its key.
pub(super) fn files(openflow: &OpenflowSettings) -> impl Iterator<Item = (&'static str, &Path)> {
    let management = openflow.management.iter().map(|path| ("management", path.as_path()));
    management
        .chain(openflow.controllers.iter().filter_map(|target| Some(("controllers", target.created()?))))
}
