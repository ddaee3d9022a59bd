//! Trials on real memory: configurations, order, repetitions and significance.
//!
//! The design is randomised complete blocks. Each block runs every configuration once, in an order derived from the
//! seed, so that drift over minutes (clock, neighbours, heat) affects all alike. A configuration is compared with the
//! base *of its own block*; [`measure::statistics`] uses the logarithms of those ratios. Slices are short, and a
//! disturbed one ([`disturbance`]) is run again. Two configurations without effect, the base under a second name and
//! `demote`, determine the smallest effect worth reporting ([`significance`]). Each finished round is passed to the
//! caller with all earlier ones ([`record`]), so a trial can be interrupted and resumed.
//!
//! This module neither accesses the arena nor prints; a caller observes a trial through [`Progress`].

pub(super) mod blocks;
pub mod disturbance;
pub mod record;
pub mod significance;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::time::Duration;

use super::counted::{self, NoCounters};
use super::factors::{Named, find};
use super::model::Layout;
use super::results::Results;
use crate::requirements::Missing;
use crate::slice::Bench;
use crate::{origin, requirements};
use blocks::{Blocks, tries};
use measure::Kind;
use measure::{Clock, CpuPinning, PinningError, Processor};
use real::{Arena, ArenaError};
use record::{Record, Session, SliceRow};

/// Name of the repetition of the base in each block.
pub const BASE_AGAIN: &str = "base-again";

/// Settings of a trial.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Configurations; base, repeated base and `demote` are added if absent
    pub configurations: Vec<Named>,
    /// Number of blocks
    pub rounds: usize,
    /// Approximate duration of a slice
    pub slice: Duration,
    /// Seed of the orders and of the resampling
    pub seed: u64,
    /// Whether hardware counters are read as well
    pub counted: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            configurations: Vec::new(),
            rounds: 30,
            slice: Duration::from_millis(40),
            seed: 1,
            counted: false,
        }
    }
}

/// Error of a trial. There are no partial results: a trial returns either results or one of these.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// A configuration cannot run on this processor
    #[error(transparent)]
    Missing(#[from] Missing),
    /// Too few CPUs
    #[error(transparent)]
    CpuPinning(#[from] PinningError),
    /// Too little memory
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// No hardware counters
    #[error(transparent)]
    NoCounters(#[from] NoCounters),
    /// Too few blocks for an interval
    #[error("{0} rounds are too few for an interval: use at least {min}", min = measure::statistics::MIN_SAMPLES)]
    TooFewRounds(usize),
    /// Slice too short to be timed, or so long that a disturbance is certain
    #[error("invalid slice {0:?}: expected 1 ms to 1 s (40 ms is usual)")]
    Slice(Duration),
}

/// Observer of a trial's progress, which may store its results and stop it.
pub trait Progress {
    /// Called before a slice: `done` of `of` slices are done, and configuration `next` follows.
    fn step(&mut self, done: usize, of: usize, next: &str);

    /// Called after each round with the results so far; after a break no further round runs.
    fn round(&mut self, results: &Results) -> ControlFlow<()> {
        let _ = results;
        ControlFlow::Continue(())
    }

    /// Whether to stop after the current slice. An unfinished round is discarded.
    fn stopped(&mut self) -> bool {
        false
    }
}

impl<F: FnMut(usize, usize, &str)> Progress for F {
    fn step(&mut self, done: usize, of: usize, next: &str) {
        self(done, of, next);
    }
}

/// Splits configurations into those that can run on this processor, and the reasons for the others.
pub fn possible(all: impl IntoIterator<Item = Named>) -> (Vec<Named>, Vec<Missing>) {
    let processor = Processor::here();
    let (mut can, mut cannot) = (Vec::new(), Vec::new());
    for named in all {
        match requirements::validate(&processor, &named) {
            Ok(()) => can.push(named),
            Err(missing) => cannot.push(missing),
        }
    }
    (can, cannot)
}

/// Returns the minimum duration of a trial with `finished` rounds done, without repetitions.
pub fn estimate(plan: &Plan, finished: usize) -> Duration {
    let rounds = plan.rounds.saturating_sub(finished) + usize::from(finished == 0);
    let slices = with_controls(&plan.configurations, &Processor::here()).len() * rounds;
    // Each slice warms up for a fifth of itself.
    plan.slice.mul_f64(1.2 * slices as f64)
}

/// Runs a whole trial.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> Result<Results, TrialError> {
    let stage = Stage::prepare(plan)?;
    let empty = stage.empty();
    stage.run(empty, progress)
}

/// A trial that is ready to run: its plan is validated. Its memory, which takes seconds to map, is allocated by
/// [`Stage::run`], which fails if there is not enough; a result file then has no rounds, and the trial can be resumed.
pub struct Stage<'a> {
    plan: &'a Plan,
    all: Vec<Named>,
    bench: Bench,
    events: Option<counted::Events>,
}

