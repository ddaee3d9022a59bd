//! Frame loss by rate (RFC 2544 section 26.3): from the ceiling down in steps of ten percent, until two in a row lose
//! nothing.

use super::seen::Seen;

/// Percent between two rates.
const STEP: f64 = 10.0;

/// The percentage of the ceiling that comes next; none: that was all.
pub(super) fn next(tried: &[(f64, &Seen)]) -> Option<f64> {
    let Some((last, _)) = tried.last() else { return Some(100.0) };
    let whole = tried.iter().rev().take_while(|(_, seen)| seen.loss() <= 0.0).count();
    (whole < 2 && *last - STEP >= STEP).then(|| last - STEP)
}
