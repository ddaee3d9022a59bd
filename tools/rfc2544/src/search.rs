//! Throughput: the highest load of which no more than a goal is lost (RFC 2544 section 26.1, RFC 1242 section 3.17).
//!
//! A load is tried until as many of its tries agree as the plan asks for (more than half of them, unless it says otherwise), so that one
//! disturbance does not decide. The upper bound
//! is the lowest load that failed, the lower one the highest below it that passed, and the next load halves what lies
//! between. It starts at the ceiling and at what came through there, and steps away from that in growing steps until
//! both bounds are there. A load that the generator could not offer bounds the search like one that failed, but is
//! not held against the switch. All goals share their trials. See `docs/decisions/0062-search-of-the-throughput.md`.

use super::plan::Tries;
use super::seen::Seen;
use serde::{Deserialize, Serialize};

/// A load below this part of the ceiling is not looked for.
const LEAST: f64 = 1e-3;
/// No search takes more loads.
const MOST_LOADS: usize = 60;

/// Who bounds a throughput from above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The switch lost more at the next higher load.
    Switch,
    /// The generator could not offer more: the switch does at least this.
    Generator,
    /// More was not asked for: the switch does at least this.
    Ceiling,
    /// Nobody yet: the search was ended, or gave up, before its bounds met. The switch does at least this.
    Unfinished,
}

/// The highest load that passed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// The part of all frames that may be lost.
    pub goal: f64,
    /// Frames a second; 0: even the lowest load that was tried failed, or, unfinished, none has passed yet.
    pub pps: f64,
    /// The lowest load above it that did not pass.
    pub above_pps: Option<f64>,
    /// Why it is not more.
    pub bound: Bound,
    /// Of how many trials.
    pub trials: usize,
}

/// What all searches of a size have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) ceiling: f64,
    /// Whether the ceiling is what the generator can do at most.
    pub(super) of_generator: bool,
    pub(super) precision: f64,
    pub(super) tries: Tries,
}

/// A load that was asked, in frames a second, and what was seen.
pub(super) type Tried<'a> = (f64, &'a Seen);

/// What the tries of a load say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// More tries are needed.
    Open,
    Passed,
    Failed,
    /// The generator could not offer it; so many frames a second passed.
    Short(f64),
}

/// Judges a load or a burst by all its tries: each is good, short or bad, and short tries carry what they showed. Short tries
/// do not say that the load passed: one try that the generator just managed is no reason to ask it of the generator again.
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
    // Too few are left for the others to be enough: a tie says that it does not pass.
    let hopeless = failed > tries.most - tries.enough;
    let left = tries.most.saturating_sub(good + failed);
    match (hopeless, passed >= tries.enough, good >= tries.enough && passed + left < tries.enough) {
        (true, ..) => Verdict::Failed,
        (_, true, _) => Verdict::Passed,
        (_, _, true) => Verdict::Short(agreed(short, tries.enough - passed)),
        _ => Verdict::Open,
    }
}

/// The highest rate that `enough` of the short tries showed, of which there are as many.
fn agreed(mut short: Vec<f64>, enough: u32) -> f64 {
    short.sort_unstable_by(|a, b| b.total_cmp(a));
    short.get(enough as usize - 1).copied().unwrap_or_default()
}

/// What is known of one goal.
#[derive(Debug)]
struct Known {
    /// Every load that was tried, ascending, with what its tries say.
    loads: Vec<(f64, Verdict)>,
    lower: f64,
    upper: Option<(f64, Verdict)>,
}

