//! How the use of a data path decides what it does: the studies of DPDK's use, repeated on linerate's own parts.
//!
//! Each experiment is a value of its own that can be printed, kept and drawn. What was measured and what was simulated never
//! stand in one figure. Nothing here changes how the product works: experiments use its parts as anybody could. What there
//! is already is not measured again (`journal`), so that whoever keeps results (`keep`) can go on with them.

pub mod batching;
pub mod budget;
pub mod chain;
pub mod checkpoint;
pub mod comparison;
pub mod delay;
mod journal;
pub mod mistake;
pub mod models;
pub mod placement;
mod queues;
pub mod scaling;
#[cfg(test)]
mod tests;

pub use journal::{Journal, Watch};

use budget::BudgetError;
use engine::machine::Machine;
use measure::seats::pin;
use rfc2544::Environment;
use serde::{Deserialize, Serialize};
use sim::Profile;
use std::time::Duration;

/// An experiment by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Study {
    /// [`batching`].
    Batching,
    /// [`mistake`].
    Mistake,
    /// [`placement`].
    Placement,
    /// [`scaling`].
    Scaling,
    /// [`models`].
    Models,
    /// [`budget`].
    Budget,
    /// [`comparison`].
    Comparison,
}

impl Study {
    /// All of them, in the order of the reference.
    pub const ALL: [Study; 7] = [
        Study::Batching,
        Study::Mistake,
        Study::Placement,
        Study::Scaling,
        Study::Models,
        Study::Budget,
        Study::Comparison,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Study::Batching => "batching",
            Study::Mistake => "mistake",
            Study::Placement => "placement",
            Study::Scaling => "scaling",
            Study::Budget => "budget",
            Study::Models => "models",
            Study::Comparison => "comparison",
        }
    }

    /// What it is about, in a few words.
    pub fn about(self) -> &'static str {
        match self {
            Study::Batching => "batching twice",
            Study::Mistake => "units that do not fit",
            Study::Placement => "where stages are placed",
            Study::Scaling => "queues and workers",
            Study::Budget => "the budget of a packet",
            Study::Models => "execution models by the work on each packet",
            Study::Comparison => "linerate beside other switches",
        }
    }
}

impl Study {
    /// Readings that it takes, on these CPUs.
    pub fn steps(self, cpus: [usize; 2]) -> usize {
        match self {
            Study::Placement => placement::steps(cpus),
            Study::Scaling => scaling::steps(cpus),
            Study::Batching => batching::SIZES.len() * (batching::LOADS.len() + 1),
            Study::Mistake => 1,
            Study::Budget => 1 + budget::BURSTS.len() + budget::DELAYS_NS.len(),
            Study::Models => models::READINGS,
            Study::Comparison => comparison::steps(),
        }
    }
}

/// What came out; an experiment that was not run is not there.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// What kept it: [`checkpoint::KIND`]. Files from before that was told have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// The processor, as it calls itself.
    pub processor: String,
    /// Where and by what it was measured; none in files from before that was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// Milliseconds that each reading lasted; none in files from before that was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_ms: Option<u64>,
    /// Experiments whose every reading is there. Files from before that was told have whole ones only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finished: Vec<Study>,
    /// Sending at once against sending from a buffer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batching: Vec<batching::Row>,
    /// The pipeline that threw packets away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mistake: Vec<mistake::Stage>,
    /// Stages on the CPUs that there are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<placement::measured::Row>,
    /// The same on eight simulated cores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement_simulated: Vec<placement::simulated::Row>,
    /// Workers and queues on the CPUs that there are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<scaling::measured::Row>,
    /// The same with simulated workers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling_simulated: Vec<scaling::simulated::Row>,
    /// Delays, calls and predictions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<budget::Budget>,
    /// Execution models by work on each packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<models::Models>,
    /// linerate and other switches, measured from outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparison: Vec<comparison::Entry>,
}

impl Results {
    /// Whether readings of this experiment are missing.
    pub fn is_partial(&self, study: Study) -> bool {
        self.kept.is_some() && !self.finished.contains(&study)
    }
}

