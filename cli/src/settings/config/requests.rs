//! Reads and validates API requests that extend a running switch.

use super::{sections, validate};
use crate::settings::bonds::BondSettings;
use crate::settings::conntrack::ConntrackSettings;
use crate::settings::kinds::PortKind;
use crate::settings::mirror::MirrorSettings;
use crate::settings::reader::node;
use crate::settings::reader::notes::{Cause, Findings, Section, shortened};
use crate::settings::topology::{BridgeSettings, PortSettings, StaticEntry, Topology};
use crate::settings::vlan::Vlan;
use console::Diagnostic;
use std::path::Path;

/// Errors of a request: the gravest class, and all of them.
pub(crate) type Refused = (Cause, Diagnostic);

/// Reads and validates a port to be added to `running`. Does not read the capture that the port replays.
pub(crate) fn new_port(
    json: &serde_json::Value,
    running: &Topology,
    control: &Path,
) -> Result<PortSettings, Refused> {
    let (index, mut notes) = (running.ports.len(), Findings::of_request());
    let mut port = sections::read_port(&node::from_json(json), index, &mut notes);
    sections::complete_port(&mut port, &running.bridges, &running.switch);
    let mut candidate = running.clone();
    candidate.ports.push(port.clone());
    validate::last_port(&candidate, control, &mut notes);
    finish(notes, port)
}

/// Reads new settings for port `index` of `running`: its own ones with those of the request, where null stands for the
/// default. They are validated with the configuration that has them.
pub(crate) fn changed_port(
    json: &serde_json::Value,
    running: &Topology,
    index: usize,
) -> Result<PortSettings, Refused> {
    let port = &running.ports[index];
    let fixed = |reason: &str, remedy: &str| {
        let place = format!("port \"{}\"", shortened(&port.name));
        (Cause::Invalid, Diagnostic::bad(place, reason, remedy))
    };
    if matches!(port.kind, PortKind::Granted(_)) {
        return Err(fixed("it is a port of an application", "change its `[[grant]]` section"));
    }
    if json.get("name").is_some_and(|name| name != &port.name) {
        return Err(fixed("`name` cannot be changed", "remove the port, and add it with another name"));
    }
    let mut own = serde_json::to_value(port).unwrap_or_default();
    if json.get("kind").is_some_and(|kind| own.get("kind") != Some(kind)) {
        // Keys of another kind have no meaning for the new one.
        let of_kind = serde_json::to_value(&port.kind).unwrap_or_default();
        let keys = of_kind.as_object().into_iter().flat_map(serde_json::Map::keys);
        keys.for_each(|key| drop(own.as_object_mut().and_then(|own| own.remove(key))));
    }
    let mut notes = Findings::of_request();
    let mut changed = sections::read_port(&node::from_json(&patched(own, json)), index, &mut notes);
    sections::complete_port(&mut changed, &running.bridges, &running.switch);
    finish(notes, changed)
}

/// The keys of an object with those of a request, where null stands for the default. Anything else than keys is left to
/// the reader, which refuses it.
pub(super) fn patched(mut own: serde_json::Value, json: &serde_json::Value) -> serde_json::Value {
    let (Some(keys), Some(patch)) = (own.as_object_mut(), json.as_object()) else { return json.clone() };
    keys.extend(patch.clone());
    keys.retain(|_, value| !value.is_null());
    own
}

/// Reads a bridge to be added to `running`. It is validated with the configuration that has it.
pub(crate) fn new_bridge(json: &serde_json::Value, running: &Topology) -> Result<BridgeSettings, Refused> {
    let (index, mut notes) = (running.bridges.len(), Findings::of_request());
    let bridge = sections::read_bridge(&node::from_json(json), index, &mut notes);
    if running.bridges.iter().any(|other| other.name == bridge.name) {
        let reason = format!("a bridge is called \"{}\"", bridge.name);
        notes.taken((Section::Bridge(index), "name"), reason, "choose another name");
    }
    finish(notes, bridge)
}

/// Reads new settings for bridge `index` of `running`, as [`changed_port`] does.
pub(crate) fn changed_bridge(
    json: &serde_json::Value,
    running: &Topology,
    index: usize,
) -> Result<BridgeSettings, Refused> {
    let bridge = &running.bridges[index];
    let fixed = |reason: &str, remedy: &str| {
        let place = format!("bridge \"{}\"", shortened(&bridge.name));
        (Cause::Invalid, Diagnostic::bad(place, reason, remedy))
    };
    if json.get("name").is_some_and(|name| name != &bridge.name) {
        return Err(fixed("`name` cannot be changed", "remove the bridge, and add it with another name"));
    }
    if json.get("static").is_some() {
        return Err(fixed("`static` has sections of its own", "use `linerate fdb add` and `remove`"));
    }
    let (own, mut notes) = (serde_json::to_value(bridge).unwrap_or_default(), Findings::of_request());
    let changed = sections::read_bridge(&node::from_json(&patched(own, json)), index, &mut notes);
    finish(notes, changed)
}

/// Reads and validates a bond to be added to `running`.
pub(crate) fn new_bond(json: &serde_json::Value, running: &Topology) -> Result<BondSettings, Refused> {
    bond_at(json, running, running.bonds.len())
}

