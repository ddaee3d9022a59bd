//! `liblinerate_faults.so`: makes one call of the C library fail, or kills the process in front of it.
//!
//! Loaded by `LD_PRELOAD`, it replaces functions of the C library that make a system call. The file that
//! `LINERATE_FAULTS` names says which call fails and how ([`plan`]); a test writes it while the process runs. Without
//! the variable, all calls pass.
//!
//! A replaced function has six arguments of a register each, whatever its own are: integers and pointers are passed in
//! the same registers on x86-64 and `AArch64`, also to variadic functions, and registers that the function does not
//! read have no effect. So a function needs its name only.
#![allow(unreachable_pub, reason = "the linker exports these functions by their names")]
#![allow(clippy::many_single_char_names, reason = "arguments without a meaning")]

mod plan;

use libc::c_void;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

type Function = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> isize;

macro_rules! replaced {
    ($fails:ident: $($name:ident)*) => { $(
        /// # Safety
        /// As in the C library.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
            static ADDRESS: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            if let Some(error) = plan::due(stringify!($name), 0, &[a, b, c, d, e, f]) {
                return $fails(error);
            }
            // SAFETY: the name ends with a zero; the arguments are the caller's.
            unsafe { real(&ADDRESS, concat!(stringify!($name), "\0").as_ptr())(a, b, c, d, e, f) }
        }
    )* };
}

replaced! { with_errno:
    accept4 bind connect getsockname getsockopt listen recv recvfrom recvmsg send sendmmsg sendmsg sendto
    setsockopt socket socketpair
    open open64 openat openat64 read readv write writev pread64 pwrite64 ftruncate ftruncate64 fallocate fallocate64
    fsync fdatasync flock fcntl ioctl dup dup3 pipe2 fstat fstat64 stat64 lstat64 statx getdents64
    rename renameat renameat2 link linkat unlink unlinkat mkdir mkdirat chmod fchmod fchown
    mmap mmap64 mprotect madvise mlock memfd_create
    eventfd epoll_create1 epoll_ctl epoll_wait poll ppoll
    timerfd_create timerfd_settime inotify_init1 pidfd_open setns unshare sched_setaffinity getrandom
}
replaced! { as_result: pthread_create }

/// `syscall`, the seventh argument of which is on the stack.
///
/// # Safety
/// As in the C library. A caller with fewer arguments has its own frame there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> isize {
    static ADDRESS: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if let Some(error) = plan::due("syscall", number, &[a, b, c, d, e, f]) {
        return with_errno(error);
    }
    // SAFETY: as of the other functions.
    unsafe {
        let real = real(&ADDRESS, c"syscall".as_ptr().cast());
        let real: unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize) -> isize =
            std::mem::transmute(real);
        real(number, a, b, c, d, e, f)
    }
}

/// Result of most functions: -1, also of `mmap`.
fn with_errno(error: i32) -> isize {
    // SAFETY: the C library returns a valid pointer to the error of this thread.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// Result of `pthread_create`.
fn as_result(error: i32) -> isize {
    error as isize
}

/// The function of the next library. Looks it up once.
///
/// # Safety
/// `name` ends with a zero, and the function takes at most six arguments of a register each.
unsafe fn real(known: &AtomicPtr<c_void>, name: *const u8) -> Function {
    // The address is the only content, so no ordering is needed.
    let mut address = known.load(Ordering::Relaxed);
    if address.is_null() {
        // SAFETY: the name ends with a zero.
        address = unsafe { libc::dlsym(libc::RTLD_NEXT, CStr::from_ptr(name.cast()).as_ptr()) };
        if address.is_null() {
            std::process::abort();
        }
        known.store(address, Ordering::Relaxed);
    }
    // SAFETY: a function of the C library, as the caller guarantees.
    unsafe { std::mem::transmute(address) }
}
