//! Throughput: the highest load at which at most a goal fraction is lost (RFC 2544 section 26.1, RFC 1242 section
//! 3.17).
//!
//! A load is tried until the number of agreeing tries that the plan requires is reached (default: more than half), so
//! that one disturbance does not decide. The upper bound is the lowest load that failed, the lower bound the highest
//! load below it that passed, and the next load halves the interval. The search starts at the ceiling and at the rate
//! received there, and moves away from that in growing steps until both bounds exist. A load that the generator could
//! not offer bounds the search like a failed one, but does not count against the switch. All goals share their trials.
//! See `docs/decisions/0062-search-of-the-throughput.md`.
//! not held against the switch. All goals share their trials. See `docs/decisions/0062-search-of-the-throughput.md`.

use super::counters::TrialCounters;
use super::plan::Tries;
use serde::{Deserialize, Serialize};

/// Loads below this fraction of the ceiling are not searched.
const MIN_LOAD: f64 = 1e-3;
/// Maximum number of loads per search.
const MAX_LOADS: usize = 60;

/// Cause of the upper limit of a throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The switch lost more at the next higher load.
    Switch,
    /// The generator could not offer more: the throughput is a lower bound.
    Generator,
    /// The ceiling was reached: the throughput is a lower bound.
    Ceiling,
    /// The search ended before its bounds met: the throughput is a lower bound.
    Unfinished,
}

/// The highest load that passed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Allowed loss fraction.
    pub goal: f64,
    /// Frames per second; 0 if the lowest load tried failed or, with an incomplete search, none has passed yet.
    pub pps: f64,
    /// The lowest load above it that did not pass.
    pub above_pps: Option<f64>,
    /// Cause of the limit.
    pub bound: Bound,
    /// Number of trials.
    pub trials: usize,
}

/// Parameters shared by all searches of a size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) ceiling: f64,
    /// Whether the ceiling is the generator's maximum rate.
    pub(super) of_generator: bool,
    pub(super) precision: f64,
    pub(super) tries: Tries,
}

/// A requested load in frames per second, and the result of its trial.
pub(super) type Trials<'a> = (f64, &'a TrialCounters);

/// Verdict on the tries of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// More tries are needed.
    Open,
    Passed,
    Failed,
    /// The generator could not offer the load; this many frames per second passed.
    Short(f64),
}

/// Decides on a load or a burst from all its tries, each good, short or bad; a short try carries the rate that it
/// showed. Short tries do not count as passed: if passed tries cannot reach `enough` any more, but passed and short
/// ones together do, the verdict is `Short`, and the load is not required of the generator again.
pub(super) fn verdict(tries: Tries, each: impl Iterator<Item = Verdict>) -> Verdict {
    let (mut passed, mut failed, mut short) = (0, 0, Vec::new());
    for one in each {
        match one {
            Verdict::Passed => passed += 1,
            Verdict::Short(shown) => short.push(shown),
            Verdict::Failed | Verdict::Open => failed += 1,
        }
    }
    let good = passed + short.len() as u32;
    // Too few tries are left to reach `enough`; a tie does not pass.
    let hopeless = failed > tries.most - tries.enough;
    let left = tries.most.saturating_sub(good + failed);
    match (hopeless, passed >= tries.enough, good >= tries.enough && passed + left < tries.enough) {
        (true, ..) => Verdict::Failed,
        (_, true, _) => Verdict::Passed,
        (_, _, true) => Verdict::Short(agreed(short, tries.enough - passed)),
        _ => Verdict::Open,
    }
}

/// The highest rate shown by at least `enough` of the short tries.
fn agreed(mut short: Vec<f64>, enough: u32) -> f64 {
    short.sort_unstable_by(|a, b| b.total_cmp(a));
    short.get(enough as usize - 1).copied().unwrap_or_default()
}

/// State of the search for one goal.
#[derive(Debug)]
struct SearchState {
    /// All loads tried, ascending, with their verdicts.
    loads: Vec<(f64, Verdict)>,
    lower: f64,
    upper: Option<(f64, Verdict)>,
}

