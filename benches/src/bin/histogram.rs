//! Measures the generator's histogram beside `hdrhistogram`: recording a value, merging two histograms, and a summary.
//!
//! `cargo run --release -p linerate-benches --bin histogram` prints medians of interleaved rounds in nanoseconds per
//! operation, and the ratio. With `--only CASE` it repeats one operation `--times N` for a count of its instructions:
//! the difference of two counts with different N.

use anyhow::Result;
use clap::{Parser, ValueEnum};
use generator::meter::{Histogram, Summary};
use measure::rounds::{interleaved, median_ratio};
use measure::statistics::median;
use std::hint::black_box;
use std::time::Instant;

/// The largest value of both, in nanoseconds.
const LARGEST: u64 = (1 << 40) - 1;
/// Significant digits: 128 buckets per power of two, where ours has 64; one digit would be 16.
const DIGITS: u8 = 2;
/// Number of prepared values.
const VALUES: usize = 4096;

#[derive(Parser)]
struct Arguments {
    /// Repeat only this case
    #[arg(long, value_enum)]
    only: Option<Case>,
    /// Number of repetitions with --only
    #[arg(long, default_value_t = 1000)]
    times: usize,
    /// Number of interleaved rounds
    #[arg(long, default_value_t = 21)]
    rounds: usize,
}

/// An operation and its implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    Record,
    HdrRecord,
    Merge,
    HdrMerge,
    Summary,
    HdrSummary,
}

impl Case {
    /// Number of repetitions of a reading.
    fn times(self) -> usize {
        match self {
            Case::Record | Case::HdrRecord => 4_000_000,
            Case::Merge | Case::HdrMerge => 4_000,
            Case::Summary | Case::HdrSummary => 1_000,
        }
    }
}

/// Both histograms, filled with the same values.
struct Bench {
    values: Vec<u64>,
    ours: [Histogram; 2],
    hdr: [hdrhistogram::Histogram<u64>; 2],
}

impl Bench {
    fn new() -> Result<Self> {
        // Delays of 1 us to 1 ms, most of them short, from a linear congruential generator.
        let mut state = 1_u64;
        let mut value = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (1000.0 * 1000_f64.powf(((state >> 40) as f64 / f64::from(1 << 24)).powi(3))) as u64
        };
        let values: Vec<u64> = (0..VALUES).map(|_| value()).collect();
        let new = || hdrhistogram::Histogram::new_with_bounds(1, LARGEST, DIGITS);
        let mut bench =
            Self { values, ours: [Histogram::default(), Histogram::default()], hdr: [new()?, new()?] };
        bench.ours.iter_mut().for_each(|own| bench.values.iter().for_each(|value| own.record(*value)));
        bench
            .hdr
            .iter_mut()
            .for_each(|hdr| bench.values.iter().for_each(|value| hdr.saturating_record(*value)));
        Ok(bench)
    }

    fn repeat(&mut self, case: Case, times: usize) -> Result<()> {
        let values = self.values.iter().copied().cycle().take(times);
        let ([ours, other], [hdr, other_hdr]) = (&mut self.ours, &mut self.hdr);
        match case {
            Case::Record => values.for_each(|value| black_box(&mut *ours).record(value)),
            Case::HdrRecord => values.for_each(|value| black_box(&mut *hdr).saturating_record(value)),
            Case::Merge => (0..times).for_each(|_| ours.merge(black_box(other))),
            Case::HdrMerge => {
                for _ in 0..times {
                    hdr.add(black_box(&*other_hdr))?;
                }
            }
            Case::Summary => (0..times).for_each(|_| _ = black_box(black_box(&*ours).summary())),
            Case::HdrSummary => (0..times).for_each(|_| _ = black_box(summary(black_box(hdr)))),
        }
        Ok(())
    }
}

/// The same summary of the other histogram.
fn summary(histogram: &hdrhistogram::Histogram<u64>) -> Summary {
    Summary {
        count: histogram.len(),
        min: histogram.min(),
        mean: histogram.mean(),
        p50: histogram.value_at_quantile(0.5),
        p90: histogram.value_at_quantile(0.9),
        p99: histogram.value_at_quantile(0.99),
        p999: histogram.value_at_quantile(0.999),
        max: histogram.max(),
    }
}

fn main() -> Result<()> {
    let (arguments, mut bench) = (Arguments::parse(), Bench::new()?);
    if let Some(case) = arguments.only {
        return bench.repeat(case, arguments.times);
    }
    let cases = Case::value_variants();
    let mut readings = interleaved(arguments.rounds, cases.len(), |case| -> Result<f64> {
        let (case, began) = (cases[case], Instant::now());
        bench.repeat(case, case.times())?;
        Ok(began.elapsed().as_nanos() as f64 / case.times() as f64)
    })?;
    println!("{:<10}{:>12}{:>20}{:>24}", "ns", "linerate", "hdrhistogram", "hdrhistogram / linerate");
    for (pair, names) in readings.chunks_exact_mut(2).zip(cases.chunks_exact(2)) {
        let [ours, hdr] = pair else { continue };
        let ratio = median_ratio(hdr, ours).unwrap_or(f64::NAN);
        let (ours, hdr) = (median(ours).unwrap_or(f64::NAN), median(hdr).unwrap_or(f64::NAN));
        println!("{:<10}{ours:>12.2}{hdr:>20.2}{ratio:>24.2}", format!("{:?}", names[0]));
    }
    Ok(())
}
