//! The running switch as the control API and `run` use it.
//!
//! A call may wait for a burst boundary of every worker, never longer. Workers make none of them.

use super::report::{BridgeReport, FdbEntry, FdbFilter};
use crate::settings::kinds::kind::{Loaded, OpenError};
use crate::settings::model::Role;
use crate::settings::topology::{PortSettings, StaticEntry, WorkerSettings};
use console::Diagnostic;
use engine::Snapshot;
use engine::balance::{Balance, QueueLoad};
use std::fmt::Display;
use std::time::Duration;
use wire::MacAddress;

/// Why the data plane did not do all of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DataPlaneError {
    /// Nothing was changed.
    Refused(Diagnostic),
    /// A port was removed, its name and its socket are free, but a hung worker may still use its memory.
    Held(Diagnostic),
}

impl DataPlaneError {
    /// Refused with an error of a library. `otherwise` is the remedy of an error that names none.
    pub(crate) fn refused(place: impl Display, error: impl Display, otherwise: &str) -> Self {
        Self::Refused(Diagnostic::of_error(place, error, otherwise))
    }

    /// The port `name` is removed, and worker `worker` hangs.
    pub(crate) fn held(name: &str, worker: usize) -> Self {
        let reason = format!("the port is removed; its memory is kept until worker {worker} answers");
        let remedy = "its name and its socket are free; if the worker never answers, end the process";
        Self::Held(Diagnostic::failed(format!("port \"{name}\""), reason, remedy))
    }

    /// The error without its class.
    pub(crate) fn into_diagnostic(self) -> Diagnostic {
        match self {
            Self::Refused(error) | Self::Held(error) => error,
        }
    }
}

impl From<OpenError> for DataPlaneError {
    fn from(error: OpenError) -> Self {
        Self::Refused(error.into_diagnostic())
    }
}

/// A running switch.
pub(crate) trait DataPlane: Send + Sync {
    /// All counters and states.
    fn snapshot(&self) -> Snapshot;
    /// Every address of every bridge, static ones too.
    fn fdb(&self) -> Vec<FdbEntry>;
    /// Every bridge with what its ports have learned and were refused.
    fn bridges(&self) -> Vec<BridgeReport>;
    /// How many addresses a bridge holds.
    fn addresses(&self, bridge: &str) -> usize;
    /// Starts a port on its bridge, which plays what was `loaded`.
    fn add_port(&self, port: &PortSettings, loaded: Loaded) -> Result<(), DataPlaneError>;
    /// Stops a port and forgets what was learned from it and pinned to it. With [`DataPlaneError::Held`] that is done.
    fn remove_port(&self, name: &str) -> Result<(), DataPlaneError>;
    /// Adds a stage to a running pipeline; its number.
    fn add_worker(&self, role: Role, worker: &WorkerSettings) -> Result<usize, DataPlaneError>;
    /// Pins an address to a port, on that port's bridge.
    fn pin(&self, entry: &StaticEntry) -> Result<(), DataPlaneError>;
    /// Forgets one address of a bridge, learned or static. The VLAN is as in [`DataPlane::fdb`].
    fn forget(&self, bridge: &str, mac: MacAddress, vlan: u16) -> Result<(), DataPlaneError>;
    /// Forgets the learned addresses that are named, or all. Returns how many.
    fn flush(&self, wanted: &FdbFilter) -> Result<u64, DataPlaneError>;
    /// Every receive queue with its worker.
    fn queues(&self) -> Result<Vec<QueueLoad>, DataPlaneError>;
    /// What was found last, where load is watched.
    fn latest_balance(&self) -> Option<Balance>;
    /// Measures load, which this call waits for, and says what to move or moves it.
    fn rebalance(&self, over: Duration, threshold: f64, moves: bool) -> Result<Balance, DataPlaneError>;
}
