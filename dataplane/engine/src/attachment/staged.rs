//! Ports' queues where stages are joined by handoff queues.
//!
//! A port's transmit queues live on one Tx stage, its outlet, so they need no lock; workers are told by which handoff queue the port is
//! reached. What is in handoff queues when a queue is stopped is judged and sent before the call returns: packets keep the number of their port, and
//! under that number another port may run soon. First the workers are drained, then the outlets: behind a worker's
//! drain everything that was in handoff queues to it is in handoff queues to the outlets.

use super::{Attachment, Placement};
use crate::command::{Command, Generation, QueueKey};
use port::{PortId, TxQueue};

impl Placement {
    /// The outlet of `port`: of those that answer, the one with the fewest ports, for as long as the port has queues there.
    fn outlet(&mut self, port: PortId) -> usize {
        let settled = self.outlets.get(&port).copied();
        settled.unwrap_or_else(|| {
            let load = |at: usize| self.outlets.values().filter(|outlet| **outlet == at).count();
            let stage = |at: usize| &self.links[self.layout.outlets[at]];
            let order = |at: &usize| (stage(*at).is_out_of_service(), load(*at));
            let outlet = (0..self.layout.outlets.len()).min_by_key(order).unwrap_or(0);
            self.outlets.insert(port, outlet);
            outlet
        })
    }
}

impl Attachment<'_> {
    /// Gives a transmit queue to the port's outlet, and shows workers the way there.
    pub(super) fn start_outlet(&mut self, key: QueueKey, generation: Generation, queue: Box<dyn TxQueue>) {
        let at = self.placement.outlet(key.port);
        let stage = self.placement.layout.outlets[at];
        let number = self.placement.links[stage].post(Command::StartTx(key, generation, queue, [].into()));
        // A stuck outlet sends nothing, so it may have its queue later.
        let _ = self.placement.links[stage].wait(number);
        self.show_way(key.port, Some(at as u8));
    }

    /// Tells workers how `port` is reached.
    fn show_way(&mut self, port: PortId, outlet: Option<u8>) {
        let classifiers = self.placement.layout.classifiers.clone();
        let commands = self.placement.post_to(&classifiers, || Command::Route(port, outlet));
        // It is of no harm where it comes late, but a later waiter may rely on it.
        self.wait(&commands);
    }

    /// Nothing comes to the port's outlet any more, when the last of its queues is stopped.
    pub(super) fn leave_outlet(&mut self, key: QueueKey) {
        if !self.placement.layout.routed || self.placement.tx.keys().any(|other| other.port == key.port) {
            return;
        }
        self.show_way(key.port, None);
        let stage = self.placement.outlets.remove(&key.port).map(|at| self.placement.layout.outlets[at]);
        if let Some(stage) = stage {
            let commands = self.placement.post_to(&[stage], || Command::Drain);
            self.wait(&commands);
        }
    }

    /// What is in handoff queues is judged and sent.
    pub(super) fn drain(&mut self) {
        for workers in self.placement.drains() {
            let commands = self.placement.post_to(&workers, || Command::Drain);
            self.wait(&commands);
        }
    }
}
