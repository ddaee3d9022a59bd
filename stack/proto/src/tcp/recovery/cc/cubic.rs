//! CUBIC (RFC 9438) with `HyStart++` (RFC 9406).
//!
//! Windows are in bytes, times since the start of a stage in 1/1024 s, so that the cubic function needs no fractions.

use super::hystart::HyStart;
use super::{AckSample, Congestion, CongestionControl, Window};

/// Reduction factor as a fraction (RFC 9438 section 4.6).
const BETA: (u32, u32) = (7, 10);
/// Longest stage that the cubic function distinguishes: 512 s.
const MAX_STAGE: i64 = 1 << 19;
/// Segments by which one acknowledgement can grow the window in slow start without pacing (RFC 9406 section 4.2).
const SLOW_START_LIMIT: u32 = 8;

/// One stage of congestion avoidance (RFC 9438 section 4.2).
#[derive(Clone, Copy, Debug)]
struct Stage {
    /// Start in microseconds.
    start: u32,
    /// Time after which the window reaches `w_max`, in 1/1024 s (`K`).
    period: u32,
    /// Window of a Reno connection in bytes (`W_est`), and remainder of its growth.
    reno: u32,
    reno_rest: u32,
    /// Remainder of the growth of the window.
    rest: u32,
}

/// Phase of the controller.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// Slow start, and congestion avoidance before its next stage.
    SlowStart(HyStart),
    Avoidance(Stage),
}

/// Controller of one connection.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Cubic {
    /// Window before the last reduction, in bytes; 0 before the first (`W_max`).
    w_max: u32,
    /// Window at the last reduction (`cwnd_prior`).
    prior: u32,
    mode: Mode,
    /// Whether the first stage after a timeout follows: it starts at its `W_max` (RFC 9438 section 4.8).
    is_after_timeout: bool,
}

impl Default for Cubic {
    fn default() -> Self {
        Self { w_max: 0, prior: 0, mode: Mode::SlowStart(HyStart::new()), is_after_timeout: false }
    }
}

impl Cubic {
    /// Returns the delivered bytes that slow start does not use.
    #[inline]
    fn slow_start(&mut self, window: &mut Window, ack: &AckSample) -> u32 {
        let mut delivered = ack.delivered;
        // The threshold of a former loss ends later slow starts (RFC 9406 section 4.3).
        if window.threshold == super::MAX_WINDOW {
            if let Mode::Avoidance(_) = self.mode {
                self.mode = Mode::SlowStart(HyStart::new());
            }
            if let Mode::SlowStart(start) = &mut self.mode {
                if start.on_ack(ack) {
                    window.threshold = window.congestion;
                    return delivered;
                }
                delivered /= start.divisor();
            }
        }
        let segments = if ack.is_repairing { 1 } else { SLOW_START_LIMIT };
        if ack.is_limited { window.slow_start(delivered, segments * ack.mss) } else { 0 }
    }

    /// Starts a stage with the present window.
    #[cold]
    fn start_stage(&mut self, window: Window, now: u32, mss: u32) -> Stage {
        if self.is_after_timeout || self.w_max < window.congestion {
            (self.w_max, self.is_after_timeout) = (window.congestion, false);
        }
        let period = period(self.w_max - window.congestion, mss);
        Stage { start: now, period, reno: window.congestion, reno_rest: 0, rest: 0 }
    }

    /// Congestion avoidance (RFC 9438 sections 4.3 to 4.5).
    fn avoid(&mut self, window: &mut Window, (now, rtt): (u32, u32), mss: u32, delivered: u32) {
        let mut stage = match self.mode {
            Mode::Avoidance(stage) => stage,
            Mode::SlowStart(_) => self.start_stage(*window, now, mss),
        };
        let cwnd = window.congestion.max(1);
        stage.reno = grow_reno(&mut stage, delivered, cwnd, mss, self.prior);
        let elapsed = now.wrapping_sub(stage.start);
        if self.window_at(&stage, elapsed, mss) < stage.reno {
            window.congestion = window.congestion.max(stage.reno);
        } else {
            let target = self.window_at(&stage, elapsed.saturating_add(rtt), mss);
            let target = target.clamp(cwnd, cwnd.saturating_add(cwnd / 2));
            let growth = u64::from(target - cwnd) * u64::from(delivered.min(cwnd)) + u64::from(stage.rest);
            stage.rest = (growth % u64::from(cwnd)) as u32;
            window.grow((growth / u64::from(cwnd)) as u32);
        }
        self.mode = Mode::Avoidance(stage);
    }

