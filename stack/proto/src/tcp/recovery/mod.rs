//! Loss recovery and congestion control of one connection: what may be sent, what is lost, and when.
//!
//! The connection reports each segment that it sends and each acknowledgement that it accepts. This module keeps the
//! scoreboard of unacknowledged segments, estimates the round-trip time (RFC 6298), detects losses (RACK-TLP, RFC
//! 8985), limits what is sent (PRR, RFC 6937, and a congestion controller), and undoes spurious reductions (F-RTO, RFC
//! 5682; D-SACK, RFC 3708).

use super::{CongestionAlgorithm, Options, Seq};
use crate::Time;
use core::ops::Range;

/// Entries of the scoreboards of all connections, shared so that an idle connection holds none.
pub(crate) struct SentPool {}

impl SentPool {
    pub(crate) fn new() -> Self {
        Self {}
    }
}

/// An acknowledgement that the connection has accepted (RFC 9293 section 3.10.7.4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack<'a> {
    /// First unacknowledged sequence number before this segment.
    pub(crate) una: Seq,
    /// Acknowledgement number: at least `una`, at most `nxt`.
    pub(crate) ack: Seq,
    /// Next sequence number to send.
    pub(crate) nxt: Seq,
    /// Ranges of the SACK option, within `ack..nxt` and not empty, first one first. A D-SACK range is excluded.
    pub(crate) sack: &'a [(Seq, Seq)],
    /// Range of a D-SACK (RFC 2883): received twice.
    pub(crate) duplicate: Option<(Seq, Seq)>,
    /// Microseconds since the echoed timestamp was sent, if the segment has a usable one.
    pub(crate) timestamp_rtt: Option<u32>,
    /// Whether the segment echoes the timestamp of an original transmission although a retransmission was sent (Eifel
    /// detection, RFC 3522). `None` without timestamps.
    pub(crate) echoes_original: Option<bool>,
    /// Whether the segment carries payload or changes the window, so that it is not a duplicate acknowledgement (RFC 5681
    /// section 2).
    pub(crate) is_update: bool,
    /// Whether the peer reports congestion (ECE of RFC 3168) for data of this window.
    pub(crate) has_ece: bool,
    /// Whether the application had nothing more to send when `nxt` was reached.
    pub(crate) is_app_limited: bool,
    /// Time.
    pub(crate) now: Time,
}

/// Consequences of an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Bytes newly delivered, cumulatively or selectively.
    pub(crate) delivered: u32,
    /// Whether segments were marked lost: [`Recovery::next_lost`] has work.
    pub(crate) has_lost: bool,
    /// Whether a reduction of the window was undone.
    pub(crate) is_undone: bool,
    /// Whether the congestion window was reduced because of ECE: the next new segment carries CWR.
    pub(crate) is_reduced_by_ece: bool,
}

/// The connection's reaction to a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossTimer {
    /// No timer was due.
    None,
    /// The reordering window of RACK expired; segments were marked lost.
    Reordering,
    /// Send a tail loss probe: one segment of new data if there is some and the window allows it, else the last segment
    /// again. Reported by [`Recovery::on_sent`] or [`Recovery::on_retransmitted`] as usual.
    Probe,
    /// The retransmission timeout expired: all segments that were not selectively acknowledged are marked lost, and the
    /// timeout was doubled.
    Timeout,
}

/// Loss recovery and congestion control of one connection.
pub(crate) struct Recovery {}

#[expect(unused_variables, clippy::unused_self, reason = "not implemented yet")]
impl Recovery {
    /// A connection without samples. `mss` is the sender's maximum segment size in bytes, without options.
    pub(crate) fn new(options: &Options, mss: u16, now: Time) -> Self {
        let _ = CongestionAlgorithm::Cubic;
        Self {}
    }

    /// Records the transmission of new sequence numbers (data, SYN, FIN), which continue the last ones. A range longer
    /// than the segment size was sent by segmentation offload and is one entry, which can be split.
    pub(crate) fn on_sent(&mut self, pool: &mut SentPool, range: Range<Seq>, now: Time) {
        todo!()
    }

    /// Records the retransmission of a range, usually one of [`Recovery::next_lost`].
    pub(crate) fn on_retransmitted(&mut self, pool: &mut SentPool, range: Range<Seq>, now: Time) {
        todo!()
    }

    /// Processes an acknowledgement. Called for every acceptable one while data is unacknowledged.
    pub(crate) fn on_ack(&mut self, pool: &mut SentPool, ack: Ack<'_>) -> Acked {
        todo!()
    }

    /// First range marked lost and not retransmitted since, at most `max` bytes.
    pub(crate) fn next_lost(&mut self, pool: &mut SentPool, max: u32) -> Option<Range<Seq>> {
        todo!()
    }

    /// Bytes that the congestion window and PRR allow now, for retransmissions and new data; `flight` is the number of
    /// bytes sent and not acknowledged cumulatively (`nxt - una`). At least one segment for the first retransmission of
    /// a recovery. Limited transmit (RFC 3042) is included.
    pub(crate) fn allowance(&self, flight: u32) -> u32 {
        todo!()
    }

    /// Earliest time of the next transmission by pacing; the origin if now.
    pub(crate) fn paced_until(&self) -> Time {
        todo!()
    }

    /// Time of the next call of [`Recovery::on_timer`]: reordering, probe or retransmission timeout. [`Time::NEVER`]
    /// while nothing is unacknowledged.
    pub(crate) fn deadline(&self) -> Time {
        todo!()
    }

    /// Runs timers that are due.
    pub(crate) fn on_timer(&mut self, pool: &mut SentPool, now: Time) -> LossTimer {
        todo!()
    }

    /// The segment size changed because the path MTU did. Segments larger than the new size are marked lost if
    /// `is_reduced` (RFC 1191 section 6.4); the congestion window is not reduced.
    pub(crate) fn on_segment_size(&mut self, pool: &mut SentPool, mss: u16, is_reduced: bool) {
        todo!()
    }

    /// The connection was idle (RFC 5681 section 4.1) or starts with a known round-trip time of the handshake.
    pub(crate) fn on_idle(&mut self, now: Time) {
        todo!()
    }

    /// Smoothed round-trip time and its variation, in microseconds; `None` without a sample.
    pub(crate) fn rtt(&self) -> Option<(u32, u32)> {
        todo!()
    }

    /// Retransmission timeout with its back-off, in microseconds.
    pub(crate) fn rto(&self) -> u32 {
        todo!()
    }

    /// Number of retransmission timeouts since the last progress.
    pub(crate) fn timeouts(&self) -> u32 {
        todo!()
    }

    /// Congestion window in bytes, and slow-start threshold.
    pub(crate) fn window(&self) -> (u32, u32) {
        todo!()
    }

    /// Returns all entries to the pool, at the end of the connection.
    pub(crate) fn release(&mut self, pool: &mut SentPool) {
        todo!()
    }
}
