//! What a benchmark found: per size and round, with how and where it was found. A result is a sum of trials, so one
//! of a benchmark that was ended is the sum of those that there are.

use super::course::{Course, Offer, Part};
use super::plan::{Plan, Test};
use super::search::{Bound, Throughput};
use super::seen::{Delays, Seen};
use generator::Description;
use measure::provenance::Build;
use serde::{Deserialize, Serialize};

/// Which way frames go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// From one port of the switch to another, as between two guests.
    #[default]
    VmVm,
    /// In by one port, through a guest that forwards, and out by another port.
    PhyVmPhy,
    /// Out and back by one port.
    Loop,
}

impl Topology {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Topology::VmVm => "vm-vm",
            Topology::PhyVmPhy => "phy-vm-phy",
            Topology::Loop => "loop",
        }
    }
}

/// What was measured: what must be alike where trials are put together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Which way frames go.
    pub topology: Topology,
    /// The switch: `linerate`, its command, or none that was started here.
    pub switch: String,
    /// Its version, where it is ours or somebody said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What our switch is run by, where that is not one worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<String>,
    /// The guest that forwards or reflects, if there is one.
    pub guest: Option<String>,
    /// The generator's ports.
    pub ports: Vec<String>,
    /// The switch's own ports, where it is ours.
    pub switch_ports: Vec<String>,
    /// The frames, but for their size.
    pub stream: Description,
}

/// Who was to run where; none: wherever the kernel put it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSet {
    /// The generator.
    pub generator: Option<usize>,
    /// The switch, where it is ours.
    pub switch: Option<usize>,
    /// The guest, where it is ours.
    pub guest: Option<usize>,
}

/// Where and by what it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The build that measured.
    pub build: Build,
    /// Model, with family.
    pub processor: String,
    /// CPUs that this process might use.
    pub cpus: usize,
    /// Who was to run on which of them.
    pub used: CpuSet,
    /// Name and version of the kernel.
    pub kernel: String,
    /// Whether this is a virtual machine, as the processor says.
    pub virtual_machine: bool,
    /// What decides frequencies; none where nothing is told.
    pub governor: Option<String>,
    /// The command line.
    pub command: Vec<String>,
    /// When it began, UTC.
    pub date: String,
    /// Processes that ran or were ready over the last minute, when it began.
    pub load: Option<f64>,
}

/// Latency at one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyRow {
    /// Percent of the throughput without loss.
    pub load: f64,
    /// Frames a second that were asked for.
    pub asked_pps: f64,
    /// Whether the generator offered less.
    pub short: bool,
    /// The part that was lost.
    pub loss: f64,
    /// How long frames took.
    #[serde(flatten)]
    pub delays: Delays,
}

/// Loss at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossRow {
    /// Percent of the ceiling.
    pub percent: f64,
    /// Frames a second that were offered.
    pub offered_pps: f64,
    /// Whether the generator offered less than was asked.
    pub short: bool,
    /// The part that was lost.
    pub loss: f64,
}

/// The longest burst without loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BurstRow {
    /// Frames; 0: even the shortest burst lost something.
    pub frames: u64,
    /// The shortest longer burst that did not pass.
    pub above: Option<u64>,
    /// Why it is not longer.
    pub bound: Bound,
}

/// What one round found of a size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Without loss.
    pub ndr: Option<Throughput>,
    /// With the agreed loss.
    pub pdr: Option<Throughput>,
    /// By load.
    pub latency: Vec<LatencyRow>,
    /// By rate.
    pub loss: Vec<LossRow>,
    /// Bursts.
    pub back_to_back: Option<BurstRow>,
    /// Whether every trial of it was run.
    pub whole: bool,
}

impl Round {
    /// Whether a search of it was ended before its bounds met.
    pub fn is_unfinished(&self) -> bool {
        let bounds = [self.ndr.map(|found| found.bound), self.pdr.map(|found| found.bound)];
        bounds
            .into_iter()
            .chain([self.back_to_back.map(|row| row.bound)])
            .flatten()
            .any(|bound| bound == Bound::Unfinished)
    }
}

/// What was found of a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeResults {
    /// As the plan has it.
    pub size: String,
    /// Mean bytes of a frame, without checksum.
    pub mean: f64,
    /// Frames a second that are 100 percent; none where they are not known.
    pub ceiling_pps: Option<f64>,
    /// Whether frames of this size came back at all.
    pub carried: bool,
    /// Round by round.
    pub rounds: Vec<Round>,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// What was measured.
    pub setup: Setup,
    /// Where.
    pub environment: Environment,
    /// What was asked.
    pub plan: Plan,
    /// Whether every trial was run.
    pub whole: bool,
    /// Trials.
    pub trials: usize,
    /// What was not as it should be.
    pub notes: Vec<String>,
    /// Size by size.
    pub sizes: Vec<SizeResults>,
}

