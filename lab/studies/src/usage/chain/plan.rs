//! Connections of a layout's stages: ports, handoff queues and caches.

use super::handoff::{Receiver, Sender};
use super::places::Needs;
use super::stage::{ChainContext, Input, Output, Stage};
use super::{Fanout, Layout, Role};
use std::rc::Rc;

/// Connections between stages.
pub(super) struct Plan<'a> {
    layout: &'a Layout,
    pub(super) needs: Needs,
    /// Range of cache numbers of each core.
    pub(super) caches: Vec<std::ops::Range<u64>>,
    /// Source and destination stage of each handoff queue, in layout order.
    handoffs: Vec<(usize, usize)>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(layout: &'a Layout) -> Plan<'a> {
        let roles: Vec<Role> = layout.cores.iter().flatten().map(|placed| placed.role).collect();
        let (mut caches, mut next) = (Vec::new(), 0);
        for core in &layout.cores {
            let threads = core.iter().map(|placed| placed.thread + 1).max().unwrap_or(0) as u64;
            caches.push(next..next + threads);
            next += threads;
        }
        let handoffs = joints(&roles, layout.fanout);
        let ports = roles.iter().filter(|role| role.takes_from_port()).count();
        let ports = ports.max(roles.iter().filter(|role| role.sends_to_port()).count());
        let needs = Needs {
            handoffs: handoffs.len() as u64,
            threads: next,
            stages: roles.len() as u64,
            caches: next,
            ports: ports as u64,
        };
        Plan { layout, needs, caches, handoffs }
    }

    /// Returns the stages of each core.
    pub(super) fn stages(&self, context: &Rc<ChainContext>) -> Vec<Vec<Stage>> {
        let (mut stage, mut sources, mut sinks) = (0, 0, 0);
        let mut cores = Vec::new();
        for core in &self.layout.cores {
            let mut stages = Vec::new();
            for placed in core {
                let (input, output) = self.ends(context, stage, placed.role, (sources, sinks));
                sources += u64::from(placed.role.takes_from_port());
                sinks += u64::from(placed.role.sends_to_port());
                let heads = context.places.heads(stage as u64);
                let (context, cache) = (Rc::clone(context), placed.thread);
                stages.push(Stage {
                    context,
                    input,
                    output,
                    classifies: placed.role.classifies(),
                    heads,
                    cache,
                });
                stage += 1;
            }
            cores.push(stages);
        }
        cores
    }

    fn ends(
        &self,
        context: &ChainContext,
        stage: usize,
        role: Role,
        (source, sink): (u64, u64),
    ) -> (Input, Output) {
        let numbered = || (0..).zip(&self.handoffs);
        let input = if role.takes_from_port() {
            Input::Port { number: source, ring: context.places.source(source), taken: 0 }
        } else {
            let mine = numbered().filter(|(_, (_, to))| *to == stage);
            Input::Handoffs(mine.map(|(n, _)| Receiver::new(context.places.handoff(n))).collect())
        };
        let output = if role.sends_to_port() {
            Output::Port { ring: context.places.sink(sink), sent: 0 }
        } else {
            let mine = numbered().filter(|(_, (from, _))| *from == stage);
            Output::Handoffs(mine.map(|(n, _)| Sender::new(context.places.handoff(n))).collect())
        };
        (input, output)
    }
}

/// Returns the connections by stage number.
pub(super) fn joints(roles: &[Role], fanout: Fanout) -> Vec<(usize, usize)> {
    let of = |wanted: &[Role]| -> Vec<usize> {
        (0..roles.len()).filter(|stage| wanted.contains(&roles[*stage])).collect()
    };
    let (rx, work, tx) = (of(&[Role::Rx]), of(&[Role::Work, Role::WorkTx]), of(&[Role::Tx]));
    let classifying: Vec<usize> = work.iter().copied().filter(|stage| roles[*stage] == Role::Work).collect();
    let mut joints = join(&rx, &work, fanout);
    joints.extend(join(&classifying, &tx, fanout));
    joints
}

/// Connects all pairs (`Flows`), or stages of the same number (`Own`), reusing the smaller kind cyclically.
fn join(from: &[usize], to: &[usize], fanout: Fanout) -> Vec<(usize, usize)> {
    if from.is_empty() || to.is_empty() {
        return Vec::new();
    }
    match fanout {
        Fanout::Flows => from.iter().flat_map(|one| to.iter().map(|other| (*one, *other))).collect(),
        Fanout::Own => {
            let pairs = from.len().max(to.len());
            (0..pairs).map(|n| (from[n % from.len()], to[n % to.len()])).collect()
        }
    }
}
