//! BBR: the window and the pacing rate follow a model of the path, its bandwidth and minimum round-trip time.
//!
//! The states and their names are those of draft-ietf-ccwg-bbr; the model is that of version 1, without bounds learnt
//! from losses. Congestion marks must be treated as congestion (section 2 of the draft, "ECN"): each window with a mark
//! sets the short-term bounds that the draft sets for losses, until the path is probed again. Times are in microseconds
//! modulo 2^32, rates in bytes per second, gains in 1/1000.

use super::max_filter::MaxFilter;
use super::{AckSample, Congestion, CongestionControl, MAX_WINDOW, Window};
use crate::Time;
use bounds::Bounds;

mod bounds;

/// Gains of the pacing rate and of the window.
const STARTUP_PACING_GAIN: u32 = 2_770;
const DRAIN_PACING_GAIN: u32 = 350;
const CWND_GAIN: u32 = 2_000;
/// Gains of the phases of `ProbeBW`, each of which lasts a round-trip time.
const CYCLE: [u32; 8] = [1_250, 750, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000];
/// Share of the bandwidth that is used, in 1/1000, so that queues drain.
const PACING_MARGIN: u64 = 990;
/// Rounds without growth of a quarter after which the path is full.
const FULL_ROUNDS: u8 = 3;
/// Age of the minimum round-trip time at which it is measured again.
const MIN_RTT_WINDOW: u32 = 10_000_000;
/// Duration of a measurement.
const PROBE_RTT_TIME: u32 = 200_000;
/// Smallest window in segments.
const MIN_SEGMENTS: u32 = 4;
/// Bounds of what is sent at once: two segments to one burst of segmentation offload.
const MAX_QUANTUM: u32 = 65_536;
/// Time that late transmissions catch up, in nanoseconds.
const CATCH_UP: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Doubles the rate each round until the path is full.
    Startup,
    /// Drains the queue of Startup.
    Drain,
    /// Cruises, in this phase of [`CYCLE`] since `start`.
    ProbeBw { phase: u8, start: u32 },
    /// Lowers the flight to measure the minimum round-trip time; until `end` once the flight is low.
    ProbeRtt { end: Option<u32>, is_round_done: bool },
}

/// Estimate of whether the path is full.
#[derive(Clone, Copy, Debug, Default)]
struct FullPipe {
    bandwidth: u64,
    rounds: u8,
    is_full: bool,
}

/// Controller of one connection.
#[expect(clippy::struct_excessive_bools, reason = "independent conditions of the model")]
#[derive(Clone, Debug)]
pub(in super::super) struct Bbr {
    state: State,
    bandwidth: MaxFilter,
    full: FullPipe,
    bounds: Bounds,
    /// Minimum round-trip time, and when it was measured; `u32::MAX` without a sample.
    min_rtt: u32,
    min_rtt_at: u32,
    /// Round trips, counted by deliveries: the next one starts when data sent after this many bytes is delivered.
    round: u32,
    round_end: u32,
    is_round_start: bool,
    pacing_rate: u64,
    /// Earliest time of the next transmission.
    next_send: Time,
    /// Window before a loss or a measurement.
    prior_window: u32,
    /// Whether losses are being repaired, and whether it is their first round, which sends what is delivered.
    is_recovering: bool,
    is_conserving: bool,
    is_idle_restart: bool,
}

impl Bbr {
    /// The pacing rate starts with the initial window each `rtt` microseconds.
    pub(in super::super) fn new(mss: u32, rtt: u32) -> Self {
        Self {
            state: State::Startup,
            bandwidth: MaxFilter::default(),
            full: FullPipe::default(),
            bounds: Bounds::NONE,
            min_rtt: u32::MAX,
            min_rtt_at: 0,
            round: 0,
            round_end: 0,
            is_round_start: false,
            pacing_rate: startup_rate(Window::initial(mss).congestion, rtt),
            next_send: Time(0),
            prior_window: 0,
            is_recovering: false,
            is_conserving: false,
            is_idle_restart: false,
        }
    }

