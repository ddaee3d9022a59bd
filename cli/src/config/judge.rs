//! Judges what sections say about each other and about this machine. Reads the file system and the CPU mask;
//! changes nothing.

use super::mistake::{Notes, Place, Section};
use crate::control::lock_path;
use crate::host::Host;
use crate::switch::{MOST_PORTS, driver_options};
use crate::topology::{BridgeSettings, PortKind, PortSettings, StaticEntry, Topology, Vlan};
use port::virtio_user::MAX_MEMORY;
use std::collections::HashMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Longest path of a Unix socket: `sun_path` has 108 bytes, one of them the terminating zero (unix(7)).
const LONGEST_PATH: usize = 107;
/// Longest name of a switch, bridge or port.
const LONGEST_NAME: usize = 32;

/// Judges the whole topology.
pub(crate) fn topology(topology: &Topology, host: &Host, control: &Path, notes: &mut Notes) {
    name((Section::Switch, "name"), &topology.switch.name, notes);
    if let Some(path) = &topology.switch.control {
        path_of((Section::Switch, "control"), path, notes);
    }
    workers(topology, host, notes);
    for i in 0..topology.bridges.len() {
        bridge(topology, i, notes);
    }
    if topology.ports.len() > MOST_PORTS {
        let reason =
            format!("there are {} ports, and a switch has room for {MOST_PORTS}", topology.ports.len());
        notes.wrong((Section::Port(MOST_PORTS), ""), reason, "give some of them to a second switch");
    }
    for i in 0..topology.ports.len().min(MOST_PORTS) {
        port(topology, i, control, notes);
    }
}

/// Judges one port among the others.
pub(crate) fn port(topology: &Topology, index: usize, control: &Path, notes: &mut Notes) {
    let (section, port) = (Section::Port(index), &topology.ports[index]);
    name((section, "name"), &port.name, notes);
    unique(topology, index, notes);
    path_of((section, "socket"), &port.socket, notes);
    let taken =
        [(control.to_owned(), "the control socket"), (lock_path(control), "the control socket's lock")];
    if let Some((_, what)) = taken.iter().find(|(path, _)| same_file(path, &port.socket)) {
        let reason = format!("`socket` is {what}");
        notes.wrong((section, "socket"), reason, "give the port a path of its own");
    }
    membership(topology, index, notes);
    vlan(section, port, notes);
    memory(section, port, notes);
}

/// A virtio-user port's queues are memory of this machine, all of it taken at once.
fn memory(section: Section, port: &PortSettings, notes: &mut Notes) {
    let PortKind::VirtioUser(driver) = port.kind else { return };
    let bytes = driver_options(port, driver).memory();
    if bytes > MAX_MEMORY {
        let (mib, most) = (bytes >> 20, MAX_MEMORY >> 20);
        let reason = format!("its rings and buffers would take {mib} MiB, and a port may share {most}");
        notes.wrong((section, ""), reason, "lower `queue_pairs`, `queue_size` or `mtu`");
    }
}

/// A name stands in commands, tables and URLs.
fn name(place: Place, name: &str, notes: &mut Notes) {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !begins || name.len() > LONGEST_NAME || !name.chars().all(fits) {
        let reason = format!("`name` \"{name}\" cannot be used");
        let remedy = format!(
            "1 to {LONGEST_NAME} letters, digits, dots, dashes or underscores; first a letter or digit"
        );
        notes.wrong(place, reason, remedy);
    }
}

