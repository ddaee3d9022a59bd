//! Portable kernel, also used under Miri: volatile eight-byte accesses.

use super::{Kernel, small};

/// Volatile eight-byte accesses; the last one overlaps the one before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Portable;

impl Kernel for Portable {
    const NAME: &'static str = "portable";

    // Development builds call it: they optimise this crate, and not all crates that copy.
    #[cfg_attr(not(debug_assertions), inline)]
    unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
        if len <= 16 {
            // SAFETY: guaranteed by the caller; `len <= 16`.
            return unsafe { small::up_to_16(dst, src, len) };
        }
        let last = len - 8;
        let mut at = 0;
        while at < last {
            // SAFETY: `at + 8 < len`, and both ranges hold `len` bytes.
            unsafe { small::one::<u64>(dst.add(at), src.add(at)) };
            at += 8;
        }
        // SAFETY: `last + 8 == len`.
        unsafe { small::one::<u64>(dst.add(last), src.add(last)) };
    }
}