/// Reads and validates new settings for bond `index` of `running`: its own ones with those of the request, where null
/// stands for the default.
pub(crate) fn changed_bond(
    json: &serde_json::Value,
    running: &Topology,
    index: usize,
) -> Result<BondSettings, Refused> {
    let own = serde_json::to_value(&running.bonds[index]).unwrap_or_default();
    let fixed = |what: &str| {
        let place = format!("bond \"{}\"", running.bonds[index].name);
        let remedy = "remove the bond, and add it with other settings";
        (Cause::Invalid, Diagnostic::bad(place, format!("{what} of a bond cannot be changed"), remedy))
    };
    let differs = |key: &&&str| json.get(**key).is_some_and(|new| Some(new) != own.get(**key));
    if let Some(key) = ["name", "bridge"].iter().find(differs) {
        return Err(fixed(&format!("`{key}`")));
    }
    let (changed, own) = (bond_at(&patched(own, json), running, index)?, &running.bonds[index]);
    match (changed.policy == own.policy, changed.links == own.links) {
        (true, true) => Ok(changed),
        (false, _) => Err(fixed("VLANs, limits and security")),
        (true, false) => Err(fixed("keys for the spanning tree and multicast snooping")),
    }
}

/// Reads new limits and timeouts of connections: those of `running` with those of the request, where null stands for
/// the default.
pub(crate) fn changed_conntrack(
    json: &serde_json::Value,
    running: &ConntrackSettings,
) -> Result<ConntrackSettings, Refused> {
    let mut own = serde_json::to_value(running).unwrap_or_default();
    merge(&mut own, json);
    let mut notes = Findings::of_request();
    let changed = ConntrackSettings::read(&node::from_json(&own), &mut notes);
    finish(notes, changed)
}

/// Merges a patch (RFC 7396).
fn merge(target: &mut serde_json::Value, patch: &serde_json::Value) {
    let (Some(target), Some(patch)) = (target.as_object_mut(), patch.as_object()) else {
        patch.clone_into(target);
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            let default = || if value.is_object() { serde_json::Map::new().into() } else { value.clone() };
            merge(target.entry(key.clone()).or_insert_with(default), value);
        }
    }
}

fn bond_at(json: &serde_json::Value, running: &Topology, index: usize) -> Result<BondSettings, Refused> {
    let mut notes = Findings::of_request();
    let mut bond = sections::read_bond(&node::from_json(json), index, &mut notes);
    sections::complete_bond(&mut bond, &running.bridges);
    let mut candidate = running.clone();
    candidate.bonds.splice(index..running.bonds.len().min(index + 1), [bond.clone()]);
    super::bonds::bond(&candidate, index, &mut notes);
    finish(notes, bond)
}

/// Validates a port of an application, which is made of a `[[grant]]` section, to be added to `running`.
pub(crate) fn granted_port(port: &PortSettings, running: &Topology, control: &Path) -> Result<(), Refused> {
    let mut notes = Findings::of_request();
    notes.call(Section::Port(running.ports.len()), format!("port \"{}\"", shortened(&port.name)));
    let mut candidate = running.clone();
    candidate.ports.push(port.clone());
    validate::last_port(&candidate, control, &mut notes);
    finish(notes, ())
}

/// Reads and validates a static entry to be added to the bridge of its port.
pub(crate) fn new_static(json: &serde_json::Value, running: &Topology) -> Result<StaticEntry, Refused> {
    let (section, mut notes) = (Section::Static(0, 0), Findings::of_request());
    notes.call(section, "static entry".to_owned());
    let entry = sections::read_static(&node::from_json(json), section, &mut notes);
    validate::pinned(running, section, &entry, &mut notes);
    if let Some(owner) = pinned_to(&entry, running) {
        let reason = format!("`mac` {} is already pinned to port \"{owner}\"", entry.mac);
        notes.taken((section, "mac"), reason, "remove that entry first");
    }
    finish(notes, entry)
}

/// Reads and validates a mirror to be added to `running`.
pub(crate) fn new_mirror(json: &serde_json::Value, running: &Topology) -> Result<MirrorSettings, Refused> {
    let (index, mut notes) = (running.mirrors.len(), Findings::of_request());
    let mut mirror = MirrorSettings::read(&node::from_json(json), index, &mut notes);
    sections::complete_bridge(&mut mirror.bridge, &running.bridges);
    let mut candidate = running.clone();
    candidate.mirrors.push(mirror.clone());
    super::mirrors::last(&candidate, &mut notes);
    finish(notes, mirror)
}

/// Port to which the address of `entry` is pinned on the same bridge, by a static entry or by `macs` of another port.
fn pinned_to<'a>(entry: &StaticEntry, running: &'a Topology) -> Option<&'a str> {
    let port = |name: &str| running.ports.iter().find(|port| port.name == name);
    let own = port(&entry.port)?;
    let vlan = |entry: &StaticEntry| match port(&entry.port).and_then(|port| port.policy.vlan.as_ref()) {
        Some(Vlan::Access(vlan) | Vlan::Trunk { native: Some(vlan), .. }) if entry.vlan == 0 => *vlan,
        _ => entry.vlan,
    };
    let bridge = running.bridges.iter().find(|bridge| bridge.name == own.bridge);
    let mut statics = bridge.into_iter().flat_map(|bridge| &bridge.statics);
    let listed = statics.find(|old| old.mac == entry.mac && vlan(old) == vlan(entry));
    let mut others = running.ports.iter().filter(|port| port.bridge == own.bridge && port.name != own.name);
    let mut other = || others.find(|port| port.policy.security.macs.contains(&entry.mac));
    listed.map(|old| old.port.as_str()).or_else(|| other().map(|port| port.name.as_str()))
}

pub(super) fn finish<T>(notes: Findings, value: T) -> Result<T, Refused> {
    match notes.cause() {
        None => Ok(value),
        Some(cause) => Err((cause, Diagnostic::all(notes.finish()))),
    }
}
