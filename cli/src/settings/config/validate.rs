//! Validates sections against each other and against this machine. Reads the file system and the CPU mask; changes
//! nothing.

use super::names;
use crate::host::{Host, lock_path};
use crate::settings::MAX_PORTS;
use crate::settings::kinds::claim::Claim;
use crate::settings::kinds::granted::Granted;
use crate::settings::model::{ModelKind, RssMode};
use crate::settings::reader::notes::{Findings, Place, Section};
use crate::settings::reader::paths;
use crate::settings::reader::validation::Validation;
use crate::settings::reader::words::exists;
use crate::settings::recording;
use crate::settings::topology::{BridgeSettings, PortSettings, StaticEntry, Topology};
use crate::settings::vlan::Vlan;
use console::words::one_of;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

/// Maximum workers of a pipeline, each with up to three roles.
const MAX_WORKERS: usize = 40;

/// Validates the whole topology. Ports that are `running` with the same settings are validated against the others only.
pub(crate) fn topology(
    topology: &Topology,
    host: &Host,
    (control, running): (&Path, &[PortSettings]),
    notes: &mut Findings,
) {
    names::validate((Section::Switch, "name"), &topology.switch.name, notes);
    if let Some(path) = &topology.switch.control {
        paths::socket((Section::Switch, "control"), path, notes);
    }
    topology.switch.read.validate(control, notes);
    topology.switch.remote.iter().for_each(|remote| remote.validate(notes));
    grants_socket(topology, control, notes);
    workers(topology, host, notes);
    super::placement::validate(topology, notes);
    for i in 0..topology.bridges.len() {
        bridge(topology, i, notes);
    }
    if topology.ports.len() > MAX_PORTS {
        let reason = format!("there are {} ports, and the maximum is {MAX_PORTS}", topology.ports.len());
        notes.wrong((Section::Port(MAX_PORTS), ""), reason, "move some of them to a second switch");
    }
    let (claims, lock) = (claims(&topology.ports), lock_path(control));
    let own = own_files(topology, control, &lock);
    for i in 0..topology.ports.len().min(MAX_PORTS) {
        port(topology, i, (&claims, &own), notes);
        if !running.contains(&topology.ports[i]) {
            machine(topology, i, notes);
            content(topology, i, notes);
        }
    }
    for i in 0..topology.grants.len() {
        grant(topology, i, notes);
    }
    super::flows::validate(topology, notes);
    super::mirrors::validate(topology, notes);
    super::underlay::validate(topology, notes);
    super::openflow::conntrack(topology, notes);
}

/// Validates the socket for grants, which `[[grant]]` sections need.
fn grants_socket(topology: &Topology, control: &Path, notes: &mut Findings) {
    let place = (Section::Switch, "grants");
    match &topology.switch.grants {
        Some(path) if Claim::file("grants", path).is(&Claim::file("control", control)) => {
            notes.taken(place, "`grants` is the control socket", "give it a path of its own");
        }
        Some(path) => paths::socket(place, path, notes),
        None if topology.grants.is_empty() => {}
        None => {
            let reason = "`grants` of [switch] is missing, so that no application can ask";
            let remedy = "add a line to [switch] such as: grants = \"/run/linerate-grants.sock\"";
            notes.wrong((Section::Grant(0), ""), reason, remedy);
        }
    }
}

/// Validates what each port of a `[[grant]]` section would have.
fn grant(topology: &Topology, index: usize, notes: &mut Findings) {
    let grant = &topology.grants[index];
    let (section, port) =
        (Section::Grant(index), PortSettings::granted(grant, "", grant.queue_pairs, Granted::default()));
    membership(topology, section, &port, notes);
    super::security::validate(topology, section, (&port, &topology.ports), notes);
    vlan(section, &port, notes);
}

