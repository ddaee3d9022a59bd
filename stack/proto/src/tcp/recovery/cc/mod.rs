//! Congestion control: how the window changes with deliveries, losses and congestion marks.
//!
//! All arithmetic is in bytes and integers. A controller must not know the scoreboard: losses, recovery and pacing
//! times are the business of [`super::Recovery`].

mod bbr;
mod cubic;
mod hystart;
mod max_filter;
mod newreno;

use super::rate::Rate;
use crate::Time;
use crate::tcp::{CongestionAlgorithm, Seq};
use alloc::boxed::Box;
pub(super) use bbr::Bbr;
pub(super) use cubic::Cubic;
pub(super) use newreno::NewReno;

/// Largest window in bytes; the window scale option allows no more (RFC 7323 section 2.3).
pub(super) const MAX_WINDOW: u32 = 1 << 30;

/// Congestion window and slow-start threshold, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) congestion: u32,
    pub(super) threshold: u32,
}

impl Window {
    /// Initial window (RFC 6928 section 2).
    pub(super) fn initial(mss: u32) -> Self {
        Self { congestion: (10 * mss).min(14_600.max(2 * mss)), threshold: MAX_WINDOW }
    }

    #[inline]
    pub(super) const fn is_slow_start(self) -> bool {
        self.congestion < self.threshold
    }

    /// Grows the window by `bytes`.
    #[inline]
    pub(super) fn grow(&mut self, bytes: u32) {
        self.congestion = self.congestion.saturating_add(bytes).min(MAX_WINDOW);
    }

    /// Slow start by at most `limit` bytes, up to the threshold (RFC 3465). Returns the delivered bytes beyond it.
    #[inline]
    pub(super) fn slow_start(&mut self, delivered: u32, limit: u32) -> u32 {
        let bytes = delivered.min(limit);
        let growth = bytes.min(self.threshold.saturating_sub(self.congestion));
        self.grow(growth);
        bytes - growth
    }
}

/// One acknowledgement as controllers see it. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckSample {
    pub(super) now: u32,
    /// Bytes delivered.
    pub(super) delivered: u32,
    /// Bytes in flight before and after.
    pub(super) flight: u32,
    pub(super) pipe: u32,
    pub(super) mss: u32,
    /// First unacknowledged and next sequence number.
    pub(super) una: Seq,
    pub(super) nxt: Seq,
    /// Round-trip time of the segment sent last.
    pub(super) rtt: Option<u32>,
    pub(super) smoothed_rtt: u32,
    pub(super) rate: Option<Rate>,
    /// Bytes delivered so far, modulo 2^32.
    pub(super) total_delivered: u32,
    /// Whether the window limited the flight, so that it may grow (RFC 5681 section 3.1, RFC 7661).
    pub(super) is_limited: bool,
    /// Whether losses are being repaired.
    pub(super) is_recovering: bool,
    /// Whether a timeout is being repaired: slow start counts one segment only (RFC 3465 section 2.3).
    pub(super) is_repairing: bool,
}

/// Reason of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Congestion {
    /// Segments were lost.
    Loss,
    /// The peer reported a congestion mark (RFC 3168).
    Mark,
    /// The retransmission timeout expired.
    Timeout,
}

/// A congestion controller.
pub(super) trait CongestionControl {
    /// Grows the window after a delivery outside of a reduction.
    fn on_ack(&mut self, window: &mut Window, ack: &AckSample);

    /// Sets the threshold, and discards the growth since the last reduction; `flight` in bytes.
    fn on_congestion(&mut self, window: &mut Window, reason: Congestion, flight: u32, mss: u32);

    /// The connection was idle.
    fn on_idle(&mut self, window: &mut Window, mss: u32);
}

/// The controller of a connection.
#[derive(Clone, Debug)]
pub(super) enum Controller {
    NewReno(NewReno),
    Cubic(Cubic),
    /// Boxed, because its model is larger than the rest of the connection's recovery.
    Bbr(Box<Bbr>),
}

impl Controller {
    /// `rtt` is the smoothed round-trip time with its variation, in microseconds. BBR assumes 1 ms without it.
    pub(super) fn new(algorithm: CongestionAlgorithm, mss: u32, rtt: Option<(u32, u32)>) -> Self {
        match algorithm {
            CongestionAlgorithm::NewReno => Self::NewReno(NewReno::default()),
            CongestionAlgorithm::Cubic => Self::Cubic(Cubic::default()),
            CongestionAlgorithm::Bbr => {
                Self::Bbr(Box::new(Bbr::new(mss, rtt.map_or(1_000, |(smoothed, _)| smoothed))))
            }
        }
    }

    /// The controller with its pacing, if it has one. Such a controller sets the window in recovery too, without PRR.
    #[inline]
    pub(super) const fn bbr(&self) -> Option<&Bbr> {
        if let Self::Bbr(controller) = self { Some(controller) } else { None }
    }

    /// State to restore when a reduction is undone; `None` if the controller keeps what it has learnt.
    pub(super) fn checkpoint(&self) -> Option<Self> {
        if self.bbr().is_some() { None } else { Some(self.clone()) }
    }

    /// [`CongestionControl::on_ack`] of a controller without pacing.
    #[inline]
    pub(super) fn on_plain_ack(&mut self, window: &mut Window, ack: &AckSample) {
        match self {
            Self::NewReno(controller) => controller.on_ack(window, ack),
            Self::Cubic(controller) => controller.on_ack(window, ack),
            Self::Bbr(_) => {}
        }
    }

    /// Records a transmission, for pacing.
    #[inline]
    pub(super) fn on_sent(&mut self, bytes: u32, now: Time) {
        if let Self::Bbr(controller) = self {
            controller.on_sent(bytes, now);
        }
    }
}

impl CongestionControl for Controller {
    #[inline]
    fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        match self {
            Self::NewReno(controller) => controller.on_ack(window, ack),
            Self::Cubic(controller) => controller.on_ack(window, ack),
            Self::Bbr(controller) => controller.on_ack(window, ack),
        }
    }

    fn on_congestion(&mut self, window: &mut Window, reason: Congestion, flight: u32, mss: u32) {
        match self {
            Self::NewReno(controller) => controller.on_congestion(window, reason, flight, mss),
            Self::Cubic(controller) => controller.on_congestion(window, reason, flight, mss),
            Self::Bbr(controller) => controller.on_congestion(window, reason, flight, mss),
        }
    }

    fn on_idle(&mut self, window: &mut Window, mss: u32) {
        match self {
            Self::NewReno(controller) => controller.on_idle(window, mss),
            Self::Cubic(controller) => controller.on_idle(window, mss),
            Self::Bbr(controller) => controller.on_idle(window, mss),
        }
    }
}
