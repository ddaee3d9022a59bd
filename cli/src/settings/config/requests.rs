//! Reads and validates API requests that extend a running switch.

use super::workers::CPU;
use super::{sections, validate};
use crate::host::Host;
use crate::settings::model::{ModelKind, Role, RoleSettings};
use crate::settings::reader::fields::Fields;
use crate::settings::reader::node;
use crate::settings::reader::notes::{Notes, Section};
use crate::settings::topology::{PortSettings, StaticEntry, Topology, WorkerSettings};
use console::Diagnostic;
use std::path::Path;

/// Reads and validates a port to be added to `running`. Does not read the capture that the port replays.
pub(crate) fn new_port(
    json: &serde_json::Value,
    running: &Topology,
    control: &Path,
) -> Result<PortSettings, Diagnostic> {
    let (index, mut notes) = (running.ports.len(), Notes::default());
    let mut port = sections::read_port(&node::from_json(json), index, &mut notes);
    sections::complete_port(&mut port, &running.bridges, &running.switch);
    let mut candidate = running.clone();
    candidate.ports.push(port.clone());
    validate::last_port(&candidate, control, &mut notes);
    finish(notes, port)
}

/// Reads and validates a static entry to be added to the bridge of its port.
pub(crate) fn new_static(json: &serde_json::Value, running: &Topology) -> Result<StaticEntry, Diagnostic> {
    let (section, mut notes) = (Section::Static(0, 0), Notes::default());
    notes.call(section, "static entry".to_owned());
    let entry = sections::read_static(&node::from_json(json), section, &mut notes);
    validate::pinned(running, section, &entry, &mut notes);
    finish(notes, entry)
}

fn finish<T>(notes: Notes, value: T) -> Result<T, Diagnostic> {
    let errors = notes.finish();
    if errors.is_empty() { Ok(value) } else { Err(Diagnostic::all(errors)) }
}

/// Reads and validates a worker to be added to the pipeline of `running`. Returns its role and its settings.
pub(crate) fn new_worker(
    json: &serde_json::Value,
    running: &Topology,
    host: &Host,
) -> Result<(Role, WorkerSettings), Diagnostic> {
    let (section, mut notes) = (Section::Worker(running.workers.len()), Notes::default());
    notes.call(section, "the new worker".to_owned());
    let node = node::from_json(json);
    let mut fields = Fields::open(&node, section, &mut notes);
    if running.model.model != ModelKind::Pipeline {
        let reason = "this switch's workers run to completion, and stages can only be added to a pipeline";
        fields.wrong::<()>("role", reason, "start it with model = \"pipeline\" in [worker]".to_owned());
    }
    let names = Role::ALL.map(|role| (role.name(), role));
    fields.required("role", "work");
    let role = fields.choice("role", &names).unwrap_or(Role::Work);
    let cpu = fields.number("cpu", CPU, "as a CPU's number");
    let like = running.workers.first().copied().unwrap_or_default();
    fields.finish();
    let mut worker = WorkerSettings { cpu, roles: RoleSettings::default(), ..like };
    worker.roles.add(role);
    let mut candidate = running.clone();
    candidate.workers.push(worker);
    validate::last_worker(&candidate, host, &mut notes);
    finish(notes, (role, worker))
}