/// Validates the file that a port plays. Reads it completely, which takes as long as the disk needs.
fn content(topology: &Topology, index: usize, notes: &mut Findings) {
    let (section, kind) = (Section::Port(index), &topology.ports[index].kind);
    let Some((key, _)) = kind.plays().filter(|_| !notes.is_spoiled((section, "kind"))) else { return };
    if let Err(error) = recording::load(kind) {
        notes.wrong((section, key), error.reason, error.remedy);
    }
}

/// Validates the last port, which is to be added. The content of a file to be played is validated by its reader.
pub(crate) fn last_port(topology: &Topology, control: &Path, notes: &mut Findings) {
    if let Some(index) = topology.ports.len().checked_sub(1) {
        let lock = lock_path(control);
        let own = own_files(topology, control, &lock);
        port(topology, index, (&claims(&topology.ports), &own), notes);
        machine(topology, index, notes);
    }
}

/// Exclusive resources of each port.
fn claims(ports: &[PortSettings]) -> Vec<Vec<Claim<'_>>> {
    ports.iter().map(|port| port.kind.claims().into_iter().chain(port.wrappers.claims()).collect()).collect()
}

/// Validates one port against the others.
fn port(
    topology: &Topology,
    index: usize,
    (claims, own): (&[Vec<Claim<'_>>], &[Own<'_>]),
    notes: &mut Findings,
) {
    let (section, port) = (Section::Port(index), &topology.ports[index]);
    names::validate((section, "name"), &port.name, notes);
    named_once(topology, index, notes);
    // Without a valid kind, nothing else can be validated.
    if !notes.is_spoiled((section, "kind")) {
        claimed_once(topology, index, claims, notes);
        super::peers::validate(topology, index, notes);
        not_control(section, &claims[index], own, notes);
    }
    membership(topology, section, port, notes);
    super::security::validate(topology, section, (port, &topology.ports[..index]), notes);
    links(topology, section, port, notes);
    fast_path(topology, section, port, notes);
    super::underlay::port(topology, index, notes);
    rss(topology, section, port, notes);
    vlan(section, port, notes);
}

/// Validates the settings of a port against this machine.
fn machine(topology: &Topology, index: usize, notes: &mut Findings) {
    let (section, port) = (Section::Port(index), &topology.ports[index]);
    if !notes.is_spoiled((section, "kind")) {
        let mut validation = Validation::new(port.kind.name(), port.common(), section, notes);
        port.kind.validate(&mut validation);
        port.wrappers.validate(&mut validation, topology.model.model, topology.workers.len());
    }
}

/// The kernel forwards by addresses only, and has no wrappers.
fn fast_path(topology: &Topology, section: Section, port: &PortSettings, notes: &mut Findings) {
    let place = (section, "kernel_fast_path");
    if !port.kind.has_fast_path() || notes.is_spoiled(place) {
        return;
    }
    if let Some(key) = port.wrappers.first_key() {
        let reason = format!("`kernel_fast_path` is not supported with `{key}`");
        return notes.wrong(place, reason, format!("remove `kernel_fast_path` or `{key}`"));
    }
    let bridge = topology.bridges.iter().find(|bridge| bridge.name == port.bridge);
    if let Some(bridge) = bridge.filter(|bridge| !bridge.export.is_empty()) {
        let reason =
            format!("`kernel_fast_path` is not supported: bridge \"{}\" exports samples", bridge.name);
        notes.wrong(place, reason, "remove it, or `sflow` and `ipfix` of the bridge");
    }
}

