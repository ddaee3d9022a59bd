//! Throughput ratios of configurations to the base, and the noise band of the ratio.

use serde::Serialize;

use crate::factors::FACTORS;
use crate::results::{Results, Row};
use measure::Estimate;
use measure::Kind;

/// Throughput ratio of one configuration to the base.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Configuration name
    pub name: String,
    /// Title of its factor; empty for combinations
    pub title: String,
    /// Throughput divided by the base's
    pub ratio: f64,
    /// 95 % interval of the ratio; `None` without rounds
    pub interval: Option<(f64, f64)>,
}

/// Range of ratios of configurations that are equivalent to the base.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Band {
    /// Lower bound
    pub low: f64,
    /// Upper bound
    pub high: f64,
    /// Description of its source
    pub from: String,
}

/// Returns the ratios of all configurations except bases, in set order; empty without a base.
pub fn ratios(results: &Results) -> Vec<Ratio> {
    let Some(base) = results.row("base") else { return Vec::new() };
    results.rows.iter().filter(|row| !is_base(row)).map(|row| ratio(row, base.mpps)).collect()
}

fn ratio(row: &Row, base: f64) -> Ratio {
    let title = FACTORS.iter().find(|factor| factor.name == row.name).map_or("", |factor| factor.title);
    Ratio {
        name: row.name.clone(),
        title: title.to_owned(),
        ratio: row.ratio.map_or(row.mpps / base, |ratio| ratio.median),
        interval: row.ratio.map(|Estimate { low, high, .. }| (low, high)),
    }
}

/// Whether a row is `base` or a repetition of it under another name (`base-again`, `base-2`).
fn is_base(row: &Row) -> bool {
    row.name == "base" || row.name.starts_with("base-")
}

/// Returns the band of the null factors: the repeated base, and `demote`, which many processors ignore. The band
/// extends to either side of 1 as far as the farthest interval bound.
///
/// Simulated runs are deterministic, so their band has zero width.
pub fn null_band(results: &Results) -> Band {
    if results.memory == Kind::Simulated {
        return Band { low: 1.0, high: 1.0, from: without_noise(results) };
    }
    let nulls = results.rows.iter().filter(|row| is_base(row) || row.name == "demote");
    let spans = nulls.filter_map(|row| Some((row.name.as_str(), row.ratio?)));
    let spans: Vec<(&str, Estimate)> = spans.filter(|(_, ratio)| ratio.low < ratio.high).collect();
    if spans.is_empty() {
        let from = "no null factor was measured in rounds, so how far noise reaches is not known";
        return Band { low: 1.0, high: 1.0, from: from.to_owned() };
    }
    let far = |(_, ratio): &(&str, Estimate)| ratio.low.ln().abs().max(ratio.high.ln().abs());
    let high = spans.iter().map(far).fold(0.0, f64::max).exp();
    let names: Vec<&str> = spans.iter().map(|(name, _)| *name).collect();
    let from = format!("95 % intervals of what changes nothing ({})", names.join(", "));
    Band { low: 1.0 / high, high, from }
}

/// Returns the band description of a simulated set, with the effect of its null factor if present.
fn without_noise(results: &Results) -> String {
    let said =
        "the simulator has no noise, so the band has zero width; that is not how well the model is known";
    let base = results.row("base").map(|row| row.mpps);
    match (results.row("demote"), base) {
        (Some(demote), Some(base)) => format!(
            "{said}: `demote`, which there is one more instruction and nothing else, moves the base by a factor of {:.3}",
            demote.mpps / base
        ),
        _ => said.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::provenance::Provenance;

    fn row(name: &str, mpps: f64, ratio: Option<(f64, f64, f64)>) -> Row {
        let ratio = ratio.map(|(low, median, high)| Estimate { median, low, high });
        Row { name: name.to_owned(), mpps, ratio, ..Row::default() }
    }

    fn set(memory: Kind, rows: Vec<Row>) -> Results {
        Results {
            memory,
            processor: "a processor".to_owned(),
            provenance: Provenance::default(),
            packets: 1,
            seed: 0,
            constants: Vec::new(),
            rows,
            notes: Vec::new(),
            trial: None,
        }
    }

    #[test]
    fn a_ratio_of_rounds_is_taken_before_the_quotient_of_two_rates() {
        let rows = vec![row("base", 10.0, None), row("a", 12.0, Some((1.1, 1.3, 1.5))), row("d", 15.0, None)];
        let ratios = ratios(&set(Kind::Real, rows));
        assert_eq!((ratios[0].ratio, ratios[0].interval), (1.3, Some((1.1, 1.5))));
        assert_eq!((ratios[1].ratio, ratios[1].interval), (1.5, None));
        assert_eq!(ratios.len(), 2);
    }

    #[test]
    fn the_band_holds_all_null_factors_on_either_side() {
        let rows = vec![
            row("base", 10.0, Some((0.98, 1.0, 1.01))),
            row("base-again", 10.0, Some((0.97, 1.0, 1.0))),
            row("demote", 10.0, Some((1.0, 1.02, 1.04))),
        ];
        let band = null_band(&set(Kind::Real, rows.clone()));
        assert!((band.high - 1.04).abs() < 1e-12 && (band.low - 1.0 / 1.04).abs() < 1e-12, "{band:?}");
        let band = null_band(&set(Kind::Simulated, rows));
        assert_eq!((band.low, band.high), (1.0, 1.0));
        assert!(band.from.contains("a factor of 1.000"), "{}", band.from);
    }

    #[test]
    fn a_single_measurement_has_no_known_band() {
        let band = null_band(&set(Kind::Real, vec![row("base", 10.0, None)]));
        assert!(band.from.contains("not known"), "{band:?}");
    }
}
