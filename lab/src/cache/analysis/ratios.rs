//! Each configuration over the base, and how far apart two runs of the same thing may be.

use serde::Serialize;

use crate::cache::factors::FACTORS;
use crate::cache::results::{Estimate, Kind, Results, Row};

/// One configuration over the base.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The configuration
    pub name: String,
    /// What it changes
    pub title: String,
    /// Its throughput over the base's
    pub ratio: f64,
    /// The ratio's 95 % interval, where there were rounds
    pub interval: Option<(f64, f64)>,
}

/// Where ratios lie of what differs from the base by nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Band {
    /// Lower end
    pub low: f64,
    /// Upper end
    pub high: f64,
    /// What it was taken from
    pub from: String,
}

/// All of a set's configurations that are no base, in the order of the set; nothing without a base.
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

/// `base`, and the base again under a name of its own (`base-again`, `base-2`).
fn is_base(row: &Row) -> bool {
    row.name == "base" || row.name.starts_with("base-")
}

/// The band of the null factors: the base run again, and `demote`, which many processors ignore.
///
/// A simulated run is the same each time, so its band has no width.
pub fn null_band(results: &Results) -> Band {
    if results.memory == Kind::Simulated {
        let from = "the simulator has no noise: the band has zero width, and every difference is the model's";
        return Band { low: 1.0, high: 1.0, from: from.to_owned() };
    }
    let nulls = || results.rows.iter().filter(|row| is_base(row) || row.name == "demote");
    let spans = || nulls().filter_map(|row| row.ratio).filter(|ratio| ratio.low < ratio.high);
    let low = spans().map(|ratio| ratio.low).fold(1.0, f64::min);
    let high = spans().map(|ratio| ratio.high).fold(1.0, f64::max);
    let names: Vec<&str> = nulls().filter(|row| row.ratio.is_some()).map(|row| row.name.as_str()).collect();
    let from = if spans().next().is_none() {
        "no null factor was measured in rounds, so how far noise reaches is not known".to_owned()
    } else {
        format!("95 % intervals of what changes nothing: {}", names.join(", "))
    };
    Band { low, high, from }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, mpps: f64, ratio: Option<(f64, f64, f64)>) -> Row {
        let ratio = ratio.map(|(low, median, high)| Estimate { median, low, high });
        Row { name: name.to_owned(), mpps, ratio, threads: Vec::new(), lines: Vec::new() }
    }

    fn set(memory: Kind, rows: Vec<Row>) -> Results {
        Results {
            memory,
            processor: "a processor".to_owned(),
            packets: 1,
            seed: 0,
            constants: Vec::new(),
            rows,
            notes: Vec::new(),
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
    fn the_band_holds_all_null_factors_and_never_less_than_one() {
        let rows = vec![
            row("base", 10.0, Some((0.98, 1.0, 1.01))),
            row("base-again", 10.0, Some((0.97, 1.0, 1.0))),
            row("demote", 10.0, Some((1.0, 1.02, 1.04))),
        ];
        let band = null_band(&set(Kind::Real, rows.clone()));
        assert_eq!((band.low, band.high), (0.97, 1.04));
        let band = null_band(&set(Kind::Simulated, rows));
        assert_eq!((band.low, band.high), (1.0, 1.0));
    }

    #[test]
    fn what_was_not_measured_in_rounds_has_no_known_band() {
        let band = null_band(&set(Kind::Real, vec![row("base", 10.0, None)]));
        assert!(band.from.contains("not known"), "{band:?}");
    }
}
