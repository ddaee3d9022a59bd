//! AVX-512 kernel: 64 bytes, one cache line, at a time.
//!
//! Only zmm16 to zmm31 are used: they have no legacy SSE encoding, so no `vzeroupper` is needed. A masked move neither
//! accesses nor faults on bytes outside its mask.

use super::{Lines, by_lines};
use crate::VolatileSlice;
use crate::copy::Kernel;
use core::arch::asm;

/// AVX-512, 64-byte registers and masks. Needs AVX512F, AVX512BW, AVX512VL and BMI2.
#[derive(Clone, Copy, Debug, Default)]
pub struct Avx512;

impl Kernel for Avx512 {
    const NAME: &'static str = "avx512";

    #[inline(always)]
    unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: guaranteed by the caller; each function gets a length in its documented range.
        unsafe {
            match len {
                64 => Self::one(dst, src),
                0..=63 => masked(dst, src, len),
                65..=128 => up_to_128(dst, src, len),
                _ => by_lines::<Self>(dst, src, len),
            }
        }
    }

    #[inline(always)]
    unsafe fn heads(dst: *mut u8, stride: usize, from: *const VolatileSlice, n: usize) {
        if n == 0 {
            return;
        }
        // SAFETY: guaranteed by the caller. A segment is 16 bytes: address at byte 0, length at byte 8.
        unsafe {
            asm!(
                "2:",
                "mov {src}, [{from}]",
                "vmovdqu64 zmm16, [{src}]",
                "vmovdqu64 [{dst}], zmm16",
                "cmp dword ptr [{from} + 8], 64",
                "jbe 3f",
                "vmovdqu64 zmm17, [{src} + 64]",
                "vmovdqu64 [{dst} + 64], zmm17",
                "3:",
                "add {from}, 16",
                "add {dst}, {stride}",
                "cmp {from}, {end}",
                "jne 2b",
                from = inout(reg) from => _, dst = inout(reg) dst => _, end = in(reg) from.add(n),
                stride = in(reg) stride, src = out(reg) _,
                out("zmm16") _, out("zmm17") _,
                options(nostack)
            );
        }
    }
}

/// Copies 0 to 64 bytes.
///
/// # Safety
/// Both ranges hold `len` bytes.
#[inline(always)]
unsafe fn masked(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the mask has one bit for each of the `len` bytes; the other bytes are not accessed.
    unsafe {
        asm!(
            "bzhi {mask}, {mask}, {len}",
            "kmovq k1, {mask}",
            "vmovdqu8 zmm16{{k1}}{{z}}, [{src}]",
            "vmovdqu8 [{dst}]{{k1}}, zmm16",
            mask = inout(reg) u64::MAX => _,
            src = in(reg) src, dst = in(reg) dst, len = in(reg) len,
            out("zmm16") _, out("k1") _,
            options(nostack)
        );
    }
}

/// Copies 64 to 128 bytes.
///
/// # Safety
/// Both ranges hold `len` bytes.
#[inline(always)]
unsafe fn up_to_128(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: both moves lie inside the ranges, which the caller guarantees.
    unsafe {
        asm!(
            "vmovdqu64 zmm16, [{src}]",
            "vmovdqu64 zmm17, [{src} + {len} - 64]",
            "vmovdqu64 [{dst}], zmm16",
            "vmovdqu64 [{dst} + {len} - 64], zmm17",
            src = in(reg) src, dst = in(reg) dst, len = in(reg) len,
            out("zmm16") _, out("zmm17") _,
            options(nostack, preserves_flags)
        );
    }
}

impl Lines for Avx512 {
    #[inline(always)]
    unsafe fn one(dst: *mut u8, src: *const u8) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            asm!(
                "vmovdqu64 zmm16, [{src}]",
                "vmovdqu64 [{dst}], zmm16",
                src = in(reg) src, dst = in(reg) dst,
                out("zmm16") _,
                options(nostack, preserves_flags)
            );
        }
    }

    #[inline(always)]
    unsafe fn two(dst: *mut u8, src: *const u8) {
        // SAFETY: guaranteed by the caller.
        unsafe { up_to_128(dst, src, 128) }
    }

    #[inline(always)]
    unsafe fn four(dst: *mut u8, src: *const u8) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            asm!(
                "vmovdqu64 zmm16, [{src}]",
                "vmovdqu64 zmm17, [{src} + 64]",
                "vmovdqu64 zmm18, [{src} + 128]",
                "vmovdqu64 zmm19, [{src} + 192]",
                "vmovdqu64 [{dst}], zmm16",
                "vmovdqu64 [{dst} + 64], zmm17",
                "vmovdqu64 [{dst} + 128], zmm18",
                "vmovdqu64 [{dst} + 192], zmm19",
                src = in(reg) src, dst = in(reg) dst,
                out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
                options(nostack, preserves_flags)
            );
        }
    }
}
