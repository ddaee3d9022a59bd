//! Due times of an open loop: constant spacing, or a Poisson process from a seed.
//!
//! The times depend on the rate, the spacing and the seed only. A due time that was not taken stays the next one, so a
//! server that stalls delays requests and does not change their due times (no coordinated omission).

use fastrand::Rng;
use stack::Time;

/// Spacing of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Equal intervals.
    Constant,
    /// Exponentially distributed intervals, from this seed.
    Poisson(u64),
}

/// The due times.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    origin: Time,
    /// Mean interval in nanoseconds.
    interval: f64,
    /// Next due time, in nanoseconds since the origin.
    next: f64,
    rng: Option<Rng>,
}

impl Arrivals {
    /// Due times from `origin` on, with a mean of `rate` per second.
    pub(super) fn new(rate: f64, spacing: Spacing, origin: Time) -> Self {
        let rng = match spacing {
            Spacing::Constant => None,
            Spacing::Poisson(seed) => Some(Rng::with_seed(seed)),
        };
        let mut arrivals = Self { origin, interval: 1e9 / rate, next: 0.0, rng };
        if arrivals.rng.is_some() {
            arrivals.pop();
        }
        arrivals
    }

    /// The next due time.
    #[inline]
    pub(super) fn peek(&self) -> Time {
        Time(self.origin.0 + self.next as u64)
    }

    /// Takes the next due time.
    #[inline]
    pub(super) fn pop(&mut self) {
        // In (0, 1], so that the logarithm is finite.
        let factor = self.rng.as_mut().map_or(1.0, |rng| -(1.0 - rng.f64()).ln());
        self.next += self.interval * factor;
    }

    /// Takes all due times before `end`, and counts those at or after `begin`.
    pub(super) fn drain(&mut self, begin: Time, end: Time) -> u64 {
        let mut count = 0;
        while self.peek() < end {
            count += u64::from(self.peek() >= begin);
            self.pop();
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(spacing: Spacing, n: usize) -> Vec<u64> {
        let mut arrivals = Arrivals::new(1e6, spacing, Time(500));
        let mut take = || {
            let due = arrivals.peek().0;
            arrivals.pop();
            due
        };
        (0..n).map(|_| take()).collect()
    }

    #[test]
    fn constant_spacing_begins_at_the_origin() {
        assert_eq!(times(Spacing::Constant, 4), [500, 1_500, 2_500, 3_500]);
    }

    #[test]
    fn poisson_intervals_are_repeatable_and_have_mean_and_deviation_of_the_rate() {
        let due = times(Spacing::Poisson(1), 50_000);
        assert_eq!(due, times(Spacing::Poisson(1), 50_000));
        assert_ne!(due, times(Spacing::Poisson(2), 50_000));
        let intervals: Vec<f64> = due.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let n = intervals.len() as f64;
        let mean = intervals.iter().sum::<f64>() / n;
        let deviation = (intervals.iter().map(|each| (each - mean).powi(2)).sum::<f64>() / n).sqrt();
        // The standard error of both is below 10.
        assert!((mean - 1_000.0).abs() < 40.0 && (deviation - 1_000.0).abs() < 60.0, "{mean} {deviation}");
    }

    #[test]
    fn due_times_that_were_not_taken_are_counted_within_the_window() {
        let mut arrivals = Arrivals::new(1e6, Spacing::Constant, Time(0));
        assert_eq!(arrivals.drain(Time(2_000), Time(10_000)), 8);
        assert_eq!(arrivals.peek(), Time(10_000));
    }
}
