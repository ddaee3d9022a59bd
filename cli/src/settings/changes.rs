//! Differences of two configurations: what a running switch would have to change to run another file.
//!
//! A port, bond or mirror that differs is one change. Sections that a running switch cannot change are listed apart
//! ([`Changes::fixed`]). Ports of applications belong to no file and are left out.

use super::bonds::BondSettings;
use super::kinds::PortKind;
use super::mirror::MirrorSettings;
use super::model::ModelKind;
use super::topology::{BridgeSettings, PipelineKind, PortSettings, StaticEntry, Topology};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// An object of one or both configurations, which differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit<T> {
    pub(crate) old: Option<T>,
    pub(crate) new: Option<T>,
}

/// The differences of two configurations.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) bridges: Vec<Edit<BridgeSettings>>,
    pub(crate) ports: Vec<Edit<PortSettings>>,
    pub(crate) bonds: Vec<Edit<BondSettings>>,
    /// With the bridge of each.
    pub(crate) statics: Vec<Edit<(String, StaticEntry)>>,
    pub(crate) mirrors: Vec<Edit<MirrorSettings>>,
    /// Sections of which there may be several without a name, or one: their names, in both configurations.
    whole: Vec<(&'static str, Edit<Value>)>,
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    /// It is added.
    Add,
    /// It is removed.
    Remove,
    /// It is removed and added with its new settings: its peer connects again, and packets of the moment are lost.
    Replace,
    /// It changes its settings while it runs.
    Change,
}

impl Action {
    /// Name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Remove => "remove",
            Self::Replace => "replace",
            Self::Change => "change",
        }
    }
}

/// One difference, for people and programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Change {
    /// The section, such as `port "red"`.
    pub(crate) object: String,
    pub(crate) action: Action,
    /// Keys with different values; none of an object that is added or removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) keys: Vec<KeyChange>,
}

/// A key with different values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct KeyChange {
    pub(crate) key: String,
    /// Value before; null if it had the default.
    pub(crate) old: Value,
    /// Value after it; null if it has the default.
    pub(crate) new: Value,
}

impl Changes {
    /// What differs between `old` and `new`.
    pub(crate) fn between(old: &Topology, new: &Topology) -> Self {
        let bare = |bridge: &BridgeSettings| BridgeSettings { statics: Vec::new(), ..bridge.clone() };
        let bridges = |topology: &Topology| topology.bridges.iter().map(bare).collect::<Vec<_>>();
        Self {
            bridges: edits(&bridges(old), &bridges(new), |bridge| bridge.name.clone()),
            ports: edits(&own_ports(old), &own_ports(new), |port| port.name.clone()),
            bonds: edits(&old.bonds, &new.bonds, |bond| bond.name.clone()),
            statics: edits(&statics(old), &statics(new), |(bridge, entry)| {
                (bridge.clone(), entry.mac, entry.vlan)
            }),
            mirrors: edits(&old.mirrors, &new.mirrors, |mirror| mirror.name.clone()),
            whole: whole_sections(old, new),
        }
    }

    /// Whether nothing differs.
    pub(crate) fn is_empty(&self) -> bool {
        self.report().is_empty()
    }

    /// Whether the section or sections `name` differ.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.whole.iter().any(|(own, _)| *own == name)
    }

    /// All differences, by section.
    pub(crate) fn report(&self) -> Vec<Change> {
        let bridges = self.bridges.iter().map(|edit| edit.change("bridge", Action::Change));
        let ports = self.ports.iter().map(|edit| edit.change("port", Action::Replace));
        let bonds = self.bonds.iter().map(|edit| edit.change("bond", edit.action_of_bond()));
        let statics = self.statics.iter().map(|edit| {
            let (_, entry) = edit.any();
            let vlan = if entry.vlan == 0 { String::new() } else { format!(", VLAN {}", entry.vlan) };
            edit.with_object(format!("static entry {}{vlan}", entry.mac), Action::Replace)
        });
        let mirrors = self.mirrors.iter().map(|edit| edit.change("mirror", Action::Change));
        let whole =
            self.whole.iter().map(|(name, edit)| edit.with_object(format!("[{name}]"), Action::Change));
        bridges.chain(ports).chain(bonds).chain(statics).chain(mirrors).chain(whole).collect()
    }

    /// Sections that a running switch cannot change, each with the reason.
    pub(crate) fn fixed(&self) -> Vec<(String, &'static str)> {
        let mut fixed = Vec::new();
        for edit in &self.bridges {
            let place = || format!("bridge \"{}\"", edit.any().name);
            match (&edit.old, &edit.new) {
                (Some(old), Some(new)) if !may_become(old, new) => fixed.push((
                    place(),
                    "only `ageing`, `mac_moves`, `max_macs_per_port` and `forward_reserved` change while it runs",
                )),
                (Some(_), Some(_)) => {}
                _ if !is_plain(edit.any()) => fixed.push((
                    place(),
                    "bridges with flow tables, a spanning tree, multicast snooping or export are those of the start",
                )),
                _ => {}
            }
        }
        for (name, edit) in &self.whole {
            match *name {
                "conntrack" | "flow" | "acl" => {}
                "worker" if !has_stages(edit.any()) => {}
                "worker" => fixed.push(("[worker]".into(), "stages change by `linerate workers` only")),
                "model" => fixed.push(("[worker]".into(), "the execution model is that of the start")),
                _ => fixed.push((format!("[{name}]"), "this section is that of the start")),
            }
        }
        fixed
    }
}

