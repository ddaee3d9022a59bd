//! The SIGBUS handler and the previous action.
//!
//! All code that runs inside the handler is async-signal-safe: atomics and system calls only; no allocation, lock or
//! panic.

use super::table;
use libc::{c_int, c_void, siginfo_t};
use rustix::mm::{MapFlags, ProtFlags};
use std::sync::{Once, OnceLock};

/// `si_code` for a hardware memory error that this access consumed (`sigaction(2)`).
const BUS_MCEERR_AR: c_int = 4;

static INSTALL: Once = Once::new();
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler once per process; later calls have no effect. Also called by [`super::Watch::new`].
///
/// # Panics
/// If `sigaction` fails for SIGBUS, which does not happen.
pub fn install() {
    if cfg!(miri) {
        return;
    }
    INSTALL.call_once(|| {
        // The previous action is saved before the handler can run.
        let _ = PREVIOUS.set(exchange(None));
        // SAFETY: all zeros is a valid sigaction.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        action.sa_sigaction = on_sigbus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        exchange(Some(&action));
    });
}

/// Sets the SIGBUS action to `new`, if given, and returns the previous one.
fn exchange(new: Option<&libc::sigaction>) -> libc::sigaction {
    // SAFETY: all zeros is a valid sigaction.
    let mut old: libc::sigaction = unsafe { core::mem::zeroed() };
    let new = new.map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: both pointers are null or point to a sigaction; the handler is async-signal-safe.
    let result = unsafe { libc::sigaction(libc::SIGBUS, new, &raw mut old) };
    assert!(result == 0, "SIGBUS is a signal whose action may be changed");
    old
}

extern "C" fn on_sigbus(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let of_a_page = matches!(code, libc::BUS_ADRERR | BUS_MCEERR_AR);
    if !(of_a_page && replace(address)) {
        pass_on(signal, code, info, context);
    }
}

/// Maps zero pages over the watched range that holds `address`. Returns `false` if no such range exists.
fn replace(address: usize) -> bool {
    let Some((slot, start, len)) = table::find(address) else { return false };
    slot.trip();
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the faulting thread uses this range, so its watch is alive, and the contract of `Watch::new` allows the
    // range to turn into zeros.
    unsafe { rustix::mm::mmap_anonymous(start as *mut c_void, len, prot, flags) }.is_ok()
}

/// Forwards the signal to the previous action.
fn pass_on(signal: c_int, code: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(previous) = PREVIOUS.get() else { return };
    match previous.sa_sigaction {
        _ if code <= 0 => end(signal, previous),
        // After restoring the old action, the access is repeated and the kernel terminates the process.
        libc::SIG_DFL | libc::SIG_IGN => restore(signal, previous),
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: SA_SIGINFO means that the address is a function with these three parameters.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { core::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without SA_SIGINFO it is a function with one parameter.
            let handler: extern "C" fn(c_int) = unsafe { core::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// Terminates the process for a SIGBUS sent by a process, unless it was ignored before. The standard library's handler
/// is not called: it would reset the action, remove this handler and swallow the signal.
fn end(signal: c_int, previous: &libc::sigaction) {
    if previous.sa_sigaction == libc::SIG_IGN {
        return;
    }
    let mut default = *previous;
    default.sa_sigaction = libc::SIG_DFL;
    restore(signal, &default);
    // SAFETY: no precondition; the signal is blocked until the handler returns.
    unsafe { libc::raise(signal) };
}

fn restore(signal: c_int, action: &libc::sigaction) {
    // SAFETY: `action` is valid. On error this handler stays in place and the fault recurs.
    unsafe { libc::sigaction(signal, action, core::ptr::null_mut()) };
}
