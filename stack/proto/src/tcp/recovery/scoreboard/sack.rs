//! Selective acknowledgements (RFC 2018) on the scoreboard.
//!
//! The work for one segment and the entries that a peer can split are bounded for all ranges that it sends.

use super::Scoreboard;
use crate::tcp::Seq;
use crate::tcp::recovery::delivery::Delivery;
use crate::tcp::recovery::pool::{Entry, Mark, NONE, SentPool};
use core::ops::Range;

/// Entries visited for the SACK option of one segment. Ranges beyond are ignored; the peer reports them again.
const SACK_STEPS: u32 = 512;
/// Entries of one connection that need no further reason.
const MIN_ENTRIES: u32 = 64;

impl Scoreboard {
    /// Marks selectively acknowledged ranges, and collects them.
    pub(in super::super) fn select(
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
    pub(super) fn isolate(
        &mut self,
        pool: &mut SentPool,
        at: u32,
        range: &Range<Seq>,
        mss: Option<u32>,
    ) -> Option<u32> {
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
}
