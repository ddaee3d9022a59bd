//! Fault counters for display. Updated by workers, read by the control thread.

use crate::PortDetail;
use std::sync::atomic::{AtomicU64, Ordering};

/// Fault event of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultEvent {
    Dropped,
    Duplicated,
    Reordered,
    Corrupted,
    Delayed,
    /// The hold was full: the packet was not delayed or not duplicated.
    HoldFull,
    /// The packet was delayed, and the queue was full when it was due.
    LostLate,
}

const KINDS: usize = 7;
/// Details of the events of received packets, in the order of [`FaultEvent`]. None of them is lost late.
const IN: [PortDetail; KINDS - 1] = [
    PortDetail::FaultInDropped,
    PortDetail::FaultInDuplicated,
    PortDetail::FaultInReordered,
    PortDetail::FaultInCorrupted,
    PortDetail::FaultInDelayed,
    PortDetail::FaultInHoldFull,
];
/// Details of the events of sent packets, in the order of [`FaultEvent`].
const OUT: [PortDetail; KINDS] = [
    PortDetail::FaultOutDropped,
    PortDetail::FaultOutDuplicated,
    PortDetail::FaultOutReordered,
    PortDetail::FaultOutCorrupted,
    PortDetail::FaultOutDelayed,
    PortDetail::FaultOutHoldFull,
    PortDetail::FaultOutLostLate,
];

/// Counters of one direction.
#[derive(Debug)]
pub(super) struct Counts {
    names: &'static [PortDetail],
    counts: [AtomicU64; KINDS],
}

impl Counts {
    pub(super) fn inward() -> Self {
        Self { names: &IN, counts: Default::default() }
    }

    pub(super) fn outward() -> Self {
        Self { names: &OUT, counts: Default::default() }
    }

    pub(super) fn add(&self, event: FaultEvent, n: u64) {
        if n > 0 {
            self.counts[event as usize].fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Non-zero counters.
    pub(super) fn details(&self) -> impl Iterator<Item = (PortDetail, String)> {
        let read = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        self.names.iter().zip(read).filter(|(_, n)| *n > 0).map(|(name, n)| (*name, n.to_string()))
    }
}
