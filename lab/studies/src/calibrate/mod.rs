//! Calibration: what this processor's caches cost, measured, and a simulator's profile made from it.
//!
//! A [`task`] is one micro-benchmark of [`super::micro`] with its warm-up, over any [`super::memory::Memory`]: on real
//! memory it measures the machine, in the simulator it must give back the constants of its profile, which tests compare
//! in closed form. The `list` says which there are. [`simulate`] runs it under a profile, so that a profile can be held
//! against the machine that it is of.
//! `measure` runs it in rounds on real memory; [`caches`] says what the system tells about sizes; [`profile`] writes
//! what was found, each constant with where it was taken from. A constant that cannot be measured from user space is
//! taken from a named source, and whoever reads the profile sees which.

pub mod caches;
mod list;
mod measure;
pub mod profile;
mod simulated;
pub mod task;
#[cfg(test)]
mod tests;

use ::measure::Estimate;
use ::measure::SeatsError;
pub use caches::{Cache, Caches};
use real::ArenaError;

/// One thing that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What
    pub name: &'static str,
    /// In which unit
    pub unit: &'static str,
    /// The median over rounds with its interval
    pub value: Estimate,
}

/// All that was measured.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// Of which processor
    pub processor: String,
    /// What the system tells of its caches
    pub caches: Caches,
    /// Each constant
    pub measured: Vec<Measured>,
    /// Bytes of a chain, and nanoseconds a load along it
    pub chase: Vec<(u64, Estimate)>,
    /// Independent misses at once, and nanoseconds for all of them
    pub misses: Vec<(usize, Estimate)>,
    /// On which pages, by which clock, in how many rounds
    pub notes: Vec<String>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// There are too few CPUs.
    #[error(transparent)]
    Seats(#[from] SeatsError),
    /// There is too little memory.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// Too few rounds for an interval
    #[error("{0} rounds are too few for an interval, so nothing was measured: give at least {min}", min = ::measure::statistics::FEWEST)]
    TooFewRounds(usize),
}

pub use measure::run;
pub use simulated::simulate;

impl Calibration {
    /// A constant's median.
    pub fn median(&self, name: &str) -> Option<f64> {
        self.measured.iter().find(|measured| measured.name == name).map(|measured| measured.value.median)
    }

    /// What no processor shows: such a calibration says more of the neighbours than of the caches.
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
                found.push(format!("{} is {median:.2} {}, which cannot be", measured.name, measured.unit));
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
