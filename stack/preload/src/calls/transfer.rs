//! Reading and writing.

use crate::socket::{Active, Socket};
use crate::{address, error, memory, real, table};
use libc::{c_int, c_void, iovec, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};
use stack::Endpoint;
use std::io;
use std::sync::Arc;

/// Bytes that `sendfile` copies at a time.
const PIECE: usize = 64 << 10;

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

fn active(fd: c_int) -> Option<Arc<Socket>> {
    table::find(fd).filter(|socket| socket.active().is_some())
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

/// Calls `send_all` for one buffer.
///
/// # Safety
/// `len` bytes from `from` are readable.
unsafe fn send_one(socket: &Socket, from: *const c_void, len: size_t, flags: c_int) -> io::Result<usize> {
    let Some(active) = socket.active() else { return error::os(libc::ENOTCONN) };
    // SAFETY: guaranteed by the caller.
    send_all((socket, active), &[unsafe { memory::bytes(from, len) }], flags, None)
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
