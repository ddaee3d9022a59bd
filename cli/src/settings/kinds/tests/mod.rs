//! Tests that apply to every kind of port.

mod pcap;
mod stream;

use super::FORMS;
use crate::host::Host;
use crate::settings::config;
use crate::settings::reader::key::DefaultValue;
use crate::settings::section;
use crate::settings::topology::PortSettings;
use std::collections::BTreeSet;

fn host() -> Host {
    Host::of(&[0], &[0])
}

/// Configuration with a port of this kind with these lines, and the peer that it needs.
fn file(kind: &str, lines: &str) -> String {
    let text = format!("[[port]]\nname = \"a\"\nkind = \"{kind}\"\nbridge = \"main\"\n{lines}\n");
    text + around(kind)
}

/// Other sections that a port of this kind needs.
fn around(kind: &str) -> &'static str {
    match kind {
        "patch" => PEER,
        "tunnel" => UNDERLAY,
        _ => "",
    }
}

/// Bridge of a tunnel.
const UNDERLAY: &str = "[[bridge]]\nname = \"main\"\npipeline = \"openflow\"\n\
    [[underlay]]\naddresses = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n";

/// Peer of a patch port.
const PEER: &str = "[[port]]\nname = \"other\"\nkind = \"patch\"\npeer = \"a\"\nbridge = \"second\"\n\
    [[bridge]]\nname = \"main\"\n[[bridge]]\nname = \"second\"\n";

/// A port of this kind with these lines.
#[track_caller]
fn port(kind: &str, lines: &str) -> PortSettings {
    let text = file(kind, lines);
    config::parse(&text, &host(), None).unwrap_or_else(|e| panic!("{e:?} in\n{text}")).ports.remove(0)
}

/// Common keys that every port accepts.
const COMMON: [&str; 7] = [
    "",
    "capture = \"/tmp/lr-none.c\"\ntrace = { file = \"/tmp/lr-none.t\", direction = \"in\", overwrite = true }",
    "capture = { file = \"/tmp/lr-none.c\", snap = 128 }\nfault = { seed = 7, drop = 0.25, corrupt = 1, \
     delay = [\"1ms\", \"1s 500ms\"], hold = 9, direction = \"out\" }",
    "broadcast_limit = 5\nmax_macs = 3\ntrusted = true",
    "policer = { kind = \"trtcm\", cir = \"1.5Mbit/s\", pir = \"2Mbit/s\", exceed = 12, color_aware = true }\nqueues = \
     { rate = \"1Gbit/s\", classes = [\"0 rate=1Mbit/s\", \"1 rate=1Mbit/s ceil=2Mbit/s parent=0\"], default = 1 }",
    "vlan = 10\nunknown_limit = 7\nlimit_burst = 1",
    "vlan = { trunk = [10, 20], native = 1 }\nmacs = [\"52:54:00:00:00:01\"]\nsources = [\"10.0.0.5\", \"fd00::/8\"]\nlearn = false",
];

/// Whether a port may have both. The kernel fast path excludes wrappers.
fn fits(lines: &str, common: &str) -> bool {
    let is_wrapper = common.contains("capture") || common.contains("policer");
    !(lines.contains("kernel_fast_path") && is_wrapper)
}

#[test]
fn a_printed_section_is_the_port_that_it_was_made_of() {
    for form in FORMS {
        assert!(!form.examples.is_empty(), "{} has no example", form.name);
        let cases = form.examples.iter().flat_map(|lines| COMMON.map(|common| (lines, common)));
        for (lines, common) in cases.filter(|(lines, common)| fits(lines, common)) {
            let before = port(form.name, &format!("{lines}\n{common}"));
            let printed = section::of("port", &before).unwrap();
            assert!(printed.starts_with("[[port]]\n"), "{printed}");
            let around = around(form.name);
            let read = config::parse(&format!("{printed}{around}"), &host(), None).unwrap().ports.remove(0);
            assert_eq!(read, before, "{printed}");
        }
    }
}

#[test]
fn a_port_survives_the_control_api_and_is_called_by_its_kind() {
    for form in FORMS {
        for lines in form.examples {
            let port = port(form.name, lines);
            let json = serde_json::to_value(&port).unwrap();
            assert_eq!(json["kind"], form.name);
            assert!(port.to_string().starts_with(&format!("port a: {}", form.name)), "{port}");
            assert_eq!(serde_json::from_value::<PortSettings>(json).unwrap(), port);
        }
    }
}

/// Compares `KEYS` with the serialized keys. A key that is read but not listed is not rejected on other kinds; a key
/// that is listed but not read is rejected as unknown.
#[test]
fn a_kinds_keys_are_those_that_it_writes() {
    for form in FORMS {
        let common: BTreeSet<&str> =
            ["name", "kind", "queue_pairs", "mtu", "bridge", "vlan"].into_iter().collect();
        let written: BTreeSet<String> =
            form.examples.iter().flat_map(|lines| keys(form.name, lines)).collect();
        let own: BTreeSet<&str> =
            written.iter().map(String::as_str).filter(|key| !common.contains(key)).collect();
        let listed: BTreeSet<&str> = form.keys.iter().map(|key| key.name).collect();
        assert_eq!(own, listed, "examples of {}", form.name);
    }
}

/// Every example with every set of common keys, in JSON.
pub(crate) fn serialized() -> Vec<(&'static str, serde_json::Value)> {
    let examples = FORMS.iter().flat_map(|form| form.examples.iter().map(move |lines| (form.name, lines)));
    let cases = examples.flat_map(|example| COMMON.map(|common| (example, common)));
    cases
        .filter(|((_, lines), common)| fits(lines, common))
        .map(|((kind, lines), common)| {
            (kind, serde_json::to_value(port(kind, &format!("{lines}\n{common}"))).unwrap())
        })
        .collect()
}

/// Compares files with and without the default, where an example lets the key be left out.
#[test]
fn a_default_of_a_kind_is_the_value_of_an_absent_key() {
    for form in FORMS {
        for key in form.keys {
            let DefaultValue::Toml(value) = key.default else { continue };
            let line = format!("{} = ", key.name);
            let read = |lines: &str| config::parse(&file(form.name, lines), &host(), None).ok();
            let without =
                form.examples.iter().filter(|lines| !lines.lines().any(|own| own.starts_with(&line)));
            let is_same = |lines: &&str| {
                read(&format!("{lines}\n{line}{value}")).is_some_and(|with| Some(with) == read(lines))
            };
            assert!(without.copied().any(|lines| is_same(&lines)), "{line}{value} of kind {}", form.name);
        }
    }
}

fn keys(kind: &str, lines: &str) -> Vec<String> {
    let json = serde_json::to_value(port(kind, lines)).unwrap();
    json.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn a_key_of_another_kind_is_answered_by_name() {
    let every: BTreeSet<&str> = FORMS.iter().flat_map(|form| form.keys).map(|key| key.name).collect();
    for form in FORMS {
        for key in every.iter().filter(|key| form.keys.iter().all(|own| own.name != **key)) {
            let lines = form.examples[0];
            let text = file(form.name, &format!("{lines}\n{key} = 1"));
            let errors = config::parse(&text, &host(), None).unwrap_err();
            let [only] = errors.as_slice() else { panic!("{errors:?}") };
            assert!(
                only.place == "port \"a\"" && only.reason.starts_with(&format!("`{key}` is ")),
                "{only:?}"
            );
            assert!(only.remedy.starts_with("remove it"), "{only:?}");
        }
    }
}
