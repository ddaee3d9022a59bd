//! Slot memory of a ring: contiguous, cache-line aligned.
//!
//! The ring tracks which slots are filled and which side owns them; no operation here orders memory accesses. Slots
//! start on a line boundary so that a batch touches no more lines than it fills: otherwise one side would read a line
//! that the other side writes next.

use core::mem::MaybeUninit;
use mem::shim::UnsafeCell;
use memory::Memory;

type Slot<T> = UnsafeCell<MaybeUninit<T>>;

pub(super) struct Slots<T> {
    memory: Memory<T>,
    mask: usize,
}

impl<T> Slots<T> {
    /// `capacity` empty slots; a power of two.
    pub(super) fn new(capacity: usize) -> Self {
        Self { memory: Memory::new(capacity), mask: capacity - 1 }
    }

    /// Number of slots.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.mask + 1
    }

    #[inline(always)]
    fn slot(&self, position: usize) -> &Slot<T> {
        // SAFETY: the masked index is at most `mask`, and there are `mask + 1` slots.
        unsafe { self.memory.slots().get_unchecked(position & self.mask) }
    }

    /// The contiguous slots from `position` on, at most `most`.
    #[inline(always)]
    fn piece(&self, position: usize, most: usize) -> &[Slot<T>] {
        let behind = &self.memory.slots()[position & self.mask..];
        &behind[..most.min(behind.len())]
    }

    /// Takes the item out of the slot of `position`.
    ///
    /// # Safety
    /// The caller owns the slot, which holds an item, and takes it once.
    #[inline(always)]
    pub(super) unsafe fn take(&self, position: usize) -> T {
        // SAFETY: the slot is filled, and the caller owns it.
        self.slot(position).with(|from| unsafe { (*from).assume_init_read() })
    }

    /// Writes an item to the slot of `position`.
    ///
    /// # Safety
    /// The caller owns the slot, which is empty.
    #[inline(always)]
    pub(super) unsafe fn put(&self, position: usize, item: T) {
        // SAFETY: the caller owns the slot, so there is no other pointer to its content.
        self.slot(position).with_mut(|to| unsafe { (*to).write(item) });
    }

    /// Fills up to `most` slots from `next` on until the iterator ends. `next` is incremented per item, so that it is
    /// correct if the iterator panics.
    ///
    /// # Safety
    /// The caller owns `most` slots from `next` on, which are empty; `most` is at most the number of slots.
    #[inline(always)]
    pub(super) unsafe fn fill(&self, next: &mut usize, most: usize, items: &mut impl Iterator<Item = T>) {
        let end = next.wrapping_add(most);
        while *next != end {
            for slot in self.piece(*next, end.wrapping_sub(*next)) {
                let Some(item) = items.next() else { return };
                // SAFETY: the caller owns the slot, so there is no other pointer to its content.
                slot.with_mut(|to| unsafe { (*to).write(item) });
                *next = next.wrapping_add(1);
            }
        }
    }

    /// Number of items from `position` on, at most `most`, before the first that `keep` rejects.
    ///
    /// # Safety
    /// The caller owns the slots, which hold items; `most` is at most the number of slots.
    #[inline(always)]
    pub(super) unsafe fn count(
        &self,
        position: usize,
        most: usize,
        mut keep: impl FnMut(&T) -> bool,
    ) -> usize {
        let mut n = 0;
        while n < most {
            for slot in self.piece(position.wrapping_add(n), most - n) {
                // SAFETY: the slot is filled, and the caller owns it.
                if !slot.with(|from| keep(unsafe { (*from).assume_init_ref() })) {
                    return n;
                }
                n += 1;
            }
        }
        n
    }

    /// Copies all items to the slots from `position` on.
    ///
    /// # Safety
    /// The caller owns `items.len()` slots from `position` on, which are empty.
    #[inline(always)]
    pub(super) unsafe fn copy_in(&self, position: usize, items: &[T])
    where
        T: Copy,
    {
        let first = self.piece(position, items.len());
        let (front, back) = items.split_at(first.len());
        // SAFETY: the caller owns both pieces, which together are `items.len()` slots from `position` on.
        unsafe {
            memory::copy_in(first, front);
            memory::copy_in(self.piece(position.wrapping_add(front.len()), back.len()), back);
        }
    }

    /// Copies the items of the slots from `position` on to `items`.
    ///
    /// # Safety
    /// The caller owns `items.len()` slots from `position` on, which hold items.
    #[inline(always)]
    pub(super) unsafe fn copy_out(&self, position: usize, items: &mut [T])
    where
        T: Copy,
    {
        let first = self.piece(position, items.len());
        let (front, back) = items.split_at_mut(first.len());
        // SAFETY: the caller owns both pieces, which together are `items.len()` slots from `position` on.
        unsafe {
            memory::copy_out(first, front);
            memory::copy_out(self.piece(position.wrapping_add(front.len()), back.len()), back);
        }
    }
}

