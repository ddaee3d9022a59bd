//! Receive queues that any worker may serve ([`StealableQueue`]).

use super::{Attachment, Placed, Placement};
use crate::command::{Command, QueueKey};
use crate::placement::QueueAffinity;
use crate::stealable::StealableQueue;
use port::RxQueue;
use std::sync::Arc;

impl Placement {
    /// Packets received by a shared queue; `None` if it is not shared.
    pub(crate) fn shared_packets(&self, key: QueueKey) -> Option<u64> {
        self.stealable_queues.get(&key).map(|stealable| stealable.packets())
    }

    /// Sets the rules for queues that start from now on. With shared queues, every worker first gets the list of
    /// workers that do not steal; commands are handled in order, so it has the list before any of these queues
    /// starts.
    pub(crate) fn apply_rules(&mut self, rules: QueueAffinity) {
        if self.layout.steals {
            let dedicated: Arc<[bool]> = (0..self.rx_workers()).map(|at| rules.owner(at).is_some()).collect();
            self.post_to(&self.layout.rx_stages, || Command::SetDedicated(dedicated.clone()));
        }
        self.rx_affinity.apply(rules);
    }
}

impl Attachment<'_> {
    /// Gives the queue to every worker; its home is the worker with index `placed.at`.
    /// Returns the commands to wait for.
    pub(super) fn share(
        &mut self,
        key: QueueKey,
        placed: Placed,
        queue: Box<dyn RxQueue>,
    ) -> Vec<(usize, u64)> {
        let stays = placed.bound || self.placement.rx_affinity.rule(key).is_some();
        let stealable = Arc::new(StealableQueue::new(key, placed.generation, (placed.at, stays), queue));
        self.placement.stealable_queues.insert(key, stealable.clone());
        let workers = self.placement.layout.rx_stages.clone();
        self.placement.post_to(&workers, || Command::Share(stealable.clone()))
    }

    /// Takes the queue from every worker. Returns it in the state in which it stopped.
    pub(super) fn unshare(&mut self, key: QueueKey) -> Option<Box<dyn RxQueue>> {
        let stealable = self.placement.stealable_queues.remove(&key)?;
        let workers = self.placement.layout.rx_stages.clone();
        let commands = self.placement.post_to(&workers, || Command::Unshare(key));
        if self.wait(&commands) {
            return stealable.take();
        }
        // The control thread keeps a reference, so that no worker drops the queue.
        self.placement.kept.push(stealable);
        None
    }
}
