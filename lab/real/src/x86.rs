//! Accesses as single x86-64 instructions. x86 keeps loads in order and stores in order, so plain ones suffice.
//!
//! Non-temporal stores (`vmovntdq`) are not ordered. The first study's model takes no decision based on packet contents
//! and needs no fence; a switch would need one [`fence`] per batch, as the second study's copies have.

use core::arch::asm;

use sim::memory::{Address, Cleaning, Copying, Intent, Width};

/// Loads a value at any alignment.
///
/// # Safety
///
/// The bytes lie in one live mapping.
#[inline(always)]
pub(super) unsafe fn load(base: *mut u8, at: Address, width: Width) -> u64 {
    let value: u64;
    // SAFETY: reads bytes guaranteed by the caller and changes one register.
    unsafe {
        match width {
            Width::Two => asm!("movzx {v:e}, word ptr [{b} + {a}]", v = lateout(reg) value, b = in(reg) base,
                a = in(reg) at, options(nostack, readonly, preserves_flags)),
            Width::Four => asm!("mov {v:e}, dword ptr [{b} + {a}]", v = lateout(reg) value, b = in(reg) base,
                a = in(reg) at, options(nostack, readonly, preserves_flags)),
            Width::Eight => asm!("mov {v}, qword ptr [{b} + {a}]", v = lateout(reg) value, b = in(reg) base,
                a = in(reg) at, options(nostack, readonly, preserves_flags)),
        }
    }
    value
}

/// Stores a value at any alignment.
///
/// # Safety
///
/// The bytes lie in one live mapping.
#[inline(always)]
pub(super) unsafe fn store(base: *mut u8, at: Address, width: Width, value: u64) {
    // SAFETY: writes bytes guaranteed by the caller and changes no register.
    unsafe {
        match width {
            Width::Two => asm!("mov word ptr [{b} + {a}], {v:x}", v = in(reg) value, b = in(reg) base,
                a = in(reg) at, options(nostack, preserves_flags)),
            Width::Four => asm!("mov dword ptr [{b} + {a}], {v:e}", v = in(reg) value, b = in(reg) base,
                a = in(reg) at, options(nostack, preserves_flags)),
            Width::Eight => asm!("mov qword ptr [{b} + {a}], {v}", v = in(reg) value, b = in(reg) base,
                a = in(reg) at, options(nostack, preserves_flags)),
        }
    }
}

/// Loads an even number of bytes and discards them: 16 at a time, then fewer.
///
/// # Safety
///
/// The bytes lie in one live mapping.
#[inline(always)]
pub(super) unsafe fn read(base: *mut u8, at: Address, length: u64) {
    let mut done = 0;
    // SAFETY: every access lies in the bytes guaranteed by the caller.
    unsafe {
        while length - done >= 16 {
            asm!("movups {x}, xmmword ptr [{b} + {a}]", x = lateout(xmm_reg) _, b = in(reg) base,
                a = in(reg) at + done, options(nostack, readonly, preserves_flags));
            done += 16;
        }
        for width in [Width::Eight, Width::Four, Width::Two] {
            if length - done >= width.bytes() {
                load(base, at + done, width);
                done += width.bytes();
            }
        }
    }
}

/// Stores an even number of bytes of arbitrary content: 64 at a time, then 16, then fewer.
///
/// # Safety
///
/// The bytes lie in one live mapping.
#[inline(always)]
pub(super) unsafe fn write(base: *mut u8, at: Address, length: u64) {
    let mut done = 0;
    // SAFETY: every access lies in the bytes guaranteed by the caller.
    unsafe {
        while length - done >= 64 {
            asm!("movups xmmword ptr [{b} + {a}], xmm0", "movups xmmword ptr [{b} + {a} + 16], xmm0",
                "movups xmmword ptr [{b} + {a} + 32], xmm0", "movups xmmword ptr [{b} + {a} + 48], xmm0",
                b = in(reg) base, a = in(reg) at + done, options(nostack, preserves_flags));
            done += 64;
        }
        while length - done >= 16 {
            // The register's value does not matter: the content is not significant.
            asm!("movups xmmword ptr [{b} + {a}], xmm0", b = in(reg) base, a = in(reg) at + done,
                options(nostack, preserves_flags));
            done += 16;
        }
        for width in [Width::Eight, Width::Four, Width::Two] {
            if length - done >= width.bytes() {
                store(base, at + done, width, 0);
                done += width.bytes();
            }
        }
    }
}