#[cfg(not(loom))]
mod memory {
    use super::{MaybeUninit, Slot};
    use core::cell::UnsafeCell;
    use mem::line::Padded;

    /// Two cache lines, because the adjacent-line prefetcher fetches lines in pairs.
    type Pair = Padded<UnsafeCell<[MaybeUninit<u8>; PAIR]>>;
    const PAIR: usize = align_of::<Padded<u8>>();
    const _: () = assert!(size_of::<Pair>() == PAIR);

    /// Slot storage as an array of line pairs.
    pub(super) struct Memory<T> {
        pairs: Box<[Pair]>,
        capacity: usize,
        items: core::marker::PhantomData<Slot<T>>,
    }

    impl<T> Memory<T> {
        pub(super) fn new(capacity: usize) -> Self {
            const { assert!(align_of::<T>() <= PAIR, "an item that is aligned to more than the ring is") };
            let bytes = capacity.checked_mul(size_of::<T>()).expect("a capacity that memory can hold");
            let pair = |_| Padded(UnsafeCell::new([const { MaybeUninit::uninit() }; PAIR]));
            let pairs = (0..bytes.div_ceil(PAIR)).map(pair).collect();
            Self { pairs, capacity, items: core::marker::PhantomData }
        }

        #[inline(always)]
        pub(super) fn slots(&self) -> &[Slot<T>] {
            // SAFETY: the pairs have at least the size and alignment of `capacity` slots; a slot may hold any bytes,
            // and both types are cells, so writes through either reference are allowed.
            unsafe { core::slice::from_raw_parts(self.pairs.as_ptr().cast(), self.capacity) }
        }
    }

    /// Copies items to contiguous slots.
    ///
    /// # Safety
    /// The caller owns the slots; `slots.len() == items.len()`.
    #[inline(always)]
    pub(super) unsafe fn copy_in<T: Copy>(slots: &[Slot<T>], items: &[T]) {
        debug_assert_eq!(slots.len(), items.len());
        // SAFETY: a slot is a cell of the size of its item, so all slots may be written through the first one's
        // address; there is no other pointer to their content, so they do not overlap the items.
        unsafe {
            slots.as_ptr().cast::<T>().cast_mut().copy_from_nonoverlapping(items.as_ptr(), items.len());
        }
    }

    /// Copies items from contiguous slots.
    ///
    /// # Safety
    /// The caller owns the slots, which hold items; `slots.len() == items.len()`.
    #[inline(always)]
    pub(super) unsafe fn copy_out<T: Copy>(slots: &[Slot<T>], items: &mut [T]) {
        debug_assert_eq!(slots.len(), items.len());
        // SAFETY: a slot is a cell of the size of its item, and each holds one; there are no concurrent writes.
        unsafe { slots.as_ptr().cast::<T>().copy_to_nonoverlapping(items.as_mut_ptr(), items.len()) };
    }
}

/// Under loom a slot is larger than its item, and accesses are checked: items are copied one at a time.
#[cfg(loom)]
mod memory {
    use super::{MaybeUninit, Slot};

    pub(super) struct Memory<T>(Box<[Slot<T>]>);

    impl<T> Memory<T> {
        pub(super) fn new(capacity: usize) -> Self {
            Self((0..capacity).map(|_| Slot::new(MaybeUninit::uninit())).collect())
        }

        pub(super) fn slots(&self) -> &[Slot<T>] {
            &self.0
        }
    }

    /// # Safety
    /// The caller owns the slots; `slots.len() == items.len()`.
    pub(super) unsafe fn copy_in<T: Copy>(slots: &[Slot<T>], items: &[T]) {
        for (slot, &item) in slots.iter().zip(items) {
            // SAFETY: the caller owns the slot.
            slot.with_mut(|to| unsafe { (*to).write(item) });
        }
    }

    /// # Safety
    /// The caller owns the slots, which hold items; `slots.len() == items.len()`.
    pub(super) unsafe fn copy_out<T: Copy>(slots: &[Slot<T>], items: &mut [T]) {
        for (slot, item) in slots.iter().zip(items) {
            // SAFETY: the caller owns the slot, which is filled.
            *item = slot.with(|from| unsafe { (*from).assume_init_read() });
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Whether the first slot is cache-line aligned.
    fn is_aligned<T>(capacity: usize) -> bool {
        let slots = Slots::<T>::new(capacity);
        assert_eq!((slots.len(), slots.memory.slots().len()), (capacity, capacity));
        slots.memory.slots().as_ptr().addr().is_multiple_of(mem::line::LINE)
    }

    #[test]
    fn slots_are_line_aligned_for_any_type() {
        for capacity in [1, 2, 64, 1024] {
            assert!(is_aligned::<u8>(capacity) && is_aligned::<u64>(capacity) && is_aligned::<()>(capacity));
            assert!(is_aligned::<[u64; 3]>(capacity) && is_aligned::<[u64; 4]>(capacity));
            assert!(is_aligned::<[u8; 4096]>(capacity));
        }
    }
}
