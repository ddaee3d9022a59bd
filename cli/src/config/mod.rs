//! The configuration: one TOML file becomes a [`Topology`], or every error in it is named at once.
//!
//! `node` is the tree of what was written, `fields` and `sections` read it, `validate` looks at the whole, `syntax` says
//! what is no TOML, `error` collects. Requests to the control API pass the same rooms. Nothing here changes
//! anything on this machine.

mod error;
mod fields;
mod node;
mod placement;
mod sections;
mod syntax;
#[cfg(test)]
mod tests;
mod validate;
mod workers;

pub(crate) use error::{ConfigError, ConfigErrors};
pub(crate) use fields::{Fields, one_of};
pub(crate) use validate::Validation;
pub(crate) use workers::new_worker;

use crate::host::Host;
use crate::topology::{PortSettings, StaticEntry, Topology};
use error::{Notes, Section};
pub(crate) use node::{Node, Value};

use node::Lines;
use std::io::Read;
use std::path::Path;

/// Largest file that is read: far more than any topology needs, and little enough to be judged at once.
const LARGEST: u64 = 16 << 20;

/// Reads and judges a file.
pub(crate) fn read(path: &Path, host: &Host, control: Option<&Path>) -> Result<Topology, ConfigErrors> {
    let file = error::printable(&path.display().to_string());
    let errors = match text(path) {
        Ok(text) => match parse(&text, host, control) {
            Ok(topology) => return Ok(topology),
            Err(errors) => errors,
        },
        Err(error) => vec![error],
    };
    Err(ConfigErrors { file: Some(file), errors })
}

/// The text of a file, or why it has none.
fn text(path: &Path) -> Result<String, ConfigError> {
    let wrong = |line, error: String, remedy: &str| ConfigError { line, error, remedy: remedy.to_owned() };
    let unread = |e: std::io::Error| {
        wrong(None, format!("cannot be read: {e}"), "name a file that exists and that you may read")
    };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unread)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unread)?;
    if bytes.len() as u64 > LARGEST {
        let error = format!("has more than {} MiB, which no configuration has", LARGEST >> 20);
        return Err(wrong(None, error, "name a TOML file"));
    }
    String::from_utf8(bytes).map_err(|e| {
        let line = String::from_utf8_lossy(&e.as_bytes()[..e.utf8_error().valid_up_to()]).split('\n').count();
        wrong(Some(line), "is not text in UTF-8".to_owned(), "name a TOML file, and save it as UTF-8")
    })
}

/// Reads and judges the text of a file. `control` overrides the file's control socket.
pub(crate) fn parse(text: &str, host: &Host, control: Option<&Path>) -> Result<Topology, Vec<ConfigError>> {
    let (root, errors) = toml::de::DeTable::parse_recoverable(text);
    let (lines, mut notes) = (Lines::of(text), Notes::default());
    let root = Node { line: Some(1), value: node::from_toml(root.get_ref(), &lines) };
    let mut topology = sections::topology(&root, &mut notes);
    if let Some(control) = control {
        topology.switch.control = Some(control.to_owned());
    }
    let control = topology.switch.control.clone().unwrap_or_else(crate::host::default_control);
    validate::topology(&topology, host, &control, &mut notes);
    placement::settle(&mut topology, host, &mut notes);
    let errors = syntax::add(notes.finish(), &errors, text, &lines);
    if errors.is_empty() { Ok(topology) } else { Err(errors) }
}

/// Reads and judges a port that is to join `running`. The file that it plays is not read.
pub(crate) fn new_port(
    json: &serde_json::Value,
    running: &Topology,
    control: &Path,
) -> Result<PortSettings, ConfigErrors> {
    let (index, mut notes) = (running.ports.len(), Notes::default());
    let mut port = sections::read_port(&node::from_json(json), index, &mut notes);
    sections::join_only_bridge(&mut port, &running.bridges);
    let mut candidate = running.clone();
    candidate.ports.push(port.clone());
    validate::last_port(&candidate, control, &mut notes);
    finish(notes, port)
}

/// Reads and judges a static entry that is to join the bridge of its port.
pub(crate) fn new_static(json: &serde_json::Value, running: &Topology) -> Result<StaticEntry, ConfigErrors> {
    let (section, mut notes) = (Section::Static(0, 0), Notes::default());
    notes.call(section, "static entry".to_owned());
    let entry = sections::read_static(&node::from_json(json), section, &mut notes);
    validate::pinned(running, section, &entry, &mut notes);
    finish(notes, entry)
}

fn finish<T>(notes: Notes, value: T) -> Result<T, ConfigErrors> {
    let errors = notes.finish();
    if errors.is_empty() { Ok(value) } else { Err(ConfigErrors { file: None, errors }) }
}