fn known(rules: &Rules, goal: f64, tried: &[Tried<'_>]) -> Known {
    // What the generator fell short by is nothing where it is less than the search can tell apart.
    let enough = |load: f64, seen: &Seen| {
        !seen.is_short() || seen.offered_pps() >= load * (1.0 - rules.precision / 2.0)
    };
    let one = |load: f64, seen: &Seen| match (seen.loss() <= goal, enough(load, seen)) {
        (false, _) => Verdict::Failed,
        (true, true) => Verdict::Passed,
        (true, false) => Verdict::Short(seen.offered_pps()),
    };
    let mut asked: Vec<f64> = tried.iter().map(|(load, _)| *load).collect();
    asked.sort_unstable_by(f64::total_cmp);
    asked.dedup();
    let validate = |load: f64| {
        let of_load = tried.iter().filter(|(other, _)| other.total_cmp(&load).is_eq());
        (load, verdict(rules.tries, of_load.map(|(_, seen)| one(load, seen))))
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
    Known { loads, lower, upper }
}

/// The load that comes next for this goal, in frames a second; none: it is found.
pub(super) fn next(rules: &Rules, goal: f64, tried: &[Tried<'_>]) -> Option<f64> {
    let known = known(rules, goal, tried);
    if let Some((load, _)) = known.loads.iter().find(|(_, verdict)| *verdict == Verdict::Open) {
        return Some(*load);
    }
    if known.loads.len() >= MOST_LOADS {
        return None;
    }
    further(rules, &known, tried)
}

/// The load between the bounds that comes after those that are decided; none: the bounds have met.
fn further(rules: &Rules, known: &Known, tried: &[Tried<'_>]) -> Option<f64> {
    let is_new = |load: &f64| known.loads.iter().all(|(other, _)| other.total_cmp(load).is_ne());
    let ceiling = rules.ceiling.round().max(1.0);
    if is_new(&ceiling) {
        return Some(ceiling);
    }
    let (upper, _) = known.upper?;
    if upper - known.lower <= (upper * rules.precision).max(1.0) || upper < ceiling * LEAST {
        return None;
    }
    let first = came_through(ceiling, tried).filter(|load| *load > known.lower && *load < upper);
    let load = first.filter(is_new).unwrap_or_else(|| between(rules, known, upper));
    Some(load.round()).filter(|load| is_new(load) && *load >= 1.0)
}

/// What came back at the ceiling, in frames a second.
fn came_through(ceiling: f64, tried: &[Tried<'_>]) -> Option<f64> {
    let at_ceiling = tried.iter().filter(|(load, _)| load.total_cmp(&ceiling).is_eq());
    let least = at_ceiling.map(|(_, seen)| seen.received_pps()).reduce(f64::min)?;
    Some(least.round()).filter(|load| *load >= ceiling * LEAST)
}

/// The middle, or nearer to the one bound that was found by trying while the other one is still far.
fn between(rules: &Rules, known: &Known, upper: f64) -> f64 {
    let count = |wanted: fn(&Verdict) -> bool| {
        let count = known.loads.iter().filter(|(_, verdict)| wanted(verdict)).count();
        i32::try_from(count).unwrap_or(i32::MAX)
    };
    let grown = |times: i32| rules.precision * 4_f64.powi(times);
    let middle = f64::midpoint(known.lower, upper);
    if known.lower > 0.0 {
        // From the lower one upwards.
        let passed = count(|verdict| *verdict == Verdict::Passed);
        return middle.min(known.lower * (1.0 + grown(passed)));
    }
    let failed = count(|verdict| *verdict == Verdict::Failed) - 1;
    middle.max(upper * (1.0 - grown(failed)))
}

/// What is found so far; none before the first load was judged.
pub(super) fn found(rules: &Rules, goal: f64, tried: &[Tried<'_>]) -> Option<Throughput> {
    let known = known(rules, goal, tried);
    if known.loads.iter().all(|(_, verdict)| *verdict == Verdict::Open) {
        return None;
    }
    // A load above the lowest that failed decides nothing.
    let decides = |load: f64| known.upper.is_none_or(|(upper, _)| load < upper);
    let undecided = known.loads.iter().any(|(load, verdict)| *verdict == Verdict::Open && decides(*load));
    let bound = match known.upper {
        _ if undecided || further(rules, &known, tried).is_some() => Bound::Unfinished,
        Some((_, Verdict::Short(_))) => Bound::Generator,
        Some(_) => Bound::Switch,
        None if rules.of_generator => Bound::Generator,
        None => Bound::Ceiling,
    };
    let above_pps = known.upper.map(|(load, _)| load);
    Some(Throughput { goal, pps: known.lower, above_pps, bound, trials: tried.len() })
}
