//! Back-to-back frames (RFC 2544 section 26.4): the longest burst at the generator's maximum rate without loss.
//!
//! A burst fails if the port refused frames during it, because the frames after that were not back to back. Lengths are
//! first searched on a logarithmic scale, because rings hold hundreds of frames and a switch that keeps up handles
//! millions.

use super::counters::TrialCounters;
use super::plan::Tries;
use super::search::{Verdict, verdict};

/// Parameters of the search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Length of the longest burst tried, in frames.
    pub(super) longest: u64,
    pub(super) precision: f64,
    pub(super) tries: Tries,
}

/// The longest burst that passed, and the shortest longer one that did not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) frames: u64,
    pub(super) above: Option<u64>,
    /// Whether the generator, not the switch, limited the next longer burst.
    pub(super) short: bool,
    /// Whether the search is incomplete.
    pub(super) unfinished: bool,
}

fn one(frames: u64, counters: &TrialCounters) -> Verdict {
    let whole = counters.received == frames && counters.sent == frames;
    match (
        whole && counters.waits == 0,
        counters.sent < frames && counters.waits == 0 && counters.loss() <= 0.0,
    ) {
        (true, _) => Verdict::Passed,
        (_, true) => Verdict::Short(counters.sent as f64),
        _ => Verdict::Failed,
    }
}

fn verdicts(rules: &Rules, tried: &[(u64, &TrialCounters)]) -> Vec<(u64, Verdict)> {
    let mut lengths: Vec<u64> = tried.iter().map(|(frames, _)| *frames).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let validate = |frames: u64| {
        let of_length = tried.iter().filter(|(other, _)| *other == frames);
        (frames, verdict(rules.tries, of_length.map(|(_, counters)| one(frames, counters))))
    };
    lengths.into_iter().map(validate).collect()
}

/// The result so far. Returns `None` if no length has a verdict.
pub(super) fn found(rules: &Rules, tried: &[(u64, &TrialCounters)]) -> Option<Found> {
    let verdicts = verdicts(rules, tried);
    if verdicts.iter().all(|(_, verdict)| *verdict == Verdict::Open) {
        return None;
    }
    let above =
        verdicts.iter().find(|(_, verdict)| matches!(verdict, Verdict::Failed | Verdict::Short(_))).copied();
    let below = |frames: u64| above.is_none_or(|(above, _)| frames < above);
    let passed = verdicts.iter().filter(|(frames, verdict)| *verdict == Verdict::Passed && below(*frames));
    let frames = passed.map(|(frames, _)| *frames).max().unwrap_or(0);
    let short = matches!(above, Some((_, Verdict::Short(_))));
    let above = above.map(|(frames, _)| frames);
    let open = verdicts.iter().any(|(_, verdict)| *verdict == Verdict::Open);
    Some(Found { frames, above, short, unfinished: open || between(rules, frames, above).is_some() })
}

/// The next length to try, in frames. Returns `None` if the search is complete.
pub(super) fn next(rules: &Rules, tried: &[(u64, &TrialCounters)]) -> Option<u64> {
    let verdicts = verdicts(rules, tried);
    if let Some((frames, _)) = verdicts.iter().find(|(_, verdict)| *verdict == Verdict::Open) {
        return Some(*frames);
    }
    let Some(Found { frames, above, .. }) = found(rules, tried) else { return Some(rules.longest) };
    between(rules, frames, above)
}

/// A length between the bounds. Returns `None` if the bounds have met.
fn between(rules: &Rules, lower: u64, above: Option<u64>) -> Option<u64> {
    let upper = above?;
    let apart = ((upper as f64 * rules.precision) as u64).max(1);
    if upper - lower <= apart {
        return None;
    }
    let least = lower.max(1);
    let middle =
        if upper / least > 4 { (least as f64 * upper as f64).sqrt() as u64 } else { lower.midpoint(upper) };
    Some(middle.clamp(lower + 1, upper - 1))
}
