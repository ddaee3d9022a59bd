//! Slots with stable indices, in chunks, so that growth moves nothing.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

/// Slots of one chunk.
const CHUNK: usize = 256;
/// End of the free list.
const NONE: u32 = u32::MAX;

enum Slot<T> {
    Free { next: u32 },
    Used(T),
}

/// A slab. Indices are reused, last freed first; owners that keep an index beyond its life need a generation of their
/// own.
pub(crate) struct Slab<T> {
    /// Of fixed length, so that the position in a chunk needs no check.
    chunks: Vec<Box<[Slot<T>; CHUNK]>>,
    free: u32,
    len: u32,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { chunks: Vec::new(), free: NONE, len: 0 }
    }

    /// Number of used slots.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Number of slots, used or free.
    pub(crate) fn capacity(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    fn slot(&mut self, at: u32) -> Option<&mut Slot<T>> {
        Some(&mut self.chunks.get_mut(at as usize / CHUNK)?[at as usize % CHUNK])
    }

    #[cold]
    fn grow(&mut self) {
        let first = self.capacity() as u32;
        let next = |i: u32| if i + 1 == CHUNK as u32 { NONE } else { first + i + 1 };
        let slots: Box<[Slot<T>]> = (0..CHUNK as u32).map(|i| Slot::Free { next: next(i) }).collect();
        if let Ok(chunk) = slots.try_into() {
            self.chunks.push(chunk);
            self.free = first;
        }
    }

    /// Inserts a value and returns its index.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let at = self.free;
        if let Some(slot) = self.slot(at)
            && let Slot::Free { next } = *slot
        {
            *slot = Slot::Used(value);
            (self.free, self.len) = (next, self.len + 1);
        }
        at
    }

    /// Removes the value at an index. Returns `None` if the slot is free.
    #[inline]
    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let free = self.free;
        let slot = self.slot(at)?;
        if matches!(slot, Slot::Free { .. }) {
            return None;
        }
        let old = core::mem::replace(slot, Slot::Free { next: free });
        (self.free, self.len) = (at, self.len - 1);
        if let Slot::Used(value) = old { Some(value) } else { None }
    }

    /// Drops the value at an index, if the slot is used.
    #[inline]
    pub(crate) fn discard(&mut self, at: u32) {
        let free = self.free;
        if let Some(slot) = self.slot(at)
            && matches!(slot, Slot::Used(_))
        {
            *slot = Slot::Free { next: free };
            (self.free, self.len) = (at, self.len - 1);
        }
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        match &self.chunks.get(at as usize / CHUNK)?[at as usize % CHUNK] {
            Slot::Used(value) => Some(value),
            Slot::Free { .. } => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        match self.slot(at)? {
            Slot::Used(value) => Some(value),
            Slot::Free { .. } => None,
        }
    }

    /// Used slots in a range of indices, in order. Takes time for the range only.
    pub(crate) fn range(&self, range: Range<u32>) -> impl Iterator<Item = (u32, &T)> {
        let end = range.end.min(self.capacity() as u32);
        (range.start..end).filter_map(|at| Some((at, self.get(at)?)))
    }

    /// All used slots, in order of index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).enumerate().filter_map(|(at, slot)| match slot {
            Slot::Used(value) => Some((at as u32, value)),
            Slot::Free { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::v1::*;

    #[test]
    fn indices_are_stable_and_reused() {
        let mut slab = Slab::new();
        let all: Vec<u32> = (0..600_usize).map(|i| slab.insert(i)).collect();
        assert!(all.iter().enumerate().all(|(i, at)| slab.get(*at) == Some(&i)));
        assert_eq!((slab.remove(7), slab.remove(7), slab.len()), (Some(7), None, 599));
        assert_eq!(slab.insert(1000), 7);
        slab.discard(8);
        slab.discard(8);
        assert!(slab.get(8).is_none());
        assert_eq!((slab.insert(8), slab.len()), (8, 600));
        assert_eq!(slab.iter().map(|(_, value)| *value).max(), Some(1000));
        let of_range = |range| slab.range(range).map(|(_, value)| *value).collect::<Vec<_>>();
        assert_eq!(
            (of_range(6..9), of_range(598..u32::MAX), of_range(9..9)),
            (vec![6, 1000, 8], vec![598, 599], vec![])
        );
        assert!(slab.get(9999).is_none() && slab.remove(9999).is_none());
    }
}
