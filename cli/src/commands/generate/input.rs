//! Reads and validates streams and ports from options and a file, before anything is opened.

use crate::args::generator::{GenArgs, StreamArgs};
use crate::commands::verbs::read_value;
use crate::host;
use crate::remedy;
use crate::settings::config;
use crate::settings::topology::{BridgeSettings, PortSettings, SwitchSettings, Topology};
use console::Diagnostic;
use generator::{Description, StreamError};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;

/// Keys of a port that are valid for a switch only.
const OF_A_SWITCH: [&str; 10] = [
    "bridge",
    "vlan",
    "broadcast_limit",
    "unknown_limit",
    "trusted",
    "macs",
    "learn",
    "max_macs",
    "sources",
    "rss_mode",
];
/// Bridge of each port: the two ends of a pair must not be on one bridge.
const ENDS: [&str; 2] = ["send", "receive"];

/// Remedy of a key that a stream does not have.
pub(crate) const KEYS_OF_A_STREAM: &str = "write a key of a [[stream]] section and its value";

/// Streams and ports of a file.
#[derive(Default)]
struct File {
    streams: Vec<Description>,
    ports: Vec<Map<String, Value>>,
}

/// The tables of a file with streams and ports.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    stream: Vec<BTreeMap<Spanned<String>, Value>>,
    #[serde(default)]
    port: Vec<Map<String, Value>>,
}

/// Validated input of a run.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) streams: Vec<Description>,
    /// The transmitting port, and the receiving port if different.
    pub(super) ports: Vec<PortSettings>,
}

/// Reads and validates the input. Opens captures, but no ports.
pub(super) fn read(args: &GenArgs) -> anyhow::Result<Input> {
    let File { streams: of_file, ports: listed } =
        args.file.as_deref().map(file).transpose()?.unwrap_or_default();
    let streams = streams(args, of_file)?;
    let place =
        args.file.as_ref().map_or_else(|| "the command line".to_owned(), |path| path.display().to_string());
    for (i, stream) in streams.iter().enumerate() {
        stream.plan().map_err(|error| wrong_stream(&place, i, stream, &error))?;
    }
    distinct(&streams, &place)?;
    let ports = ports(args, listed)?;
    both_ways(&ports)?;
    Ok(Input { streams, ports })
}

/// Reads the streams and ports of a file.
fn file(path: &Path) -> Result<File, Diagnostic> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| {
        Diagnostic::bad(
            &shown,
            format!("cannot be read: {e}"),
            "name a file that exists and that you may read",
        )
    })?;
    let usual = "correct this line; `linerate gen --help` lists all keys of a stream";
    let line = |at: usize| format!("{shown}:{}", text[..at.min(text.len())].split('\n').count());
    let tables: Tables = toml::from_str(&text).map_err(|error| {
        let place = error.span().map_or_else(|| shown.clone(), |span| line(span.start));
        Diagnostic::bad(place, error.message(), usual)
    })?;
    let stream = |keys: BTreeMap<Spanned<String>, Value>| {
        let mut stream = Description::default();
        let mut keys: Vec<_> = keys.into_iter().collect();
        keys.sort_unstable_by_key(|(key, _)| key.span().start);
        for (key, value) in keys {
            let set = stream.set(key.get_ref(), value);
            set.map_err(|error| remedy::invalid(line(key.span().start), &error, usual))?;
        }
        Ok(stream)
    };
    let streams = tables.stream.into_iter().map(stream).collect::<Result<_, _>>()?;
    Ok(File { streams, ports: tables.port })
}

/// The streams of the file, or the one given by options.
fn streams(args: &GenArgs, of_file: Vec<Description>) -> Result<Vec<Description>, Diagnostic> {
    match (of_file.is_empty(), args.stream == StreamArgs::default()) {
        (true, _) => Ok(vec![by_flags(&args.stream)?]),
        (false, true) => Ok(of_file),
        (false, false) => {
            let reason = "flags describe a stream, and the file has streams as well";
            Err(Diagnostic::bad("the command line", reason, "remove one of the two"))
        }
    }
}

/// Applies `--set` to `stream`.
pub(crate) fn apply(set: &[(String, String)], stream: &mut Description) -> Result<(), Diagnostic> {
    for (n, (key, value)) in set.iter().enumerate() {
        let place = format!("--set {key}={value}");
        if set[..n].iter().any(|(other, _)| other == key) {
            return Err(Diagnostic::bad(place, format!("`{key}` is given twice"), "give it once"));
        }
        stream
            .set(key, read_value(value))
            .map_err(|error| remedy::invalid(place, &error, KEYS_OF_A_STREAM))?;
    }
    Ok(())
}

fn by_flags(args: &StreamArgs) -> Result<Description, Diagnostic> {
    let mut stream = Description::default();
    apply(&args.set, &mut stream)?;
    let of = &args;
    if let Some(flag) = of.pcap.as_ref().and(of_frames(of)) {
        let reason = "frames of a capture are sent unchanged";
        return Err(Diagnostic::bad(
            format!("--pcap with {flag}"),
            reason,
            format!("leave out {flag} or --pcap"),
        ));
    }
    set(&mut stream.size, of.size.as_ref());
    set(&mut stream.flows, of.flows.as_ref());
    set(&mut stream.source_mac, of.source_mac.as_ref());
    set(&mut stream.destination_mac, of.destination_mac.as_ref());
    set(&mut stream.source, of.source.as_ref());
    set(&mut stream.destination, of.destination.as_ref());
    set(&mut stream.transport, of.transport.as_ref());
    if let Some(path) = &of.pcap {
        stream.pcap = Some(path.clone());
    }
    if !of.vlan.is_empty() {
        stream.vlan.clone_from(&of.vlan);
    }
    Ok(stream)
}

