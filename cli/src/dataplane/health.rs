//! Health of the running switch: workers that hang, and ports that do not carry packets because of a fault.
//!
//! A worker hangs if it neither sleeps nor ends a round for [`STALL`]. The work of a round is bounded, so that only a
//! fault, or a system that gives it no time, keeps it from ending one.

use engine::{Snapshot, WorkerSnapshot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use utoipa::ToSchema;

/// Time without a round after which a worker hangs.
pub(crate) const STALL: Duration = Duration::from_secs(5);

/// `GET /healthz`: whether the process does its work. A supervisor that is told otherwise should end it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct HealthReport {
    /// Workers that hang.
    pub(crate) hung_workers: Vec<HungWorker>,
}

/// A worker that neither sleeps nor ends a round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct HungWorker {
    /// Index of the worker.
    pub(crate) worker: usize,
    /// The CPU that it is pinned to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu: Option<usize>,
    /// Seconds since its last round.
    pub(crate) seconds: u64,
    /// The step that it is in with its port, and what its thread does as far as the kernel knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<String>,
}

/// `GET /readyz`: whether all ports can carry packets as soon as their peers connect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ReadyReport {
    /// Ports that have failed, with their reason.
    pub(crate) faulted_ports: BTreeMap<String, String>,
}

impl ReadyReport {
    pub(crate) fn of(now: &Snapshot) -> Self {
        let faulted = now.ports.iter().filter(|port| port.state == "faulted");
        let reason = |port: &engine::PortSnapshot| port.reason.clone().unwrap_or_default();
        Self { faulted_ports: faulted.map(|port| (port.name.clone(), reason(port))).collect() }
    }
}

/// The last progress of each worker, as seen by an observer that looks at them again and again.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    seen: BTreeMap<usize, (u64, Instant)>,
}

impl Progress {
    /// The workers that hang. Time before the first call does not count.
    pub(crate) fn observe(&mut self, workers: &[WorkerSnapshot], now: Instant) -> HealthReport {
        self.seen.retain(|index, _| workers.iter().any(|worker| worker.index == *index));
        let hung = workers.iter().filter_map(|worker| {
            let mark = worker.progress();
            let (last, since) = self.seen.entry(worker.index).or_insert((mark, now));
            if *last != mark || worker.sleeping {
                (*last, *since) = (mark, now);
            }
            let silent = now - *since;
            let hung =
                HungWorker { worker: worker.index, cpu: worker.cpu, seconds: silent.as_secs(), step: None };
            (silent >= STALL).then_some(hung)
        });
        HealthReport { hung_workers: hung.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(index: usize, polls: u64, sleeping: bool) -> WorkerSnapshot {
        WorkerSnapshot { index, polls, sleeping, ..WorkerSnapshot::default() }
    }

    #[test]
    fn a_worker_without_queues_to_poll_does_not_hang() {
        let (mut progress, start) = (Progress::default(), Instant::now());
        let mut at = |seconds: u64, cycles: u64| {
            let worker = WorkerSnapshot { idle_cycles: cycles, ..WorkerSnapshot::default() };
            progress.observe(&[worker], start + Duration::from_secs(seconds)).hung_workers.len()
        };
        assert_eq!([at(0, 5), at(9, 6), at(18, 7), at(27, 7)], [0, 0, 0, 1]);
    }

    #[test]
    fn a_worker_that_neither_sleeps_nor_ends_a_round_hangs() {
        let (mut progress, start) = (Progress::default(), Instant::now());
        let mut at = |seconds: u64, polls: u64| {
            let workers = [worker(0, polls, false), worker(1, 7, true), worker(2, seconds, false)];
            progress.observe(&workers, start + Duration::from_secs(seconds)).hung_workers
        };
        assert!(at(0, 5).is_empty() && at(4, 5).is_empty());
        assert_eq!(at(5, 5), [HungWorker { worker: 0, seconds: 5, ..HungWorker::default() }]);
        assert_eq!(at(60, 5)[0].seconds, 60);
        assert!(at(61, 6).is_empty(), "it polls again");
    }

    #[test]
    fn failed_ports_are_not_ready_and_those_that_wait_are() {
        let port = |name: &str, state: &str, reason: Option<&str>| engine::PortSnapshot {
            name: name.to_owned(),
            state: state.to_owned(),
            reason: reason.map(str::to_owned),
            ..Default::default()
        };
        let ports = vec![port("a", "waiting", None), port("b", "faulted", Some("no such interface"))];
        let report = ReadyReport::of(&Snapshot { ports, ..Snapshot::default() });
        assert_eq!(report.faulted_ports, [("b".to_owned(), "no such interface".to_owned())].into());
    }

    #[test]
    fn a_worker_that_wakes_is_observed_from_then_on() {
        let (mut progress, start) = (Progress::default(), Instant::now());
        progress.observe(&[worker(0, 5, true)], start);
        let woken = [worker(0, 5, false)];
        let later = start + Duration::from_secs(100);
        progress.observe(&[worker(0, 5, true)], later);
        assert!(progress.observe(&woken, later + Duration::from_secs(4)).hung_workers.is_empty());
        assert_eq!(progress.observe(&woken, later + STALL).hung_workers.len(), 1);
        assert!(progress.observe(&[], later + STALL).hung_workers.is_empty(), "it was removed");
        assert!(progress.observe(&woken, later + 2 * STALL).hung_workers.is_empty(), "and added again");
    }
}
