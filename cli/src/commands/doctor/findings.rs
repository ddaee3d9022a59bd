//! Findings of the checks.

use serde::Serialize;

/// Effect of a cause on packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Effect {
    /// A port carries no packets.
    Down,
    /// Packets are lost.
    Loss,
    /// Packets are late, or cost more than they need to.
    Slow,
}

impl Effect {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Loss => "loss",
            Self::Slow => "slow",
        }
    }
}

/// One known cause with its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Name of the check.
    pub(super) check: &'static str,
    pub(super) effect: Effect,
    /// The port, the worker or the machine, such as `port red`.
    pub(super) subject: String,
    /// The cause.
    pub(super) cause: String,
    /// Values that were read.
    pub(super) evidence: Vec<String>,
    /// Command or change that mends it.
    pub(super) remedy: String,
}

/// A finding of a check, without the columns of the table of checks.
pub(super) struct Found {
    pub(super) subject: String,
    pub(super) evidence: Vec<String>,
    /// Remedy for this case; `None`: that of the table.
    pub(super) remedy: Option<String>,
}

impl Found {
    /// A finding about a port.
    pub(super) fn port(name: &str, evidence: impl IntoIterator<Item = String>) -> Self {
        Self { subject: format!("port {name}"), evidence: evidence.into_iter().collect(), remedy: None }
    }

    /// A finding about a worker.
    pub(super) fn worker(index: usize, evidence: impl IntoIterator<Item = String>) -> Self {
        Self { subject: format!("worker {index}"), evidence: evidence.into_iter().collect(), remedy: None }
    }

    /// Another remedy than that of the table.
    pub(super) fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}
