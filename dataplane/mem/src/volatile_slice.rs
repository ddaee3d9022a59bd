//! A bounds-checked range of memory that another party may write at any time.
//!
//! The bytes of a [`VolatileSlice`] were inside one mapped region when it was created. It has no lifetime. Each
//! `unsafe` method requires that the caller holds the [`crate::GuestMemory`] that created it and that the processor
//! supports the copy kernel ([`crate::copy::supported`]). A `VolatileSlice` is never converted to a slice.

use crate::copy::Kernel;
use crate::line;
use crate::record::{Kind, note};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// `len` bytes of shared memory, inside one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)] // Copy kernels read lists of segments.
pub struct VolatileSlice {
    ptr: NonNull<u8>,
    len: u32,
}

/// An unaligned value.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned<T>(T);

// SAFETY: an address and a length; the memory table that keeps it valid is `Sync`.
unsafe impl Send for VolatileSlice {}
// SAFETY: as for `Send`; no method reads through a shared reference without its own contract.
unsafe impl Sync for VolatileSlice {}

impl VolatileSlice {
    /// The empty segment.
    pub const EMPTY: VolatileSlice = VolatileSlice { ptr: NonNull::dangling(), len: 0 };

    /// `len` bytes at `ptr`. The caller guarantees that they are inside one mapping.
    #[inline(always)]
    pub(crate) const fn new(ptr: NonNull<u8>, len: u32) -> Self {
        Self { ptr, len }
    }

    /// `len` bytes at `offset` from the start of `base`. The caller has checked both against the region.
    #[inline(always)]
    pub(crate) fn offset_in(base: VolatileSlice, offset: usize, len: u32) -> Self {
        // SAFETY: the caller compared the offset with the region's length, so the address is inside it.
        Self { ptr: unsafe { base.ptr.add(offset) }, len }
    }

    /// Bytes of private memory, for reading only. The owner of the bytes must neither change nor free them while the
    /// segment is used; it takes the place of the memory table in the contract of reading methods. Writing methods must
    /// not be called. At most 4 GiB.
    #[inline]
    pub fn of_private(bytes: &[u8]) -> Self {
        Self { ptr: NonNull::from(bytes).cast(), len: u32::try_from(bytes.len()).unwrap_or(u32::MAX) }
    }

    /// The segment without its first `n` bytes.
    ///
    /// # Safety
    /// `n` is at most the length of the segment.
    #[inline(always)]
    #[must_use]
    pub unsafe fn skip(self, n: u32) -> Self {
        // SAFETY: the caller guarantees that `n` is inside the segment.
        Self { ptr: unsafe { self.ptr.add(n as usize) }, len: self.len.wrapping_sub(n) }
    }

    /// Length in bytes.
    #[inline(always)]
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// Whether the length is zero.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Address in this process, for cache-line arithmetic only.
    #[inline(always)]
    pub fn addr(self) -> usize {
        self.ptr.as_ptr() as usize
    }

    /// Pointer to the first byte, for a system call that accesses at most [`VolatileSlice::len`] bytes. The memory
    /// table of this segment must be alive then.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The first `at` bytes and the rest. If `at` is beyond the end, the rest is empty.
    #[inline(always)]
    pub fn split_at(self, at: usize) -> (VolatileSlice, VolatileSlice) {
        let at = at.min(self.len());
        // SAFETY: `at` is at most the length, so the result is inside or one past the end of the segment.
        let rest = unsafe { self.ptr.add(at) };
        (VolatileSlice::new(self.ptr, at as u32), VolatileSlice::new(rest, self.len - at as u32))
    }

    /// `len` bytes from `offset`. Returns `None` if they exceed the segment.
    #[inline(always)]
    pub fn slice(self, offset: usize, len: usize) -> Option<VolatileSlice> {
        if offset.checked_add(len)? > self.len() {
            return None;
        }
        Some(self.split_at(offset).1.split_at(len).0)
    }

    /// Prefetches the line that holds byte `offset`, for reading. The offset may be out of bounds.
    #[inline(always)]
    pub fn prefetch_read(self, offset: usize) {
        line::prefetch_read(self.ptr.as_ptr().wrapping_add(offset));
    }

    /// Prefetches the line that holds byte `offset`, for writing. The offset may be out of bounds.
    #[inline(always)]
    pub fn prefetch_write(self, offset: usize) {
        line::prefetch_write(self.ptr.as_ptr().wrapping_add(offset));
    }

    /// Copies the first `to.len()` bytes to private memory.
    ///
    /// # Safety
    /// The memory table of this segment is alive, and `to.len() <= self.len()`.
    #[inline(always)]
    pub unsafe fn copy_out<K: Kernel>(self, to: &mut [u8]) {
        debug_assert!(to.len() <= self.len());
        note(Kind::Load, self.addr(), to.len());
        // SAFETY: the caller guarantees the source; the destination is a private slice, so they cannot overlap.
        unsafe { K::copy(to.as_mut_ptr(), self.ptr.as_ptr(), to.len()) }
    }

    /// Copies private bytes to the start of this segment.
    ///
    /// # Safety
    /// The memory table of this segment is alive, and `from.len() <= self.len()`.
    #[inline(always)]
    pub unsafe fn copy_in<K: Kernel>(self, from: &[u8]) {
        debug_assert!(from.len() <= self.len());
        note(Kind::Store, self.addr(), from.len());
        // SAFETY: the caller guarantees the destination; the source is a private slice, so they cannot overlap.
        unsafe { K::copy(self.ptr.as_ptr(), from.as_ptr(), from.len()) }
    }

