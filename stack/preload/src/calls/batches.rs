//! Calls that send and receive several messages, and calls between descriptors that sockets of the service refuse.

use super::receive::recvmsg;
use super::send::sendmsg;
use crate::{error, real, table};
use libc::{c_int, c_uint, mmsghdr, off64_t, size_t, ssize_t, timespec};
use std::time::{Duration, Instant};

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    if table::find(fd).is_none() {
        // SAFETY: the program's arguments.
        return unsafe { real::sendmmsg(fd, messages, count, flags) };
    }
    // SAFETY: the program has `count` messages.
    unsafe { each(messages, count, |message| sendmsg(fd, &raw const message.msg_hdr, flags)) }
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if table::find(fd).is_none() {
        // SAFETY: the program's arguments.
        return unsafe { real::recvmmsg(fd, messages, count, flags, timeout) };
    }
    // SAFETY: the program's time, or none.
    let limit = unsafe { timeout.as_ref() }.map(|time| {
        Duration::new(time.tv_sec.max(0).cast_unsigned(), time.tv_nsec.clamp(0, 999_999_999) as u32)
    });
    let (began, mut flags) = (Instant::now(), flags);
    let receive = |message: &mut mmsghdr| {
        // As in the kernel, the time is looked at after each message.
        let is_over =
            flags & libc::MSG_WAITFORONE == 0 && limit.is_some_and(|limit| began.elapsed() >= limit);
        let flags_now = if is_over { flags | libc::MSG_DONTWAIT } else { flags };
        // SAFETY: the program's message.
        let received = unsafe { recvmsg(fd, &raw mut message.msg_hdr, flags_now & !libc::MSG_WAITFORONE) };
        if flags & libc::MSG_WAITFORONE != 0 {
            flags |= libc::MSG_DONTWAIT;
        }
        received
    };
    // SAFETY: the program has `count` messages.
    unsafe { each(messages, count, receive) }
}

/// Calls `transfer` for each message until it fails. Returns the number of messages, or its error for the first one.
///
/// # Safety
/// There are `count` messages.
unsafe fn each(
    messages: *mut mmsghdr,
    count: c_uint,
    mut transfer: impl FnMut(&mut mmsghdr) -> ssize_t,
) -> c_int {
    for done in 0..count {
        // SAFETY: the caller's messages.
        let message = unsafe { &mut *messages.add(done as usize) };
        match u32::try_from(transfer(message)) {
            Ok(len) => message.msg_len = len,
            Err(_) if done == 0 => return -1,
            Err(_) => return done.cast_signed(),
        }
    }
    count.cast_signed()
}

/// Fails for sockets of the service, as for files without support; programs then read and write.
///
/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn splice(
    from: c_int,
    from_offset: *mut off64_t,
    to: c_int,
    to_offset: *mut off64_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if table::active(from).is_some() || table::active(to).is_some() {
        return error::result::<usize, _>(error::os(libc::EINVAL));
    }
    // SAFETY: the program's arguments.
    unsafe { real::splice(from, from_offset, to, to_offset, len, flags) }
}
