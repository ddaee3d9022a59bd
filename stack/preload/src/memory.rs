//! The program's buffers as slices.

use libc::{c_void, iovec, size_t};

/// The program's bytes.
///
/// # Safety
/// `len` bytes from `from` are readable and do not change during the call, as every socket call requires.
pub(crate) unsafe fn bytes<'a>(from: *const c_void, len: size_t) -> &'a [u8] {
    if from.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(from.cast(), len) }
}

/// The program's buffer.
///
/// # Safety
/// `len` bytes from `to` are writable, and used by no other thread during the call, as every socket call requires.
pub(crate) unsafe fn buffer<'a>(to: *mut c_void, len: size_t) -> &'a mut [u8] {
    if to.is_null() || len == 0 {
        return &mut [];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts_mut(to.cast(), len) }
}

/// The program's vectors.
///
/// # Safety
/// `count` vectors from `from` are readable.
pub(crate) unsafe fn vectors<'a>(from: *const iovec, count: usize) -> &'a [iovec] {
    if from.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(from, count) }
}
