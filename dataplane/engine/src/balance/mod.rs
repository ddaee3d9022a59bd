//! Rebalancing: decides which receive queues should move to other workers, from measurements.
//!
//! Two samples determine the load of each worker and each queue (`load`). The busiest worker is relieved by moves and
//! exchanges while the gain is sufficient (`shift`). Because a single measurement may be an outlier, automatic
//! rebalancing waits until two consecutive ones agree, and does not move a queue again for some time (`watch`).
//! Nothing here measures or moves; `attachment` executes moves.

mod load;
mod shift;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use load::{QueueSample, Sample, balance};
pub(crate) use watch::Watch;

use serde::{Deserialize, Serialize};

/// Parameters of load monitoring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rebalancing {
    /// Length of each measurement.
    pub interval: std::time::Duration,
    /// Minimum reduction of the load of the busiest worker, as a share of a core from 0 to 1.
    pub threshold: f64,
    /// Whether queues are moved; otherwise moves are only reported.
    pub moves: bool,
}

/// A load measurement and the moves that would balance it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Balance {
    /// Length of the measurement in nanoseconds.
    pub measured_ns: u64,
    /// Every worker that receives packets.
    pub workers: Vec<WorkerLoad>,
    /// Every receive queue.
    pub queues: Vec<QueueLoad>,
    /// Proposed moves; empty if none would gain enough.
    pub moves: Vec<Move>,
    /// Whether the moves were executed.
    pub done: bool,
}

/// Load of a worker, as a share of its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WorkerLoad {
    /// Index among the workers that receive packets.
    pub worker: usize,
    /// Measured, from 0 to 1.
    pub before: f64,
    /// Expected after the moves.
    pub after: f64,
}

/// Load of a receive queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueueLoad {
    /// The port's name.
    pub port: String,
    /// The queue pair.
    pub pair: u16,
    /// Its worker.
    pub worker: usize,
    /// Packets received in the measurement.
    pub packets: u64,
    /// Its part of its worker's load.
    pub load: f64,
    /// Why it cannot be moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays: Option<String>,
}

/// A move of a receive queue to another worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Move {
    /// The port's name.
    pub port: String,
    /// The queue pair.
    pub pair: u16,
    /// Current worker.
    pub from: usize,
    /// New worker.
    pub to: usize,
    /// Load of the queue.
    pub load: f64,
    /// Why the move failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Balance {
    /// Load of the busiest worker, measured and expected after the moves.
    pub fn worst(&self) -> (f64, f64) {
        let most = |of: fn(&WorkerLoad) -> f64| self.workers.iter().map(of).fold(0.0, f64::max);
        (most(|worker| worker.before), most(|worker| worker.after))
    }
}
