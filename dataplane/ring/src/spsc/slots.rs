//! The memory of a ring: slots in one piece, which begin on a line.
//!
//! A slot holds an item or nothing; which, and who may touch it, is the ring's business, and nothing here is ordered
//! against anything. Slots begin on a line so that a batch of some lines is in no more of them than it fills: what one
//! side reads would else share a line with what the other writes next.

use core::mem::MaybeUninit;
use mem::shim::UnsafeCell;
use memory::Memory;

type Slot<T> = UnsafeCell<MaybeUninit<T>>;

pub(super) struct Slots<T> {
    memory: Memory<T>,
    mask: usize,
}

impl<T> Slots<T> {
    /// So many empty slots: a power of two.
    pub(super) fn new(capacity: usize) -> Self {
        Self { memory: Memory::new(capacity), mask: capacity - 1 }
    }

    /// How many there are.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.mask + 1
    }

    #[inline(always)]
    fn slot(&self, position: usize) -> &Slot<T> {
        // SAFETY: there are `mask + 1` slots, and there were since they were made.
        unsafe { self.memory.slots().get_unchecked(position & self.mask) }
    }

    /// The slots from `position` on that lie in one piece, `most` of them at most.
    #[inline(always)]
    fn piece(&self, position: usize, most: usize) -> &[Slot<T>] {
        let behind = &self.memory.slots()[position & self.mask..];
        &behind[..most.min(behind.len())]
    }

    /// Takes the item out of the slot of `position`.
    ///
    /// # Safety
    /// The slot is the caller's and holds an item, which is taken once.
    #[inline(always)]
    pub(super) unsafe fn take(&self, position: usize) -> T {
        // SAFETY: the slot is filled and the caller's, by contract.
        self.slot(position).with(|from| unsafe { (*from).assume_init_read() })
    }

    /// Puts an item into the slot of `position`.
    ///
    /// # Safety
    /// The slot is the caller's and empty.
    #[inline(always)]
    pub(super) unsafe fn put(&self, position: usize, item: T) {
        // SAFETY: the slot is the caller's by contract, so nobody else has a pointer to its content.
        self.slot(position).with_mut(|to| unsafe { (*to).write(item) });
    }

    /// Puts items into the slots from `position` on until `most` are filled or the iterator ends; `next` goes up with
    /// each, so that it is right when the iterator panics.
    ///
    /// # Safety
    /// `most` slots from `next` on are the caller's and empty; `most` is not more than there are.
    #[inline(always)]
    pub(super) unsafe fn fill(&self, next: &mut usize, most: usize, items: &mut impl Iterator<Item = T>) {
        let end = next.wrapping_add(most);
        while *next != end {
            for slot in self.piece(*next, end.wrapping_sub(*next)) {
                let Some(item) = items.next() else { return };
                // SAFETY: the slot is the caller's by contract, so nobody else has a pointer to its content.
                slot.with_mut(|to| unsafe { (*to).write(item) });
                *next = next.wrapping_add(1);
            }
        }
    }

    /// Hands out the items of the slots from `next` up to `end`; `next` goes up before each, so that it is right when the
    /// closure panics.
    ///
    /// # Safety
    /// The slots are the caller's and hold items, each of which is taken once; they are no more than there are.
    #[inline(always)]
    pub(super) unsafe fn empty<B>(
        &self,
        next: &mut usize,
        end: usize,
        first: B,
        f: &mut impl FnMut(B, T) -> B,
    ) -> B {
        let mut folded = first;
        while *next != end {
            for slot in self.piece(*next, end.wrapping_sub(*next)) {
                *next = next.wrapping_add(1);
                // SAFETY: the slot is filled and the caller's, by contract.
                folded = f(folded, slot.with(|from| unsafe { (*from).assume_init_read() }));
            }
        }
        folded
    }

    /// How many of the `most` items from `position` on `keep` accepts, up to the first that it does not.
    ///
    /// # Safety
    /// The slots are the caller's and hold items; they are no more than there are.
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
                // SAFETY: the slot is filled and the caller's, by contract.
                if !slot.with(|from| keep(unsafe { (*from).assume_init_ref() })) {
                    return n;
                }
                n += 1;
            }
        }
        n
    }

    /// Copies all items into the slots from `position` on.
    ///
    /// # Safety
    /// As many slots are the caller's and empty.
    #[inline(always)]
    pub(super) unsafe fn copy_in(&self, position: usize, items: &[T])
    where
        T: Copy,
    {
        let first = self.piece(position, items.len());
        let (front, back) = items.split_at(first.len());
        // SAFETY: both pieces are the caller's by contract: together they are as many slots from `position` on.
        unsafe {
            memory::copy_in(first, front);
            memory::copy_in(self.piece(position.wrapping_add(front.len()), back.len()), back);
        }
    }

    /// Copies the items of the slots from `position` on over all of `items`.
    ///
    /// # Safety
    /// As many slots are the caller's and hold items.
    #[inline(always)]
    pub(super) unsafe fn copy_out(&self, position: usize, items: &mut [T])
    where
        T: Copy,
    {
        let first = self.piece(position, items.len());
        let (front, back) = items.split_at_mut(first.len());
        // SAFETY: both pieces are the caller's by contract: together they are as many slots from `position` on.
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

    /// Two lines: lines are fetched in pairs.
    type Pair = Padded<UnsafeCell<[MaybeUninit<u8>; PAIR]>>;
    const PAIR: usize = align_of::<Padded<u8>>();
    const _: () = assert!(size_of::<Pair>() == PAIR);

    /// Whole pairs of lines, of which slots are a view.
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
            // SAFETY: the pairs have as many bytes as so many slots and are aligned to more; a slot may hold any bytes,
            // and both are cells, so that what is written through one kind of reference is no surprise to the other.
            unsafe { core::slice::from_raw_parts(self.pairs.as_ptr().cast(), self.capacity) }
        }
    }

    /// Copies items into slots that lie in one piece.
    ///
    /// # Safety
    /// The slots are the caller's, and as many as the items.
    #[inline(always)]
    pub(super) unsafe fn copy_in<T: Copy>(slots: &[Slot<T>], items: &[T]) {
        debug_assert_eq!(slots.len(), items.len());
        // SAFETY: a slot is a cell of the size of its item, so the address of the first may be written through for all of
        // them; nobody else has a pointer to their content, so they are not the items.
        unsafe {
            slots.as_ptr().cast::<T>().cast_mut().copy_from_nonoverlapping(items.as_ptr(), items.len());
        }
    }

    /// Copies items out of slots that lie in one piece.
    ///
    /// # Safety
    /// The slots are the caller's, hold items, and are as many as `items`.
    #[inline(always)]
    pub(super) unsafe fn copy_out<T: Copy>(slots: &[Slot<T>], items: &mut [T]) {
        debug_assert_eq!(slots.len(), items.len());
        // SAFETY: a slot is a cell of the size of its item, and each of these holds one; nobody writes to them meanwhile.
        unsafe { slots.as_ptr().cast::<T>().copy_to_nonoverlapping(items.as_mut_ptr(), items.len()) };
    }
}

