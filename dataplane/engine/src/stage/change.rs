//! Adds and removes stages while ports stay connected.
//!
//! All queues of ports stop, as for a hand-over to another process ([`crate::control`]), so that nothing is on its way
//! and no packet is lost. Arriving packets wait in the queues of ports meanwhile, for two burst boundaries of every
//! worker. Then the layout changes, and the queues start again, on the workers that the new layout assigns to them.

use super::{Joiner, Layout};
use crate::attachment::Placement;
use crate::command::Command;
use crate::link::Link;
use crate::model::Role;
use crate::placement::QueueAffinity;
use crate::worker::Peer;
use std::io;
use std::sync::Arc;

/// A change of the set of stages.
pub(crate) struct StageChange {
    /// Stages whose threads are running. Their indices are those of removed stages, or follow the last one.
    pub(crate) added: Vec<NewStage>,
    pub(crate) removed: Vec<usize>,
    /// All stages afterwards, for workers that share queues.
    pub(crate) peers: Arc<[Peer]>,
    /// Rules for receive queues; `None` if they stay.
    pub(crate) rules: Option<QueueAffinity>,
}

/// A stage to be added.
pub(crate) struct NewStage {
    pub(crate) index: usize,
    pub(crate) role: Role,
    pub(crate) link: Arc<Link>,
}

impl Placement {
    /// Changes the layout. No queue of a port is running, and all handoff queues are empty.
    ///
    /// # Errors
    /// Returns an error if no descriptors are available. Nothing has changed then.
    pub(crate) fn change_stages(&mut self, joiner: Option<&Joiner>, change: StageChange) -> io::Result<()> {
        for NewStage { index, link, .. } in &change.added {
            match self.links.get_mut(*index) {
                Some(place) => *place = link.clone(),
                None => self.links.push(link.clone()),
            }
        }
        let mut layout = self.layout.clone();
        change.removed.iter().for_each(|stage| layout.remove(*stage));
        change.added.iter().for_each(|stage| layout.add(stage.role, stage.index));
        if let Some(joiner) = joiner {
            for (worker, number) in joiner.join(&self.links, &self.layout, &layout)? {
                // A stuck worker does not receive or forward, so waiting for it is not necessary.
                let _ = self.links[worker].wait(number);
            }
        }
        let before = std::mem::replace(&mut self.layout, layout);
        self.tell_workers(&change.peers);
        self.rearrange(&before, change.rules);
        Ok(())
    }

    /// Tells the workers among how many the queue pairs of a port are divided, and with which others they share queues.
    pub(crate) fn tell_workers(&self, peers: &Arc<[Peer]>) {
        let Layout { rx_stages, outlets, routed, steals, .. } = &self.layout;
        if !routed {
            self.post_to(outlets, || Command::SetWorkers(outlets.len()));
        }
        if *steals {
            for (me, stage) in rx_stages.iter().enumerate() {
                self.links[*stage].post(Command::SetPeers(me, peers.clone()));
            }
        }
    }

    /// Assigns queues to the workers of this layout, as far as possible to the same ones.
    fn rearrange(&mut self, before: &Layout, rules: Option<QueueAffinity>) {
        let outlets = &self.layout.outlets;
        self.outlets.retain(|_, stage| outlets.contains(stage));
        self.renumber_workers(&before.rx_stages);
        let rules = rules.unwrap_or_else(|| self.rx_affinity.rules().clone());
        self.apply_rules(rules);
        self.place_all();
    }

    /// Groups of stages whose handoff queues must be drained, in this order, until all are empty.
    pub(crate) fn drain_groups(&self) -> Vec<Vec<usize>> {
        let layout = &self.layout;
        match (layout.routed, layout.distributors.is_empty()) {
            (true, _) => vec![layout.classifiers.clone(), layout.outlets.clone()],
            (false, false) => vec![layout.classifiers.clone()],
            (false, true) => Vec::new(),
        }
    }
}
