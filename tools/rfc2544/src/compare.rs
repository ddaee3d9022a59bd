//! Comparison of two results: the ratio of each figure, and whether it differs significantly.
//!
//! A round is a sample. The rounds of each side are resampled independently by the bootstrap, because they were not
//! measured in pairs, which gives the ratio of the medians an interval. Figures missing on one side, incomplete rounds
//! and incomplete searches are not compared. If the generator limits a figure, the ratio is only a bound and marked as
//! such.

use super::checkpoint::fields;
use super::results::{Results, Round, SizeResults};
use super::search::{Bound, Throughput};
use measure::Estimate;
use measure::statistics::{MIN_SAMPLES, median, ratio_of_medians};
use serde::Serialize;

/// Whether the generator, not the switch, limits the figure on either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bounded {
    /// A is a lower bound.
    pub a: bool,
    /// B is a lower bound.
    pub b: bool,
}

/// Conclusion about a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// The interval excludes 1.
    Differs,
    /// The interval contains 1.
    ByChance,
    /// Too few rounds for an interval.
    TooFewRounds,
    /// A median is zero, so there is no ratio.
    NoRatio,
}

/// A figure of both results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Frame size.
    pub size: String,
    /// Name of the figure.
    pub what: String,
    /// Unit.
    pub unit: &'static str,
    /// Median of A.
    pub a: f64,
    /// Median of B.
    pub b: f64,
    /// Number of rounds of A and of B.
    pub rounds: (usize, usize),
    /// Ratio of the medians, B over A.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio.
    pub interval: Option<Estimate>,
    /// Conclusion.
    pub finding: Finding,
    /// Sides limited by the generator.
    pub bounded: Bounded,
}

/// The comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Names of the switches A and B.
    pub switches: (String, String),
    /// Differences that do not prevent the comparison.
    pub notes: Vec<String>,
    /// Figures.
    pub figures: Vec<Figure>,
}

/// Error: two results cannot be compared; lists every difference.
#[derive(Debug, thiserror::Error)]
#[error("the results were measured with different options: {}", .0.join("; "))]
pub struct ComparisonError(pub Vec<String>);

/// Compares two results.
pub fn compare(a: &Results, b: &Results) -> Result<Comparison, ComparisonError> {
    let differences = differences(a, b);
    if !differences.is_empty() {
        return Err(ComparisonError(differences));
    }
    let pairs = a.sizes.iter().filter_map(|one| {
        let other = b.sizes.iter().find(|other| other.size == one.size)?;
        Some((one, other))
    });
    let figures = pairs.flat_map(|(a, b)| of_size(a, b)).collect();
    let switches = (a.setup.switch.clone(), b.setup.switch.clone());
    Ok(Comparison { switches, notes: notes(a, b), figures })
}

/// Differences that prevent a comparison.
fn differences(a: &Results, b: &Results) -> Vec<String> {
    let key = |results: &Results| {
        let plan = &results.plan;
        serde_json::json!({
            "topology": results.setup.topology,
            "frames": results.setup.stream,
            "sizes": plan.sizes,
            "loss": plan.loss,
            "trial": plan.trial,
            "precision": plan.precision,
            "tries": plan.tries,
            "agree": plan.agree,
            "loads": plan.loads,
            "ceiling": plan.ceiling,
        })
    };
    let named = fields(&key(a), &key(b)).into_iter();
    named.map(|text| text.replace(" there and ", " in A and ").replace(" here", " in B")).collect()
}

fn notes(a: &Results, b: &Results) -> Vec<String> {
    let mut notes = Vec::new();
    let mut same = |what: &str, a: &str, b: &str| {
        if a != b {
            notes.push(format!("{what}: A {a}, B {b}"));
        }
    };
    same("processor", &a.environment.processor, &b.environment.processor);
    let version = |results: &Results| results.setup.version.clone().unwrap_or_else(|| "unknown".to_owned());
    same("version of the switch", &version(a), &version(b));
    same("kernel", &a.environment.kernel, &b.environment.kernel);
    same("generator", &a.environment.build.to_string(), &b.environment.build.to_string());
    same("CPUs", &format!("{:?}", a.environment.used), &format!("{:?}", b.environment.used));
    let guest = |results: &Results| results.setup.guest.clone().unwrap_or_else(|| "none".to_owned());
    same("guest", &guest(a), &guest(b));
    same("ports", &a.setup.ports.join(", "), &b.setup.ports.join(", "));
    for (name, results) in [("A", a), ("B", b)] {
        if !results.whole {
            notes.push(format!("{name} is partial: ended before the last trial"));
        }
    }
    notes
}