/// Copies bytes.
///
/// # Safety
///
/// Both ranges lie in one live mapping and do not overlap; the processor has the instructions.
#[inline(always)]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, length: usize, how: Copying) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match how {
            Copying::Libc => by_libc(from, to, length),
            Copying::Words => by_words(from, to, length),
            Copying::Sse => by_sse(from, to, length),
            Copying::Avx2 => by_avx2(from, to, length),
            Copying::Avx512 => by_avx512(from, to, length),
            Copying::NonTemporal => past_caches(from, to, length),
            Copying::RepMovsb => by_string(from, to, length),
            Copying::None => {}
        }
    }
}

/// Calls the C library's `memcpy` from assembly, so that the compiler cannot replace it by its own moves.
#[inline(always)]
unsafe fn by_libc(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: a call by the C calling convention, whose clobbers are declared; ranges guaranteed by the caller.
    unsafe {
        asm!("call {f}", f = in(reg) libc::memcpy as *const (), inout("rdi") to => _, inout("rsi") from => _,
            inout("rdx") length => _, clobber_abi("C"));
    }
}

#[inline(always)]
unsafe fn by_words(from: *const u8, to: *mut u8, length: usize) {
    let whole = length / 4 * 4;
    for n in (0..whole).step_by(4) {
        // SAFETY: four bytes of each range, guaranteed by the caller.
        unsafe {
            asm!("mov {x:e}, dword ptr [{f} + {n}]", "mov dword ptr [{t} + {n}], {x:e}", x = out(reg) _,
                f = in(reg) from, t = in(reg) to, n = in(reg) n, options(nostack, preserves_flags));
        }
    }
    // SAFETY: the remainder of both ranges.
    unsafe { rest(from, to, whole, length) }
}

#[inline(always)]
unsafe fn by_sse(from: *const u8, to: *mut u8, length: usize) {
    let piece = |n: usize| {
        // SAFETY: 16 bytes of each range, guaranteed by the caller.
        unsafe {
            asm!("movups {x}, xmmword ptr [{f} + {n}]", "movups xmmword ptr [{t} + {n}], {x}",
                x = out(xmm_reg) _, f = in(reg) from, t = in(reg) to, n = in(reg) n,
                options(nostack, preserves_flags));
        }
    };
    // SAFETY: both ranges, guaranteed by the caller.
    unsafe { in_pieces(from, to, length, 16, piece) }
}

#[inline(always)]
unsafe fn by_avx2(from: *const u8, to: *mut u8, length: usize) {
    let piece = |n: usize| {
        // SAFETY: 32 bytes of each range and AVX2 support, guaranteed by the caller.
        unsafe {
            asm!("vmovdqu ymm0, ymmword ptr [{f} + {n}]", "vmovdqu ymmword ptr [{t} + {n}], ymm0",
                f = in(reg) from, t = in(reg) to, n = in(reg) n, out("ymm0") _,
                options(nostack, preserves_flags));
        }
    };
    // SAFETY: both ranges and AVX support, guaranteed by the caller.
    unsafe {
        in_pieces(from, to, length, 32, piece);
        leave_wide();
    }
}

#[inline(always)]
unsafe fn by_avx512(from: *const u8, to: *mut u8, length: usize) {
    let piece = |n: usize| {
        // SAFETY: 64 bytes of each range and AVX-512 support, guaranteed by the caller.
        unsafe {
            asm!("vmovdqu64 zmm0, zmmword ptr [{f} + {n}]", "vmovdqu64 zmmword ptr [{t} + {n}], zmm0",
                f = in(reg) from, t = in(reg) to, n = in(reg) n, out("ymm0") _,
                options(nostack, preserves_flags));
        }
    };
    // SAFETY: both ranges and AVX support, guaranteed by the caller.
    unsafe {
        in_pieces(from, to, length, 64, piece);
        leave_wide();
    }
}

/// Copies in pieces of `step` bytes. As in libraries, the remainder is one piece that ends at the end of the ranges and
/// copies some bytes twice. A copy shorter than one piece uses a string instruction.
///
/// # Safety
///
/// `piece` may copy `step` bytes from any offset of the ranges that has `step` bytes after it.
#[inline(always)]
unsafe fn in_pieces(from: *const u8, to: *mut u8, length: usize, step: usize, piece: impl Fn(usize)) {
    if length < step {
        // SAFETY: both ranges, guaranteed by the caller.
        unsafe { by_string(from, to, length) }
        return;
    }
    let whole = length / step * step;
    (0..whole).step_by(step).for_each(&piece);
    if whole < length {
        piece(length - step);
    }
}

