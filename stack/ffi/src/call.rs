//! One call from C: catches panics, keeps the text of the last error, and allows one call of a host at a time.

use crate::host::Inner;
use crate::host::linerate_host;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Error numbers of `errno.h` on Linux that functions return, negated.
pub(crate) mod code {
    use std::ffi::c_int;

    pub(crate) const AGAIN: c_int = -11;
    pub(crate) const BUSY: c_int = -16;
    pub(crate) const NO_DEVICE: c_int = -19;
    pub(crate) const INVALID: c_int = -22;
    pub(crate) const NO_MEMORY: c_int = -12;
    pub(crate) const TOO_MANY: c_int = -23;
    pub(crate) const PIPE: c_int = -32;
    pub(crate) const NOT_CONNECTED: c_int = -107;
    pub(crate) const TOO_LONG: c_int = -90;
    pub(crate) const IN_USE: c_int = -98;
    pub(crate) const NOT_AVAILABLE: c_int = -99;
    pub(crate) const ABORTED: c_int = -103;
    pub(crate) const RESET: c_int = -104;
    pub(crate) const TIMED_OUT: c_int = -110;
    pub(crate) const REFUSED: c_int = -111;
    pub(crate) const UNREACHABLE: c_int = -113;
    pub(crate) const BROKEN: c_int = -131;
}

/// Result of a call that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: c_int,
    text: Cow<'static, CStr>,
}

impl Failure {
    /// An error whose text is known at compile time. Allocates nothing.
    pub(crate) const fn fixed(code: c_int, text: &'static CStr) -> Self {
        Self { code, text: Cow::Borrowed(text) }
    }

    /// An error that reads `reason; remedy`.
    pub(crate) fn new(code: c_int, reason: impl Display, remedy: &str) -> Self {
        let text = CString::new(format!("{reason}; {remedy}").replace('\0', "?"));
        Self { code, text: Cow::Owned(text.unwrap_or_default()) }
    }
}

/// An invalid argument.
pub(crate) fn invalid(reason: impl Display, remedy: &str) -> Failure {
    Failure::new(code::INVALID, format_args!("invalid argument: {reason}"), remedy)
}

thread_local! {
    static LAST: RefCell<Cow<'static, CStr>> = const { RefCell::new(Cow::Borrowed(c"")) };
}

const PANICKED: Failure =
    Failure::fixed(code::BROKEN, c"internal error: the library panicked; report it, and free the host");

/// Runs a call that needs no host. Returns its result or its error number.
pub(crate) fn call(work: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(PANICKED));
    result.unwrap_or_else(|Failure { code, text }| {
        // No text is kept while the thread ends.
        let _ = LAST.try_with(|last| *last.borrow_mut() = text);
        code
    })
}

/// State of a host between calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    /// A call is running. A release function that calls the host from within it gets an error.
    Busy,
    /// A call panicked.
    Broken,
}

/// Runs a call of a host. Returns its result or its error number.
///
/// # Safety
/// The pointer is null, or points to a host that no other thread uses meanwhile.
pub(crate) unsafe fn call_host(
    host: *mut linerate_host,
    work: impl FnOnce(&mut Inner) -> Result<c_int, Failure>,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's contract. Only cells of the host are accessed through it.
        let host = unsafe { crate::pointer::reference(host.cast_const(), "host") }?;
        match host.state.get() {
            State::Idle => host.state.set(State::Busy),
            State::Busy => {
                const TEXT: &CStr =
                    c"the host is in use: a release function called it; return from that first";
                return Err(Failure::fixed(code::BUSY, TEXT));
            }
            State::Broken => return Err(PANICKED),
        }
        // SAFETY: the state was idle and is busy until the end of this call, so no other reference exists.
        let inner = unsafe { &mut *host.inner.get() };
        let result = catch_unwind(AssertUnwindSafe(|| work(inner)));
        host.state.set(if result.is_err() { State::Broken } else { State::Idle });
        result.unwrap_or(Err(PANICKED))
    })
}

/// Returns the text of the last error of the calling thread, "" if there was none. It is valid until the next function
/// of this library that fails on this thread. It reads "what failed: why; what to do".
#[unsafe(no_mangle)]
pub extern "C" fn linerate_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Returns the version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn linerate_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
