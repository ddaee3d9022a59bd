//! One area of a virtqueue in shared memory, bounds-checked at construction.
//!
//! An [`Area`] holds a reference to its memory table, so its loads and stores are safe while it lives. This crate
//! computes offsets from indices already reduced below the queue size; they are in bounds by construction, and asserted
//! in debug builds.

use crate::RingFault;
use core::marker::PhantomData;
use core::sync::atomic::Ordering;
use mem::{GuestMemory, Translator, VolatileSlice};
use std::sync::Arc;

/// Shared memory with checked bounds.
#[derive(Debug)]
pub(crate) struct Area {
    seg: VolatileSlice,
    _map: Arc<GuestMemory>,
}

impl Area {
    /// `len` bytes at front-end virtual address `user`, aligned to `align`.
    pub(crate) fn new(
        map: &Arc<GuestMemory>,
        name: &'static str,
        user: u64,
        len: usize,
        align: usize,
    ) -> Result<Self, RingFault> {
        Self::over(map, name, map.by_user(user, len as u32), align)
    }

    /// `len` bytes at the guest-physical address `guest`, aligned to `align`.
    pub(crate) fn of_guest(
        map: &Arc<GuestMemory>,
        name: &'static str,
        guest: u64,
        len: usize,
        align: usize,
    ) -> Result<Self, RingFault> {
        let seg = Translator::new(map.clone()).translate(guest, len as u32);
        Self::over(map, name, seg, align)
    }

    fn over(
        map: &Arc<GuestMemory>,
        name: &'static str,
        seg: Option<VolatileSlice>,
        align: usize,
    ) -> Result<Self, RingFault> {
        let seg = seg.ok_or(RingFault::Area(name))?;
        if !seg.addr().is_multiple_of(align) {
            return Err(RingFault::Area(name));
        }
        Ok(Self { seg, _map: map.clone() })
    }

    /// The same bytes as a `Copy` value, which a loop keeps in registers.
    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_> {
        View { seg: self.seg, _area: PhantomData }
    }

    /// Writes two consecutive little-endian 32-bit integers unless the memory already holds them; skipping the write
    /// keeps the line in both cores' caches.
    #[inline(always)]
    pub(crate) fn put_two32(&self, offset: usize, first: u32, second: u32) {
        // SAFETY: as in `load16`, except for alignment, which this store does not need.
        unsafe { self.seg.put_unaligned(offset, u64::from(first) | u64::from(second) << 32) }
    }

    #[inline(always)]
    pub(crate) fn load16(&self, offset: usize, order: Ordering) -> u16 {
        // SAFETY: the area keeps its memory table alive; the offset is aligned and below the checked length (module
        // docs).
        unsafe { self.seg.load_u16(offset, order) }
    }

    #[inline(always)]
    pub(crate) fn store16(&self, offset: usize, value: u16, order: Ordering) {
        // SAFETY: as in `load16`.
        unsafe { self.seg.store_u16(offset, value, order) }
    }

    #[inline(always)]
    pub(crate) fn load32(&self, offset: usize, order: Ordering) -> u32 {
        // SAFETY: as in `load16`.
        unsafe { self.seg.load_u32(offset, order) }
    }

    #[inline(always)]
    pub(crate) fn store32(&self, offset: usize, value: u32, order: Ordering) {
        // SAFETY: as in `load16`.
        unsafe { self.seg.store_u32(offset, value, order) }
    }

    #[inline(always)]
    pub(crate) fn load64(&self, offset: usize, order: Ordering) -> u64 {
        // SAFETY: as in `load16`.
        unsafe { self.seg.load_u64(offset, order) }
    }

    #[inline(always)]
    pub(crate) fn store64(&self, offset: usize, value: u64, order: Ordering) {
        // SAFETY: as in `load16`.
        unsafe { self.seg.store_u64(offset, value, order) }
    }

    #[inline(always)]
    pub(crate) fn prefetch_read(&self, offset: usize) {
        self.seg.prefetch_read(offset);
    }
}

/// A `Copy` view of an [`Area`].
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    seg: VolatileSlice,
    _area: PhantomData<&'a Area>,
}

impl View<'_> {
    /// Four consecutive little-endian 16-bit integers, as one word.
    #[inline(always)]
    pub(crate) fn load_four16(self, offset: usize) -> u64 {
        // SAFETY: as in `Area::load16`, except for alignment, which this load does not need.
        unsafe { self.seg.load_unaligned(offset) }
    }

    #[inline(always)]
    pub(crate) fn load16(self, offset: usize, order: Ordering) -> u16 {
        // SAFETY: as in `Area::load16`.
        unsafe { self.seg.load_u16(offset, order) }
    }

    #[inline(always)]
    pub(crate) fn load32(self, offset: usize, order: Ordering) -> u32 {
        // SAFETY: as in `Area::load16`.
        unsafe { self.seg.load_u32(offset, order) }
    }

    #[inline(always)]
    pub(crate) fn load64(self, offset: usize, order: Ordering) -> u64 {
        // SAFETY: as in `Area::load16`.
        unsafe { self.seg.load_u64(offset, order) }
    }

    #[inline(always)]
    pub(crate) fn store64(self, offset: usize, value: u64, order: Ordering) {
        // SAFETY: as in `Area::load16`.
        unsafe { self.seg.store_u64(offset, value, order) }
    }

    #[inline(always)]
    pub(crate) fn prefetch_read(self, offset: usize) {
        self.seg.prefetch_read(offset);
    }
}
