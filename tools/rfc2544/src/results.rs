//! Results of a benchmark: per size and round, with setup and environment. Results are computed from trials, so a
//! partial benchmark has results of its completed trials.

use super::counters::{Delays, TrialCounters};
use super::plan::{Plan, Test};
use super::search::{Bound, Throughput};
use super::test_run::{Load, Part, TestRun};
use generator::Description;
use measure::provenance::Build;
use serde::{Deserialize, Serialize};

/// Path of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// From one port of the switch to another, as between two guests.
    #[default]
    VmVm,
    /// In by one port, through a forwarding guest, and out by another port.
    PhyVmPhy,
    /// Out and back by one port.
    Loop,
}

impl Topology {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Topology::VmVm => "vm-vm",
            Topology::PhyVmPhy => "phy-vm-phy",
            Topology::Loop => "loop",
        }
    }
}

/// The measured setup; must be equal for trials in the same results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Path of frames.
    pub topology: Topology,
    /// The switch: `linerate`, its command, or a note that it was not started by the benchmark.
    pub switch: String,
    /// Version of the switch, if it is `linerate` or was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Workers of `linerate`, if it is not run by one worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<String>,
    /// The forwarding or reflecting guest, if any.
    pub guest: Option<String>,
    /// Ports of the generator.
    pub ports: Vec<String>,
    /// Ports of the switch, if it is `linerate`.
    pub switch_ports: Vec<String>,
    /// The frames, except for their size.
    pub stream: Description,
}

/// Requested CPUs; `None`: placed by the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSet {
    /// CPU of the generator.
    pub generator: Option<usize>,
    /// CPU of the switch, if it is `linerate`.
    pub switch: Option<usize>,
    /// CPU of the guest, if the benchmark started it.
    pub guest: Option<usize>,
}

/// Environment of a benchmark.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Build of `linerate`.
    pub build: Build,
    /// Processor model, with family.
    pub processor: String,
    /// CPUs available to the process.
    pub cpus: usize,
    /// Requested CPUs.
    pub used: CpuSet,
    /// Kernel name and version.
    pub kernel: String,
    /// Whether the processor reports a hypervisor.
    pub virtual_machine: bool,
    /// CPU frequency governor, if reported.
    pub governor: Option<String>,
    /// Command line.
    pub command: Vec<String>,
    /// Start time, UTC.
    pub date: String,
    /// Load average of the last minute at the start.
    pub load: Option<f64>,
}

/// Latency at one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyRow {
    /// Percent of the throughput without loss.
    pub load: f64,
    /// Requested frames per second.
    pub asked_pps: f64,
    /// Whether the generator offered less.
    pub short: bool,
    /// Loss fraction.
    pub loss: f64,
    /// Delays.
    #[serde(flatten)]
    pub delays: Delays,
}

/// Loss at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossRow {
    /// Percent of the ceiling.
    pub percent: f64,
    /// Offered frames per second.
    pub offered_pps: f64,
    /// Whether the generator offered less than requested.
    pub short: bool,
    /// Loss fraction.
    pub loss: f64,
}

/// The longest burst without loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BurstRow {
    /// Frames; 0 if even the shortest burst had loss.
    pub frames: u64,
    /// The shortest longer burst that did not pass.
    pub above: Option<u64>,
    /// Cause of the limit.
    pub bound: Bound,
}

/// Results of one size in one round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Throughput without loss.
    pub ndr: Option<Throughput>,
    /// Throughput with the allowed loss.
    pub pdr: Option<Throughput>,
    /// Latency by load.
    pub latency: Vec<LatencyRow>,
    /// Loss by rate.
    pub loss: Vec<LossRow>,
    /// Back-to-back frames.
    pub back_to_back: Option<BurstRow>,
    /// Whether all trials of the round are completed.
    pub whole: bool,
}

impl Round {
    /// Whether a search of the round is incomplete.
    pub fn is_unfinished(&self) -> bool {
        let bounds = [self.ndr.map(|found| found.bound), self.pdr.map(|found| found.bound)];
        bounds
            .into_iter()
            .chain([self.back_to_back.map(|row| row.bound)])
            .flatten()
            .any(|bound| bound == Bound::Unfinished)
    }
}

/// Results of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeResults {
    /// Size as written in the plan.
    pub size: String,
    /// Mean frame size in bytes, without checksum.
    pub mean: f64,
    /// Ceiling in frames per second; `None` if unknown.
    pub ceiling_pps: Option<f64>,
    /// Whether frames of this size came back.
    pub carried: bool,
    /// Results per round.
    pub rounds: Vec<Round>,
}

/// Results of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Setup.
    pub setup: Setup,
    /// Environment.
    pub environment: Environment,
    /// Plan.
    pub plan: Plan,
    /// Whether all trials are completed.
    pub whole: bool,
    /// Number of trials.
    pub trials: usize,
    /// Notes and warnings.
    pub notes: Vec<String>,
    /// Results per size.
    pub sizes: Vec<SizeResults>,
}

impl Results {
    /// Computes the results of the trials so far.
    pub fn of(test_run: &TestRun, setup: Setup, environment: Environment) -> Self {
        let plan = test_run.plan().clone();
        let sizes: Vec<_> = (0..plan.sizes.len()).map(|n| size(test_run, n)).collect();
        let notes = notes(test_run, &sizes);
        let (whole, trials) = (test_run.next().is_none(), test_run.trials().len());
        Self { setup, environment, plan, whole, trials, notes, sizes }
    }
}