    /// `W_cubic` in bytes after `elapsed` microseconds: C * (t - K)^3 + `W_max`, where C is 0.4 segments/s^3.
    fn window_at(&self, stage: &Stage, elapsed: u32, mss: u32) -> u32 {
        let time = (i64::from(elapsed) << 10) / 1_000_000;
        let offset = (time - i64::from(stage.period)).clamp(-MAX_STAGE, MAX_STAGE);
        let growth = (((offset * offset * offset) >> 20) * (i64::from(mss) * 2 / 5)) >> 10;
        (i64::from(self.w_max) + growth).clamp(0, i64::from(super::MAX_WINDOW)) as u32
    }
}

/// `W_est` after a delivery. It grows by 9/17 of a segment each round trip until it reaches the window at the last
/// reduction, then by one.
fn grow_reno(stage: &mut Stage, delivered: u32, cwnd: u32, mss: u32, prior: u32) -> u32 {
    let bytes = u64::from(delivered.min(cwnd)) * u64::from(mss);
    let bytes = if stage.reno >= prior { bytes } else { bytes * 9 / 17 } + u64::from(stage.reno_rest);
    stage.reno_rest = (bytes % u64::from(cwnd)) as u32;
    stage.reno.saturating_add((bytes / u64::from(cwnd)) as u32).min(super::MAX_WINDOW)
}

/// `K` in 1/1024 s: the cubic root of `distance` over C (RFC 9438 section 4.2).
fn period(distance: u32, mss: u32) -> u32 {
    // distance / mss / 0.4 s^3, times 1024^3.
    cubic_root(((u128::from(distance) * 5) << 29) / u128::from(mss.max(1)))
}

/// Largest integer whose cube is at most `value`, for values below 2^63.
fn cubic_root(value: u128) -> u32 {
    let mut root = 0_u128;
    for bit in (0..21).rev() {
        let candidate = root | 1 << bit;
        if candidate * candidate * candidate <= value {
            root = candidate;
        }
    }
    root as u32
}

