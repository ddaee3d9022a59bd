//! Reads worker configuration: `[[worker]]` sections, or one `[worker]` section for an execution model on chosen
//! CPUs.

use super::placement::{CPU, StagesBy};
use crate::settings::model::{Full, ModelKind, ModelSettings, Order, Role, RssMode};
use crate::settings::reader::fields::Fields;
use crate::settings::reader::node::{Node, Value};
use crate::settings::reader::notes::{Findings, Section};
use crate::settings::reader::shape::Shape;
use crate::settings::topology::{Polling, QueueFull, WorkerSettings};
use engine::HandoffConfig;
use std::ops::RangeInclusive;

/// Keys valid for pipeline stages only.
const OF_STAGES: [&str; 5] = ["ring", "write_unit", "read_unit", "full", "order"];
/// Reason why `rss_mode` is not supported in a pipeline.
pub(super) const PIPELINES_DISTRIBUTE: &str =
    "`rss_mode` has no effect in a pipeline, which distributes every port";
/// Reason why `rss_mode` is not supported with work stealing.
pub(super) const NO_SOFTWARE_RSS: &str = "`rss_mode` has no effect with work stealing";

/// Reads workers and their model, as far as configured. `by`: where the stages are configured.
pub(super) fn read(
    node: Option<&Node>,
    by: StagesBy,
    notes: &mut Findings,
) -> (ModelSettings, Vec<WorkerSettings>) {
    match node {
        None => (ModelSettings::default(), Vec::new()),
        Some(node) if matches!(node.value, Value::Table(_)) => read_table(node, by, notes),
        Some(Node { value: Value::List(list), .. }) => {
            let workers = list.iter().enumerate().map(|(i, node)| read_one(node, i, notes));
            (ModelSettings::default(), workers.collect())
        }
        Some(node) => {
            let reason = format!("`worker` is {}, not a list of sections", node.kind());
            let remedy = "write [[worker]], with two brackets on each side, or one [worker] with a `model`";
            notes.wrong((Section::File, "worker"), reason, remedy);
            (ModelSettings::default(), Vec::new())
        }
    }
}

/// Reads one `[[worker]]`.
fn read_one(node: &Node, index: usize, notes: &mut Findings) -> WorkerSettings {
    let section = Section::Worker(index);
    notes.call(section, format!("worker {index}"));
    let mut fields = Fields::open(node, section, notes);
    let cpu = fields.number("cpu", CPU, "as a CPU's number");
    let worker = WorkerSettings { cpu, ..habits(&mut fields) };
    fields.finish();
    worker
}

/// Reads the behaviour of an idle worker and on a full destination.
pub(super) fn habits(fields: &mut Fields<'_, '_>) -> WorkerSettings {
    let polling = [("adaptive", Polling::Adaptive), ("busy", Polling::Busy)];
    let queue_full = [("drop", QueueFull::Drop), ("wait", QueueFull::Wait)];
    WorkerSettings {
        polling: fields.choice("polling", &polling).unwrap_or_default(),
        queue_full: fields.choice("queue_full", &queue_full).unwrap_or_default(),
        ..WorkerSettings::default()
    }
}

/// Reads `[worker]`: one model for all workers.
fn read_table(node: &Node, by: StagesBy, notes: &mut Findings) -> (ModelSettings, Vec<WorkerSettings>) {
    notes.call(Section::Workers, "workers".to_owned());
    let mut fields = Fields::open(node, Section::Workers, notes);
    let models = [
        ("run-to-completion", ModelKind::RunToCompletion),
        ("stealing", ModelKind::Stealing),
        ("pipeline", ModelKind::Pipeline),
    ];
    let model = fields.choice("model", &models).unwrap_or_default();
    let habits = habits(&mut fields);
    let remedy = "write [[worker]], with two brackets on each side, or list CPUs: work = [0]";
    fields.foreign("cpu", "`cpu` is not supported in [worker], which applies to all workers", remedy);
    let (rss_mode, workers) = read_model(&mut fields, model, by, habits);
    let has_stages = model == ModelKind::Pipeline || rss_mode == RssMode::Software;
    let settings = if has_stages { handoffs(&mut fields) } else { no_handoffs(&mut fields, model) };
    fields.finish();
    (ModelSettings { model, rss_mode, ..settings }, workers)
}

/// Reads the workers of a model, and the mode of receive-side scaling.
fn read_model(
    fields: &mut Fields<'_, '_>,
    model: ModelKind,
    by: StagesBy,
    habits: WorkerSettings,
) -> (RssMode, Vec<WorkerSettings>) {
    match model {
        ModelKind::Pipeline => {
            fields.foreign("rss_mode", PIPELINES_DISTRIBUTE, "remove it");
            let workers = match by {
                StagesBy::Placement => unplaced(fields, habits),
                StagesBy::Lists => staged(fields, habits, true),
                StagesBy::None => staged(fields, habits, false),
            };
            (RssMode::default(), workers)
        }
        ModelKind::Stealing => {
            let remedy = "remove it, or choose model = \"run-to-completion\"";
            fields.foreign("rss_mode", NO_SOFTWARE_RSS, remedy);
            (RssMode::default(), whole(fields, model, habits))
        }
        ModelKind::RunToCompletion => {
            let places = [("queues", RssMode::Queues), ("software", RssMode::Software)];
            let rss_mode = fields.choice("rss_mode", &places).unwrap_or_default();
            (rss_mode, whole(fields, model, habits))
        }
    }
}

