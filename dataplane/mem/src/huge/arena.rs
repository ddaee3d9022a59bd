//! Values that never move and are read at random places, in huge pages after the first few.
//!
//! The memory of a block is freed after the last of its values; that of a dropped value is not used again before. The
//! lock is held only while a place is reserved, so no value may be placed for each packet.

use super::{HUGE, advise_at};
use core::alloc::Layout;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// Size of the first block in bytes, so that few values need no huge page.
const FIRST: usize = 64 << 10;

#[repr(align(65_536))]
struct FirstBlock {
    _bytes: [u8; FIRST],
}

#[repr(align(2_097_152))]
struct HugeBlock {
    _bytes: [u8; HUGE],
}

/// Memory for values.
#[derive(Debug, Default)]
pub struct Arena(Mutex<Tail>);

/// The last block, and how much of it is used.
#[derive(Debug, Default)]
struct Tail {
    block: Option<Arc<Block>>,
    used: usize,
}

/// Memory of [`Block::layout`].
#[derive(Debug)]
struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block owns its memory, and hands out no access to it.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

/// A value in an [`Arena`], which it may outlive.
#[derive(Debug)]
pub struct Placed<T> {
    value: NonNull<T>,
    /// Keeps the memory of `value`.
    _block: Arc<Block>,
}

// SAFETY: it owns its value like a box.
unsafe impl<T: Send> Send for Placed<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Placed<T> {}

impl Arena {
    /// A value of `N` elements, which are made at their place. One larger than a huge page does not compile.
    pub fn place<T, const N: usize>(&self, element: impl Fn() -> T) -> Placed<[T; N]> {
        const { assert!(size_of::<[T; N]>() <= HUGE && align_of::<T>() <= FIRST) };
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (block, at) = tail.reserve(Layout::new::<[T; N]>());
        drop(tail);
        // SAFETY: `reserve` returns an offset with space for the layout in the block.
        let value = unsafe { block.start.add(at) }.cast::<[T; N]>();
        for i in 0..N {
            // SAFETY: the place is aligned, because blocks are aligned to `FIRST` at least, and it has no other value.
            // If `element` panics, the elements before are not dropped.
            unsafe { value.cast::<T>().add(i).write(element()) };
        }
        Placed { value, _block: block }
    }
}

impl Tail {
    /// A block and the offset of a place in it that is reserved.
    fn reserve(&mut self, layout: Layout) -> (Arc<Block>, usize) {
        let at = self.used.next_multiple_of(layout.align());
        if let Some(block) = self.block.as_ref().filter(|block| at + layout.size() <= block.layout.size()) {
            self.used = at + layout.size();
            return (block.clone(), at);
        }
        let is_first = self.block.is_none() && layout.size() <= FIRST;
        let whole = if is_first { Layout::new::<FirstBlock>() } else { Layout::new::<HugeBlock>() };
        let block = Arc::new(Block::new(whole));
        (self.block, self.used) = (Some(block.clone()), layout.size());
        (block, 0)
    }
}

impl Block {
    /// A block of this size, which must not be 0.
    fn new(layout: Layout) -> Self {
        // SAFETY: the size is not 0.
        let start = unsafe { std::alloc::alloc(layout) };
        let Some(start) = NonNull::new(start) else { std::alloc::handle_alloc_error(layout) };
        advise_at(start.addr().get(), layout.size());
        Self { start, layout }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and no value is left, because each has a reference to its block.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

impl<T> Deref for Placed<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the value is initialised, and borrowed as long as its owner.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for Placed<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and exclusively.
        unsafe { self.value.as_mut() }
    }
}

impl<T> Drop for Placed<T> {
    fn drop(&mut self) {
        // SAFETY: the value is initialised, and not used again.
        unsafe { self.value.drop_in_place() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_outlive_their_arena_and_are_dropped_once() {
        let counter = Arc::new(());
        let arena = Arena::default();
        let mut placed: Vec<Placed<[_; 100]>> =
            (0..1000).map(|i| arena.place(|| (i, counter.clone()))).collect();
        drop(arena);
        for place in &mut placed {
            place[99].0 += 1;
        }
        assert!((0..).zip(&placed).all(|(i, place)| (place[0].0, place[99].0) == (i, i + 1)));
        assert_eq!(Arc::strong_count(&counter), 100_001);
        placed.truncate(10);
        assert_eq!(Arc::strong_count(&counter), 1001);
    }

    #[test]
    fn later_blocks_are_huge_pages_and_places_are_aligned() {
        #[repr(align(4096))]
        struct Page(u8);
        let block = |arena: &Arena| arena.0.lock().unwrap().block.as_ref().unwrap().layout.size();
        let arena = Arena::default();
        let first = arena.place::<_, 1>(|| 0_u8);
        assert_eq!((first[0], block(&arena)), (0, FIRST));
        let place = |i: u16| (arena.place::<_, 3>(|| i as u8), arena.place::<_, 2>(|| Page(i as u8)));
        let placed: Vec<_> = (0..2000).map(place).collect();
        assert_eq!(block(&arena), HUGE);
        for (i, (bytes, pages)) in (0_u16..).zip(&placed) {
            assert!(bytes.iter().all(|byte| *byte == i as u8) && pages[1].0 == i as u8);
            assert!(pages.value.is_aligned());
        }
        let arena = Arena::default();
        let large = arena.place::<_, { 2 * FIRST }>(|| 1_u8);
        assert!(large.iter().all(|byte| *byte == 1));
        assert_eq!(block(&arena), HUGE, "larger than the first block");
    }
}