impl CongestionControl for Cubic {
    #[inline(always)]
    fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        let mut delivered = ack.delivered;
        if window.is_slow_start() {
            delivered = self.slow_start(window, ack);
        }
        if window.is_slow_start() || delivered == 0 {
            return;
        }
        if ack.is_limited {
            self.avoid(window, (ack.now, ack.smoothed_rtt), ack.mss, delivered);
        } else if matches!(self.mode, Mode::Avoidance(_)) {
            // Time without a full window is no part of a stage (RFC 9438 section 5.8).
            self.mode = Mode::SlowStart(HyStart::new());
        }
    }

    fn on_congestion(&mut self, window: &mut Window, reason: Congestion, flight: u32, mss: u32) {
        let cwnd = window.congestion;
        // Fast convergence (RFC 9438 section 4.7): the window before is given up if it was not reached again.
        let is_below = cwnd < self.w_max;
        self.w_max = if is_below { (u64::from(cwnd) * 17 / 20) as u32 } else { cwnd };
        self.prior = cwnd;
        self.mode = Mode::SlowStart(HyStart::new());
        self.is_after_timeout = reason == Congestion::Timeout;
        let threshold = u64::from(flight) * u64::from(BETA.0) / u64::from(BETA.1);
        window.threshold = (threshold as u32).max(2 * mss);
        if reason == Congestion::Mark {
            // Persistent marks reduce the window to one segment (RFC 9438 section 4.6).
            window.congestion = window.congestion.min((threshold as u32).max(mss));
        }
    }

    fn on_idle(&mut self, window: &mut Window, mss: u32) {
        self.mode = Mode::SlowStart(HyStart::new());
        window.congestion = window.congestion.min(Window::initial(mss).congestion);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Seq;

    #[test]
    fn cubic_root_is_exact() {
        for root in [0_u128, 1, 2, 3, 1_000, 1_024, 2_097_151] {
            assert_eq!(u128::from(cubic_root(root.pow(3))), root);
            assert_eq!(u128::from(cubic_root((root + 1).pow(3) - 1)), root);
        }
    }

    /// K of a reduction from 100 to 70 segments is the cubic root of 75 s^3, 4.217 s; the function is `W_max` then.
    #[test]
    fn window_returns_to_its_maximum_after_the_period() {
        let cubic = Cubic { w_max: 100_000, prior: 100_000, ..Cubic::default() };
        let stage = Stage { start: 0, period: period(30_000, 1_000), reno: 70_000, reno_rest: 0, rest: 0 };
        assert_eq!(stage.period, 4_318);
        assert!(cubic.window_at(&stage, 0, 1_000).abs_diff(70_000) < 100);
        assert!(cubic.window_at(&stage, 4_217_000, 1_000).abs_diff(100_000) < 10);
        assert!(cubic.window_at(&stage, 8_434_000, 1_000).abs_diff(130_000) < 100);
    }

    #[test]
    fn competing_connections_converge() {
        let mut cubic = Cubic::default();
        let mut window = Window { congestion: 100_000, threshold: 100_000 };
        cubic.on_congestion(&mut window, Congestion::Loss, 100_000, 1_000);
        assert_eq!((cubic.w_max, window.threshold), (100_000, 70_000));
        window.congestion = 80_000;
        cubic.on_congestion(&mut window, Congestion::Loss, 80_000, 1_000);
        assert_eq!((cubic.w_max, window.threshold), (68_000, 56_000));
    }

    /// RFC 9438 section 4.6: two segments at least after a loss, one after congestion marks.
    #[test]
    fn marks_reduce_the_window_to_one_segment() {
        for (reason, expected) in [(Congestion::Mark, 1_000), (Congestion::Loss, 2_000)] {
            let mut cubic = Cubic::default();
            let mut window = Window { congestion: 2_000, threshold: 100_000 };
            cubic.on_congestion(&mut window, reason, 1_000, 1_000);
            assert_eq!(window, Window { congestion: expected, threshold: 2_000 });
        }
    }

    fn ack(una: u32, rtt: u32) -> AckSample {
        AckSample {
            now: una,
            delivered: 1_000,
            flight: 20_000,
            pipe: 19_000,
            mss: 1_000,
            una: Seq(una),
            nxt: Seq(una + 20_000),
            rtt: Some(rtt),
            smoothed_rtt: rtt,
            rate: None,
            total_delivered: 0,
            is_recovering: false,
            is_limited: true,
            is_repairing: false,
        }
    }

    /// A round-trip time that grows by an eighth makes slow start conservative; five such rounds end it.
    #[test]
    fn growing_delay_ends_slow_start() {
        let mut cubic = Cubic::default();
        let mut window = Window { congestion: 20_000, threshold: super::super::MAX_WINDOW };
        let mut una = 0;
        let mut round = |cubic: &mut Cubic, window: &mut Window, rtt: u32| {
            let before = window.congestion;
            for _ in 0..20 {
                una += 1_000;
                cubic.on_ack(window, &ack(una, rtt));
            }
            window.congestion - before
        };
        round(&mut cubic, &mut window, 40_000);
        assert_eq!(round(&mut cubic, &mut window, 40_000), 20_000);
        assert!(round(&mut cubic, &mut window, 50_000) < 20_000);
        for _ in 0..5 {
            assert!(window.is_slow_start());
            assert!(round(&mut cubic, &mut window, 50_000) <= 6_000);
        }
        assert!(!window.is_slow_start());
    }
}
