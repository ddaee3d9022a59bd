//! Which worker a receive queue goes to, and how it goes from one to another.
//!
//! A rule of the configuration comes first, then where the queue was moved to, then the port's home: the worker that had the
//! fewest receive queues when its first queue started. The queue of pair n goes to the worker that is n further, among those
//! that no isolated queue has. Workers are numbered here by their place among those that take packets.
//!
//! A queue moves in four steps, each of which waits for burst boundaries: its worker lets go of it, with everything sent that
//! it had taken; every worker learns where the port is answered from now on; only then the other worker gets it. So no packet
//! of it is in two hands, and none is sent by the new ways before all of the old ones were. What the port's other side reads
//! from one of its rings keeps its order; a flow may change its ring at this moment.

use super::{Attachment, Placement};
use crate::command::{Command, Generation, QueueKey, XpsMap};
use crate::placement::QueueAffinity;
use port::{Attach, PortFault, PortId};
use std::collections::HashMap;

/// A receive queue that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// The worker that serves it.
    pub(crate) worker: usize,
    /// The place of that worker among those that take packets.
    pub(crate) at: usize,
    pub(crate) generation: Generation,
    /// Whether it cannot leave the thread that uses it.
    pub(crate) bound: bool,
}

/// What is known of where receive queues belong.
#[derive(Default)]
pub(crate) struct RxAffinity {
    rules: QueueAffinity,
    names: HashMap<PortId, String>,
    /// Queues that were moved, and where to.
    moved: HashMap<QueueKey, usize>,
    homes: HashMap<PortId, usize>,
}

impl RxAffinity {
    /// Rules for queues that start from now on.
    pub(crate) fn apply(&mut self, rules: QueueAffinity) {
        self.rules = rules;
    }

    /// A port, by whose name rules know it.
    pub(crate) fn call(&mut self, port: PortId, name: String) {
        self.names.insert(port, name);
    }

    /// The port is gone, and its number may be another's soon.
    pub(crate) fn forget(&mut self, port: PortId) {
        self.names.remove(&port);
        self.homes.remove(&port);
        self.moved.retain(|key, _| key.port != port);
    }

    /// The worker that a rule names.
    pub(crate) fn rule(&self, key: QueueKey) -> Option<usize> {
        self.names.get(&key.port).and_then(|name| self.rules.of(name, key.pair))
    }
}

/// Why a queue stays where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotMoved {
    #[error("it does not run any more")]
    Gone,
    #[error("only the thread that uses it can")]
    Bound,
    #[error("worker {0} does not answer")]
    Hung(usize),
    /// The port has to be told.
    #[error("it was stopped for this and could not be started again: {0}")]
    Lost(PortFault),
}

impl Placement {
    /// How many workers take ports' packets.
    pub(crate) fn takers(&self) -> usize {
        self.layout.takers.len()
    }

    /// Workers for queues that no rule names; never none.
    pub(crate) fn open_takers(&self) -> Vec<usize> {
        let open = self.rx_affinity.rules.open(self.takers());
        if open.is_empty() { (0..self.takers()).collect() } else { open }
    }

    /// Whether the worker at that place answers.
    pub(crate) fn answers_at(&self, at: usize) -> bool {
        self.layout.takers.get(at).is_some_and(|worker| !self.links[*worker].is_out_of_service())
    }

    /// Receive queues that run, where they are.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (QueueKey, Placed)> {
        self.rx.iter().map(|(key, placed)| (*key, *placed))
    }

    /// Of the open workers that answer, the one with the fewest receive queues.
    fn least_loaded(&self) -> usize {
        let load = |at: usize| self.rx.values().filter(|placed| placed.at == at).count();
        let order = |at: &usize| (!self.answers_at(*at), load(*at));
        self.open_takers().into_iter().min_by_key(order).unwrap_or(0)
    }

    /// Where the receive queue of pair 0 of `port` belongs. It is settled as long as the port has queues.
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

    /// Where a receive queue belongs.
    fn seat(&mut self, key: QueueKey) -> usize {
        if let Some(at) = self.rx_affinity.rule(key).or(self.rx_affinity.moved.get(&key).copied()) {
            return at.min(self.takers() - 1);
        }
        let (home, open) = (self.home(key.port), self.open_takers());
        let first = open.iter().position(|at| *at == home).unwrap_or(0);
        open[(first + usize::from(key.pair)) % open.len()]
    }

    /// The place that gets a receive queue (its own, or another one while that does not answer) and its worker.
    pub(super) fn place(&mut self, key: QueueKey) -> (usize, usize) {
        let at = self.seat(key);
        let at = if self.answers_at(at) { at } else { self.least_loaded() };
        let spreads = self.rss.contains(&key.port).then(|| self.layout.spreaders.get(at)).flatten();
        (at, *spreads.unwrap_or(&self.layout.takers[at]))
    }

    /// By pair: where the port's receive queues are, or will be when they start.
    pub(super) fn xps_map(&mut self, port: PortId) -> XpsMap {
        let pairs = self.rx.keys().chain(self.tx.keys()).filter(|key| key.port == port).map(|key| key.pair);
        let last = pairs.max().unwrap_or(0);
        let place = |pair| {
            let key = QueueKey { port, pair };
            let placed = self.rx.get(&key).map(|placed| placed.at);
            placed.unwrap_or_else(|| self.seat(key)) as u16
        };
        (0..=last).map(place).collect()
    }

    /// Moves a receive queue that runs to the worker at place `to`.
    ///
    /// # Errors
    /// The queue stays where it is, unless it is lost.
    pub(crate) fn transfer(&mut self, key: QueueKey, to: usize) -> Result<(), NotMoved> {
        let placed = *self.rx.get(&key).ok_or(NotMoved::Gone)?;
        if placed.bound {
            return Err(NotMoved::Bound);
        }
        if let Some(at) = [placed.at, to].into_iter().find(|at| !self.answers_at(*at)) {
            return Err(NotMoved::Hung(at));
        }
        let mut port = Attachment::new(self, key.port);
        let Some(queue) = port.stop_rx(key.pair) else {
            let lost = port.failure().map(NotMoved::Lost);
            // Otherwise it was found broken just now, and its worker's report of that still counts.
            self.running.insert(placed.generation);
            return Err(lost.unwrap_or(NotMoved::Gone));
        };
        port.placement.rx_affinity.moved.insert(key, to);
        port.tell_answers();
        port.start_rx(key.pair, queue);
        port.failure().map_or(Ok(()), |fault| Err(NotMoved::Lost(fault)))
    }
}

impl Attachment<'_> {
    /// Every worker that sends to the port learns where its receive queues are, unless it knows.
    pub(super) fn tell_answers(&mut self) {
        let port = self.port;
        if self.placement.layout.routed || !self.placement.tx.keys().any(|key| key.port == port) {
            return;
        }
        let xps_map = self.placement.xps_map(port);
        if self.placement.told.get(&port) == Some(&xps_map) {
            return;
        }
        self.placement.told.insert(port, xps_map.clone());
        let workers = self.placement.layout.outlets.clone();
        let commands = self.placement.post_to(&workers, || Command::SetXpsMap(port, xps_map.clone()));
        self.wait(&commands);
    }
}
