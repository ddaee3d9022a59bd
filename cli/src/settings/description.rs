//! Description of the configuration file: the definition of each key, with the types that the reader records when it
//! reads it.

use super::config;
use super::keys;
use super::kinds;
use super::reader::key::Key;
use super::reader::notes::Section as Place;
use super::reader::shape::{Recorded, Shape};
use std::collections::HashMap;
use std::sync::LazyLock;

/// One section, or the keys of one kind of port.
pub(crate) struct Section {
    /// The section's line in a file.
    pub(crate) title: &'static str,
    /// The kind of port; `None` for keys of the whole section.
    pub(crate) kind: Option<&'static str>,
    /// Purpose of the section.
    pub(crate) about: &'static str,
    pub(crate) keys: Vec<TypedKey>,
}

/// A key with its types.
pub(crate) struct TypedKey {
    pub(crate) key: &'static Key,
    pub(crate) shapes: Vec<Shape>,
}

/// All keys, in every kind of port: tables are empty, and keys with several types have each of them.
const SAMPLE: &str = "[switch]\napi = {}\n[[worker]]\n[placement]\nstages = {}\n\
    [[bridge]]\npipeline = \"openflow\"\ntls = {}\nsflow = {}\nipfix = {}\nmulticast_snooping = {}\n[[bridge.static]]\n\
    [[port]]\nkind = \"KIND\"\nvlan = {}\ncapture = {}\ntrace = {}\nfault = {}\npolicer = {}\nqueues = {}\ntx_coalesce = {}\npace = 1\nrepeat = 1\n\
    [[port]]\nkind = \"KIND\"\npace = \"fast\"\nrepeat = \"forever\"\n[[grant]]\nvlan = {}\n[[bond]]\nvlan = {}\n[[flow]]\n[[acl]]\n[[mirror]]\n[[underlay]]\n\
    [conntrack]\ntimeouts = {}\n";
/// All keys of `[worker]`.
const MODELS: [&str; 2] = ["[worker]\nmodel = \"pipeline\"\n", "[worker]\nrss_mode = \"software\"\n"];

type Title = (&'static str, &'static str, &'static [&'static [Key]], fn(Place) -> bool);
const TITLES: [Title; 14] = [
    ("[switch]", "The switch itself.", &[keys::SWITCH], |place| place == Place::Switch),
    (
        "[[worker]]",
        "One thread that forwards packets, to completion. Without such a section there is one.",
        &[keys::WORKER],
        |place| matches!(place, Place::Worker(_)),
    ),
    (
        "[worker]",
        "The execution model and the CPUs of all workers, in place of `[[worker]]`.",
        &[keys::WORKERS],
        |place| place == Place::Workers,
    ),
    (
        "[placement]",
        "CPUs of the workers that have none, and workers of the receive queues.",
        &[keys::PLACEMENT],
        |place| place == Place::Placement,
    ),
    (
        "[[bridge]]",
        "One bridge. Without such a section there is one, named `main`.",
        &[keys::BRIDGE],
        |place| matches!(place, Place::Bridge(_)),
    ),
    ("[[bridge.static]]", "One static entry of the preceding bridge.", &[keys::STATIC], |place| {
        matches!(place, Place::Static(..))
    }),
    (
        "[[grant]]",
        "Ports that applications of some users request at the socket `grants` of `[switch]`.",
        &[keys::GRANT, keys::POLICY],
        |place| matches!(place, Place::Grant(_)),
    ),
    (
        "[[bond]]",
        "Several ports as one port of a bridge (link aggregation).",
        &[keys::BOND, keys::POLICY, keys::TREE, keys::MEMBERSHIP],
        |place| matches!(place, Place::Bond(_)),
    ),
    (
        "[[flow]]",
        "Flows of an OpenFlow bridge, which are added before its first packet.",
        &[keys::FLOW],
        |place| matches!(place, Place::Flow(_) | Place::FlowText(..)),
    ),
    (
        "[[acl]]",
        "One rule of the access list of an OpenFlow bridge, in the order of the file: the first rule that a packet \
         matches decides.",
        &[keys::ACL],
        |place| matches!(place, Place::Acl(_)),
    ),
    ("[[mirror]]", "Copies of selected packets for a port or for a VLAN.", &[keys::MIRROR], |place| {
        matches!(place, Place::Mirror(_))
    }),
    (
        "[[underlay]]",
        "Addresses of an OpenFlow bridge itself, at which tunnels end.",
        &[keys::UNDERLAY],
        |place| matches!(place, Place::Underlay(_)),
    ),
    (
        "[conntrack]",
        "Limits and timeouts of the connections that OpenFlow bridges track.",
        &[keys::CONNTRACK],
        |place| place == Place::Conntrack,
    ),
    (
        "[[port]]",
        "One port.",
        &[keys::PORT, keys::TREE, keys::MEMBERSHIP, keys::POLICY, keys::WRAPPERS],
        is_port,
    ),
];

