//! Placement: which of Rx, Worker and Tx share a core, in the six patterns of the study, measured on the CPUs that there are and
//! simulated on eight.
//!
//! Who goes where is decided by `engine::placement`, which decides it for the switch as well; nothing here places anything by
//! itself, so a row cannot claim a pattern that was not laid out.

pub mod measured;
pub mod simulated;

use engine::machine::Machine;
use engine::placement::Pattern;
use serde::{Deserialize, Serialize};

/// The study's patterns, in its order.
pub const PATTERNS: [Pattern; 6] =
    [Pattern::Separate, Pattern::Io, Pattern::All, Pattern::RxWorker, Pattern::TxWorker, Pattern::QuasiIo];

/// Readings, measured and simulated.
pub fn steps(cpus: [usize; 2]) -> usize {
    let measured = measured::beds(&Machine::here(), cpus).len() * PATTERNS.len();
    measured + simulated::Width::ALL.len() * PATTERNS.len()
}

/// Buffers of a pool, as its caches counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Buffers {
    /// What stage, or stages of one thread, these are; all of them where there is no name.
    pub stage: String,
    /// Taken, and at hand in the cache.
    pub hits: u64,
    /// Times that more had to be taken from the depot first.
    pub refills: u64,
    /// Times that the cache had too many, and some went to the depot.
    pub spills: u64,
    /// Times that the depot had none.
    pub empty: u64,
    /// Exchanges of the depot's top that failed, because another thread's came first.
    pub retries: u64,
}

impl Buffers {
    /// Of some stages together.
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
