//! A segment: a checked stretch of memory that another party may write at any time.
//!
//! A [`VolatileSlice`] says that its bytes lay inside one mapped region when it was made. It carries no lifetime: whoever
//! reads or writes through it must hold the [`crate::Map`] that made it, and that is the contract of each
//! `unsafe` method here, as is that the copy kernel it names runs on this processor ([`crate::copy::supported`]).
//! A segment never turns into a slice.

use crate::copy::Kernel;
use crate::line;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// `len` bytes of foreign memory, inside one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)] // Copy kernels read lists of segments.
pub struct VolatileSlice {
    ptr: NonNull<u8>,
    len: u32,
}

/// A value at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned<T>(T);

// SAFETY: a segment is an address and a length; what makes it valid is the map, which is `Sync`.
unsafe impl Send for VolatileSlice {}
// SAFETY: as for `Send`; no method reads through a shared reference without its own contract.
unsafe impl Sync for VolatileSlice {}

impl VolatileSlice {
    /// A segment without bytes.
    pub const EMPTY: VolatileSlice = VolatileSlice { ptr: NonNull::dangling(), len: 0 };

    /// `len` bytes at `ptr`; the caller vouches that they lie inside one mapping.
    #[inline(always)]
    pub(crate) const fn new(ptr: NonNull<u8>, len: u32) -> Self {
        Self { ptr, len }
    }

    /// `len` bytes, `offset` past the start of `base`; the caller has checked both against the region.
    #[inline(always)]
    pub(crate) fn offset_in(base: VolatileSlice, offset: usize, len: u32) -> Self {
        // SAFETY: the translator compared the offset with the region's length, so this stays inside it.
        Self { ptr: unsafe { base.ptr.add(offset) }, len }
    }

    /// The segment without its first `n` bytes.
    ///
    /// # Safety
    /// It has at least `n` bytes.
    #[inline(always)]
    #[must_use]
    pub unsafe fn skip(self, n: u32) -> Self {
        // SAFETY: by contract, this stays inside the segment.
        Self { ptr: unsafe { self.ptr.add(n as usize) }, len: self.len.wrapping_sub(n) }
    }

    /// Bytes in this segment.
    #[inline(always)]
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// Whether there are no bytes.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The address in this process, for arithmetic on cache lines only.
    #[inline(always)]
    pub fn addr(self) -> usize {
        self.ptr.as_ptr() as usize
    }

    /// The first byte, for a system call that reads or writes up to [`VolatileSlice::len`] bytes there. The map that made this
    /// segment must be alive then.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The first `at` bytes and the rest; `at` beyond the end gives all and nothing.
    #[inline(always)]
    pub fn split_at(self, at: usize) -> (VolatileSlice, VolatileSlice) {
        let at = at.min(self.len());
        // SAFETY: `at` is at most the length, so the result is inside or one past the end of the stretch.
        let rest = unsafe { self.ptr.add(at) };
        (VolatileSlice::new(self.ptr, at as u32), VolatileSlice::new(rest, self.len - at as u32))
    }

    /// `len` bytes from `offset`, if they are all inside.
    #[inline(always)]
    pub fn slice(self, offset: usize, len: usize) -> Option<VolatileSlice> {
        if offset.checked_add(len)? > self.len() {
            return None;
        }
        Some(self.split_at(offset).1.split_at(len).0)
    }

    /// Fetches the line that holds byte `offset`, for reading. A hint: the offset need not be inside.
    #[inline(always)]
    pub fn prefetch_read(self, offset: usize) {
        line::prefetch_read(self.ptr.as_ptr().wrapping_add(offset));
    }

    /// Fetches the line that holds byte `offset`, for writing. A hint: the offset need not be inside.
    #[inline(always)]
    pub fn prefetch_write(self, offset: usize) {
        line::prefetch_write(self.ptr.as_ptr().wrapping_add(offset));
    }

    /// Copies the first `to.len()` bytes out into private memory.
    ///
    /// # Safety
    /// The map that made this segment is alive, and `to.len() <= self.len()`.
    #[inline(always)]
    pub unsafe fn copy_out<K: Kernel>(self, to: &mut [u8]) {
        debug_assert!(to.len() <= self.len());
        // SAFETY: source by contract; the destination is a private slice, so they cannot overlap.
        unsafe { K::copy(to.as_mut_ptr(), self.ptr.as_ptr(), to.len()) }
    }

