//! Rebalancing: which receive queues another worker should have, judged by what was measured.
//!
//! Two samples a while apart say how busy each worker was and what each queue brought (`load`). The worker with the most to do is
//! relieved by moves and exchanges, as long as that gains enough (`shift`). A single look may see a moment, so what goes on
//! by itself waits until two looks in a row agree, and leaves what it moved alone for a while (`watch`). Everything here is
//! told what was measured and when; moving is `attachment`'s.

mod load;
mod shift;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use load::{QueueSample, Sample, balance};
pub(crate) use watch::Watch;

use serde::{Deserialize, Serialize};

/// What is measured and judged by itself, and whether queues are moved then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rebalancing {
    /// How long each measurement takes.
    pub interval: std::time::Duration,
    /// The share of a core, from 0 to 1, by which the busiest worker must have less to do afterwards.
    pub threshold: f64,
    /// Whether queues are moved; otherwise it is only told what would be done.
    pub moves: bool,
}

/// Load as it was measured, and what would make it more even.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Balance {
    /// How long was measured, in nanoseconds.
    pub measured_ns: u64,
    /// Every worker that takes packets.
    pub workers: Vec<WorkerLoad>,
    /// Every receive queue.
    pub queues: Vec<QueueLoad>,
    /// What to move. Empty: nothing would gain enough.
    pub moves: Vec<Move>,
    /// Whether it was done.
    pub done: bool,
}

/// How busy a worker is, in shares of its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerLoad {
    /// Its number among those that take packets.
    pub worker: usize,
    /// As measured, from 0 to 1.
    pub before: f64,
    /// With what is to be moved.
    pub after: f64,
}

/// What a receive queue is to its worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueLoad {
    /// The port's name.
    pub port: String,
    /// The queue pair.
    pub pair: u16,
    /// The worker that has it.
    pub worker: usize,
    /// Packets that it brought.
    pub packets: u64,
    /// Its part of its worker's load.
    pub load: f64,
    /// Why it stays where it is, whatever it brings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays: Option<String>,
}

/// A receive queue goes to another worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// The port's name.
    pub port: String,
    /// The queue pair.
    pub pair: u16,
    /// The worker that has it.
    pub from: usize,
    /// The worker that is to have it.
    pub to: usize,
    /// The load that goes with it.
    pub load: f64,
    /// Why it could not be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Balance {
    /// The load of the busiest worker, as measured and afterwards.
    pub fn worst(&self) -> (f64, f64) {
        let most = |of: fn(&WorkerLoad) -> f64| self.workers.iter().map(of).fold(0.0, f64::max);
        (most(|worker| worker.before), most(|worker| worker.after))
    }
}
