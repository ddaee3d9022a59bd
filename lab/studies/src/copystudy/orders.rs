//! The study's orders, and what a set of results says of each: it holds, it does not, or the difference is not larger
//! than that between two runs of the same.

use serde::Serialize;

use super::results::{Results, is_warm};
use super::setting::{BASE_AGAIN, Direction, WARM_AGAIN};
use measure::Estimate;

/// How much is meant by "much more".
pub const MUCH: f64 = 1.5;

/// What an order says of a variant's cost over what it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    More,
    /// At least [`MUCH`] times as much
    MuchMore,
    Less,
    NotLess,
}

/// One of the study's orders, as results can show it.
#[derive(Clone, Copy, Debug)]
struct Order {
    claim: &'static str,
    variant: &'static str,
    wanted: Wanted,
}

/// All that the study says; what it does not say is whether copies were warm, but for the C library's.
const ORDERS: [Order; 8] = [
    Order { claim: "edited > read-only", variant: "read-only", wanted: Wanted::Less },
    Order { claim: "no prefetch > prefetch", variant: "no-prefetch", wanted: Wanted::More },
    Order { claim: "other node >> same node", variant: "other-node", wanted: Wanted::MuchMore },
    Order { claim: "128 > 256 bit", variant: "sse", wanted: Wanted::More },
    Order { claim: "128 > 256 bit, warm", variant: "warm-sse", wanted: Wanted::More },
    Order { claim: "unaligned > aligned", variant: "unaligned", wanted: Wanted::More },
    Order { claim: "unaligned > aligned, warm", variant: "warm-unaligned", wanted: Wanted::More },
    Order { claim: "rte <= libc, warm", variant: "warm-libc", wanted: Wanted::NotLess },
];

/// What results say of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is so
    Holds,
    /// It is the other way round
    DoesNot,
    /// The difference is not larger than that between two runs of the same
    NotResolved,
}

/// One order in one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The order, as the study has it
    pub claim: &'static str,
    /// Which copy
    pub direction: Direction,
    /// For each size; empty if the variant was not run
    pub sizes: Vec<SizeFinding>,
}

/// The same at one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeFinding {
    /// Bytes of a packet
    pub size: u64,
    /// The larger side's cost over the smaller one's, as the order has it
    pub ratio: Estimate,
    /// As far from 1, as a factor, as runs of the same are from each other; none, if that was not run
    pub band: Option<f64>,
    /// What it says
    pub verdict: Verdict,
}

impl Finding {
    /// At which sizes it says this.
    pub fn at(&self, verdict: Verdict) -> Vec<u64> {
        self.sizes.iter().filter(|at| at.verdict == verdict).map(|at| at.size).collect()
    }

    /// In a few words, with sizes where they differ.
    pub fn words(&self) -> String {
        if self.sizes.is_empty() {
            return "not run".to_owned();
        }
        let verdicts = [
            (Verdict::Holds, "holds"),
            (Verdict::DoesNot, "does not"),
            (Verdict::NotResolved, "not resolved"),
        ];
        let parts = verdicts.into_iter().filter_map(|(verdict, name)| {
            let at = self.at(verdict);
            let sizes: Vec<String> = at.iter().map(u64::to_string).collect();
            match at.len() {
                0 => None,
                all if all == self.sizes.len() => Some(name.to_owned()),
                _ => Some(format!("{name} at {}", sizes.join(" "))),
            }
        });
        parts.collect::<Vec<_>>().join("; ")
    }

    /// The widest band over the sizes.
    pub fn band(&self) -> Option<f64> {
        self.sizes.iter().filter_map(|at| at.band).reduce(f64::max)
    }

    /// The smallest and largest ratio over the sizes.
    pub fn range(&self) -> Option<(f64, f64)> {
        let medians = || self.sizes.iter().map(|at| at.ratio.median);
        medians().reduce(f64::min).zip(medians().reduce(f64::max))
    }
}

/// Every order in every direction, whatever was run.
pub fn orders(results: &Results) -> Vec<Finding> {
    let each = |order: &Order| Direction::ALL.map(|direction| finding(results, order, direction));
    ORDERS.iter().flat_map(each).collect()
}

