//! Reports of system calls that a filter refuses.
//!
//! The kernel sends SIGSYS to the thread in place of the call. The handler writes one line to standard error, which the
//! journal also reads. A worker then ends the process, because a worker that makes another call than those of its list
//! is no longer its program. On every other thread the call fails with EPERM, and the operation that made it fails with
//! that error.
//!
//! All code that runs inside the handler is async-signal-safe: system calls that every filter allows; no allocation,
//! lock or panic.

use crate::{ConfineError, Role};
use libc::{c_int, c_void, siginfo_t};
use std::cell::Cell;
use std::io::{self, Cursor, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of a process that ends because a worker made a refused system call: that of a shell for SIGSYS.
pub const EXIT_CODE: u8 = 128 + libc::SIGSYS as u8;

/// Form of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogForm {
    /// A line for people.
    #[default]
    Text,
    /// A JSON object.
    Json,
}

/// Whether reports are JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Role of this thread. Without a destructor, so that a signal handler may read it.
    static ROLE: Cell<Role> = const { Cell::new(Role::Control) };
}

/// The part of `siginfo_t` about a refused call (`sigaction(2)`).
#[repr(C)]
struct Refused {
    signal: c_int,
    error: c_int,
    code: c_int,
    address: *mut c_void,
    number: c_int,
    architecture: u32,
}

/// `si_code` of a signal by a filter.
const SYS_SECCOMP: c_int = 1;

/// Installs the handler.
pub(crate) fn install(form: LogForm) -> Result<(), ConfineError> {
    IS_JSON.store(form == LogForm::Json, Ordering::Relaxed);
    handle(libc::SIGSYS, on_sigsys).map_err(ConfineError::Handler)
}

/// A function that handles a signal. It must be async-signal-safe.
pub(crate) type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// Has `handler` handle a signal, on the alternate stack of the thread, with all other signals blocked meanwhile.
pub(crate) fn handle(signal: c_int, handler: Handler) -> io::Result<()> {
    // SAFETY: all zeros is a valid sigaction.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the mask is that of `action`.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    // SAFETY: `action` is valid, and its handler is async-signal-safe.
    match unsafe { libc::sigaction(signal, &raw const action, core::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the role of the calling thread, for the handler.
pub(crate) fn set_role(role: Role) {
    ROLE.set(role);
}

extern "C" fn on_sigsys(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a siginfo of this form to a handler of SIGSYS installed with SA_SIGINFO.
    let (code, number) = unsafe {
        let refused = info.cast::<Refused>();
        ((*refused).code, (*refused).number)
    };
    if code != SYS_SECCOMP {
        return end_by(signal);
    }
    let ends = ROLE.get() == Role::Worker || !can_fail();
    report(number, ends);
    if ends {
        // SAFETY: ends the process without handlers of exit.
        unsafe { libc::_exit(c_int::from(EXIT_CODE)) };
    }
    // SAFETY: the third argument of such a handler is the context of the interrupted thread.
    unsafe { fail(context.cast()) };
}

/// A signal that a process has sent has its default effect.
fn end_by(signal: c_int) {
    // SAFETY: both are async-signal-safe; the signal is blocked until the handler returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Writes the report.
fn report(number: c_int, ends: bool) {
    let is_json = IS_JSON.load(Ordering::Relaxed);
    write_line(|out, thread| describe(out, (number, thread), ends, is_json));
}

/// Writes a line to standard error, which `describe` makes with the name of the thread. Async-signal-safe if `describe`
/// is: integers and strings are formatted without allocation, and a line that is too long is cut.
pub(crate) fn write_line(describe: impl FnOnce(&mut Cursor<&mut [u8]>, &str) -> io::Result<()>) {
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes at most 16 bytes, with a zero at the end.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = core::str::from_utf8(name).unwrap_or("?");
    let mut line = [0_u8; 768];
    let mut out = Cursor::new(&mut line[..]);
    let _ = describe(&mut out, name);
    let len = out.position() as usize;
    // SAFETY: the buffer has `len` bytes.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), len) };
}

fn describe(
    out: &mut impl Write,
    (number, thread): (c_int, &str),
    ends: bool,
    is_json: bool,
) -> io::Result<()> {
    let effect = if ends { "the process ends" } else { "the call fails" };
    if is_json {
        return writeln!(
            out,
            "{{\"level\":\"ERROR\",\"message\":\"a system call was refused\",\"system_call\":{number},\
             \"thread\":\"{thread}\",\"effect\":\"{effect}\"}}"
        );
    }
    writeln!(
        out,
        "linerate: system call {number} of thread \"{thread}\" was refused by the seccomp filter of its role: \
         {effect}; report it, and write confine = false in [switch] until it is corrected"
    )
}

/// Whether a refused call can be given a result on this processor.
const fn can_fail() -> bool {
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

/// Makes the refused call return EPERM.
///
/// # Safety
/// `context` is that of a signal handler.
unsafe fn fail(context: *mut libc::ucontext_t) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's contract; the register is that of results.
    unsafe {
        (*context).uc_mcontext.gregs[libc::REG_RAX as usize] = -i64::from(libc::EPERM);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller's contract; the register is that of results.
    unsafe {
        (*context).uc_mcontext.regs[0] = (-i64::from(libc::EPERM)) as u64;
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = context;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(ends: bool, is_json: bool) -> String {
        let mut out = Vec::new();
        describe(&mut out, (59, "worker-0"), ends, is_json).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_report_names_the_call_the_thread_and_the_effect() {
        let text = described(true, false);
        for part in ["system call 59", "thread \"worker-0\"", "the process ends", "confine = false"] {
            assert!(text.contains(part), "{text}");
        }
        let json = described(false, true);
        assert_eq!(
            json,
            "{\"level\":\"ERROR\",\"message\":\"a system call was refused\",\"system_call\":59,\
             \"thread\":\"worker-0\",\"effect\":\"the call fails\"}\n"
        );
    }
}
