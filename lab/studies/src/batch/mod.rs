//! Batches of experiments: selects missing ones, runs them and collects their results.
//!
//! A simulated experiment needs one core and nothing else, so as many run concurrently as there are jobs; results do
//! not depend on that number. [`Event`]s are delivered on the caller's thread, which stores and displays them.

pub mod checkpoint;
mod simulated;

pub use simulated::run;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use super::experiment::Length;
use super::factors::{Named, UnknownConfiguration, find};
use super::results::{ConstantRow, Results, Row};
use crate::origin;
use measure::Kind;
use sim::{Deadlock, Profile};

/// Settings of simulated experiments. On real memory a set is one trial in rounds instead ([`super::trial`]).
#[derive(Clone, Debug)]
pub struct Plan {
    /// Processor profile
    pub profile: Profile,
    /// Packets counted per experiment
    pub packets: u64,
    /// Seed of the order in which pool buffers are taken; the only random choice
    pub seed: u64,
    /// Number of concurrent experiments; does not affect results
    pub jobs: NonZeroUsize,
}

impl Plan {
    /// Returns the run length. The warm-up is a tenth of the packets, at least two laps of the longest rings.
    pub fn length(&self) -> Length {
        Length { packets: self.packets, warm_up: (self.packets / 10).max(4096) }
    }

    /// Returns an empty result set with this plan's provenance.
    pub fn empty(&self) -> Results {
        Results {
            memory: Kind::Simulated,
            processor: self.profile.name.clone(),
            provenance: origin::simulated(&self.profile),
            packets: self.packets,
            seed: self.seed,
            constants: ConstantRow::of(&self.profile).into_iter().chain([ConstantRow::step()]).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
            trial: None,
        }
    }
}

/// Progress of a batch.
#[derive(Clone, Debug)]
pub enum Event {
    /// An experiment began
    Began(String),
    /// An experiment finished
    Done(Row),
    /// An experiment is at a deadlock
    Failed(String, Deadlock),
}

/// Receives each event and returns whether to continue. After a break no new experiment begins, and running ones
/// finish.
pub type Listener<'a> = &'a mut dyn FnMut(Event) -> ControlFlow<()>;

/// Returns the named configurations, without duplicates and in the order of the names, or all unknown names.
pub fn select<S: AsRef<str>>(names: &[S]) -> Result<Vec<Named>, Vec<UnknownConfiguration>> {
    let (mut chosen, mut unknown): (Vec<Named>, Vec<_>) = (Vec::new(), Vec::new());
    for name in names {
        match find(name.as_ref()) {
            Ok(named) if chosen.contains(&named) => {}
            Ok(named) => chosen.push(named),
            Err(error) => unknown.push(error),
        }
    }
    if unknown.is_empty() { Ok(chosen) } else { Err(unknown) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_configuration_are_selected_once() {
        let names: Vec<_> = select(&["d+a", "base", "a+d"]).unwrap().into_iter().map(|n| n.name).collect();
        assert_eq!(names, ["a+d", "base"]);
    }

    #[test]
    fn all_unknown_names_are_reported() {
        let unknown = select(&["bsae", "a", "a+x"]).unwrap_err();
        assert_eq!(unknown.len(), 2);
        assert_eq!(unknown[0].nearest, "base");
    }
}
