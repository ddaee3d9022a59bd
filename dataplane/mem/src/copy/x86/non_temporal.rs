//! Non-temporal stores: destination lines are written to memory without a fetch and without staying in a cache.
//!
//! Useful if the reader runs on a distant core or reads late. Non-temporal stores are weakly ordered, so each copy that
//! uses them ends with `sfence`; a later Release store then publishes the whole copy.

use super::{LINE, Lines, Sse2, to_next_line};
use crate::copy::Kernel;
use core::arch::asm;

/// Shorter copies use ordinary stores, so that the destination stays in the cache. In bytes.
const WORTH_STREAMING: usize = 512;

/// Non-temporal stores for copies of at least 512 bytes, ordinary stores below.
#[derive(Clone, Copy, Debug, Default)]
pub struct NonTemporal;

impl Kernel for NonTemporal {
    const NAME: &'static str = "non-temporal";

    #[inline(always)]
    unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: guaranteed by the caller; all x86-64 processors have these instructions.
        unsafe {
            if len < WORTH_STREAMING {
                return Sse2::copy(dst, src, len);
            }
            stream(dst, src, len);
            asm!("sfence", options(nostack, preserves_flags));
        }
    }
}

/// Copies `len` bytes, at least 64: the first and the last line with ordinary stores, the rest with non-temporal ones.
///
/// # Safety
/// As [`Kernel::copy`].
#[inline]
unsafe fn stream(dst: *mut u8, src: *const u8, len: usize) {
    let last = len - LINE;
    let mut at = to_next_line(dst);
    // SAFETY: `at < last` for every streamed line, and `last + LINE == len`.
    unsafe {
        Sse2::one(dst, src);
        while at < last {
            stream_line(dst.add(at), src.add(at));
            at += LINE;
        }
        Sse2::one(dst.add(last), src.add(last));
    }
}

/// Copies 64 bytes to one aligned line.
///
/// # Safety
/// Both ranges hold 64 bytes, and `dst` is line-aligned.
#[inline(always)]
unsafe fn stream_line(dst: *mut u8, src: *const u8) {
    // SAFETY: guaranteed by the caller, including the alignment that `movntdq` needs.
    unsafe {
        asm!(
            "movdqu {a}, [{src}]",
            "movdqu {b}, [{src} + 16]",
            "movdqu {c}, [{src} + 32]",
            "movdqu {d}, [{src} + 48]",
            "movntdq [{dst}], {a}",
            "movntdq [{dst} + 16], {b}",
            "movntdq [{dst} + 32], {c}",
            "movntdq [{dst} + 48], {d}",
            src = in(reg) src, dst = in(reg) dst,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
    }
}
