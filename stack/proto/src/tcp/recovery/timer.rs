//! Timers: the reordering window, tail loss probes, and the retransmission timeout.

use super::cc::Congestion;
use super::episode::Frto;
use super::loss::Start;
use super::pool::SentPool;
use super::{Cause, LossTimer, Phase, Probe, Progress, Recovery};
use crate::Time;
use crate::tcp::Seq;

/// Shortest time to a probe, in microseconds: on short paths, the acknowledgement of a small segment is delayed for
/// much longer than two round trips.
const MIN_PROBE_TIME: u64 = 2_000;

impl Recovery {
    /// Starts the probe timer (RFC 8985 section 7.2); `is_single` if one segment is in flight, whose acknowledgement
    /// can be delayed.
    #[inline]
    pub(super) fn schedule_probe(&mut self, now: Time, is_single: bool) {
        self.loss_at = Time::NEVER;
        if !self.allows_sack || !self.may_probe {
            return;
        }
        if let Some((smoothed, _)) = self.rtt.get() {
            let delay = if is_single { self.rtt.min_rto() } else { 0 };
            let at = now.after_micros((u64::from(smoothed) * 2).max(MIN_PROBE_TIME) + u64::from(delay));
            (self.loss_at, self.cause) = (at.min(self.rto_at), Cause::Probe);
        }
    }

    /// Restarts or stops the timers after an acknowledgement.
    #[inline]
    pub(super) fn schedule(&mut self, progress: &Progress) {
        let is_advancing = progress.is_advancing();
        if self.board.is_empty() {
            (self.rto_at, self.loss_at) = (Time::NEVER, Time::NEVER);
            return;
        }
        if is_advancing {
            self.rto_at = progress.now.after_micros(u64::from(self.rtt.rto()));
        }
        if self.cause != Cause::Probe && !self.loss_at.is_never() {
            return;
        }
        if self.phase != Phase::Open || self.probe != Probe::None || self.board.sacked() > 0 {
            self.loss_at = Time::NEVER;
        } else if is_advancing {
            self.schedule_probe(progress.now, progress.left() <= u32::from(self.mss));
        }
    }

    /// Runs timers that are due.
    pub(crate) fn on_timer(&mut self, pool: &mut SentPool, now: Time) -> LossTimer {
        if self.board.is_empty() {
            (self.rto_at, self.loss_at) = (Time::NEVER, Time::NEVER);
            return LossTimer::None;
        }
        if self.loss_at <= self.rto_at && self.loss_at <= now {
            self.loss_at = Time::NEVER;
            return match self.cause {
                Cause::Reordering => self.on_reordering_timer(pool, now),
                Cause::Probe => self.on_probe_timer(now),
                Cause::NewData => self.on_new_data_timer(),
            };
        }
        if self.rto_at > now {
            return LossTimer::None;
        }
        self.on_timeout(pool, now);
        LossTimer::Timeout
    }

    fn on_reordering_timer(&mut self, pool: &mut SentPool, now: Time) -> LossTimer {
        self.detect_losses(pool, now);
        if self.board.lost() == 0 {
            return LossTimer::None;
        }
        if let Some((una, nxt)) = self.board.bounds(pool) {
            let flight = nxt.since(una);
            let flight_left = flight.saturating_sub(self.board.sacked());
            self.enter_recovery(pool, Start { una, nxt, flight: flight_left });
            self.limit(0, flight, false);
        }
        LossTimer::Reordering
    }

    fn on_probe_timer(&mut self, now: Time) -> LossTimer {
        (self.probe, self.may_probe) = (Probe::Due, false);
        self.rto_at = now.after_micros(u64::from(self.rtt.rto()));
        LossTimer::Probe
    }

    fn on_new_data_timer(&mut self) -> LossTimer {
        if let Some(episode) = &mut self.episode {
            let has_sent = episode.frto == Frto::SentFirst;
            episode.frto = if has_sent { Frto::SentNewData } else { Frto::Off };
        }
        if self.board.lost() > 0 { LossTimer::Reordering } else { LossTimer::None }
    }

    /// The retransmission timeout expired (RFC 5681 section 3.1, RFC 6298 section 5).
    fn on_timeout(&mut self, pool: &mut SentPool, now: Time) {
        self.timeouts = self.timeouts.saturating_add(1);
        self.rtt.back_off();
        let Some((una, nxt)) = self.board.bounds(pool) else { return };
        let is_repeated = self.phase == Phase::Loss && self.timeouts > 1;
        if let Some(episode) = self.episode.as_mut().filter(|_| is_repeated) {
            // Only the first segment was retransmitted since the last timeout.
            (episode.frto, episode.recover) = (Frto::Retransmitted, nxt);
        } else {
            self.reduce_for_timeout(una, nxt);
        }
        self.board.mark_all_lost(pool);
        self.window.congestion = u32::from(self.mss);
        (self.phase, self.probe, self.duplicates) = (Phase::Loss, Probe::None, 0);
        self.loss_at = Time::NEVER;
        self.rto_at = now.after_micros(u64::from(self.rtt.rto()));
    }

    /// The threshold is kept for the handshake, whose loss says nothing about the capacity of the path.
    fn reduce_for_timeout(&mut self, una: Seq, nxt: Seq) {
        let (earlier, start) = (self.episode.take(), Start { una, nxt, flight: 0 });
        if self.rate.delivered() == 0 {
            self.begin(start);
        } else {
            self.reduce(start, Congestion::Timeout);
        }
        if let Some(episode) = &mut self.episode {
            let is_new = self.phase != Phase::Loss;
            episode.frto = if is_new { Frto::Retransmitted } else { Frto::Off };
            episode.inherit(earlier.as_deref());
        }
    }
}
