//! Handling of losses, and reductions of the window and undoing them.

use super::cc::{Congestion, CongestionControl};
use super::delivery::Delivery;
use super::episode::{Episode, Frto};
use super::pool::SentPool;
use super::prr::Prr;
use super::rack::DUPLICATE_THRESHOLD;
use super::{Ack, Acked, Cause, Phase, Probe, Recovery, stamp};
use crate::Time;
use crate::tcp::Seq;
use alloc::boxed::Box;

/// Time to wait for new data of F-RTO, in microseconds, before losses are retransmitted.
const NEW_DATA_WAIT: u64 = 1_000;

/// Flight when a reduction starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// First unacknowledged sequence number before the acknowledgement, and next one to send.
    pub(super) una: Seq,
    pub(super) nxt: Seq,
    /// Flight before the acknowledgement in bytes, without what was delivered earlier (`RecoverFS` of RFC 9937).
    pub(super) flight: u32,
}

impl Recovery {
    /// Processes an acknowledgement while something is lost, duplicate, selective or in doubt.
    #[cold]
    pub(super) fn on_irregular_ack(
        &mut self,
        pool: &mut SentPool,
        ack: &Ack<'_>,
        delivery: &Delivery,
    ) -> Acked {
        let is_advancing = ack.una.is_before(ack.ack);
        let lost = self.board.lost();
        let is_probe = self.examine_probe(ack);
        self.rack.on_ack(ack.ack, ack.nxt, ack.duplicate.is_some() && !is_probe);
        let is_undone = self.examine_episode(pool, ack, delivery);
        let delivered = self.count_duplicates(pool, ack, delivery);
        self.detect_losses(pool, ack.now);
        self.leave_phase(ack);
        let flight = ack.nxt.since(ack.ack).saturating_add(delivery.bytes());
        let flight = flight.saturating_sub(self.board.sacked());
        let start = Start { una: ack.una, nxt: ack.nxt, flight };
        self.enter_recovery(pool, start);
        let is_reduced_by_ece = ack.has_ece && self.answer_mark(start);
        let is_safe = is_advancing && self.board.lost() <= lost;
        self.limit(delivered, ack.nxt.since(ack.ack), is_safe);
        if !self.has_sack && is_advancing && self.board.lost() > 0 {
            self.grant();
        }
        Acked { delivered: delivery.bytes(), has_lost: self.board.lost() > 0, is_undone, is_reduced_by_ece }
    }

    /// Ends the tail loss probe that an acknowledgement answers (RFC 8985 section 7.4). Returns whether the segment has
    /// the D-SACK of the probe.
    fn examine_probe(&mut self, ack: &Ack<'_>) -> bool {
        let is_advancing = ack.una.is_before(ack.ack);
        match self.probe {
            Probe::Due if is_advancing => self.probe = Probe::None,
            Probe::New if self.probe_end.is_at_most(ack.ack) => self.probe = Probe::None,
            Probe::Retransmission if self.probe_end.is_at_most(ack.ack) => {
                let is_duplicate = ack.duplicate.is_some_and(|range| range.1 == self.probe_end);
                let is_bare = !is_advancing && ack.sack.is_empty() && !ack.is_update;
                if is_duplicate || is_bare || ack.echoes_original == Some(true) {
                    self.probe = Probe::None;
                } else if self.probe_end.is_before(ack.ack) {
                    self.probe = Probe::None;
                    self.reduce_for_probe(ack);
                }
                return is_duplicate;
            }
            _ => {}
        }
        false
    }

    /// The probe repaired a loss that nothing else reports.
    fn reduce_for_probe(&mut self, ack: &Ack<'_>) {
        if self.phase == Phase::Open {
            let flight = self.usage.used(ack.nxt.since(ack.una), self.window.congestion);
            self.controller.on_congestion(&mut self.window, Congestion::Loss, flight, u32::from(self.mss));
            self.window.congestion = self.window.congestion.min(self.window.threshold);
        }
    }

    /// Looks for evidence that the reduction was spurious, and undoes it.
    fn examine_episode(&mut self, pool: &mut SentPool, ack: &Ack<'_>, delivery: &Delivery) -> bool {
        let (phase, has_sack) = (self.phase, self.has_sack);
        let Some(episode) = &mut self.episode else { return false };
        let is_advancing = ack.una.is_before(ack.ack);
        let frto = episode.frto;
        let is_refuted = ack.duplicate.is_some_and(|range| episode.is_refuted_by_duplicate(range))
            || is_advancing && episode.is_refuted_by_timestamp(ack.echoes_original)
            || phase == Phase::Loss && episode.is_refuted_by_delivery(ack, delivery, has_sack);
        if is_refuted {
            self.undo(pool, stamp(ack.now));
        } else if phase == Phase::Open && episode.expires.is_at_most(ack.ack) {
            self.episode = None;
        } else if phase == Phase::Loss {
            if episode.frto == Frto::Off && matches!(frto, Frto::SentFirst | Frto::SentNewData) {
                // Step 3a: the new data is in flight, and slow start continues with retransmissions.
                self.window.congestion = self.window.congestion.max(3 * u32::from(self.mss));
            }
            self.await_new_data(ack.now);
        }
        is_refuted
    }

