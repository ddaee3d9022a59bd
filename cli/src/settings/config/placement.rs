//! `[placement]`: reads its keys, validates them against ports and workers, and resolves them for this machine.

use crate::host::Host;
use crate::settings::model::{ModelKind, Role, RoleSettings, RssMode};
use crate::settings::placement::{Placement, Rebalance};
use crate::settings::reader::fields::Fields;
use crate::settings::reader::node::{Node, Value};
use crate::settings::reader::notes::{Findings, Section};
use crate::settings::reader::shape::Shape;
use crate::settings::topology::{PortSettings, Topology, WorkerSettings};
use crate::settings::value::Decimal;
use console::words::numbers;
use engine::machine;
use engine::placement::{
    AffinityError, Pattern, PlanError, QueueName, Requirements, Stage, Stages, Thread, plan,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Range of CPU numbers.
pub(super) const CPU: std::ops::RangeInclusive<i128> = 0..=65_535;
/// Range of NUMA node numbers.
const NODE: std::ops::RangeInclusive<i128> = 0..=65_535;
/// Range of worker numbers; the number of workers is validated later.
const WORKER: std::ops::RangeInclusive<i128> = 0..=65_535;
/// Range of the number of stages.
const STAGES: std::ops::RangeInclusive<i128> = 1..=32;
/// Range of the interval between load measurements.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(1);

/// Reads the section.
pub(super) fn read(node: &Node, notes: &mut Findings) -> Placement {
    notes.call(Section::Placement, "placement".to_owned());
    let mut fields = Fields::open(node, Section::Placement, notes);
    let default = Placement::default();
    let rebalance = [("off", Rebalance::Off), ("dry-run", Rebalance::DryRun), ("auto", Rebalance::Auto)];
    let placement = Placement {
        pattern: fields.choice("pattern", &Pattern::NAMES).unwrap_or_default(),
        cpus: cpus(&mut fields).unwrap_or_default(),
        node: fields.number("node", NODE, "as a NUMA node's number"),
        queues: queues(&mut fields).unwrap_or_default(),
        isolated: fields.texts("isolated", "ports and queues, such as \"red\" or \"red.1\""),
        rebalance: fields.choice("rebalance", &rebalance).unwrap_or_default(),
        interval: fields.span_within("interval", &INTERVALS).unwrap_or(default.interval),
        threshold: fields
            .decimal("threshold", 0.01..=1.0, "give 0.01 to 1 of a core")
            .map_or(default.threshold, Decimal),
        stages: stages_of(&mut fields),
        plan: None,
    };
    fields.finish();
    placement
}

/// Where the stages of a pipeline are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StagesBy {
    /// `[worker]`, with lists of their CPUs.
    Lists,
    /// `[placement]`, with `stages`.
    Placement,
    /// Nowhere: `[placement]` must configure them, because its pattern joins stages and lists do not apply.
    None,
}

/// Determines where the stages are configured, with or without this section.
pub(super) fn stages_by(node: Option<&Node>) -> StagesBy {
    let Some(Node { value: Value::Table(entries), .. }) = node else { return StagesBy::Lists };
    let value = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node.value);
    let joins = |word: &str| Pattern::NAMES.iter().any(|(name, pattern)| *name == word && joins(*pattern));
    match (value("stages"), value("pattern")) {
        (Some(_), _) => StagesBy::Placement,
        (None, Some(Value::Text(word))) if joins(word) => StagesBy::None,
        _ => StagesBy::Lists,
    }
}

/// Whether a pattern has several stages on one thread or core.
fn joins(pattern: Pattern) -> bool {
    !matches!(pattern, Pattern::Separate | Pattern::Auto)
}

/// `stages = { rx = 1, work = 2, tx = 1 }`.
fn stages_of(fields: &mut Fields<'_, '_>) -> Option<Stages> {
    fields.accepts("stages", || Shape::Table);
    let node = fields.node("stages")?;
    if !matches!(node.value, Value::Table(_)) {
        return fields.not("stages", node, "how many there are: { rx = 1, work = 2, tx = 1 }");
    }
    let mut inner = Fields::open_inner(node, (Section::Placement, "stages"), fields.notes);
    let [rx, worker, tx] = ["rx", "work", "tx"].map(|key| inner.number(key, STAGES, "stages").unwrap_or(1));
    inner.report_unknown();
    Some(Stages { rx, worker, tx, ..Stages::default() })
}

