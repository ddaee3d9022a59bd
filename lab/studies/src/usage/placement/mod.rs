//! Placement: assignments of Rx, Worker and Tx to cores in the six patterns of the study, measured on the available
//! CPUs and simulated on eight cores.
//!
//! `engine::placement` decides the placement, as it does for the switch; this module places nothing itself, so a row
//! cannot name a pattern that was not laid out.

pub mod measured;
pub mod simulated;

use engine::machine::Machine;
use engine::placement::Pattern;
use serde::{Deserialize, Serialize};

/// The study's patterns, in its order.
pub const PATTERNS: [Pattern; 6] =
    [Pattern::Separate, Pattern::Io, Pattern::All, Pattern::RxWorker, Pattern::TxWorker, Pattern::QuasiIo];

/// Number of readings, measured and simulated.
pub fn steps(cpus: [usize; 2]) -> usize {
    let measured = measured::cpu_sets(&Machine::here(), cpus).len() * PATTERNS.len();
    measured + simulated::Width::ALL.len() * PATTERNS.len()
}

/// Counts of pool caches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Buffers {
    /// Stage, or stages of one thread; empty for a sum.
    pub stage: String,
    /// Buffers taken from the cache.
    pub hits: u64,
    /// Refills of the cache from the depot.
    pub refills: u64,
    /// Spills of the cache to the depot.
    pub spills: u64,
    /// Failed allocations with an empty depot.
    pub empty: u64,
    /// Failed exchanges of the depot's top, because another thread's exchange came first.
    pub retries: u64,
}

impl Buffers {
    /// Sums the counts of several stages.
    pub fn sum<'a>(parts: impl IntoIterator<Item = &'a Buffers>) -> Buffers {
        parts.into_iter().fold(Buffers::default(), |sum, part| Buffers {
            stage: String::new(),
            hits: sum.hits + part.hits,
            refills: sum.refills + part.refills,
            spills: sum.spills + part.spills,
            empty: sum.empty + part.empty,
            retries: sum.retries + part.retries,
        })
    }
}
