//! The order of trials: round by round, and in each round size by size, so that what drifts meets all sizes alike.
//!
//! Of each size in each round: one slow trial that shows whether frames of this size come back at all, then
//! throughput, latency, loss and back-to-back, as far as they were asked for. In the first round the generator's own
//! wire comes before, unless a ceiling was given. Which trial is next follows from the plan and the trials so far.

use super::plan::{Plan, Test};
use super::search::{self, Bound, Rules, Throughput, Tried};
use super::seen::Seen;
use super::{burst, steps};
use serde::{Deserialize, Serialize};

/// Frames a second of the trial that shows whether anything comes back, or what the ceiling is if that is less.
const SLOW: f64 = 1000.0;
/// Seconds that the generator's own wire and the slow trial take.
const WIRE: f64 = 0.3;
const PROBE: f64 = 0.2;
/// Seconds of the longest burst at the ceiling (RFC 2544 section 26.4).
const LONGEST: f64 = 2.0;
/// What latency is measured at in place of the throughput where only the generator bounds that: at its very limit a generator
/// does not catch up with what one stall leaves in the rings, and every frame waits behind that.
const BELOW_LIMIT: f64 = 0.95;
/// Loads that a search usually takes: for the first goal, for each further one, for a burst, and steps of loss.
const USUAL: [usize; 4] = [8, 4, 12, 6];

/// What a trial is for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// The generator's own wire, without the switch.
    Wire,
    /// Whether anything comes back.
    Probe,
    /// A search.
    Throughput,
    /// Latency at this percentage of the throughput without loss.
    Latency(f64),
    /// Loss at this percentage of the ceiling.
    Loss(f64),
    /// A burst.
    BackToBack,
}

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offer {
    /// As fast as it goes.
    Unlimited,
    /// So many frames a second.
    Rate(f64),
    /// So many frames at once, and nothing before and behind.
    Burst(u64),
}

/// One trial to run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// From 0.
    pub round: u32,
    /// Which of the plan's sizes.
    pub size: usize,
    /// What for.
    pub doing: Doing,
    /// What is sent.
    pub offer: Offer,
    /// For how long, in seconds.
    pub seconds: f64,
}

/// A trial that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// What was to be done.
    pub step: Step,
    /// What came of it.
    pub seen: Seen,
}

/// A plan and its trials so far.
#[derive(Clone, Debug)]
pub struct Course {
    plan: Plan,
    trials: Vec<Trial>,
}

/// The trials of one size in one round, as the tests read them.
pub(super) struct Part<'a> {
    plan: &'a Plan,
    trials: Vec<&'a Trial>,
    /// The ceiling of the size, and whether it is the generator's.
    ceiling: Option<(f64, bool)>,
}

impl Course {
    /// Before the first trial.
    pub fn new(plan: Plan) -> Self {
        Self { plan, trials: Vec::new() }
    }

    /// What is asked.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// All trials so far.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// The trial that comes next; none: that was all.
    pub fn next(&self) -> Option<Step> {
        let parts =
            (0..self.plan.rounds).flat_map(|round| (0..self.plan.sizes.len()).map(move |n| (round, n)));
        // All parts before that of the last trial have ended.
        let begun = self.trials.last().map_or((0, 0), |trial| (trial.step.round, trial.step.size));
        parts.skip_while(|at| *at < begun).find_map(|(round, size)| {
            let (doing, offer, seconds) = self.part(round, size).next(round)?;
            Some(Step { round, size, doing, offer, seconds })
        })
    }

    /// A trial has ended.
    pub fn take(&mut self, step: Step, seen: Seen) {
        self.trials.push(Trial { step, seen });
    }

    /// Trials that were run, and about how many there will be.
    pub fn progress(&self) -> (usize, usize) {
        let Some(next) = self.next() else { return (self.trials.len(), self.trials.len()) };
        let (usual, sizes) = (self.usual(), self.plan.sizes.len());
        let parts = self.plan.rounds as usize * sizes;
        let behind = parts.saturating_sub(next.round as usize * sizes + next.size + 1);
        let here = usual.saturating_sub(self.part(next.round, next.size).trials.len()).max(1);
        (self.trials.len(), self.trials.len() + here + behind * usual)
    }

    /// Trials that a size usually takes.
    fn usual(&self) -> usize {
        let enough = self.plan.decided().enough as usize;
        let [first, further, burst, steps] = USUAL;
        let search = (first + further * (self.plan.goals().len() - 1)) * enough;
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
        let wire =
            self.trials.iter().find(|trial| trial.step.size == size && trial.step.doing == Doing::Wire);
        let ceiling = asked.or_else(|| wire.map(|trial| (trial.seen.received_pps(), true)));
        Part { plan: &self.plan, trials: self.trials.iter().filter(here).collect(), ceiling }
    }
}

impl<'a> Part<'a> {
    /// What comes next of this part.
    fn next(&self, round: u32) -> Option<(Doing, Offer, f64)> {
        let Some((ceiling, _)) = self.ceiling else {
            // Measured once; a wire that carries nothing ends the size.
            return (round == 0).then_some((Doing::Wire, Offer::Unlimited, WIRE));
        };
        if self.trials.iter().all(|trial| trial.step.doing != Doing::Probe) {
            return Some((Doing::Probe, Offer::Rate(ceiling.clamp(1.0, SLOW)), PROBE));
        }
        if !self.carries() {
            return None;
        }
        let seconds = self.plan.trial;
        let search = || self.search().map(|load| (Doing::Throughput, Offer::Rate(load), seconds));
        search().or_else(|| self.latency()).or_else(|| self.loss()).or_else(|| self.burst())
    }