/// The first given option that describes frames.
fn of_frames(args: &StreamArgs) -> Option<&'static str> {
    let flags = [
        ("--size", args.size.is_some()),
        ("--flows", args.flows.is_some()),
        ("--source-mac", args.source_mac.is_some()),
        ("--destination-mac", args.destination_mac.is_some()),
        ("--source", args.source.is_some()),
        ("--destination", args.destination.is_some()),
        ("--transport", args.transport.is_some()),
        ("--vlan", !args.vlan.is_empty()),
    ];
    flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
}

fn set<T: Clone>(field: &mut T, given: Option<&T>) {
    if let Some(given) = given {
        field.clone_from(given);
    }
}

/// Converts a stream error, which contains field and reason.
pub(crate) fn wrong_stream(place: &str, i: usize, stream: &Description, error: &StreamError) -> Diagnostic {
    let name = if stream.name.is_empty() { i.to_string() } else { format!("\"{}\"", stream.name) };
    remedy::invalid(format!("{place}, stream {name}"), error, "correct the stream")
}

/// Checks that results can be distinguished by stream names, or by index for unnamed streams.
fn distinct(streams: &[Description], place: &str) -> Result<(), Diagnostic> {
    let name = |i: usize| match streams[i].name.as_str() {
        "" => i.to_string(),
        name => name.to_owned(),
    };
    let twice = (0..streams.len()).find_map(|i| (0..i).find(|j| name(*j) == name(i)).map(|j| (j, i)));
    twice.map_or(Ok(()), |(first, second)| {
        let reason = format!("streams {first} and {second} are both called \"{}\"", name(second));
        Err(Diagnostic::bad(
            place,
            reason,
            "give each a `name` of its own; a stream without one is called by its number",
        ))
    })
}

/// Checks that ports can send and receive, before waiting for them.
fn both_ways(ports: &[PortSettings]) -> Result<(), Diagnostic> {
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    let wrong = |(end, port): (&str, &PortSettings)| {
        let (reason, remedy) = port.kind.one_way(&names)?;
        Some(Diagnostic::bad(format!("the {end} port"), reason, remedy))
    };
    ENDS.into_iter().zip(ports).find_map(wrong).map_or(Ok(()), Err)
}

/// The ports given by options, or those of the file.
fn ports(args: &GenArgs, of_file: Vec<Map<String, Value>>) -> anyhow::Result<Vec<PortSettings>> {
    let of_flags = args.ports.iter().map(|port| keys(port)).collect::<Result<Vec<_>, _>>()?;
    let given = if of_flags.is_empty() { of_file } else { of_flags };
    if !(1..=2).contains(&given.len()) {
        let reason = format!("there are {} ports, and a generator has one or two", given.len());
        let remedy = "add --port kind=...,... or a [[port]] section for each";
        return Err(Diagnostic::bad("the ports", reason, remedy).into());
    }
    validated_ports(given)
}

/// Validates the ports of a generator: the transmitting port, and the receiving port if different.
pub(crate) fn validated_ports(given: Vec<Map<String, Value>>) -> anyhow::Result<Vec<PortSettings>> {
    validated_ends(given, &ENDS)
}

/// Validates the ports of a program outside of a switch. `ends` are their roles, for errors and default names.
pub(crate) fn validated_ends(
    given: Vec<Map<String, Value>>,
    ends: &[&str],
) -> anyhow::Result<Vec<PortSettings>> {
    let mut topology = Topology {
        switch: SwitchSettings::default(),
        model: crate::settings::model::ModelSettings::default(),
        workers: Vec::new(),
        placement: None,
        bonds: Vec::new(),
        grants: Vec::new(),
        flows: crate::settings::flows::FileFlows::default(),
        mirrors: Vec::new(),
        underlays: Vec::new(),
        conntrack: crate::settings::conntrack::ConntrackSettings::default(),
        bridges: ends.iter().map(|end| BridgeSettings::named(end)).collect(),
        ports: Vec::new(),
    };
    for (&end, mut section) in ends.iter().zip(given) {
        if let Some(key) = OF_A_SWITCH.iter().find(|key| section.contains_key(**key)) {
            let reason = format!("`{key}` is not supported for a port outside of a switch");
            return Err(Diagnostic::bad(format!("the {end} port"), reason, "remove it").into());
        }
        section.insert("bridge".to_owned(), end.into());
        section.entry("name").or_insert_with(|| end.into());
        let port = config::requests::new_port(&section.into(), &topology, &host::default_control())
            .map_err(|(_, error)| error)?;
        topology.ports.push(port);
    }
    Ok(topology.ports)
}

/// Parses `kind=tap,interface=a`. Commas within brackets, braces and quotes belong to the value.
pub(crate) fn keys(text: &str) -> Result<Map<String, Value>, Diagnostic> {
    let place = || format!("--port {text}");
    let mut keys = Map::new();
    for part in split(text) {
        let (key, value) = part.split_once('=').ok_or_else(|| {
            let reason = format!("`{part}` has no `=`");
            Diagnostic::bad(place(), reason, "write keys and values such as kind=tap,interface=a")
        })?;
        if keys.insert(key.trim().to_owned(), read_value(value)).is_some() {
            return Err(Diagnostic::bad(place(), format!("`{key}` is given twice"), "give it once"));
        }
    }
    Ok(keys)
}

fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut from, mut parts) = (0_u32, false, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth = depth.saturating_sub(1),
            ',' if !quoted && depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}
