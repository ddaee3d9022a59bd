//! The frames of a thread that a signal has interrupted, as addresses that `addr2line` resolves.
//!
//! The unwinder of the language runtime allocates nothing after its first call ([`prepare`]), and takes no lock with
//! glibc from 2.35 on or musl. It reads the stack, which may be what is broken: a fault in it ends the process at once,
//! because the signal is blocked. So it must be called after everything else was reported. The crate `backtrace` calls
//! the same two functions, and brings a reader of debug information that no signal handler may call.

use core::ffi::{c_int, c_void};
use std::io::{self, Write};

/// Most frames of a report.
const FRAMES: usize = 24;
/// Result of a visitor: go on (`_URC_NO_REASON`), or end (`_URC_END_OF_STACK`).
const GO_ON: c_int = 0;
const END: c_int = 5;

type Visitor = extern "C" fn(*mut c_void, *mut c_void) -> c_int;

unsafe extern "C" {
    /// Calls the visitor with each frame, from the inside out (Itanium C++ ABI, Level I, section 1.3).
    fn _Unwind_Backtrace(visitor: Visitor, data: *mut c_void) -> c_int;
    /// Address in the frame of a visit.
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
    /// Start and end of the program's code, by the linker.
    static __executable_start: u8;
    static etext: u8;
}

/// Addresses of frames, from the inside out.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    addresses: [usize; FRAMES],
    n: usize,
}

impl Frames {
    /// The frames of the calling thread.
    #[inline(never)]
    pub(crate) fn here() -> Self {
        let mut frames = Self::default();
        // SAFETY: the visitor does not unwind, and gets the frames, which outlive the call.
        unsafe { _Unwind_Backtrace(visit, (&raw mut frames).cast()) };
        frames
    }

    /// Writes the addresses, relative to the start of the program; `library` for one outside of it, which means nothing
    /// without the mappings. `separator` is put between them, and `quote` around each.
    pub(crate) fn write(&self, out: &mut impl Write, (separator, quote): (&str, &str)) -> io::Result<()> {
        let code = code();
        self.addresses[..self.n].iter().enumerate().try_for_each(|(at, address)| {
            let before = if at == 0 { "" } else { separator };
            match address.checked_sub(code.start).filter(|_| code.contains(address)) {
                Some(offset) => write!(out, "{before}{quote}{offset:#x}{quote}"),
                None => write!(out, "{before}{quote}library{quote}"),
            }
        })
    }
}

/// Has the unwinder allocate and link what it needs.
pub(crate) fn prepare() {
    std::hint::black_box(Frames::here());
}

/// Addresses of the program's code.
pub(crate) fn code() -> core::ops::Range<usize> {
    (&raw const __executable_start).addr()..(&raw const etext).addr()
}

extern "C" fn visit(frame: *mut c_void, frames: *mut c_void) -> c_int {
    // SAFETY: `here` passes its frames, which nothing else uses during the call.
    let frames = unsafe { &mut *frames.cast::<Frames>() };
    let Some(place) = frames.addresses.get_mut(frames.n) else { return END };
    // SAFETY: the unwinder passes a frame that is valid during the visit.
    *place = unsafe { _Unwind_GetIP(frame) };
    frames.n += 1;
    GO_ON
}
