//! Calls that receive.

use crate::socket::{Active, Socket};
use crate::table::active;
use crate::{address, error, memory, real};
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use stack::Endpoint;
use std::io;

/// Buffers of a call.
type Buffers<'a> = &'a mut [&'a mut [u8]];

/// Receives into several buffers. Returns the number of bytes, the sender, and whether a datagram was truncated.
fn receive(
    (socket, active): (&Socket, &Active),
    buffers: Buffers<'_>,
    flags: c_int,
) -> io::Result<(usize, Endpoint, bool)> {
    let peek = flags & libc::MSG_PEEK != 0;
    let handle = active.handle()?;
    if !socket.is_stream {
        let mut all = vec![0; buffers.iter().map(|buffer| buffer.len()).sum()];
        let (len, from) = active.reading(flags, |timeout| handle.receive_from(&mut all, peek, timeout))?;
        let mut at = 0;
        for buffer in buffers.iter_mut() {
            let n = buffer.len();
            buffer.copy_from_slice(&all[at..at + n]);
            at += n;
        }
        let is_truncated = len > all.len();
        let reported = if flags & libc::MSG_TRUNC != 0 { len } else { len.min(all.len()) };
        return Ok((reported, from, is_truncated));
    }
    let (mut done, wants_all) = (0, flags & libc::MSG_WAITALL != 0 && !peek);
    for buffer in buffers.iter_mut() {
        let mut at = 0;
        while at < buffer.len() {
            let first = done == 0 || wants_all;
            let flags = if first { flags } else { flags | libc::MSG_DONTWAIT };
            let n = match active.reading(flags, |timeout| handle.read(&mut buffer[at..], peek, timeout)) {
                Err(_) if done > 0 => return Ok((done, Endpoint::default(), false)),
                n => n?,
            };
            (at, done) = (at + n, done + n);
            if n == 0 || peek || (at < buffer.len() && !wants_all) {
                return Ok((done, handle.remote().unwrap_or_default(), false));
            }
        }
    }
    Ok((done, handle.remote().unwrap_or_default(), false))
}

/// Calls `receive` for one buffer.
///
/// # Safety
/// `len` bytes from `to` are writable.
unsafe fn receive_one(
    socket: &Socket,
    to: *mut c_void,
    len: size_t,
    flags: c_int,
) -> io::Result<(usize, Endpoint)> {
    let Some(active) = socket.active() else { return error::os(libc::ENOTCONN) };
    // SAFETY: guaranteed by the caller.
    let buffer = unsafe { memory::buffer(to, len) };
    receive((socket, active), &mut [buffer], flags).map(|(n, from, _)| (n, from))
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t {
    // SAFETY: the program's arguments.
    unsafe {
        match active(fd) {
            Some(socket) => error::result(receive_one(&socket, to, len, 0).map(|(n, _)| n)),
            None => real::read(fd, to, len),
        }
    }
}

/// The checked variant of `_FORTIFY_SOURCE`.
///
/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t) -> ssize_t {
    if len > room {
        std::process::abort();
    }
    // SAFETY: the program's arguments.
    unsafe { read(fd, to, len) }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the program's arguments.
    unsafe {
        match active(fd) {
            Some(socket) => error::result(receive_one(&socket, to, len, flags).map(|(n, _)| n)),
            None => real::recv(fd, to, len, flags),
        }
    }
}

/// The checked variant of `_FORTIFY_SOURCE`.
///
/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recv_chk(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    if len > room {
        std::process::abort();
    }
    // SAFETY: the program's arguments.
    unsafe { recv(fd, to, len, flags) }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    size: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the program's arguments.
    unsafe {
        let Some(socket) = active(fd) else { return real::recvfrom(fd, to, len, flags, from, size) };
        let received = receive_one(&socket, to, len, flags).map(|(n, sender)| {
            address::write(sender, socket.family, from, size);
            n
        });
        error::result(received)
    }
}

/// The checked variant of `_FORTIFY_SOURCE`.
///
/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    size: *mut socklen_t,
) -> ssize_t {
    if len > room {
        std::process::abort();
    }
    // SAFETY: the program's arguments.
    unsafe { recvfrom(fd, to, len, flags, from, size) }
}

/// The buffers of vectors.
///
/// # Safety
/// Each vector is writable.
unsafe fn writable<'a>(vectors: &[iovec]) -> Vec<&'a mut [u8]> {
    // SAFETY: guaranteed by the caller.
    vectors.iter().map(|vector| unsafe { memory::buffer(vector.iov_base, vector.iov_len) }).collect()
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the program's arguments.
    unsafe {
        let socket = active(fd);
        let Some((socket, active)) = socket.as_ref().and_then(|socket| Some((socket, socket.active()?)))
        else {
            return real::readv(fd, vectors, count);
        };
        let mut buffers = writable(memory::vectors(vectors, count.max(0) as usize));
        error::result(receive((socket, active), &mut buffers, 0).map(|(n, ..)| n))
    }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's arguments.
    unsafe {
        let socket = active(fd);
        let Some((socket, active)) = socket.as_ref().and_then(|socket| Some((socket, socket.active()?)))
        else {
            return real::recvmsg(fd, message, flags);
        };
        let Some(header) = message.as_mut() else {
            return error::result::<usize, _>(error::os(libc::EFAULT));
        };
        let mut buffers = writable(memory::vectors(header.msg_iov, header.msg_iovlen));
        let received = receive((socket, active), &mut buffers, flags).map(|(n, from, is_truncated)| {
            if !socket.is_stream {
                address::write(from, socket.family, header.msg_name.cast(), &raw mut header.msg_namelen);
            }
            header.msg_controllen = 0;
            header.msg_flags = if is_truncated { libc::MSG_TRUNC } else { 0 };
            n
        });
        error::result(received)
    }
}
