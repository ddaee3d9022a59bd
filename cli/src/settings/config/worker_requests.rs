//! Reads and validates API requests that add, change or remove a worker of a running switch.

use super::placement::CPU;
use super::requests::{Refused, finish, patched};
use super::{placement, validate, workers};
use crate::host::Host;
use crate::settings::model::{ModelKind, Role, RoleSettings};
use crate::settings::reader::fields::Fields;
use crate::settings::reader::node;
use crate::settings::reader::notes::{Cause, Findings, Section};
use crate::settings::topology::{Topology, WorkerSettings};
use console::Diagnostic;
use serde_json::{Value, json};

/// Reads a worker to be added to `running`: a stage in a pipeline. It has the polling and the handling of full queues
/// of the first worker, unless the request names others. Returns its role, and the configuration with it as the last
/// one.
pub(crate) fn new_worker(
    json: &Value,
    running: &Topology,
    host: &Host,
) -> Result<(Option<Role>, Topology), Refused> {
    let (index, mut notes) = (running.workers.len(), Findings::of_request());
    notes.call(Section::Worker(index), "the new worker".to_owned());
    let like = running.workers.first().copied().unwrap_or_default();
    let node = node::from_json(&patched(keys(WorkerSettings { cpu: None, ..like }), json));
    let mut fields = Fields::open(&node, Section::Worker(index), &mut notes);
    let role = role(&mut fields, running.model.model);
    let mut worker = read(fields, RoleSettings::default());
    if let Some(role) = role {
        worker.roles.set(role, true);
    }
    let mut wanted = running.clone();
    wanted.workers.push(worker);
    check(&wanted, index, host, &mut notes);
    finish(notes, (role, wanted))
}

/// Reads new settings for worker `index` of `running`: its own ones with those of the request, where null stands for
/// the default.
pub(crate) fn changed_worker(
    json: &Value,
    running: &Topology,
    index: usize,
    host: &Host,
) -> Result<Topology, Refused> {
    let mut notes = Findings::of_request();
    let own = running.workers[index];
    let node = node::from_json(&patched(keys(own), json));
    let fields = Fields::open(&node, Section::Worker(index), &mut notes);
    let mut wanted = running.clone();
    wanted.workers[index] = read(fields, own.roles);
    check(&wanted, index, host, &mut notes);
    finish(notes, wanted)
}

/// The configuration without worker `index` of `running`, or without its role.
pub(crate) fn without_worker(
    running: &Topology,
    index: usize,
    role: Option<Role>,
) -> Result<Topology, Refused> {
    let mut wanted = running.clone();
    if let Some(role) = role {
        wanted.workers[index].roles.set(role, false);
    }
    if wanted.workers[index].roles == RoleSettings::default() {
        wanted.workers.remove(index);
    }
    let receives = |worker: &WorkerSettings| role.is_none() || worker.roles.rx;
    let is_numbered = running.placement.as_ref().is_some_and(|placement| !placement.queues.is_empty());
    let is_taker = role.is_none_or(|role| role == Role::Rx);
    if is_numbered && is_taker && running.workers[index + 1..].iter().any(receives) {
        let reason = "`queues` in [placement] names workers by their numbers, which would change";
        let error =
            Diagnostic::bad("worker", reason, "remove the last one, or start the switch without `queues`");
        return Err((Cause::Taken, error));
    }
    let mut notes = Findings::of_request();
    placement::validate(&wanted, &mut notes);
    finish(notes, wanted)
}

/// The role of a stage of a pipeline. Workers of other models have none.
fn role(fields: &mut Fields<'_, '_>, model: ModelKind) -> Option<Role> {
    if model != ModelKind::Pipeline {
        let reason = "`role` is that of a stage, and these workers run to completion";
        fields.foreign(
            "role",
            reason,
            "remove it, or start the switch with model = \"pipeline\" in [worker]",
        );
        return None;
    }
    fields.required("role", "work");
    Some(fields.choice("role", &Role::ALL.map(|role| (role.name(), role))).unwrap_or(Role::Work))
}

fn read(mut fields: Fields<'_, '_>, roles: RoleSettings) -> WorkerSettings {
    let cpu = fields.number("cpu", CPU, "as a CPU's number");
    let worker = WorkerSettings { cpu, roles, ..workers::habits(&mut fields) };
    fields.finish();
    worker
}

/// The keys of a `[[worker]]` section.
fn keys(WorkerSettings { cpu, polling, queue_full, .. }: WorkerSettings) -> Value {
    json!({ "cpu": cpu, "polling": polling, "queue_full": queue_full })
}

fn check(wanted: &Topology, index: usize, host: &Host, notes: &mut Findings) {
    validate::changed_worker(wanted, index, host, notes);
    placement::validate(wanted, notes);
}
