//! Order of trials: round by round, and within a round size by size, so that drift affects all sizes equally.
//!
//! Each size of a round starts with a slow trial that checks whether frames of this size come back, followed by the
//! requested tests: throughput, latency, loss and back-to-back. In the first round the rate of the generator's own
//! loopback is measured before, unless a ceiling was given. The next trial follows from the plan and the trials so far.

use super::counters::TrialCounters;
use super::plan::{Plan, Test};
use super::search::{self, Bound, Rules, Throughput, Trials};
use super::{burst, steps};
use serde::{Deserialize, Serialize};

/// Frames per second of the slow trial; the ceiling if that is lower.
const SLOW_RATE: f64 = 1000.0;
/// Duration in seconds of the loopback trial and of the slow trial.
const LOOPBACK_SECONDS: f64 = 0.3;
const PROBE_SECONDS: f64 = 0.2;
/// Duration in seconds of the longest burst at the ceiling (RFC 2544 section 26.4).
const MAX_BURST_SECONDS: f64 = 2.0;
/// Fraction of the throughput that is the base of latency loads if the generator limits the throughput: at its limit a
/// generator does not work off the backlog of a stall, and every frame waits behind that.
const BELOW_LIMIT: f64 = 0.95;
/// Typical numbers of loads: search of the first goal, of each further goal, of a burst, and steps of loss.
const TYPICAL_LOADS: [usize; 4] = [8, 4, 12, 6];

/// Purpose of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Rate of the generator's own loopback, without the switch.
    Loopback,
    /// Check whether frames come back.
    Probe,
    /// Search of the throughput.
    Throughput,
    /// Latency at this percentage of the throughput without loss.
    Latency(f64),
    /// Loss at this percentage of the ceiling.
    Loss(f64),
    /// Back-to-back frames.
    BackToBack,
}

/// Load of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// As fast as possible.
    Unlimited,
    /// Frames per second.
    Rate(f64),
    /// A single burst of this many frames.
    Burst(u64),
}

/// A trial to run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Round, from 0.
    pub round: u32,
    /// Index of the size in the plan.
    pub size: usize,
    /// Purpose.
    pub purpose: Purpose,
    /// Load.
    pub load: Load,
    /// Duration in seconds.
    pub seconds: f64,
}

/// A completed trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// The trial.
    pub step: Step,
    /// Its result.
    pub counters: TrialCounters,
}

/// A plan and its completed trials.
#[derive(Clone, Debug)]
pub struct TestRun {
    plan: Plan,
    trials: Vec<Trial>,
}

/// The trials of one size in one round.
pub(super) struct Part<'a> {
    plan: &'a Plan,
    trials: Vec<&'a Trial>,
    /// The ceiling of the size in frames per second, and whether it is the generator's limit.
    ceiling: Option<(f64, bool)>,
}

impl TestRun {
    /// A course without trials.
    pub fn new(plan: Plan) -> Self {
        Self { plan, trials: Vec::new() }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// All completed trials.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// The next trial. Returns `None` if the plan is complete.
    pub fn next(&self) -> Option<Step> {
        let parts =
            (0..self.plan.rounds).flat_map(|round| (0..self.plan.sizes.len()).map(move |n| (round, n)));
        // All parts before that of the last trial are complete.
        let begun = self.trials.last().map_or((0, 0), |trial| (trial.step.round, trial.step.size));
        parts.skip_while(|at| *at < begun).find_map(|(round, size)| {
            let (purpose, load, seconds) = self.part(round, size).next(round)?;
            Some(Step { round, size, purpose, load, seconds })
        })
    }

    /// Adds a completed trial.
    pub fn take(&mut self, step: Step, counters: TrialCounters) {
        self.trials.push(Trial { step, counters });
    }

    /// Number of completed trials, and estimated total.
    pub fn progress(&self) -> (usize, usize) {
        let Some(next) = self.next() else { return (self.trials.len(), self.trials.len()) };
        let (usual, sizes) = (self.usual(), self.plan.sizes.len());
        let parts = self.plan.rounds as usize * sizes;
        let behind = parts.saturating_sub(next.round as usize * sizes + next.size + 1);
        let here = usual.saturating_sub(self.part(next.round, next.size).trials.len()).max(1);
        (self.trials.len(), self.trials.len() + here + behind * usual)
    }

    /// Typical number of trials of a size.
    fn usual(&self) -> usize {
        let enough = self.plan.decided().enough as usize;
        let [first, next_between, burst, steps] = TYPICAL_LOADS;
        let search = (first + next_between * (self.plan.goals().len() - 1)) * enough;
        let of = |test, trials: usize| if self.plan.has(test) { trials } else { 0 };
        1 + if self.plan.searches() { search } else { 0 }
            + of(Test::Latency, self.plan.loads.len() * self.plan.tries as usize)
            + of(Test::Loss, steps)
            + of(Test::BackToBack, burst * enough)
    }

    /// The trials of a size in a round.
    pub(super) fn part(&self, round: u32, size: usize) -> Part<'_> {
        let here = |trial: &&Trial| trial.step.round == round && trial.step.size == size;
        let asked = self.plan.ceiling_at(self.plan.mean(size)).ok().flatten().map(|asked| (asked, false));
        let wire = self
            .trials
            .iter()
            .find(|trial| trial.step.size == size && trial.step.purpose == Purpose::Loopback);
        let ceiling = asked.or_else(|| wire.map(|trial| (trial.counters.received_pps(), true)));
        Part { plan: &self.plan, trials: self.trials.iter().filter(here).collect(), ceiling }
    }
}