/// Under loom a slot is more than its item, and who touches it is checked: items are copied one after the other.
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
    /// The slots are the caller's, and as many as the items.
    pub(super) unsafe fn copy_in<T: Copy>(slots: &[Slot<T>], items: &[T]) {
        for (slot, &item) in slots.iter().zip(items) {
            // SAFETY: the slot is the caller's by contract.
            slot.with_mut(|to| unsafe { (*to).write(item) });
        }
    }

    /// # Safety
    /// The slots are the caller's, hold items, and are as many as `items`.
    pub(super) unsafe fn copy_out<T: Copy>(slots: &[Slot<T>], items: &mut [T]) {
        for (slot, item) in slots.iter().zip(items) {
            // SAFETY: the slot is the caller's and filled, by contract.
            *item = slot.with(|from| unsafe { (*from).assume_init_read() });
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Whether the first slot lies on a line.
    fn is_aligned<T>(capacity: usize) -> bool {
        let slots = Slots::<T>::new(capacity);
        assert_eq!((slots.len(), slots.memory.slots().len()), (capacity, capacity));
        slots.memory.slots().as_ptr().addr().is_multiple_of(mem::line::LINE)
    }

    #[test]
    fn slots_begin_on_a_line_whatever_lies_in_them() {
        for capacity in [1, 2, 64, 1024] {
            assert!(is_aligned::<u8>(capacity) && is_aligned::<u64>(capacity) && is_aligned::<()>(capacity));
            assert!(is_aligned::<[u64; 3]>(capacity) && is_aligned::<[u64; 4]>(capacity));
            assert!(is_aligned::<[u8; 4096]>(capacity));
        }
    }
}
