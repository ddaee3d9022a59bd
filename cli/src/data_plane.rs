//! What runs: the engine with its pipelines, as the control API and `run` see it.
//!
//! Calls may wait for a burst boundary of every worker, never longer; none of them is made by a worker.

use crate::api::model::{BridgeReport, FdbEntry, FdbFilter, Snapshot};
use crate::kinds::Loaded;
use crate::model::Role;
use crate::topology::{PortSettings, StaticEntry, WorkerSettings};
use engine::balance::{Balance, QueueLoad};
use std::time::Duration;
use wire::MacAddress;

/// Why the plant did not do all that was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DataPlaneError {
    /// The words of the room that refused. Nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// As [`DataPlaneError::Refused`], because another process has the port's place and may be about to leave.
    #[error("{0}")]
    Taken(String),
    /// A port was removed, its name and its socket are free, but a worker hangs that may still use its memory.
    #[error("the port is removed; what worker {0} holds of it is kept until it answers")]
    Held(usize),
}

impl DataPlaneError {
    /// An error of a room to the left, in its own words.
    pub(crate) fn said(error: impl std::fmt::Display) -> Self {
        Self::Refused(error.to_string())
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
