//! The frames of a thread that a signal has interrupted, as addresses that `addr2line` resolves.
//!
//! The first address is that of the interrupted instruction, from the context of the signal. The others are found by the
//! unwinder of the language runtime, which allocates nothing after its first call ([`prepare`]), and waits for no lock
//! with glibc from 2.35 on. It reads the stack, which may be what is broken: a fault in it ends the process at once,
//! because signals are blocked in the handler. So it must be called after everything else was reported. With musl, it
//! ends at the handler: the function from which a handler returns has no description of its frame there.
//!
//! The crate `backtrace` calls the same functions, and brings a reader of debug information that no signal handler may
//! call.

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
    /// Address in the frame of a visit, and whether it is that of the instruction itself, not of the one after a call.
    fn _Unwind_GetIPInfo(frame: *mut c_void, is_exact: *mut c_int) -> usize;
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
    /// The address `interrupted`, and the frames of the calling thread.
    #[inline(never)]
    pub(crate) fn here(interrupted: usize) -> Self {
        let mut frames = Self { n: 1, ..Self::default() };
        frames.addresses[0] = interrupted;
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
    std::hint::black_box(Frames::here(0));
}

/// Addresses of the program's code.
pub(crate) fn code() -> core::ops::Range<usize> {
    (&raw const __executable_start).addr()..(&raw const etext).addr()
}

/// The address of the instruction that a signal has interrupted; 0 on other processors.
///
/// # Safety
/// `context` is that of a signal handler.
pub(crate) unsafe fn interrupted(context: *const libc::ucontext_t) -> usize {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's contract.
    return unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] } as usize;
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller's contract.
    return unsafe { (*context).uc_mcontext.pc } as usize;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = context;
        0
    }
}

extern "C" fn visit(frame: *mut c_void, frames: *mut c_void) -> c_int {
    // SAFETY: `here` passes its frames, which nothing else uses during the call.
    let frames = unsafe { &mut *frames.cast::<Frames>() };
    let Some(place) = frames.addresses.get_mut(frames.n) else { return END };
    let mut is_exact = 0;
    // SAFETY: the unwinder passes a frame that is valid during the visit, and writes an integer.
    let address = unsafe { _Unwind_GetIPInfo(frame, &raw mut is_exact) };
    *place = address.wrapping_sub(usize::from(is_exact == 0));
    frames.n += 1;
    GO_ON
}