/// Whether these workers are stages of a pipeline.
fn has_stages(workers: &Value) -> bool {
    let has_roles = |worker: &Value| {
        worker["roles"].as_object().is_some_and(|roles| roles.values().any(|has| *has == true))
    };
    workers.as_array().is_some_and(|workers| workers.iter().any(has_roles))
}

/// Whether a bridge that runs can have these settings.
fn may_become(old: &BridgeSettings, new: &BridgeSettings) -> bool {
    let BridgeSettings { ageing, max_macs_per_port, forward_reserved, mac_moves, .. } = *new;
    let changed = BridgeSettings { ageing, max_macs_per_port, forward_reserved, mac_moves, ..old.clone() };
    changed == *new
}

/// Whether a bridge consists of its table only, so that it may come and go.
fn is_plain(bridge: &BridgeSettings) -> bool {
    let named = BridgeSettings::named(&bridge.name);
    let has_threads = bridge.stp.is_some() || bridge.multicast.is_some() || bridge.export != named.export;
    bridge.pipeline == PipelineKind::Learning && !has_threads
}

/// The ports that are sections of a file.
pub(crate) fn own_ports(topology: &Topology) -> Vec<PortSettings> {
    let is_own = |port: &&PortSettings| !matches!(port.kind, PortKind::Granted(_));
    topology.ports.iter().filter(is_own).cloned().collect()
}

fn statics(topology: &Topology) -> Vec<(String, StaticEntry)> {
    let of = |bridge: &BridgeSettings| {
        let name = bridge.name.clone();
        bridge.statics.clone().into_iter().map(move |entry| (name.clone(), entry))
    };
    topology.bridges.iter().flat_map(of).collect()
}

/// Sections that are compared as a whole.
fn whole_sections(old: &Topology, new: &Topology) -> Vec<(&'static str, Edit<Value>)> {
    let sections = |topology: &Topology| {
        let mut workers: Vec<_> = topology.workers.iter().collect();
        if topology.model.model == ModelKind::Pipeline {
            // The order of a file is that of its lists; stages that were added follow the others.
            workers.sort_by_key(|worker| worker.cpu);
        }
        [
            ("switch", json(&topology.switch)),
            ("worker", json(&workers)),
            ("model", json(&topology.model)),
            ("placement", json(&topology.placement)),
            ("grant", json(&topology.grants)),
            ("flow", json(&topology.flows.flows)),
            ("acl", json(&topology.flows.acl)),
            ("underlay", json(&topology.underlays)),
            ("conntrack", json(&topology.conntrack)),
        ]
    };
    let pairs = sections(old).into_iter().zip(sections(new)).filter(|(old, new)| old != new);
    pairs.map(|((name, old), (_, new))| (name, Edit { old: Some(old), new: Some(new) })).collect()
}

/// Settings of this crate always have a JSON form.
fn json(settings: &impl Serialize) -> Value {
    serde_json::to_value(settings).unwrap_or_default()
}

/// The objects that differ: those of `old` first, in its order, then those that `new` adds.
fn edits<T: Clone + PartialEq, K: Ord>(old: &[T], new: &[T], key: impl Fn(&T) -> K) -> Vec<Edit<T>> {
    let mut wanted: BTreeMap<K, &T> = new.iter().map(|object| (key(object), object)).collect();
    let known = old.iter().map(|object| (object, wanted.remove(&key(object))));
    let mut edits: Vec<_> = known
        .filter(|(old, new)| Some(*old) != *new)
        .map(|(old, new)| Edit { old: Some(old.clone()), new: new.cloned() })
        .collect();
    let added = new.iter().filter(|object| wanted.contains_key(&key(object)));
    edits.extend(added.map(|object| Edit { old: None, new: Some(object.clone()) }));
    edits
}

impl<T: Serialize> Edit<T> {
    /// The object in either configuration.
    pub(crate) fn any(&self) -> &T {
        let either = self.new.as_ref().or(self.old.as_ref());
        either.unwrap_or_else(|| unreachable!("an edit has an object"))
    }

    fn with_object(&self, object: String, changed: Action) -> Change {
        let (action, keys) = match (&self.old, &self.new) {
            (None, _) => (Action::Add, Vec::new()),
            (_, None) => (Action::Remove, Vec::new()),
            (Some(old), Some(new)) => (changed, key_changes(&json(old), &json(new))),
        };
        Change { object, action, keys }
    }