/// Keys of the spanning tree need one, and so do those of multicast snooping.
pub(super) fn links(topology: &Topology, section: Section, port: &PortSettings, notes: &mut Findings) {
    let bridge = topology.bridges.iter().find(|bridge| bridge.name == port.bridge);
    let Some(bridge) = bridge else { return };
    if let Some(key) = port.links.multicast.first_key().filter(|_| bridge.multicast.is_none()) {
        let reason = format!("`{key}` has no effect: bridge \"{}\" has no multicast snooping", bridge.name);
        let remedy = "write multicast_snooping = {} in the [[bridge]] section, or remove the key";
        notes.wrong((section, key), reason, remedy);
    }
    let Some(key) = port.links.first_key() else { return };
    if bridge.stp.is_none() {
        let reason = format!("`{key}` has no effect: bridge \"{}\" has no spanning tree", bridge.name);
        notes.wrong(
            (section, key),
            reason,
            "write stp = \"rstp\" in the [[bridge]] section, or remove the key",
        );
    }
}

/// A port must not use the switch's own files.
fn not_control(section: Section, claims: &[Claim<'_>], own: &[Own<'_>], notes: &mut Findings) {
    for claim in claims {
        if let Some((_, what)) = own.iter().find(|(file, _)| file.is(claim)) {
            let reason = format!("`{}` is {what}", claim.key);
            notes.taken((section, claim.key), reason, "give the port a path of its own");
        }
    }
}

/// A file that the switch uses itself, and what it is.
type Own<'a> = (Claim<'a>, &'static str);

/// The switch's own files. `lock` is that of the control socket.
fn own_files<'a>(topology: &'a Topology, control: &'a Path, lock: &'a Path) -> Vec<Own<'a>> {
    let bridges = topology.bridges.iter().filter_map(|bridge| bridge.openflow.as_ref());
    let bridges = bridges.flat_map(super::openflow::files).map(|(_, path)| (path, "a socket of a bridge"));
    let grants = topology.switch.grants.as_deref().map(|path| (path, "the socket for grants"));
    let own = [(control, "the control socket"), (lock, "the control socket's lock")];
    let all = own.into_iter().chain(grants).chain(bridges);
    all.map(|(path, what)| (Claim::file("control", path), what)).collect()
}

fn workers(topology: &Topology, host: &Host, notes: &mut Findings) {
    (0..topology.workers.len()).for_each(|i| worker(topology, i, 0..i, host, notes));
    if topology.model.model == ModelKind::Pipeline && topology.workers.len() > MAX_WORKERS {
        let reason = format!(
            "there are {} workers, and the maximum of a pipeline is {MAX_WORKERS}",
            topology.workers.len()
        );
        notes.wrong((Section::Workers, ""), reason, "leave some of them out");
    }
}

/// Validates a worker that was added or changed, and ports as far as the number of workers concerns them.
pub(super) fn changed_worker(topology: &Topology, index: usize, host: &Host, notes: &mut Findings) {
    worker(topology, index, 0..topology.workers.len(), host, notes);
    for (at, port) in topology.ports.iter().enumerate() {
        let mut validation = Validation::new(port.kind.name(), port.common(), Section::Port(at), notes);
        port.wrappers.keeps_order(&mut validation, topology.model.model, topology.workers.len());
    }
}

/// Place of a worker's CPU: in its own section, or in the list of its first role.
fn cpu_place(topology: &Topology, i: usize, notes: &Findings) -> Place {
    let roles = topology.workers[i].roles;
    let key = if roles.rx {
        "rx"
    } else if roles.tx && !roles.work {
        "tx"
    } else {
        "work"
    };
    match notes.line((Section::Workers, key)) {
        Some(_) => (Section::Workers, key),
        None => (Section::Worker(i), "cpu"),
    }
}

/// Validates worker `i` of those with different CPUs in `others`.
fn worker(topology: &Topology, i: usize, others: Range<usize>, host: &Host, notes: &mut Findings) {
    if let Some(cpu) = topology.workers[i].cpu {
        let place = cpu_place(topology, i, notes);
        let other = others.into_iter().find(|&other| other != i && topology.workers[other].cpu == Some(cpu));
        if let Some(other) = other {
            let aside = notes.aside((Section::Worker(other), "cpu"));
            let remedy = "give each worker a CPU of its own";
            notes.taken(place, format!("CPU {cpu} is already assigned to worker {other}{aside}"), remedy);
        } else if let Some((reason, remedy)) = host.unusable(cpu) {
            notes.wrong(place, format!("CPU {cpu} {reason}"), remedy);
        }
    }
}

