//! Effects of the use of a data path: the studies of DPDK's use, repeated with linerate's components.
//!
//! Each experiment is a separate value that can be printed, stored and drawn. Measured and simulated values are never
//! mixed in one figure. Experiments use the product's public components and do not change their behaviour. Existing
//! readings are not repeated (`journal`), so stored results (`checkpoint`) can be resumed.

pub mod batching;
pub mod budget;
pub mod burst_mismatch;
pub mod chain;
pub mod checkpoint;
pub mod comparison;
pub mod delay;
pub mod entries;
mod journal;
pub mod models;
pub mod placement;
mod queues;
pub mod scaling;
#[cfg(test)]
mod tests;

pub use journal::{Journal, Watch};

use budget::BudgetError;
use engine::machine::Machine;
use measure::pinning::pin;
use rfc2544::Environment;
use serde::{Deserialize, Serialize};
use sim::Profile;
use std::time::Duration;

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Study {
    /// [`batching`].
    Batching,
    /// [`burst_mismatch`].
    BurstMismatch,
    /// [`placement`].
    Placement,
    /// [`scaling`].
    Scaling,
    /// [`models`].
    Models,
    /// [`budget`].
    Budget,
    /// [`entries`].
    Entries,
    /// [`comparison`].
    Comparison,
}

impl Study {
    /// All experiments, in the order of the reference.
    pub const ALL: [Study; 8] = [
        Study::Batching,
        Study::BurstMismatch,
        Study::Placement,
        Study::Scaling,
        Study::Models,
        Study::Budget,
        Study::Entries,
        Study::Comparison,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Study::Batching => "batching",
            Study::BurstMismatch => "burst-mismatch",
            Study::Placement => "placement",
            Study::Scaling => "scaling",
            Study::Budget => "budget",
            Study::Models => "models",
            Study::Entries => "entries",
            Study::Comparison => "comparison",
        }
    }

    /// Short description.
    pub fn about(self) -> &'static str {
        match self {
            Study::Batching => "double batching",
            Study::BurstMismatch => "mismatched transfer units",
            Study::Placement => "placement of stages",
            Study::Scaling => "queues and workers",
            Study::Budget => "cycle budget of a packet",
            Study::Entries => "number of flow entries",
            Study::Models => "execution models by the work on each packet",
            Study::Comparison => "comparison of linerate with other switches",
        }
    }
}

impl Study {
    /// Number of readings on these CPUs.
    pub fn steps(self, cpus: [usize; 2]) -> usize {
        match self {
            Study::Placement => placement::steps(cpus),
            Study::Scaling => scaling::steps(cpus),
            Study::Batching => batching::SIZES.len() * (batching::LOADS.len() + 1),
            Study::BurstMismatch => 1,
            Study::Budget => 1 + budget::BURSTS.len() + budget::DELAYS_NS.len(),
            Study::Models => models::READINGS,
            Study::Entries => entries::ENTRIES.len(),
            Study::Comparison => comparison::steps(),
        }
    }
}

/// Results; experiments that were not run are empty.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// Processor name.
    pub processor: String,
    /// Environment of the measurement.
    pub environment: Environment,
    /// Duration of each reading in milliseconds.
    pub slice_ms: u64,
    /// Complete experiments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finished: Vec<Study>,
    /// Results of sending at once and through a buffer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batching: Vec<batching::Row>,
    /// Results of the pipeline that drops packets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub burst_mismatch: Vec<burst_mismatch::Stage>,
    /// Stage placements measured on the available CPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<placement::measured::Row>,
    /// Stage placements on eight simulated cores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement_simulated: Vec<placement::simulated::Row>,
    /// Workers and queues measured on the available CPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<scaling::measured::Row>,
    /// Workers and queues with simulated workers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling_simulated: Vec<scaling::simulated::Row>,
    /// Delays, calls and predictions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<budget::Budget>,
    /// Flow tables by their number of entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<entries::Row>,
    /// Execution models by work per packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<models::Models>,
    /// linerate and other switches, measured from outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparison: Vec<comparison::Entry>,
}

impl Results {
    /// Whether readings of this experiment are missing.
    pub fn is_partial(&self, study: Study) -> bool {
        !self.finished.contains(&study)
    }
}

/// Experiments to run, and their settings.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Selected experiments.
    pub studies: Vec<Study>,
    /// CPU of the measured side, and CPU of the other side.
    pub cpus: [usize; 2],
    /// Duration of each reading.
    pub length: Duration,
}

impl Plan {
    /// Returns an empty result set with these settings.
    pub fn empty(&self, environment: Environment) -> Results {
        Results {
            processor: environment.processor.clone(),
            slice_ms: u64::try_from(self.length.as_millis()).unwrap_or(u64::MAX),
            environment,
            ..Results::default()
        }
    }

    /// Returns the experiments that `results` do not contain completely.
    pub fn missing(&self, results: &Results) -> Vec<Study> {
        self.studies.iter().copied().filter(|study| !results.finished.contains(study)).collect()
    }

    /// Returns an error if this process may not run on one of the CPUs. Nothing is measured.
    pub fn validate(&self) -> Result<(), BudgetError> {
        alone(|| self.cpus.iter().try_for_each(|&cpu| Ok(pin(cpu)?)))
    }
}

/// Units of packets that the pipelines with mismatched units handle.
const UNITS: u64 = 50_000;

/// Runs the experiments missing in `results`, one after the other. Readings taken before an error are stored. `benches`
/// runs other switches.
pub fn measure(
    plan: &Plan,
    results: &mut Results,
    watch: &mut dyn Watch,
    benches: &mut dyn comparison::Benches,
) -> Result<(), BudgetError> {
    // A pinned thread sees only its own CPU.
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

/// Runs `act` on a separate thread, because it pins itself.
fn alone(act: impl FnOnce() -> Result<(), BudgetError> + Send) -> Result<(), BudgetError> {
    std::thread::scope(|scope| {
        let panicked = |_| Err(BudgetError::Thread("it panicked".to_owned()));
        scope.spawn(act).join().unwrap_or_else(panicked)
    })
}

/// Runs one experiment. Long ones store each reading, the others only complete results.
fn one(
    study: Study,
    plan: &Plan,
    machine: &Machine,
    journal: &mut Journal<'_>,
    benches: &mut dyn comparison::Benches,
) -> Result<(), BudgetError> {
    match study {
        Study::Batching => batching::measure(plan.cpus, plan.length, journal)?,
        Study::BurstMismatch => {
            journal.next("144 of 32")?;
            journal.results.burst_mismatch = burst_mismatch::measure(UNITS)?;
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
        Study::Entries => entries::measure(plan.cpus, plan.length, journal)?,
        Study::Comparison => comparison::measure(benches, journal)?,
    }
    Ok(())
}
