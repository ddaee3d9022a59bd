//! Private memory for received frames: slots of equal size in one region.
//!
//! For ports whose packets are written to a chosen address by the kernel or from a socket (TAP, packet sockets,
//! streams). A frame stays in its slot until its burst is completed, so a burst pins the arena's map like any other
//! source's. A queue fills a slot through its address, with a system call; no slice of the slot exists meanwhile.

use crate::PortFault;
use crate::retain::Lender;
use mem::{GuestMemory, Region, VolatileSlice};
use std::sync::Arc;

/// `slots` slots of `size` bytes each.
#[derive(Clone, Debug)]
pub(crate) struct Arena {
    map: Arc<GuestMemory>,
    size: usize,
    slots: usize,
}

impl Arena {
    /// Allocates zeroed memory. `size` is rounded up to cache lines, so that slots do not share lines.
    ///
    /// # Errors
    /// [`PortFault::NoMemory`] if the allocation fails.
    pub(crate) fn new(slots: usize, size: usize) -> Result<Self, PortFault> {
        let size = size.next_multiple_of(mem::line::LINE);
        let no_memory = |why: &dyn std::fmt::Display| PortFault::NoMemory(why.to_string());
        let region = Region::anonymous((slots * size) as u64).map_err(|e| no_memory(&e))?;
        let map = GuestMemory::new(vec![Arc::new(region)]).map_err(|e| no_memory(&e))?;
        Ok(Self { map: Arc::new(map), size, slots })
    }

    /// Memory that a burst pins.
    pub(crate) fn map(&self) -> &Arc<GuestMemory> {
        &self.map
    }

    /// A lender of the slots.
    pub(crate) fn lender(&self) -> Lender {
        Lender::new(self.slot(0), self.size, self.slots)
    }

    /// Number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Slot `i`. Returns an empty slice if there is no such slot.
    #[inline(always)]
    pub(crate) fn slot(&self, i: usize) -> VolatileSlice {
        let inside = self.map.regions().first().and_then(|r| r.seg((i * self.size) as u64, self.size as u32));
        inside.unwrap_or(VolatileSlice::EMPTY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_line_aligned_and_inside() {
        let arena = Arena::new(3, 100).unwrap();
        assert_eq!(arena.slots(), 3);
        let addresses: Vec<_> = (0..3).map(|i| arena.slot(i).addr()).collect();
        assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] == 128));
        assert_eq!(addresses[0] % 64, 0);
        assert_eq!((arena.slot(2).len(), arena.slot(3).len()), (128, 0));
    }
}
