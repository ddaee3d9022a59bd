//! Which call fails. The plan is a file that test and process map, so that looking at it makes no call.
//!
//! | bytes | content |
//! |---|---|
//! | 0 to 15 | name of the function, filled with zeros and cut to 16 bytes; `*` for every function; zeros for none |
//! | 16 to 23 | number of the call from now on, 1 for the next; 0 after it |
//! | 24 to 31 | the error, or [`KILL`] |
//! | 32 to 39 | number of calls that have failed |
//! | 40 to 47 | 0: threads that are not workers; 1: workers |
//! | 48 to 55 | 0: all processes; a process; or a process plus [`OTHERS`] for all but this one |
//!
//! All numbers are in the order of the processor. The name is written last.

use libc::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Error that stands for SIGKILL.
const KILL: u64 = 1 << 32;
/// Microseconds in which other threads run before the process is killed, so that what they do already shows.
const BEFORE_KILL: u32 = 10_000;
/// Added to a process, stands for all others.
const OTHERS: u64 = 1 << 32;
const VARIABLE: &std::ffi::CStr = c"LINERATE_FAULTS";
/// How the names of the workers' threads begin.
const WORKER: &[u8] = b"worker-";

#[repr(C)]
struct Plan {
    name: [AtomicU64; 2],
    left: AtomicU64,
    error: AtomicU64,
    failed: AtomicU64,
    of_workers: AtomicU64,
    of_process: AtomicU64,
}

static PLAN: AtomicPtr<Plan> = AtomicPtr::new(std::ptr::null_mut());

/// Runs before `main`, when the process has one thread.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    // SAFETY: all pointers are to strings that end with a zero; the mapping is private to this library.
    unsafe {
        let path = libc::getenv(VARIABLE.as_ptr());
        if path.is_null() {
            return;
        }
        let file = libc::open(path, libc::O_RDWR | libc::O_CLOEXEC);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let plan = libc::mmap(std::ptr::null_mut(), size_of::<Plan>(), access, libc::MAP_SHARED, file, 0);
        libc::close(file);
        if plan == libc::MAP_FAILED {
            std::process::abort();
        }
        PLAN.store(plan.cast(), Ordering::Release);
    }
}

/// The error with which a call of this function fails now. `number`: of the call, of `syscall`.
pub(crate) fn due(function: &str, number: usize, arguments: &[usize; 6]) -> Option<i32> {
    // SAFETY: the mapping has the size of the plan and stays.
    let plan = unsafe { PLAN.load(Ordering::Acquire).as_ref() }?;
    let wanted = [plan.name[0].load(Ordering::Acquire), plan.name[1].load(Ordering::Acquire)];
    let is_this = wanted == words(b"*") || wanted == words(function.as_bytes());
    let is_of_workers = plan.of_workers.load(Ordering::Relaxed) == 1;
    if !is_this || !is_process(plan.of_process.load(Ordering::Relaxed)) || is_worker() != is_of_workers {
        return None;
    }
    let never_fails = match function {
        "read" | "write" => is_event(arguments[0]),
        // Without waiting, it is not interrupted.
        "send" => arguments[3] & libc::MSG_DONTWAIT as usize != 0,
        "mmap64" => is_signal_stack(arguments),
        // The standard library waits for locks by it; its errors mean nothing else than a wake-up.
        "syscall" => number == libc::SYS_futex as usize,
        _ => false,
    };
    if never_fails {
        return None;
    }
    let last = plan.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
    if last != Ok(1) {
        return None;
    }
    plan.failed.fetch_add(1, Ordering::AcqRel);
    let error = plan.error.load(Ordering::Acquire);
    if error == KILL {
        // SAFETY: a pause, and a signal to this process, which does not return.
        unsafe {
            libc::usleep(BEFORE_KILL);
            libc::kill(libc::getpid(), libc::SIGKILL);
        }
    }
    i32::try_from(error).ok()
}

/// Whether this process is of those that the plan names.
fn is_process(wanted: u64) -> bool {
    // SAFETY: the call has no arguments and does not fail.
    let own = u64::from(unsafe { libc::getpid() }.unsigned_abs());
    wanted == 0 || wanted == own || wanted >= OTHERS && wanted != OTHERS + own
}

/// Whether a descriptor is an eventfd. Its calls neither wait nor need memory or space, so the kernel never lets them
/// fail.
fn is_event(descriptor: usize) -> bool {
    let (mut path, mut target) = ([0_u8; 32], [0_u8; 20]);
    // SAFETY: the arrays have the sizes that the calls are told; the path is of digits and ends with a zero.
    unsafe {
        libc::snprintf(path.as_mut_ptr().cast(), path.len(), c"/proc/self/fd/%zu".as_ptr(), descriptor);
        libc::readlink(path.as_ptr().cast(), target.as_mut_ptr().cast(), target.len());
    }
    target.starts_with(b"anon_inode:[eventfd")
}

/// Whether a mapping is the stack for signals of a thread. The standard library makes one for each thread and ends
/// the thread if it fails.
fn is_signal_stack([_, len, _, _, file, _]: &[usize; 6]) -> bool {
    const LARGEST: usize = 64 << 10;
    *file as u32 == u32::MAX && *len < LARGEST
}

/// A name as the plan has it.
const fn words(name: &[u8]) -> [u64; 2] {
    let mut bytes = [0; 16];
    let mut i = 0;
    while i < name.len() && i < bytes.len() {
        bytes[i] = name[i];
        i += 1;
    }
    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
    [u64::from_ne_bytes([a, b, c, d, e, f, g, h]), u64::from_ne_bytes(rest)]
}

/// Whether this thread is a worker, which the control path does not wait for.
fn is_worker() -> bool {
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr().cast::<c_void>()) };
    name.starts_with(WORKER)
}