    /// Earliest time of the next transmission.
    #[inline]
    pub(in super::super) const fn paced_until(&self) -> Time {
        self.next_send
    }

    /// Bytes that may be sent at once: what the rate allows in 1 ms.
    #[inline]
    pub(in super::super) fn quantum(&self, mss: u32) -> u32 {
        (self.pacing_rate / 1_000).clamp(u64::from(2 * mss), u64::from(MAX_QUANTUM.max(2 * mss))) as u32
    }

    /// Delays the next transmission by the time that `bytes` take.
    #[inline]
    pub(in super::super) fn on_sent(&mut self, bytes: u32, now: Time) {
        let start = self.next_send.0.max(now.0.saturating_sub(CATCH_UP));
        let time = u64::from(bytes) * 1_000_000_000 / self.pacing_rate.max(1);
        self.next_send = Time(start.saturating_add(time));
    }

    /// Whether the flight is kept low, so that deliveries do not show the bandwidth.
    pub(in super::super) const fn is_probing_rtt(&self) -> bool {
        matches!(self.state, State::ProbeRtt { .. })
    }

    /// Estimated bandwidth in bytes per second, within the bound from marks (`BBR.bw`).
    pub(in super::super) fn bandwidth(&self) -> u64 {
        self.bandwidth.get().min(self.bounds.bandwidth)
    }

    fn pacing_gain(&self) -> u32 {
        match self.state {
            State::Startup => STARTUP_PACING_GAIN,
            State::Drain => DRAIN_PACING_GAIN,
            State::ProbeBw { phase, .. } => CYCLE[usize::from(phase) % CYCLE.len()],
            State::ProbeRtt { .. } => 1_000,
        }
    }

    /// Product of bandwidth, minimum round-trip time and gain, in bytes; the initial window without samples.
    fn inflight(&self, gain: u32, mss: u32) -> u32 {
        if self.min_rtt == u32::MAX || self.bandwidth() == 0 {
            return Window::initial(mss).congestion;
        }
        let product = u128::from(self.bandwidth()) * u128::from(self.min_rtt) * u128::from(gain);
        (product / 1_000_000_000).min(u128::from(MAX_WINDOW)) as u32
    }

    fn update_round(&mut self, ack: &AckSample) {
        let Some(rate) = ack.rate else {
            self.is_round_start = false;
            return;
        };
        self.is_round_start = rate.prior_delivered.wrapping_sub(self.round_end).cast_signed() >= 0;
        if self.is_round_start {
            self.round_end = ack.total_delivered;
            self.round = self.round.wrapping_add(1);
        }
    }

    fn update_bandwidth(&mut self, ack: &AckSample) {
        if let Some(rate) = ack.rate
            && let Some(bandwidth) = rate.bytes_per_second()
        {
            self.bounds.on_delivered(bandwidth, rate.delivered, self.is_round_start);
            if bandwidth >= self.bandwidth.get() || !rate.is_app_limited {
                self.bandwidth.update(bandwidth, self.round);
            }
        }
    }

    /// `BBRCheckStartupFullBandwidth`, `BBRCheckDrain` and the cycle of `ProbeBW`.
    fn update_state(&mut self, ack: &AckSample) {
        self.check_full(ack);
        if self.state == State::Startup && self.full.is_full {
            self.state = State::Drain;
        }
        if self.state == State::Drain && ack.pipe <= self.inflight(1_000, ack.mss) {
            self.enter_probe_bw(ack);
        }
        if let State::ProbeBw { phase, start } = self.state
            && self.is_phase_over(phase, start, ack)
        {
            self.start_phase((phase + 1) % CYCLE.len() as u8, ack.now);
        }
    }

