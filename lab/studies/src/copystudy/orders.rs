//! The study's orders, and the status of a result set on each: it holds, it does not, or the difference is not larger
//! than that between two runs of the same variant.

use serde::Serialize;

use super::results::{Results, is_warm};
use super::setting::{BASE_AGAIN, Direction, WARM_AGAIN};
use measure::Estimate;

/// Minimum factor for "much more".
pub const MUCH: f64 = 1.5;

/// Expected relation of a variant's cost to that of its reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    More,
    /// At least [`MUCH`] times as much
    MuchMore,
    Less,
    NotLess,
}

/// One of the study's orders in testable form.
#[derive(Clone, Copy, Debug)]
struct Order {
    claim: &'static str,
    variant: &'static str,
    wanted: Wanted,
}

/// All orders of the study; except for the C library's, the study does not state whether copies were warm.
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

/// Status of an order in a set of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderStatus {
    /// The order holds
    Holds,
    /// The opposite holds
    DoesNot,
    /// The difference is not larger than that between two runs of the same variant
    NotResolved,
}

/// One order in one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The order in the study's words
    pub claim: &'static str,
    /// Copy direction
    pub direction: Direction,
    /// Finding per size; empty if the variant was not run
    pub sizes: Vec<SizeFinding>,
}

/// Finding at one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeFinding {
    /// Packet size in bytes
    pub size: u64,
    /// Cost ratio of the larger to the smaller side of the order
    pub ratio: Estimate,
    /// Noise band as a factor from 1, from repeated runs; `None` if those were not run
    pub band: Option<f64>,
    /// Status of the order at this size
    pub status: OrderStatus,
}

impl Finding {
    /// Returns the sizes with this status.
    pub fn at(&self, status: OrderStatus) -> Vec<u64> {
        self.sizes.iter().filter(|at| at.status == status).map(|at| at.size).collect()
    }

    /// Describes the statuses, with sizes if they differ.
    pub fn words(&self) -> String {
        if self.sizes.is_empty() {
            return "not run".to_owned();
        }
        let statuses = [
            (OrderStatus::Holds, "holds"),
            (OrderStatus::DoesNot, "does not"),
            (OrderStatus::NotResolved, "not resolved"),
        ];
        let parts = statuses.into_iter().filter_map(|(status, name)| {
            let at = self.at(status);
            let sizes: Vec<String> = at.iter().map(u64::to_string).collect();
            match at.len() {
                0 => None,
                all if all == self.sizes.len() => Some(name.to_owned()),
                _ => Some(format!("{name} at {}", sizes.join(" "))),
            }
        });
        parts.collect::<Vec<_>>().join("; ")
    }

    /// Returns the widest band over the sizes.
    pub fn band(&self) -> Option<f64> {
        self.sizes.iter().filter_map(|at| at.band).reduce(f64::max)
    }

    /// Returns the smallest and largest ratio over the sizes.
    pub fn range(&self) -> Option<(f64, f64)> {
        let medians = || self.sizes.iter().map(|at| at.ratio.median);
        medians().reduce(f64::min).zip(medians().reduce(f64::max))
    }
}

/// Returns every order in every direction, including those that were not run.
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
        Some(SizeFinding { size, ratio, band, status: status(order.wanted, ratio, band) })
    };
    let sizes = results.sizes().into_iter().filter_map(at).collect();
    Finding { claim: order.claim, direction, sizes }
}

/// Returns the largest distance from 1 of the control's interval bounds at this size. A simulated run has no interval
/// and may equal another one to the cycle by chance, so for simulated results it is the largest over all sizes.
fn band(results: &Results, control: &str, direction: Direction, size: u64) -> Option<f64> {
    let rows = results.rows.iter().filter(|row| row.variant == control && row.direction == direction);
    let rows = rows.filter(|row| results.is_simulated() || row.size == size);
    let far = |ratio: Estimate| ratio.low.ln().abs().max(ratio.high.ln().abs());
    rows.filter_map(|row| row.ratio.map(far)).max_by(f64::total_cmp).map(f64::exp)
}

/// Inverts a ratio.
fn inverse(ratio: Estimate) -> Estimate {
    Estimate { median: 1.0 / ratio.median, low: 1.0 / ratio.high, high: 1.0 / ratio.low }
}

/// Without a control, noise is unknown and the status is `NotResolved`.
fn status(wanted: Wanted, ratio: Estimate, band: Option<f64>) -> OrderStatus {
    let Some(band) = band else { return OrderStatus::NotResolved };
    let above = ratio.low > 1.0 && ratio.median > band;
    let below = ratio.high < 1.0 && ratio.median < 1.0 / band;
    let (holds, does_not) = match wanted {
        Wanted::More | Wanted::Less => (above, below),
        Wanted::MuchMore => (above && ratio.low >= MUCH, ratio.high < MUCH),
        // Not lower than the noise band counts as equal.
        Wanted::NotLess => (ratio.low >= 1.0 / band, below),
    };
    match (holds, does_not) {
        (true, _) => OrderStatus::Holds,
        (_, true) => OrderStatus::DoesNot,
        _ => OrderStatus::NotResolved,
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
        let more = |low, median, high| status(Wanted::More, estimate(low, median, high), Some(1.03));
        assert_eq!(more(1.05, 1.1, 1.2), OrderStatus::Holds);
        assert_eq!(more(0.99, 1.1, 1.2), OrderStatus::NotResolved);
        assert_eq!(more(1.01, 1.02, 1.04), OrderStatus::NotResolved);
        assert_eq!(more(0.8, 0.9, 0.95), OrderStatus::DoesNot);
        assert_eq!(status(Wanted::More, estimate(1.5, 1.6, 1.7), None), OrderStatus::NotResolved);
    }

    #[test]
    fn much_more_requires_a_ratio_above_one_and_a_half() {
        let much = |low, median, high| status(Wanted::MuchMore, estimate(low, median, high), Some(1.03));
        assert_eq!(much(1.6, 1.8, 2.0), OrderStatus::Holds);
        assert_eq!(much(1.4, 1.8, 2.0), OrderStatus::NotResolved);
        assert_eq!(much(1.2, 1.3, 1.4), OrderStatus::DoesNot);
    }

    #[test]
    fn an_order_that_allows_equality_holds_unless_the_ratio_is_significantly_lower() {
        let not_less = |low, median, high| status(Wanted::NotLess, estimate(low, median, high), Some(1.03));
        assert_eq!(not_less(0.99, 1.0, 1.01), OrderStatus::Holds);
        assert_eq!(not_less(0.9, 1.0, 1.1), OrderStatus::NotResolved);
        assert_eq!(not_less(0.8, 0.85, 0.9), OrderStatus::DoesNot);
    }
}
