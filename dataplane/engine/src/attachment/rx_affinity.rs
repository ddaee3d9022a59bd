//! Receive-queue affinity: selects the worker of each receive queue, and moves queues between workers.
//!
//! An affinity rule takes precedence, then the target of an earlier move, then the home of the port: the worker that
//! had the fewest receive queues when the port's first queue started. The queue of pair n goes to the n-th worker
//! after the home, among the workers without an isolated queue. Workers are indexed among those that receive packets.
//!
//! A move has four steps, each of which waits for burst boundaries. The old worker releases the queue after it has
//! sent everything that it received. Handoff queues are drained. Every worker gets the new XPS map. Only then the new
//! worker gets the queue. No packet is therefore handled by two workers, and none is sent with the new map before all
//! are sent with the old one. Each transmit ring of a port keeps its order; a flow may change its ring at this point.

use super::{Attachment, Placement};
use crate::command::{Command, Generation, QueueKey, XpsMap};
use crate::placement::QueueAffinity;
use port::{Attach, PortFault, PortId};
use std::collections::HashMap;

/// A running receive queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// The stage that serves it.
    pub(crate) worker: usize,
    /// Index of its worker among those that receive packets.
    pub(crate) at: usize,
    pub(crate) generation: Generation,
    /// Whether it is bound to its thread and cannot be moved.
    pub(crate) bound: bool,
}

/// State of receive-queue assignment.
#[derive(Default)]
pub(crate) struct RxAffinity {
    rules: QueueAffinity,
    names: HashMap<PortId, String>,
    /// Targets of moved queues.
    moved: HashMap<QueueKey, usize>,
    homes: HashMap<PortId, usize>,
}

impl RxAffinity {
    /// Sets the rules for queues that start from now on.
    pub(crate) fn apply(&mut self, rules: QueueAffinity) {
        self.rules = rules;
    }

    pub(crate) fn rules(&self) -> &QueueAffinity {
        &self.rules
    }

    /// Sets the name of a port, by which rules refer to it.
    pub(crate) fn set_name(&mut self, port: PortId, name: String) {
        self.names.insert(port, name);
    }

    /// Forgets a removed port, because its number may be reused.
    pub(crate) fn forget(&mut self, port: PortId) {
        self.names.remove(&port);
        self.homes.remove(&port);
        self.moved.retain(|key, _| key.port != port);
    }

    /// The worker that a rule specifies.
    pub(crate) fn rule(&self, key: QueueKey) -> Option<usize> {
        self.names.get(&key.port).and_then(|name| self.rules.of(name, key.pair))
    }
}

/// Why a queue was not moved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MoveError {
    #[error("it is no longer running")]
    Gone,
    #[error("its port requires its current thread")]
    Bound,
    #[error("worker {0} does not respond")]
    Hung(usize),
    /// The port must be notified.
    #[error("it was stopped for the move and could not be restarted: {0}")]
    Lost(PortFault),
}

impl Placement {
    /// Number of workers that receive packets.
    pub(crate) fn rx_workers(&self) -> usize {
        self.layout.rx_stages.len()
    }

    /// Workers for queues without a rule; never empty.
    pub(crate) fn unreserved_workers(&self) -> Vec<usize> {
        let open = self.rx_affinity.rules.open(self.rx_workers());
        if open.is_empty() { (0..self.rx_workers()).collect() } else { open }
    }

    /// Whether the worker with this index is responsive.
    pub(crate) fn is_responsive(&self, at: usize) -> bool {
        self.layout.rx_stages.get(at).is_some_and(|worker| !self.links[*worker].is_out_of_service())
    }