    fn check_full(&mut self, ack: &AckSample) {
        let is_app_limited = ack.rate.is_none_or(|rate| rate.is_app_limited);
        if self.full.is_full || !self.is_round_start || is_app_limited {
            return;
        }
        let bandwidth = self.bandwidth.get();
        if bandwidth.saturating_mul(4) >= self.full.bandwidth.saturating_mul(5) {
            (self.full.bandwidth, self.full.rounds) = (bandwidth, 0);
            return;
        }
        self.full.rounds += 1;
        self.full.is_full = self.full.rounds >= FULL_ROUNDS;
    }

    /// Starts the cycle at any phase but the one that drains, so that connections differ.
    fn enter_probe_bw(&mut self, ack: &AckSample) {
        let phase = match (ack.now % 7) as u8 {
            0 => 0,
            other => other + 1,
        };
        self.start_phase(phase, ack.now);
    }

    /// Starts a phase of the cycle. The first one probes for bandwidth, so earlier marks are forgotten.
    fn start_phase(&mut self, phase: u8, now: u32) {
        self.state = State::ProbeBw { phase, start: now };
        if phase == 0 {
            self.bounds.reset();
        }
    }

    fn is_phase_over(&self, phase: u8, start: u32, ack: &AckSample) -> bool {
        let is_long = ack.now.wrapping_sub(start) > self.min_rtt;
        match CYCLE[usize::from(phase) % CYCLE.len()] {
            1_000 => is_long,
            gain if gain > 1_000 => {
                is_long && (ack.is_recovering || ack.flight >= self.inflight(gain, ack.mss))
            }
            _ => is_long || ack.pipe <= self.inflight(1_000, ack.mss),
        }
    }

    /// `BBRUpdateMinRTT` and `BBRCheckProbeRTT`.
    fn update_min_rtt(&mut self, window: &mut Window, ack: &AckSample) {
        let is_expired = self.min_rtt != u32::MAX && ack.now.wrapping_sub(self.min_rtt_at) > MIN_RTT_WINDOW;
        if let Some(rtt) = ack.rtt
            && (rtt <= self.min_rtt || is_expired)
        {
            if self.min_rtt == u32::MAX {
                self.pacing_rate = startup_rate(window.congestion, rtt);
            }
            (self.min_rtt, self.min_rtt_at) = (rtt.max(1), ack.now);
        }
        if is_expired && !self.is_idle_restart && !self.is_probing_rtt() {
            self.prior_window = self.prior_window.max(window.congestion);
            self.state = State::ProbeRtt { end: None, is_round_done: false };
        }
        self.probe_rtt(window, ack);
    }

    fn probe_rtt(&mut self, window: &mut Window, ack: &AckSample) {
        let State::ProbeRtt { end, mut is_round_done } = self.state else { return };
        let Some(end) = end else {
            if ack.pipe <= MIN_SEGMENTS * ack.mss {
                let end = Some(ack.now.wrapping_add(PROBE_RTT_TIME));
                self.state = State::ProbeRtt { end, is_round_done: false };
                self.round_end = ack.total_delivered;
            }
            return;
        };
        is_round_done |= self.is_round_start;
        self.state = State::ProbeRtt { end: Some(end), is_round_done };
        if is_round_done && ack.now.wrapping_sub(end).cast_signed() > 0 {
            self.min_rtt_at = ack.now;
            self.restore(window);
            if self.full.is_full { self.enter_probe_bw(ack) } else { self.state = State::Startup }
        }
    }

    fn restore(&mut self, window: &mut Window) {
        window.congestion = window.congestion.max(core::mem::take(&mut self.prior_window));
    }

