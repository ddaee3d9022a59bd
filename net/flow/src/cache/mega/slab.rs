//! Megaflows by slot, in chunks, so that no megaflow moves when their number grows. Many chunks are in huge pages.

use super::Megaflow;
use mem::huge::{Arena, Placed};

/// Megaflows of a chunk.
const CHUNK: usize = 256;

/// Megaflows by slot.
pub(super) struct Slab<T> {
    chunks: Vec<Placed<[Option<Megaflow<T>>; CHUNK]>>,
    arena: Arena,
    /// Slots that have or had a megaflow: the first ones.
    used: u32,
    /// Those of them without a megaflow.
    free: Vec<u32>,
}

impl<T> Slab<T> {
    /// An empty slab for about `capacity` megaflows. The memory is that of the megaflows that it has had.
    pub(super) fn new(capacity: usize) -> Self {
        Self { chunks: Vec::new(), arena: Arena::default(), used: 0, free: Vec::with_capacity(capacity) }
    }

    /// Number of slots that have or had a megaflow.
    pub(super) fn slots(&self) -> usize {
        self.used as usize
    }

    /// Number of megaflows.
    pub(super) fn len(&self) -> usize {
        self.slots() - self.free.len()
    }

    #[inline(always)]
    pub(super) fn get(&self, slot: u32) -> Option<&Megaflow<T>> {
        self.chunks.get(slot as usize / CHUNK)?[slot as usize % CHUNK].as_ref()
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Megaflow<T>> {
        self.chunks.get_mut(slot as usize / CHUNK)?[slot as usize % CHUNK].as_mut()
    }

    /// Loads the first line of a megaflow into the cache.
    #[inline(always)]
    pub(super) fn prefetch(&self, slot: u32) {
        if let Some(chunk) = self.chunks.get(slot as usize / CHUNK) {
            let slot = &raw const chunk[slot as usize % CHUNK];
            mem::line::prefetch_write(slot.cast());
        }
    }

    /// Loads the second line of a megaflow into the cache.
    #[inline(always)]
    pub(super) fn prefetch_second(&self, slot: u32) {
        if let Some(chunk) = self.chunks.get(slot as usize / CHUNK) {
            let slot = (&raw const chunk[slot as usize % CHUNK]).cast::<u8>();
            mem::line::prefetch_read(slot.wrapping_add(mem::line::LINE));
        }
    }

    /// Loads the lines of a megaflow that a search needs into the cache.
    pub(super) fn prefetch_search(&self, slot: u32) {
        if let Some(chunk) = self.chunks.get(slot as usize / CHUNK) {
            let slot = (&raw const chunk[slot as usize % CHUNK]).cast::<u8>();
            mem::line::prefetch_read(slot);
            mem::line::prefetch_read(slot.wrapping_add(std::mem::offset_of!(Megaflow<T>, hash)));
        }
    }

    /// Adds a megaflow. Returns its slot.
    pub(super) fn put(&mut self, megaflow: Megaflow<T>) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| self.add_slot());
        self.chunks[slot as usize / CHUNK][slot as usize % CHUNK] = Some(megaflow);
        slot
    }

    fn add_slot(&mut self) -> u32 {
        if self.slots().is_multiple_of(CHUNK) {
            self.chunks.push(self.arena.place(|| None));
        }
        self.used += 1;
        self.used - 1
    }

    /// Removes a megaflow.
    pub(super) fn take(&mut self, slot: u32) -> Option<Megaflow<T>> {
        let megaflow = self.chunks.get_mut(slot as usize / CHUNK)?[slot as usize % CHUNK].take()?;
        self.free.push(slot);
        Some(megaflow)
    }
}
