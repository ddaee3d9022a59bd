//! `[placement]`: where threads and queues are to be, as a plain value. What it means for this machine is settled by
//! `config`, what it does by the switch.

use crate::settings::value::{Decimal, Span};
use engine::placement::{Pattern, Plan, QueueAffinity, QueueName, SeatError, Stages};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What is done about a worker that has much more to do than others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rebalance {
    /// Nothing by default.
    #[default]
    Off,
    /// What would be done is told.
    DryRun,
    /// Queues are moved.
    Auto,
}

/// `[placement]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Placement {
    pub(crate) pattern: Pattern,
    /// The CPUs to use, in this order; empty: all that this process may use.
    pub(crate) cpus: Vec<usize>,
    /// The NUMA node that packets come from; `None`: what the interfaces' devices say.
    pub(crate) node: Option<usize>,
    /// The worker of a port's queues, or of one of them (`port.pair`).
    pub(crate) queues: BTreeMap<String, usize>,
    /// Ports and queues whose worker serves nothing else.
    pub(crate) isolated: Vec<String>,
    pub(crate) rebalance: Rebalance,
    /// How long load is measured before it is judged.
    pub(crate) interval: Span,
    /// What moving queues must gain: the share of a core by which the worker with the most to do gets less.
    pub(crate) threshold: Decimal,
    /// How many stages a pipeline has; `None`: `[worker]` lists their CPUs, or there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stages: Option<Stages>,
    /// What came of it on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<Plan>,
}

impl Default for Placement {
    fn default() -> Self {
        Self {
            pattern: Pattern::default(),
            cpus: Vec::new(),
            node: None,
            queues: BTreeMap::new(),
            isolated: Vec::new(),
            rebalance: Rebalance::default(),
            interval: Span(Duration::from_secs(5)),
            threshold: Decimal(0.1),
            stages: None,
            plan: None,
        }
    }
}

impl Placement {
    /// The rules for receive queues among so many workers. Names that `is_port` does not know are left out: `config` has
    /// told of them.
    pub(crate) fn affinity(
        &self,
        workers: usize,
        is_port: impl Fn(&str) -> bool,
    ) -> Result<QueueAffinity, SeatError> {
        let name = |text: &String| QueueName::parse(text, &is_port);
        let queues: Vec<_> =
            self.queues.iter().filter_map(|(text, worker)| Some((name(text)?, *worker))).collect();
        let isolated: Vec<_> = self.isolated.iter().filter_map(name).collect();
        QueueAffinity::arrange(workers, &queues, &isolated)
    }

    /// The lines below it in a tree.
    pub(crate) fn leaves(&self) -> Vec<String> {
        let queues = self.queues.iter().map(|(queue, worker)| format!("queue {queue}: worker {worker}"));
        let isolated = self.isolated.iter().map(|queue| format!("isolated {queue}"));
        let notes = self.plan.iter().flat_map(|plan| &plan.notes).map(|note| format!("note: {note}"));
        queues.chain(isolated).chain(notes).collect()
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = self.plan.as_ref().map_or(self.pattern, |plan| plan.pattern);
        write!(f, "placement {pattern}")?;
        if !self.cpus.is_empty() {
            let cpus: Vec<String> = self.cpus.iter().map(ToString::to_string).collect();
            write!(f, " on CPUs {}", cpus.join(", "))?;
        }
        if let Some(node) = self.node {
            write!(f, ", near node {node}")?;
        }
        let Self { interval, threshold, .. } = self;
        match self.rebalance {
            Rebalance::Off => Ok(()),
            Rebalance::DryRun => write!(f, ", queues watched every {interval} (threshold {threshold})"),
            Rebalance::Auto => {
                write!(f, ", queues moved every {interval} if that gains {threshold} of a core")
            }
        }
    }
}
