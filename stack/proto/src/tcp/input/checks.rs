//! Checks that a segment must pass before it changes anything: window, timestamps, resets (RFC 9293 section 3.10.7.4,
//! RFC 7323 section 5, RFC 5961).

use super::super::connection::{Flags, State};
use super::{Arrival, Outcome};
use crate::{Closed, Frame, Payload};
use wire::TcpFlags;

/// Age in milliseconds after which a timestamp says nothing about order: 24 days (RFC 7323 section 5.5).
const PAWS_AGE: u32 = 24 * 24 * 3600 * 1000;

impl<P: Payload, F: Frame<Payload = P>> Arrival<'_, '_, P, F> {
    /// Whether the segment is in the receive window and not older than others by its timestamp. If not, it was answered
    /// by an acknowledgement, within limits.
    pub(super) fn is_acceptable(&mut self) -> bool {
        let is_reset = self.segment.flags.has(TcpFlags::RST);
        if self.connection.flags.has(Flags::TIMESTAMPS) && !is_reset {
            match self.segment.timestamps {
                // RFC 7323 section 3.2: segments without the option are dropped silently.
                None => {
                    self.io.counters.tcp_no_timestamps += 1;
                    return false;
                }
                Some((value, _)) if self.is_old(value) => {
                    self.io.counters.tcp_paws += 1;
                    self.answer_unacceptable();
                    return false;
                }
                Some(_) => {}
            }
        }
        if self.is_in_window() {
            return true;
        }
        self.io.counters.tcp_out_of_window += 1;
        if !is_reset {
            if self.segment.flags.has(TcpFlags::SYN) && self.segment.seq == self.connection.rx.irs {
                // The echo in the answer must be that of this copy, or the peer measures the time since the first.
                self.note_timestamp();
            }
            self.answer_unacceptable();
        }
        false
    }

    fn is_old(&self, value: u32) -> bool {
        let rx = &self.connection.rx;
        let age = (self.io.now.millis() as u32).wrapping_sub(rx.ts_recent_at);
        value.wrapping_sub(rx.ts_recent).cast_signed() < 0 && age < PAWS_AGE
    }

    /// The four cases of RFC 9293 section 3.10.7.4, table 6.
    fn is_in_window(&self) -> bool {
        let (rx, s) = (&self.connection.rx, &self.segment);
        let (window, len) = (rx.edge.since(rx.nxt), s.sequence_len());
        let contains = |seq: super::super::Seq| rx.nxt.is_at_most(seq) && seq.is_before(rx.edge);
        match (len, window) {
            (0, 0) => s.seq == rx.nxt,
            // A segment without data at the right edge is accepted: its sender has filled the window.
            (0, _) => contains(s.seq) || s.seq == rx.edge,
            // A zero window refuses data, but valid acknowledgements and resets in the same segment are processed.
            (_, 0) => s.seq == rx.nxt,
            _ => contains(s.seq) || contains(s.seq + (len - 1)),
        }
    }

    /// Answers with an acknowledgement. Segments without data are answered within the limit of challenge ACKs, so that
    /// two peers that disagree do not exchange acknowledgements forever.
    fn answer_unacceptable(&mut self) {
        let (rx, s) = (&mut self.connection.rx, &self.segment);
        if s.sequence_len() == 0 {
            return self.answer_disagreement();
        }
        if s.seq.is_before(rx.nxt) && s.len() > 0 {
            rx.duplicate = Some((s.seq, (s.seq + s.len()).min(rx.nxt)));
            self.io.counters.tcp_duplicates += 1;
        }
        self.shared.acknowledge(self.index, self.connection);
    }

    /// Answers a segment without data outside the window, unless the last one was answered a moment ago.
    fn answer_disagreement(&mut self) {
        let now = (self.io.now.millis() as u32).max(1);
        let last = &mut self.connection.timers.disagreed;
        let interval = self.shared.limits.challenge_interval.as_millis();
        if *last == 0 || u128::from(now.wrapping_sub(*last)) >= interval {
            *last = now;
            self.shared.challenge(self.index, self.connection, self.io);
        }
    }

    /// A reset in the window (RFC 5961 section 3.2): only one at exactly the next number is obeyed.
    pub(super) fn reset(&mut self) -> Outcome {
        if self.segment.seq != self.connection.rx.nxt {
            self.shared.challenge(self.index, self.connection, self.io);
            return Outcome::Keep;
        }
        self.io.counters.tcp_resets += 1;
        Outcome::Close(match self.connection.state {
            State::SynReceived => Closed::Refused,
            _ => Closed::Reset,
        })
    }

    /// RFC 5961 section 5.2: not after what was sent, and not older than the largest window.
    pub(super) fn has_acceptable_ack(&self) -> bool {
        let (tx, ack) = (&self.connection.tx, self.segment.ack);
        let last = tx.nxt + u32::from(self.connection.flags.has(Flags::PROBED));
        ack.is_at_most(last) && (tx.una - tx.max_window).is_at_most(ack)
    }

    /// RFC 7323 section 4.3: the timestamp to echo is that of the earliest segment that is not acknowledged yet.
    #[inline]
    pub(super) fn note_timestamp(&mut self) {
        let (rx, s) = (&mut self.connection.rx, &self.segment);
        if let Some((value, _)) = s.timestamps
            && s.seq.is_at_most(rx.acked)
            && value.wrapping_sub(rx.ts_recent).cast_signed() >= 0
        {
            (rx.ts_recent, rx.ts_recent_at) = (value, self.io.now.millis() as u32);
        }
    }

    /// RFC 3168 section 6.1.3: congestion is echoed until the sender has reduced its window.
    pub(super) fn note_congestion(&mut self) {
        if !self.connection.flags.has(Flags::ECN) {
            return;
        }
        if self.segment.flags.has(TcpFlags::CWR) {
            self.connection.flags.clear(Flags::ECE);
        }
        if self.segment.is_ce {
            self.io.counters.tcp_ce_in += 1;
            self.connection.flags.set(Flags::ECE);
        }
    }
}
