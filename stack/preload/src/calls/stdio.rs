//! Streams of the C library (stdio) over sockets: `fdopen` returns a stream whose functions are the calls of this
//! library, because the streams of the C library reach the kernel without a call that can be replaced.

use super::descriptors::close;
use super::receive::read;
use super::send::write;
use crate::{real, table};
use libc::{FILE, c_char, c_int, c_uint, c_void, off64_t, size_t, ssize_t};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `cookie_io_functions_t` of the C library. The cookie is a number: the descriptor, and above it that of the stream.
#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: Option<unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int>,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

/// Addresses of the streams that [`fdopen`] opened, with their cookies.
static STREAMS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
/// Length of [`STREAMS`], so that `fileno` takes no lock for programs without such streams.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Number of the next stream, by which two of one descriptor differ.
static NEXT: AtomicUsize = AtomicUsize::new(0);

fn streams() -> MutexGuard<'static, Vec<(usize, usize)>> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes the list of streams. A program that has a stream has seen the call that opened it.
fn change(with: impl FnOnce(&mut Vec<(usize, usize)>)) {
    let mut streams = streams();
    with(&mut streams);
    COUNT.store(streams.len(), Ordering::Relaxed);
}

fn descriptor(cookie: usize) -> c_int {
    (cookie as c_uint).cast_signed()
}

unsafe extern "C" fn read_stream(cookie: *mut c_void, to: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: the stream's buffer.
    unsafe { read(descriptor(cookie.addr()), to.cast(), len) }
}

/// As `fopencookie` requires, an error is a smaller number and never negative.
unsafe extern "C" fn write_stream(cookie: *mut c_void, from: *const c_char, len: size_t) -> ssize_t {
    // SAFETY: the stream's buffer.
    unsafe { write_all(descriptor(cookie.addr()), from, len) }.cast_signed()
}

/// Writes all bytes. Returns the number of those before an error.
///
/// # Safety
/// `len` bytes from `from` are readable.
pub(super) unsafe fn write_all(fd: c_int, from: *const c_char, len: size_t) -> size_t {
    let mut done = 0;
    while done < len {
        // SAFETY: the rest of the caller's bytes.
        let n = unsafe { write(fd, from.add(done).cast(), len - done) };
        if n <= 0 {
            break;
        }
        done += n.unsigned_abs();
    }
    done
}

unsafe extern "C" fn close_stream(cookie: *mut c_void) -> c_int {
    change(|streams| streams.retain(|(_, of)| *of != cookie.addr()));
    // SAFETY: no pointer is passed.
    unsafe { close(descriptor(cookie.addr())) }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if table::find(fd).is_none() {
        // SAFETY: the program's arguments.
        return unsafe { real::fdopen(fd, mode) };
    }
    let functions = Functions { read: read_stream, write: write_stream, seek: None, close: close_stream };
    let cookie = NEXT.fetch_add(1, Ordering::Relaxed) << 32 | fd.cast_unsigned() as usize;
    // SAFETY: the functions use the cookie as a number only, and the mode is the program's.
    let stream = unsafe { fopencookie(std::ptr::without_provenance_mut(cookie), mode, functions) };
    if !stream.is_null() {
        change(|streams| streams.push((stream.addr(), cookie)));
    }
    stream
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fileno(stream: *mut FILE) -> c_int {
    if COUNT.load(Ordering::Relaxed) > 0
        && let Some((_, cookie)) = streams().iter().find(|(of, _)| *of == stream.addr())
    {
        return descriptor(*cookie);
    }
    // SAFETY: the program's stream.
    unsafe { real::fileno(stream) }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fileno_unlocked(stream: *mut FILE) -> c_int {
    // SAFETY: the program's stream; the lock of a stream does not protect its descriptor.
    unsafe { fileno(stream) }
}
