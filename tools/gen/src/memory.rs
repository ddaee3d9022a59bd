//! Guest memory of the generator: the constant parts of long frames, and a tag per place of a burst.
//!
//! Frames that do not fit into a burst's private head continue in segments of this memory. Only the tags are written,
//! by the owning thread, and never during a call of a transmit queue: the queues copy the data before they return.

use super::tag::TAG;
use mem::copy::Kernel;
use mem::{GuestMemory, GuestMemoryError, Region, RegionError, VolatileSlice};
use port::BURST;
use std::sync::Arc;

/// Each tag has its own cache line.
const TAG_ROOM: usize = 64;

/// The bodies, followed by the tags.
#[derive(Debug)]
pub(super) struct Memory {
    map: Arc<GuestMemory>,
    tags: usize,
}

/// Error: memory for frames cannot be allocated.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Allocation failed.
    #[error("cannot allocate memory for the frames of the streams: {0}")]
    Region(#[from] RegionError),
    /// Mapping failed.
    #[error("cannot allocate memory for the frames of the streams: {0}")]
    Map(#[from] GuestMemoryError),
}

impl Memory {
    /// Allocates memory with these bodies.
    pub(super) fn new(mut bodies: Vec<u8>) -> Result<Self, MemoryError> {
        let tags = bodies.len().next_multiple_of(TAG_ROOM);
        bodies.resize(tags + BURST * TAG_ROOM, 0);
        let region = Region::of_bytes(bodies.into_boxed_slice())?;
        Ok(Self { map: Arc::new(GuestMemory::new(vec![Arc::new(region)])?), tags })
    }

    /// The map that a burst pins.
    pub(super) fn map(&self) -> &Arc<GuestMemory> {
        &self.map
    }

    /// `len` bytes from `at`; empty if the range is not inside.
    #[inline]
    pub(super) fn seg(&self, at: usize, len: usize) -> VolatileSlice {
        let region = self.map.regions().first();
        region.and_then(|region| region.seg(at as u64, len as u32)).unwrap_or(VolatileSlice::EMPTY)
    }

    /// The tag of the frame at place `i` of a burst.
    #[inline]
    pub(super) fn tag(&self, i: usize) -> VolatileSlice {
        self.seg(self.tags + i % BURST * TAG_ROOM, TAG)
    }

    /// Writes the tag of the frame at place `i`.
    #[inline]
    pub(super) fn write_tag<K: Kernel>(&mut self, i: usize, tag: &[u8; TAG]) {
        let place = self.tag(i);
        if place.len() == TAG {
            // SAFETY: the map is held by `self` and the slice has the length of a tag.
            unsafe { place.copy_in::<K>(tag) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::Burst;

    #[test]
    fn tags_follow_bodies_and_are_distinct() {
        let mut memory = Memory::new(vec![7; 100]).unwrap();
        mem::with_kernel!(mem::copy::chosen(), K => {
            (0..BURST).for_each(|i| memory.write_tag::<K>(i, &[i as u8; TAG]));
            for i in 0..BURST {
                let mut burst = Burst::new();
                burst.begin(0);
                burst.pin(memory.map());
                burst.push_derived(&[1, 2], [memory.seg(0, 100), memory.tag(i)].into_iter());
                assert_eq!(burst.frame(0).tail::<K, TAG>(), Some([i as u8; TAG]));
                assert_eq!(burst.frame(0).tail::<K, 120>().unwrap()[..3], [1, 2, 7]);
                assert_eq!(burst.frame(0).tail::<K, 121>(), None);
            }
        });
        assert_eq!(memory.seg(99, 1 << 20).len(), 0);
    }
}
