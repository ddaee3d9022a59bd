//! Measures load and moves queues: on request, and periodically if configured.
//!
//! A measurement requests the counts of every worker that receives packets, at a burst boundary. Load monitoring does
//! so once per interval, which wakes sleeping workers; without it, nothing here runs.

use super::Control;
use crate::attachment::MoveError;
use crate::balance::{Balance, QueueSample, Rebalancing, Sample, Watch};
use crate::command::{Command, LoadReport, QueueKey};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Last result of load monitoring. Written by the control thread.
#[derive(Default)]
pub(crate) struct Latest(Mutex<Option<Balance>>);

impl Latest {
    pub(crate) fn get(&self) -> Option<Balance> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, balance: Option<Balance>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = balance;
    }
}

/// State of load monitoring.
pub(crate) struct Balancing {
    watch: Watch,
    pub(super) due: Instant,
}

impl Control {
    /// Enables or disables load monitoring.
    pub(super) fn rebalance_as(&mut self, wanted: Option<Rebalancing>) {
        self.latest.set(None);
        let begin = |wanted: Rebalancing| Balancing { due: Instant::now(), watch: Watch::new(wanted) };
        self.balancing = wanted.map(begin);
    }

    /// Begins load monitoring anew, if it is enabled.
    pub(super) fn restart_balancing(&mut self) {
        let wanted = self.balancing.as_ref().map(|balancing| balancing.watch.wanted);
        self.rebalance_as(wanted);
    }

    /// Evaluates the load if due, and moves queues if configured.
    pub(super) fn balance(&mut self, now: Instant) {
        let Some(mut balancing) = self.balancing.take_if(|balancing| balancing.due <= now) else { return };
        let (sample, registry) = (self.sample(), self.registry.clone());
        if let Some(look) = balancing.watch.evaluate(sample, |port| registry.name(port)) {
            let mut balance = look.balance;
            if balancing.watch.wanted.moves && !look.moves.is_empty() {
                let failures = self.transfer(&look.moves);
                balance.moves.iter_mut().zip(failures).for_each(|(step, failure)| step.failure = failure);
                balance.done = true;
                balancing.watch.moved(look.moves.iter().map(|(key, _)| *key));
            }
            self.latest.set(Some(balance));
        }
        balancing.due = now + balancing.watch.wanted.interval;
        self.balancing = Some(balancing);
    }

    /// Current counts of every worker that receives packets.
    pub(super) fn sample(&mut self) -> Sample {
        let layout = &self.placement.layout;
        let workers: Vec<usize> = layout.rx_stages.iter().chain(&layout.distributors).copied().collect();
        let asked = self.placement.post_to(&workers, || Command::ReportLoad);
        let links = &self.placement.links;
        let answer = |(worker, number): (usize, u64)| {
            links[worker].wait(number).then(|| (worker, links[worker].load()))
        };
        let told: HashMap<usize, LoadReport> = asked.into_iter().filter_map(answer).collect();
        let at_ns = self.placement.clock().now().0;
        let busy = |worker: &usize| told.get(worker).map(|load| self.placement.clock().ns(load.busy_ticks));
        // Except in a pipeline, an Rx stage and the distributor with the same index share a thread.
        let busy_ns = layout.rx_stages.iter().enumerate().map(|(at, rx_stage)| {
            let distributor = layout.distributors.get(at).filter(|distributor| *distributor != rx_stage);
            Some(busy(rx_stage)? + distributor.map_or(Some(0), busy)?)
        });
        let busy_ns = busy_ns.collect();
        Sample { at_ns, busy_ns, queues: self.queue_samples(&told), open: self.open() }
    }

    fn open(&self) -> Vec<usize> {
        let open = self.placement.unreserved_workers().into_iter();
        open.filter(|at| self.placement.is_responsive(*at)).collect()
    }

    fn queue_samples(&self, told: &HashMap<usize, LoadReport>) -> Vec<QueueSample> {
        let packets = |worker: usize, key| {
            if let Some(packets) = self.placement.shared_packets(key) {
                return Some(packets);
            }
            let load = told.get(&worker)?.queues.iter().find(|queue| queue.key == key)?;
            Some(load.packets)
        };
        let mut queues: Vec<_> = self
            .placement
            .placed()
            .map(|(key, placed)| QueueSample {
                key,
                generation: placed.generation,
                worker: placed.at,
                packets: packets(placed.worker, key).unwrap_or(0),
                stays: match (self.placement.rx_affinity.rule(key), placed.bound) {
                    (Some(_), _) => Some("its worker is configured"),
                    (None, true) => Some("its port requires its current thread"),
                    (None, false) => None,
                },
            })
            .collect();
        queues.sort_by_key(|queue| (queue.key.port, queue.key.pair));
        queues
    }

    /// Moves queues one after the other. Returns, for each, the reason if it was not moved.
    pub(super) fn transfer(&mut self, moves: &[(QueueKey, usize)]) -> Vec<Option<String>> {
        let step = |&(key, to): &(QueueKey, usize)| {
            let failure = self.placement.transfer(key, to).err()?;
            if let MoveError::Lost(fault) = &failure {
                let fault = fault.clone();
                self.with_port(key.port, |control, engine| control.fault(Instant::now(), fault, engine));
            }
            Some(failure.to_string())
        };
        moves.iter().map(step).collect()
    }
}
