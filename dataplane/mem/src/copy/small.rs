//! Copies of at most 16 bytes with general-purpose registers: two possibly overlapping moves, no loop.

#[repr(C, packed)]
struct Unaligned<T>(T);

/// Copies one integer of type `T`, with one read and one write.
///
/// # Safety
/// `src` is readable and `dst` writable for the size of `T`.
#[inline(always)]
pub(super) unsafe fn one<T: Copy>(dst: *mut u8, src: *const u8) {
    // SAFETY: guaranteed by the caller; packed accesses need no alignment.
    unsafe { dst.cast::<Unaligned<T>>().write_volatile(src.cast::<Unaligned<T>>().read_volatile()) }
}

/// Copies the first and the last integer of a range of `len` bytes.
///
/// # Safety
/// Both ranges hold `len` bytes, and `len` is at least the size of `T`.
#[inline(always)]
unsafe fn ends<T: Copy>(dst: *mut u8, src: *const u8, len: usize) {
    let last = len - size_of::<T>();
    // SAFETY: `last + size_of::<T>() == len`.
    unsafe {
        one::<T>(dst, src);
        one::<T>(dst.add(last), src.add(last));
    }
}

/// Copies `len` bytes, at most 16.
///
/// # Safety
/// Both ranges hold `len` bytes.
#[inline(always)]
pub(super) unsafe fn up_to_16(dst: *mut u8, src: *const u8, len: usize) {
    debug_assert!(len <= 16);
    // SAFETY: each arm moves integers of at most `len` bytes.
    unsafe {
        match len {
            8.. => ends::<u64>(dst, src, len),
            4.. => ends::<u32>(dst, src, len),
            2.. => ends::<u16>(dst, src, len),
            1 => one::<u8>(dst, src),
            _ => {}
        }
    }
}
