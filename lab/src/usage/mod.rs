//! How the use of a data path decides what it does: the studies of DPDK's use, repeated on linerate's own parts.
//!
//! Each experiment is a value of its own that can be printed, kept and drawn. What was measured and what was simulated never
//! stand in one figure. Nothing here changes how the product works: experiments use its parts as anybody could.

pub mod batching;
pub mod budget;
pub mod chain;
pub mod delay;
pub mod mistake;
pub mod placement;
mod queues;
pub mod scaling;
mod switch;

use crate::cache::real::seats::pin;
use crate::cache::simulated::Profile;
use budget::BudgetError;
use engine::machine::Machine;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An experiment by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Study {
    /// [`batching`].
    Batching,
    /// [`mistake`].
    Mistake,
    /// [`placement`].
    Placement,
    /// [`scaling`].
    Scaling,
    /// [`budget`].
    Budget,
}

impl Study {
    /// All of them, in the order of the reference.
    pub const ALL: [Study; 5] =
        [Study::Batching, Study::Mistake, Study::Placement, Study::Scaling, Study::Budget];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Study::Batching => "batching",
            Study::Mistake => "mistake",
            Study::Placement => "placement",
            Study::Scaling => "scaling",
            Study::Budget => "budget",
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
        }
    }
}

/// What came out; an experiment that was not run is not there.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// The processor, as it calls itself.
    pub processor: String,
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

/// Units of packets that the pipeline with the mistake handles.
const UNITS: u64 = 50_000;

/// Runs the experiments one after the other on a thread of their own, which is pinned.
pub fn measure(plan: &Plan, told: &mut (dyn FnMut(&str) + Send)) -> Result<Results, BudgetError> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| all(plan, told));
        thread.join().unwrap_or_else(|_| Err(BudgetError::Thread("it panicked".to_owned())))
    })
}

/// CPUs that this thread may not run on are found before anything is measured.
fn all(plan: &Plan, told: &mut (dyn FnMut(&str) + Send)) -> Result<Results, BudgetError> {
    let processor = crate::cache::real::Processor::here().name;
    // A thread that is pinned sees no CPU but its own.
    let machine = Machine::here();
    plan.cpus.iter().try_for_each(|&cpu| pin(cpu))?;
    let mut results = Results { processor, ..Results::default() };
    for study in &plan.studies {
        match study {
            Study::Batching => results.batching = batching::measure(plan.cpus, plan.length, told)?,
            Study::Mistake => {
                told("144 of 32");
                results.mistake = mistake::measure(UNITS)?;
            }
            Study::Placement => {
                results.placement = placement::measured::measure(&machine, plan.cpus, plan.length, told)?;
                let (profile, length) = (Profile::study(), placement::simulated::LENGTH);
                results.placement_simulated = placement::simulated::simulate(&profile, length, told)?;
            }
            Study::Scaling => {
                results.scaling = scaling::measured::measure(&machine, plan.cpus, plan.length, told)?;
                results.scaling_simulated = scaling::simulated::simulate(&Profile::study(), told)?;
            }
            Study::Budget => {
                let lengths = budget::Lengths { calls: plan.length, rate: plan.length };
                results.budget = Some(budget::measure(plan.cpus, lengths, told)?);
            }
        }
    }
    Ok(results)
}
