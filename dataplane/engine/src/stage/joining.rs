//! Connects stages by handoff queues, and separates them. Stages are connected by commands.
//!
//! At the start, the stages have no ports yet. Later, no queue of a port runs and all handoff queues are empty
//! ([`super::change`]): a stage more or less changes the worker of flows, and packets of a flow must stay in order.

use super::{Distributor, Layout};
use crate::command::{Command, Generation, QueueKey};
use crate::handoff;
use crate::link::Link;
use crate::model::HandoffConfig;
use mem::pool::Pool;
use port::Rss;
use std::io;
use std::sync::Arc;

/// Resources for connecting stages.
pub(crate) struct Joiner {
    pub(crate) pool: Arc<Pool>,
    pub(crate) handoffs: HandoffConfig,
    pub(crate) rss: Rss,
    /// Ports have numbers below this; handoff queues have numbers from this on.
    pub(crate) max_ports: usize,
}

impl Joiner {
    /// Connects the stages of a layout that were not connected in the layout `before`, which may be empty, and
    /// separates the others. Returns the commands to wait for.
    ///
    /// # Errors
    /// Returns an error if no descriptors are available. Nothing has changed then.
    pub(crate) fn join(
        &self,
        links: &[Arc<Link>],
        before: &Layout,
        layout: &Layout,
    ) -> io::Result<Vec<(usize, u64)>> {
        let [old, new]: [Vec<_>; 2] = [before, layout].map(|layout| layout.connections().collect());
        self.connect(links, new.iter().filter(|pair| !old.contains(pair)).copied())?;
        let gone = old.into_iter().filter(|pair| !new.contains(pair));
        let separated = gone.flat_map(|pair| self.separate(links, pair)).collect();
        self.distribute_over(links, layout);
        Ok(separated)
    }

    /// Has every distributor distribute to all classifiers.
    fn distribute_over(&self, links: &[Arc<Link>], layout: &Layout) {
        let classifiers: Vec<_> =
            layout.classifiers.iter().map(|&classify| handoff::port(self.max_ports, classify)).collect();
        for &distributor in &layout.distributors {
            let pipeline = Distributor::new(self.handoffs.order, self.rss, &classifiers);
            links[distributor].post(Command::SetPipeline(Box::new(pipeline)));
        }
    }

    /// Creates a handoff queue for each pair of stages, after the existing ones of the first stage. Creates none if
    /// one fails.
    fn connect(&self, links: &[Arc<Link>], pairs: impl Iterator<Item = (usize, usize)>) -> io::Result<()> {
        let pairs: Vec<_> = pairs.collect();
        let handoffs = pairs
            .iter()
            .map(|_| handoff::handoff(&self.pool, &self.handoffs))
            .collect::<io::Result<Vec<_>>>()?;
        for (pair, (sender, receiver)) in pairs.into_iter().zip(handoffs) {
            let (key, (from, to)) = (self.key(pair), pair);
            links[to].post(Command::StartRx(key, Generation(0), Box::new(receiver)));
            links[from].post(Command::AddHandoff(key.port, sender));
        }
        Ok(())
    }

    /// Removes the handoff queue of a pair of stages. A stage that has ended has dropped its end.
    fn separate(&self, links: &[Arc<Link>], pair: (usize, usize)) -> [(usize, u64); 2] {
        let (key, (from, to)) = (self.key(pair), pair);
        let sender = links[from].post(Command::RemoveHandoff(key.port));
        [(from, sender), (to, links[to].post(Command::StopRx(key)))]
    }

    fn key(&self, (from, to): (usize, usize)) -> QueueKey {
        QueueKey { port: handoff::port(self.max_ports, to), pair: from as u16 }
    }
}
