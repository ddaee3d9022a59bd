//! One area of a virtqueue in foreign memory, with its bounds checked once.
//!
//! An [`Area`] owns the map that its bytes lie in, so its loads and stores are safe for as long as it lives.
//! Offsets are computed by this crate from indices already reduced below the ring's size; they are asserted in
//! debug builds and hold by construction in release builds.

use crate::RingFault;
use core::sync::atomic::Ordering;
use mem::{Map, Seg, Translator};
use std::sync::Arc;

/// Where a ring's areas are, in user addresses of the front end, and where to start in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Entries.
    pub size: u16,
    /// Descriptor area.
    pub descriptors: u64,
    /// Driver area: the available ring, or the driver's event suppression.
    pub driver: u64,
    /// Device area: the used ring, or the device's event suppression.
    pub device: u64,
    /// Start: split: the next available and used index; packed: bits 0-14 next available, bit 15 its wrap
    /// counter, bits 16-30 next used, bit 31 its wrap counter.
    pub base: u32,
    /// `VIRTIO_F_EVENT_IDX` was negotiated.
    pub event_idx: bool,
    /// `VIRTIO_F_INDIRECT_DESC` was negotiated.
    pub indirect: bool,
    /// `VIRTIO_F_IN_ORDER` was negotiated.
    pub in_order: bool,
}

/// Foreign bytes with checked bounds.
#[derive(Debug)]
pub(crate) struct Area {
    seg: Seg,
    _map: Arc<Map>,
}

impl Area {
    /// `len` bytes at `user`, aligned to `align`.
    pub(crate) fn new(
        map: &Arc<Map>,
        name: &'static str,
        user: u64,
        len: usize,
        align: usize,
    ) -> Result<Self, RingFault> {
        Self::over(map, name, map.by_user(user, len as u32), align)
    }

    /// `len` bytes at the guest-physical address `guest`, aligned to `align`.
    pub(crate) fn of_guest(
        map: &Arc<Map>,
        name: &'static str,
        guest: u64,
        len: usize,
        align: usize,
    ) -> Result<Self, RingFault> {
        let seg = Translator::new(map.clone()).translate(guest, len as u32);
        Self::over(map, name, seg, align)
    }

    fn over(map: &Arc<Map>, name: &'static str, seg: Option<Seg>, align: usize) -> Result<Self, RingFault> {
        let seg = seg.ok_or(RingFault::Area(name))?;
        if !seg.addr().is_multiple_of(align) {
            return Err(RingFault::Area(name));
        }
        Ok(Self { seg, _map: map.clone() })
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