    /// All running receive queues with their placement.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (QueueKey, Placed)> {
        self.rx.iter().map(|(key, placed)| (*key, *placed))
    }

    /// The responsive open worker with the fewest receive queues.
    fn least_loaded(&self) -> usize {
        let load = |at: usize| self.rx.values().filter(|placed| placed.at == at).count();
        let order = |at: &usize| (!self.is_responsive(*at), load(*at));
        self.unreserved_workers().into_iter().min_by_key(order).unwrap_or(0)
    }

    /// Worker of the receive queue of pair 0 of `port`, fixed while the port has queues.
    fn home(&mut self, port: PortId) -> usize {
        if !self.has_queues(port) {
            self.rx_affinity.homes.remove(&port);
        }
        let settled = self.rx_affinity.homes.get(&port).copied();
        settled.unwrap_or_else(|| {
            let home = self.least_loaded();
            self.rx_affinity.homes.insert(port, home);
            home
        })
    }

    /// The assigned worker of a receive queue.
    fn assigned(&mut self, key: QueueKey) -> usize {
        if let Some(at) = self.rx_affinity.rule(key).or(self.rx_affinity.moved.get(&key).copied()) {
            return at.min(self.rx_workers() - 1);
        }
        let (home, open) = (self.home(key.port), self.unreserved_workers());
        let first = open.iter().position(|at| *at == home).unwrap_or(0);
        open[(first + usize::from(key.pair)) % open.len()]
    }

    /// Worker index and stage for a receive queue: its assigned worker, or another one while that is unresponsive.
    pub(super) fn place(&mut self, key: QueueKey) -> (usize, usize) {
        let at = self.assigned(key);
        let at = if self.is_responsive(at) { at } else { self.least_loaded() };
        let distributor = self.rss.contains(&key.port).then(|| self.layout.distributors.get(at)).flatten();
        (at, *distributor.unwrap_or(&self.layout.rx_stages[at]))
    }

    /// Homes and moved queues keep their workers, which may have other indices. What was assigned to a removed worker
    /// is assigned anew.
    pub(crate) fn renumber_workers(&mut self, before: &[usize]) {
        let after = &self.layout.rx_stages;
        let number = |at: usize| after.iter().position(|stage| before.get(at) == Some(stage));
        let RxAffinity { moved, homes, .. } = &mut self.rx_affinity;
        *homes = homes.drain().filter_map(|(port, at)| Some((port, number(at)?))).collect();
        *moved = moved.drain().filter_map(|(key, at)| Some((key, number(at)?))).collect();
        for placed in self.rx.values_mut() {
            // No worker, until `place_all`.
            placed.at = number(placed.at).unwrap_or(usize::MAX);
        }
    }

    /// Assigns every receive queue, none of which runs.
    pub(crate) fn place_all(&mut self) {
        let mut keys: Vec<_> = self.rx.keys().copied().collect();
        keys.sort_by_key(|key| (key.port, key.pair));
        for key in keys {
            let (at, worker) = self.place(key);
            if let Some(placed) = self.rx.get_mut(&key) {
                (placed.at, placed.worker) = (at, worker);
            }
        }
    }

    /// Worker of each pair of the port, current or assigned for pairs without a running receive queue.
    pub(super) fn xps_map(&mut self, port: PortId) -> XpsMap {
        let pairs = self.rx.keys().chain(self.tx.keys()).filter(|key| key.port == port).map(|key| key.pair);
        let last = pairs.max().unwrap_or(0);
        let place = |pair| {
            let key = QueueKey { port, pair };
            let placed = self.rx.get(&key).map(|placed| placed.at);
            placed.unwrap_or_else(|| self.assigned(key)) as u16
        };
        (0..=last).map(place).collect()
    }

    /// Moves a running receive queue to the worker with index `to`.
    ///
    /// # Errors
    /// Returns the reason. The queue stays on its worker, unless it is lost.
    pub(crate) fn transfer(&mut self, key: QueueKey, to: usize) -> Result<(), MoveError> {
        let placed = *self.rx.get(&key).ok_or(MoveError::Gone)?;
        if placed.bound {
            return Err(MoveError::Bound);
        }
        if let Some(at) = [placed.at, to].into_iter().find(|at| !self.is_responsive(*at)) {
            return Err(MoveError::Hung(at));
        }
        let mut port = Attachment::new(self, key.port);
        let Some(queue) = port.stop_rx(key.pair) else {
            let lost = port.failure().map(MoveError::Lost);
            // The queue failed just now; the fault reported by its worker must still be handled.
            self.running.insert(placed.generation);
            return Err(lost.unwrap_or(MoveError::Gone));
        };
        port.placement.rx_affinity.moved.insert(key, to);
        port.send_xps_map();
        port.start_rx(key.pair, queue);
        port.failure().map_or(Ok(()), |fault| Err(MoveError::Lost(fault)))
    }
}

impl Attachment<'_> {
    /// Sends the port's XPS map to every worker that sends to the port, if it changed.
    pub(super) fn send_xps_map(&mut self) {
        let port = self.port;
        if self.placement.layout.routed || !self.placement.tx.keys().any(|key| key.port == port) {
            return;
        }
        let xps_map = self.placement.xps_map(port);
        if self.placement.sent_xps_maps.get(&port) == Some(&xps_map) {
            return;
        }
        self.placement.sent_xps_maps.insert(port, xps_map.clone());
        let workers = self.placement.layout.outlets.clone();
        let commands = self.placement.post_to(&workers, || Command::SetXpsMap(port, xps_map.clone()));
        self.wait(&commands);
    }
}
