//! Round-trip time and retransmission timeout (RFC 6298), in microseconds.
//!
//! Must not be given samples of retransmitted segments (Karn's algorithm) other than by timestamps.

/// Longest retransmission timeout (RFC 6298 section 2.5).
const MAX_RTO: u32 = 60_000_000;
/// Timeout without a sample (RFC 6298 section 2.1).
const INITIAL_RTO: u32 = 1_000_000;
/// Timeout without a sample after the handshake was retransmitted (RFC 6298 section 5.7).
const INITIAL_RTO_AFTER_LOSS: u32 = 3_000_000;
/// Granularity of the clock: timestamps, which measure retransmitted segments, are whole milliseconds (RFC 6298 section
/// 2, `G`).
const GRANULARITY: u32 = 1_000;
/// Time after which an older minimum is replaced (RFC 8985 section 6.1 asks for a window).
const MIN_WINDOW: u32 = 300_000_000;

/// Estimator of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    /// Smoothed round-trip time, times 8; 0 without a sample.
    smoothed: u32,
    /// Variation, times 4.
    variation: u32,
    minimum: u32,
    minimum_at: u32,
    min_rto: u32,
    backoff: u8,
}

impl Rtt {
    pub(super) fn new(min_rto: u32) -> Self {
        let min_rto = min_rto.clamp(1, MAX_RTO);
        Self { smoothed: 0, variation: INITIAL_RTO, minimum: u32::MAX, minimum_at: 0, min_rto, backoff: 0 }
    }

    /// Adds a sample for the timeout, and ends the back-off.
    #[inline]
    pub(super) fn sample(&mut self, rtt: u32) {
        let rtt = rtt.clamp(1, MAX_RTO);
        self.backoff = 0;
        if self.smoothed == 0 {
            (self.smoothed, self.variation) = (rtt * 8, rtt * 2);
            return;
        }
        let difference = rtt.abs_diff(self.smoothed / 8);
        self.variation = self.variation - self.variation / 4 + difference;
        self.smoothed = self.smoothed - self.smoothed / 8 + rtt;
    }

    /// Adds a sample for the minimum.
    #[inline]
    pub(super) fn sample_minimum(&mut self, rtt: u32, now: u32) {
        if rtt <= self.minimum || now.wrapping_sub(self.minimum_at) > MIN_WINDOW {
            (self.minimum, self.minimum_at) = (rtt.max(1), now);
        }
    }

    /// Smoothed round-trip time and variation.
    pub(super) const fn get(&self) -> Option<(u32, u32)> {
        if self.smoothed == 0 { None } else { Some((self.smoothed / 8, self.variation / 4)) }
    }

    /// Minimum of the last minutes; `u32::MAX` without a sample.
    #[inline]
    pub(super) const fn minimum(&self) -> u32 {
        self.minimum
    }

    /// Lower bound of the timeout.
    #[inline]
    pub(super) const fn min_rto(&self) -> u32 {
        self.min_rto
    }

    /// Retransmission timeout with its back-off (RFC 6298 section 2.3). Its minimum is an option of the connection; RFC
    /// 6298 section 2.4 recommends 1 s for the sum. Here it bounds the variation, as in Linux: the round trip of a path
    /// can be constant for long, and a delayed acknowledgement then exceeds it by up to 200 ms.
    #[inline]
    pub(super) fn rto(&self) -> u32 {
        let margin = self.variation.max(self.min_rto).max(GRANULARITY);
        let base = (self.smoothed / 8).saturating_add(margin).min(MAX_RTO);
        (u64::from(base) << self.backoff).min(u64::from(MAX_RTO)) as u32
    }

    /// Doubles the timeout (RFC 6298 section 5.5).
    pub(super) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(26);
    }

    /// Ends the back-off of segments that were not sent.
    pub(super) fn forget_back_off(&mut self) {
        self.backoff = 0;
    }

    /// A retransmission was acknowledged, and there is no sample yet (RFC 6298 section 5.7).
    pub(super) fn on_late_handshake(&mut self) {
        if self.smoothed == 0 && self.backoff > 0 {
            (self.variation, self.backoff) = (INITIAL_RTO_AFTER_LOSS, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimator_follows_the_formulas() {
        let mut rtt = Rtt::new(1);
        assert_eq!((rtt.rto(), rtt.get()), (1_000_000, None));
        rtt.sample(100_000);
        assert_eq!((rtt.rto(), rtt.get()), (300_000, Some((100_000, 50_000))));
        // RTTVAR = 3/4 * 50 + 1/4 * |100 - 180| = 57.5 ms; SRTT = 7/8 * 100 + 1/8 * 180 = 110 ms.
        rtt.sample(180_000);
        assert_eq!((rtt.rto(), rtt.get()), (340_000, Some((110_000, 57_500))));
    }

    #[test]
    fn timeout_is_bounded_and_backs_off_until_a_sample() {
        let mut rtt = Rtt::new(200_000);
        rtt.sample(1_000);
        assert_eq!(rtt.rto(), 201_000);
        rtt.back_off();
        assert_eq!(rtt.rto(), 402_000);
        for _ in 0..100 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), MAX_RTO);
        rtt.sample(1_000);
        assert_eq!(rtt.rto(), 201_000);
        rtt.sample(u32::MAX);
        assert!(rtt.rto() <= MAX_RTO);
    }

    #[test]
    fn timeout_exceeds_a_constant_round_trip_time_by_its_minimum() {
        for (min_rto, expected) in [(200_000, 500_000), (1, 301_000)] {
            let mut rtt = Rtt::new(min_rto);
            (0..200).for_each(|_| rtt.sample(300_000));
            assert_eq!(rtt.get().map(|(smoothed, _)| smoothed), Some(300_000));
            assert_eq!(rtt.rto(), expected);
        }
    }

    #[test]
    fn handshake_with_losses_starts_at_three_seconds() {
        let mut rtt = Rtt::new(200_000);
        rtt.on_late_handshake();
        assert_eq!(rtt.rto(), 1_000_000);
        rtt.back_off();
        rtt.on_late_handshake();
        assert_eq!(rtt.rto(), 3_000_000);
    }

    #[test]
    fn minimum_expires() {
        let mut rtt = Rtt::new(1);
        rtt.sample_minimum(10, 0);
        rtt.sample_minimum(20, 1_000);
        assert_eq!(rtt.minimum(), 10);
        rtt.sample_minimum(20, MIN_WINDOW + 1);
        assert_eq!(rtt.minimum(), 20);
    }
}
