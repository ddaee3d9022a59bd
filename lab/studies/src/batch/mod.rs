//! Many experiments as one job: which of them are missing, running them, and keeping what came out.
//!
//! An experiment in the simulator needs one core and nothing else, so as many run at once as there are jobs, and what
//! comes out does not depend on how many. [`Event`]s come to the caller's thread, which keeps and shows them.

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
use sim::{Profile, Stuck};

/// How experiments are to be run in the simulator. On real memory a set is one trial in rounds instead
/// ([`super::trial`]).
#[derive(Clone, Debug)]
pub struct Plan {
    /// On which processor
    pub profile: Profile,
    /// Packets that count in each
    pub packets: u64,
    /// Decides in which order the pools' buffers are taken; nothing else is drawn by chance
    pub seed: u64,
    /// How many at once, which does not change what comes out
    pub jobs: NonZeroUsize,
}

impl Plan {
    /// A tenth of the packets comes before and does not count, and never fewer than two laps of the longest rings.
    pub fn length(&self) -> Length {
        Length { packets: self.packets, warm_up: (self.packets / 10).max(4096) }
    }

    /// Results made like this, without any so far.
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

/// What happens while experiments run.
#[derive(Clone, Debug)]
pub enum Event {
    /// This one has begun
    Began(String),
    /// This one has ended
    Done(Row),
    /// This one cannot come to an end
    Failed(String, Stuck),
}

/// Told of each event; says whether to go on. After a break nothing new begins, and what runs comes to its end.
pub type Listener<'a> = &'a mut dyn FnMut(Event) -> ControlFlow<()>;

/// The configurations of these names, once each and in the order of the names; every name that is none of them.
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
    fn names_are_taken_once_however_they_are_written() {
        let names: Vec<_> = select(&["d+a", "base", "a+d"]).unwrap().into_iter().map(|n| n.name).collect();
        assert_eq!(names, ["a+d", "base"]);
    }

    #[test]
    fn every_unknown_name_is_told() {
        let unknown = select(&["bsae", "a", "a+x"]).unwrap_err();
        assert_eq!(unknown.len(), 2);
        assert_eq!(unknown[0].nearest, "base");
    }
}
