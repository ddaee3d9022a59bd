//! The configuration: one TOML file becomes a [`Topology`], or every mistake in it is named at once.
//!
//! `node` is the tree of what was written, `fields` and `sections` read it, `judge` looks at the whole, `mistake`
//! collects. Requests to the control API pass the same rooms. Nothing here changes anything on this machine.

mod fields;
mod judge;
mod mistake;
mod node;
mod sections;
#[cfg(test)]
mod tests;

pub(crate) use mistake::{Mistake, Mistakes};

use crate::host::Host;
use crate::topology::{PortSettings, StaticEntry, Topology};
use mistake::{Notes, Section};
use node::{Lines, Node};
use std::path::Path;

/// Reads and judges a file.
pub(crate) fn read(path: &Path, host: &Host, control: Option<&Path>) -> Result<Topology, Mistakes> {
    let file = path.display().to_string();
    let whole = |error: String, remedy: &str| Mistakes {
        file: Some(file.clone()),
        mistakes: vec![Mistake { line: None, error, remedy: remedy.to_owned() }],
    };
    let bytes = std::fs::read(path).map_err(|e| {
        whole(format!("cannot be read: {e}"), "name a file that exists and that you may read")
    })?;
    let text =
        String::from_utf8(bytes).map_err(|_| whole("is not text (UTF-8)".to_owned(), "name a TOML file"))?;
    parse(&text, host, control).map_err(|mistakes| Mistakes { file: Some(file), mistakes })
}

/// Reads and judges the text of a file. `control` overrides the file's control socket.
pub(crate) fn parse(text: &str, host: &Host, control: Option<&Path>) -> Result<Topology, Vec<Mistake>> {
    let (root, errors) = toml::de::DeTable::parse_recoverable(text);
    let (lines, mut notes) = (Lines::of(text), Notes::default());
    let root = Node { line: Some(1), value: node::from_toml(root.get_ref(), &lines) };
    let mut topology = sections::topology(&root, &mut notes);
    if let Some(control) = control {
        topology.switch.control = Some(control.to_owned());
    }
    let control = topology.switch.control.clone().unwrap_or_else(crate::host::default_control);
    judge::topology(&topology, host, &control, &mut notes);
    let mistakes = with_syntax(notes.finish(), &errors, &lines);
    if mistakes.is_empty() { Ok(topology) } else { Err(mistakes) }
}

/// Adds the syntax errors. What else was found on their lines, or missed, is their consequence and not told.
fn with_syntax(mut mistakes: Vec<Mistake>, errors: &[toml::de::Error], lines: &Lines) -> Vec<Mistake> {
    let line = |error: &toml::de::Error| error.span().map(|span| lines.at(span.start));
    let broken: Vec<_> = errors.iter().map(line).collect();
    mistakes.retain(|mistake| !broken.contains(&mistake.line));
    mistakes.retain(|mistake| broken.is_empty() || !mistake.error.ends_with("is missing"));
    mistakes.extend(errors.iter().map(|error| Mistake {
        line: line(error),
        error: format!("syntax: {}", error.message()),
        remedy: "correct this line's TOML".to_owned(),
    }));
    mistakes.sort_by_key(|mistake| mistake.line);
    mistakes
}

/// Reads and judges a port that is to join `running`.
pub(crate) fn new_port(
    json: &serde_json::Value,
    running: &Topology,
    control: &Path,
) -> Result<PortSettings, Mistakes> {
    let (index, mut notes) = (running.ports.len(), Notes::default());
    let mut port = sections::read_port(&node::from_json(json), index, &mut notes);
    sections::join_only_bridge(&mut port, &running.bridges);
    let mut candidate = running.clone();
    candidate.ports.push(port.clone());
    judge::port(&candidate, index, control, &mut notes);
    finish(notes, port)
}

/// Reads and judges a static entry that is to join the bridge of its port.
pub(crate) fn new_static(json: &serde_json::Value, running: &Topology) -> Result<StaticEntry, Mistakes> {
    let (section, mut notes) = (Section::Static(0, 0), Notes::default());
    notes.call(section, "static entry".to_owned());
    let entry = sections::read_static(&node::from_json(json), section, &mut notes);
    judge::pinned(running, section, &entry, &mut notes);
    finish(notes, entry)
}

fn finish<T>(notes: Notes, value: T) -> Result<T, Mistakes> {
    let mistakes = notes.finish();
    if mistakes.is_empty() { Ok(value) } else { Err(Mistakes { file: None, mistakes }) }
}