fn is_port(place: Place) -> bool {
    matches!(place, Place::Port(_))
}

/// All sections in the order of the reference; the kinds of ports are last.
pub(crate) fn sections() -> &'static [Section] {
    // Schemas of the control API ask for them many times.
    static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(describe);
    &SECTIONS
}

fn describe() -> Vec<Section> {
    let by_kind: Vec<_> =
        kinds::keys().map(|kind| (kind, config::record(&SAMPLE.replace("KIND", kind.0)))).collect();
    let models: Vec<_> = MODELS.iter().flat_map(|text| config::record(text)).collect();
    let all = by_path(by_kind.iter().flat_map(|(_, recorded)| recorded).chain(&models));
    let whole = TITLES.iter().map(|(title, about, keys, is_here)| {
        let keys = typed(keys.iter().copied().flatten(), &all, *is_here);
        Section { title, kind: None, about, keys }
    });
    let own = by_kind.iter().map(|((name, about, keys), recorded)| {
        let keys = typed(keys.iter(), &by_path(recorded), is_port);
        Section { title: "[[port]]", kind: Some(name), about, keys }
    });
    whole.chain(own).collect()
}

/// Recorded reads by the path of the key.
type ByPath<'a> = HashMap<&'a str, Vec<&'a Recorded>>;

fn by_path<'a>(recorded: impl IntoIterator<Item = &'a Recorded>) -> ByPath<'a> {
    let mut by_path = ByPath::new();
    recorded.into_iter().for_each(|read| by_path.entry(&read.path).or_default().push(read));
    by_path
}

