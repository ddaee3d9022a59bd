//! Checkpoint of a benchmark: its provenance, then a record per trial, appended when the trial ends.
//!
//! A benchmark resumes from a file only if build, machine, plan and setup match; the error lists every difference.

use super::plan::Plan;
use super::results::{Environment, Results, Setup};
use super::test_run::{TestRun, Trial};
use measure::provenance::{Machine, Provenance};
use measure::store::{StoreError, Stored};
use serde::{Deserialize, Serialize};

/// Provenance of the trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The measured switch and topology.
    pub setup: Setup,
    /// The environment.
    pub environment: Environment,
    /// The plan.
    pub plan: Plan,
}

impl Header {
    /// All differences between the provenance of `self` and that of `here`.
    fn differences(&self, here: &Header) -> Vec<String> {
        let provenance = |header: &Header| Provenance {
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
        differences.extend(provenance(self).differences(&provenance(here)));
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
    let shown = |value: Option<&serde_json::Value>| value.map_or("nothing".to_owned(), ToString::to_string);
    let different = keys.into_iter().filter(|key| there.get(*key) != here.get(*key));
    different
        .map(|key| format!("{key} is {} there and {} here", shown(there.get(key)), shown(here.get(key))))
        .collect()
}

/// Contents of a checkpoint file.
#[derive(Debug)]
pub struct Checkpoint {
    /// The header.
    pub header: Header,
    /// The trials.
    pub test_run: TestRun,
}

impl Stored for Checkpoint {
    const NAME: &'static str = "linerate-bench";
    type Provenance = Header;
    type Record = Trial;

    fn parts(&self) -> (Header, Vec<Trial>) {
        (self.header.clone(), self.test_run.trials().to_vec())
    }

    /// Checks that the trials match the plan.
    fn combine(header: Header, trials: Vec<Trial>) -> Result<Self, StoreError> {
        header.plan.validate().map_err(StoreError::header)?;
        let mut test_run = TestRun::new(header.plan.clone());
        for (n, trial) in trials.into_iter().enumerate() {
            if !trial.counters.is_possible() {
                return Err(StoreError::record(n, "its values are impossible"));
            }
            if test_run.next() != Some(trial.step) {
                let reason = "it is not the next trial, so the file was not written by a single benchmark";
                return Err(StoreError::record(n, reason));
            }
            test_run.take(trial.step, trial.counters);
        }
        Ok(Self { header, test_run })
    }

    fn differences(&self, here: &Self) -> Vec<String> {
        self.header.differences(&here.header)
    }
}

impl Checkpoint {
    /// A checkpoint without trials.
    pub fn new(header: Header) -> Checkpoint {
        Checkpoint { test_run: TestRun::new(header.plan.clone()), header }
    }

    /// The same trials, with this number of rounds.
    #[must_use]
    pub fn with_rounds(mut self, rounds: u32) -> Checkpoint {
        self.header.plan.rounds = rounds;
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
