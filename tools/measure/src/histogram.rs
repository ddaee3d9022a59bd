//! Histogram of values: exact below 128, with a relative error of at most 1/64 above.
//!
//! Buckets are linear within each power of two. Recording is one addition in preallocated memory; the last bucket holds
//! all larger values (2^40 nanoseconds are 18 minutes).

use serde::{Deserialize, Serialize};

/// Buckets per power of two, as log2.
const BITS: u32 = 6;
const LINEAR: u64 = 1 << (BITS + 1);
/// Values of 2^TOP and more share the last bucket.
const TOP: u32 = 40;
const BUCKETS: usize = (LINEAR as usize) + ((TOP - BITS - 1) as usize) * (1 << BITS);

/// Histogram of values.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    sum: u128,
    largest: u64,
    smallest: u64,
}

/// Summary of a histogram, in the unit of its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Distribution))]
pub struct Summary {
    /// Number of values.
    pub count: u64,
    /// Minimum.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Maximum.
    pub max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into_boxed_slice(), total: 0, sum: 0, largest: 0, smallest: u64::MAX }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Histogram").field(&self.summary()).finish()
    }
}

/// The bucket of a value.
#[inline(always)]
fn bucket(value: u64) -> usize {
    let value = value.min((1 << TOP) - 1);
    if value < LINEAR {
        return value as usize;
    }
    let shift = value.ilog2() - BITS;
    ((u64::from(shift) << BITS) + (value >> shift)) as usize
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < LINEAR {
        return bucket;
    }
    let shift = (bucket >> BITS) - 1;
    ((bucket - (shift << BITS) + 1) << shift) - 1
}

impl Histogram {
    /// Records a value.
    #[inline(always)]
    pub fn record(&mut self, value: u64) {
        if let Some(count) = self.counts.get_mut(bucket(value)) {
            *count += 1;
        }
        self.total += 1;
        self.sum += u128::from(value);
        self.largest = self.largest.max(value);
        self.smallest = self.smallest.min(value);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, theirs)| *own += theirs);
        self.total += other.total;
        self.sum += other.sum;
        self.largest = self.largest.max(other.largest);
        self.smallest = self.smallest.min(other.smallest);
    }

    /// Number of recorded values.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The smallest value that at least the fraction `part` (0 to 1) of all values do not exceed, to the width of a
    /// bucket; 0 if the histogram is empty.
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = ((self.total as f64 * part).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        at.map_or(0, |at| upper(at).clamp(self.smallest, self.largest))
    }

    /// The summary of all values.
    pub fn summary(&self) -> Summary {
        if self.total == 0 {
            return Summary::default();
        }
        Summary {
            count: self.total,
            min: self.smallest,
            mean: self.sum as f64 / self.total as f64,
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            max: self.largest,
        }
    }

    /// The non-empty buckets: largest value of the bucket and count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(at, count)| (upper(at), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_values_are_exact() {
        let mut histogram = Histogram::default();
        (0..100).for_each(|value| histogram.record(value));
        let told = histogram.summary();
        assert_eq!((told.min, told.p50, told.p90, told.p99, told.max), (0, 49, 89, 98, 99));
        assert!((told.mean - 49.5).abs() < 1e-9);
        assert_eq!(histogram.buckets().count(), 100);
        assert_eq!(Histogram::default().summary(), Summary::default());
    }

    #[test]
    fn buckets_are_contiguous() {
        for at in 0..BUCKETS - 1 {
            assert_eq!((bucket(upper(at)), bucket(upper(at) + 1)), (at, at + 1));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn quantile_is_exact_within_a_bucket(mut values in prop::collection::vec(0..1u64 << 39, 1..300), part in 0.0..=1.0f64) {
            let mut histogram = Histogram::default();
            for value in &values {
                histogram.record(*value);
            }
            values.sort_unstable();
            let rank = ((values.len() as f64 * part).ceil() as usize).clamp(1, values.len());
            let (exact, told) = (values[rank - 1], histogram.quantile(part));
            prop_assert!(told >= exact && told - exact <= exact / 64, "{exact} {told}");
        }

        #[test]
        fn merged_histograms_equal_one(a in prop::collection::vec(any::<u64>(), 0..50), b in prop::collection::vec(any::<u64>(), 0..50)) {
            let of = |values: &[u64]| {
                let mut histogram = Histogram::default();
                for value in values {
                    histogram.record(*value);
                }
                histogram
            };
            let (mut sum, all) = (of(&a), of(&[a.clone(), b.clone()].concat()));
            sum.merge(&of(&b));
            prop_assert_eq!(sum.summary(), all.summary());
        }
    }
}
