//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation).
//!
//! Each transmission records the bytes delivered so far; the acknowledgement of it gives the rate between both. Counts
//! and times wrap modulo 2^32, which a flight never spans.

/// State of the delivery when an entry was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snapshot {
    /// Bytes delivered.
    delivered: u32,
    /// Time of the last delivery in microseconds.
    delivered_at: u32,
    /// Time of the transmission that started the flight, in microseconds.
    first_sent: u32,
    is_app_limited: bool,
}

/// Rate at which the path delivered data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// Bytes delivered during the interval.
    pub(super) delivered: u32,
    /// Bytes delivered when the entry was sent, modulo 2^32.
    pub(super) prior_delivered: u32,
    /// Longer one of the intervals of sending and of acknowledging, in microseconds; 0 if too short for a rate.
    pub(super) interval: u32,
    /// Whether the application limited the rate.
    pub(super) is_app_limited: bool,
}

impl Rate {
    /// Bytes per second; `None` if the interval was too short.
    pub(super) const fn bytes_per_second(&self) -> Option<u64> {
        (self.delivered as u64 * 1_000_000).checked_div(self.interval as u64)
    }
}

/// Delivery of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateSampler {
    delivered: u32,
    delivered_at: u32,
    first_sent: u32,
    /// Value of `delivered` up to which samples are limited by the application; valid if `is_app_limited`.
    limited_until: u32,
    is_app_limited: bool,
}

impl RateSampler {
    /// Bytes delivered, modulo 2^32.
    pub(super) const fn delivered(&self) -> u32 {
        self.delivered
    }

    /// Time since the last delivery in microseconds, or since the transmission that started the flight; 0 before the
    /// first delivery.
    #[inline]
    pub(super) const fn idle_time(&self, now: u32) -> u32 {
        if self.delivered == 0 { 0 } else { now.wrapping_sub(self.delivered_at) }
    }

    /// State to store with a transmission at `now`; `is_first` if nothing else is in flight.
    #[inline]
    pub(super) const fn on_sent(&mut self, now: u32, is_first: bool) -> Snapshot {
        if is_first {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            is_app_limited: self.is_app_limited,
        }
    }

    /// The application has nothing more to send; `pipe` bytes are in flight.
    #[inline]
    pub(super) const fn on_app_limited(&mut self, pipe: u32) {
        self.limited_until = self.delivered.wrapping_add(pipe);
        self.is_app_limited = true;
    }

    /// Counts delivered bytes without a sample.
    #[inline]
    pub(super) const fn count(&mut self, bytes: u32, now: u32) {
        self.delivered = self.delivered.wrapping_add(bytes);
        self.delivered_at = now;
    }

    /// Counts delivered bytes. Returns the sample of the entry sent last among them. Intervals shorter than the minimum
    /// round-trip time give no rate.
    #[inline]
    pub(super) fn on_delivered(
        &mut self,
        bytes: u32,
        latest: Option<(u32, Snapshot)>,
        min_rtt: u32,
        now: u32,
    ) -> Option<Rate> {
        self.count(bytes, now);
        self.is_app_limited &= self.limited_until.wrapping_sub(self.delivered).cast_signed() >= 0;
        let (sent, snapshot) = latest?;
        self.first_sent = sent;
        let sending = sent.wrapping_sub(snapshot.first_sent);
        let interval = sending.max(now.wrapping_sub(snapshot.delivered_at));
        Some(Rate {
            delivered: self.delivered.wrapping_sub(snapshot.delivered),
            prior_delivered: snapshot.delivered,
            interval: if interval < min_rtt { 0 } else { interval },
            is_app_limited: snapshot.is_app_limited,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_is_the_slower_of_sending_and_acknowledging() {
        let mut sampler = RateSampler::default();
        let first = sampler.on_sent(1_000, true);
        let second = sampler.on_sent(1_500, false);
        let rate = sampler.on_delivered(1_000, Some((1_000, first)), 100, 11_000).unwrap();
        assert_eq!((rate.delivered, rate.interval, rate.bytes_per_second()), (1_000, 10_000, Some(100_000)));
        let rate = sampler.on_delivered(1_000, Some((1_500, second)), 100, 12_000).unwrap();
        assert_eq!((rate.delivered, rate.interval), (2_000, 11_000));
    }

    #[test]
    fn short_intervals_give_no_sample() {
        let mut sampler = RateSampler::default();
        let first = sampler.on_sent(0, true);
        assert!(sampler.on_delivered(1_000, Some((0, first)), 100, 99).unwrap().bytes_per_second().is_none());
        assert!(sampler.on_delivered(1_000, Some((0, first)), 0, 0).unwrap().bytes_per_second().is_none());
    }

    #[test]
    fn samples_are_app_limited_until_the_flight_is_delivered() {
        let mut sampler = RateSampler::default();
        sampler.on_app_limited(2_000);
        let limited = sampler.on_sent(0, true);
        assert!(sampler.on_delivered(2_000, Some((0, limited)), 1, 500).unwrap().is_app_limited);
        assert!(sampler.is_app_limited);
        sampler.on_delivered(1, None, 1, 600);
        let free = sampler.on_sent(600, false);
        assert!(!sampler.on_delivered(1_000, Some((600, free)), 1, 900).unwrap().is_app_limited);
    }
}
