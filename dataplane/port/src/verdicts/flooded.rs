//! Flooded packets of a burst: a copy that an output without a peer loses is counted with its own reason.

use crate::{BURST, BurstStats, DropReason};
use std::ops::Range;

/// Which packets of a burst are flooded.
#[derive(Clone, Debug, Default)]
pub struct Flooded(u64);

impl Flooded {
    /// Adds packets `run`.
    pub(super) fn insert(&mut self, run: Range<usize>) {
        if !run.is_empty() {
            self.0 |= (u64::MAX >> (BURST - run.len())) << run.start;
        }
    }

    /// Removes all packets.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.0 = 0;
    }

    /// Whether packet `i` is flooded.
    pub fn contains(&self, i: u8) -> bool {
        self.0 >> (usize::from(i) % BURST) & 1 != 0
    }

    /// For a burst created from this one: `origins` has the index of the original packet of each packet.
    #[must_use]
    pub fn of_copies(&self, origins: impl Iterator<Item = u8>) -> Self {
        if self.0 == 0 {
            return Self(0);
        }
        let flooded = origins.enumerate().filter(|(_, i)| self.contains(*i));
        Self(flooded.fold(0, |mask, (k, _)| mask | 1 << (k % BURST)))
    }

    /// For a burst whose packets were all created from packet `i`.
    #[must_use]
    pub fn of_one(&self, i: u8) -> Self {
        Self(if self.contains(i) { u64::MAX } else { 0 })
    }

    /// Counts packets for an output without a queue as dropped: for each, its index and the number of packets.
    pub fn drop_at_down_port(&self, packets: impl Iterator<Item = (u8, u64)>, stats: &mut BurstStats) {
        for (i, n) in packets {
            let reason = if self.contains(i) { DropReason::FloodPortDown } else { DropReason::PortDown };
            stats.drop(reason, n);
        }
    }
}
