//! Summary of the data that one acknowledgement delivers.

use super::pool::{Entry, Mark};
use super::rate::Snapshot;
use crate::tcp::Seq;

/// The delivered entry that was sent last (RFC 8985 section 6.2, step 2).
#[derive(Clone, Copy, Debug)]
pub(super) struct Latest {
    pub(super) sent: u32,
    pub(super) end: Seq,
    pub(super) snapshot: Snapshot,
}

/// Data delivered by one acknowledgement: known before, then collected.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the delivered data")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    /// Time in microseconds.
    now: u32,
    min_rtt: u32,
    /// Whether the peer echoed the timestamp of an original transmission.
    echoes_original: bool,
    /// Highest sequence number delivered before.
    fack: Seq,
    /// Highest sequence number delivered.
    pub(super) highest: Seq,
    /// End of the data sent before the loss episode.
    recover: Seq,
    /// Bytes delivered cumulatively and not selectively before.
    pub(super) acked: u32,
    /// Bytes delivered selectively.
    pub(super) sacked: u32,
    /// Unambiguous entry sent last.
    pub(super) latest: Option<Latest>,
    /// Time since the first transmission of the oldest entry delivered, in microseconds.
    pub(super) oldest_rtt: Option<u32>,
    /// Whether retransmitted data was delivered cumulatively.
    pub(super) has_retransmitted: bool,
    /// Whether data before `recover` was delivered that was never retransmitted.
    pub(super) has_original: bool,
    /// Whether data was delivered out of order (RFC 8985 section 6.2, step 3).
    pub(super) is_reordered: bool,
}

impl Delivery {
    #[inline]
    pub(super) const fn new(now: u32, min_rtt: u32, echoes_original: bool, fack: Seq, recover: Seq) -> Self {
        Self {
            now,
            min_rtt,
            echoes_original,
            fack,
            highest: fack,
            recover,
            acked: 0,
            sacked: 0,
            latest: None,
            oldest_rtt: None,
            has_retransmitted: false,
            has_original: false,
            is_reordered: false,
        }
    }

    /// Bytes delivered.
    #[inline]
    pub(super) const fn bytes(&self) -> u32 {
        self.acked.saturating_add(self.sacked)
    }

    /// Adds an entry that is acknowledged cumulatively.
    #[inline]
    pub(super) fn acknowledge(&mut self, entry: &Entry) {
        if entry.mark != Mark::Sacked {
            self.acked = self.acked.saturating_add(entry.len());
            self.has_retransmitted |= entry.is_retransmitted;
            self.record(entry, self.echoes_original);
        }
    }

    /// Adds an entry that is acknowledged selectively. The timestamp echoed then is of the last segment in order (RFC
    /// 7323 section 4.3) and proves nothing.
    pub(super) fn select(&mut self, entry: &Entry) {
        self.sacked = self.sacked.saturating_add(entry.len());
        self.record(entry, false);
    }

    #[inline]
    fn record(&mut self, entry: &Entry, is_original: bool) {
        let rtt = self.now.wrapping_sub(entry.sent);
        if entry.is_retransmitted {
            if is_original || rtt < self.min_rtt {
                return;
            }
        } else {
            self.is_reordered |= entry.end.is_before(self.fack);
            self.has_original |= entry.end.is_at_most(self.recover);
            self.oldest_rtt = Some(self.oldest_rtt.map_or(rtt, |old| old.max(rtt)));
        }
        self.highest = self.highest.max(entry.end);
        if self.latest.is_none_or(|latest| is_sent_after(entry.sent, entry.end, latest.sent, latest.end)) {
            self.latest = Some(Latest { sent: entry.sent, end: entry.end, snapshot: entry.snapshot });
        }
    }
}

/// Order of transmission: by time, then by sequence number (RFC 8985 section 6.2, `RACK_sent_after`).
#[inline]
pub(super) const fn is_sent_after(sent: u32, end: Seq, other_sent: u32, other_end: Seq) -> bool {
    let later = sent.wrapping_sub(other_sent).cast_signed();
    later > 0 || later == 0 && other_end.is_before(end)
}
