//! The handler itself, and what was there before it.
//!
//! Everything here that runs inside the handler is async-signal-safe: atomics, one system call, no allocation,
//! no lock, no panic.

use super::table;
use libc::{c_int, c_void, siginfo_t};
use rustix::mm::{MapFlags, ProtFlags};
use std::sync::{Once, OnceLock};

/// The hardware found that a page's content is lost, and this access needed it (`si_code` of `sigaction(2)`).
const BUS_MCEERR_AR: c_int = 4;

static INSTALL: Once = Once::new();
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler, once per process; later calls do nothing. The first [`super::Watch`] does it too.
///
/// # Panics
/// When the kernel refuses to change the action for SIGBUS, which it does for no process.
pub fn install() {
    if cfg!(miri) {
        return;
    }
    INSTALL.call_once(|| {
        // The old action is kept before the new one can run.
        let _ = PREVIOUS.set(exchange(None));
        // SAFETY: all zeros is a valid sigaction.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        action.sa_sigaction = on_sigbus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        exchange(Some(&action));
    });
}

/// Puts `new` in place, if given, and returns the action before.
fn exchange(new: Option<&libc::sigaction>) -> libc::sigaction {
    // SAFETY: all zeros is a valid sigaction.
    let mut old: libc::sigaction = unsafe { core::mem::zeroed() };
    let new = new.map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: both pointers are null or point at a sigaction; the handler keeps the rules of signal handlers.
    let result = unsafe { libc::sigaction(libc::SIGBUS, new, &raw mut old) };
    assert!(result == 0, "SIGBUS is a signal whose action may be changed");
    old
}

extern "C" fn on_sigbus(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a valid siginfo to a handler that was installed with SA_SIGINFO.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let of_a_page = matches!(code, libc::BUS_ADRERR | BUS_MCEERR_AR);
    if !(of_a_page && replace(address)) {
        pass_on(signal, code, info, context);
    }
}

/// Puts zero pages over the watched mapping that holds `address`, if there is one.
fn replace(address: usize) -> bool {
    let Some((slot, start, len)) = table::find(address) else { return false };
    slot.trip();
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the thread at fault is using this range, so its watch lives, and its maker agreed
    // that the range may turn into zeros.
    unsafe { rustix::mm::mmap_anonymous(start as *mut c_void, len, prot, flags) }.is_ok()
}

/// Does what would have happened without us.
fn pass_on(signal: c_int, code: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(previous) = PREVIOUS.get() else { return };
    match previous.sa_sigaction {
        _ if code <= 0 => end(signal, previous),
        // With the old action back, the access is repeated and the kernel ends the process in its own way.
        libc::SIG_DFL | libc::SIG_IGN => restore(signal, previous),
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the flag says that the address is a function with these three parameters.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { core::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without the flag it is a function with one parameter.
            let handler: extern "C" fn(c_int) = unsafe { core::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// Ends the process for a signal that no fault raised but a process sent, unless it was to be ignored. The
/// standard library's own handler would take itself for the only one, give up its place and ours with it, and
/// swallow the signal.
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
    // SAFETY: a valid action. An error would leave ours in place, and the fault would come here again.
    unsafe { libc::sigaction(signal, action, core::ptr::null_mut()) };
}