/// Copies 32 bytes at a time with non-temporal stores, from the first aligned destination address on.
#[inline(always)]
unsafe fn past_caches(from: *const u8, to: *mut u8, length: usize) {
    let first = to.align_offset(32).min(length);
    let whole = first + (length - first) / 32 * 32;
    // SAFETY: the beginning of both ranges, guaranteed by the caller.
    unsafe { rest(from, to, 0, first) }
    for n in (first..whole).step_by(32) {
        // SAFETY: 32 bytes of each range; the destination is aligned from `first` on; the processor has AVX.
        unsafe {
            asm!("vmovdqu ymm0, ymmword ptr [{f} + {n}]", "vmovntdq ymmword ptr [{t} + {n}], ymm0",
                f = in(reg) from, t = in(reg) to, n = in(reg) n, out("ymm0") _,
                options(nostack, preserves_flags));
        }
    }
    // SAFETY: the remainder of both ranges.
    unsafe { rest(from, to, whole, length) }
    // SAFETY: the processor has AVX, guaranteed by the caller.
    unsafe { leave_wide() }
}

#[inline(always)]
unsafe fn by_string(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: both ranges, guaranteed by the caller; the direction flag is clear by the calling convention.
    unsafe {
        asm!("rep movsb", inout("rcx") length => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags));
    }
}

/// Copies bytes from `done` to `length`, if there are any.
#[inline(always)]
unsafe fn rest(from: *const u8, to: *mut u8, done: usize, length: usize) {
    if done < length {
        // SAFETY: a part of both ranges, guaranteed by the caller.
        unsafe { by_string(from.add(done), to.add(done), length - done) }
    }
}

/// Clears the upper register halves; otherwise later SSE instructions depend on them.
#[inline(always)]
unsafe fn leave_wide() {
    // SAFETY: all registers that it changes are declared.
    unsafe {
        asm!("vzeroupper", out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _,
            out("ymm5") _, out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _,
            out("ymm11") _, out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nostack, nomem, preserves_flags));
    }
}

/// Prefetches a line.
///
/// # Safety
///
/// No requirement: a hint does not fault.
#[inline(always)]
pub(super) unsafe fn prefetch(at: *const u8, intent: Intent) {
    // SAFETY: a hint does not fault and changes no register.
    unsafe {
        match intent {
            Intent::Read => asm!("prefetcht0 [{}]", in(reg) at, options(nostack, readonly, preserves_flags)),
            Intent::Write => asm!("prefetchw [{}]", in(reg) at, options(nostack, readonly, preserves_flags)),
        }
    }
}

/// Flushes, writes back or demotes a line.
///
/// # Safety
///
/// The line lies in a live mapping, and the processor has the instruction.
#[inline(always)]
pub(super) unsafe fn clean(at: *const u8, how: Cleaning) {
    // SAFETY: changes no byte and no register; CLDEMOTE (0F 1C /0) is a hint that processors without it ignore.
    unsafe {
        match how {
            Cleaning::Flush => asm!("clflushopt [{}]", in(reg) at, options(nostack, preserves_flags)),
            Cleaning::WriteBack => asm!("clwb [{}]", in(reg) at, options(nostack, preserves_flags)),
            Cleaning::Demote => {
                asm!(".byte 0x0f, 0x1c, 0x00", in("rax") at, options(nostack, preserves_flags));
            }
        }
    }
}

/// Waits until every earlier load has its value and every earlier store is visible, and delays all later instructions
/// until then: MFENCE orders memory, LFENCE orders clock reads.
#[inline(always)]
pub(super) fn fence() {
    // SAFETY: changes no byte and no register.
    unsafe { asm!("mfence", "lfence", options(nostack, preserves_flags)) }
}

/// Performs `hundreds` * 100 dependent additions: one cycle each on every x86-64 processor.
#[inline(never)]
pub(super) fn dependent_additions(hundreds: u64) {
    if hundreds == 0 {
        return;
    }
    // SAFETY: changes two registers and the flags.
    unsafe {
        asm!("2:", ".rept 100", "add {x}, {n}", ".endr", "sub {n}, 1", "jnz 2b", x = inout(reg) 0_u64 => _,
            n = inout(reg) hundreds => _, options(nostack, nomem));
    }
}
