//! RACK (RFC 8985 section 6): losses are inferred from the times of transmission of what arrived.

use super::delivery::{Delivery, is_sent_after};
use super::rtt::Rtt;
use crate::tcp::Seq;

/// Segments delivered out of order after which losses are inferred without a reordering window (`DupThresh`).
pub(super) const DUPLICATE_THRESHOLD: u32 = 3;
/// Recoveries for which a larger reordering window is kept (RFC 8985 section 6.2, step 4).
const PERSISTENCE: u8 = 16;

/// State of one connection, with the names of RFC 8985 section 5.3.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rack {
    /// Time of transmission and end of the segment delivered that was sent last.
    xmit: u32,
    end: Seq,
    /// Round-trip time of that segment, in microseconds.
    rtt: u32,
    /// Highest sequence number delivered.
    pub(super) fack: Seq,
    /// End of the round in which a D-SACK widened the window; valid if `is_dsack_round`.
    dsack_round: Seq,
    multiplier: u8,
    persist: u8,
    is_dsack_round: bool,
    is_reordering_seen: bool,
    is_valid: bool,
}

impl Rack {
    pub(super) const fn new() -> Self {
        Self {
            xmit: 0,
            end: Seq(0),
            rtt: 0,
            fack: Seq(0),
            dsack_round: Seq(0),
            multiplier: 1,
            persist: 0,
            is_dsack_round: false,
            is_reordering_seen: false,
            is_valid: false,
        }
    }

    /// Steps 1 to 3: takes over the delivered entry that was sent last, and detects reordering.
    #[inline]
    pub(super) fn on_delivered(&mut self, delivery: &Delivery, now: u32) {
        self.fack = delivery.highest;
        self.is_reordering_seen |= delivery.is_reordered;
        if let Some(latest) = delivery.latest {
            self.on_latest(latest.sent, latest.end, now);
        }
    }

    /// Takes over a delivered entry in order.
    #[inline(always)]
    pub(super) fn on_first_delivered(&mut self, sent: u32, end: Seq, now: u32) {
        self.is_reordering_seen |= end.is_before(self.fack);
        self.fack = self.fack.max(end);
        self.on_latest(sent, end, now);
    }

    #[inline]
    fn on_latest(&mut self, sent: u32, end: Seq, now: u32) {
        self.rtt = now.wrapping_sub(sent);
        if !self.is_valid || is_sent_after(sent, end, self.xmit, self.end) {
            (self.xmit, self.end, self.is_valid) = (sent, end, true);
        }
    }

    /// Sent last among what was delivered; `None` before the first delivery.
    pub(super) const fn latest(&self) -> Option<(u32, Seq)> {
        if self.is_valid { Some((self.xmit, self.end)) } else { None }
    }

    /// Step 4, its part for D-SACK: widens the window once a round trip.
    pub(super) fn on_ack(&mut self, una: Seq, nxt: Seq, is_dsack: bool) {
        self.is_dsack_round &= una.is_before(self.dsack_round);
        if is_dsack && !self.is_dsack_round {
            (self.dsack_round, self.is_dsack_round) = (nxt, true);
            (self.multiplier, self.persist) = (self.multiplier.saturating_add(1), PERSISTENCE);
        }
    }

    /// A recovery ended: the wider window expires after 16 of them.
    pub(super) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.multiplier = 1;
        }
    }

    /// Segments were taken for lost that were reordered.
    pub(super) fn on_undone(&mut self) {
        self.is_reordering_seen = true;
    }

    /// Time since its transmission after which an entry is lost, in microseconds: round-trip time plus reordering
    /// window.
    pub(super) fn limit(&self, rtt: &Rtt, sacked: u32, mss: u32, is_recovering: bool) -> u32 {
        let is_certain = is_recovering || sacked >= DUPLICATE_THRESHOLD * mss;
        if !self.is_reordering_seen && is_certain {
            return self.rtt;
        }
        let window = u64::from(rtt.minimum()) * u64::from(self.multiplier) / 4;
        let smoothed = rtt.get().map_or(self.rtt, |(smoothed, _)| smoothed);
        self.rtt.saturating_add(window.min(u64::from(smoothed)) as u32).min(i32::MAX as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rtt() -> Rtt {
        let mut rtt = Rtt::new(1);
        rtt.sample(1_000);
        rtt.sample_minimum(1_000, 0);
        rtt
    }

    #[test]
    fn window_is_zero_when_the_loss_is_certain() {
        let (mut rack, rtt) = (Rack::new(), rtt());
        rack.rtt = 1_000;
        assert_eq!(rack.limit(&rtt, 0, 1_000, false), 1_250);
        assert_eq!(rack.limit(&rtt, 3_000, 1_000, false), 1_000);
        assert_eq!(rack.limit(&rtt, 0, 1_000, true), 1_000);
        rack.is_reordering_seen = true;
        assert_eq!(rack.limit(&rtt, 3_000, 1_000, true), 1_250);
    }

    #[test]
    fn duplicates_widen_the_window_once_a_round_for_sixteen_recoveries() {
        let (mut rack, rtt) = (Rack::new(), rtt());
        for _ in 0..5 {
            rack.on_ack(Seq(0), Seq(100), true);
        }
        assert_eq!(rack.limit(&rtt, 0, 1_000, false), 500);
        rack.on_ack(Seq(100), Seq(200), true);
        assert_eq!(rack.limit(&rtt, 0, 1_000, false), 750);
        for _ in 0..100_u32 {
            rack.on_ack(Seq(300), Seq(300), true);
        }
        assert!(rack.limit(&rtt, 0, 1_000, false) <= 1_000);
        (0..16).for_each(|_| rack.on_recovered());
        assert_eq!(rack.limit(&rtt, 0, 1_000, false), 250);
    }
}
