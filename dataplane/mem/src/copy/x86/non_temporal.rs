//! Streaming stores: the destination's lines go to memory without being fetched and without staying in a cache.
//!
//! They pay where the reader is far away or reads late. Stores of this kind are not ordered with others, so each
//! copy that used one ends with a store fence; an ordinary Release store afterwards then publishes all of it.

use super::{LINE, Lines, Sse2, to_next_line};
use crate::copy::Kernel;
use core::arch::asm;

/// Below this a copy is short enough that its destination had better stay in the cache.
const WORTH_STREAMING: usize = 512;

/// Streaming stores from 512 bytes on, ordinary ones below.
#[derive(Clone, Copy, Debug, Default)]
pub struct NonTemporal;

impl Kernel for NonTemporal {
    const NAME: &'static str = "non-temporal";

    #[inline(always)]
    unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: by contract; every x86-64 processor has these instructions.
        unsafe {
            if len < WORTH_STREAMING {
                return Sse2::copy(dst, src, len);
            }
            stream(dst, src, len);
            asm!("sfence", options(nostack, preserves_flags));
        }
    }
}

/// Copies `len` bytes, at least 64: the first and the last line as they lie, those between by streaming.
///
/// # Safety
/// As [`Kernel::copy`].
#[inline]
unsafe fn stream(dst: *mut u8, src: *const u8, len: usize) {
    let last = len - LINE;
    let mut at = to_next_line(dst);
    // SAFETY: `at` is below `last` at every streamed line, and `last` plus a line is `len`.
    unsafe {
        Sse2::one(dst, src);
        while at < last {
            stream_line(dst.add(at), src.add(at));
            at += LINE;
        }
        Sse2::one(dst.add(last), src.add(last));
    }
}

/// Moves 64 bytes to a line.
///
/// # Safety
/// Both ranges hold 64 bytes, and the destination is the start of a line.
#[inline(always)]
unsafe fn stream_line(dst: *mut u8, src: *const u8) {
    // SAFETY: by contract; these stores need the alignment.
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