    /// Copies the first `len` bytes of `from` to the start of this segment. The two may overlap if a guest's memory is
    /// mapped twice; the content of the overlap is then unspecified.
    ///
    /// # Safety
    /// The memory tables of both segments are alive, and `len` is at most the length of each.
    #[inline(always)]
    pub unsafe fn copy_from<K: Kernel>(self, from: VolatileSlice, len: usize) {
        debug_assert!(len <= self.len() && len <= from.len());
        note(Kind::Load, from.addr(), len);
        note(Kind::Store, self.addr(), len);
        // SAFETY: the caller guarantees both; kernels allow overlapping ranges (the content is unspecified).
        unsafe { K::copy(self.ptr.as_ptr(), from.ptr.as_ptr(), len) }
    }

    /// Writes `value` at `offset`, at any alignment, unless the memory already holds it. Skipping the write keeps the
    /// line shared between the caches of both cores.
    ///
    /// # Safety
    /// The memory table of this segment is alive; the value is inside the segment; `T` is an integer type.
    #[inline(always)]
    pub unsafe fn put_if_different<T: Copy + PartialEq>(self, offset: usize, value: T) {
        debug_assert!(offset + size_of::<T>() <= self.len());
        let place = self.unaligned(offset);
        note(Kind::Load, self.addr() + offset, size_of::<T>());
        // SAFETY: guaranteed by the caller; a packed type needs no alignment, and volatile accesses may race.
        unsafe {
            let there = place.read_volatile().0;
            if there != value {
                note(Kind::Store, self.addr() + offset, size_of::<T>());
                place.write_volatile(Unaligned(value));
            }
        }
    }

    /// Reads a little-endian 64-bit integer at `offset`, at any alignment. A concurrent write may tear the value.
    ///
    /// # Safety
    /// The memory table of this segment is alive; the eight bytes are inside the segment.
    #[inline(always)]
    pub unsafe fn load_unaligned(self, offset: usize) -> u64 {
        debug_assert!(offset + 8 <= self.len());
        note(Kind::Load, self.addr() + offset, 8);
        // SAFETY: guaranteed by the caller; a packed type needs no alignment, and volatile accesses may race.
        u64::from_le(unsafe { self.unaligned(offset).read_volatile().0 })
    }

    /// Writes a little-endian 64-bit integer at `offset`, at any alignment, unless the memory already holds it.
    ///
    /// # Safety
    /// The memory table of this segment is alive; the eight bytes are inside the segment.
    #[inline(always)]
    pub unsafe fn put_unaligned(self, offset: usize, value: u64) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.put_if_different(offset, value.to_le()) }
    }

    #[inline(always)]
    fn unaligned<T>(self, offset: usize) -> *mut Unaligned<T> {
        self.ptr.as_ptr().wrapping_add(offset).cast()
    }

    #[inline(always)]
    fn at<T>(self, offset: usize) -> *mut T {
        debug_assert!(offset + size_of::<T>() <= self.len());
        debug_assert!((self.addr() + offset).is_multiple_of(align_of::<T>()));
        self.ptr.as_ptr().wrapping_add(offset).cast()
    }
}

impl VolatileSlice {
    /// Sets `bits` of the byte at `offset`, in one access.
    ///
    /// # Safety
    /// The memory table of this segment is alive; the byte is inside the segment.
    #[inline(always)]
    pub unsafe fn fetch_or_u8(self, offset: usize, bits: u8, order: Ordering) {
        note(Kind::Store, self.addr() + offset, 1);
        // SAFETY: guaranteed by the caller; an atomic may change under a shared reference.
        unsafe { AtomicU8::from_ptr(self.at(offset)) }.fetch_or(bits, order);
    }
}

macro_rules! atomics {
    ($($int:ident $atomic:ident $load:ident $store:ident;)*) => { impl VolatileSlice { $(
        /// Reads one naturally aligned integer at `offset`, in one access.
        ///
        /// # Safety
        /// The memory table of this segment is alive; the integer is inside the segment and aligned.
        #[inline(always)]
        pub unsafe fn $load(self, offset: usize, order: Ordering) -> $int {
            note(Kind::Load, self.addr() + offset, size_of::<$int>());
            // SAFETY: guaranteed by the caller; an atomic may change under a shared reference.
            unsafe { $atomic::from_ptr(self.at(offset)) }.load(order)
        }

        /// Writes one naturally aligned integer at `offset`, in one access.
        ///
        /// # Safety
        /// The memory table of this segment is alive; the integer is inside the segment and aligned.
        #[inline(always)]
        pub unsafe fn $store(self, offset: usize, value: $int, order: Ordering) {
            note(Kind::Store, self.addr() + offset, size_of::<$int>());
            // SAFETY: guaranteed by the caller; an atomic may change under a shared reference.
            unsafe { $atomic::from_ptr(self.at(offset)) }.store(value, order);
        }
    )* } };
}

atomics! {
    u8 AtomicU8 load_u8 store_u8;
    u16 AtomicU16 load_u16 store_u16;
    u32 AtomicU32 load_u32 store_u32;
    u64 AtomicU64 load_u64 store_u64;
}