/// A figure of a round: name, unit, value, and whether the generator limits it.
type Value = (String, &'static str, f64, bool);

/// All figures of a round that can be compared.
fn values(round: &Round) -> Vec<Value> {
    let bounded = |bound| bound != Bound::Switch;
    let ended = |bound| bound != Bound::Unfinished;
    let rate = |name: &str, found: &Option<Throughput>| -> Option<Value> {
        found
            .filter(|found| ended(found.bound))
            .map(|found| (name.to_owned(), "pps", found.pps, bounded(found.bound)))
    };
    let mut values: Vec<Value> = Vec::new();
    values.extend(rate("NDR", &round.ndr));
    values.extend(rate("PDR", &round.pdr));
    for row in &round.latency {
        let latency = &row.delays.latency_ns;
        for (name, value) in [("p50", latency.p50), ("p99", latency.p99), ("p99.9", latency.p999)] {
            values.push((format!("latency {name} at {} %", row.load), "ns", value as f64, row.short));
        }
        let jitter = row.delays.jitter_ns;
        values.push((format!("jitter at {} %", row.load), "ns", jitter, row.short));
    }
    for row in &round.loss {
        // The received rate has a ratio even if nothing is lost.
        let name = format!("arrived at {} % of the ceiling", row.percent);
        values.push((name, "pps", row.offered_pps * (1.0 - row.loss), row.short));
    }
    let burst = round.back_to_back.filter(|row| ended(row.bound));
    values.extend(burst.map(|row| ("burst".to_owned(), "frames", row.frames as f64, bounded(row.bound))));
    values
}

fn of_size(a: &SizeResults, b: &SizeResults) -> Vec<Figure> {
    let all = |side: &SizeResults| -> Vec<Value> {
        side.rounds.iter().filter(|round| round.whole).flat_map(values).collect()
    };
    let (a_values, b_values) = (all(a), all(b));
    let mut names: Vec<(&str, &'static str)> = Vec::new();
    for (name, unit, ..) in &a_values {
        if !names.iter().any(|(known, _)| known == name) {
            names.push((name, unit));
        }
    }
    let figure = |(what, unit): (&str, &'static str)| {
        let of = |values: &[Value]| -> (Vec<f64>, bool) {
            let own = values.iter().filter(|(name, ..)| name == what);
            (own.clone().map(|(.., value, _)| *value).collect(), own.clone().any(|(.., bounded)| *bounded))
        };
        let ((a_samples, a_bounded), (b_samples, b_bounded)) = (of(&a_values), of(&b_values));
        let bounded = Bounded { a: a_bounded, b: b_bounded };
        figure(&a.size, what, unit, (&a_samples, &b_samples), bounded)
    };
    names.into_iter().filter_map(figure).collect()
}

fn figure(
    size: &str,
    what: &str,
    unit: &'static str,
    (a, b): (&[f64], &[f64]),
    bounded: Bounded,
) -> Option<Figure> {
    let (one, other) = (median(&mut a.to_vec())?, median(&mut b.to_vec())?);
    let ratio = (one > 0.0 && other > 0.0).then(|| other / one);
    let seed = what.bytes().fold(1, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let interval = ratio.and_then(|_| ratio_of_medians(a, b, seed));
    let finding = match (ratio, interval) {
        (None, _) => Finding::NoRatio,
        (_, None) if a.len().min(b.len()) < MIN_SAMPLES => Finding::TooFewRounds,
        (_, None) => Finding::NoRatio,
        (_, Some(found)) if found.low > 1.0 || found.high < 1.0 => Finding::Differs,
        _ => Finding::ByChance,
    };
    Some(Figure {
        size: size.to_owned(),
        what: what.to_owned(),
        unit,
        a: one,
        b: other,
        rounds: (a.len(), b.len()),
        ratio,
        interval,
        finding,
        bounded,
    })
}
