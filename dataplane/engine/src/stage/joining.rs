//! Connects stages, and adds a stage while packets flow.
//!
//! Stages are connected by commands. Another worker stage changes the assignment of flows, and packets of a flow must
//! stay in order: the Rx stages pause, the handoff queues are drained stage by stage, and only then the Rx stages
//! spread over one worker more. The queues of ports hold arriving packets meanwhile. A new Rx or Tx stage serves
//! ports that start later.

use super::{Distributor, Layout};
use crate::attachment::Placement;
use crate::command::{Command, Generation, QueueKey};
use crate::handoff;
use crate::link::Link;
use crate::model::{HandoffConfig, Role};
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
    /// Connects all stages of a layout, before the first port is added.
    pub(crate) fn join_all(&self, links: &[Arc<Link>], layout: &Layout) -> io::Result<()> {
        self.join(links, layout.connections())?;
        self.distribute_over(links, layout);
        Ok(())
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
    fn join(&self, links: &[Arc<Link>], pairs: impl Iterator<Item = (usize, usize)>) -> io::Result<()> {
        let pairs: Vec<_> = pairs.collect();
        let handoffs = pairs
            .iter()
            .map(|_| handoff::handoff(&self.pool, &self.handoffs))
            .collect::<io::Result<Vec<_>>>()?;
        for ((from, to), (sender, receiver)) in pairs.into_iter().zip(handoffs) {
            let port = handoff::port(self.max_ports, to);
            let key = QueueKey { port, pair: from as u16 };
            links[to].post(Command::StartRx(key, Generation(0), Box::new(receiver)));
            links[from].post(Command::AddHandoff(port, sender));
        }
        Ok(())
    }

    /// Adds the stage behind `link` to a running layout. Its index is the number of links before it.
    ///
    /// # Errors
    /// Returns an error if no descriptors are available. The stage stays without work then.
    pub(crate) fn add(&self, placement: &mut Placement, role: Role, link: Arc<Link>) -> io::Result<()> {
        let stage = placement.links.len();
        placement.links.push(link);
        let mut layout = placement.layout.clone();
        match role {
            Role::Work => layout.classifiers.push(stage),
            Role::Tx => layout.outlets.push(stage),
            Role::Rx | Role::All => {
                layout.rx_stages.push(stage);
                layout.distributors.push(stage);
            }
        }
        if role == Role::Work {
            return self.add_classifier(placement, layout, stage);
        }
        self.join(&placement.links, connections_of(&layout, stage))?;
        placement.layout = layout;
        self.distribute_over(&placement.links, &placement.layout);
        Ok(())
    }

    fn add_classifier(&self, placement: &mut Placement, layout: Layout, stage: usize) -> io::Result<()> {
        for (port, outlet) in &placement.outlets {
            placement.links[stage].post(Command::Route(*port, Some(*outlet as u8)));
        }
        placement.post_and_wait(&layout.distributors, || Command::Pause(true));
        for workers in placement.drain_groups() {
            placement.post_and_wait(&workers, || Command::Drain);
        }
        let joined = self.join(&placement.links, connections_of(&layout, stage));
        if joined.is_ok() {
            placement.layout = layout;
            self.distribute_over(&placement.links, &placement.layout);
        }
        placement.post_and_wait(&placement.layout.distributors, || Command::Pause(false));
        joined
    }
}

/// The connections of one stage, in layout order.
fn connections_of(layout: &Layout, stage: usize) -> impl Iterator<Item = (usize, usize)> {
    layout.connections().filter(move |(from, to)| *from == stage || *to == stage)
}

impl Placement {
    /// Groups of stages whose handoff queues must be drained, in this order, until all are empty.
    pub(crate) fn drain_groups(&self) -> Vec<Vec<usize>> {
        let layout = &self.layout;
        match (layout.routed, layout.distributors.is_empty()) {
            (true, _) => vec![layout.classifiers.clone(), layout.outlets.clone()],
            (false, false) => vec![layout.classifiers.clone()],
            (false, true) => Vec::new(),
        }
    }

    /// Posts a command to each of these workers and waits for those that respond.
    fn post_and_wait(&self, workers: &[usize], command: impl FnMut() -> Command) {
        for (worker, number) in self.post_to(workers, command) {
            // A stuck worker does not receive or forward, so waiting for it is not necessary.
            let _ = self.links[worker].wait(number);
        }
    }
}
