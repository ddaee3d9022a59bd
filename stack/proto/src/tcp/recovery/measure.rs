//! Round-trip time and delivery rate of an acknowledgement, passed to the estimators and the controller.

use super::cc::{AckSample, Bbr, CongestionControl};
use super::delivery::{Delivery, Latest};
use super::rate::Rate;
use super::{Ack, Phase, Progress, Recovery, stamp};

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

    /// Samples the round-trip time of an entry that was sent once and is the oldest and the latest delivered.
    #[inline(always)]
    pub(super) fn sample_first(&mut self, sent: u32, now: u32) {
        let rtt = now.wrapping_sub(sent);
        self.rtt.sample_minimum(rtt, now);
        self.rtt.sample(rtt);
        (self.timeouts, self.may_probe) = (0, true);
    }

    /// Passes a delivery to the controller; `latest` is the unambiguous entry sent last.
    #[inline]
    pub(super) fn control(&mut self, progress: &Progress, delivered: u32, latest: Option<&Latest>) {
        let (now, pipe) = (stamp(progress.now), self.pipe(progress.left()));
        let rate = if let Some(is_probing_rtt) = self.controller.bbr().map(Bbr::is_probing_rtt) {
            self.sample_rate(progress, delivered, latest, pipe, is_probing_rtt)
        } else {
            self.rate.count(delivered, now);
            None
        };
        // Duplicate acknowledgements leave the window as it is (RFC 5681 section 3.2).
        let is_growing = progress.is_advancing() && matches!(self.phase, Phase::Open | Phase::Loss);
        if delivered > 0 && (is_growing || self.controller.bbr().is_some()) {
            let rtt = latest.map(|latest| now.wrapping_sub(latest.sent));
            let sample = self.sample(progress, delivered, (rtt, rate), pipe);
            self.controller.on_ack(&mut self.window, &sample);
        }
    }

    /// Measures the delivery rate, for a controller that uses it.
    #[inline(never)]
    fn sample_rate(
        &mut self,
        progress: &Progress,
        delivered: u32,
        latest: Option<&Latest>,
        pipe: u32,
        is_probing_rtt: bool,
    ) -> Option<Rate> {
        let latest = latest.map(|latest| (latest.sent, latest.snapshot));
        let rate = self.rate.on_delivered(delivered, latest, self.rtt.minimum(), stamp(progress.now));
        if is_probing_rtt || progress.is_app_limited && pipe < self.window.congestion {
            self.rate.on_app_limited(pipe);
        }
        rate
    }

    #[inline(always)]
    pub(super) fn sample(
        &self,
        progress: &Progress,
        delivered: u32,
        (rtt, rate): (Option<u32>, Option<Rate>),
        pipe: u32,
    ) -> AckSample {
        AckSample {
            now: stamp(progress.now),
            delivered,
            flight: progress.nxt.since(progress.una),
            pipe,
            mss: self.mss(),
            una: progress.ack,
            nxt: progress.nxt,
            rtt,
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