/// Rejects the handoff settings for a model without stages.
fn no_handoffs(fields: &mut Fields<'_, '_>, model: ModelKind) -> ModelSettings {
    let remedy = match model {
        ModelKind::Stealing => "remove it, or choose model = \"pipeline\"",
        _ => "remove it, or choose model = \"pipeline\" or rss_mode = \"software\"",
    };
    for key in &OF_STAGES {
        fields.foreign(key, format!("`{key}` has no effect {}", to_whom(model)), remedy);
    }
    ModelSettings::default()
}

/// Reads the handoff settings between stages.
fn handoffs(fields: &mut Fields<'_, '_>) -> ModelSettings {
    let default = ModelSettings::default();
    let wide = |range: RangeInclusive<usize>| *range.start() as i128..=*range.end() as i128;
    let (rings, writes, reads) =
        (wide(HandoffConfig::RINGS), wide(HandoffConfig::WRITE_UNITS), wide(HandoffConfig::READ_UNITS));
    let ring = fields.number("ring", rings, "packets, a power of two").unwrap_or(default.ring);
    if !ring.is_power_of_two() {
        let remedy = format!("write {}", ring.next_power_of_two());
        fields.wrong::<()>("ring", format!("`ring` is {ring}, which is not a power of two"), remedy);
    }
    let orders = [("flow", Order::Flow), ("port", Order::Port), ("none", Order::None)];
    ModelSettings {
        ring,
        write_unit: fields.number("write_unit", writes, "packets"),
        read_unit: fields.number("read_unit", reads, "packets, at most a burst").unwrap_or(default.read_unit),
        full: fields.choice("full", &[("drop", Full::Drop), ("wait", Full::Wait)]).unwrap_or_default(),
        order: fields.choice("order", &orders).unwrap_or_default(),
        ..default
    }
}

/// Describes, for an error, the models to which keys of stages do not apply.
fn to_whom(model: ModelKind) -> &'static str {
    match model {
        ModelKind::Stealing => "with work stealing",
        _ => "for run-to-completion workers",
    }
}

/// Reads workers without stages, on the CPUs of `work`; one without a CPU if there are none.
fn whole(fields: &mut Fields<'_, '_>, model: ModelKind, habits: WorkerSettings) -> Vec<WorkerSettings> {
    for key in ["rx", "tx"] {
        let reason = format!("`{key}` has no effect {}", to_whom(model));
        fields.foreign(key, reason, "remove it, or choose model = \"pipeline\"");
    }
    match cpus(fields, "work").filter(|cpus| !cpus.is_empty()) {
        Some(cpus) => cpus.into_iter().map(|cpu| WorkerSettings { cpu: Some(cpu), ..habits }).collect(),
        None => vec![habits],
    }
}

/// Settings of pipeline workers whose CPUs are chosen by `[placement]`.
fn unplaced(fields: &mut Fields<'_, '_>, habits: WorkerSettings) -> Vec<WorkerSettings> {
    for role in Role::ALL {
        let reason = format!("`{}` lists CPUs, which conflicts with `stages` in [placement]", role.name());
        fields.foreign(role.name(), reason, "remove one of the two");
    }
    vec![habits]
}

/// Reads workers with roles: a CPU in several lists is one worker. `whole`: all lists are required.
fn staged(fields: &mut Fields<'_, '_>, habits: WorkerSettings, whole: bool) -> Vec<WorkerSettings> {
    let mut workers: Vec<WorkerSettings> = Vec::new();
    for role in Role::ALL {
        let key = role.name();
        let listed = cpus(fields, key);
        if whole && listed.as_ref().is_none_or(Vec::is_empty) {
            let remedy = format!("add a line such as: {key} = [0]");
            fields.wrong::<()>(
                key,
                format!("`{key}` lists no CPU, and a pipeline requires all three roles"),
                remedy,
            );
        }
        for cpu in listed.unwrap_or_default() {
            let known = workers.iter_mut().find(|worker| worker.cpu == Some(cpu));
            if let Some(worker) = known {
                worker.roles.set(role, true);
            } else {
                let mut worker = WorkerSettings { cpu: Some(cpu), ..habits };
                worker.roles.set(role, true);
                workers.push(worker);
            }
        }
    }
    workers
}

/// Reads a list of distinct CPUs.
fn cpus(fields: &mut Fields<'_, '_>, key: &'static str) -> Option<Vec<usize>> {
    fields.accepts(key, || Shape::list(Shape::Integer(CPU)));
    let node = fields.node(key)?;
    let Value::List(list) = &node.value else {
        return fields.not(key, node, "a list of CPUs, such as [0, 1]");
    };
    let mut cpus = Vec::new();
    for node in list {
        let Value::Integer(number) = node.value else { return fields.not(key, node, "a list of CPUs") };
        let cpu = fields.within(key, number, &CPU, "as a CPU's number")?;
        if cpus.contains(&cpu) {
            return fields.wrong(key, format!("`{key}` lists CPU {cpu} twice"), "list it once".to_owned());
        }
        cpus.push(cpu);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests;
