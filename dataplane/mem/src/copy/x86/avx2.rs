//! AVX2 kernel: 32 bytes at a time.
//!
//! Every path that uses ymm registers ends with `vzeroupper`, to avoid SSE transition penalties in surrounding code. It
//! clears the upper halves of all sixteen registers, so all are declared as clobbered.

use super::{Lines, by_lines, sse2};
use crate::VolatileSlice;
use crate::copy::{Kernel, small};
use crate::line::LINE;
use core::arch::asm;

/// `asm!` with the clobbers of `vzeroupper` and the options common to all blocks of this file.
macro_rules! wide_asm {
    ($($line:literal,)* ; $($operand:tt)*) => {
        asm!(
            $($line,)*
            $($operand)*
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _,
            out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nostack)
        )
    };
}

/// AVX2, 32-byte registers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Avx2;

impl Kernel for Avx2 {
    const NAME: &'static str = "avx2";

    #[inline(always)]
    unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: guaranteed by the caller; each function gets a length in its documented range.
        unsafe {
            match len {
                0..=16 => small::up_to_16(dst, src, len),
                17..=32 => sse2::up_to_32(dst, src, len),
                33..=64 => up_to_64(dst, src, len),
                65..=128 => up_to_128(dst, src, len),
                _ => {
                    by_lines::<Self>(dst, src, len);
                    zero_upper();
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn lines<const LINES: usize>(dst: *mut u8, stride: usize, from: *const VolatileSlice, n: usize) {
        // SAFETY: guaranteed by the caller; for odd `n`, segment 0 is copied alone and pairs start at segment 1.
        unsafe {
            if !n.is_multiple_of(2) {
                Self::copy(dst, (*from).as_ptr(), LINES * LINE);
            }
            let (dst, from) = (dst.add(n % 2 * stride), from.add(n % 2));
            if n > 1 && LINES == 1 {
                one_line(dst, stride, from, n / 2);
            } else if n > 1 {
                two_lines(dst, stride, from, n / 2);
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
            wide_asm!(
                "2:",
                "mov {src}, [{from}]",
                "vmovdqu ymm0, [{src}]",
                "vmovdqu ymm1, [{src} + 32]",
                "vmovdqu [{dst}], ymm0",
                "vmovdqu [{dst} + 32], ymm1",
                "cmp dword ptr [{from} + 8], 64",
                "jbe 3f",
                "vmovdqu ymm2, [{src} + 64]",
                "vmovdqu ymm3, [{src} + 96]",
                "vmovdqu [{dst} + 64], ymm2",
                "vmovdqu [{dst} + 96], ymm3",
                "3:",
                "add {from}, 16",
                "add {dst}, {stride}",
                "cmp {from}, {end}",
                "jne 2b",
                "vzeroupper",
                ; from = inout(reg) from => _, dst = inout(reg) dst => _, end = in(reg) from.add(n),
                stride = in(reg) stride, src = out(reg) _,
            );
        }
    }
}

/// Copies the first line of each of `2 * pairs` segments; `pairs` is at least 1.
///
/// # Safety
/// As [`Kernel::lines`].
#[inline(always)]
unsafe fn one_line(dst: *mut u8, stride: usize, from: *const VolatileSlice, pairs: usize) {
    // SAFETY: guaranteed by the caller. A segment is 16 bytes: address at byte 0, length at byte 8.
    unsafe {
        wide_asm!(
            "2:",
            "mov {src}, [{from}]",
            "mov {other}, [{from} + 16]",
            "vmovdqu ymm0, [{src}]",
            "vmovdqu ymm1, [{src} + 32]",
            "vmovdqu ymm2, [{other}]",
            "vmovdqu ymm3, [{other} + 32]",
            "vmovdqu [{dst}], ymm0",
            "vmovdqu [{dst} + 32], ymm1",
            "vmovdqu [{dst} + {stride}], ymm2",
            "vmovdqu [{dst} + {stride} + 32], ymm3",
            "add {from}, 32",
            "lea {dst}, [{dst} + 2 * {stride}]",
            "cmp {from}, {end}",
            "jne 2b",
            "vzeroupper",
            ; from = inout(reg) from => _, dst = inout(reg) dst => _, end = in(reg) from.add(2 * pairs),
            stride = in(reg) stride, src = out(reg) _, other = out(reg) _,
        );
    }
}

/// Copies the first two lines of each of `2 * pairs` segments; `pairs` is at least 1.
///
/// # Safety
/// As [`Kernel::lines`].
#[inline(always)]
unsafe fn two_lines(dst: *mut u8, stride: usize, from: *const VolatileSlice, pairs: usize) {
    // SAFETY: as in `one_line`.
    unsafe {
        wide_asm!(
            "2:",
            "mov {src}, [{from}]",
            "mov {other}, [{from} + 16]",
            "vmovdqu ymm0, [{src}]",
            "vmovdqu ymm1, [{src} + 32]",
            "vmovdqu ymm2, [{src} + 64]",
            "vmovdqu ymm3, [{src} + 96]",
            "vmovdqu ymm4, [{other}]",
            "vmovdqu ymm5, [{other} + 32]",
            "vmovdqu ymm6, [{other} + 64]",
            "vmovdqu ymm7, [{other} + 96]",
            "vmovdqu [{dst}], ymm0",
            "vmovdqu [{dst} + 32], ymm1",
            "vmovdqu [{dst} + 64], ymm2",
            "vmovdqu [{dst} + 96], ymm3",
            "vmovdqu [{dst} + {stride}], ymm4",
            "vmovdqu [{dst} + {stride} + 32], ymm5",
            "vmovdqu [{dst} + {stride} + 64], ymm6",
            "vmovdqu [{dst} + {stride} + 96], ymm7",
            "add {from}, 32",
            "lea {dst}, [{dst} + 2 * {stride}]",
            "cmp {from}, {end}",
            "jne 2b",
            "vzeroupper",
            ; from = inout(reg) from => _, dst = inout(reg) dst => _, end = in(reg) from.add(2 * pairs),
            stride = in(reg) stride, src = out(reg) _, other = out(reg) _,
        );
    }
}

/// Copies 32 to 64 bytes.
///
/// # Safety
/// Both ranges hold `len` bytes.
#[inline(always)]
unsafe fn up_to_64(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: both moves lie inside the ranges, which the caller guarantees.
    unsafe {
        wide_asm!(
            "vmovdqu ymm0, [{src}]",
            "vmovdqu ymm1, [{src} + {len} - 32]",
            "vmovdqu [{dst}], ymm0",
            "vmovdqu [{dst} + {len} - 32], ymm1",
            "vzeroupper",
            ; src = in(reg) src, dst = in(reg) dst, len = in(reg) len,
        );
    }
}

/// Copies 64 to 128 bytes.
///
/// # Safety
/// Both ranges hold `len` bytes.
#[inline(always)]
unsafe fn up_to_128(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: all four moves lie inside the ranges, which the caller guarantees.
    unsafe {
        wide_asm!(
            "vmovdqu ymm0, [{src}]",
            "vmovdqu ymm1, [{src} + 32]",
            "vmovdqu ymm2, [{src} + {len} - 64]",
            "vmovdqu ymm3, [{src} + {len} - 32]",
            "vmovdqu [{dst}], ymm0",
            "vmovdqu [{dst} + 32], ymm1",
            "vmovdqu [{dst} + {len} - 64], ymm2",
            "vmovdqu [{dst} + {len} - 32], ymm3",
            "vzeroupper",
            ; src = in(reg) src, dst = in(reg) dst, len = in(reg) len,
        );
    }
}

/// Executes `vzeroupper`.
///
/// # Safety
/// The processor has AVX.
#[inline(always)]
unsafe fn zero_upper() {
    // SAFETY: the processor has AVX; all changed registers are declared.
    unsafe { wide_asm!("vzeroupper", ;) }
}

impl Lines for Avx2 {
    #[inline(always)]
    unsafe fn one(dst: *mut u8, src: *const u8) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            wide_asm!(
                "vmovdqu ymm0, [{src}]",
                "vmovdqu ymm1, [{src} + 32]",
                "vmovdqu [{dst}], ymm0",
                "vmovdqu [{dst} + 32], ymm1",
                ; src = in(reg) src, dst = in(reg) dst,
            );
        }
    }

    #[inline(always)]
    unsafe fn two(dst: *mut u8, src: *const u8) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            wide_asm!(
                "vmovdqu ymm0, [{src}]",
                "vmovdqu ymm1, [{src} + 32]",
                "vmovdqu ymm2, [{src} + 64]",
                "vmovdqu ymm3, [{src} + 96]",
                "vmovdqu [{dst}], ymm0",
                "vmovdqu [{dst} + 32], ymm1",
                "vmovdqu [{dst} + 64], ymm2",
                "vmovdqu [{dst} + 96], ymm3",
                ; src = in(reg) src, dst = in(reg) dst,
            );
        }
    }

    #[inline(always)]
    unsafe fn four(dst: *mut u8, src: *const u8) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            wide_asm!(
                "vmovdqu ymm0, [{src}]",
                "vmovdqu ymm1, [{src} + 32]",
                "vmovdqu ymm2, [{src} + 64]",
                "vmovdqu ymm3, [{src} + 96]",
                "vmovdqu ymm4, [{src} + 128]",
                "vmovdqu ymm5, [{src} + 160]",
                "vmovdqu ymm6, [{src} + 192]",
                "vmovdqu ymm7, [{src} + 224]",
                "vmovdqu [{dst}], ymm0",
                "vmovdqu [{dst} + 32], ymm1",
                "vmovdqu [{dst} + 64], ymm2",
                "vmovdqu [{dst} + 96], ymm3",
                "vmovdqu [{dst} + 128], ymm4",
                "vmovdqu [{dst} + 160], ymm5",
                "vmovdqu [{dst} + 192], ymm6",
                "vmovdqu [{dst} + 224], ymm7",
                ; src = in(reg) src, dst = in(reg) dst,
            );
        }
    }
}
