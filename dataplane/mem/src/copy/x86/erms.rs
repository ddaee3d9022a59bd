//! `rep movsb` kernel.

use crate::copy::{Kernel, small};
use core::arch::asm;

/// One `rep movsb` for any length above 16. Fast on processors with ERMS or FSRM.
#[derive(Clone, Copy, Debug, Default)]
pub struct Erms;

impl Kernel for Erms {
    const NAME: &'static str = "erms";

    #[inline(always)]
    unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
        if len <= 16 {
            // SAFETY: guaranteed by the caller; `len <= 16`.
            return unsafe { small::up_to_16(dst, src, len) };
        }
        // SAFETY: guaranteed by the caller; the direction flag is clear on entry to every assembly block.
        unsafe {
            asm!(
                "rep movsb",
                inout("rcx") len => _, inout("rdi") dst => _, inout("rsi") src => _,
                options(nostack, preserves_flags)
            );
        }
    }
}
