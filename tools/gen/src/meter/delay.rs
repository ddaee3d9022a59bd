//! How long frames of one stream took, and how much that changed from one to the next.
//!
//! All times are nanoseconds of one clock, because sender and receiver are one process. Jitter is the running estimate of
//! RFC 3550 section 6.4.1, over frames in the order of their arrival. Some 16 frames decide what it is at any moment, so what
//! is kept of it is its mean over all frames and its greatest value, and not what it was at the end; IPDV (RFC 3393) is the difference of delay between
//! two frames that were sent one after the other, both of which came and in order. What is kept of it is its size.

use super::histogram::Histogram;

/// The delays of one stream.
#[derive(Clone, Debug, Default)]
pub struct Delay {
    latency: Histogram,
    variation: Histogram,
    /// The estimate as it is now, the sum of what it was after each frame, of how many, and the most that it was.
    estimate: f64,
    estimates: f64,
    estimated: u64,
    most: f64,
    /// Delay of the frame that came last, and its number.
    last: Option<(u64, u64)>,
}

impl Delay {
    /// Frame number `number` came after `delay` nanoseconds.
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

    /// Every delay, in nanoseconds.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// The size of every IPDV, in nanoseconds.
    pub fn variation(&self) -> &Histogram {
        &self.variation
    }

    /// The mean of the jitter over all frames, in nanoseconds.
    pub fn jitter(&self) -> f64 {
        if self.estimated == 0 { 0.0 } else { self.estimates / self.estimated as f64 }
    }

    /// The most that it was, in nanoseconds.
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
    fn jitter_is_of_the_whole_run_and_not_of_its_last_frames() {
        let mut delay = Delay::default();
        // Ninety frames whose delay jumps by 160 ns, and then a hundred that are calm.
        (0..90).for_each(|number| delay.take(number, 100 + 160 * (number % 2)));
        (90..190).for_each(|number| delay.take(number, 100));
        let (mean, most) = (delay.jitter(), delay.most_jitter());
        assert!((70.0..80.0).contains(&mean) && (155.0..160.0).contains(&most), "{mean} {most}");
        assert!(Delay::default().jitter().abs() < 1e-12);
    }

    #[test]
    fn jitter_moves_by_a_sixteenth_and_variation_is_of_neighbours_only() {
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