fn workers(topology: &Topology, host: &Host, notes: &mut Notes) {
    for (i, cpu) in topology.workers.iter().enumerate().filter_map(|(i, w)| Some((i, w.cpu?))) {
        let place = (Section::Worker(i), "cpu");
        let before = topology.workers[..i].iter().position(|other| other.cpu == Some(cpu));
        if let Some(before) = before {
            let aside = notes.aside((Section::Worker(before), "cpu"));
            let remedy = "give each worker a CPU of its own";
            notes.wrong(place, format!("CPU {cpu} is already worker {before}'s{aside}"), remedy);
        } else if !host.online.contains(&cpu) {
            let remedy = format!("choose one of {}", list(&host.allowed));
            notes.wrong(place, format!("CPU {cpu} does not exist on this machine"), remedy);
        } else if !host.allowed.contains(&cpu) {
            let remedy = format!(
                "choose one of {}, or start linerate with a wider mask (taskset)",
                list(&host.allowed)
            );
            notes.wrong(place, format!("CPU {cpu} is outside this process's affinity mask"), remedy);
        }
    }
}

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn bridge(topology: &Topology, index: usize, notes: &mut Notes) {
    let (place, bridge) = ((Section::Bridge(index), "name"), &topology.bridges[index]);
    name(place, &bridge.name, notes);
    if let Some(before) = topology.bridges[..index].iter().position(|other| other.name == bridge.name) {
        let aside = notes.aside((Section::Bridge(before), "name"));
        notes.wrong(place, format!("there already is a bridge of this name{aside}"), "rename one of them");
    }
    let mut seen = HashMap::new();
    for (i, entry) in bridge.statics.iter().enumerate() {
        let section = Section::Static(index, i);
        static_port(topology, bridge, section, &entry.port, notes);
        pinned(topology, section, entry, notes);
        if let Some(before) = seen.insert((entry.mac, entry.vlan), i) {
            let aside = notes.aside((Section::Static(index, before), "mac"));
            let reason = format!("`mac` {} is already pinned{aside}", entry.mac);
            notes.wrong((section, "mac"), reason, "remove one of the two entries");
        }
    }
}

fn static_port(
    topology: &Topology,
    bridge: &BridgeSettings,
    section: Section,
    port: &str,
    notes: &mut Notes,
) {
    let place = (section, "port");
    match topology.ports.iter().find(|candidate| candidate.name == port) {
        Some(found) if found.bridge == bridge.name || found.bridge.is_empty() => {}
        Some(found) => {
            let reason =
                format!("port \"{port}\" belongs to bridge \"{}\", not \"{}\"", found.bridge, bridge.name);
            notes.wrong(place, reason, "move the entry to that bridge, or the port to this one");
        }
        None => {}
    }
}

/// A static entry needs a port that exists, and a VLAN that this port carries.
pub(crate) fn pinned(topology: &Topology, section: Section, entry: &StaticEntry, notes: &mut Notes) {
    let (wanted, mut names) = (&entry.port, topology.ports.iter().map(|port| port.name.as_str()));
    let Some(port) = topology.ports.iter().find(|port| port.name == *wanted) else {
        let remedy = exists("port", &mut names, wanted);
        return notes.wrong((section, "port"), format!("there is no port \"{wanted}\""), remedy);
    };
    let tags = || topology.ports.iter().any(|other| other.bridge == port.bridge && other.vlan.is_some());
    match (entry.vlan, &port.vlan) {
        (0, Some(Vlan::Trunk { native: None, .. })) => {
            let reason = format!("`vlan` is missing, and port \"{wanted}\" has none for untagged frames");
            notes.wrong((section, "vlan"), reason, "add a line such as: vlan = 10");
        }
        (0, _) => {}
        (_, None) if tags() => {}
        (vlan, Some(own)) if carries(own, vlan) => {}
        (vlan, _) => {
            let reason = format!("port \"{wanted}\" does not carry VLAN {vlan}");
            notes.wrong((section, "vlan"), reason, "name a VLAN of that port, or add this one to it");
        }
    }
}

fn carries(port: &Vlan, vlan: u16) -> bool {
    match port {
        Vlan::Access(own) => *own == vlan,
        Vlan::Trunk { trunk, native } => trunk.contains(&vlan) || *native == Some(vlan),
    }
}

fn unique(topology: &Topology, index: usize, notes: &mut Notes) {
    let (section, port) = (Section::Port(index), &topology.ports[index]);
    let before = &topology.ports[..index];
    let usable = |i: usize, key: &'static str, notes: &Notes| !notes.is_spoiled((Section::Port(i), key));
    let named = (0..index).find(|i| before[*i].name == port.name && usable(*i, "name", notes));
    if let Some(i) = named {
        let aside = notes.aside((Section::Port(i), "name"));
        notes.wrong(
            (section, "name"),
            format!("there already is a port of this name{aside}"),
            "rename one of them",
        );
    }
    let placed =
        (0..index).find(|i| same_file(&before[*i].socket, &port.socket) && usable(*i, "socket", notes));
    if let Some(i) = placed {
        let aside = notes.aside((Section::Port(i), "socket"));
        let reason =
            format!("`socket` {} is already port \"{}\"'s{aside}", port.socket.display(), before[i].name);
        notes.wrong((section, "socket"), reason, "give each port a socket of its own");
    }
}

