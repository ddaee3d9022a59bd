//! Thirty-two bytes at a time.
//!
//! Every path through the wide registers ends with `vzeroupper`, so that code around the copy that was compiled
//! for the older encoding does not slow down. It clears the upper halves of all sixteen registers, so all of
//! them are declared as overwritten.

use super::{Lines, by_lines, sse2};
use crate::VolatileSlice;
use crate::copy::{Kernel, small};
use crate::line::LINE;
use core::arch::asm;

/// The registers that `vzeroupper` changes, and the options that all blocks here share.
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

/// Registers of thirty-two bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Avx2;

impl Kernel for Avx2 {
    const NAME: &'static str = "avx2";

    #[inline(always)]
    unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: by contract; each step is given the lengths that it is for.
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
        // SAFETY: by contract; pairs begin at an even number from the end.
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
        // SAFETY: by contract. A segment is its address and, at byte 8 of 16, its length.
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

/// Copies the first line of each of `pairs` times two segments, at least one pair.
///
/// # Safety
/// As [`Kernel::lines`].
#[inline(always)]
unsafe fn one_line(dst: *mut u8, stride: usize, from: *const VolatileSlice, pairs: usize) {
    // SAFETY: by contract. A segment is its address and, behind 8 of its 16 bytes, its length.
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

/// The same for the first two lines of each.
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
    // SAFETY: the two moves lie inside the ranges, which are the caller's to vouch for.
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
    // SAFETY: the four moves lie inside the ranges, which are the caller's to vouch for.
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

/// Ends the use of wide registers.
///
/// # Safety
/// The processor has AVX.
#[inline(always)]
unsafe fn zero_upper() {
    // SAFETY: by contract; what it changes is declared.
    unsafe { wide_asm!("vzeroupper", ;) }
}

impl Lines for Avx2 {
    #[inline(always)]
    unsafe fn one(dst: *mut u8, src: *const u8) {
        // SAFETY: by contract.
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
        // SAFETY: by contract.
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
        // SAFETY: by contract.
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
