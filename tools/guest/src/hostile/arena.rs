//! The memory of an attack, shared by the attacker (one or more regions with the same content) or with it, and
//! bounds-checked access to it.

use super::super::GuestError;
use super::super::memory::Memory;
use core::sync::atomic::Ordering;
use mem::{GuestMemory, Translator, VolatileSlice};
use port::virtio_user::SharedRegion;
use std::sync::Arc;

/// Regions of equal length. Rings and receive buffers lie in the first one.
pub(super) struct Arena(Vec<Memory>);

/// A range of the first region. Every access is checked against its length.
pub(super) struct Area {
    seg: VolatileSlice,
    _map: Arc<GuestMemory>,
}

impl Arena {
    /// `regions` regions of `len` bytes each.
    pub(super) fn new(regions: u8, len: u64) -> Result<Self, GuestError> {
        (0..regions).map(|n| Memory::nth(n, len)).collect::<Result<_, _>>().map(Self)
    }

    /// The regions as passed to the front end.
    pub(super) fn shared(&self) -> Vec<SharedRegion<'_>> {
        self.0.iter().map(Memory::shared).collect()
    }

    /// `len` bytes from `offset` of the first region.
    pub(super) fn area(&self, offset: u64, len: u64) -> Result<Area, GuestError> {
        area(self.0.first(), 0, offset, len)
    }

    /// Writes `bytes` at `offset` of every region.
    pub(super) fn fill(&self, offset: u64, bytes: &[u8]) -> Result<(), GuestError> {
        for (n, memory) in (0..).zip(&self.0) {
            area(Some(memory), n, offset, bytes.len() as u64)?.fill(bytes);
        }
        Ok(())
    }

    /// The guest-physical address of byte `offset` of region `n`; `n` wraps around at the number of regions.
    pub(super) fn guest(&self, n: usize, offset: u64) -> u64 {
        Memory::guest(offset) + Memory::distance((n % self.0.len().max(1)) as u8)
    }
}

impl Area {
    /// `len` bytes at a user address of a front end, as used for rings. Returns `None` if the range is outside its
    /// memory or the address is odd.
    pub(super) fn of_user(map: &Arc<GuestMemory>, address: u64, len: u32) -> Option<Self> {
        let seg = map.by_user(address, len).filter(|seg| seg.addr().is_multiple_of(2))?;
        Some(Self { seg, _map: map.clone() })
    }

    /// `len` bytes at a guest-physical address, as used for buffers. Areas with arbitrary alignment support only
    /// [`Area::fill`] and [`Area::read`].
    pub(super) fn of_guest(translator: &mut Translator, address: u64, len: u32) -> Option<Self> {
        let seg = translator.translate(address, len)?;
        Some(Self { seg, _map: translator.map().clone() })
    }

    /// Length in bytes.
    pub(super) fn len(&self) -> usize {
        self.seg.len()
    }

    /// Copies from the start of the area; bytes beyond the area stay unchanged.
    pub(super) fn read(&self, bytes: &mut [u8]) {
        let len = bytes.len().min(self.seg.len());
        // SAFETY: the map is held by `self`; both slices have `len` bytes.
        unsafe { self.seg.split_at(len).0.copy_out::<mem::copy::Portable>(&mut bytes[..len]) };
    }
}

fn area(memory: Option<&Memory>, n: u8, offset: u64, len: u64) -> Result<Area, GuestError> {
    let outside = || GuestError::Memory("a range lies outside the shared memory".into());
    let memory = memory.ok_or_else(outside)?;
    let len = u32::try_from(len).map_err(|_| outside())?;
    let seg = memory.map.by_user(Memory::user(offset) + Memory::distance(n), len).ok_or_else(outside)?;
    Ok(Area { seg, _map: memory.map.clone() })
}

macro_rules! access {
    (loads { $($int:ident $load:ident $from:ident;)* } stores { $($word:ident $store:ident $to:ident;)* }) => { impl Area {
        $(#[inline(always)]
        pub(super) fn $load(&self, at: usize, order: Ordering) -> $int {
            assert!(at + size_of::<$int>() <= self.seg.len() && at.is_multiple_of(size_of::<$int>()));
            // SAFETY: the map is held by `self`; bounds and alignment are checked above (areas of the arena are aligned
            // to 128 bytes, those of `of_user` to 2 and are only accessed by 16-bit integers).
            unsafe { self.seg.$from(at, order) }
        })*
        $(#[inline(always)]
        pub(super) fn $store(&self, at: usize, value: $word, order: Ordering) {
            assert!(at + size_of::<$word>() <= self.seg.len() && at.is_multiple_of(size_of::<$word>()));
            // SAFETY: as above.
            unsafe { self.seg.$to(at, value, order) }
        })*
    } };
}

access! {
    loads {
        u16 load16 load_u16;
        u32 load32 load_u32;
        u64 load64 load_u64;
    }
    stores {
        u16 store16 store_u16;
        u64 store64 store_u64;
    }
}

impl Area {
    /// Copies `bytes` to the start of the area, truncated to its length.
    pub(super) fn fill(&self, bytes: &[u8]) {
        let len = bytes.len().min(self.seg.len());
        // SAFETY: the map is held by `self`; the bytes are truncated to the length of the slice.
        unsafe { self.seg.copy_in::<mem::copy::Portable>(&bytes[..len]) };
    }
}