fn membership(topology: &Topology, index: usize, notes: &mut Notes) {
    let (place, wanted) = ((Section::Port(index), "bridge"), &topology.ports[index].bridge);
    let unsure = (0..topology.bridges.len()).any(|i| notes.is_spoiled((Section::Bridge(i), "name")));
    if unsure || topology.bridges.iter().any(|bridge| bridge.name == *wanted) {
        return;
    }
    let names = topology.bridges.iter().map(|bridge| bridge.name.as_str());
    if wanted.is_empty() {
        let names: Vec<&str> = names.collect();
        let remedy = format!("add a line: bridge = {}", super::fields::one_of(&names));
        notes.wrong(place, "`bridge` is missing, and there is more than one", remedy);
    } else {
        notes.wrong(place, format!("there is no bridge \"{wanted}\""), exists("bridge", names, wanted));
    }
}

/// What to do about a name that nobody has.
fn exists<'a>(kind: &str, names: impl Iterator<Item = &'a str>, wanted: &str) -> String {
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    let near = names.iter().find(|name| super::fields::alike(wanted, name));
    match near {
        Some(name) => format!("did you mean \"{name}\"?"),
        None if names.is_empty() => format!("add a [[{kind}]] section with this name"),
        None => format!("name {}, or add a [[{kind}]] section with this name", super::fields::one_of(&names)),
    }
}

fn vlan(section: Section, port: &PortSettings, notes: &mut Notes) {
    let Some(Vlan::Trunk { trunk, .. }) = &port.vlan else { return };
    if trunk.is_empty() {
        notes.wrong((section, "trunk"), "`trunk` is empty", "list at least one VLAN");
    }
    if let Some(twice) = (1..trunk.len()).find(|i| trunk[..*i].contains(&trunk[*i])) {
        notes.wrong((section, "trunk"), format!("`trunk` lists VLAN {} twice", trunk[twice]), "list it once");
    }
}

/// Whether two paths lead to the same file, however they are written.
fn same_file(one: &Path, other: &Path) -> bool {
    one == other || (one.file_name() == other.file_name() && folder(one) == folder(other))
}

/// The folder that a path leads to, without detours where it exists.
fn folder(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?;
    Some(std::fs::canonicalize(parent).unwrap_or_else(|_| parent.to_owned()))
}

/// A path where a socket can be made or found.
fn path_of(place: Place, path: &Path, notes: &mut Notes) {
    if let Some((reason, remedy)) = path_mistake(path) {
        notes.wrong(place, format!("`{}` {}: {reason}", place.1, path.display()), remedy);
    }
}

fn path_mistake(path: &Path) -> Option<(String, String)> {
    let length = path.as_os_str().len();
    let parent = path.parent().unwrap_or(path);
    let said = |reason: &dyn Display, remedy: String| Some((reason.to_string(), remedy));
    if !path.is_absolute() {
        return said(
            &"the path is not absolute",
            "begin it with /, so that guests find the same file".to_owned(),
        );
    }
    if length > LONGEST_PATH {
        let reason = format!("the path has {length} bytes, and a Unix socket's has room for {LONGEST_PATH}");
        return said(&reason, "choose a shorter one".to_owned());
    }
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return said(&"no path has a zero byte", "remove it".to_owned());
    }
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return said(&"this is a directory's name", "add the socket's own name".to_owned());
    }
    match (std::fs::metadata(path), parent.is_dir()) {
        (_, false) => said(&"its directory does not exist", format!("mkdir -p {}", parent.display())),
        (Ok(found), _) if !std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
            said(&"it exists and is not a socket", "choose another path, or remove it".to_owned())
        }
        _ => None,
    }
}
