//! How a benchmark lies in a file: a line for what it is, and a line of JSON for each trial, appended as it ends.
//!
//! A process may be killed while it writes, so a last line without its end counts for nothing. Whoever goes on with a
//! file must be of the same build, machine, plan and setup; every difference is told.

use super::course::{Course, Trial};
use super::plan::Plan;
use super::results::{Environment, Results, Setup};
use measure::provenance::{Machine, Provenance};
use serde::{Deserialize, Serialize};

/// The first word of a file.
const KIND: &str = "linerate bench";

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    kept: String,
    /// What was measured.
    pub setup: Setup,
    /// Where.
    pub environment: Environment,
    /// What was asked.
    pub plan: Plan,
}

/// Why a file is none of a benchmark, or not of this one.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The first line.
    #[error("it is not what `linerate bench --keep` writes, so nothing in it can be trusted: {0}")]
    NotACheckpoint(String),
    /// Another line.
    #[error("line {0} is no trial, so nothing behind it can be trusted: {1}")]
    NotTrial(usize, String),
    /// A trial that this plan does not have there.
    #[error(
        "line {0} is another trial than the one that comes there, so the file was not written by one benchmark"
    )]
    Other(usize),
    /// Other arguments, another machine, another build.
    #[error("its trials were made otherwise and cannot be summed with these: {0}")]
    OtherProvenance(String),
}

impl Header {
    /// Of this benchmark.
    pub fn new(setup: Setup, environment: Environment, plan: Plan) -> Self {
        Self { kept: KIND.to_owned(), setup, environment, plan }
    }

    /// Every way in which trials that are kept under `self` were made otherwise than those of `here`.
    fn differences(&self, here: &Header) -> Vec<String> {
        let made = |header: &Header| Provenance {
            build: header.environment.build.clone(),
            profile: None,
            machine: Some(Machine {
                processor: header.environment.processor.clone(),
                cpus: header.environment.cpus,
                seats: format!("{:?}", header.environment.used),
            }),
        };
        // More rounds are a longer list of the same trials.
        let rounds = if here.plan.rounds > self.plan.rounds { here.plan.rounds } else { self.plan.rounds };
        let mut differences = fields(&Plan { rounds, ..self.plan.clone() }, &here.plan);
        differences.extend(fields(&self.setup, &here.setup));
        differences.extend(made(self).differences(&made(here)));
        differences
    }
}

/// The fields of two values that are not alike.
pub(super) fn fields<T: Serialize>(there: &T, here: &T) -> Vec<String> {
    let of = |value: &T| match serde_json::to_value(value) {
        Ok(serde_json::Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    };
    let (there, here) = (of(there), of(here));
    let mut keys: Vec<_> = there.keys().chain(here.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let said = |value: Option<&serde_json::Value>| value.map_or("nothing".to_owned(), ToString::to_string);
    let different = keys.into_iter().filter(|key| there.get(*key) != here.get(*key));
    different
        .map(|key| format!("{key} is {} there and {} here", said(there.get(key)), said(here.get(key))))
        .collect()
}

/// What a file holds.
#[derive(Debug)]
pub struct Checkpoint {
    /// Its first line.
    pub header: Header,
    /// Its trials.
    pub course: Course,
    /// Bytes of the lines that are whole; what is behind them was not finished.
    pub whole: usize,
}

impl Checkpoint {
    /// Reads a file, and judges that its trials are those of its plan.
    pub fn read(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut lines = bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let first = lines
            .next()
            .ok_or_else(|| CheckpointError::NotACheckpoint("there is no whole line".to_owned()))?;
        let header: Header = serde_json::from_slice(first)
            .map_err(|error| CheckpointError::NotACheckpoint(error.to_string()))?;
        if header.kept != KIND {
            return Err(CheckpointError::NotACheckpoint(format!("it was kept by `{}`", header.kept)));
        }
        header.plan.validate().map_err(|error| CheckpointError::NotACheckpoint(error.to_string()))?;
        let mut course = Course::new(header.plan.clone());
        for (n, line) in lines.enumerate() {
            let trial: Trial = serde_json::from_slice(line)
                .map_err(|error| CheckpointError::NotTrial(n + 2, error.to_string()))?;
            if !trial.seen.is_possible() {
                let why = "its numbers cannot be".to_owned();
                return Err(CheckpointError::NotTrial(n + 2, why));
            }
            if course.next() != Some(trial.step) {
                return Err(CheckpointError::Other(n + 2));
            }
            course.take(trial.step, trial.seen);
        }
        Ok(Self { header, course, whole })
    }

    /// Whether `here` may go on with it.
    pub fn validate(&self, here: &Header) -> Result<(), CheckpointError> {
        let differences = self.header.differences(here);
        if differences.is_empty() {
            Ok(())
        } else {
            Err(CheckpointError::OtherProvenance(differences.join("; ")))
        }
    }

    /// The same with as many rounds as `here` asks for.
    #[must_use]
    pub fn extended(mut self, here: &Header) -> Checkpoint {
        self.header.plan.rounds = here.plan.rounds;
        let mut course = Course::new(self.header.plan.clone());
        for trial in self.course.trials() {
            course.take(trial.step, trial.seen.clone());
        }
        Checkpoint { course, ..self }
    }

    /// The sum of its trials.
    pub fn results(&self) -> Results {
        Results::of(&self.course, self.header.setup.clone(), self.header.environment.clone())
    }
}
