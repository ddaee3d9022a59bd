//! Opening, connecting and accepting.

use crate::{address, error, real, socket, table};
use libc::{c_int, sockaddr, socklen_t};

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: no pointer is passed.
    let fd = unsafe { real::socket(family, kind, protocol) };
    if fd >= 0 {
        drop(table::remove(fd));
        socket::open(fd, family, kind, protocol);
    }
    fd
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the program's address has `len` bytes.
    let local = unsafe { address::read(to, len) };
    let done = match (table::find(fd), local) {
        (Some(socket), Some(local)) => socket.bind(fd, local),
        _ => Ok(None),
    };
    match done.transpose() {
        // SAFETY: the program's arguments.
        None => unsafe { real::bind(fd, to, len) },
        Some(done) => error::result::<i8, _>(done.map(|()| 0)),
    }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    let done = table::find(fd).map_or(Ok(None), |socket| socket.listen(fd));
    match done.transpose() {
        // SAFETY: no pointer is passed.
        None => unsafe { real::listen(fd, backlog) },
        Some(done) => error::result::<i8, _>(done.map(|()| 0)),
    }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(fd: c_int, from: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { accept4(fd, from, len, 0) }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(fd: c_int, from: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
    let socket = table::find(fd);
    let Some((socket, active)) = socket.as_ref().and_then(|socket| Some((socket, socket.active()?))) else {
        // SAFETY: the program's arguments.
        return unsafe { real::accept4(fd, from, len, flags) };
    };
    let accepted = socket.accept(active, flags).map(|(fd, remote)| {
        // SAFETY: the program's arguments.
        unsafe { address::write(remote, socket.family, from, len) };
        fd
    });
    error::result::<c_int, _>(accepted)
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the program's address has `len` bytes.
    let remote = unsafe { address::read(to, len) };
    let done = match (table::find(fd), remote) {
        (Some(socket), Some(remote)) => socket.connect(fd, remote),
        _ => Ok(None),
    };
    match done.transpose() {
        // SAFETY: the program's arguments.
        None => unsafe { real::connect(fd, to, len) },
        Some(done) => error::result::<i8, _>(done.map(|()| 0)),
    }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let socket = table::find(fd);
    let Some(active) = socket.as_ref().and_then(|socket| socket.active()) else {
        // SAFETY: no pointer is passed.
        return unsafe { real::shutdown(fd, how) };
    };
    let how = match how {
        libc::SHUT_RD => std::net::Shutdown::Read,
        libc::SHUT_WR => std::net::Shutdown::Write,
        _ => std::net::Shutdown::Both,
    };
    error::result::<i8, _>(active.handle().and_then(|handle| handle.shutdown(how)).map(|()| 0))
}
