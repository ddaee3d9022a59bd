//! Calls that send.

use crate::socket::{Active, Socket};
use crate::table::active;
use crate::{address, error, memory, real, table};
use libc::{c_int, c_void, iovec, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};
use stack::Endpoint;
use std::io;

/// Bytes that `sendfile` copies at a time.
const PIECE: usize = 64 << 10;

/// Sends the bytes of several buffers.
fn send_all(
    (socket, active): (&Socket, &Active),
    buffers: &[&[u8]],
    flags: c_int,
    to: Option<Endpoint>,
) -> io::Result<usize> {
    let handle = active.handle()?;
    if !socket.is_stream {
        let joined;
        let bytes = match buffers {
            [only] => only,
            many => {
                joined = many.concat();
                &joined[..]
            }
        };
        if to.is_none() && handle.remote().is_none() {
            return error::os(libc::EDESTADDRREQ);
        }
        return active.writing(flags, |timeout| handle.send_to(bytes, to, timeout));
    }
    let mut done = 0;
    for mut bytes in buffers.iter().copied() {
        while !bytes.is_empty() {
            match active.writing(flags, |timeout| handle.write(bytes, timeout)) {
                Ok(n) => (done, bytes) = (done + n, &bytes[n..]),
                Err(_) if done > 0 => return Ok(done),
                Err(error) => {
                    if error.kind() == io::ErrorKind::BrokenPipe && flags & libc::MSG_NOSIGNAL == 0 {
                        // SAFETY: raises the signal that the kernel raises for the same call.
                        unsafe { libc::raise(libc::SIGPIPE) };
                    }
                    return Err(error);
                }
            }
        }
    }
    Ok(done)
}

/// Calls `send_all` for one buffer.
///
/// # Safety
/// `len` bytes from `from` are readable.
unsafe fn send_one(socket: &Socket, from: *const c_void, len: size_t, flags: c_int) -> io::Result<usize> {
    let Some(active) = socket.active() else { return error::os(libc::ENOTCONN) };
    // SAFETY: guaranteed by the caller.
    send_all((socket, active), &[unsafe { memory::bytes(from, len) }], flags, None)
}

/// The bytes of vectors.
///
/// # Safety
/// Each vector is readable.
unsafe fn readable<'a>(vectors: &[iovec]) -> Vec<&'a [u8]> {
    // SAFETY: guaranteed by the caller.
    vectors.iter().map(|vector| unsafe { memory::bytes(vector.iov_base, vector.iov_len) }).collect()
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the program's arguments.
    unsafe {
        match active(fd) {
            Some(socket) => error::result(send_one(&socket, from, len, 0)),
            None => real::write(fd, from, len),
        }
    }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the program's arguments.
    unsafe {
        let socket = active(fd);
        let Some((socket, active)) = socket.as_ref().and_then(|socket| Some((socket, socket.active()?)))
        else {
            return real::writev(fd, vectors, count);
        };
        let buffers = readable(memory::vectors(vectors, count.max(0) as usize));
        error::result(send_all((socket, active), &buffers, 0, None))
    }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the program's arguments.
    unsafe {
        match active(fd) {
            Some(socket) => error::result(send_one(&socket, from, len, flags)),
            None => real::send(fd, from, len, flags),
        }
    }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    size: socklen_t,
) -> ssize_t {
    // SAFETY: the program's arguments.
    unsafe {
        let remote = address::read(to, size);
        let socket = table::find(fd);
        let ours = socket.as_ref().map_or(Ok(None), |socket| socket.for_datagram(fd, remote));
        match (socket.as_ref(), ours) {
            (Some(socket), Ok(Some(active))) => {
                let bytes = [memory::bytes(from, len)];
                error::result(send_all((socket, active), &bytes, flags, remote.filter(|_| !socket.is_stream)))
            }
            (_, Err(failed)) => error::result::<usize, _>(Err(failed)),
            _ => real::sendto(fd, from, len, flags, to, size),
        }
    }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's arguments.
    unsafe {
        let (socket, header) = (table::find(fd), message.as_ref());
        let remote = header.and_then(|header| address::read(header.msg_name.cast(), header.msg_namelen));
        let ours = socket.as_ref().map_or(Ok(None), |socket| socket.for_datagram(fd, remote));
        match (socket.as_ref(), header, ours) {
            (Some(socket), Some(header), Ok(Some(active))) => {
                let buffers = readable(memory::vectors(header.msg_iov, header.msg_iovlen));
                error::result(send_all(
                    (socket, active),
                    &buffers,
                    flags,
                    remote.filter(|_| !socket.is_stream),
                ))
            }
            (_, _, Err(failed)) => error::result::<usize, _>(Err(failed)),
            _ => real::sendmsg(fd, message, flags),
        }
    }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    // SAFETY: the program's arguments.
    unsafe {
        let Some(socket) = active(out) else { return real::sendfile(out, from, offset, count) };
        let mut buffer = vec![0_u8; count.min(PIECE)];
        let to = buffer.as_mut_ptr().cast();
        let read = match offset.as_mut() {
            Some(at) => libc::pread(from, to, buffer.len(), *at),
            None => libc::read(from, to, buffer.len()),
        };
        if read <= 0 {
            return read;
        }
        let sent: ssize_t = error::result(send_one(&socket, buffer.as_ptr().cast(), read as usize, 0));
        match offset.as_mut() {
            Some(at) => *at += sent.max(0) as off_t,
            // Bytes that were read and not sent are read again.
            None => drop(libc::lseek(from, (sent.max(0) - read) as off_t, libc::SEEK_CUR)),
        }
        sent
    }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile64(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    // SAFETY: the program's arguments.
    unsafe { sendfile(out, from, offset, count) }
}
