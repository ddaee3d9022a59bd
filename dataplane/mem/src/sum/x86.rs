//! AVX2 sum, 32 bytes at a time: even and odd 32-bit words are summed in 64-bit lanes, where no carry is lost.

use super::portable;
use core::arch::asm;

/// Bytes per loop iteration.
const STEP: usize = 128;

/// # Safety
/// The processor has AVX2; `len` bytes at `from` are readable; other parties may write them concurrently.
pub(super) unsafe fn words(from: *const u8, len: usize) -> u64 {
    let turns = len / STEP;
    let mut lanes = [0_u64; 4];
    if turns > 0 {
        // SAFETY: `turns * STEP` bytes are inside the range; the lanes are private.
        unsafe { add_turns(from, turns, &mut lanes) };
    }
    // SAFETY: the remainder of the range.
    let rest = unsafe { portable::words(from.add(turns * STEP), len - turns * STEP) };
    lanes.iter().fold(rest, |total, lane| portable::add(total, *lane))
}

/// # Safety
/// The processor has AVX2; `turns` (at least 1) times 128 bytes at `from` are readable.
unsafe fn add_turns(from: *const u8, turns: usize, lanes: &mut [u64; 4]) {
    // SAFETY: reads only the range and writes only the lanes. `vzeroupper` changes all sixteen registers, which are
    // declared.
    unsafe {
        asm!(
            "vpcmpeqd ymm0, ymm0, ymm0",
            "vpsrlq ymm0, ymm0, 32",
            "vpxor ymm1, ymm1, ymm1",
            "vpxor ymm2, ymm2, ymm2",
            "vpxor ymm3, ymm3, ymm3",
            "vpxor ymm4, ymm4, ymm4",
            "2:",
            "vmovdqu ymm5, [{from}]",
            "vmovdqu ymm6, [{from} + 32]",
            "vmovdqu ymm7, [{from} + 64]",
            "vmovdqu ymm8, [{from} + 96]",
            "vpand ymm9, ymm5, ymm0",
            "vpand ymm10, ymm6, ymm0",
            "vpand ymm11, ymm7, ymm0",
            "vpand ymm12, ymm8, ymm0",
            "vpsrlq ymm5, ymm5, 32",
            "vpsrlq ymm6, ymm6, 32",
            "vpsrlq ymm7, ymm7, 32",
            "vpsrlq ymm8, ymm8, 32",
            "vpaddq ymm9, ymm9, ymm5",
            "vpaddq ymm10, ymm10, ymm6",
            "vpaddq ymm11, ymm11, ymm7",
            "vpaddq ymm12, ymm12, ymm8",
            "vpaddq ymm1, ymm1, ymm9",
            "vpaddq ymm2, ymm2, ymm10",
            "vpaddq ymm3, ymm3, ymm11",
            "vpaddq ymm4, ymm4, ymm12",
            "add {from}, 128",
            "dec {turns}",
            "jnz 2b",
            "vpaddq ymm1, ymm1, ymm2",
            "vpaddq ymm3, ymm3, ymm4",
            "vpaddq ymm1, ymm1, ymm3",
            "vmovdqu [{lanes}], ymm1",
            "vzeroupper",
            from = inout(reg) from => _,
            turns = inout(reg) turns => _,
            lanes = in(reg) lanes.as_mut_ptr(),
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _,
            out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nostack)
        );
    }
}
