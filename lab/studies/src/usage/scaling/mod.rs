//! Scaling: how much more passes with more queues and workers, measured on the CPUs that there are and simulated up to sixteen.
//!
//! With receive-side scaling a port has several queues, flows are dealt out over them by their hash, and each worker has queues of
//! its own. Without it there is one queue: then one worker has all the work, or spreads flows in software to the others. Either way
//! nothing but the number of queues and workers differs.

pub mod measured;
mod packet_source;
pub mod simulated;

use engine::machine::Machine;
use serde::{Deserialize, Serialize};

/// How packets come to workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// By the port's queues, over which flows are dealt out.
    Queues,
    /// By one queue, whose taker hands them to workers.
    Software,
}

impl Way {
    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Way::Queues => "queues (RSS)",
            Way::Software => "one queue, spread in software",
        }
    }
}

/// Readings, measured and simulated.
pub fn steps(cpus: [usize; 2]) -> usize {
    measured::cases(&measured::cpus(&Machine::here(), cpus)).len() + 2 * simulated::WORKERS.len()
}