/// `cpus = [2, 3]` or `cpus = "2-3,8"`.
fn cpus(fields: &mut Fields<'_, '_>) -> Option<Vec<usize>> {
    const WANTED: &str = "a list of CPUs such as [2, 3] or \"2-3,8\"";
    fields.accepts("cpus", || Shape::list(Shape::Integer(CPU)));
    fields.accepts("cpus", || Shape::Text);
    let node = fields.node("cpus")?;
    let wrong =
        |fields: &mut Fields<'_, '_>, reason: String| fields.wrong("cpus", reason, format!("write {WANTED}"));
    let cpus = match &node.value {
        Value::Text(text) => match machine::parse_list(text) {
            Ok(cpus) => cpus,
            Err(reason) => {
                return wrong(fields, format!("`cpus` \"{text}\" is not a list of CPUs: {reason}"));
            }
        },
        Value::List(list) => {
            let number = |node: &Node| match node.value {
                Value::Integer(cpu) => usize::try_from(cpu).ok(),
                _ => None,
            };
            match list.iter().map(number).collect() {
                Some(cpus) => cpus,
                None => return wrong(fields, "`cpus` lists a value that is not a CPU number".to_owned()),
            }
        }
        _ => return fields.not("cpus", node, WANTED),
    };
    match (1..cpus.len()).find(|i| cpus[..*i].contains(&cpus[*i])) {
        _ if cpus.is_empty() => wrong(fields, "`cpus` is empty, so no thread could be placed".to_owned()),
        Some(i) => wrong(fields, format!("`cpus` lists CPU {} twice", cpus[i])),
        None => Some(cpus),
    }
}

/// `queues = { red = 0, "blue.1" = 1 }`.
fn queues(fields: &mut Fields<'_, '_>) -> Option<BTreeMap<String, usize>> {
    const WANTED: &str = "the worker of each port or queue, such as { red = 0, \"blue.1\" = 1 }";
    fields.accepts("queues", || Shape::Map(Box::new(Shape::Integer(WORKER))));
    let node = fields.node("queues")?;
    let Value::Table(entries) = &node.value else { return fields.not("queues", node, WANTED) };
    let worker = |node: &Node| match node.value {
        Value::Integer(worker) => usize::try_from(worker).ok(),
        _ => None,
    };
    let mut queues = BTreeMap::new();
    for entry in entries {
        if let Some(worker) = worker(&entry.node) {
            queues.insert(entry.key.clone(), worker);
        } else {
            let reason = format!("`queues` gives \"{}\" to a value that is not a worker number", entry.key);
            fields.notes.wrong_at(Section::Placement, entry.line, reason, format!("write {WANTED}"));
        }
    }
    Some(queues)
}

/// Validates the section against ports and workers.
pub(super) fn validate(topology: &Topology, notes: &mut Findings) {
    let Some(placement) = &topology.placement else { return };
    let known = |text: &str| QueueName::parse(text, |name| is_port(&topology.ports, name));
    let named = placement.queues.keys().map(|name| ("queues", name));
    let mut sound = true;
    for (key, text) in named.chain(placement.isolated.iter().map(|name| ("isolated", name))) {
        let found = known(text);
        let reason = match &found {
            None => Some(format!("`{key}` names \"{text}\", which is not a port")),
            Some(queue) => {
                beyond(queue, &topology.ports).map(|why| format!("`{key}` names \"{text}\", and {why}"))
            }
        };
        if let Some(reason) = reason {
            sound = false;
            let remedy = "name a port of this file, or one of its queue pairs as port.pair, counted from 0";
            notes.wrong_at(Section::Placement, notes.line((Section::Placement, key)), reason, remedy);
        }
    }
    if sound && let Err(error) = placement.affinity(topology.takers(), |name| is_port(&topology.ports, name))
    {
        let key = if matches!(error, AffinityError::NoSuchWorker(..)) { "queues" } else { "isolated" };
        let remedy = match error {
            AffinityError::NoSuchWorker(..) => "name a worker that is there, or add a [[worker]] section",
            AffinityError::NotAlone(..) => "give one of them another worker, or take it out of `isolated`",
            AffinityError::Twice(_) => "list it once",
            AffinityError::NoneLeft(..) => "isolate less, or add [[worker]] sections",
        };
        notes.wrong((Section::Placement, key), error, remedy);
    }
    stays_isolated(topology, placement, notes);
    joins_stages(topology, placement, notes);
}

/// A worker reserved for one queue receives no flows of ports that are distributed to all workers.
fn stays_isolated(topology: &Topology, placement: &Placement, notes: &mut Findings) {
    let usual = |port: &PortSettings| {
        if port.queue_pairs == 1 { topology.model.rss_mode } else { RssMode::Queues }
    };
    let is_software = |port: &&PortSettings| port.rss_mode.unwrap_or(usual(port)) == RssMode::Software;
    let Some(port) = topology.ports.iter().find(is_software) else { return };
    if topology.model.rss_mode == RssMode::Software && !placement.isolated.is_empty() {
        let name = &port.name;
        let reason = format!("`isolated` has no effect: port \"{name}\" is distributed over all workers");
        let remedy = "remove it, or write rss_mode = \"queues\" for every port with one queue pair";
        notes.wrong((Section::Placement, "isolated"), reason, remedy);
    }
}

