//! `[placement]`: configured placement of threads and queues, as a plain value. `config` resolves it for this
//! machine; the switch applies it.

use crate::settings::value::Decimal;
use console::Span;
use engine::placement::{AffinityError, Pattern, Plan, QueueAffinity, QueueName, Stages};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Action if one worker has a much higher load than others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rebalance {
    /// None; the default.
    #[default]
    Off,
    /// The moves are computed and reported only.
    DryRun,
    /// Queues are moved.
    Auto,
}

/// `[placement]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Placement {
    pub(crate) pattern: Pattern,
    /// CPUs to use, in this order. Empty: all CPUs that this process may use.
    pub(crate) cpus: Vec<usize>,
    /// NUMA node of the packets' source; `None`: the node of the interfaces' devices.
    pub(crate) node: Option<usize>,
    /// Worker of a port's queues, or of one queue (`port.pair`).
    pub(crate) queues: BTreeMap<String, usize>,
    /// Ports and queues whose worker serves no others.
    pub(crate) isolated: Vec<String>,
    pub(crate) rebalance: Rebalance,
    /// Duration of a load measurement.
    pub(crate) interval: Span,
    /// Minimum gain of a move: reduction of the highest worker load, as a share of a core.
    pub(crate) threshold: Decimal,
    /// Number of stages of a pipeline; `None`: `[worker]` lists their CPUs, or there are no stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stages: Option<Stages>,
    /// Resolved placement on this machine.
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
    /// Affinity rules for receive queues with this number of workers. Names for which `is_port` returns false are
    /// left out: `config` has already reported them.
    pub(crate) fn affinity(
        &self,
        workers: usize,
        is_port: impl Fn(&str) -> bool,
    ) -> Result<QueueAffinity, AffinityError> {
        let name = |text: &String| QueueName::parse(text, &is_port);
        let queues: Vec<_> =
            self.queues.iter().filter_map(|(text, worker)| Some((name(text)?, *worker))).collect();
        let isolated: Vec<_> = self.isolated.iter().filter_map(name).collect();
        QueueAffinity::arrange(workers, &queues, &isolated)
    }

    /// Lines of its subtree.
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
