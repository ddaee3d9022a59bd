//! Validates and completes the OpenFlow settings of bridges.

use crate::host;
use crate::settings::kinds::claim::Claim;
use crate::settings::openflow::{DatapathId, FailMode, OpenflowSettings, Target};
use crate::settings::reader::notes::{Findings, Section};
use crate::settings::reader::paths;
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

/// Socket files that a bridge creates, each with its key.
pub(super) fn files(openflow: &OpenflowSettings) -> impl Iterator<Item = (&'static str, &Path)> {
    let management = openflow.management.iter().map(|path| ("management", path.as_path()));
    management
        .chain(openflow.controllers.iter().filter_map(|target| Some(("controllers", target.created()?))))
}
