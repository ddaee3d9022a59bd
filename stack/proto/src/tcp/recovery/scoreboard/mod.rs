//! Scoreboard of one connection: its unacknowledged entries, in order of sequence numbers and of transmission.
//!
//! Selectively acknowledged neighbours are merged and lost entries leave the order of transmission, so an
//! acknowledgement costs what it changes. The work for ranges that change nothing, and the entries that a peer can
//! split, are bounded.

mod repair;
mod sack;
#[cfg(test)]
mod tests;

use super::delivery::Delivery;
use super::pool::{Entry, Mark, NONE, SentPool};
use super::rate::Snapshot;
use crate::tcp::Seq;
use core::ops::Range;

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

    /// Number of entries, each of one segment or more.
    pub(super) const fn entries(&self) -> u32 {
        self.len
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
        let (previous, older) = (self.tail, self.newest);
        let at = pool.entries.insert(Entry {
            start: range.start,
            end: range.end,
            previous,
            next: NONE,
            older,
            newer: NONE,
            sent,
            snapshot,
            mark: Mark::InFlight,
            is_retransmitted: false,
            is_probe: false,
        });
        match pool.entries.get_mut(previous) {
            Some(tail) if previous == older => (tail.next, tail.newer) = (at, at),
            Some(tail) => tail.next = at,
            None => self.head = at,
        }
        if older == NONE {
            self.oldest = at;
        } else if previous != older
            && let Some(newest) = pool.entries.get_mut(older)
        {
            newest.newer = at;
        }
        (self.tail, self.newest) = (at, at);
        self.len += 1;
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
        self.forget(at, entry.next);
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
        while let Some(entry) = pool.entries.get(self.head)
            && entry.end.is_at_most(ack)
            && let Some(entry) = pool.entries.remove(self.head)
        {
            delivery.acknowledge(&entry);
            if let Some(sum) = self.sum(entry.mark) {
                *sum -= entry.len();
            }
            self.unlink_first(pool, &entry);
        }
        self.acknowledge_part(pool, ack, delivery);
    }

    /// Removes the first entry if a cumulative acknowledgement ends with it, and it was sent once, before all others.
    /// Returns its start and the time of its transmission.
    #[inline(always)]
    pub(super) fn acknowledge_first(&mut self, pool: &mut SentPool, ack: Seq) -> Option<(Seq, u32)> {
        let entry = pool.entries.get(self.head)?;
        if entry.end != ack || entry.is_retransmitted || !entry.is_oldest() {
            return None;
        }
        let (at, next) = (self.head, entry.next);
        let (start, sent) = (entry.start, entry.sent);
        pool.entries.discard(at);
        self.unlink_oldest(pool, next);
        self.head = next;
        self.forget(at, next);
        Some((start, sent))
    }

    /// Unlinks the first entry, which is the oldest and was removed.
    #[inline]
    fn unlink_oldest(&mut self, pool: &mut SentPool, next: u32) {
        self.oldest = next;
        if next == NONE {
            (self.tail, self.newest) = (NONE, NONE);
        } else if let Some(next) = pool.entries.get_mut(next) {
            (next.previous, next.older) = (NONE, NONE);
        }
    }

    /// Unlinks the first entry, which is removed. It is the oldest unless there were retransmissions.
    #[inline]
    fn unlink_first(&mut self, pool: &mut SentPool, entry: &Entry) {
        let at = self.head;
        if entry.is_oldest() {
            self.unlink_oldest(pool, entry.next);
        } else {
            if entry.mark == Mark::InFlight {
                self.unlink(pool, entry.older, entry.newer);
            }
            match pool.entries.get_mut(entry.next) {
                Some(next) => next.previous = NONE,
                None => self.tail = NONE,
            }
        }
        self.head = entry.next;
        self.forget(at, entry.next);
    }

    /// Counts a removed entry, and drops the references to it.
    #[inline]
    fn forget(&mut self, at: u32, next: u32) {
        self.len -= 1;
        if self.top == at {
            self.top = NONE;
        }
        if self.cursor == at {
            self.cursor = next;
        }
    }

    /// Cuts what a cumulative acknowledgement covers off the first entry.
    #[inline]
    fn acknowledge_part(&mut self, pool: &mut SentPool, ack: Seq, delivery: &mut Delivery) {
        if let Some(entry) = pool.entries.get_mut(self.head)
            && entry.start.is_before(ack)
        {
            let covered = Entry { end: ack, ..*entry };
            entry.start = ack;
            delivery.acknowledge(&covered);
            if let Some(sum) = self.sum(covered.mark) {
                *sum -= covered.len();
            }
        }
    }

    /// Returns all entries to the pool.
    pub(super) fn release(&mut self, pool: &mut SentPool) {
        while let Some(entry) = pool.entries.remove(self.head) {
            self.head = entry.next;
        }
        *self = Self::new();
    }
}
