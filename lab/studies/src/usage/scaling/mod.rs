//! Scaling: throughput by queues and workers, measured on the available CPUs and simulated up to sixteen workers.
//!
//! With receive-side scaling a port has several queues, flows are distributed over them by hash, and each worker has
//! its own queues. Without it there is one queue: one worker does all the work, or spreads flows to the others in
//! software. Only the numbers of queues and workers differ.

pub mod measured;
pub(in crate::usage) mod packet_source;
pub mod simulated;

use engine::machine::Machine;
use serde::{Deserialize, Serialize};

/// Distribution of packets to workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// The port's queues, over which flows are distributed.
    Queues,
    /// One queue, whose worker hands packets to the others.
    Software,
}

impl Distribution {
    /// Description.
    pub fn title(self) -> &'static str {
        match self {
            Distribution::Queues => "queues (RSS)",
            Distribution::Software => "one queue, software RSS",
        }
    }
}

/// Number of readings, measured and simulated.
pub fn steps(cpus: [usize; 2]) -> usize {
    measured::cases(&measured::cpus(&Machine::here(), cpus)).len() + 2 * simulated::WORKERS.len()
}