impl<'a> Part<'a> {
    /// The next trial of this part.
    fn next(&self, round: u32) -> Option<(Purpose, Load, f64)> {
        let Some((ceiling, _)) = self.ceiling else {
            // Measured once; if the loopback carries nothing, the size ends.
            return (round == 0).then_some((Purpose::Loopback, Load::Unlimited, LOOPBACK_SECONDS));
        };
        if self.trials.iter().all(|trial| trial.step.purpose != Purpose::Probe) {
            return Some((Purpose::Probe, Load::Rate(ceiling.clamp(1.0, SLOW_RATE)), PROBE_SECONDS));
        }
        if !self.carries() {
            return None;
        }
        let seconds = self.plan.trial;
        let search = || self.search().map(|load| (Purpose::Throughput, Load::Rate(load), seconds));
        search().or_else(|| self.latency()).or_else(|| self.loss()).or_else(|| self.burst())
    }

    /// Whether frames of this size come back; true if not known yet.
    pub(super) fn carries(&self) -> bool {
        let probe = self.trials.iter().find(|trial| trial.step.purpose == Purpose::Probe);
        probe.is_none_or(|trial| trial.counters.received > 0)
    }

    /// The ceiling in frames per second, and whether it is the generator's limit.
    pub(super) fn ceiling(&self) -> Option<(f64, bool)> {
        self.ceiling
    }

    fn rules(&self) -> Option<Rules> {
        let (ceiling, of_generator) = self.ceiling?;
        Some(Rules { ceiling, of_generator, precision: self.plan.precision, tries: self.plan.decided() })
    }

    fn tried(&self) -> Vec<Trials<'a>> {
        let rate = |trial: &&'a Trial| match (trial.step.purpose, trial.step.load) {
            (Purpose::Throughput, Load::Rate(rate)) => Some((rate, &trial.counters)),
            _ => None,
        };
        self.trials.iter().filter_map(rate).collect()
    }

    fn search(&self) -> Option<f64> {
        let rules = self.rules().filter(|_| self.plan.searches())?;
        let tried = self.tried();
        self.plan.goals().into_iter().find_map(|goal| search::next(&rules, goal, &tried))
    }

    /// The throughput found for a goal.
    pub(super) fn throughput(&self, goal: f64) -> Option<Throughput> {
        search::found(&self.rules()?, goal, &self.tried()).filter(|_| self.plan.searches())
    }

    /// Latency trials, each with its percentage.
    pub(super) fn latencies(&self) -> impl Iterator<Item = (f64, &'a Trial)> {
        self.trials.iter().filter_map(|trial| match trial.step.purpose {
            Purpose::Latency(load) => Some((load, *trial)),
            _ => None,
        })
    }

    /// Whether a load has enough tries. Results are medians over them, so that one disturbance does not decide. Tries
    /// in which the generator fell short are repeated, up to twice the number of tries in total.
    fn is_latency_known(&self, load: f64) -> bool {
        let of_load = || self.latencies().filter(|(other, _)| other.total_cmp(&load).is_eq());
        let tries = self.plan.tries as usize;
        of_load().filter(|(_, trial)| !trial.counters.is_short()).count() >= tries
            || of_load().count() >= 2 * tries
    }

    fn latency(&self) -> Option<(Purpose, Load, f64)> {
        let load = *self.plan.loads.iter().find(|load| !self.is_latency_known(**load))?;
        let ndr = self.throughput(0.0).filter(|_| self.plan.has(Test::Latency))?;
        let limit = if ndr.bound == Bound::Generator { BELOW_LIMIT } else { 1.0 };
        let rate = (ndr.pps * limit * load / 100.0).round();
        (rate >= 1.0).then_some((Purpose::Latency(load), Load::Rate(rate), self.plan.trial))
    }

    /// Loss trials, each with its percentage.
    pub(super) fn losses(&self) -> Vec<(f64, &'a TrialCounters)> {
        let percent = |trial: &&'a Trial| match trial.step.purpose {
            Purpose::Loss(percent) => Some((percent, &trial.counters)),
            _ => None,
        };
        self.trials.iter().filter_map(percent).collect()
    }

    fn loss(&self) -> Option<(Purpose, Load, f64)> {
        let (ceiling, _) = self.ceiling.filter(|_| self.plan.has(Test::Loss))?;
        let percent = steps::next(&self.losses())?;
        let rate = (ceiling * percent / 100.0).round().max(1.0);
        Some((Purpose::Loss(percent), Load::Rate(rate), self.plan.trial))
    }

    fn bursts(&self) -> Vec<(u64, &'a TrialCounters)> {
        let frames = |trial: &&'a Trial| match trial.step.load {
            Load::Burst(frames) => Some((frames, &trial.counters)),
            _ => None,
        };
        self.trials.iter().filter_map(frames).collect()
    }

    fn burst_rules(&self) -> Option<burst::Rules> {
        let (ceiling, _) = self.ceiling?;
        let longest = ((ceiling * MAX_BURST_SECONDS) as u64).clamp(1, u64::from(u32::MAX));
        Some(burst::Rules { longest, precision: self.plan.precision, tries: self.plan.decided() })
    }

    fn burst(&self) -> Option<(Purpose, Load, f64)> {
        let rules = self.burst_rules().filter(|_| self.plan.has(Test::BackToBack))?;
        let frames = burst::next(&rules, &self.bursts())?;
        // Sufficient for a switch that handles half of the generator's maximum rate.
        let seconds = frames as f64 / self.ceiling?.0 * 2.0 + 0.05;
        Some((Purpose::BackToBack, Load::Burst(frames), seconds))
    }

    /// The back-to-back result.
    pub(super) fn back_to_back(&self) -> Option<burst::Found> {
        burst::found(&self.burst_rules()?, &self.bursts())
    }

    /// Whether all trials of this part are completed.
    pub(super) fn is_whole(&self, round: u32) -> bool {
        self.next(round).is_none()
    }
}