fn finding(results: &Results, order: &Order, direction: Direction) -> Finding {
    let control = if is_warm(order.variant) { WARM_AGAIN } else { BASE_AGAIN };
    let at = |size: u64| {
        let found = results.row((order.variant, direction, size))?.ratio?;
        let ratio = if order.wanted == Wanted::Less { inverse(found) } else { found };
        let band = band(results, control, direction, size);
        Some(SizeFinding { size, ratio, band, verdict: verdict(order.wanted, ratio, band) })
    };
    let sizes = results.sizes().into_iter().filter_map(at).collect();
    Finding { claim: order.claim, direction, sizes }
}

/// As far from 1 as any end of the control's interval at this size. One simulated run has no interval, and may by chance be as
/// the other one to the cycle, so there it is the farthest over all sizes.
fn band(results: &Results, control: &str, direction: Direction, size: u64) -> Option<f64> {
    let rows = results.rows.iter().filter(|row| row.variant == control && row.direction == direction);
    let rows = rows.filter(|row| results.is_simulated() || row.size == size);
    let far = |ratio: Estimate| ratio.low.ln().abs().max(ratio.high.ln().abs());
    rows.filter_map(|row| row.ratio.map(far)).max_by(f64::total_cmp).map(f64::exp)
}

/// The other side's over this one's.
fn inverse(ratio: Estimate) -> Estimate {
    Estimate { median: 1.0 / ratio.median, low: 1.0 / ratio.high, high: 1.0 / ratio.low }
}

/// Without a control nothing can be told from chance.
fn verdict(wanted: Wanted, ratio: Estimate, band: Option<f64>) -> Verdict {
    let Some(band) = band else { return Verdict::NotResolved };
    let above = ratio.low > 1.0 && ratio.median > band;
    let below = ratio.high < 1.0 && ratio.median < 1.0 / band;
    let (holds, does_not) = match wanted {
        Wanted::More | Wanted::Less => (above, below),
        Wanted::MuchMore => (above && ratio.low >= MUCH, ratio.high < MUCH),
        // Not lower than chance is as good as equal.
        Wanted::NotLess => (ratio.low >= 1.0 / band, below),
    };
    match (holds, does_not) {
        (true, _) => Verdict::Holds,
        (_, true) => Verdict::DoesNot,
        _ => Verdict::NotResolved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(low: f64, median: f64, high: f64) -> Estimate {
        Estimate { median, low, high }
    }

    #[test]
    fn an_order_needs_an_interval_beyond_one_and_a_median_beyond_chance() {
        let more = |low, median, high| verdict(Wanted::More, estimate(low, median, high), Some(1.03));
        assert_eq!(more(1.05, 1.1, 1.2), Verdict::Holds);
        assert_eq!(more(0.99, 1.1, 1.2), Verdict::NotResolved);
        assert_eq!(more(1.01, 1.02, 1.04), Verdict::NotResolved);
        assert_eq!(more(0.8, 0.9, 0.95), Verdict::DoesNot);
        assert_eq!(verdict(Wanted::More, estimate(1.5, 1.6, 1.7), None), Verdict::NotResolved);
    }

    #[test]
    fn much_more_is_more_than_half_as_much_again() {
        let much = |low, median, high| verdict(Wanted::MuchMore, estimate(low, median, high), Some(1.03));
        assert_eq!(much(1.6, 1.8, 2.0), Verdict::Holds);
        assert_eq!(much(1.4, 1.8, 2.0), Verdict::NotResolved);
        assert_eq!(much(1.2, 1.3, 1.4), Verdict::DoesNot);
    }

    #[test]
    fn what_may_be_equal_holds_unless_it_is_lower_than_chance_explains() {
        let not_less = |low, median, high| verdict(Wanted::NotLess, estimate(low, median, high), Some(1.03));
        assert_eq!(not_less(0.99, 1.0, 1.01), Verdict::Holds);
        assert_eq!(not_less(0.9, 1.0, 1.1), Verdict::NotResolved);
        assert_eq!(not_less(0.8, 0.85, 0.9), Verdict::DoesNot);
    }
}
