//! SSE2 kernel: 16 bytes at a time, on all x86-64 processors.

use super::{Lines, by_lines};
use crate::copy::{Kernel, small};
use core::arch::asm;

/// SSE2, 16-byte registers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sse2;

impl Kernel for Sse2 {
    const NAME: &'static str = "sse2";

    #[inline(always)]
    unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: guaranteed by the caller; each function gets a length in its documented range.
        unsafe {
            match len {
                0..=16 => small::up_to_16(dst, src, len),
                17..=32 => up_to_32(dst, src, len),
                33..=64 => up_to_64(dst, src, len),
                65..=128 => up_to_128(dst, src, len),
                _ => by_lines::<Self>(dst, src, len),
            }
        }
    }
}

/// Copies 16 to 32 bytes.
///
/// # Safety
/// Both ranges hold `len` bytes.
#[inline(always)]
pub(super) unsafe fn up_to_32(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: both moves lie inside the ranges, which the caller guarantees.
    unsafe {
        asm!(
            "movdqu {a}, [{src}]",
            "movdqu {b}, [{src} + {len} - 16]",
            "movdqu [{dst}], {a}",
            "movdqu [{dst} + {len} - 16], {b}",
            src = in(reg) src, dst = in(reg) dst, len = in(reg) len,
            a = out(xmm_reg) _, b = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// Copies 32 to 64 bytes.
///
/// # Safety
/// Both ranges hold `len` bytes.
#[inline(always)]
unsafe fn up_to_64(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: all four moves lie inside the ranges, which the caller guarantees.
    unsafe {
        asm!(
            "movdqu {a}, [{src}]",
            "movdqu {b}, [{src} + 16]",
            "movdqu {c}, [{src} + {len} - 32]",
            "movdqu {d}, [{src} + {len} - 16]",
            "movdqu [{dst}], {a}",
            "movdqu [{dst} + 16], {b}",
            "movdqu [{dst} + {len} - 32], {c}",
            "movdqu [{dst} + {len} - 16], {d}",
            src = in(reg) src, dst = in(reg) dst, len = in(reg) len,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// Copies 64 to 128 bytes.
///
/// # Safety
/// Both ranges hold `len` bytes.
#[inline(always)]
unsafe fn up_to_128(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: all eight moves lie inside the ranges, which the caller guarantees.
    unsafe {
        asm!(
            "movdqu {a}, [{src}]",
            "movdqu {b}, [{src} + 16]",
            "movdqu {c}, [{src} + 32]",
            "movdqu {d}, [{src} + 48]",
            "movdqu {e}, [{src} + {len} - 64]",
            "movdqu {f}, [{src} + {len} - 48]",
            "movdqu {g}, [{src} + {len} - 32]",
            "movdqu {h}, [{src} + {len} - 16]",
            "movdqu [{dst}], {a}",
            "movdqu [{dst} + 16], {b}",
            "movdqu [{dst} + 32], {c}",
            "movdqu [{dst} + 48], {d}",
            "movdqu [{dst} + {len} - 64], {e}",
            "movdqu [{dst} + {len} - 48], {f}",
            "movdqu [{dst} + {len} - 32], {g}",
            "movdqu [{dst} + {len} - 16], {h}",
            src = in(reg) src, dst = in(reg) dst, len = in(reg) len,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            e = out(xmm_reg) _, f = out(xmm_reg) _, g = out(xmm_reg) _, h = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
    }
}

impl Lines for Sse2 {
    #[inline(always)]
    unsafe fn one(dst: *mut u8, src: *const u8) {
        // SAFETY: guaranteed by the caller.
        unsafe { up_to_64(dst, src, 64) }
    }

    #[inline(always)]
    unsafe fn two(dst: *mut u8, src: *const u8) {
        // SAFETY: guaranteed by the caller.
        unsafe { up_to_128(dst, src, 128) }
    }

    #[inline(always)]
    unsafe fn four(dst: *mut u8, src: *const u8) {
        // SAFETY: guaranteed by the caller; the two halves are 128 bytes each.
        unsafe {
            Self::two(dst, src);
            Self::two(dst.add(128), src.add(128));
        }
    }
}