    /// Whether frames of this size come back at all; unknown is yes.
    pub(super) fn carries(&self) -> bool {
        let probe = self.trials.iter().find(|trial| trial.step.doing == Doing::Probe);
        probe.is_none_or(|trial| trial.seen.received > 0)
    }

    /// The ceiling in frames a second, and whether it is the generator's.
    pub(super) fn ceiling(&self) -> Option<(f64, bool)> {
        self.ceiling
    }

    fn rules(&self) -> Option<Rules> {
        let (ceiling, of_generator) = self.ceiling?;
        Some(Rules { ceiling, of_generator, precision: self.plan.precision, tries: self.plan.decided() })
    }

    fn tried(&self) -> Vec<Tried<'a>> {
        let rate = |trial: &&'a Trial| match (trial.step.doing, trial.step.offer) {
            (Doing::Throughput, Offer::Rate(rate)) => Some((rate, &trial.seen)),
            _ => None,
        };
        self.trials.iter().filter_map(rate).collect()
    }

    fn search(&self) -> Option<f64> {
        let rules = self.rules().filter(|_| self.plan.searches())?;
        let tried = self.tried();
        self.plan.goals().into_iter().find_map(|goal| search::next(&rules, goal, &tried))
    }

    /// What was found for a goal.
    pub(super) fn throughput(&self, goal: f64) -> Option<Throughput> {
        search::found(&self.rules()?, goal, &self.tried()).filter(|_| self.plan.searches())
    }

    /// Trials of latency, each with its percentage.
    pub(super) fn latencies(&self) -> impl Iterator<Item = (f64, &'a Trial)> {
        self.trials.iter().filter_map(|trial| match trial.step.doing {
            Doing::Latency(load) => Some((load, *trial)),
            _ => None,
        })
    }

    /// Whether a load has its tries. Medians are taken over them, so that one disturbance does not decide here either. A try at
    /// which the generator fell short says little of the switch and is repeated, as often as there are tries.
    fn is_latency_known(&self, load: f64) -> bool {
        let of_load = || self.latencies().filter(|(other, _)| other.total_cmp(&load).is_eq());
        let tries = self.plan.tries as usize;
        of_load().filter(|(_, trial)| !trial.seen.is_short()).count() >= tries
            || of_load().count() >= 2 * tries
    }

    fn latency(&self) -> Option<(Doing, Offer, f64)> {
        let load = *self.plan.loads.iter().find(|load| !self.is_latency_known(**load))?;
        let ndr = self.throughput(0.0).filter(|_| self.plan.has(Test::Latency))?;
        let limit = if ndr.bound == Bound::Generator { BELOW_LIMIT } else { 1.0 };
        let rate = (ndr.pps * limit * load / 100.0).round();
        (rate >= 1.0).then_some((Doing::Latency(load), Offer::Rate(rate), self.plan.trial))
    }

    /// Trials of loss, each with its percentage.
    pub(super) fn losses(&self) -> Vec<(f64, &'a Seen)> {
        let percent = |trial: &&'a Trial| match trial.step.doing {
            Doing::Loss(percent) => Some((percent, &trial.seen)),
            _ => None,
        };
        self.trials.iter().filter_map(percent).collect()
    }

    fn loss(&self) -> Option<(Doing, Offer, f64)> {
        let (ceiling, _) = self.ceiling.filter(|_| self.plan.has(Test::Loss))?;
        let percent = steps::next(&self.losses())?;
        let rate = (ceiling * percent / 100.0).round().max(1.0);
        Some((Doing::Loss(percent), Offer::Rate(rate), self.plan.trial))
    }

    fn bursts(&self) -> Vec<(u64, &'a Seen)> {
        let frames = |trial: &&'a Trial| match trial.step.offer {
            Offer::Burst(frames) => Some((frames, &trial.seen)),
            _ => None,
        };
        self.trials.iter().filter_map(frames).collect()
    }

    fn burst_rules(&self) -> Option<burst::Rules> {
        let (ceiling, _) = self.ceiling?;
        let longest = ((ceiling * LONGEST) as u64).clamp(1, u64::from(u32::MAX));
        Some(burst::Rules { longest, precision: self.plan.precision, tries: self.plan.decided() })
    }

    fn burst(&self) -> Option<(Doing, Offer, f64)> {
        let rules = self.burst_rules().filter(|_| self.plan.has(Test::BackToBack))?;
        let frames = burst::next(&rules, &self.bursts())?;
        // Time enough for a switch that takes half of what the generator can send.
        let seconds = frames as f64 / self.ceiling?.0 * 2.0 + 0.05;
        Some((Doing::BackToBack, Offer::Burst(frames), seconds))
    }

    /// What was found of bursts.
    pub(super) fn back_to_back(&self) -> Option<burst::Found> {
        burst::found(&self.burst_rules()?, &self.bursts())
    }

    /// Whether nothing of this part is missing.
    pub(super) fn is_whole(&self, round: u32) -> bool {
        self.next(round).is_none()
    }
}
