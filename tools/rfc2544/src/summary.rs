//! Medians over rounds, for tables and figures. A round with an incomplete search is not a sample; if there are no
//! others, it is shown as a lower bound.

use super::results::{LatencyRow, LossRow, Round, SizeResults};
use super::search::Bound;
use measure::Estimate;
use measure::statistics::{interval, median};

/// A figure over all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Median.
    pub value: f64,
    /// 95 % interval, if there are enough rounds.
    pub interval: Option<Estimate>,
    /// Whether the value is a lower bound, because the generator or the ceiling was the limit in a round.
    pub at_least: bool,
    /// Whether the value is a lower bound, because no round completed its search.
    pub unfinished: bool,
}

/// Latency at one load over all rounds, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Percent of the throughput without loss.
    pub load: f64,
    /// Requested frames per second.
    pub pps: f64,
    /// Percentiles 50, 90, 99, 99.9 and maximum.
    pub percentiles: [f64; 5],
    /// Jitter (RFC 3550).
    pub jitter: f64,
    /// 99th percentile of the absolute IPDV.
    pub ipdv: f64,
    /// Percentiles 50 and 99 over the generator's own loopback.
    pub baseline: Option<[f64; 2]>,
    /// Loss fraction.
    pub loss: f64,
    /// Whether the generator offered less in a round.
    pub short: bool,
}

/// Combines the values of all rounds with their limits.
fn figure(found: Vec<(f64, Bound)>) -> Option<Figure> {
    let unfinished = found.iter().all(|(_, bound)| *bound == Bound::Unfinished);
    let counts = |bound: Bound| unfinished || bound != Bound::Unfinished;
    let counted: Vec<(f64, Bound)> = found.into_iter().filter(|(_, bound)| counts(*bound)).collect();
    let mut values: Vec<f64> = counted.iter().map(|(value, _)| *value).collect();
    let interval = interval(&values, 1);
    let at_least = counted.iter().any(|(_, bound)| *bound != Bound::Switch);
    Some(Figure { value: median(&mut values)?, interval, at_least, unfinished })
}

impl Figure {
    /// Suffix that marks an incomplete search.
    pub fn suffix(&self) -> &'static str {
        if self.unfinished { ", search not finished" } else { "" }
    }
}

impl SizeResults {
    /// The throughput without loss, in frames per second.
    pub fn ndr(&self) -> Option<Figure> {
        self.figure(|round| round.ndr.map(|found| (found.pps, found.bound)))
    }

    /// The throughput with the allowed loss, in frames per second.
    pub fn pdr(&self) -> Option<Figure> {
        self.figure(|round| round.pdr.map(|found| (found.pps, found.bound)))
    }

    /// The longest burst without loss, in frames.
    pub fn burst(&self) -> Option<Figure> {
        self.figure(|round| round.back_to_back.map(|row| (row.frames as f64, row.bound)))
    }

    fn figure(&self, of: fn(&Round) -> Option<(f64, Bound)>) -> Option<Figure> {
        figure(self.rounds.iter().filter_map(of).collect())
    }

    /// Bits per second of frames at this rate, without checksum.
    pub fn bits(&self, pps: f64) -> f64 {
        pps * self.mean * 8.0
    }

    /// Latency by load.
    pub fn latency(&self) -> Vec<Latency> {
        let mut loads: Vec<f64> = self.rows().map(|row| row.load).collect();
        loads.sort_unstable_by(f64::total_cmp);
        loads.dedup();
        loads.into_iter().map(|load| self.latency_at(load)).collect()
    }

    fn rows(&self) -> impl Iterator<Item = &LatencyRow> {
        self.rounds.iter().flat_map(|round| &round.latency)
    }

    /// Rows of a load; rows in which the generator fell short only if there are no others.
    fn rows_at(&self, load: f64) -> impl Iterator<Item = &LatencyRow> {
        let of_load = move |row: &&LatencyRow| row.load.total_cmp(&load).is_eq();
        let has_others = self.rows().filter(of_load).any(|row| !row.short);
        self.rows().filter(of_load).filter(move |row| !(row.short && has_others))
    }

    fn latency_at(&self, load: f64) -> Latency {
        let rows: Vec<&LatencyRow> = self.rows_at(load).collect();
        let middle = |of: &dyn Fn(&LatencyRow) -> Option<f64>| {
            median(&mut rows.iter().filter_map(|row| of(row)).collect::<Vec<_>>())
        };
        let of = |of: &dyn Fn(&LatencyRow) -> f64| middle(&|row| Some(of(row))).unwrap_or(0.0);
        let baseline = |of: fn(&generator::meter::Summary) -> u64| {
            middle(&|row| row.delays.baseline_ns.as_ref().map(|baseline| of(baseline) as f64))
        };
        Latency {
            load,
            pps: of(&|row| row.asked_pps),
            percentiles: [
                of(&|row| row.delays.latency_ns.p50 as f64),
                of(&|row| row.delays.latency_ns.p90 as f64),
                of(&|row| row.delays.latency_ns.p99 as f64),
                of(&|row| row.delays.latency_ns.p999 as f64),
                of(&|row| row.delays.latency_ns.max as f64),
            ],
            jitter: of(&|row| row.delays.jitter_ns),
            ipdv: of(&|row| row.delays.ipdv_ns.p99 as f64),
            baseline: baseline(|baseline| baseline.p50)
                .zip(baseline(|baseline| baseline.p99))
                .map(|(p50, p99)| [p50, p99]),
            loss: of(&|row| row.loss),
            short: rows.iter().any(|row| row.short),
        }
    }

    /// Latency histogram at one load over all rounds: largest value of each bucket in nanoseconds, and number of
    /// frames.
    pub fn histogram(&self, load: f64) -> Vec<(u64, u64)> {
        let mut counts = std::collections::BTreeMap::<u64, u64>::new();
        for row in self.rows_at(load) {
            for (upper, count) in &row.delays.histogram {
                *counts.entry(*upper).or_default() += count;
            }
        }
        counts.into_iter().collect()
    }

    /// Loss by percentage of the ceiling: medians, and whether the generator offered less in a round.
    pub fn loss(&self) -> Vec<LossRow> {
        let rows = || self.rounds.iter().flat_map(|round| &round.loss);
        let mut percents: Vec<f64> = rows().map(|row| row.percent).collect();
        percents.sort_unstable_by(f64::total_cmp);
        percents.dedup();
        let at = |percent: f64| {
            let of = || rows().filter(move |row| row.percent.total_cmp(&percent).is_eq());
            let middle =
                |of: &mut dyn Iterator<Item = f64>| median(&mut of.collect::<Vec<_>>()).unwrap_or(0.0);
            LossRow {
                percent,
                offered_pps: middle(&mut of().map(|row| row.offered_pps)),
                short: of().any(|row| row.short),
                loss: middle(&mut of().map(|row| row.loss)),
            }
        };
        percents.into_iter().map(at).collect()
    }
}
