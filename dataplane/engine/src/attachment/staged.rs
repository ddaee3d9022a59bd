//! Transmit queues of ports in the pipeline model.
//!
//! The transmit queues of a port are on one Tx stage, its outlet, so they need no lock; workers get a route to it.
//! When a queue stops, packets in handoff queues are classified and sent before the call returns, because packets
//! carry the number of their port, which may be reused soon. Workers are drained first, then outlets: after the drain
//! of a worker, everything that was in handoff queues to it is in handoff queues to outlets.

use super::{Attachment, Placement};
use crate::command::{Command, Generation, QueueKey};
use port::{PortId, TxQueue};

impl Placement {
    /// The stage that is the outlet of `port`, kept while the port has queues there. Selects the responsive outlet
    /// with the fewest ports.
    fn outlet(&mut self, port: PortId) -> usize {
        let settled = self.outlets.get(&port).copied();
        settled.unwrap_or_else(|| {
            let load = |stage: usize| self.outlets.values().filter(|outlet| **outlet == stage).count();
            let order = |stage: &usize| (self.links[*stage].is_out_of_service(), load(*stage));
            let outlet = self.layout.outlets.iter().copied().min_by_key(order).unwrap_or(0);
            self.outlets.insert(port, outlet);
            outlet
        })
    }
}

impl Attachment<'_> {
    /// Starts a transmit queue on the port's outlet and routes the port to it.
    pub(super) fn start_outlet(&mut self, key: QueueKey, generation: Generation, queue: Box<dyn TxQueue>) {
        let stage = self.placement.outlet(key.port);
        let number = self.placement.links[stage].post(Command::StartTx(key, generation, queue, [].into()));
        self.wait_for_outlets(&[(stage, number)]);
        self.set_route(key.port, Some(stage));
    }

    /// Sets the route to `port` on all workers.
    fn set_route(&mut self, port: PortId, outlet: Option<usize>) {
        let classifiers = self.placement.layout.classifiers.clone();
        let commands = self.placement.post_to(&classifiers, || Command::Route(port, outlet));
        // A late route is harmless, but later waits must include it.
        self.wait(&commands);
    }

    /// Removes the route to the port's outlet and drains the outlet, once the last transmit queue of the port stops.
    pub(super) fn leave_outlet(&mut self, key: QueueKey) {
        if !self.placement.layout.routed || self.placement.tx.keys().any(|other| other.port == key.port) {
            return;
        }
        self.set_route(key.port, None);
        if let Some(stage) = self.placement.outlets.remove(&key.port) {
            let commands = self.placement.post_to(&[stage], || Command::Drain);
            self.wait(&commands);
        }
    }

    /// Classifies and sends all packets in handoff queues.
    pub(super) fn drain(&mut self) {
        for workers in self.placement.drain_groups() {
            let commands = self.placement.post_to(&workers, || Command::Drain);
            self.wait(&commands);
        }
    }
}
