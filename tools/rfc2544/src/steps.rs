//! Frame loss by rate (RFC 2544 section 26.3): from the ceiling down in steps of ten percent, until two consecutive
//! rates have no loss.

use super::counters::TrialCounters;

/// Step between rates, in percent of the ceiling.
const STEP: f64 = 10.0;

/// The next rate in percent of the ceiling. Returns `None` if the test is complete.
pub(super) fn next(tried: &[(f64, &TrialCounters)]) -> Option<f64> {
    let Some((last, _)) = tried.last() else { return Some(100.0) };
    let whole = tried.iter().rev().take_while(|(_, counters)| counters.loss() <= 0.0).count();
    (whole < 2 && *last - STEP >= STEP).then(|| last - STEP)
}
