//! Work of a known duration: a delay in nanoseconds, exact enough for the work on one packet.
//!
//! Reading the time-stamp counter takes longer than the shortest delays, and the duration of an empty loop depends on
//! the processor (loops meant for 10, 20, 30 and 40 ns took 11, 18, 32 and 47). A short delay is therefore a chain of
//! dependent operations whose length is calibrated; a long one ends by the counter. Each delay continues the chain of
//! the last one, so two of them cannot overlap in one core.

use measure::Clock;
use measure::statistics::median;
use std::hint::black_box;

/// Minimum nanoseconds of a delay that ends by the counter, whose rate does not change with the processor's clock.
const BY_COUNTER: f64 = 500.0;
/// Compared delays in steps: as short as those in use, and far enough apart.
const SHORT: u64 = 4;
const LONG: u64 = 404;
/// Length in nanoseconds of the counter-based delay used to measure its lateness.
const SHOWN: f64 = 2_000.0;
/// Runs of each delay per comparison, and number of comparisons.
const RUNS: u64 = 2_000;
const COMPARED: usize = 9;

/// Method of a delay.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    /// Number of steps of the chain.
    Steps(u64),
    /// Number of ticks to wait.
    Ticks(u64),
}

/// A calibrated delay.
#[derive(Clone, Debug)]
pub struct Delay {
    clock: Clock,
    /// Nanoseconds per step, and per call before its first step.
    step: f64,
    call: f64,
    /// Mean lateness of a counter-based delay in nanoseconds.
    late: f64,
    work: Work,
    chain: u64,
}

/// Measurement of one delay.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Reading {
    /// Requested nanoseconds.
    #[serde(deserialize_with = "crate::usage::checkpoint::any_number")]
    pub asked_ns: f64,
    /// Measured nanoseconds: the mean of many consecutive runs.
    #[serde(deserialize_with = "crate::usage::checkpoint::any_number")]
    pub took_ns: f64,
    /// Difference in per cent of the request.
    #[serde(deserialize_with = "crate::usage::checkpoint::any_number")]
    pub error_percent: f64,
}

/// Executes a chain of `steps` operations, each dependent on the previous one.
#[inline]
fn walk(mut chain: u64, steps: u64) -> u64 {
    for _ in 0..steps {
        chain = (chain ^ 0x9e37_79b9_7f4a_7c15).rotate_left(1);
    }
    chain
}

impl Delay {
    /// Calibrates on this processor; the delay is zero until [`Delay::set`]. Takes a few milliseconds.
    pub fn calibrated() -> Self {
        let clock = Clock::calibrated();
        let mut delay = Self { clock, step: 1.0, call: 0.0, late: 0.0, work: Work::Steps(0), chain: 1 };
        // The minimum of several: interruptions only make it longer.
        let mut least = |work| {
            delay.work = work;
            (0..COMPARED).map(|_| delay.mean(RUNS)).fold(f64::MAX, f64::min)
        };
        let (short, long) = (least(Work::Steps(SHORT)), least(Work::Steps(LONG)));
        let ticks = (SHOWN / (clock.seconds(0, 1_000_000) * 1e3)).round() as u64;
        let late = (least(Work::Ticks(ticks)) - SHOWN).max(0.0);
        let step = ((long - short) / (LONG - SHORT) as f64).max(f64::MIN_POSITIVE);
        let call = (short - step * SHORT as f64).max(0.0);
        Self { step, call, late, work: Work::Steps(0), ..delay }
    }

    /// Returns this delay set to `nanoseconds`; zero if that is less than half a step.
    #[must_use]
    pub fn set(&self, nanoseconds: f64) -> Self {
        let work = if nanoseconds < BY_COUNTER {
            Work::Steps(((nanoseconds - self.call) / self.step).round().max(0.0) as u64)
        } else {
            Work::Ticks(((nanoseconds - self.late) / self.nanoseconds_per_tick()).round() as u64)
        };
        Self { work, ..self.clone() }
    }

    fn nanoseconds_per_tick(&self) -> f64 {
        self.clock.seconds(0, 1_000_000) * 1e3
    }

    /// The smallest difference between two short delays, in nanoseconds.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// Executes the delay.
    #[inline]
    pub fn run(&mut self) {
        match self.work {
            Work::Steps(0) => {}
            Work::Steps(steps) => self.chain = walk(self.chain, steps),
            Work::Ticks(ticks) => {
                let from = self.clock.ticks();
                while self.clock.ticks().wrapping_sub(from) < ticks {}
            }
        }
    }

    /// Measures a delay of `asked_ns`: the median of several means of `runs` each.
    pub fn read(&self, asked_ns: f64, runs: u64) -> Reading {
        let mut delay = self.set(asked_ns);
        let mut means: Vec<f64> = (0..COMPARED).map(|_| delay.mean(runs)).collect();
        let took_ns = median(&mut means).unwrap_or(f64::NAN);
        Reading { asked_ns, took_ns, error_percent: (took_ns / asked_ns - 1.0) * 100.0 }
    }

    fn mean(&mut self, runs: u64) -> f64 {
        let from = self.clock.ticks();
        for _ in 0..runs {
            self.run();
        }
        black_box(self.chain);
        self.clock.seconds(from, self.clock.ticks()) * 1e9 / runs as f64
    }
}

/// Delays from a nanosecond to a millisecond, and the reference's 10 to 40 ns.
pub const ASKED_NS: [f64; 16] = [
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    30.0,
    40.0,
    50.0,
    100.0,
    200.0,
    500.0,
    1_000.0,
    2_000.0,
    10_000.0,
    100_000.0,
    1_000_000.0,
];

/// Measures each of these delays for about ten milliseconds, with at least a few runs.
pub fn readings(delay: &Delay) -> Vec<Reading> {
    let runs = |asked: f64| ((1e7 / asked) as u64 / COMPARED as u64).clamp(3, 100_000);
    ASKED_NS.iter().map(|&asked| delay.read(asked, runs(asked))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_more_steps_ends_elsewhere() {
        let ends: Vec<u64> = (0..60).map(|steps| walk(1, steps)).collect();
        assert_eq!(ends[0], 1);
        assert!(ends.iter().enumerate().all(|(n, end)| !ends[..n].contains(end)));
        assert_eq!(walk(walk(1, 30), 12), ends[42]);
    }

    #[test]
    fn delay_is_set_in_steps_or_ticks_by_calibration() {
        let clock = Clock::calibrated();
        let delay = Delay { clock, step: 0.5, call: 2.0, late: 10.0, work: Work::Steps(0), chain: 1 };
        assert_eq!(delay.set(1.0).work, Work::Steps(0), "the call is longer than that");
        assert_eq!(delay.set(10.0).work, Work::Steps(16));
        let Work::Ticks(ticks) = delay.set(1e6).work else { panic!("{delay:?}") };
        assert!((clock.seconds(0, ticks) - 999_990e-9).abs() < 1e-9);
    }

    #[test]
    fn every_requested_delay_is_measured() {
        let delay = Delay::calibrated();
        let read = readings(&delay);
        assert_eq!(read.iter().map(|reading| reading.asked_ns).collect::<Vec<_>>(), ASKED_NS);
        for Reading { asked_ns, took_ns, error_percent } in read {
            assert!((error_percent - (took_ns / asked_ns - 1.0) * 100.0).abs() < 1e-6);
            assert!(took_ns > 0.0, "{asked_ns}");
        }
    }
}
