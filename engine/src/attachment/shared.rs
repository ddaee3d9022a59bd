//! Receive queues that any worker may serve ([`Stall`]).

use super::{Attachment, Placed, Placement};
use crate::command::{Command, QueueKey};
use crate::placement::Seats;
use crate::stall::Stall;
use port::RxQueue;
use std::sync::Arc;

impl Placement {
    /// What a shared queue has brought; `None`: it is not shared.
    pub(crate) fn shared_packets(&self, key: QueueKey) -> Option<u64> {
        self.stalls.get(&key).map(|stall| stall.packets())
    }

    /// Rules for queues that start from now on. Where queues are shared, every worker learns which ones have no part in it;
    /// commands are obeyed in order, so it knows before any of those queues start.
    pub(crate) fn obey_rules(&mut self, rules: Seats) {
        if self.layout.steals {
            let alone: Arc<[bool]> = (0..self.takers()).map(|at| rules.owner(at).is_some()).collect();
            self.post_to(&self.layout.takers, || Command::LeaveAlone(alone.clone()));
        }
        self.seating.obey(rules);
    }
}

impl Attachment<'_> {
    /// Every worker learns of the queue, whose home is the worker at place `at`.
    pub(super) fn share(&mut self, key: QueueKey, placed: Placed, queue: Box<dyn RxQueue>) {
        let stays = placed.bound || self.placement.seating.rule(key).is_some();
        let stall = Arc::new(Stall::new(key, placed.serial, (placed.at, stays), queue));
        self.placement.stalls.insert(key, stall.clone());
        let workers = self.placement.layout.takers.clone();
        let commands = self.placement.post_to(&workers, || Command::Share(stall.clone()));
        self.wait(&commands);
    }

    /// Every worker forgets the queue, and it comes back exactly where it stopped.
    pub(super) fn unshare(&mut self, key: QueueKey) -> Option<Box<dyn RxQueue>> {
        let stall = self.placement.stalls.remove(&key)?;
        let workers = self.placement.layout.takers.clone();
        let commands = self.placement.post_to(&workers, || Command::Unshare(key));
        if self.wait(&commands) {
            return stall.take();
        }
        // Control keeps it, so that no worker is the one that drops it.
        self.placement.kept.push(stall);
        None
    }
}
