//! Checkpoint file of a benchmark: a header line, then a line of JSON per trial, appended when the trial ends.
//!
//! A process may be killed while it writes, so an incomplete last line is ignored. A benchmark resumes from a file only
//! if build, machine, plan and setup match; the error lists every difference.

use super::plan::Plan;
use super::results::{Environment, Results, Setup};
use super::test_run::{TestRun, Trial};
use measure::provenance::{Machine, Provenance};
use serde::{Deserialize, Serialize};

/// Format identifier in the header.
const KIND: &str = "linerate bench";

/// The header line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    kept: String,
    /// The measured switch and topology.
    pub setup: Setup,
    /// The environment.
    pub environment: Environment,
    /// The plan.
    pub plan: Plan,
}

/// Error: the file is not a checkpoint, or belongs to another benchmark.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Invalid header line.
    #[error("it is not a file of `linerate bench --keep`: {0}")]
    NotACheckpoint(String),
    /// Invalid trial line.
    #[error("line {0} is not a valid trial, so later lines are not trusted: {1}")]
    NotTrial(usize, String),
    /// The trial is not the next one of the plan.
    #[error("line {0} is not the expected trial, so the file was not written by a single benchmark")]
    Other(usize),
    /// Arguments, machine or build differ.
    #[error("its trials have other options and cannot be combined with these: {0}")]
    OtherProvenance(String),
}

impl Header {
    /// The header of this benchmark.
    pub fn new(setup: Setup, environment: Environment, plan: Plan) -> Self {
        Self { kept: KIND.to_owned(), setup, environment, plan }
    }

    /// All differences between the provenance of `self` and that of `here`.
    fn differences(&self, here: &Header) -> Vec<String> {
        let made = |header: &Header| Provenance {
            build: header.environment.build.clone(),
            profile: None,
            machine: Some(Machine {
                processor: header.environment.processor.clone(),
                cpus: header.environment.cpus,
                pinning: format!("{:?}", header.environment.used),
            }),
        };
        // Additional rounds extend the list of the same trials, so they do not count as a difference.
        let rounds = if here.plan.rounds > self.plan.rounds { here.plan.rounds } else { self.plan.rounds };
        let mut differences = fields(&Plan { rounds, ..self.plan.clone() }, &here.plan);
        differences.extend(fields(&self.setup, &here.setup));
        differences.extend(made(self).differences(&made(here)));
        differences
    }
}

/// The fields in which two values differ.
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

/// Contents of a checkpoint file.
#[derive(Debug)]
pub struct Checkpoint {
    /// The header.
    pub header: Header,
    /// The trials.
    pub test_run: TestRun,
    /// Length of the complete lines in bytes; the rest is an incomplete line.
    pub whole: usize,
}

impl Checkpoint {
    /// Reads a file and checks that its trials match its plan.
    pub fn read(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut lines = bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let first = lines
            .next()
            .ok_or_else(|| CheckpointError::NotACheckpoint("there is no complete line".to_owned()))?;
        let header: Header = serde_json::from_slice(first)
            .map_err(|error| CheckpointError::NotACheckpoint(error.to_string()))?;
        if header.kept != KIND {
            return Err(CheckpointError::NotACheckpoint(format!("it was written by `{}`", header.kept)));
        }
        header.plan.validate().map_err(|error| CheckpointError::NotACheckpoint(error.to_string()))?;
        let mut test_run = TestRun::new(header.plan.clone());
        for (n, line) in lines.enumerate() {
            let trial: Trial = serde_json::from_slice(line)
                .map_err(|error| CheckpointError::NotTrial(n + 2, error.to_string()))?;
            if !trial.counters.is_possible() {
                let why = "its values are invalid".to_owned();
                return Err(CheckpointError::NotTrial(n + 2, why));
            }
            if test_run.next() != Some(trial.step) {
                return Err(CheckpointError::Other(n + 2));
            }
            test_run.take(trial.step, trial.counters);
        }
        Ok(Self { header, test_run, whole })
    }

    /// Checks that `here` may resume from it.
    pub fn validate(&self, here: &Header) -> Result<(), CheckpointError> {
        let differences = self.header.differences(here);
        if differences.is_empty() {
            Ok(())
        } else {
            Err(CheckpointError::OtherProvenance(differences.join("; ")))
        }
    }

    /// The same checkpoint with the number of rounds of `here`.
    #[must_use]
    pub fn extended(mut self, here: &Header) -> Checkpoint {
        self.header.plan.rounds = here.plan.rounds;
        let mut test_run = TestRun::new(self.header.plan.clone());
        for trial in self.test_run.trials() {
            test_run.take(trial.step, trial.counters.clone());
        }
        Checkpoint { test_run, ..self }
    }

    /// The results of its trials.
    pub fn results(&self) -> Results {
        Results::of(&self.test_run, self.header.setup.clone(), self.header.environment.clone())
    }
}
