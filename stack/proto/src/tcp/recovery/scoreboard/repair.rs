//! Losses and retransmissions on the scoreboard.

use super::Scoreboard;
use crate::tcp::Seq;
use crate::tcp::recovery::delivery::is_sent_after;
use crate::tcp::recovery::pool::{Mark, NONE, SentPool};
use crate::tcp::recovery::rate::Snapshot;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

impl Scoreboard {
    /// Marks entries lost that were sent before the entry sent at `latest` and for longer than `limit` microseconds
    /// (RFC 8985 section 6.2, step 5). Returns the time until the next one is, in microseconds.
    pub(in super::super) fn detect_losses(
        &mut self,
        pool: &mut SentPool,
        latest: (u32, Seq),
        limit: u32,
        now: u32,
    ) -> Option<u32> {
        while let Some(entry) = pool.entries.get(self.oldest) {
            if !is_sent_after(latest.0, latest.1, entry.sent, entry.end) {
                return None;
            }
            let remaining = entry.sent.wrapping_add(limit).wrapping_sub(now).cast_signed();
            if remaining > 0 {
                return Some(remaining.cast_unsigned());
            }
            self.mark_lost(pool, self.oldest);
        }
        None
    }

    fn mark_lost(&mut self, pool: &mut SentPool, at: u32) {
        let start = |at: u32| pool.entries.get(at).map(|entry| entry.start);
        let is_first = match (start(at), start(self.cursor)) {
            (Some(this), Some(cursor)) => this.is_before(cursor),
            _ => false,
        };
        if self.lost == 0 || is_first {
            self.cursor = at;
        }
        self.set_mark(pool, at, Mark::Lost);
    }

    /// Marks the first segment lost, if it is in flight and was not retransmitted (RFC 6582).
    pub(in super::super) fn mark_first_lost(&mut self, pool: &mut SentPool, mss: u32) {
        let Some(entry) = pool.entries.get(self.head) else { return };
        if entry.mark == Mark::InFlight && !entry.is_retransmitted {
            let range = entry.start..entry.start + mss;
            if let Some(at) = self.isolate(pool, self.head, &range, None) {
                self.mark_lost(pool, at);
            }
        }
    }

    /// Marks entries in flight lost that are longer than a segment.
    pub(in super::super) fn mark_long_lost(&mut self, pool: &mut SentPool, mss: u32) {
        let mut at = self.head;
        while let Some(entry) = pool.entries.get(at) {
            let next = entry.next;
            if entry.mark == Mark::InFlight && entry.len() > mss {
                self.mark_lost(pool, at);
            }
            at = next;
        }
    }

    /// Notes that the newest entry probes the path MTU.
    pub(in super::super) fn mark_probe(&mut self, pool: &mut SentPool) {
        if let Some(entry) = pool.entries.get_mut(self.tail) {
            entry.is_probe = true;
        }
    }

    /// Bytes of probes of the path MTU in flight, and lost and not sent again since.
    pub(in super::super) fn probes(&self, pool: &SentPool) -> (u32, u32) {
        let (mut at, mut flight, mut lost) = (self.head, 0, 0);
        while let Some(entry) = pool.entries.get(at) {
            match entry.mark {
                Mark::InFlight if entry.is_probe => flight += entry.len(),
                Mark::Lost if entry.is_probe => lost += entry.len(),
                _ => {}
            }
            at = entry.next;
        }
        (flight, lost)
    }

    /// Marks a probe of the path MTU in flight lost.
    pub(in super::super) fn mark_probe_lost(&mut self, pool: &mut SentPool) {
        let mut at = self.head;
        while let Some(entry) = pool.entries.get(at) {
            let next = entry.next;
            if entry.mark == Mark::InFlight && entry.is_probe {
                self.mark_lost(pool, at);
            }
            at = next;
        }
    }

    /// Marks everything lost that was not selectively acknowledged. If the first entry was, the peer has discarded data
    /// (reneging, RFC 2018 section 8), and everything is lost.
    pub(in super::super) fn mark_all_lost(&mut self, pool: &mut SentPool) {
        let is_reneging = pool.entries.get(self.head).is_some_and(|head| head.mark == Mark::Sacked);
        let mut at = self.head;
        while let Some(entry) = pool.entries.get(at) {
            let next = entry.next;
            if entry.mark == Mark::InFlight || is_reneging && entry.mark == Mark::Sacked {
                self.set_mark(pool, at, Mark::Lost);
            }
            at = next;
        }
        self.cursor = self.head;
        if is_reneging {
            self.top = NONE;
        }
    }

    /// Returns lost entries to flight, in the order of their transmission. Allocates; used to undo a reduction only.
    pub(in super::super) fn unmark_lost(&mut self, pool: &mut SentPool, now: u32) {
        let (mut at, mut flight) = (self.head, Vec::new());
        while let Some(entry) = pool.entries.get_mut(at) {
            if entry.mark == Mark::Lost {
                entry.mark = Mark::InFlight;
                self.lost -= entry.len();
            }
            if entry.mark == Mark::InFlight {
                flight.push((now.wrapping_sub(entry.sent), at));
            }
            at = entry.next;
        }
        flight.sort_by_key(|(age, _)| Reverse(*age));
        (self.oldest, self.newest) = (NONE, NONE);
        for (_, at) in flight {
            self.link(pool, at, self.newest);
        }
    }

    /// First lost range, at most `max` bytes.
    pub(in super::super) fn next_lost(&mut self, pool: &SentPool, max: u32) -> Option<Range<Seq>> {
        if self.lost == 0 || max == 0 {
            return None;
        }
        let mut at = if self.cursor == NONE { self.head } else { self.cursor };
        while let Some(entry) = pool.entries.get(at) {
            self.cursor = at;
            if entry.mark == Mark::Lost {
                return Some(entry.start..entry.start + entry.len().min(max));
            }
            at = entry.next;
        }
        None
    }

    /// Records the retransmission of a range, and returns how many bytes of it are in flight again.
    pub(in super::super) fn retransmit(
        &mut self,
        pool: &mut SentPool,
        range: &Range<Seq>,
        sent: u32,
        snapshot: Snapshot,
    ) -> u32 {
        let (mut at, mut bytes) = (self.holder(pool, range.start), 0_u32);
        while let Some(entry) = pool.entries.get(at)
            && entry.start.is_before(range.end)
        {
            let this = core::mem::replace(&mut at, entry.next);
            if entry.mark == Mark::Sacked || entry.end.is_at_most(range.start) {
                continue;
            }
            let Some(part) = self.isolate(pool, this, range, None) else { continue };
            if let Some(entry) = pool.entries.get_mut(part) {
                (entry.sent, entry.snapshot) = (sent, snapshot);
                (entry.is_retransmitted, entry.is_probe) = (true, false);
                bytes = bytes.saturating_add(entry.len());
            }
            self.set_mark(pool, part, Mark::InFlight);
        }
        bytes
    }

    /// Entry to search a retransmitted range from: the cursor, the last entry, or the first.
    fn holder(&self, pool: &SentPool, seq: Seq) -> u32 {
        let holds =
            |at: u32| pool.entries.get(at).is_some_and(|e| e.start.is_at_most(seq) && seq.is_before(e.end));
        [self.cursor, self.tail].into_iter().find(|at| holds(*at)).unwrap_or(self.head)
    }
}