/// A pattern that joins stages requires a pipeline.
fn joins_stages(topology: &Topology, placement: &Placement, notes: &mut Findings) {
    let (pattern, is_pipeline) = (placement.pattern, topology.model.model == ModelKind::Pipeline);
    if placement.stages.is_some() && !is_pipeline {
        let reason = "`stages` requires a pipeline, and these workers run to completion";
        let remedy = "remove it, or write model = \"pipeline\" in [worker]";
        return notes.wrong((Section::Placement, "stages"), reason, remedy);
    }
    let are_listed = topology.workers.iter().any(|worker| worker.roles != RoleSettings::default());
    let (why, remedy) = match (placement.stages, is_pipeline) {
        (Some(_), _) => return,
        (None, true) if are_listed => {
            let remedy = "write stages = { rx = 1, work = 1, tx = 1 } here, in place of the lists";
            ("[worker] lists the CPUs of these", remedy)
        }
        (None, true) => {
            ("their number is not configured", "write stages = { rx = 1, work = 1, tx = 1 } here")
        }
        (None, false) => ("these workers run to completion", "write \"separate\" or \"auto\""),
    };
    if joins(pattern) {
        let reason = format!("`pattern` \"{pattern}\" joins stages, and {why}");
        notes.wrong((Section::Placement, "pattern"), reason, remedy);
    }
}

fn is_port(ports: &[PortSettings], name: &str) -> bool {
    ports.iter().any(|port| port.name == name)
}

/// Reason why a queue pair does not exist.
fn beyond(queue: &QueueName, ports: &[PortSettings]) -> Option<String> {
    let port = ports.iter().find(|port| port.name == queue.port)?;
    let pair = queue.pair.filter(|pair| *pair >= port.queue_pairs)?;
    Some(format!("port \"{}\" has {} queue pairs, not a pair {pair}", port.name, port.queue_pairs))
}

/// The threads to place: stages, or workers without a CPU.
fn stages(topology: &Topology) -> Stages {
    if let Some(stages) = topology.placement.as_ref().and_then(|placement| placement.stages) {
        return stages;
    }
    let free = topology.workers.iter().filter(|worker| worker.cpu.is_none()).count();
    Stages { run_to_completion: free, ..Stages::default() }
}

/// Assigns a CPU to each worker without one, if the section is present.
pub(super) fn settle(topology: &mut Topology, host: &Host, notes: &mut Findings) {
    let stages = stages(topology);
    let near = near(&topology.ports, host);
    let taken: Vec<usize> = topology.workers.iter().filter_map(|worker| worker.cpu).collect();
    let Some(placement) = &mut topology.placement else { return };
    node_is_there(placement, host, notes);
    if ["cpus", "pattern", "stages"].iter().any(|key| notes.is_spoiled((Section::Placement, key))) {
        return;
    }
    let (pattern, cpus, near) = (placement.pattern, placement.cpus.clone(), placement.node.or(near));
    match plan(&host.machine, &Requirements { stages, pattern, cpus, taken, near }) {
        Ok(plan) => {
            if placement.stages.is_some() {
                let like = topology.workers.first().copied().unwrap_or_default();
                topology.workers = plan.threads.iter().map(|thread| staged(thread, like)).collect();
            } else {
                let free = topology.workers.iter_mut().filter(|worker| worker.cpu.is_none());
                free.zip(&plan.threads).for_each(|(worker, thread)| worker.cpu = Some(thread.cpu));
            }
            placement.plan = Some(plan);
        }
        Err(error) => {
            let remedy = match error {
                PlanError::NoSuchCpu(_) => format!("list some of {}", numbers(&host.allowed())),
                PlanError::Forbidden(_) => format!(
                    "list some of {}, or start linerate with a wider mask (taskset)",
                    numbers(&host.allowed())
                ),
                PlanError::NoneLeft(_) => {
                    "list more CPUs, or take `cpu` out of a [[worker]] section".to_owned()
                }
            };
            notes.wrong((Section::Placement, "cpus"), error, remedy);
        }
    }
}

/// Checks that the packets' NUMA node exists on this machine.
fn node_is_there(placement: &Placement, host: &Host, notes: &mut Findings) {
    let nodes: Vec<usize> = host.machine.nodes.iter().map(|node| node.number).collect();
    let Some(node) = placement.node.filter(|node| !nodes.contains(node)) else { return };
    let reason = format!("`node` is {node}, which is not a NUMA node of this machine");
    let remedy = format!("choose one of {}, or remove it", numbers(&nodes));
    notes.wrong((Section::Placement, "node"), reason, remedy);
}

/// A placed pipeline worker.
fn staged(thread: &Thread, like: WorkerSettings) -> WorkerSettings {
    let mut worker = WorkerSettings { cpu: Some(thread.cpu), roles: RoleSettings::default(), ..like };
    for role in &thread.roles {
        match role.stage {
            Stage::Rx => worker.roles.set(Role::Rx, true),
            Stage::Worker => worker.roles.set(Role::Work, true),
            Stage::Tx => worker.roles.set(Role::Tx, true),
            Stage::RunToCompletion => {}
        }
    }
    worker
}

/// NUMA node of the first interface whose device reports one.
fn near(ports: &[PortSettings], host: &Host) -> Option<usize> {
    let claims = ports.iter().flat_map(|port| port.kind.claims());
    claims.filter(|claim| claim.key == "interface").find_map(|claim| host.node_of(&claim.shown))
}

#[cfg(test)]
mod tests;