fn bridge(topology: &Topology, index: usize, notes: &mut Findings) {
    let (place, bridge) = ((Section::Bridge(index), "name"), &topology.bridges[index]);
    names::validate(place, &bridge.name, notes);
    if let Some(before) = topology.bridges[..index].iter().position(|other| other.name == bridge.name) {
        let aside = notes.aside((Section::Bridge(before), "name"));
        notes.taken(place, format!("a bridge of this name already exists{aside}"), "rename one of them");
    }
    super::openflow::validate(topology, index, notes);
    observation_domain(topology, index, notes);
    let mut seen = HashMap::new();
    for (i, entry) in bridge.statics.iter().enumerate() {
        let section = Section::Static(index, i);
        static_port(topology, bridge, section, &entry.port, notes);
        pinned(topology, section, entry, notes);
        if let Some(before) = seen.insert((entry.mac, entry.vlan), i) {
            let aside = notes.aside((Section::Static(index, before), "mac"));
            let reason = format!("`mac` {} is already pinned{aside}", entry.mac);
            notes.taken((section, "mac"), reason, "remove one of the two entries");
        }
    }
}

/// A collector tells the messages of two bridges apart by their observation domains.
fn observation_domain(topology: &Topology, index: usize, notes: &mut Findings) {
    let domain = |bridge: &BridgeSettings| bridge.export.ipfix.as_ref().map(|ipfix| ipfix.domain);
    let Some(own) = domain(&topology.bridges[index]) else { return };
    if let Some(other) = topology.bridges[..index].iter().find(|other| domain(other) == Some(own)) {
        let reason = format!("bridge \"{}\" has observation domain {own} already", other.name);
        notes.taken((Section::Bridge(index), "ipfix"), reason, "write another `domain`");
    }
}