/// What to run and for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which experiments.
    pub studies: Vec<Study>,
    /// The CPU of what is measured, and that of the other side.
    pub cpus: [usize; 2],
    /// How long each reading lasts.
    pub length: Duration,
}

impl Plan {
    /// Results made like this, without any so far.
    pub fn empty(&self, environment: Environment) -> Results {
        Results {
            kept: Some(checkpoint::KIND.to_owned()),
            processor: environment.processor.clone(),
            slice_ms: u64::try_from(self.length.as_millis()).ok(),
            environment: Some(environment),
            ..Results::default()
        }
    }

    /// Those experiments that `results` have not whole.
    pub fn missing(&self, results: &Results) -> Vec<Study> {
        self.studies.iter().copied().filter(|study| !results.finished.contains(study)).collect()
    }

    /// Finds CPUs that this process may not run on. Nothing is measured.
    pub fn validate(&self) -> Result<(), BudgetError> {
        alone(|| self.cpus.iter().try_for_each(|&cpu| Ok(pin(cpu)?)))
    }
}

/// Units of packets that the pipeline with the mistake handles.
const UNITS: u64 = 50_000;

/// Runs the experiments that `results` lack, one after the other. What was read until an error came stays there. Other switches are
/// run by `benches`.
pub fn measure(
    plan: &Plan,
    results: &mut Results,
    watch: &mut dyn Watch,
    benches: &mut dyn comparison::Benches,
) -> Result<(), BudgetError> {
    // A thread that is pinned sees no CPU but its own.
    let machine = Machine::here();
    alone(|| {
        let missing = plan.missing(results);
        let mut journal =
            Journal::new(results, watch, missing.iter().map(|study| study.steps(plan.cpus)).sum());
        for study in missing {
            let begun = journal.done();
            one(study, plan, &machine, &mut journal, benches)?;
            journal.finish(study, begun + study.steps(plan.cpus))?;
        }
        Ok(())
    })
}

/// On a thread of its own, because it will be pinned.
fn alone(act: impl FnOnce() -> Result<(), BudgetError> + Send) -> Result<(), BudgetError> {
    std::thread::scope(|scope| {
        let panicked = |_| Err(BudgetError::Thread("it panicked".to_owned()));
        scope.spawn(act).join().unwrap_or_else(panicked)
    })
}

/// Those that take long keep each reading; the others are kept as a whole.
fn one(
    study: Study,
    plan: &Plan,
    machine: &Machine,
    journal: &mut Journal<'_>,
    benches: &mut dyn comparison::Benches,
) -> Result<(), BudgetError> {
    match study {
        Study::Batching => batching::measure(plan.cpus, plan.length, journal)?,
        Study::Mistake => {
            journal.next("144 of 32")?;
            journal.results.mistake = mistake::measure(UNITS)?;
        }
        Study::Placement => {
            let told = &mut |next: &str| journal.next(next);
            let (profile, length) = (Profile::study(), placement::simulated::LENGTH);
            let measured = placement::measured::measure(machine, plan.cpus, plan.length, told)?;
            let simulated = placement::simulated::simulate(&profile, length, told)?;
            (journal.results.placement, journal.results.placement_simulated) = (measured, simulated);
        }
        Study::Scaling => {
            let told = &mut |next: &str| journal.next(next);
            let measured = scaling::measured::measure(machine, plan.cpus, plan.length, told)?;
            let simulated = scaling::simulated::simulate(&Profile::study(), told)?;
            (journal.results.scaling, journal.results.scaling_simulated) = (measured, simulated);
        }
        Study::Budget => {
            let lengths = budget::Lengths { calls: plan.length, rate: plan.length };
            budget::measure(plan.cpus, lengths, journal)?;
        }
        Study::Models => {
            let told = &mut |next: &str| journal.next(next);
            journal.results.models = Some(models::measure(plan.cpus, plan.length, told)?);
        }
        Study::Comparison => comparison::measure(benches, journal)?,
    }
    Ok(())
}
