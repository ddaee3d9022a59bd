//! Pointers of C as references and values.
//!
//! Must not return a reference to memory that the caller may free before the call ends.

use crate::call::{Failure, invalid};
use std::ffi::{CStr, c_char, c_void};

/// The object at a pointer; an error if it is null.
///
/// # Safety
/// The pointer is null, or points to a valid object that does not change during the call.
pub(crate) unsafe fn reference<'a, T>(at: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: by the caller's contract.
    unsafe { at.as_ref() }.ok_or_else(|| invalid(format_args!("{name} is null"), "pass an object"))
}

/// Text in UTF-8; `None` if the pointer is null.
///
/// # Safety
/// The pointer is null, or points to a string that ends with zero and does not change during the call.
pub(crate) unsafe fn optional_text<'a>(at: *const c_char, name: &str) -> Result<Option<&'a str>, Failure> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, so a string by the caller's contract.
    let text = unsafe { CStr::from_ptr(at) }.to_str();
    text.map(Some).map_err(|_| invalid(format_args!("{name} is not UTF-8"), "pass text in UTF-8"))
}

/// [`optional_text`] that may not be null.
///
/// # Safety
/// As of [`optional_text`].
pub(crate) unsafe fn text<'a>(at: *const c_char, name: &str) -> Result<&'a str, Failure> {
    // SAFETY: by the caller's contract.
    unsafe { optional_text(at, name) }?
        .ok_or_else(|| invalid(format_args!("{name} is null"), "pass a string that ends with zero"))
}

/// The bytes of an array, which may be null if it is empty.
///
/// # Safety
/// The pointer is null, or points to this many bytes, which do not change during the call.
pub(crate) unsafe fn bytes<'a>(at: *const c_void, length: usize) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if at.is_null() || length > isize::MAX as usize {
        return Err(invalid(format_args!("no {length} bytes are at {at:p}"), "pass a pointer to the bytes"));
    }
    // SAFETY: not null and not longer than an object can be; the bytes exist by the caller's contract.
    Ok(unsafe { std::slice::from_raw_parts(at.cast(), length) })
}

/// Writes a result, if the caller wants it.
///
/// # Safety
/// The pointer is null, or points to memory for the result.
pub(crate) unsafe fn store<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: not null, so memory for a value by the caller's contract.
        unsafe { to.write(value) };
    }
}

/// An error if a pointer for a result is null: the result would be lost.
pub(crate) fn wanted<T>(to: *mut T, name: &str) -> Result<(), Failure> {
    if to.is_null() {
        return Err(invalid(format_args!("{name} is null"), "pass a pointer to memory for the result"));
    }
    Ok(())
}