fn static_port(
    topology: &Topology,
    bridge: &BridgeSettings,
    section: Section,
    port: &str,
    notes: &mut Findings,
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

/// Validates a static entry: its port must exist and carry its VLAN.
pub(crate) fn pinned(topology: &Topology, section: Section, entry: &StaticEntry, notes: &mut Findings) {
    let (wanted, mut names) = (&entry.port, topology.ports.iter().map(|port| port.name.as_str()));
    let Some(port) = topology.ports.iter().find(|port| port.name == *wanted) else {
        let remedy = exists("port", &mut names, wanted, notes);
        return notes.unknown((section, "port"), format!("there is no port \"{wanted}\""), remedy);
    };
    if let Some(bond) = topology.bonds.iter().find(|bond| bond.ports.contains(wanted)) {
        let reason = format!("port \"{wanted}\" is a member of bond \"{}\"", bond.name);
        return notes.wrong((section, "port"), reason, "list the address in `macs` of the bond");
    }
    let tags =
        || topology.ports.iter().any(|other| other.bridge == port.bridge && other.policy.vlan.is_some());
    match (entry.vlan, &port.policy.vlan) {
        (0, Some(Vlan::Trunk { native: None, .. })) => {
            let reason = format!("`vlan` is missing, and port \"{wanted}\" has no VLAN for untagged frames");
            let remedy = notes.example("vlan", "10");
            notes.wrong((section, "vlan"), reason, remedy);
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

fn named_once(topology: &Topology, index: usize, notes: &mut Findings) {
    let (section, port) = (Section::Port(index), &topology.ports[index]);
    let before = &topology.ports[..index];
    if topology.bonds.iter().any(|bond| bond.name == port.name) && notes.is_request() {
        notes.taken((section, "name"), "a bond of this name already exists", notes.rename());
    }
    let usable = |i: usize| !notes.is_spoiled((Section::Port(i), "name"));
    if let Some(i) = (0..index).find(|i| before[*i].name == port.name && usable(*i)) {
        let aside = notes.aside((Section::Port(i), "name"));
        let reason = format!("a port of this name already exists{aside}");
        notes.taken((section, "name"), reason, notes.rename());
    }
}

/// Checks that no earlier port uses a resource of this port.
fn claimed_once(topology: &Topology, index: usize, claims: &[Vec<Claim<'_>>], notes: &mut Findings) {
    let sound = |i: usize, key, notes: &Findings| {
        !notes.is_spoiled((Section::Port(i), key)) && !notes.is_spoiled((Section::Port(i), "kind"))
    };
    for claim in &claims[index] {
        let earlier = claims[..index].iter().enumerate().flat_map(|(i, own)| own.iter().map(move |c| (i, c)));
        let mut taken = earlier.filter(|(_, other)| other.is(claim));
        let Some((i, other)) = taken.find(|(i, c)| sound(*i, c.key, notes)) else { continue };
        let aside = notes.aside((Section::Port(i), other.key));
        let (key, shown, owner) = (claim.key, &claim.shown, &topology.ports[i].name);
        let reason = format!("`{key}` {shown} is already used by port \"{owner}\"{aside}");
        let article = if key.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        let remedy = format!("give each port {article} {key} of its own");
        notes.taken((Section::Port(index), key), reason, remedy);
    }
}

/// If a port sets `rss_mode`, the model must support it.
fn rss(topology: &Topology, section: Section, port: &PortSettings, notes: &mut Findings) {
    let (place, model) = ((section, "rss_mode"), topology.model);
    match (port.rss_mode, model.model) {
        (Some(_), ModelKind::Pipeline) => {
            notes.wrong(place, super::workers::PIPELINES_DISTRIBUTE, "remove it");
        }
        (Some(_), ModelKind::Stealing) => {
            let remedy = "remove it, or choose model = \"run-to-completion\" in [worker]";
            notes.wrong(place, super::workers::NO_SOFTWARE_RSS, remedy);
        }
        (Some(RssMode::Software), _) if model.rss_mode != RssMode::Software => {
            let reason = "`rss_mode` is \"software\", which [worker] does not enable";
            let remedy = "write rss_mode = \"software\" in [worker] as well, or remove it here";
            notes.wrong(place, reason, remedy);
        }
        (Some(_), ModelKind::RunToCompletion) | (None, _) => {}
    }
}

pub(super) fn membership(topology: &Topology, section: Section, port: &PortSettings, notes: &mut Findings) {
    let (place, wanted) = ((section, "bridge"), &port.bridge);
    let unsure = (0..topology.bridges.len()).any(|i| notes.is_spoiled((Section::Bridge(i), "name")));
    if unsure || topology.bridges.iter().any(|bridge| bridge.name == *wanted) {
        return;
    }
    let names = topology.bridges.iter().map(|bridge| bridge.name.as_str());
    if wanted.is_empty() {
        let names: Vec<&str> = names.collect();
        let verb = if notes.is_request() { "name one: " } else { "add a line: bridge = " };
        let remedy = format!("{verb}{}", one_of(&names));
        notes.wrong(place, "`bridge` is missing, and there are several bridges", remedy);
    } else {
        let remedy = exists("bridge", names, wanted, notes);
        notes.unknown(place, format!("there is no bridge \"{wanted}\""), remedy);
    }
}

pub(super) fn vlan(section: Section, port: &PortSettings, notes: &mut Findings) {
    let Some(Vlan::Trunk { trunk, .. }) = &port.policy.vlan else { return };
    if let Some(twice) = (1..trunk.len()).find(|i| trunk[..*i].contains(&trunk[*i])) {
        notes.wrong((section, "trunk"), format!("`trunk` lists VLAN {} twice", trunk[twice]), "list it once");
    }
}
