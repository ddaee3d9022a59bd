//! Counted buffers: what programs send, and received data that they keep.

use crate::call::{Failure, call, code, invalid};
use crate::pointer::{bytes, reference, store, wanted};
use host::Buffer;
use stack::Slice;
use std::ffi::{c_int, c_void};

/// A counted handle of bytes that do not change. Received data has one, and is sent again without a copy by it. Buffers
/// may be used and freed by any thread.
pub struct linerate_buffer {
    pub(crate) data: Slice<Buffer>,
    /// Whether linerate_buffer_free frees it; otherwise it belongs to a batch.
    pub(crate) is_kept: bool,
}

/// Called when no connection and no buffer refers to the bytes any more, on the thread that ends the last use. It must
/// not call functions of a host and must return.
pub type linerate_release = Option<unsafe extern "C" fn(argument: *mut c_void)>;

/// Bytes of the program.
struct External {
    bytes: *const u8,
    length: usize,
    release: linerate_release,
    argument: *mut c_void,
}

// SAFETY: the bytes do not change and any thread may read them, and the program permits that any thread calls its
// release function; both by the contract of `linerate_buffer_wrap`.
unsafe impl Send for External {}
// SAFETY: as above; a shared reference only reads.
unsafe impl Sync for External {}

impl AsRef<[u8]> for External {
    fn as_ref(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: not null and not longer than an object (`linerate_buffer_wrap`); the bytes exist unchanged until the
        // release function is called, which `drop` does.
        unsafe { std::slice::from_raw_parts(self.bytes, self.length) }
    }
}

impl Drop for External {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: a function of the program for this argument, called once, by the contract of
            // `linerate_buffer_wrap`.
            unsafe { release(self.argument) };
        }
    }
}

fn kept(data: Slice<Buffer>) -> *mut linerate_buffer {
    Box::into_raw(Box::new(linerate_buffer { data, is_kept: true }))
}

/// A slice can be sent only if its length fits the arithmetic of sequence numbers.
fn limited(length: usize) -> Result<(), Failure> {
    if i32::try_from(length).is_err() {
        return Err(invalid(format_args!("{length} bytes exceed a buffer"), "pass at most 2 GiB at a time"));
    }
    Ok(())
}

/// Creates a buffer with a copy of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_buffer_copy(
    bytes: *const c_void,
    length: usize,
    buffer: *mut *mut linerate_buffer,
) -> c_int {
    call(|| {
        wanted(buffer, "buffer")?;
        limited(length)?;
        // SAFETY: null or this many bytes, by the contract of the interface.
        let copy = unsafe { self::bytes(bytes, length) }?.to_vec();
        // SAFETY: not null, so memory for a pointer by the contract of the interface.
        unsafe { store(buffer, kept(Slice::new(copy.into()))) };
        Ok(0)
    })
}

/// Creates a buffer of `length` bytes of the program without a copy. The bytes must stay unchanged until `release` is
/// called with `argument`, which happens once, after the buffer was freed and all data sent from it was acknowledged.
/// `release` may be NULL for bytes that never change. If the call fails, `release` is not called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_buffer_wrap(
    bytes: *const c_void,
    length: usize,
    release: linerate_release,
    argument: *mut c_void,
    buffer: *mut *mut linerate_buffer,
) -> c_int {
    call(|| {
        wanted(buffer, "buffer")?;
        limited(length)?;
        // SAFETY: null or this many bytes, by the contract of the interface.
        unsafe { self::bytes(bytes, length) }?;
        let external = External { bytes: bytes.cast(), length, release, argument };
        // SAFETY: not null, so memory for a pointer by the contract of the interface.
        unsafe { store(buffer, kept(Slice::new(Buffer::owned(external)))) };
        Ok(0)
    })
}

/// Creates a further handle of a buffer, which shares its bytes. Received data that is used after the next
/// linerate_wait must be kept by it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_buffer_keep(
    buffer: *const linerate_buffer,
    copy: *mut *mut linerate_buffer,
) -> c_int {
    call(|| {
        wanted(copy, "copy")?;
        // SAFETY: null or a buffer, by the contract of the interface.
        let data = unsafe { reference(buffer, "buffer") }?.data.clone();
        // SAFETY: not null, so memory for a pointer by the contract of the interface.
        unsafe { store(copy, kept(data)) };
        Ok(0)
    })
}

/// Frees a buffer that the program has created or kept. Does nothing for NULL. Data that was sent from it is not
/// affected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_buffer_free(buffer: *mut linerate_buffer) -> c_int {
    call(|| {
        if buffer.is_null() {
            return Ok(0);
        }
        // SAFETY: not null, so a buffer by the contract of the interface.
        if !unsafe { reference(buffer.cast_const(), "buffer") }?.is_kept {
            const TEXT: &std::ffi::CStr =
                c"the buffer belongs to a batch, which frees it; free only what the program has made or kept";
            return Err(Failure::fixed(code::INVALID, TEXT));
        }
        // SAFETY: made by `kept`, and not used again.
        drop(unsafe { Box::from_raw(buffer) });
        Ok(0)
    })
}

/// Stores the address and the length of a buffer's bytes. The address is NULL if a peer of a port can still change the
/// bytes; linerate_buffer_read copies them then. Either pointer may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_buffer_bytes(
    buffer: *const linerate_buffer,
    bytes: *mut *const u8,
    length: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: null or a buffer, by the contract of the interface.
        let data = &unsafe { reference(buffer, "buffer") }?.data;
        // SAFETY: null or memory for a result, by the contract of the interface.
        unsafe {
            store(bytes, address(data));
            store(length, data.len());
        }
        Ok(0)
    })
}

/// Copies `length` bytes of a buffer, from offset `offset`, to `to`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_buffer_read(
    buffer: *const linerate_buffer,
    offset: usize,
    to: *mut c_void,
    length: usize,
) -> c_int {
    call(|| {
        // SAFETY: null or a buffer, by the contract of the interface.
        let data = &unsafe { reference(buffer, "buffer") }?.data;
        part(data, offset, length)?;
        if length == 0 {
            return Ok(0);
        }
        wanted(to, "to")?;
        // SAFETY: not null, and this many bytes by the contract of the interface.
        data.copy_to(offset, unsafe { std::slice::from_raw_parts_mut(to.cast(), length) });
        Ok(0)
    })
}

/// Address of the bytes of private memory; null otherwise.
pub(crate) fn address(data: &Slice<Buffer>) -> *const u8 {
    let bytes = data.data().bytes().and_then(|bytes| bytes.get(data.range()));
    bytes.map_or(std::ptr::null(), <[u8]>::as_ptr)
}

/// A range of a buffer's bytes.
pub(crate) fn part(data: &Slice<Buffer>, offset: usize, length: usize) -> Result<Slice<Buffer>, Failure> {
    match offset.checked_add(length) {
        Some(end) if end <= data.len() => {
            let mut part = data.clone();
            part.narrow(offset..end);
            Ok(part)
        }
        _ => {
            let reason = format_args!("the buffer has {} bytes, not {length} from {offset}", data.len());
            Err(invalid(reason, "pass a range of the buffer"))
        }
    }
}
