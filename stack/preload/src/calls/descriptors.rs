//! Closing and duplicating descriptors.

use crate::socket::{Registration, duplicated};
use crate::{real, table};
use libc::{c_int, c_uint, c_ulong};

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    // The descriptor ends before the socket, so that no number is reused while it is in the table.
    let socket = table::remove(fd);
    // SAFETY: no pointer is passed.
    let done = unsafe { real::close(fd) };
    drop(socket);
    done
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags == 0 {
        table::remove_range(first, last);
    }
    // SAFETY: no pointer is passed.
    unsafe { real::close_range(first, last, flags) }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: no pointer is passed.
    let to = unsafe { real::dup(fd) };
    duplicated(fd, to);
    to
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    let last = if fd == to { None } else { table::remove(to) };
    // SAFETY: no pointer is passed.
    let to = unsafe { real::dup2(fd, to) };
    drop(last);
    duplicated(fd, to);
    to
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    let last = if fd == to { None } else { table::remove(to) };
    // SAFETY: no pointer is passed.
    let to = unsafe { real::dup3(fd, to, flags) };
    drop(last);
    duplicated(fd, to);
    to
}

/// The third argument is passed in the same register, whether the function is variadic or not, on the processors that
/// linerate supports.
///
/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: the program's arguments.
    let done = unsafe { real::fcntl(fd, command, argument) };
    if command == libc::F_DUPFD || command == libc::F_DUPFD_CLOEXEC {
        duplicated(fd, done);
    }
    done
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { fcntl(fd, command, argument) }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int {
    let socket = table::find(fd);
    let available = socket.as_ref().and_then(|socket| socket.active()).and_then(|active| {
        let handle = active.handle().ok()?;
        match request {
            libc::FIONREAD => Some(handle.available()),
            libc::TIOCOUTQ => Some(handle.unacknowledged()),
            _ => None,
        }
    });
    match available {
        Some(bytes) => {
            // SAFETY: these requests write one integer to the program's address.
            unsafe { (argument as *mut c_int).write_unaligned(c_int::try_from(bytes).unwrap_or(c_int::MAX)) };
            0
        }
        // SAFETY: the program's arguments.
        None => unsafe { real::ioctl(fd, request, argument) },
    }
}

/// Passes to the kernel. Registrations of a socket that may be replaced are remembered, and edge-triggered ones noted.
///
/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_ctl(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    if let Some(socket) = table::find(fd) {
        // SAFETY: the program's event is readable, or null.
        let wanted = unsafe { event.as_ref() }.copied();
        if let Some(active) = socket.active() {
            if wanted.is_some_and(|event| event.events & libc::EPOLLET as u32 != 0) {
                active.mirror.announce_edges();
            }
        } else {
            let all = &mut socket.fresh().registrations;
            all.retain(|known| known.epoll != epoll);
            let event = wanted.filter(|_| operation != libc::EPOLL_CTL_DEL);
            all.extend(event.map(|event| Registration { epoll, event }));
        }
    }
    // SAFETY: the program's arguments.
    unsafe { real::epoll_ctl(epoll, operation, fd, event) }
}
