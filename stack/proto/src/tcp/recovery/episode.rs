//! One loss episode: from the reduction of the window until it is certain that the reduction was justified.
//!
//! Holds what undoes the reduction: the former window, and the evidence of D-SACK (RFC 3708), Eifel (RFC 3522) and
//! F-RTO (RFC 5682). Allocated for the episode only.

use super::Ack;
use super::cc::{Controller, Window};
use super::delivery::Delivery;
use super::prr::Prr;
use crate::tcp::Seq;

/// Detection of spurious timeouts (RFC 5682 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frto {
    /// Not used, or decided.
    Off,
    /// Step 1: the first segment is sent again; awaits the first acknowledgement.
    Retransmitted,
    /// Step 2b: new data is to be sent instead of retransmissions.
    AwaitsNewData,
    /// Step 2b: one segment of new data is sent, and a second one may follow.
    SentFirst,
    /// Step 3: new data is sent; awaits an acknowledgement.
    SentNewData,
}

/// A loss episode.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the episode")]
#[derive(Debug)]
pub(super) struct Episode {
    /// Window before the reduction, and the controller if it is to be restored.
    pub(super) window: Window,
    pub(super) controller: Option<Controller>,
    pub(super) prr: Prr,
    /// First unacknowledged sequence number at the start.
    start: Seq,
    /// Next sequence number to send at the start: the recovery point.
    pub(super) recover: Seq,
    /// Sequence number whose acknowledgement ends the interest in D-SACK.
    pub(super) expires: Seq,
    /// Retransmitted bytes that no D-SACK has reported.
    retransmitted: u32,
    has_retransmitted: bool,
    /// Whether an acknowledgement after the first retransmission was examined for its timestamp.
    is_examined: bool,
    /// Whether the connection already answers a congestion mark of this window.
    pub(super) is_mark_answered: bool,
    /// Whether only a probe of the path MTU is repaired, for which the window was not reduced.
    pub(super) repairs_probe: bool,
    pub(super) frto: Frto,
}

impl Episode {
    pub(super) fn new(window: Window, controller: Option<Controller>, start: Seq, recover: Seq) -> Self {
        Self {
            window,
            controller,
            prr: Prr::default(),
            start,
            recover,
            expires: recover,
            retransmitted: 0,
            has_retransmitted: false,
            is_examined: false,
            is_mark_answered: false,
            repairs_probe: false,
            frto: Frto::Off,
        }
    }

    pub(super) fn on_retransmitted(&mut self, bytes: u32) {
        self.retransmitted = self.retransmitted.saturating_add(bytes);
        self.has_retransmitted = true;
    }

    /// Takes over the retransmissions of an episode that a timeout ends.
    pub(super) fn inherit(&mut self, earlier: Option<&Self>) {
        if let Some(earlier) = earlier {
            self.retransmitted = earlier.retransmitted;
            self.start = earlier.start;
        }
    }

    /// Whether this D-SACK is the last one needed to show that all retransmissions were unnecessary.
    pub(super) fn is_refuted_by_duplicate(&mut self, range: (Seq, Seq)) -> bool {
        let is_ours = self.start.is_at_most(range.0) && range.1.is_at_most(self.recover);
        if !is_ours || !self.has_retransmitted || !range.0.is_before(range.1) {
            return false;
        }
        self.retransmitted = self.retransmitted.saturating_sub(range.1.since(range.0));
        self.retransmitted == 0
    }

    /// Whether the first advancing acknowledgement after a retransmission echoes an original transmission (RFC 3522
    /// section 3.2).
    pub(super) fn is_refuted_by_timestamp(&mut self, echoes_original: Option<bool>) -> bool {
        let is_first =
            self.has_retransmitted && !core::mem::replace(&mut self.is_examined, self.has_retransmitted);
        is_first && echoes_original == Some(true)
    }

    /// Steps 2 and 3 of F-RTO (RFC 5682 sections 2.1 and 3.1). Returns whether the delivery shows that the timeout was
    /// spurious: it contains data that was never retransmitted. Without SACK, the first acknowledgement proves nothing,
    /// because it can cover data received before the timeout.
    pub(super) fn is_refuted_by_delivery(
        &mut self,
        ack: &Ack<'_>,
        delivery: &Delivery,
        has_sack: bool,
    ) -> bool {
        let is_evidence = has_sack || self.frto != Frto::Retransmitted;
        if self.frto == Frto::Off || delivery.has_original && is_evidence {
            return self.frto != Frto::Off;
        }
        let is_partial = ack.una.is_before(ack.ack) && ack.ack.is_before(self.recover);
        if self.frto == Frto::Retransmitted && is_partial && !ack.is_app_limited {
            self.frto = Frto::AwaitsNewData;
        } else if !ack.is_update {
            self.frto = Frto::Off;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode() -> Episode {
        Episode::new(Window::default(), None, Seq(100), Seq(1_000))
    }

    #[test]
    fn all_retransmissions_must_be_reported() {
        let mut episode = episode();
        assert!(!episode.is_refuted_by_duplicate((Seq(100), Seq(200))));
        episode.on_retransmitted(200);
        assert!(!episode.is_refuted_by_duplicate((Seq(100), Seq(200))));
        assert!(!episode.is_refuted_by_duplicate((Seq(900), Seq(1_100))));
        assert!(!episode.is_refuted_by_duplicate((Seq(300), Seq(200))));
        assert!(episode.is_refuted_by_duplicate((Seq(200), Seq(300))));
    }

    #[test]
    fn only_the_first_timestamp_counts() {
        let mut episode = episode();
        assert!(!episode.is_refuted_by_timestamp(Some(true)));
        episode.on_retransmitted(100);
        assert!(!episode.is_refuted_by_timestamp(Some(false)));
        assert!(!episode.is_refuted_by_timestamp(Some(true)));
    }
}