    /// Starts the timer that ends the wait of F-RTO for new data.
    fn await_new_data(&mut self, now: Time) {
        if self.awaits_new_data() && (self.cause != Cause::NewData || self.loss_at.is_never()) {
            (self.loss_at, self.cause) = (now.after_micros(NEW_DATA_WAIT), Cause::NewData);
        }
    }

    /// Restores the window before the reduction; nothing was lost.
    fn undo(&mut self, pool: &mut SentPool, now: u32) {
        let Some(episode) = self.episode.take() else { return };
        // A window that has grown beyond the former one is kept, with its controller (RFC 9438 section 4.9.2).
        if self.window.congestion < episode.window.congestion {
            self.window.congestion = episode.window.congestion;
            self.window.threshold = self.window.threshold.max(episode.window.threshold);
            if let Some(controller) = episode.controller {
                self.controller = controller;
            }
        }
        self.board.unmark_lost(pool, now);
        self.rack.on_undone();
        (self.phase, self.duplicates) = (Phase::Open, 0);
    }

    /// Counts duplicate acknowledgements of a peer without SACK, and marks the first segment lost at the third one (RFC
    /// 5681 section 3.2) and at partial acknowledgements (RFC 6582 section 3.2). Returns the bytes delivered.
    fn count_duplicates(&mut self, pool: &mut SentPool, ack: &Ack<'_>, delivery: &Delivery) -> u32 {
        if self.has_sack {
            self.duplicates = 0;
            return delivery.bytes();
        }
        let (mss, before) = (u32::from(self.mss), self.duplicates);
        if ack.una.is_before(ack.ack) {
            let segments = delivery.acked.saturating_sub(mss).div_ceil(mss).min(u32::from(u16::MAX)) as u16;
            self.duplicates = if self.phase == Phase::Recovery { before.saturating_sub(segments) } else { 0 };
            let is_partial = self.episode.as_ref().is_some_and(|e| ack.ack.is_before(e.recover));
            if self.phase == Phase::Recovery && is_partial {
                self.board.mark_first_lost(pool, mss);
            }
            return delivery.acked.saturating_sub(u32::from(before - self.duplicates) * mss);
        }
        let is_duplicate = ack.sack.is_empty() && ack.duplicate.is_none() && !ack.is_update;
        let flight = ack.nxt.since(ack.ack);
        // Each duplicate stands for another segment in flight.
        let is_possible = u32::from(before) < (flight / mss).max(self.board.entries());
        if !is_duplicate || !is_possible || self.phase == Phase::Loss {
            return 0;
        }
        self.duplicates = before.saturating_add(1);
        let is_repaired = self.episode.as_ref().is_none_or(|e| e.recover.is_at_most(ack.ack));
        if self.phase != Phase::Recovery && u32::from(self.duplicates) >= DUPLICATE_THRESHOLD && is_repaired {
            self.board.mark_first_lost(pool, mss);
        }
        mss.min(flight)
    }

    /// Marks what RACK infers to be lost, and starts the reordering timer for the rest.
    pub(super) fn detect_losses(&mut self, pool: &mut SentPool, now: Time) {
        let Some(latest) = self.rack.latest().filter(|_| self.has_sack) else { return };
        let is_recovering = matches!(self.phase, Phase::Recovery | Phase::Loss);
        let limit = self.rack.limit(&self.rtt, self.board.sacked(), u32::from(self.mss), is_recovering);
        let remaining = self.board.detect_losses(pool, latest, limit, stamp(now));
        if self.awaits_new_data() {
            return;
        }
        if let Some(remaining) = remaining {
            (self.loss_at, self.cause) = (now.after_micros(u64::from(remaining)), Cause::Reordering);
        } else if self.cause == Cause::Reordering {
            self.loss_at = Time::NEVER;
        }
    }

    /// Ends the reduction once the data sent before it is acknowledged; after a congestion mark, once the segment with
    /// CWR is, which stops the marks of this window, if it was sent.
    fn leave_phase(&mut self, ack: &Ack<'_>) {
        let Some(episode) = &mut self.episode else { return };
        let awaits_cwr = episode.is_mark_answered && episode.recover.is_before(ack.nxt);
        let end = episode.recover + u32::from(awaits_cwr);
        if self.phase == Phase::Open || ack.ack.is_before(end) {
            return;
        }
        episode.frto = Frto::Off;
        episode.expires = ack.nxt.max(episode.recover + 1);
        if self.phase != Phase::Loss {
            self.window.congestion = self.window.congestion.min(self.window.threshold);
        }
        if self.phase != Phase::Marked {
            self.rack.on_recovered();
        }
        (self.phase, self.duplicates) = (Phase::Open, 0);
    }