impl Results {
    /// The sum of the trials so far.
    pub fn of(course: &Course, setup: Setup, environment: Environment) -> Self {
        let plan = course.plan().clone();
        let sizes: Vec<_> = (0..plan.sizes.len()).map(|n| size(course, n)).collect();
        let notes = notes(course, &sizes);
        let (whole, trials) = (course.next().is_none(), course.trials().len());
        Self { setup, environment, plan, whole, trials, notes, sizes }
    }
}

fn size(course: &Course, n: usize) -> SizeResults {
    let plan = course.plan();
    let begun = course.trials().iter().filter(|trial| trial.step.size == n);
    let rounds = begun.map(|trial| trial.step.round + 1).max().unwrap_or(0);
    let parts: Vec<_> = (0..rounds).map(|round| (round, course.part(round, n))).collect();
    let first = course.part(0, n);
    SizeResults {
        size: plan.sizes[n].to_string(),
        mean: plan.mean(n),
        ceiling_pps: first.ceiling().map(|(ceiling, _)| ceiling),
        carried: parts.iter().all(|(_, part)| part.carries()),
        rounds: parts.iter().map(|(number, part)| round(plan, *number, part)).collect(),
    }
}

fn round(plan: &Plan, number: u32, part: &Part<'_>) -> Round {
    let loss = |(percent, seen): (f64, &Seen)| LossRow {
        percent,
        offered_pps: seen.offered_pps(),
        short: seen.is_short(),
        loss: seen.loss(),
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
        let asked_pps = match trial.step.offer {
            Offer::Rate(rate) => rate,
            Offer::Unlimited | Offer::Burst(_) => 0.0,
        };
        let (short, loss) = (trial.seen.is_short(), trial.seen.loss());
        Some(LatencyRow { load, asked_pps, short, loss, delays: trial.seen.delays.clone()? })
    };
    part.latencies().filter_map(row).collect()
}

/// Which searches of a size have not come to their end, and what their figures are worth.
fn unfinished(size: &SizeResults) -> Option<String> {
    let of: Vec<String> = size
        .rounds
        .iter()
        .zip(1..)
        .filter(|(round, _)| round.is_unfinished())
        .map(|(_, n)| n.to_string())
        .collect();
    let worth = if of.len() < size.rounds.len() {
        "no median has what it found so far, where another round has more"
    } else {
        "what it found so far is a lower bound"
    };
    (!of.is_empty())
        .then(|| format!("size {}: a search of round {} was not finished; {worth}", size.size, of.join(", ")))
}

/// What whoever reads the figures has to know.
fn notes(course: &Course, sizes: &[SizeResults]) -> Vec<String> {
    let plan = course.plan();
    let mut notes = vec![format!(
        "a trial has {} s, where RFC 2544 asks for 60 s (`--trial 60s`); of {} at a load {} must pass",
        plan.trial,
        plan.tries,
        plan.decided().enough
    )];
    for size in sizes {
        let name = &size.size;
        if !size.carried {
            notes.push(format!("size {name}: no frame came back, so it was left out; look at MTUs"));
        }
        let ended_at_nothing = |found: Throughput| found.pps <= 0.0 && found.bound != Bound::Unfinished;
        let nothing = |round: &Round| round.ndr.is_some_and(ended_at_nothing);
        let untold = plan.has(Test::Latency) && size.rounds.iter().any(nothing);
        if untold {
            notes.push(format!(
                "size {name}: without a rate that loses nothing there is no load to measure latency at"
            ));
        }
        let bounded = |round: &Round| round.ndr.is_some_and(|ndr| ndr.bound == Bound::Generator);
        if plan.has(Test::Latency) && size.rounds.iter().any(bounded) {
            notes.push(format!(
                "size {name}: the generator is the limit, so loads of latency are parts of 95 % of the throughput"
            ));
        }
        for at in size.latency().iter().filter(|at| at.short) {
            notes.push(format!(
                "size {name}: the generator fell short at {} % in every trial, so latencies there are also its own",
                at.load
            ));
        }
        notes.extend(unfinished(size));
    }
    let seen = course.trials().iter().map(|trial| &trial.seen);
    let sum = |of: fn(&Seen) -> u64| seen.clone().map(of).sum::<u64>();
    for (count, what) in
        [(sum(|seen| seen.duplicates), "came twice"), (sum(|seen| seen.reordered), "came out of order")]
    {
        if count > 0 {
            notes.push(format!("{count} frames of all trials {what}"));
        }
    }
    notes
}
