//! Reports of the connection to [`super::Recovery`], and their results.

use crate::Time;
use crate::tcp::Seq;

/// A cumulative acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// First unacknowledged sequence number before.
    pub(crate) una: Seq,
    /// Acknowledgement number.
    pub(crate) ack: Seq,
    /// Next sequence number to send.
    pub(crate) nxt: Seq,
    /// Whether the application had nothing more to send when `nxt` was reached.
    pub(crate) is_app_limited: bool,
    /// Time.
    pub(crate) now: Time,
}

/// An acknowledgement that the connection has accepted (RFC 9293 section 3.10.7.4).
#[expect(clippy::struct_field_names, reason = "`ack` is the name of the field of the header")]
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
    /// Whether the segment carries payload or changes the window, so that it is not a duplicate acknowledgement (RFC
    /// 5681 section 2).
    pub(crate) is_update: bool,
    /// Whether the peer reports congestion (ECE of RFC 3168) for data of this window.
    pub(crate) has_ece: bool,
    /// Whether the application had nothing more to send when `nxt` was reached.
    pub(crate) is_app_limited: bool,
    /// Time.
    pub(crate) now: Time,
}

impl Ack<'_> {
    #[inline]
    pub(super) const fn progress(&self) -> Progress {
        let Self { una, ack, nxt, is_app_limited, now, .. } = *self;
        Progress { una, ack, nxt, is_app_limited, now }
    }
}

impl Progress {
    /// Whether data is newly acknowledged.
    #[inline]
    pub(super) const fn is_advancing(&self) -> bool {
        self.una.is_before(self.ack)
    }

    /// Sequence numbers that are still unacknowledged.
    #[inline]
    pub(super) const fn left(&self) -> u32 {
        self.nxt.since(self.ack)
    }
}

/// Consequences of an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Bytes newly delivered, cumulatively or selectively.
    pub(crate) delivered: u32,
    /// Whether segments were marked lost: [`super::Recovery::next_lost`] has work.
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
    /// again. Reported by [`super::Recovery::on_sent`] or [`super::Recovery::on_retransmitted`] as usual.
    Probe,
    /// The retransmission timeout expired: all segments that were not selectively acknowledged are marked lost, and the
    /// timeout was doubled.
    Timeout,
}
