//! Reads the configuration: converts a TOML file to a [`Topology`], or reports all of its errors at once.
//!
//! `sections` reads the sections of a file, `workers` and `placement` those about threads. `validate`, `security`,
//! `openflow`, `underlay` and `peers` validate sections against each other and against this machine. Requests to the
//! control API are read and validated by the same code. Nothing here changes the machine.

mod bonds;
mod flows;
mod mirrors;
mod names;
mod openflow;
mod peers;
mod placement;
pub(crate) mod requests;
mod sections;
mod security;
#[cfg(test)]
mod tests;
mod underlay;
mod validate;
pub(crate) mod worker_requests;
mod workers;

use super::reader::node::{self, Lines, Node, Value};
use super::reader::notes::{self, Cause, Findings, Section};
use super::reader::shape::Recorded;
use super::reader::syntax;
use super::topology::{PortSettings, Topology};
use crate::host::Host;
use console::Diagnostic;
use requests::Refused;
use std::io::Read;
use std::path::Path;

/// Maximum file size in bytes: far above any topology, and small enough to be validated quickly.
pub(crate) const LARGEST: u64 = 16 << 20;

/// Reads and validates a file. The error contains all errors of the file.
pub(crate) fn read(path: &Path, host: &Host, control: Option<&Path>) -> Result<Topology, Diagnostic> {
    let text = text(path)?;
    parse(&text, host, control).map_err(|errors| in_file(path, errors))
}

/// Errors of a file as one.
pub(crate) fn in_file(path: &Path, errors: Vec<Diagnostic>) -> Diagnostic {
    let file = notes::printable(&path.display().to_string());
    let named = errors.into_iter().map(|error| Diagnostic { file: Some(file.as_str().into()), ..error });
    Diagnostic::all(named.collect())
}

/// Reads the text of a file.
pub(crate) fn text(path: &Path) -> Result<String, Diagnostic> {
    text_of(path).map_err(|error| in_file(path, vec![error]))
}

fn text_of(path: &Path) -> Result<String, Diagnostic> {
    let unread = |e: std::io::Error| {
        Diagnostic::bad("", format!("cannot be read: {e}"), "name a file that exists and that you may read")
    };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unread)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unread)?;
    if bytes.len() as u64 > LARGEST {
        let reason = format!("is larger than {} MiB, the limit of a configuration", LARGEST >> 20);
        return Err(Diagnostic::bad("", reason, "name a TOML file"));
    }
    String::from_utf8(bytes).map_err(|e| {
        let line = String::from_utf8_lossy(&e.as_bytes()[..e.utf8_error().valid_up_to()]).split('\n').count();
        let error = Diagnostic::bad("", "is not text in UTF-8", "name a TOML file, and save it as UTF-8");
        Diagnostic { line: line.try_into().ok(), ..error }
    })
}

/// Reads the text of a file without validating it, and records each key that is read.
pub(crate) fn record(text: &str) -> Vec<Recorded> {
    let (root, _) = toml::de::DeTable::parse_recoverable(text);
    let root = Node { line: None, value: node::from_toml(root.get_ref(), &Lines::of(text)) };
    let mut notes = Findings::recording();
    sections::topology(&root, &mut notes);
    notes.into_recorded()
}

/// Reads and validates the text of a file. `control` overrides the file's control socket.
pub(crate) fn parse(text: &str, host: &Host, control: Option<&Path>) -> Result<Topology, Vec<Diagnostic>> {
    parse_beside(text, host, control, &[])
}

/// [`parse`] for a switch that runs the ports `running`. Their files and interfaces are in use, and not validated.
pub(crate) fn parse_beside(
    text: &str,
    host: &Host,
    control: Option<&Path>,
    running: &[PortSettings],
) -> Result<Topology, Vec<Diagnostic>> {
    let (topology, _, errors) =
        validated(text, (&Lines::of(text), Findings::default()), host, (control, running));
    if errors.is_empty() { Ok(topology) } else { Err(errors) }
}

/// [`parse_beside`] for a text that a request has made: errors are those of the request, and have no lines.
pub(crate) fn parse_change(
    text: &str,
    host: &Host,
    control: Option<&Path>,
    running: &[PortSettings],
) -> Result<Topology, Refused> {
    let (topology, cause, errors) =
        validated(text, (&Lines::none(), Findings::of_request()), host, (control, running));
    if errors.is_empty() {
        return Ok(topology);
    }
    Err((cause.unwrap_or(Cause::Invalid), Diagnostic::all(errors)))
}

/// [`parse`] for a text that was valid when it was applied. Without errors: files, interfaces and CPUs that it names
/// may be gone since, and recordings are not read.
pub(crate) fn parse_past(text: &str, host: &Host, control: Option<&Path>) -> Topology {
    let ports = ports(text);
    validated(text, (&Lines::none(), Findings::default()), host, (control, &ports)).0
}

/// Reads the ports of a text without validating them, which would read the files that they play.
pub(crate) fn ports(text: &str) -> Vec<PortSettings> {
    let (root, _) = toml::de::DeTable::parse_recoverable(text);
    let root = Node { line: None, value: node::from_toml(root.get_ref(), &Lines::none()) };
    sections::topology(&root, &mut Findings::default()).ports
}

/// A text as a topology, with the gravest class of its errors, and all of them.
fn validated(
    text: &str,
    (lines, mut notes): (&Lines, Findings),
    host: &Host,
    (control, running): (Option<&Path>, &[PortSettings]),
) -> (Topology, Option<Cause>, Vec<Diagnostic>) {
    let (root, errors) = toml::de::DeTable::parse_recoverable(text);
    let root = Node { line: lines.at(0), value: node::from_toml(root.get_ref(), lines) };
    if matches!(&root.value, Value::Table(entries) if entries.is_empty()) && errors.is_empty() {
        let remedy = "write at least a [switch] or a [[port]] section";
        notes.wrong((Section::File, ""), "the file has no section", remedy);
    }
    let mut topology = sections::topology(&root, &mut notes);
    if let Some(control) = control {
        topology.switch.control = Some(control.to_owned());
    }
    let control = topology.switch.control.clone().unwrap_or_else(crate::host::default_control);
    validate::topology(&topology, host, (&control, running), &mut notes);
    bonds::validate(&topology, &mut notes);
    peers::complete(&topology, &mut notes);
    openflow::complete(&mut topology, &control);
    placement::settle(&mut topology, host, &mut notes);
    let cause = notes.cause();
    (topology, cause, syntax::add(notes.finish(), &errors, text, lines))
}
