//! The kernel that every processor and Miri can run: volatile eight-byte accesses.

use super::{Kernel, small};

/// Volatile accesses of eight bytes; the last one overlaps the one before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Portable;

impl Kernel for Portable {
    const NAME: &'static str = "portable";

    #[inline]
    unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
        if len <= 16 {
            // SAFETY: by contract, and `len` was compared.
            return unsafe { small::up_to_16(dst, src, len) };
        }
        let last = len - 8;
        let mut at = 0;
        while at < last {
            // SAFETY: `at + 8 < len`, and both ranges hold `len` bytes by contract.
            unsafe { small::one::<u64>(dst.add(at), src.add(at)) };
            at += 8;
        }
        // SAFETY: `last + 8` is `len`.
        unsafe { small::one::<u64>(dst.add(last), src.add(last)) };
    }
}
