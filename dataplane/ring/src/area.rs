//! One area of a virtqueue in foreign memory, with its bounds checked once.
//!
//! An [`Area`] owns the map that its bytes lie in, so its loads and stores are safe for as long as it lives.
//! Offsets are computed by this crate from indices already reduced below the ring's size; they are asserted in
//! debug builds and hold by construction in release builds.

use crate::RingFault;
use core::marker::PhantomData;
use core::sync::atomic::Ordering;
use mem::{GuestMemory, Translator, VolatileSlice};
use std::sync::Arc;

/// Foreign bytes with checked bounds.
#[derive(Debug)]
pub(crate) struct Area {
    seg: VolatileSlice,
    _map: Arc<GuestMemory>,
}

impl Area {
    /// `len` bytes at `user`, aligned to `align`.
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

    /// The same bytes, as a value that a loop keeps in registers.
    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_> {
        View { seg: self.seg, _area: PhantomData }
    }

    /// Writes two little-endian integers of 32 bits in a row, unless they stand there already: then the line stays in both
    /// cores' caches.
    #[inline(always)]
    pub(crate) fn put_two32(&self, offset: usize, first: u32, second: u32) {
        // SAFETY: as in `load16`, but for the alignment, which this store does not need.
        unsafe { self.seg.put_unaligned(offset, u64::from(first) | u64::from(second) << 32) }
    }

    #[inline(always)]
    pub(crate) fn load16(&self, offset: usize, order: Ordering) -> u16 {
        // SAFETY: the area owns its map; the offset is below the checked length and aligned (module text).
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

/// An [`Area`] for loads, as a value.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    seg: VolatileSlice,
    _area: PhantomData<&'a Area>,
}

impl View<'_> {
    /// Four little-endian integers of 16 bits that lie in a row, as one word.
    #[inline(always)]
    pub(crate) fn load_four16(self, offset: usize) -> u64 {
        // SAFETY: as in `Area::load16`, but for the alignment, which this load does not need.
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