    fn update_pacing(&mut self) {
        let rate = u128::from(self.bandwidth()) * u128::from(self.pacing_gain());
        let rate = (rate * u128::from(PACING_MARGIN) / 1_000_000).min(u128::from(u64::MAX)) as u64;
        if rate > 0 && (self.full.is_full || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// Packet conservation in the first round of a recovery (`BBRModulateCwndForRecovery`). Returns whether it applies.
    fn conserve(&mut self, window: &mut Window, ack: &AckSample) -> bool {
        let (is_recovering, was) = (ack.is_recovering || ack.is_repairing, self.is_recovering);
        let bound = window.congestion.max(self.prior_window);
        self.is_recovering = is_recovering;
        if is_recovering && !was {
            self.is_conserving = ack.is_recovering;
            self.round_end = ack.total_delivered;
            if self.is_conserving {
                window.congestion = ack.pipe.saturating_add(ack.delivered.max(ack.mss)).min(bound);
            }
        } else if was && !is_recovering {
            self.is_conserving = false;
            self.restore(window);
        } else if self.is_round_start {
            self.is_conserving = false;
        }
        if self.is_conserving {
            window.congestion = window.congestion.max(ack.pipe.saturating_add(ack.delivered).min(bound));
        }
        self.is_conserving
    }

    /// `BBRSetCwnd`.
    fn update_window(&mut self, window: &mut Window, ack: &AckSample) {
        if !self.conserve(window, ack) {
            let target = self.inflight(CWND_GAIN, ack.mss).saturating_add(3 * self.quantum(ack.mss));
            let target = target.min(MAX_WINDOW);
            if self.full.is_full {
                window.congestion = window.congestion.saturating_add(ack.delivered).min(target);
            } else if window.congestion < target || ack.total_delivered < Window::initial(ack.mss).congestion
            {
                window.grow(ack.delivered);
            }
        }
        window.congestion = window.congestion.min(self.bounds.inflight).max(MIN_SEGMENTS * ack.mss);
        if self.is_probing_rtt() {
            window.congestion = window.congestion.min(MIN_SEGMENTS * ack.mss);
        }
    }
}

impl CongestionControl for Bbr {
    fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        self.update_round(ack);
        self.update_bandwidth(ack);
        self.update_state(ack);
        self.update_min_rtt(window, ack);
        self.update_pacing();
        self.update_window(window, ack);
        self.is_idle_restart = false;
    }

    fn on_congestion(&mut self, window: &mut Window, reason: Congestion, _flight: u32, mss: u32) {
        window.threshold = MAX_WINDOW;
        match reason {
            // The path may have changed: the growth of the bandwidth is measured anew.
            Congestion::Timeout => (self.full.bandwidth, self.full.rounds) = (0, 0),
            Congestion::Loss => {}
            Congestion::Mark => {
                self.full.is_full = true;
                self.bounds.on_mark(self.bandwidth.get(), window.congestion);
                window.congestion = window.congestion.min(self.bounds.inflight).max(MIN_SEGMENTS * mss);
                if let State::ProbeBw { phase: 0, start } = self.state {
                    // The added queue is drained.
                    self.start_phase(1, start);
                }
                return;
            }
        }
        if !self.is_recovering && !self.is_probing_rtt() {
            self.prior_window = window.congestion;
        } else {
            self.prior_window = self.prior_window.max(window.congestion);
        }
    }

    fn on_idle(&mut self, _window: &mut Window, _mss: u32) {
        self.is_idle_restart = true;
        if matches!(self.state, State::ProbeBw { .. }) && self.bandwidth.get() > 0 {
            self.pacing_rate = self.bandwidth.get();
        }
    }
}

/// Pacing rate of Startup for one window each round-trip time.
fn startup_rate(window: u32, rtt: u32) -> u64 {
    u64::from(window) * 1_000 * u64::from(STARTUP_PACING_GAIN) / u64::from(rtt.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmissions_follow_the_rate() {
        let mut bbr = Bbr::new(1_000, 1_000);
        bbr.pacing_rate = 1_000_000;
        bbr.on_sent(1_000, Time(10_000_000));
        assert_eq!(bbr.paced_until(), Time(10_000_000));
        bbr.on_sent(1_000, Time(10_000_000));
        assert_eq!(bbr.paced_until(), Time(11_000_000));
        assert_eq!(bbr.quantum(1_000), 2_000);
    }
}
