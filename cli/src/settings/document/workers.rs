//! Workers of a running switch in the text of its configuration file: a `[[worker]]` section for each, lists of CPUs in
//! `[worker]`, or numbers of stages in `[placement]`.

use super::{DocumentError, sections, separated, set_keys, short_section};
use crate::settings::model::{ModelKind, Role};
use crate::settings::topology::{Topology, WorkerSettings};
use toml_edit::{Array, Item, Table, TableLike};

/// Changes the sections of the workers of `before` to those of `after`.
pub(super) fn update(root: &mut Table, before: &Topology, after: &Topology) -> Result<(), DocumentError> {
    if (&before.model, &before.placement) != (&after.model, &after.placement) {
        return Err(refused("the model or the placement differs"));
    }
    if before.placement.as_ref().is_some_and(|placement| placement.stages.is_some()) {
        return counts(root, before, after);
    }
    let is_table = root.get("worker").is_some_and(Item::is_table_like);
    if is_table { lists(root, before, after) } else { each(root, before, after) }
}

fn refused(reason: &'static str) -> DocumentError {
    DocumentError::NotExpressed("the workers", reason)
}

/// CPUs and numbers of workers are far below the limit of the text.
fn integer(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// `stages` in `[placement]`.
fn counts(root: &mut Table, before: &Topology, after: &Topology) -> Result<(), DocumentError> {
    let (gone, new) = (missing(&before.workers, &after.workers), missing(&after.workers, &before.workers));
    if !gone.is_empty() && !new.is_empty() {
        return Err(refused(
            "[placement] chooses the CPUs of its `stages`, which have the other keys in common",
        ));
    }
    let stages = root.get_mut("placement").and_then(Item::as_table_like_mut);
    let stages = stages.and_then(|placement| placement.get_mut("stages")?.as_table_like_mut());
    let stages = stages.ok_or(refused("[placement] has no `stages`"))?;
    for role in Role::ALL {
        let of = |workers: &[WorkerSettings]| {
            integer(workers.iter().filter(|worker| worker.roles.has(role)).count())
        };
        let more = of(&after.workers) - of(&before.workers);
        if more != 0 {
            let count = stages.get(role.name()).and_then(Item::as_integer).unwrap_or(1);
            stages.insert(role.name(), (count + more).into());
        }
    }
    Ok(())
}

/// The workers of `some` that are not among `others`.
fn missing(some: &[WorkerSettings], others: &[WorkerSettings]) -> Vec<WorkerSettings> {
    some.iter().filter(|worker| !others.contains(worker)).copied().collect()
}

/// `[worker]`, whose keys concern all workers.
fn lists(root: &mut Table, before: &Topology, after: &Topology) -> Result<(), DocumentError> {
    let table = root.get_mut("worker").and_then(Item::as_table_like_mut);
    let table = table.ok_or(DocumentError::NotSections("worker"))?;
    let is_pipeline = after.model.model == ModelKind::Pipeline;
    let roles: &[Role] = if is_pipeline { &Role::ALL } else { &[Role::Work] };
    for role in roles {
        let has = |worker: &&WorkerSettings| !is_pipeline || worker.roles.has(*role);
        let cpus = |workers: &[WorkerSettings]| workers.iter().filter(has).map(|w| w.cpu).collect::<Vec<_>>();
        let (old, new) = (cpus(&before.workers), cpus(&after.workers));
        if old != new {
            let new = new.into_iter().collect::<Option<Vec<_>>>();
            let new = new.ok_or(refused("a worker without a CPU is in no list of [worker]"))?;
            table.insert(role.name(), Item::Value(new.into_iter().map(integer).collect::<Array>().into()));
        }
    }
    let (Some(old), Some(first)) = (before.workers.first(), after.workers.first()) else { return Ok(()) };
    // The keys that all workers have in common.
    let common = |worker: &WorkerSettings| WorkerSettings {
        polling: worker.polling,
        queue_full: worker.queue_full,
        ..WorkerSettings::default()
    };
    if after.workers.iter().any(|worker| common(worker) != common(first)) {
        return Err(refused("`polling` and `queue_full` of [worker] are those of all workers"));
    }
    set(table, &common(old), &common(first))
}

/// `[[worker]]`, one section for each.
fn each(root: &mut Table, before: &Topology, after: &Topology) -> Result<(), DocumentError> {
    let sections = sections(root, "worker")?;
    let default = WorkerSettings::default();
    for (index, worker) in after.workers.iter().enumerate() {
        if sections.get(index).is_none() {
            sections.push(separated(Table::new()));
        }
        let old = before.workers.get(index).unwrap_or(&default);
        let Some(table) = sections.get_mut(index).filter(|_| old != worker) else { continue };
        set(table, old, worker)?;
    }
    (after.workers.len()..sections.len()).rev().for_each(|index| drop(sections.remove(index)));
    Ok(())
}

/// Sets the keys that differ; a default has none.
fn set(table: &mut dyn TableLike, old: &WorkerSettings, new: &WorkerSettings) -> Result<(), DocumentError> {
    set_keys(table, &short_section("worker", new, &WorkerSettings::default())?, old, new);
    Ok(())
}
