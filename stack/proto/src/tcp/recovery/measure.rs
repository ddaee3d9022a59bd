//! Round-trip time and delivery rate of an acknowledgement, passed to the estimators and the controller.

use super::cc::{AckSample, Bbr, CongestionControl};
use super::delivery::Delivery;
use super::rate::Rate;
use super::{Ack, Phase, Recovery, stamp};

impl Recovery {
    #[inline]
    pub(super) fn sample_rtt(&mut self, ack: &Ack<'_>, delivery: &Delivery, is_advancing: bool) {
        let now = stamp(ack.now);
        if let Some(rtt) = delivery.oldest_rtt {
            let latest = delivery.latest.map_or(rtt, |latest| now.wrapping_sub(latest.sent));
            self.rtt.sample_minimum(latest.min(rtt), now);
        }
        if !is_advancing {
            return;
        }
        self.timeouts = 0;
        // Timestamps can be coarse; they are needed for retransmitted segments only (Karn's algorithm).
        let unambiguous = delivery.oldest_rtt.filter(|_| !delivery.has_retransmitted);
        match unambiguous.or(ack.timestamp_rtt) {
            Some(rtt) => {
                self.rtt.sample(rtt);
                self.may_probe = true;
            }
            None => self.rtt.on_late_handshake(),
        }
    }

    /// Passes a delivery to the controller.
    #[inline]
    pub(super) fn control(&mut self, ack: &Ack<'_>, delivery: &Delivery) {
        let latest = delivery.latest.map(|latest| (latest.sent, latest.snapshot));
        let now = stamp(ack.now);
        let rate = self.rate.on_delivered(delivery.bytes(), latest, self.rtt.minimum(), now);
        let pipe = self.pipe(ack.nxt.since(ack.ack));
        let is_probing_rtt = self.controller.bbr().is_some_and(Bbr::is_probing_rtt);
        if is_probing_rtt || ack.is_app_limited && pipe < self.window.congestion {
            self.rate.on_app_limited(pipe);
        }
        // Duplicate acknowledgements leave the window as it is (RFC 5681 section 3.2).
        let is_advancing = ack.una.is_before(ack.ack);
        let is_governed = self.controller.bbr().is_some()
            || is_advancing && matches!(self.phase, Phase::Open | Phase::Loss);
        if is_governed && delivery.bytes() > 0 {
            let sample = self.sample(ack, delivery, rate, pipe);
            self.controller.on_ack(&mut self.window, &sample);
        }
    }

    #[inline]
    fn sample(&self, ack: &Ack<'_>, delivery: &Delivery, rate: Option<Rate>, pipe: u32) -> AckSample {
        let (now, flight) = (stamp(ack.now), ack.nxt.since(ack.una));
        AckSample {
            now,
            delivered: delivery.bytes(),
            flight,
            pipe,
            mss: self.mss(),
            una: ack.ack,
            nxt: ack.nxt,
            rtt: delivery.latest.map(|latest| now.wrapping_sub(latest.sent)),
            smoothed_rtt: self.rtt.get().map_or(0, |(smoothed, _)| smoothed),
            rate,
            total_delivered: self.rate.delivered(),
            is_recovering: self.phase == Phase::Recovery,
            is_limited: self.usage.is_limited(
                self.window.congestion,
                self.window.is_slow_start(),
                self.mss(),
            ),
            is_repairing: self.phase == Phase::Loss,
        }
    }
}
