//! Many experiments as one job: which of them are missing, running them, and keeping what came out.
//!
//! An experiment in the simulator needs one core and nothing else, so as many run at once as there are jobs, and what
//! comes out does not depend on how many. [`Event`]s come to the caller's thread, which keeps and shows them.

pub mod keep;
pub mod profiles;
mod simulated;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use super::experiment::Length;
use super::factors::{Named, UnknownConfiguration, find};
use super::results::{ConstantRow, Kind, Results, Row};
use super::simulated::{Profile, Stuck};

/// How experiments are to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// On which memory
    pub memory: Kind,
    /// On which processor, where it is simulated
    pub profile: Profile,
    /// Packets that count in each
    pub packets: u64,
    /// Of the order of real runs; the simulator draws nothing by chance
    pub seed: u64,
    /// How many at once, where that does not change what comes out
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
            memory: self.memory,
            processor: self.profile.name.clone(),
            packets: self.packets,
            seed: self.seed,
            constants: ConstantRow::of(&self.profile),
            rows: Vec::new(),
            notes: Vec::new(),
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

/// Runs experiments; ends early once the flag is up.
pub type Runner = fn(&Plan, &[Named], &AtomicBool, Listener<'_>);

/// There is nothing behind this memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("experiments on {} memory cannot be run by this build, so nothing was run", .0.name())]
pub struct Unavailable(pub Kind);

/// Who runs experiments one by one on a memory. Real memory has no arm: there a set is one trial in blocks
/// ([`super::trial`]), to which nothing can be added later.
pub fn runner(memory: Kind) -> Result<Runner, Unavailable> {
    match memory {
        Kind::Simulated => Ok(simulated::run),
        Kind::Real | Kind::Counted => Err(Unavailable(memory)),
    }
}

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

    #[test]
    fn memories_without_a_runner_are_refused() {
        assert_eq!(runner(Kind::Counted).unwrap_err(), Unavailable(Kind::Counted));
    }
}
