//! Names and options of sockets.

use crate::groups::{self, Deferred};
use crate::socket::Socket;
use crate::{address, error, memory, real, table};
use libc::{c_int, c_void, sockaddr, socklen_t};
use std::io;

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
    let socket = table::find(fd);
    match socket.as_ref().and_then(|socket| Some((socket, socket.local()?))) {
        Some((socket, local)) => {
            // SAFETY: the program's arguments.
            unsafe { address::write(local, socket.family, to, len) };
            0
        }
        // SAFETY: the program's arguments.
        None => unsafe { real::getsockname(fd, to, len) },
    }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
    let socket = table::find(fd);
    let Some((socket, active)) = socket.as_ref().and_then(|socket| Some((socket, socket.active()?))) else {
        // SAFETY: the program's arguments.
        return unsafe { real::getpeername(fd, to, len) };
    };
    match active.handle().ok().and_then(service::Handle::remote) {
        Some(remote) => {
            // SAFETY: the program's arguments.
            unsafe { address::write(remote, socket.family, to, len) };
            0
        }
        None => error::result::<i8, _>(error::os(libc::ENOTCONN)),
    }
}

/// Sets an option. Returns `None` if the kernel has the socket.
fn set(socket: &Socket, level: c_int, name: c_int, value: &[u8]) -> io::Result<Option<()>> {
    if !socket.is_stream && groups::parse(level, name, value).is_some() {
        return socket.set_group(Deferred { level, name, value: value.to_vec() });
    }
    let Some(active) = socket.active() else { return Ok(None) };
    let mut options = active.options();
    if options.set(level, name, value)? && !active.is_listener {
        active.handles.iter().for_each(|handle| socket.adjust(handle, &options));
    }
    Ok(Some(()))
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    let done = match table::find(fd) {
        // SAFETY: the program's value has `len` bytes.
        Some(socket) => set(&socket, level, name, unsafe { memory::bytes(value, len as usize) }),
        None => Ok(None),
    };
    match done.transpose() {
        // SAFETY: the program's arguments.
        None => unsafe { real::setsockopt(fd, level, name, value, len) },
        Some(done) => error::result::<i8, _>(done.map(|()| 0)),
    }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let socket = table::find(fd);
    let Some((socket, active)) = socket.as_ref().and_then(|socket| Some((socket, socket.active()?))) else {
        // SAFETY: the program's arguments.
        return unsafe { real::getsockopt(fd, level, name, value, len) };
    };
    if value.is_null() || len.is_null() {
        return error::result::<i8, _>(error::os(libc::EFAULT));
    }
    let number = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => {
            let error = active.handles.first().and_then(service::Handle::take_error);
            Some(error.map_or(0, |reason| error::number(&reason.into())))
        }
        (libc::SOL_SOCKET, libc::SO_TYPE) => {
            Some(if socket.is_stream { libc::SOCK_STREAM } else { libc::SOCK_DGRAM })
        }
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => Some(socket.family),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => {
            Some(if socket.is_stream { libc::IPPROTO_TCP } else { libc::IPPROTO_UDP })
        }
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => Some(active.is_listener.into()),
        _ => active.options().get(level, name),
    };
    let bytes = number.map(c_int::to_ne_bytes);
    // Statistics of the kernel's TCP are all zero here, and other unknown options as well.
    let from: &[u8] = match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => b"cubic\0",
        _ => bytes.as_ref().map_or(&[], |bytes| &bytes[..]),
    };
    // SAFETY: the program's value has `*len` bytes.
    let to = unsafe { memory::buffer(value, *len as usize) };
    to.fill(0);
    let n = to.len().min(from.len());
    to[..n].copy_from_slice(&from[..n]);
    if !from.is_empty() {
        // SAFETY: the program's length.
        unsafe { *len = n as socklen_t };
    }
    0
}