    /// Copies private bytes to the front of this segment.
    ///
    /// # Safety
    /// The map that made this segment is alive, and `from.len() <= self.len()`.
    #[inline(always)]
    pub unsafe fn copy_in<K: Kernel>(self, from: &[u8]) {
        debug_assert!(from.len() <= self.len());
        // SAFETY: destination by contract; the source is a private slice, so they cannot overlap.
        unsafe { K::copy(self.ptr.as_ptr(), from.as_ptr(), from.len()) }
    }

    /// Copies the first `len` bytes of `from`, foreign too, to the front of this segment. The two may overlap
    /// where one guest's memory is mapped twice; then the bytes of the overlap are that guest's own loss.
    ///
    /// # Safety
    /// The maps that made both segments are alive, and `len` is at most the length of each.
    #[inline(always)]
    pub unsafe fn copy_from<K: Kernel>(self, from: VolatileSlice, len: usize) {
        debug_assert!(len <= self.len() && len <= from.len());
        // SAFETY: both by contract; kernels are defined for overlapping ranges (the content is unspecified).
        unsafe { K::copy(self.ptr.as_ptr(), from.ptr.as_ptr(), len) }
    }

    /// Writes `value` at `offset`, at any alignment, unless it already stands there. A line that is only read
    /// stays in the caches of both cores; one that is written has to move.
    ///
    /// # Safety
    /// The map that made this segment is alive; the value lies inside; `T` is an integer, so any bytes are one.
    #[inline(always)]
    pub unsafe fn put_if_different<T: Copy + PartialEq>(self, offset: usize, value: T) {
        debug_assert!(offset + size_of::<T>() <= self.len());
        let place = self.unaligned(offset);
        // SAFETY: by contract; a packed type needs no alignment, and volatile accesses may race.
        unsafe {
            let there = place.read_volatile().0;
            if there != value {
                place.write_volatile(Unaligned(value));
            }
        }
    }

    /// Reads eight bytes at `offset`, at any alignment, as a little-endian integer. Fields that another party writes
    /// meanwhile may be torn.
    ///
    /// # Safety
    /// The map that made this segment is alive; the eight bytes lie inside.
    #[inline(always)]
    pub unsafe fn load_unaligned(self, offset: usize) -> u64 {
        debug_assert!(offset + 8 <= self.len());
        // SAFETY: by contract; a packed type needs no alignment, and volatile accesses may race.
        u64::from_le(unsafe { self.unaligned(offset).read_volatile().0 })
    }

    /// Writes eight bytes at `offset`, at any alignment, unless they already stand there.
    ///
    /// # Safety
    /// The map that made this segment is alive; the eight bytes lie inside.
    #[inline(always)]
    pub unsafe fn put_unaligned(self, offset: usize, value: u64) {
        // SAFETY: by contract.
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

macro_rules! atomics {
    ($($int:ident $atomic:ident $load:ident $store:ident;)*) => { impl VolatileSlice { $(
        /// Reads one naturally aligned integer at `offset`, in one access.
        ///
        /// # Safety
        /// The map that made this segment is alive; the integer lies inside and is aligned.
        #[inline(always)]
        pub unsafe fn $load(self, offset: usize, order: Ordering) -> $int {
            // SAFETY: by contract; an atomic is the one type whose value others may change under a reference.
            unsafe { $atomic::from_ptr(self.at(offset)) }.load(order)
        }

        /// Writes one naturally aligned integer at `offset`, in one access.
        ///
        /// # Safety
        /// The map that made this segment is alive; the integer lies inside and is aligned.
        #[inline(always)]
        pub unsafe fn $store(self, offset: usize, value: $int, order: Ordering) {
            // SAFETY: by contract; an atomic is the one type whose value others may change under a reference.
            unsafe { $atomic::from_ptr(self.at(offset)) }.store(value, order);
        }
    )* } };
}

atomics! {
    u16 AtomicU16 load_u16 store_u16;
    u32 AtomicU32 load_u32 store_u32;
    u64 AtomicU64 load_u64 store_u64;
}
