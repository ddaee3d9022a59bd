//! `HyStart++` (RFC 9406): slow start ends when the round-trip time grows, before the queue overflows.

use super::AckSample;
use crate::tcp::Seq;

/// Bounds of the increase of the round-trip time that ends slow start, in microseconds (RFC 9406 section 4.3).
const RTT_THRESHOLD: (u32, u32) = (4_000, 16_000);
/// Samples of a round that are needed to compare it.
const RTT_SAMPLES: u8 = 8;
/// Divisor of the growth in conservative slow start.
const CONSERVATIVE_DIVISOR: u32 = 4;
/// Rounds of conservative slow start before congestion avoidance.
const CONSERVATIVE_ROUNDS: u8 = 5;

/// Rounds of slow start (RFC 9406 section 4.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    /// End of the round.
    end: Seq,
    /// Minimum round-trip times of the last and of this round, in microseconds.
    last: u32,
    current: u32,
    /// Minimum when conservative slow start began.
    baseline: u32,
    samples: u8,
    /// Rounds of conservative slow start left; 0 in ordinary slow start.
    conservative: u8,
    is_started: bool,
}

impl HyStart {
    pub(super) const fn new() -> Self {
        Self {
            end: Seq(0),
            last: u32::MAX,
            current: u32::MAX,
            baseline: u32::MAX,
            samples: 0,
            conservative: 0,
            is_started: false,
        }
    }

    /// Adds an acknowledgement. Returns whether slow start ends.
    #[inline]
    pub(super) fn on_ack(&mut self, ack: &AckSample) -> bool {
        let is_finished =
            if !self.is_started || self.end.is_at_most(ack.una) { self.start_round(ack.nxt) } else { false };
        if let Some(rtt) = ack.rtt {
            self.current = self.current.min(rtt);
            self.samples = self.samples.saturating_add(1);
        }
        self.compare();
        is_finished
    }

    /// Divisor of the growth of the window.
    pub(super) const fn divisor(&self) -> u32 {
        if self.conservative > 0 { CONSERVATIVE_DIVISOR } else { 1 }
    }

    /// Starts a round, and returns whether the last one of conservative slow start ended.
    fn start_round(&mut self, end: Seq) -> bool {
        (self.last, self.current, self.samples) = (self.current, u32::MAX, 0);
        (self.end, self.is_started) = (end, true);
        if self.conservative == 0 {
            return false;
        }
        self.conservative -= 1;
        self.conservative == 0
    }

    #[inline]
    fn compare(&mut self) {
        if self.samples < RTT_SAMPLES {
            return;
        }
        if self.conservative > 0 {
            if self.current < self.baseline {
                (self.conservative, self.baseline) = (0, u32::MAX);
            }
        } else if self.last != u32::MAX {
            let threshold = (self.last / 8).clamp(RTT_THRESHOLD.0, RTT_THRESHOLD.1);
            if self.current >= self.last.saturating_add(threshold) {
                (self.conservative, self.baseline) = (CONSERVATIVE_ROUNDS, self.current);
            }
        }
    }
}