fn typed(
    keys: impl Iterator<Item = &'static Key>,
    recorded: &ByPath<'_>,
    is_here: fn(Place) -> bool,
) -> Vec<TypedKey> {
    let shapes = |key: &Key| {
        let mut shapes: Vec<Shape> = Vec::new();
        let here = recorded.get(key.name).into_iter().flatten().filter(|read| is_here(read.section));
        for shape in here.filter_map(|read| read.shape.clone()) {
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
        shapes
    };
    keys.map(|key| TypedKey { key, shapes: shapes(key) }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::reader::key::DefaultValue;
    use super::*;
    use crate::host::Host;

    #[test]
    fn every_key_that_the_reader_reads_is_defined_and_every_definition_is_read() {
        for ((kind, _, own), text) in kinds::keys().map(|kind| (kind, SAMPLE.replace("KIND", kind.0))) {
            for read in
                config::record(&text).into_iter().chain(MODELS.iter().flat_map(|text| config::record(text)))
            {
                let title = TITLES.iter().find(|(.., is_here)| is_here(read.section));
                let Some((_, _, keys, _)) = title else { continue };
                let own = if is_port(read.section) { own } else { &[] };
                let is_defined = keys.iter().copied().flatten().chain(own).any(|key| key.name == read.path);
                let is_section = matches!(read.section, Place::Bridge(_)) && read.path == "static";
                assert!(is_defined || is_section, "`{}` of {:?}, kind {kind}", read.path, read.section);
            }
        }
        for section in sections() {
            for TypedKey { key, shapes } in &section.keys {
                assert!(
                    !shapes.is_empty(),
                    "`{}` of {} {:?} is not read",
                    key.name,
                    section.title,
                    section.kind
                );
                assert!(key.about.ends_with('.'), "the description of `{}` is not a sentence", key.name);
            }
        }
    }

    /// A file with one line in one section, and all that the line needs.
    fn file(section: &Section, line: &str) -> String {
        let port = "[[port]]\nname = \"a\"\nkind = \"null\"\nbridge = \"main\"\n";
        let bridge = "[[bridge]]\nname = \"main\"\n";
        let (table, line) = match line.split_once('.').filter(|(table, _)| !table.contains(' ')) {
            Some((table, inner)) => (format!("{table} = {{ "), format!("{inner} }}")),
            None => (String::new(), line.to_owned()),
        };
        let needed = match table.as_str() {
            "vlan = { " => "trunk = [1], ",
            "sflow = { " | "ipfix = { " => "collectors = [\"192.0.2.9\"], ",
            "capture = { " | "trace = { " => "file = \"/tmp/lr-none.file\", ",
            "fault = { " if !line.starts_with("corrupt") => "corrupt = 1, ",
            "fault = { " => "drop = 1, ",
            "policer = { " => "cir = \"1Mbit/s\", ",
            "queues = { " => "rate = \"1Mbit/s\", classes = [\"0 rate=1Mbit/s\"], ",
            _ => "",
        };
        let line = format!("{table}{needed}{line}\n");
        match section.title {
            "[worker]" if line.starts_with("rss_mode") => format!("[worker]\n{line}"),
            "[worker]" if line.starts_with("model") => format!("[worker]\n{line}"),
            "[worker]" => format!("[worker]\nmodel = \"pipeline\"\nrx = [0]\nwork = [0]\ntx = [0]\n{line}"),
            "[placement]" if line.starts_with("stages") => {
                format!("[worker]\nmodel = \"pipeline\"\n[placement]\n{line}")
            }
            "[[bridge]]" if line.starts_with("pipeline") || line.starts_with("multicast") => {
                format!("{bridge}{line}{port}")
            }
            "[[bridge]]" => format!("{bridge}pipeline = \"openflow\"\n{line}{port}"),
            "[[bridge.static]]" => {
                format!("{port}{bridge}[[bridge.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"a\"\n{line}")
            }
            "[[port]]" => format!("{bridge}{port}{line}"),
            "[[bond]]" => format!("{bridge}{port}[[bond]]\nname = \"b\"\nports = [\"a\"]\n{line}"),
            "[[underlay]]" => format!(
                "{bridge}pipeline = \"openflow\"\n[[underlay]]\naddresses = [\"192.0.2.1/24\"]\n{line}"
            ),
            "[conntrack]" => format!("{bridge}pipeline = \"openflow\"\n[conntrack]\n{line}"),
            "[[grant]]" => {
                format!("[switch]\ngrants = \"/tmp/lr-none.grants\"\n[[grant]]\n{line}{bridge}")
            }
            "[[mirror]]" => {
                let keys = "name = \"m\"\nsource_ports = [\"a\"]\noutput_vlan = 1\n";
                format!("[[mirror]]\n{keys}{line}{port}{bridge}")
            }
            title => format!("{title}\n{line}{bridge}"),
        }
    }

    /// Compares files with and without the default.
    #[test]
    fn a_default_is_the_value_of_an_absent_key() {
        let host = Host::of(&[0], &[0]);
        let read =
            |text: &str| config::parse(text, &host, None).unwrap_or_else(|e| panic!("{e:?} in\n{text}"));
        for section in sections().iter().filter(|section| section.kind.is_none()) {
            for key in section.keys.iter().map(|typed| typed.key).filter(|key| key.name != "kind") {
                let DefaultValue::Toml(value) = key.default else { continue };
                let with = file(section, &format!("{} = {value}", key.name));
                let without = match key.name.split_once('.') {
                    Some((table, _)) => with
                        .replace(&format!("{} = {value}", &key.name[table.len() + 1..]), "")
                        .replace(",  }", " }"),
                    None => with.replace(&format!("{} = {value}\n", key.name), ""),
                };
                assert_ne!(with, without);
                assert_eq!(read(&with), read(&without), "{with}");
            }
        }
    }
}