fn known(rules: &Rules, goal: f64, tried: &[Trials<'_>]) -> SearchState {
    // A shortfall of the generator smaller than the resolution of the search is ignored.
    let enough = |load: f64, counters: &TrialCounters| {
        !counters.is_short() || counters.offered_pps() >= load * (1.0 - rules.precision / 2.0)
    };
    let one = |load: f64, counters: &TrialCounters| match (counters.loss() <= goal, enough(load, counters)) {
        (false, _) => Verdict::Failed,
        (true, true) => Verdict::Passed,
        (true, false) => Verdict::Short(counters.offered_pps()),
    };
    let mut asked: Vec<f64> = tried.iter().map(|(load, _)| *load).collect();
    asked.sort_unstable_by(f64::total_cmp);
    asked.dedup();
    let validate = |load: f64| {
        let of_load = tried.iter().filter(|(other, _)| other.total_cmp(&load).is_eq());
        (load, verdict(rules.tries, of_load.map(|(_, counters)| one(load, counters))))
    };
    let loads: Vec<_> = asked.into_iter().map(validate).collect();
    let upper =
        loads.iter().find(|(_, verdict)| matches!(verdict, Verdict::Failed | Verdict::Short(_))).copied();
    let below = |load: f64| upper.is_none_or(|(upper, _)| load < upper);
    let shown = loads.iter().filter_map(|(load, verdict)| match verdict {
        Verdict::Passed => Some(*load),
        Verdict::Short(offered) => Some(*offered),
        Verdict::Failed | Verdict::Open => None,
    });
    let lower = shown.filter(|load| below(*load)).fold(0.0, f64::max);
    SearchState { loads, lower, upper }
}

/// The next load for this goal, in frames per second. Returns `None` if the search is complete.
pub(super) fn next(rules: &Rules, goal: f64, tried: &[Trials<'_>]) -> Option<f64> {
    let known = known(rules, goal, tried);
    if let Some((load, _)) = known.loads.iter().find(|(_, verdict)| *verdict == Verdict::Open) {
        return Some(*load);
    }
    if known.loads.len() >= MAX_LOADS {
        return None;
    }
    next_between(rules, &known, tried)
}

/// The next untried load between the bounds. Returns `None` if the bounds have met.
fn next_between(rules: &Rules, known: &SearchState, tried: &[Trials<'_>]) -> Option<f64> {
    let is_new = |load: &f64| known.loads.iter().all(|(other, _)| other.total_cmp(load).is_ne());
    let ceiling = rules.ceiling.round().max(1.0);
    if is_new(&ceiling) {
        return Some(ceiling);
    }
    let (upper, _) = known.upper?;
    if upper - known.lower <= (upper * rules.precision).max(1.0) || upper < ceiling * MIN_LOAD {
        return None;
    }
    let first = received_at_ceiling(ceiling, tried).filter(|load| *load > known.lower && *load < upper);
    let load = first.filter(is_new).unwrap_or_else(|| between(rules, known, upper));
    Some(load.round()).filter(|load| is_new(load) && *load >= 1.0)
}

/// The received rate at the ceiling, in frames per second.
fn received_at_ceiling(ceiling: f64, tried: &[Trials<'_>]) -> Option<f64> {
    let at_ceiling = tried.iter().filter(|(load, _)| load.total_cmp(&ceiling).is_eq());
    let least = at_ceiling.map(|(_, counters)| counters.received_pps()).reduce(f64::min)?;
    Some(least.round()).filter(|load| *load >= ceiling * MIN_LOAD)
}

/// The middle of the bounds, or a load closer to the bound that was tried while the other one is far away.
fn between(rules: &Rules, known: &SearchState, upper: f64) -> f64 {
    let count = |wanted: fn(&Verdict) -> bool| {
        let count = known.loads.iter().filter(|(_, verdict)| wanted(verdict)).count();
        i32::try_from(count).unwrap_or(i32::MAX)
    };
    let grown = |times: i32| rules.precision * 4_f64.powi(times);
    let middle = f64::midpoint(known.lower, upper);
    if known.lower > 0.0 {
        // Upwards from the lower bound.
        let passed = count(|verdict| *verdict == Verdict::Passed);
        return middle.min(known.lower * (1.0 + grown(passed)));
    }
    let failed = count(|verdict| *verdict == Verdict::Failed) - 1;
    middle.max(upper * (1.0 - grown(failed)))
}

/// The result so far. Returns `None` if no load has a verdict.
pub(super) fn found(rules: &Rules, goal: f64, tried: &[Trials<'_>]) -> Option<Throughput> {
    let known = known(rules, goal, tried);
    if known.loads.iter().all(|(_, verdict)| *verdict == Verdict::Open) {
        return None;
    }
    // Loads above the lowest failed one are irrelevant.
    let decides = |load: f64| known.upper.is_none_or(|(upper, _)| load < upper);
    let undecided = known.loads.iter().any(|(load, verdict)| *verdict == Verdict::Open && decides(*load));
    let bound = match known.upper {
        _ if undecided || next_between(rules, &known, tried).is_some() => Bound::Unfinished,
        Some((_, Verdict::Short(_))) => Bound::Generator,
        Some(_) => Bound::Switch,
        None if rules.of_generator => Bound::Generator,
        None => Bound::Ceiling,
    };
    let above_pps = known.upper.map(|(load, _)| load);
    Some(Throughput { goal, pps: known.lower, above_pps, bound, trials: tried.len() })
}