    /// Starts to repair losses, if there are some. A reduction for a congestion mark is not repeated, and the loss of a
    /// probe of the path MTU alone is no reason for one (RFC 4821 section 7.6.1).
    pub(super) fn enter_recovery(&mut self, pool: &SentPool, start: Start) {
        if self.board.lost() == 0 {
            return;
        }
        if self.is_mtu_probe_lost_only(pool) {
            return self.repair_mtu_probe(start);
        }
        let repairs_probe = self.episode.as_ref().is_some_and(|episode| episode.repairs_probe);
        match self.phase {
            Phase::Open => self.reduce(start, Congestion::Loss),
            Phase::Loss if repairs_probe => self.reduce(start, Congestion::Loss),
            Phase::Marked => {
                if let Some(episode) = &mut self.episode {
                    (episode.recover, episode.prr) = (start.nxt, Prr::new(start.flight));
                }
            }
            Phase::Recovery | Phase::Loss => return,
        }
        // RFC 8985 section 7.1.
        (self.phase, self.probe) = (Phase::Recovery, Probe::None);
    }

    /// Reduces the window for a congestion mark, once for each window. Returns whether the mark is answered by now.
    fn answer_mark(&mut self, start: Start) -> bool {
        if self.phase == Phase::Open {
            self.reduce(start, Congestion::Mark);
            self.phase = Phase::Marked;
        }
        self.episode.as_mut().is_some_and(|episode| !core::mem::replace(&mut episode.is_mark_answered, true))
    }

    /// Repairs losses that are no sign of congestion.
    pub(super) fn repair_without_reduction(&mut self, pool: &SentPool) {
        if self.board.lost() > 0
            && matches!(self.phase, Phase::Open | Phase::Marked)
            && let Some((una, nxt)) = self.board.bounds(pool)
        {
            self.begin(Start { una, nxt, flight: 0 });
            (self.phase, self.loss_at) = (Phase::Loss, Time::NEVER);
        }
    }

    /// Starts an episode with the present window.
    pub(super) fn begin(&mut self, start: Start) {
        let mut episode = Episode::new(self.window, self.controller.checkpoint(), start.una, start.nxt);
        episode.prr = Prr::new(start.flight);
        self.episode = Some(Box::new(episode));
    }

    /// Starts an episode and reduces the window.
    pub(super) fn reduce(&mut self, start: Start, reason: Congestion) {
        self.begin(start);
        let flight = self.usage.used(start.nxt.since(start.una), self.window.congestion);
        self.controller.on_congestion(&mut self.window, reason, flight, u32::from(self.mss));
        self.window.congestion = self.window.congestion.min(self.window.threshold);
    }

    /// Updates what PRR allows; `flight` is not acknowledged cumulatively.
    pub(super) fn limit(&mut self, delivered: u32, flight: u32, is_safe: bool) {
        // After marks in a small window, it is below the threshold.
        let is_marked = self.phase == Phase::Marked;
        let most = if is_marked { self.window.congestion } else { self.window.threshold };
        let threshold = self.window.threshold.min(most);
        let (pipe, mss) = (self.pipe(flight), u32::from(self.mss));
        if matches!(self.phase, Phase::Marked | Phase::Recovery)
            && let Some(episode) = &mut self.episode
        {
            episode.prr.on_ack(delivered, pipe, threshold, mss, is_safe);
        }
    }

    /// Permits the retransmission at a partial acknowledgement (RFC 6582 section 3.2): without SACK, the flight can be
    /// lost although it counts.
    fn grant(&mut self) {
        if let Some(episode) = &mut self.episode {
            episode.prr.grant(u32::from(self.mss));
        }
    }

    /// Records new data sent while a probe is due or the window is being reduced.
    #[cold]
    pub(super) fn on_sent_in_episode(&mut self, end: Seq, bytes: u32) {
        if self.probe == Probe::Due {
            (self.probe, self.probe_end) = (Probe::New, end);
        }
        let Some(episode) = &mut self.episode else { return };
        episode.prr.on_sent(bytes);
        match episode.frto {
            Frto::AwaitsNewData => episode.frto = Frto::SentFirst,
            Frto::SentFirst => {
                episode.frto = Frto::SentNewData;
                self.loss_at = Time::NEVER;
            }
            _ => {}
        }
    }
}
