//! How control joins stages, and adds another one while packets flow.
//!
//! A stage is joined by commands like everything that happens to a worker. Another worker stage changes where flows go, and a
//! flow must not overtake itself: the Rx stages take nothing while what is in hops is judged and sent, stage after stage, and
//! only then spread over one worker more. Ports' queues hold what comes meanwhile. An Rx or Tx stage that is added has the
//! ports that start from then on.

use super::{Layout, Spreader};
use crate::attachment::Placement;
use crate::command::{Command, QueueKey, Serial};
use crate::hop::hop;
use crate::link::Link;
use crate::model::{HopConfig, Role};
use mem::pool::Pool;
use port::{PortId, Spread};
use std::io;
use std::sync::Arc;

/// What control needs to join stages.
pub(crate) struct Joiner {
    pub(crate) pool: Arc<Pool>,
    pub(crate) hops: HopConfig,
    pub(crate) spread: Spread,
    /// The number that receive queues of hops have in place of a port's.
    pub(crate) hop_key: PortId,
}

impl Joiner {
    /// Joins all stages of a layout, before any port is there.
    pub(crate) fn join_all(&self, links: &[Arc<Link>], layout: &Layout) -> io::Result<()> {
        for (from, to) in layout.joints() {
            self.join(links, from, to)?;
        }
        self.spread_over(links, layout);
        Ok(())
    }

    /// Has every spreader spread over all judges.
    fn spread_over(&self, links: &[Arc<Link>], layout: &Layout) {
        for &spreader in &layout.spreaders {
            let pipeline = Spreader::new(self.hops.order, self.spread, layout.judges.len());
            links[spreader].post(Command::Judge(Box::new(pipeline)));
        }
    }

    /// A hop from one stage to another one, behind those that begin there.
    fn join(&self, links: &[Arc<Link>], from: usize, to: usize) -> io::Result<()> {
        let (sender, receiver) = hop(&self.pool, &self.hops)?;
        let key = QueueKey { port: self.hop_key, pair: from as u16 };
        links[to].post(Command::StartRx(key, Serial(0), Box::new(receiver)));
        links[from].post(Command::AddHop(sender));
        Ok(())
    }

    /// Adds the stage behind `link` to a running layout. Its number is that of the links before it.
    pub(crate) fn add(&self, placement: &mut Placement, role: Role, link: Arc<Link>) -> io::Result<()> {
        let stage = placement.links.len();
        placement.links.push(link);
        match role {
            Role::Work => self.add_worker(placement, stage),
            Role::Tx => {
                placement.layout.outlets.push(stage);
                let judges = placement.layout.judges.clone();
                judges.iter().try_for_each(|judge| self.join(&placement.links, *judge, stage))
            }
            Role::Rx | Role::All => {
                let judges = placement.layout.judges.clone();
                judges.iter().try_for_each(|judge| self.join(&placement.links, stage, *judge))?;
                let pipeline = Spreader::new(self.hops.order, self.spread, judges.len());
                placement.links[stage].post(Command::Judge(Box::new(pipeline)));
                placement.layout.takers.push(stage);
                placement.layout.spreaders.push(stage);
                Ok(())
            }
        }
    }

    fn add_worker(&self, placement: &mut Placement, stage: usize) -> io::Result<()> {
        let spreaders = placement.layout.spreaders.clone();
        let outlets = placement.layout.outlets.clone();
        outlets.iter().try_for_each(|outlet| self.join(&placement.links, stage, *outlet))?;
        for (port, outlet) in &placement.outlets {
            placement.links[stage].post(Command::Route(*port, Some(*outlet as u8)));
        }
        placement.pass(&spreaders, || Command::Pause(true));
        for workers in placement.drains() {
            placement.pass(&workers, || Command::Drain);
        }
        let joined = spreaders.iter().try_for_each(|spreader| self.join(&placement.links, *spreader, stage));
        if joined.is_ok() {
            placement.layout.judges.push(stage);
            self.spread_over(&placement.links, &placement.layout);
        }
        placement.pass(&spreaders, || Command::Pause(false));
        joined
    }
}

impl Placement {
    /// Whose hops are emptied one after the other until nothing is in any.
    pub(crate) fn drains(&self) -> Vec<Vec<usize>> {
        let layout = &self.layout;
        match (layout.routed, layout.spreaders.is_empty()) {
            (true, _) => vec![layout.judges.clone(), layout.outlets.clone()],
            (false, false) => vec![layout.judges.clone()],
            (false, true) => Vec::new(),
        }
    }

    /// Leaves these workers a command each and waits for those that answer.
    fn pass(&self, workers: &[usize], command: impl FnMut() -> Command) {
        for (worker, number) in self.post_to(workers, command) {
            // A stuck worker takes and hands on nothing, so there is nothing to wait for.
            let _ = self.links[worker].wait(number);
        }
    }
}
