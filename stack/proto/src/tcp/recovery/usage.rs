//! How much of the congestion window a connection uses.
//!
//! The flight at an acknowledgement can be smaller than the window was used, because many are processed before the next
//! transmission. The largest flight of the round trip decides instead.

use crate::tcp::Seq;

/// Use of the window by one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// First unacknowledged sequence number.
    una: Seq,
    /// Largest flight of a round trip in bytes, and next sequence number to send when it was reached.
    peak: u32,
    end: Seq,
}

impl Usage {
    /// Records a transmission up to `nxt`; `start` if nothing else is in flight.
    #[inline]
    pub(super) fn on_sent(&mut self, start: Option<Seq>, nxt: Seq) {
        if let Some(start) = start {
            (self.una, self.end) = (start, start);
        }
        let flight = nxt.since(self.una);
        if flight > self.peak || self.end.is_at_most(self.una) {
            (self.peak, self.end) = (flight, nxt);
        }
    }

    /// Records a cumulative acknowledgement.
    #[inline]
    pub(super) const fn on_ack(&mut self, una: Seq) {
        self.una = una;
    }

    /// Whether the window limited the flight, so that it may grow (RFC 5681 section 3.1, RFC 7661). Half of it suffices
    /// in slow start, as the flight of the round trip before.
    #[inline]
    pub(super) const fn is_limited(&self, window: u32, is_slow_start: bool, mss: u32) -> bool {
        if is_slow_start {
            window < self.peak.saturating_mul(2)
        } else {
            window <= self.peak.saturating_add(self.peak / 8).saturating_add(3 * mss)
        }
    }

    /// Part of the window that was used (`FlightSize` of RFC 5681). Limited transmit is excluded.
    pub(super) fn used(&self, flight: u32, window: u32) -> u32 {
        flight.max(self.peak).min(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_between_transmissions_do_not_lower_the_use() {
        let mut usage = Usage::default();
        usage.on_sent(Some(Seq(100)), Seq(10_100));
        (1..10).for_each(|i| usage.on_ack(Seq(100 + i * 1_000)));
        assert!(usage.is_limited(10_000, false, 1_000) && !usage.is_limited(20_000, false, 1_000));
        assert_eq!((usage.used(1_000, 12_000), usage.used(1_000, 5_000)), (10_000, 5_000));
        usage.on_sent(None, Seq(11_100));
        assert_eq!(usage.used(0, 12_000), 10_000);
    }

    #[test]
    fn a_round_trip_with_less_data_lowers_the_use() {
        let mut usage = Usage::default();
        usage.on_sent(Some(Seq(0)), Seq(10_000));
        usage.on_ack(Seq(10_000));
        usage.on_sent(Some(Seq(10_000)), Seq(12_000));
        assert_eq!(usage.used(0, 12_000), 2_000);
        assert!(!usage.is_limited(10_000, true, 1_000));
    }
}
