//! Latency of the frames of a stream, and its variation.
//!
//! All times are nanoseconds of one clock, because sender and receiver are one process. Jitter is the running estimate
//! of RFC 3550 section 6.4.1, over frames in order of arrival. The estimate depends on about the last 16 frames, so its
//! mean over all frames and its maximum are recorded instead of its final value. IPDV (RFC 3393) is the difference in
//! delay between two consecutively sent frames that both arrived in order; its absolute value is recorded.

use measure::Histogram;

/// Delays of one stream.
#[derive(Clone, Debug, Default)]
pub struct Delay {
    latency: Histogram,
    variation: Histogram,
    /// Jitter: current estimate, sum of the estimates after each frame, their number, and their maximum.
    estimate: f64,
    estimates: f64,
    estimated: u64,
    most: f64,
    /// Delay and number of the last frame received.
    last: Option<(u64, u64)>,
}

impl Delay {
    /// Records frame `number` with a delay of `delay` nanoseconds.
    #[inline]
    pub fn take(&mut self, number: u64, delay: u64) {
        self.latency.record(delay);
        if let Some((before, previous)) = self.last.replace((delay, number)) {
            let change = delay.abs_diff(before);
            self.estimate += (change as f64 - self.estimate) / 16.0;
            self.estimates += self.estimate;
            self.estimated += 1;
            self.most = self.most.max(self.estimate);
            if number == previous + 1 {
                self.variation.record(change);
            }
        }
    }

    /// Latencies, in nanoseconds.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// Absolute IPDV values, in nanoseconds.
    pub fn variation(&self) -> &Histogram {
        &self.variation
    }

    /// Mean jitter over all frames, in nanoseconds.
    pub fn jitter(&self) -> f64 {
        if self.estimated == 0 { 0.0 } else { self.estimates / self.estimated as f64 }
    }

    /// Maximum jitter, in nanoseconds.
    pub fn most_jitter(&self) -> f64 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_delays_have_no_jitter() {
        let mut delay = Delay::default();
        (0..10).for_each(|number| delay.take(number, 100));
        assert!(delay.jitter().abs() < 1e-12);
        assert_eq!((delay.variation().count(), delay.variation().summary().max), (9, 0));
    }

    #[test]
    fn jitter_covers_all_packets_of_a_run() {
        let mut delay = Delay::default();
        // Ninety frames whose delay alternates by 160 ns, then a hundred with constant delay.
        (0..90).for_each(|number| delay.take(number, 100 + 160 * (number % 2)));
        (90..190).for_each(|number| delay.take(number, 100));
        let (mean, most) = (delay.jitter(), delay.most_jitter());
        assert!((70.0..80.0).contains(&mean) && (155.0..160.0).contains(&most), "{mean} {most}");
        assert!(Delay::default().jitter().abs() < 1e-12);
    }

    #[test]
    fn jitter_is_smoothed_and_variation_is_per_pair() {
        let mut delay = Delay::default();
        delay.take(0, 100);
        delay.take(1, 260);
        assert!((delay.jitter() - 10.0).abs() < 1e-9);
        delay.take(3, 100);
        assert!((delay.most_jitter() - (10.0 + 150.0 / 16.0)).abs() < 1e-9);
        assert_eq!(delay.variation().summary().max, 160);
        assert_eq!((delay.variation().count(), delay.latency().count()), (1, 3));
    }
}
