//! Receive queues that any worker may serve ([`StealableQueue`]).

use super::{Attachment, Placed, Placement};
use crate::command::{Command, QueueKey};
use crate::placement::QueueAffinity;
use crate::stealable::StealableQueue;
use port::RxQueue;
use std::sync::Arc;

impl Placement {
    /// What a shared queue has brought; `None`: it is not shared.
    pub(crate) fn shared_packets(&self, key: QueueKey) -> Option<u64> {
        self.stalls.get(&key).map(|stealable| stealable.packets())
    }

    /// Rules for queues that start from now on. Where queues are shared, every worker learns which ones have no part in it;
    /// commands are obeyed in order, so it knows before any of those queues start.
    pub(crate) fn obey_rules(&mut self, rules: QueueAffinity) {
        if self.layout.steals {
            let alone: Arc<[bool]> = (0..self.takers()).map(|at| rules.owner(at).is_some()).collect();
            self.post_to(&self.layout.takers, || Command::LeaveAlone(alone.clone()));
        }
        self.rx_affinity.apply(rules);
    }
}

impl Attachment<'_> {
    /// Every worker learns of the queue, whose home is the worker at place `at`.
    pub(super) fn share(&mut self, key: QueueKey, placed: Placed, queue: Box<dyn RxQueue>) {
        let stays = placed.bound || self.placement.rx_affinity.rule(key).is_some();
        let stealable = Arc::new(StealableQueue::new(key, placed.generation, (placed.at, stays), queue));
        self.placement.stalls.insert(key, stealable.clone());
        let workers = self.placement.layout.takers.clone();
        let commands = self.placement.post_to(&workers, || Command::Share(stealable.clone()));
        self.wait(&commands);
    }

    /// Every worker forgets the queue, and it comes back exactly where it stopped.
    pub(super) fn unshare(&mut self, key: QueueKey) -> Option<Box<dyn RxQueue>> {
        let stealable = self.placement.stalls.remove(&key)?;
        let workers = self.placement.layout.takers.clone();
        let commands = self.placement.post_to(&workers, || Command::Unshare(key));
        if self.wait(&commands) {
            return stealable.take();
        }
        // Control keeps it, so that no worker is the one that drops it.
        self.placement.kept.push(stealable);
        None
    }
}
