//! Calibration: measures the costs of this processor's caches and creates a simulator profile from them.
//!
//! A [`task`] is one micro-benchmark of [`sim::micro`] with its warm-up, over any [`sim::memory::Memory`]: on real
//! memory it measures the machine; in the simulator it must return the constants of its profile, which tests compare in
//! closed form. The `list` defines the tasks. [`simulate`] runs it under a profile, to compare a profile with its
//! machine. `measure` runs it in rounds on real memory; [`caches`] reads the sizes that the system reports; [`profile`]
//! writes the constants, each with its source. A constant that cannot be measured from user space is taken from a
//! source that the profile names.

pub mod caches;
mod list;
mod measure;
pub mod profile;
mod simulated;
pub mod task;
#[cfg(test)]
mod tests;

use ::measure::Estimate;
use ::measure::PinningError;
pub use caches::{Cache, Caches};
use real::ArenaError;

/// One measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Name
    pub name: &'static str,
    /// Unit
    pub unit: &'static str,
    /// Median over rounds with its interval
    pub value: Estimate,
}

/// All measurements of a calibration.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// Processor name
    pub processor: String,
    /// Cache sizes reported by the system
    pub caches: Caches,
    /// Measured constants
    pub measured: Vec<Measured>,
    /// Chain size in bytes, and nanoseconds per load
    pub chase: Vec<(u64, Estimate)>,
    /// Number of concurrent independent misses, and nanoseconds for all of them
    pub misses: Vec<(usize, Estimate)>,
    /// Page sizes, clock and number of rounds
    pub notes: Vec<String>,
}

/// Error of a calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// Too few CPUs
    #[error(transparent)]
    CpuPinning(#[from] PinningError),
    /// Too little memory
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// Too few rounds for an interval
    #[error("{0} rounds are too few for an interval: use at least {min}", min = ::measure::statistics::MIN_SAMPLES)]
    TooFewRounds(usize),
}

pub use measure::run;
pub use simulated::simulate;

impl Calibration {
    /// Returns a constant's median.
    pub fn median(&self, name: &str) -> Option<f64> {
        self.measured.iter().find(|measured| measured.name == name).map(|measured| measured.value.median)
    }

    /// Returns implausible values: they indicate interference by neighbours instead of cache properties.
    pub fn implausible(&self) -> Vec<String> {
        let mut found = Vec::new();
        let levels = ["l1.latency", "l2.latency", "llc.latency", "dram"];
        for pair in levels.windows(2) {
            let both = self.median(pair[0]).zip(self.median(pair[1]));
            if let Some((near, far)) = both.filter(|(near, far)| near * 1.3 > *far) {
                let [first, second] = [pair[0], pair[1]];
                found.push(format!(
                    "{first} is {near:.1} ns and {second} {far:.1} ns, which is too near for two levels"
                ));
            }
        }
        for measured in &self.measured {
            let Estimate { median, low, high } = measured.value;
            if median <= 0.0 {
                found.push(format!("{} is {median:.2} {}: not plausible", measured.name, measured.unit));
            } else if high - low > 0.3 * median && profile::USED.contains(&measured.name) {
                found.push(format!(
                    "{} lies between {low:.2} and {high:.2} {}: too wide for a constant",
                    measured.name, measured.unit
                ));
            }
        }
        found
    }
}
