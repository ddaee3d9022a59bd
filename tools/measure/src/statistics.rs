//! Medians of paired ratios with intervals by the percentile bootstrap: pure functions, deterministic for a given seed.
//!
//! The median is used because unmeasured events disturb a few slices; the bootstrap, because the distribution of the
//! remaining ones is unknown.

use serde::{Deserialize, Serialize};

/// A median with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Median
    pub median: f64,
    /// Lower bound
    pub low: f64,
    /// Upper bound
    pub high: f64,
}

/// Minimum number of samples for an interval: rank intervals of a median at 95 % exist from six samples.
pub const MIN_SAMPLES: usize = 6;
const RESAMPLES: usize = 4000;

/// The median; `None` if `values` is empty. Sorts `values`.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// The median with its 95 % interval; `None` for fewer than [`MIN_SAMPLES`] values.
pub fn interval(values: &[f64], seed: u64) -> Option<Estimate> {
    if values.len() < MIN_SAMPLES {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut sample = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            sample.fill_with(|| values[random.usize(..values.len())]);
            median(&mut sample)
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| medians[((medians.len() - 1) as f64 * share).round() as usize];
    let (low, high) = (at(0.025), at(0.975));
    Some(Estimate { median: median(&mut values.to_vec())?, low, high })
}

/// The median ratio with its 95 % interval, from logarithms of ratios.
pub fn ratio(logarithms: &[f64], seed: u64) -> Option<Estimate> {
    let Estimate { median, low, high } = interval(logarithms, seed)?;
    Some(Estimate { median: median.exp(), low: low.exp(), high: high.exp() })
}

/// The ratio of the median of `b` to the median of `a`, for unpaired samples, with its 95 % interval. Returns `None` if
/// either has fewer than [`MIN_SAMPLES`] samples or a sample that is not positive and finite.
pub fn ratio_of_medians(a: &[f64], b: &[f64], seed: u64) -> Option<Estimate> {
    let positive = |values: &[f64]| values.iter().all(|value| value.is_finite() && *value > 0.0);
    if a.len().min(b.len()) < MIN_SAMPLES || !positive(a) || !positive(b) {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut drawn = |values: &[f64]| {
        let mut sample: Vec<f64> = values.iter().map(|_| values[random.usize(..values.len())]).collect();
        median(&mut sample)
    };
    let mut ratios: Vec<f64> = (0..RESAMPLES).filter_map(|_| Some(drawn(b)? / drawn(a)?)).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share).round() as usize];
    let whole = median(&mut b.to_vec())? / median(&mut a.to_vec())?;
    Some(Estimate { median: whole, low: at(0.025), high: at(0.975) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0, 1.0, 9.0]), Some(3.0));
        assert_eq!(median(&mut [3.0, 1.0, 9.0, 4.0]), Some(3.5));
    }

    #[test]
    fn too_few_pairs_yield_no_interval() {
        assert_eq!(interval(&[1.0; MIN_SAMPLES - 1], 1), None);
        let same = interval(&[1.0; MIN_SAMPLES], 1).expect("six are enough");
        assert_eq!((same.median, same.low, same.high), (1.0, 1.0, 1.0));
    }

    #[test]
    fn interval_is_reproducible_by_seed() {
        let values: Vec<f64> = (0..30).map(|n| f64::from(n * 7 % 11)).collect();
        assert_eq!(interval(&values, 5), interval(&values, 5));
    }

    #[test]
    fn ratio_is_robust_against_outliers() {
        let mut logarithms = vec![2_f64.ln(); 30];
        (logarithms[3], logarithms[9]) = (-5.0, 5.0);
        let found = ratio(&logarithms, 1).expect("thirty are enough");
        assert!((found.median - 2.0).abs() < 1e-12 && (found.low - 2.0).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn disjoint_samples_yield_the_ratio_of_medians() {
        let a: Vec<f64> = (0..20).map(|n| 10.0 + f64::from(n % 5)).collect();
        let b: Vec<f64> = a.iter().rev().map(|value| value * 3.0).collect();
        let found = ratio_of_medians(&a, &b, 1).expect("twenty are enough");
        assert!((found.median - 3.0).abs() < 1e-9 && found.low < 3.0 && found.high > 3.0, "{found:?}");
        assert!(found.low > 2.5 && found.high < 3.6, "{found:?}");
        assert_eq!(ratio_of_medians(&a, &b, 1), Some(found));
        assert_eq!(ratio_of_medians(&a[..MIN_SAMPLES - 1], &b, 1), None);
        assert_eq!(ratio_of_medians(&[0.0; 9], &b, 1), None);
    }

    /// Checks the coverage: about 95 % of the intervals should contain the known median.
    #[test]
    fn intervals_have_their_nominal_coverage() {
        let mut random = fastrand::Rng::with_seed(7);
        let held = (0..200)
            .filter(|seed| {
                // A skewed distribution with median ln 2.
                let values: Vec<f64> = (0..30).map(|_| -(1.0 - random.f64()).ln()).collect();
                let found = interval(&values, *seed).expect("thirty are enough");
                (found.low..=found.high).contains(&2_f64.ln())
            })
            .count();
        assert!((180..=198).contains(&held), "{held} of 200");
    }
}
