//! The functions of the C library that this library replaces.

use libc::{
    FILE, c_char, c_int, c_uint, c_ulong, c_void, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t,
};
use std::sync::atomic::{AtomicPtr, Ordering};

macro_rules! real {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => { $(
        /// The function of the next library.
        ///
        /// # Safety
        /// As in the C library.
        pub(crate) unsafe fn $name($($argument: $kind),*) -> $result {
            static ADDRESS: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            let address = find(&ADDRESS, concat!(stringify!($name), "\0").as_ptr().cast());
            // SAFETY: the C library has this function with these types; `find` ends the process if it is missing.
            unsafe {
                let function: unsafe extern "C" fn($($kind),*) -> $result = std::mem::transmute(address);
                function($($argument),*)
            }
        }
    )* };
}

/// Looks a function up once.
fn find(known: &AtomicPtr<c_void>, name: *const c_char) -> *mut c_void {
    // The address is the only content, so no ordering is needed.
    let address = known.load(Ordering::Relaxed);
    if !address.is_null() {
        return address;
    }
    // SAFETY: the name ends with a zero.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
    if address.is_null() {
        std::process::abort();
    }
    known.store(address, Ordering::Relaxed);
    address
}

real! {
    socket(family: c_int, kind: c_int, protocol: c_int) -> c_int;
    bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    listen(fd: c_int, backlog: c_int) -> c_int;
    accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t;
    readv(fd: c_int, vectors: *const libc::iovec, count: c_int) -> ssize_t;
    recv(fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    recvfrom(
        fd: c_int, to: *mut c_void, len: size_t, flags: c_int, address: *mut sockaddr, size: *mut socklen_t
    ) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t;
    writev(fd: c_int, vectors: *const libc::iovec, count: c_int) -> ssize_t;
    send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    sendto(
        fd: c_int, from: *const c_void, len: size_t, flags: c_int, address: *const sockaddr, size: socklen_t
    ) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg(fd: c_int, messages: *mut libc::mmsghdr, count: c_uint, flags: c_int) -> c_int;
    recvmmsg(
        fd: c_int, messages: *mut libc::mmsghdr, count: c_uint, flags: c_int, timeout: *mut libc::timespec
    ) -> c_int;
    splice(
        from: c_int, from_offset: *mut libc::off64_t, to: c_int, to_offset: *mut libc::off64_t, len: size_t, flags: c_uint
    ) -> ssize_t;
    sendfile(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    shutdown(fd: c_int, how: c_int) -> c_int;
    close(fd: c_int) -> c_int;
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    dup(fd: c_int) -> c_int;
    dup2(fd: c_int, to: c_int) -> c_int;
    dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int;
    getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    fileno(stream: *mut FILE) -> c_int;
    __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut libc::epoll_event) -> c_int;
}
