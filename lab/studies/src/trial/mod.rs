//! Trials on real memory: which configurations run, in which order, how often, and what their times allow to be said.
//!
//! The design is one of randomised complete blocks. Each block runs every configuration once, in an order that follows
//! from the seed, so that what drifts over minutes (clock, neighbours, heat) meets all of them alike. A configuration is
//! compared with the base *of its own block*: the logarithms of those ratios are what [`statistics`] works on. Slices
//! are short, and one that others disturbed ([`quiet`]) is run again. Two configurations that change nothing, the
//! base under a second name and `demote`, show how large an effect must be to be worth a name ([`verdict`]). Each
//! finished round is handed to the caller with all before it ([`record`]), so a trial can be ended and gone on with.
//!
//! Nothing here accesses the arena, and nothing is printed: a caller that wants to watch gives a [`Progress`].

pub(super) mod blocks;
pub mod quiet;
pub mod record;
#[cfg(test)]
mod tests;
pub mod verdict;

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
use measure::{Clock, Processor, Seats, SeatsError};
use real::{Arena, ArenaError};
use record::{Record, Session, SliceRow};

/// The base, under a name of its own, a second time in each block.
pub const BASE_AGAIN: &str = "base-again";

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The configurations; base, base again and `demote` are added where they are not among them
    pub configurations: Vec<Named>,
    /// Blocks
    pub rounds: usize,
    /// About how long a slice takes
    pub slice: Duration,
    /// Decides the orders, and the resampling
    pub seed: u64,
    /// Under hardware counters as well
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

/// Why a trial did not happen. Nothing is half done: either there are results or there is one of these.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// A configuration cannot run on this processor.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// There are too few CPUs.
    #[error(transparent)]
    Seats(#[from] SeatsError),
    /// There is too little memory.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// There are no hardware counters.
    #[error(transparent)]
    NoCounters(#[from] NoCounters),
    /// Too few blocks for an interval
    #[error("{0} rounds are too few for an interval, so nothing was run: give at least {min}", min = measure::statistics::FEWEST)]
    TooFewRounds(usize),
    /// A slice too short to be timed, or so long that it is disturbed for sure
    #[error(
        "slices of {0:?} cannot be measured well, so nothing was run: give something from 1 ms to 1 s (40 ms is usual)"
    )]
    Slice(Duration),
}

/// Who wants to know how far a trial is, keeps what it has, and may end it.
pub trait Progress {
    /// So many of so many slices are done; this configuration is next.
    fn step(&mut self, done: usize, of: usize, next: &str);

    /// Another round has ended: the results of all so far. After a break there are no more.
    fn round(&mut self, results: &Results) -> ControlFlow<()> {
        let _ = results;
        ControlFlow::Continue(())
    }

    /// Whether to end after the slice that was run last. A round that is not finished by then is lost.
    fn stopped(&mut self) -> bool {
        false
    }
}

impl<F: FnMut(usize, usize, &str)> Progress for F {
    fn step(&mut self, done: usize, of: usize, next: &str) {
        self(done, of, next);
    }
}

/// Those that can run on this processor, and why the others cannot.
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

/// How long a trial takes at least that has so many of its rounds already, without what has to be repeated.
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

/// A trial that can run here: everything that could be refused was judged, and the memory is there.
pub struct Stage<'a> {
    plan: &'a Plan,
    all: Vec<Named>,
    bench: Bench,
    events: Option<counted::Events>,
    arena: Arena,
}

impl<'a> Stage<'a> {
    /// Judges a plan and takes what it needs of this machine.
    pub fn prepare(plan: &'a Plan) -> Result<Stage<'a>, TrialError> {
        let processor = Processor::here();
        if plan.rounds < measure::statistics::FEWEST {
            return Err(TrialError::TooFewRounds(plan.rounds));
        }
        if plan.slice < Duration::from_millis(1) || plan.slice > Duration::from_secs(1) {
            return Err(TrialError::Slice(plan.slice));
        }
        for named in &plan.configurations {
            requirements::validate(&processor, named)?;
        }
        let all = with_controls(&plan.configurations, &processor);
        let seats = Seats::here()?;
        let events = if plan.counted { Some(counted::Events::here(&processor)?) } else { None };
        let bytes = all.iter().map(|named| Layout::new(&named.config).bytes()).max().unwrap_or(0);
        let arena = Arena::new(bytes)?;
        let clock = Clock::calibrated(&processor);
        Ok(Stage { plan, all, bench: Bench { processor, seats, clock }, events, arena })
    }

    /// Results of this trial without any round so far.
    pub fn empty(&self) -> Results {
        let slice = |named: &Named| SliceRow { name: named.name.clone(), packets: 0 };
        Results {
            memory: if self.plan.counted { Kind::Counted } else { Kind::Real },
            processor: self.bench.processor.name.clone(),
            provenance: origin::measured(&self.bench.processor, &self.bench.seats),
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

    /// Runs the rounds that are missing, and gives back the results of all of them. `results` are [`Stage::empty`], or
    /// those of an earlier call that were made alike.
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
        let conditions = format!("memory: {}; clock: {}", self.arena.pages(), self.bench.clock.name());
        record.sessions.push(Session { first: record.rounds.len() + 1, conditions });
        if self.blocks().pilots(record, progress)?.is_break() {
            return Ok(());
        }
        while record.rounds.len() < self.plan.rounds {
            let number = record.rounds.len();
            let Some(round) = self.blocks().round(number, record, progress)? else { return Ok(()) };
            record.rounds.push(round);
            if progress.round(&self.results(provenance, record.clone())).is_break() {
                return Ok(());
            }
        }
        let steps = self.blocks().steps();
        progress.step(steps, steps, "");
        Ok(())
    }

    fn blocks(&mut self) -> Blocks<'_> {
        let Stage { plan, all, bench, events, arena } = self;
        Blocks { plan, all, arena, bench, events }
    }

    /// What all finished rounds say.
    fn results(&self, provenance: &Results, record: Record) -> Results {
        let seed = self.plan.seed;
        let processor = &self.bench.processor;
        let rows = record.rows(seed);
        let mut notes = vec![format!("measured on {}, {}", processor.name, self.bench.seats)];
        notes.extend(record.notes(seed, tries(self.plan)));
        notes.extend(self.events.as_ref().map(counted::Events::note));
        notes.extend(verdict::notes(&rows, &null_names(processor)));
        Results { rows, notes, packets: record.packets(), trial: Some(record), ..provenance.clone() }
    }
}

/// What changes nothing here.
fn null_names(processor: &Processor) -> Vec<&'static str> {
    // Where CLDEMOTE does something it is no control.
    if processor.demotes() { vec![BASE_AGAIN] } else { vec![BASE_AGAIN, "demote"] }
}

/// The base first, then what was asked for, then the controls that were not.
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
