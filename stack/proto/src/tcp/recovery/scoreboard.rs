//! Scoreboard of one connection: its unacknowledged entries, in order of sequence numbers and of transmission.
//!
//! Selectively acknowledged neighbours are merged and lost entries leave the order of transmission, so an acknowledgement
//! costs what it changes. The work for ranges that change nothing, and the entries that a peer can split, are bounded.

use super::delivery::{Delivery, is_sent_after};
use super::pool::{Entry, Mark, NONE, SentPool};
use super::rate::Snapshot;
use crate::tcp::Seq;
use core::ops::Range;

/// Entries visited for the SACK option of one segment. Ranges beyond are ignored; the peer reports them again.
const SACK_STEPS: u32 = 512;
/// Entries of one connection that need no further reason.
const MIN_ENTRIES: u32 = 64;

/// Unacknowledged entries of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scoreboard {
    /// Ends in order of sequence numbers.
    head: u32,
    tail: u32,
    /// Ends in order of transmission.
    oldest: u32,
    newest: u32,
    /// Highest entry selectively acknowledged.
    top: u32,
    /// Entry before which none is lost; `NONE` if not known.
    cursor: u32,
    len: u32,
    /// Bytes selectively acknowledged.
    sacked: u32,
    /// Bytes lost and not sent again since.
    lost: u32,
}

