//! Entries of the scoreboards: one for each range of sequence numbers that was sent at once.
//!
//! All connections share one slab, so an idle connection holds no entry. The pool must not know the connections:
//! [`super::scoreboard::Scoreboard`] links the entries of one.

use super::rate::Snapshot;
use crate::slab::Slab;
use crate::tcp::Seq;

/// Index of no entry.
pub(super) const NONE: u32 = u32::MAX;

/// State of the bytes of an entry. Exactly one applies, so that the sums of the scoreboard partition the flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Sent, or sent again after a loss.
    InFlight,
    /// Selectively acknowledged.
    Sacked,
    /// Lost and not sent again since.
    Lost,
}

/// A range of sequence numbers with one time of transmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) start: Seq,
    pub(super) end: Seq,
    /// Neighbours in order of sequence numbers.
    pub(super) previous: u32,
    pub(super) next: u32,
    /// Neighbours in order of the last transmission; only entries in flight are linked.
    pub(super) older: u32,
    pub(super) newer: u32,
    /// Time of the last transmission in microseconds, modulo 2^32.
    pub(super) sent: u32,
    pub(super) snapshot: Snapshot,
    pub(super) mark: Mark,
    pub(super) is_retransmitted: bool,
    /// Whether the segment probes the path MTU, so that its loss is no sign of congestion.
    pub(super) is_probe: bool,
}

const _: () = assert!(size_of::<Entry>() <= 64);

impl Entry {
    /// Number of sequence numbers.
    #[inline]
    pub(super) const fn len(&self) -> u32 {
        self.end.since(self.start)
    }

    /// Whether the first entry in order of sequence numbers is the oldest one in flight too.
    #[inline]
    pub(super) fn is_oldest(&self) -> bool {
        self.mark == Mark::InFlight && self.older == NONE && self.newer == self.next
    }
}

/// Entries of the scoreboards of all connections, shared so that an idle connection holds none.
pub(crate) struct SentPool {
    pub(super) entries: Slab<Entry>,
}

impl SentPool {
    pub(crate) fn new() -> Self {
        Self { entries: Slab::new() }
    }
}
