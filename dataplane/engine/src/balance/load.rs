//! Computes load from two samples. The load of a worker is the share of its time in which it had packets; the load of
//! a queue is its worker's, weighted by its share of the packets.

use super::shift::{Item, shift};
use super::{Balance, Move, QueueLoad, WorkerLoad};
use crate::command::{Generation, QueueKey};
use port::PortId;

/// Counts at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// Time of the sample, in nanoseconds of the clock of bursts.
    pub(crate) at_ns: u64,
    /// Nanoseconds in which each worker had packets; `None` if it did not respond.
    pub(crate) busy_ns: Vec<Option<u64>>,
    pub(crate) queues: Vec<QueueSample>,
    /// Workers that queues may be moved to.
    pub(crate) open: Vec<usize>,
}

/// One receive queue in a sample.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueueSample {
    pub(crate) key: QueueKey,
    /// Start of the queue that the count belongs to.
    pub(crate) generation: Generation,
    pub(crate) worker: usize,
    pub(crate) packets: u64,
    /// Why it cannot be moved.
    pub(crate) stays: Option<&'static str>,
}

/// Computes the load between two samples, and moves that reduce the load of the busiest worker by at least
/// `threshold`. Queues for which `rests` returns true are not moved.
pub(crate) fn balance(
    (from, to): (&Sample, &Sample),
    threshold: f64,
    rests: impl Fn(QueueKey) -> bool,
    name: impl Fn(PortId) -> String,
) -> (Balance, Vec<(QueueKey, usize)>) {
    let before = loads(from, to);
    let brought: Vec<u64> = to.queues.iter().map(|queue| since(from, queue)).collect();
    let items = items(to, &brought, &before, rests);
    let (shifts, after) = shift(&before, &items, &to.open, threshold);
    let queue = |((queue, item), packets): ((&QueueSample, &Item), &u64)| QueueLoad {
        port: name(queue.key.port),
        pair: queue.key.pair,
        worker: queue.worker,
        packets: *packets,
        load: item.load,
        stays: queue.stays.map(str::to_owned),
    };
    let step = |&(at, worker): &(usize, usize)| {
        let QueueSample { key, worker: from, .. } = to.queues[at];
        let (port, load) = (name(key.port), items[at].load);
        Move { port, pair: key.pair, from, to: worker, load, failure: None }
    };
    let workers = before.iter().zip(&after).enumerate();
    let balance = Balance {
        measured_ns: to.at_ns.saturating_sub(from.at_ns),
        workers: workers.map(|(worker, (&before, &after))| WorkerLoad { worker, before, after }).collect(),
        queues: to.queues.iter().zip(&items).zip(&brought).map(queue).collect(),
        moves: shifts.iter().map(step).collect(),
        done: false,
    };
    (balance, shifts.into_iter().map(|(at, worker)| (to.queues[at].key, worker)).collect())
}

/// By queue: its share of its worker's load, and whether it may be moved.
fn items(to: &Sample, brought: &[u64], loads: &[f64], rests: impl Fn(QueueKey) -> bool) -> Vec<Item> {
    let all = |worker| -> u64 {
        to.queues.iter().zip(brought).filter(|(queue, _)| queue.worker == worker).map(|(_, n)| n).sum()
    };
    let item = |(queue, &packets): (&QueueSample, &u64)| {
        let share = packets as f64 / all(queue.worker).max(1) as f64;
        let load = loads.get(queue.worker).copied().unwrap_or_default() * share;
        Item { worker: queue.worker, load, free: queue.stays.is_none() && !rests(queue.key) }
    };
    to.queues.iter().zip(brought).map(item).collect()
}

/// By worker: share of the time in which it had packets. An unresponsive worker counts as fully loaded.
fn loads(from: &Sample, to: &Sample) -> Vec<f64> {
    let time = to.at_ns.saturating_sub(from.at_ns).max(1) as f64;
    let before = |worker: usize| from.busy_ns.get(worker).copied().flatten();
    let share = |(worker, now): (usize, &Option<u64>)| match (before(worker), now) {
        (Some(before), Some(now)) => (now.saturating_sub(before) as f64 / time).clamp(0.0, 1.0),
        _ => 1.0,
    };
    to.busy_ns.iter().enumerate().map(share).collect()
}

/// Packets of a queue since `from`; all of them if it was started later.
fn since(from: &Sample, queue: &QueueSample) -> u64 {
    let same = |old: &&QueueSample| (old.key, old.generation) == (queue.key, queue.generation);
    let before = from.queues.iter().find(same).map_or(0, |old| old.packets);
    queue.packets.saturating_sub(before)
}