impl<'a> Stage<'a> {
    /// Validates a plan.
    pub fn prepare(plan: &'a Plan) -> Result<Stage<'a>, TrialError> {
        let processor = Processor::here();
        if plan.rounds < measure::statistics::MIN_SAMPLES {
            return Err(TrialError::TooFewRounds(plan.rounds));
        }
        if plan.slice < Duration::from_millis(1) || plan.slice > Duration::from_secs(1) {
            return Err(TrialError::Slice(plan.slice));
        }
        for named in &plan.configurations {
            requirements::validate(&processor, named)?;
        }
        let all = with_controls(&plan.configurations, &processor);
        let pinning = CpuPinning::here()?;
        let events = if plan.counted { Some(counted::Events::here(&processor)?) } else { None };
        let clock = Clock::calibrated();
        Ok(Stage { plan, all, bench: Bench { processor, pinning, clock }, events })
    }

    /// Returns the results of this trial before any round.
    pub fn empty(&self) -> Results {
        let slice = |named: &Named| SliceRow { name: named.name.clone(), packets: 0 };
        Results {
            memory: if self.plan.counted { Kind::Counted } else { Kind::Real },
            processor: self.bench.processor.name.clone(),
            provenance: origin::measured(&self.bench.processor, &self.bench.pinning),
            packets: 0,
            seed: self.plan.seed,
            constants: Vec::new(),
            rows: Vec::new(),
            notes: Vec::new(),
            trial: Some(Record {
                slice: self.plan.slice.as_millis() as u64,
                slices: self.all.iter().map(slice).collect(),
                ..Record::default()
            }),
        }
    }

    /// Runs the missing rounds and returns the results of all rounds. `results` must be [`Stage::empty`], or those of
    /// an earlier call with the same provenance.
    pub fn run(mut self, mut results: Results, progress: &mut dyn Progress) -> Result<Results, TrialError> {
        let mut record = results.trial.take().unwrap_or_default();
        if record.rounds.len() < self.plan.rounds {
            self.rounds(&results, &mut record, progress)?;
        }
        Ok(self.results(&results, record))
    }

    fn rounds(
        &mut self,
        provenance: &Results,
        record: &mut Record,
        progress: &mut dyn Progress,
    ) -> Result<(), TrialError> {
        let mut arena = self.arena()?;
        let conditions = format!("memory: {}; clock: {}", arena.pages(), self.bench.clock.name());
        record.sessions.push(Session { first: record.rounds.len() + 1, conditions });
        if self.blocks(&mut arena).pilots(record, progress)?.is_break() {
            return Ok(());
        }
        while record.rounds.len() < self.plan.rounds {
            let number = record.rounds.len();
            let Some(round) = self.blocks(&mut arena).round(number, record, progress)? else { return Ok(()) };
            record.rounds.push(round);
            if progress.round(&self.results(provenance, record.clone())).is_break() {
                return Ok(());
            }
        }
        let steps = self.blocks(&mut arena).steps();
        progress.step(steps, steps, "");
        Ok(())
    }

    /// Memory for the largest configuration.
    fn arena(&self) -> Result<Arena, TrialError> {
        let bytes = self.all.iter().map(|named| Layout::new(&named.config).bytes()).max().unwrap_or(0);
        Ok(Arena::new(bytes)?)
    }

    fn blocks<'b>(&'b mut self, arena: &'b mut Arena) -> Blocks<'b> {
        let Stage { plan, all, bench, events } = self;
        Blocks { plan, all, arena, bench, events }
    }

    /// Returns the results of all finished rounds.
    fn results(&self, provenance: &Results, record: Record) -> Results {
        let seed = self.plan.seed;
        let processor = &self.bench.processor;
        let rows = record.rows(seed);
        let mut notes = vec![format!("measured on {}, {}", processor.name, self.bench.pinning)];
        notes.extend(record.notes(seed, tries(self.plan)));
        notes.extend(self.events.as_ref().map(counted::Events::note));
        notes.extend(significance::notes(&rows, &null_names(processor)));
        Results { rows, notes, packets: record.packets(), trial: Some(record), ..provenance.clone() }
    }
}

/// Returns the names of the configurations without effect on this processor.
fn null_names(processor: &Processor) -> Vec<&'static str> {
    // Where CLDEMOTE has an effect it is not a control.
    if processor.demotes() { vec![BASE_AGAIN] } else { vec![BASE_AGAIN, "demote"] }
}

/// Returns the base, then the requested configurations, then the missing controls.
fn with_controls(asked: &[Named], processor: &Processor) -> Vec<Named> {
    let mut all: Vec<Named> = find("base").into_iter().collect();
    all.extend(asked.iter().filter(|named| named.name != "base").cloned());
    all.extend(find("base").into_iter().map(|base| Named { name: BASE_AGAIN.to_owned(), ..base }));
    if let Ok(demote) = find("demote") {
        let absent = all.iter().all(|named| named.name != demote.name);
        if absent && !processor.demotes() && requirements::validate(processor, &demote).is_ok() {
            all.push(demote);
        }
    }
    all
}