    /// The change of an object with a name.
    fn change(&self, noun: &str, changed: Action) -> Change {
        let name = json(self.any()).get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.with_object(format!("{noun} \"{name}\""), changed)
    }
}

impl Edit<BondSettings> {
    /// VLANs, limits, security and protocols of a bond are those of its start.
    pub(crate) fn action_of_bond(&self) -> Action {
        match (&self.old, &self.new) {
            (Some(old), Some(new))
                if old.bridge != new.bridge || old.policy != new.policy || old.links != new.links =>
            {
                Action::Replace
            }
            _ => Action::Change,
        }
    }
}

/// Keys of two tables with different values. Other values have no keys.
pub(crate) fn key_changes(old: &Value, new: &Value) -> Vec<KeyChange> {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return Vec::new() };
    let value = |table: &Map<String, Value>, key: &String| table.get(key).cloned().unwrap_or_default();
    let mut keys: Vec<&String> = old.keys().chain(new.keys().filter(|key| !old.contains_key(*key))).collect();
    keys.retain(|key| value(old, key) != value(new, key));
    keys.into_iter()
        .map(|key| KeyChange { key: key.clone(), old: value(old, key), new: value(new, key) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::settings::config;

    const BASE: &str = "[[bridge]]\nname = \"main\"\n[[port]]\nname = \"a\"\nkind = \"null\"\n\
        [[port]]\nname = \"b\"\nkind = \"null\"\nvlan = 5\n";

    fn read(text: &str) -> Topology {
        config::parse(text, &Host::of(&[0], &[0]), None).unwrap_or_else(|e| panic!("{e:?} in\n{text}"))
    }

    fn report(old: &str, new: &str) -> Vec<(String, &'static str, Vec<String>)> {
        let changes = Changes::between(&read(old), &read(new)).report();
        let keys = |change: &Change| change.keys.iter().map(|key| key.key.clone()).collect();
        changes.iter().map(|change| (change.object.clone(), change.action.name(), keys(change))).collect()
    }

    #[test]
    fn equal_files_in_another_order_have_no_changes() {
        let (first, ports) = BASE.split_once("[[port]]").unwrap();
        let (a, b) = ports.rsplit_once("[[port]]").unwrap();
        assert_eq!(report(BASE, &format!("{first}[[port]]{b}[[port]]{a}")), []);
    }

    #[test]
    fn each_object_that_differs_is_a_change() {
        let new = "[switch]\nname = \"other\"\n[[bridge]]\nname = \"main\"\n[[bridge.static]]\n\
            mac = \"02:00:00:00:00:01\"\nport = \"b\"\n[[port]]\nname = \"b\"\nkind = \"null\"\nvlan = 6\n\
            [[port]]\nname = \"c\"\nkind = \"null\"\n";
        let expected = [
            ("port \"a\"", "remove", vec![]),
            ("port \"b\"", "replace", vec!["vlan"]),
            ("port \"c\"", "add", vec![]),
            ("static entry 02:00:00:00:00:01", "add", vec![]),
            ("[switch]", "change", vec!["name"]),
        ];
        let expected = expected.map(|(object, action, keys)| {
            (object.to_owned(), action, keys.iter().map(|key: &&str| (*key).to_owned()).collect())
        });
        assert_eq!(report(BASE, new), expected);
        let fixed = Changes::between(&read(BASE), &read(new)).fixed();
        assert_eq!(fixed, [("[switch]".to_owned(), "this section is that of the start")]);
    }

    #[test]
    fn bridges_with_protocols_are_those_of_the_start() {
        let fixed = |text: &str| Changes::between(&read(BASE), &read(&format!("{BASE}{text}"))).fixed().len();
        let named = |base: &str| base.replace("kind = \"null\"", "kind = \"null\"\nbridge = \"main\"");
        let with = |keys: &str| {
            let text = format!("{}[[bridge]]\nname = \"second\"\n{keys}", named(BASE));
            Changes::between(&read(&named(BASE)), &read(&text)).fixed().len()
        };
        assert_eq!((with(""), with("ageing = \"20s\"\n")), (0, 0));
        assert_eq!((with("stp = \"rstp\"\n"), with("pipeline = \"openflow\"\n")), (1, 1));
        let main = |keys: &str| {
            let new = BASE.replace("name = \"main\"\n", &format!("name = \"main\"\n{keys}"));
            Changes::between(&read(BASE), &read(&new)).fixed().len()
        };
        let running =
            "ageing = \"20s\"\nmac_moves = \"free\"\nmax_macs_per_port = 7\nforward_reserved = true\n";
        assert_eq!((main(running), main("table = 1024\n"), main("dhcp_snooping = true\n")), (0, 1, 1));
        assert_eq!(fixed("[[mirror]]\nname = \"m\"\nall = true\noutput_port = \"b\"\n"), 0);
    }
}
