//! Causes at workers and their CPUs.

use super::super::evidence::{Evidence, Thread, Worker};
use super::super::findings::Found;
use super::host::{SATURATED, USED, on_cpus};
use engine::WorkerSnapshot;

/// Seconds without a poll after which a worker hangs: a busy machine keeps threads waiting for some time.
const SILENT: f64 = 2.0;
/// Share of the interval for which a worker may wait for its CPU.
const WAITED: f64 = 0.05;
/// Share of a CPU above which another thread is busy.
const BUSY: f64 = 0.1;
/// Share of a CPU above which it disturbs its sibling.
const DISTURBS: f64 = 0.3;

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Workers that the switch reports, and those that made no progress between the readings.
pub(super) fn hung(evidence: &Evidence) -> Vec<Found> {
    let reported = |worker: &Worker| evidence.hung.iter().find(|hung| hung.worker == worker.now.index);
    let is_silent =
        |worker: &Worker| !worker.now.sleeping && worker.difference(WorkerSnapshot::progress) == 0;
    let found = evidence.workers.iter().filter_map(|worker| match reported(worker) {
        Some(hung) => {
            let silent = format!("no round for {} s", hung.seconds);
            Some(Found::worker(worker.now.index, std::iter::once(silent).chain(hung.step.clone())))
        }
        None if is_silent(worker) && evidence.seconds >= SILENT => Some(Found::worker(
            worker.now.index,
            [format!("no round in {:.1} s, and not asleep", evidence.seconds)],
        )),
        None => None,
    });
    found.collect()
}

pub(super) fn saturated(evidence: &Evidence) -> Vec<Found> {
    let full = evidence.workers.iter().filter(|worker| worker.busy > SATURATED);
    let found = full.map(|worker| {
        let queues = format!(
            "{} of its time is spent with packets of {} queues",
            percent(worker.busy),
            worker.now.queues
        );
        Found::worker(worker.now.index, [queues])
    });
    found.collect()
}

pub(super) fn buffers(evidence: &Evidence) -> Vec<Found> {
    let empty = evidence.workers.iter().filter_map(|worker| {
        let failed = worker.difference(|now| now.pool.empty);
        (failed > 0).then(|| Found::worker(worker.now.index, [format!("{failed} allocations failed")]))
    });
    empty.collect()
}

fn described(thread: &Thread) -> String {
    format!(
        "{} (process {}, thread {}) used {} of it",
        thread.process,
        thread.pid,
        thread.name,
        percent(thread.share)
    )
}

pub(super) fn guest(evidence: &Evidence) -> Vec<Found> {
    let found = on_cpus(evidence).filter_map(|(worker, number, cpu)| {
        let guest = cpu.others.iter().find(|thread| thread.is_guest() && thread.share > BUSY)?;
        Some(Found::worker(worker.now.index, [format!("CPU {number}: {}", described(guest))]))
    });
    found.collect()
}

/// A worker waits for its CPU, and another thread than that of a guest uses it.
pub(super) fn shared(evidence: &Evidence) -> Vec<Found> {
    let found = on_cpus(evidence).filter_map(|(worker, number, cpu)| {
        let waited = worker.waited.filter(|waited| *waited > WAITED)?;
        let busy: Vec<_> = cpu.others.iter().filter(|thread| thread.share > BUSY).collect();
        if busy.iter().any(|thread| thread.is_guest()) {
            return None;
        }
        let first = format!("the worker waited for CPU {number} for {} of the time", percent(waited));
        Some(Found::worker(worker.now.index, [first].into_iter().chain(busy.into_iter().map(described))))
    });
    found.collect()
}

pub(super) fn sibling(evidence: &Evidence) -> Vec<Found> {
    let own: Vec<usize> = on_cpus(evidence).map(|(_, number, _)| number).collect();
    let found =
        on_cpus(evidence).filter(|(worker, ..)| worker.busy > USED).filter_map(|(worker, number, cpu)| {
            let busy = |sibling: &&usize| {
                !own.contains(*sibling) && evidence.cpus.get(*sibling).is_some_and(|cpu| cpu.busy > DISTURBS)
            };
            let sibling = cpu.siblings.iter().find(busy)?;
            let share = percent(evidence.cpus[sibling].busy);
            Some(Found::worker(
                worker.now.index,
                [format!("CPU {sibling}, the sibling of CPU {number}, is busy for {share}")],
            ))
        });
    found.collect()
}

pub(super) fn unpinned(evidence: &Evidence) -> Vec<Found> {
    let is_moved = |worker: &&Worker| worker.now.cpu.is_none() && worker.busy > USED;
    let moved = evidence.workers.iter().filter(is_moved).filter(|_| evidence.cpus.len() > 1);
    let found = moved.map(|worker| {
        let busy =
            format!("{} of its time is spent with packets, and `cpu` is not set", percent(worker.busy));
        Found::worker(worker.now.index, [busy])
    });
    found.collect()
}