impl Scoreboard {
    pub(super) const fn new() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            oldest: NONE,
            newest: NONE,
            top: NONE,
            cursor: NONE,
            len: 0,
            sacked: 0,
            lost: 0,
        }
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes selectively acknowledged.
    #[inline]
    pub(super) const fn sacked(&self) -> u32 {
        self.sacked
    }

    /// Bytes lost and not sent again since.
    #[inline]
    pub(super) const fn lost(&self) -> u32 {
        self.lost
    }

    /// First and last sequence number that is not acknowledged, the last one excluded.
    pub(super) fn bounds(&self, pool: &SentPool) -> Option<(Seq, Seq)> {
        Some((pool.entries.get(self.head)?.start, pool.entries.get(self.tail)?.end))
    }

    /// Appends new data.
    #[inline]
    pub(super) fn push(&mut self, pool: &mut SentPool, range: Range<Seq>, sent: u32, snapshot: Snapshot) {
        let at = pool.entries.insert(Entry {
            start: range.start,
            end: range.end,
            previous: self.tail,
            next: NONE,
            older: NONE,
            newer: NONE,
            sent,
            snapshot,
            mark: Mark::InFlight,
            is_retransmitted: false,
        });
        match pool.entries.get_mut(self.tail) {
            Some(tail) => tail.next = at,
            None => self.head = at,
        }
        self.tail = at;
        self.len += 1;
        self.link(pool, at, self.newest);
    }

    /// Links an entry behind `older` in the order of transmission, as the oldest if that is `NONE`.
    #[inline]
    fn link(&mut self, pool: &mut SentPool, at: u32, older: u32) {
        let newer = match pool.entries.get_mut(older) {
            Some(entry) => core::mem::replace(&mut entry.newer, at),
            None => core::mem::replace(&mut self.oldest, at),
        };
        match pool.entries.get_mut(newer) {
            Some(entry) => entry.older = at,
            None => self.newest = at,
        }
        if let Some(entry) = pool.entries.get_mut(at) {
            (entry.older, entry.newer) = (older, newer);
        }
    }

    /// Removes an entry from the order of transmission.
    #[inline]
    fn unlink(&mut self, pool: &mut SentPool, older: u32, newer: u32) {
        match pool.entries.get_mut(older) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        match pool.entries.get_mut(newer) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
    }

    /// Removes an entry. Sums are unchanged.
    #[inline]
    fn remove(&mut self, pool: &mut SentPool, at: u32) {
        let Some(entry) = pool.entries.remove(at) else { return };
        match pool.entries.get_mut(entry.previous) {
            Some(previous) => previous.next = entry.next,
            None => self.head = entry.next,
        }
        match pool.entries.get_mut(entry.next) {
            Some(next) => next.previous = entry.previous,
            None => self.tail = entry.previous,
        }
        if entry.mark == Mark::InFlight {
            self.unlink(pool, entry.older, entry.newer);
        }
        self.len -= 1;
        if self.top == at {
            self.top = NONE;
        }
        if self.cursor == at {
            self.cursor = NONE;
        }
    }

    #[inline]
    fn sum(&mut self, mark: Mark) -> Option<&mut u32> {
        match mark {
            Mark::InFlight => None,
            Mark::Sacked => Some(&mut self.sacked),
            Mark::Lost => Some(&mut self.lost),
        }
    }

    /// Changes the mark of an entry. One that is in flight again is the newest.
    fn set_mark(&mut self, pool: &mut SentPool, at: u32, mark: Mark) {
        let Some(entry) = pool.entries.get_mut(at) else { return };
        let old = core::mem::replace(&mut entry.mark, mark);
        let (len, older, newer) = (entry.len(), entry.older, entry.newer);
        if let Some(sum) = self.sum(old) {
            *sum -= len;
        }
        if let Some(sum) = self.sum(mark) {
            *sum += len;
        }
        if old == Mark::InFlight {
            self.unlink(pool, older, newer);
        }
        if mark == Mark::InFlight {
            self.link(pool, at, self.newest);
        }
    }

    /// Removes what a cumulative acknowledgement covers, and collects it.
    #[inline]
    pub(super) fn acknowledge(&mut self, pool: &mut SentPool, ack: Seq, delivery: &mut Delivery) {
        while let Some(entry) = pool.entries.get_mut(self.head) {
            if !entry.start.is_before(ack) {
                return;
            }
            let mut covered = *entry;
            let is_whole = entry.end.is_at_most(ack);
            if !is_whole {
                (covered.end, entry.start) = (ack, ack);
            }
            delivery.acknowledge(&covered);
            if let Some(sum) = self.sum(covered.mark) {
                *sum -= covered.len();
            }
            if !is_whole {
                return;
            }
            self.remove(pool, self.head);
        }
    }

    /// Marks selectively acknowledged ranges, and collects them.
    pub(super) fn select(
        &mut self,
        pool: &mut SentPool,
        ranges: &[(Seq, Seq)],
        mss: u32,
        delivery: &mut Delivery,
    ) {
        let mut steps = SACK_STEPS;
        for range in ranges {
            self.select_range(pool, range.0..range.1, mss, &mut steps, delivery);
        }
    }

    fn select_range(
        &mut self,
        pool: &mut SentPool,
        range: Range<Seq>,
        mss: u32,
        steps: &mut u32,
        delivery: &mut Delivery,
    ) {
        if !range.start.is_before(range.end) {
            return;
        }
        let mut at = self.find(pool, range.start, steps);
        while let Some(entry) = pool.entries.get(at).copied() {
            if !entry.start.is_before(range.end) || *steps == 0 {
                return;
            }
            *steps -= 1;
            let this = core::mem::replace(&mut at, entry.next);
            if entry.mark != Mark::Sacked
                && let Some(part) = self.isolate(pool, this, &range, Some(mss))
            {
                if let Some(part) = pool.entries.get(part) {
                    delivery.select(part);
                }
                self.set_mark(pool, part, Mark::Sacked);
                at = self.merge(pool, part);
            }
        }
    }

    /// First entry that ends after `seq`, searched from the nearer of the first and the highest SACK entry.
    fn find(&self, pool: &SentPool, seq: Seq, steps: &mut u32) -> u32 {
        let get = |at: u32| pool.entries.get(at);
        let mut at = self.head;
        if let (Some(top), Some(head)) = (get(self.top), get(self.head))
            && top.start.since(seq) <= seq.since(head.start)
        {
            at = self.top;
        }
        while *steps > 0
            && let Some(entry) = get(at)
            && seq.is_before(entry.start)
            && let Some(previous) = get(entry.previous)
            && seq.is_before(previous.end)
        {
            (at, *steps) = (entry.previous, *steps - 1);
        }
        while *steps > 0
            && let Some(entry) = get(at)
            && entry.end.is_at_most(seq)
        {
            (at, *steps) = (entry.next, *steps - 1);
        }
        at
    }

    /// Splits an entry so that one covers its part of `range`, and returns that. With `mss`, a connection with too many
    /// entries for its flight returns `None` instead, so that a peer cannot cut its data into single bytes.
    fn isolate(&mut self, pool: &mut SentPool, at: u32, range: &Range<Seq>, mss: Option<u32>) -> Option<u32> {
        let entry = *pool.entries.get(at)?;
        let is_cut = entry.start.is_before(range.start) || range.end.is_before(entry.end);
        if is_cut && mss.is_some_and(|mss| !self.may_split(pool, mss)) {
            return None;
        }
        let at = if entry.start.is_before(range.start) { self.split(pool, at, range.start) } else { at };
        if range.end.is_before(entry.end) {
            self.split(pool, at, range.end);
        }
        Some(at)
    }

    fn may_split(&self, pool: &SentPool, mss: u32) -> bool {
        let flight = self.bounds(pool).map_or(0, |(una, nxt)| nxt.since(una));
        self.len < MIN_ENTRIES + flight / mss.max(1) * 2
    }

    /// Splits an entry at a sequence number inside, and returns the second part.
    fn split(&mut self, pool: &mut SentPool, at: u32, seq: Seq) -> u32 {
        let Some(entry) = pool.entries.get_mut(at) else { return NONE };
        let second = Entry { start: seq, previous: at, older: NONE, newer: NONE, ..*entry };
        entry.end = seq;
        let new = pool.entries.insert(second);
        if let Some(entry) = pool.entries.get_mut(at) {
            entry.next = new;
        }
        match pool.entries.get_mut(second.next) {
            Some(next) => next.previous = new,
            None => self.tail = new,
        }
        self.len += 1;
        if second.mark == Mark::InFlight {
            self.link(pool, new, at);
        }
        new
    }

    /// Merges a selectively acknowledged entry with such neighbours, and returns the entry behind.
    fn merge(&mut self, pool: &mut SentPool, at: u32) -> u32 {
        let is_sacked =
            |pool: &SentPool, at: u32| pool.entries.get(at).is_some_and(|e| e.mark == Mark::Sacked);
        let Some(entry) = pool.entries.get(at).copied() else { return NONE };
        let (mut at, mut end) = (at, entry.end);
        if is_sacked(pool, entry.previous) {
            self.remove(pool, at);
            at = entry.previous;
        }
        if is_sacked(pool, entry.next) {
            end = pool.entries.get(entry.next).map_or(end, |next| next.end);
            self.remove(pool, entry.next);
        }
        if let Some(entry) = pool.entries.get_mut(at) {
            entry.end = end;
        }
        if pool.entries.get(self.top).is_none_or(|top| top.end.is_at_most(end)) {
            self.top = at;
        }
        pool.entries.get(at).map_or(NONE, |entry| entry.next)
    }

    /// Marks entries lost that were sent before the entry sent at `latest` and for longer than `limit` microseconds (RFC
    /// 8985 section 6.2, step 5). Returns the time until the next one is, in microseconds.
    pub(super) fn detect_losses(
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
            let remaining = entry.sent.wrapping_add(limit).wrapping_sub(now) as i32;
            if remaining > 0 {
                return Some(remaining as u32);
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
    pub(super) fn mark_first_lost(&mut self, pool: &mut SentPool, mss: u32) {
        let Some(entry) = pool.entries.get(self.head) else { return };
        if entry.mark == Mark::InFlight && !entry.is_retransmitted {
            let range = entry.start..entry.start + mss;
            if let Some(at) = self.isolate(pool, self.head, &range, None) {
                self.mark_lost(pool, at);
            }
        }
    }

    /// Marks entries in flight lost that are longer than a segment.
    pub(super) fn mark_long_lost(&mut self, pool: &mut SentPool, mss: u32) {
        let mut at = self.head;
        while let Some(entry) = pool.entries.get(at) {
            let next = entry.next;
            if entry.mark == Mark::InFlight && entry.len() > mss {
                self.mark_lost(pool, at);
            }
            at = next;
        }
    }

    /// Marks everything lost that was not selectively acknowledged. If the first entry was, the peer has discarded data
    /// (reneging, RFC 2018 section 8), and everything is lost.
    pub(super) fn mark_all_lost(&mut self, pool: &mut SentPool) {
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

    /// Returns lost entries to flight, in the order of their transmission.
    pub(super) fn unmark_lost(&mut self, pool: &mut SentPool) {
        let (mut at, mut older) = (self.head, NONE);
        while let Some(entry) = pool.entries.get_mut(at) {
            let (this, next, sent) = (at, entry.next, entry.sent);
            at = next;
            if entry.mark != Mark::Lost {
                continue;
            }
            entry.mark = Mark::InFlight;
            self.lost -= entry.len();
            let newer = |pool: &SentPool, oldest: u32, older: u32| {
                pool.entries.get(older).map_or(oldest, |entry| entry.newer)
            };
            let mut candidate = newer(pool, self.oldest, older);
            while let Some(entry) = pool.entries.get(candidate)
                && (entry.sent.wrapping_sub(sent) as i32) <= 0
            {
                (older, candidate) = (candidate, entry.newer);
            }
            self.link(pool, this, older);
            older = this;
        }
    }

    /// First lost range, at most `max` bytes.
    pub(super) fn next_lost(&mut self, pool: &SentPool, max: u32) -> Option<Range<Seq>> {
        if self.lost == 0 || max == 0 {
            return None;
        }
        let mut at = if self.cursor == NONE { self.head } else { self.cursor };
        while let Some(entry) = pool.entries.get(at) {
            self.cursor = at;
            if entry.mark == Mark::Lost {
                return Some(entry.start..entry.end.min(entry.start + max));
            }
            at = entry.next;
        }
        None
    }

    /// Records the retransmission of a range, and returns how many bytes of it are in flight again.
    pub(super) fn retransmit(
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
                (entry.sent, entry.snapshot, entry.is_retransmitted) = (sent, snapshot, true);
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

    /// Whether the first entry is in flight and was retransmitted.
    pub(super) fn is_first_retransmitted(&self, pool: &SentPool) -> bool {
        pool.entries.get(self.head).is_some_and(|head| head.is_retransmitted && head.mark == Mark::InFlight)
    }

    /// Returns all entries to the pool.
    pub(super) fn release(&mut self, pool: &mut SentPool) {
        while let Some(entry) = pool.entries.remove(self.head) {
            self.head = entry.next;
        }
        *self = Self::new();
    }
}

#[cfg(test)]
impl Scoreboard {
    /// Compares the lists, the sums and the order of transmission with a naive walk.
    pub(super) fn check(&self, pool: &SentPool, flight: Range<Seq>) {
        let (mut at, mut previous, mut end) = (self.head, NONE, flight.start);
        let (mut len, mut in_flight, mut sacked, mut lost) = (0, 0, 0, 0);
        while let Some(entry) = pool.entries.get(at) {
            assert_eq!((entry.start, entry.previous), (end, previous));
            assert!(entry.len() > 0);
            match entry.mark {
                Mark::InFlight => in_flight += 1,
                Mark::Sacked => sacked += entry.len(),
                Mark::Lost => lost += entry.len(),
            }
            (len, end, previous, at) = (len + 1, entry.end, at, entry.next);
        }
        assert_eq!((end, previous, at), (flight.end, self.tail, NONE));
        assert_eq!((len, sacked, lost), (self.len, self.sacked, self.lost));
        let (mut at, mut older) = (self.oldest, NONE);
        while let Some(entry) = pool.entries.get(at) {
            assert_eq!((entry.mark, entry.older), (Mark::InFlight, older));
            (older, at, in_flight) = (at, entry.newer, in_flight - 1);
        }
        assert_eq!((in_flight, older), (0, self.newest));
    }
}
