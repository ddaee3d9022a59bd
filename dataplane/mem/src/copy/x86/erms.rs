//! The processor's own copy loop, `rep movsb`.

use crate::copy::{Kernel, small};
use core::arch::asm;

/// One instruction for any length. Worth measuring where the processor says that it is fast (ERMS, FSRM).
#[derive(Clone, Copy, Debug, Default)]
pub struct Erms;

impl Kernel for Erms {
    const NAME: &'static str = "erms";

    #[inline(always)]
    unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
        if len <= 16 {
            // SAFETY: by contract, and `len` was compared.
            return unsafe { small::up_to_16(dst, src, len) };
        }
        // SAFETY: by contract; the direction flag is clear on entry to every assembly block.
        unsafe {
            asm!(
                "rep movsb",
                inout("rcx") len => _, inout("rdi") dst => _, inout("rsi") src => _,
                options(nostack, preserves_flags)
            );
        }
    }
}
