//! Offloads that the packets of a burst still need, and the cost of sending them.

use super::{BURST, Burst};
use crate::work;
use crate::{Capabilities, Offload};

impl Burst {
    /// Sets the offloads that packet `i` still needs.
    #[inline(always)]
    pub fn set_offload(&mut self, i: usize, offload: Offload) {
        if !self.offloads {
            if offload == Offload::NONE {
                return;
            }
            (self.offloads, self.offload) = (true, [Offload::NONE; BURST]);
        }
        self.offload[i] = offload;
    }

    /// Offloads that packet `i` still needs.
    #[inline(always)]
    pub fn offload(&self, i: usize) -> Offload {
        if self.offloads { self.offload[i] } else { Offload::NONE }
    }

    /// Whether any packet may need an offload.
    #[inline(always)]
    pub fn has_offloads(&self) -> bool {
        self.offloads
    }

    /// Capabilities that an output needs to accept every packet unchanged.
    #[inline(always)]
    pub fn needs(&self) -> Capabilities {
        if self.offloads { self.needs_of_all() } else { Capabilities::NONE }
    }

    fn needs_of_all(&self) -> Capabilities {
        Capabilities(self.offload[..self.n].iter().fold(0, |needs, offload| needs | offload.needs().0))
    }

    /// Upper bound on the cost of sending every packet to one output, in work units.
    #[inline]
    pub fn cost(&self) -> u64 {
        // No overflow: at most 64 packets of 64 KiB.
        let bytes: u32 = self.len[..self.n].iter().sum();
        work::sending(self.n as u64, bytes.into()) + self.spill.len() as u64 * work::PIECE
    }

    /// Cost of sending packet `i`, without the cost of its output.
    pub fn packet_cost(&self, i: usize) -> u64 {
        let (from, to) = self.more(i);
        work::SENT + u64::from(self.len[i]) / work::BYTES + u64::from(to - from) * work::PIECE
    }

    /// Cost in work units of segmenting packet `i` in software; 0 if it needs no segmentation.
    pub fn segment_cost(&self, i: usize) -> u64 {
        let offload = self.offload[i];
        let segments = offload.segmentation().map_or(0, |_| self.len[i] as usize / offload.segment().max(1));
        segments as u64 * (work::SEGMENT + work::SENT)
    }
}
