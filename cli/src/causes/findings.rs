//! Findings of the checks.

use serde::Serialize;
use utoipa::ToSchema;

/// Effect of a cause on packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Effect {
    /// A port carries no packets.
    Down,
    /// Packets are lost.
    Loss,
    /// Packets are late, or cost more than they need to.
    Slow,
}

impl Effect {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Loss => "loss",
            Self::Slow => "slow",
        }
    }
}

/// One known cause with its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Finding {
    /// Name of the check.
    pub(crate) check: &'static str,
    /// Effect on packets.
    pub(crate) effect: Effect,
    /// The port, bond, bridge or worker, such as `port red`.
    pub(crate) subject: String,
    /// The cause.
    pub(crate) cause: String,
    /// Values that were read.
    pub(crate) evidence: Vec<String>,
    /// Command or change that mends it.
    pub(crate) remedy: String,
}

/// A finding of a check, without the columns of the table of checks.
pub(crate) struct Found {
    pub(crate) subject: String,
    pub(crate) evidence: Vec<String>,
    /// Remedy for this case; `None`: that of the table.
    pub(crate) remedy: Option<String>,
}

impl Found {
    /// A finding about an object.
    pub(crate) fn of(subject: String, evidence: impl IntoIterator<Item = String>) -> Self {
        Self { subject, evidence: evidence.into_iter().collect(), remedy: None }
    }

    /// A finding about a port.
    pub(crate) fn port(name: &str, evidence: impl IntoIterator<Item = String>) -> Self {
        Self::of(format!("port {name}"), evidence)
    }

    /// A finding about a worker.
    pub(crate) fn worker(index: usize, evidence: impl IntoIterator<Item = String>) -> Self {
        Self::of(format!("worker {index}"), evidence)
    }

    /// Another remedy than that of the table.
    pub(crate) fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}