fn size(test_run: &TestRun, n: usize) -> SizeResults {
    let plan = test_run.plan();
    let begun = test_run.trials().iter().filter(|trial| trial.step.size == n);
    let rounds = begun.map(|trial| trial.step.round + 1).max().unwrap_or(0);
    let parts: Vec<_> = (0..rounds).map(|round| (round, test_run.part(round, n))).collect();
    let first = test_run.part(0, n);
    SizeResults {
        size: plan.sizes[n].to_string(),
        mean: plan.mean(n),
        ceiling_pps: first.ceiling().map(|(ceiling, _)| ceiling),
        carried: parts.iter().all(|(_, part)| part.carries()),
        rounds: parts.iter().map(|(number, part)| round(plan, *number, part)).collect(),
    }
}

fn round(plan: &Plan, number: u32, part: &Part<'_>) -> Round {
    let loss = |(percent, counters): (f64, &TrialCounters)| LossRow {
        percent,
        offered_pps: counters.offered_pps(),
        short: counters.is_short(),
        loss: counters.loss(),
    };
    let pdr = (plan.goals().len() > 1).then(|| part.throughput(plan.loss)).flatten();
    Round {
        ndr: part.throughput(0.0),
        pdr,
        latency: latency(part),
        loss: part.losses().into_iter().map(loss).collect(),
        back_to_back: part.back_to_back().map(|found| BurstRow {
            frames: found.frames,
            above: found.above,
            bound: match (found.above, found.short) {
                _ if found.unfinished => Bound::Unfinished,
                (None, _) | (_, true) => Bound::Generator,
                _ => Bound::Switch,
            },
        }),
        whole: part.is_whole(number),
    }
}

fn latency(part: &Part<'_>) -> Vec<LatencyRow> {
    let row = |(load, trial): (f64, &super::Trial)| {
        let asked_pps = match trial.step.load {
            Load::Rate(rate) => rate,
            Load::Unlimited | Load::Burst(_) => 0.0,
        };
        let (short, loss) = (trial.counters.is_short(), trial.counters.loss());
        Some(LatencyRow { load, asked_pps, short, loss, delays: trial.counters.delays.clone()? })
    };
    part.latencies().filter_map(row).collect()
}

/// A note on the incomplete searches of a size and the validity of their figures, if there are any.
fn unfinished(size: &SizeResults) -> Option<String> {
    let of: Vec<String> = size
        .rounds
        .iter()
        .zip(1..)
        .filter(|(round, _)| round.is_unfinished())
        .map(|(_, n)| n.to_string())
        .collect();
    let worth = if of.len() < size.rounds.len() {
        "its partial result is not part of a median that another round has"
    } else {
        "its result so far is a lower bound"
    };
    (!of.is_empty())
        .then(|| format!("size {}: a search of round {} was not finished; {worth}", size.size, of.join(", ")))
}

/// A note on frames lost at a lower rate than the NDR, if there are any: a rate that passed once may fail in another
/// trial.
fn noise(size: &SizeResults) -> Option<String> {
    let ndr = size.ndr().filter(|ndr| ndr.value > 0.0)?.value;
    let of_loss = size.loss().into_iter().map(|row| (row.offered_pps, row.loss));
    let of_latency = size.latency().into_iter().map(|row| (row.pps, row.loss));
    let lossy = of_loss.chain(of_latency).filter(|(pps, loss)| *pps < ndr && *loss > 0.0);
    let (pps, loss) = lossy.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
    Some(format!(
        "size {}: {:.4} % of the frames were lost at {:.4} Mpps, below the NDR of {:.4} Mpps: trials differ by noise; \
         more --tries or a longer --duration make the NDR more certain",
        size.size,
        loss * 100.0,
        pps / 1e6,
        ndr / 1e6
    ))
}

/// Notes for readers of the figures.
fn notes(test_run: &TestRun, sizes: &[SizeResults]) -> Vec<String> {
    let plan = test_run.plan();
    let mut notes = vec![format!(
        "a trial takes {} s; RFC 2544 requires 60 s (`--duration 60s`); of {} at a load, {} must pass",
        plan.trial,
        plan.tries,
        plan.decided().enough
    )];
    for size in sizes {
        notes_of_size(plan, size, &mut notes);
    }
    let counters = test_run.trials().iter().map(|trial| &trial.counters);
    let sum = |of: fn(&TrialCounters) -> u64| counters.clone().map(of).sum::<u64>();
    for (count, what) in [
        (sum(|counters| counters.duplicates), "came twice"),
        (sum(|counters| counters.reordered), "came out of order"),
    ] {
        if count > 0 {
            notes.push(format!("{count} frames of all trials {what}"));
        }
    }
    notes
}

/// Notes on one frame size.
fn notes_of_size(plan: &Plan, size: &SizeResults, notes: &mut Vec<String>) {
    let name = &size.size;
    if !size.carried {
        notes.push(format!("size {name}: no frame was forwarded, so it was skipped; check MTUs"));
    }
    let ended_at_nothing = |found: Throughput| found.pps <= 0.0 && found.bound != Bound::Unfinished;
    let nothing = |round: &Round| round.ndr.is_some_and(ended_at_nothing);
    let untold = plan.has(Test::Latency) && size.rounds.iter().any(nothing);
    if untold {
        notes.push(format!("size {name}: no NDR was found, so latency was not measured"));
    }
    let bounded = |round: &Round| round.ndr.is_some_and(|ndr| ndr.bound == Bound::Generator);
    if plan.has(Test::Latency) && size.rounds.iter().any(bounded) {
        notes.push(format!(
            "size {name}: the generator is the limit, so loads for latency are relative to 95 % of the throughput"
        ));
    }
    for at in size.latency().iter().filter(|at| at.short) {
        notes.push(format!(
            "size {name}: the generator fell short at {} % in every trial, so latencies there include its own",
            at.load
        ));
    }
    notes.extend(unfinished(size));
    notes.extend(noise(size));
}
