//! Accesses as single x86-64 instructions. x86 keeps loads in order and stores in order, so plain ones are enough.
//!
//! Stores past the caches (`vmovntdq`) are not in that order. The model of the first study decides nothing by what a packet
//! holds and fences nothing; a switch would need one [`fence`] for each batch, as the second study's copies have.

use core::arch::asm;

use sim::memory::{Address, Cleaning, Copying, Intent, Width};

/// Loads a value at any place.
///
/// # Safety
///
/// The bytes lie in one live mapping.
#[inline(always)]
pub(super) unsafe fn load(base: *mut u8, at: Address, width: Width) -> u64 {
    let value: u64;
    // SAFETY: reads bytes that the caller vouches for, and changes one register.
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

/// Stores a value at any place.
///
/// # Safety
///
/// The bytes lie in one live mapping.
#[inline(always)]
pub(super) unsafe fn store(base: *mut u8, at: Address, width: Width, value: u64) {
    // SAFETY: writes bytes that the caller vouches for, and changes no register.
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

/// Loads an even number of bytes and forgets them: 16 at a time, then fewer.
///
/// # Safety
///
/// The bytes lie in one live mapping.
#[inline(always)]
pub(super) unsafe fn read(base: *mut u8, at: Address, length: u64) {
    let mut done = 0;
    // SAFETY: every access lies in the bytes that the caller vouches for.
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

/// Stores an even number of bytes of no meaning: 16 at a time, then fewer.
///
/// # Safety
///
/// The bytes lie in one live mapping.
#[inline(always)]
pub(super) unsafe fn write(base: *mut u8, at: Address, length: u64) {
    let mut done = 0;
    // SAFETY: every access lies in the bytes that the caller vouches for.
    unsafe {
        while length - done >= 64 {
            asm!("movups xmmword ptr [{b} + {a}], xmm0", "movups xmmword ptr [{b} + {a} + 16], xmm0",
                "movups xmmword ptr [{b} + {a} + 32], xmm0", "movups xmmword ptr [{b} + {a} + 48], xmm0",
                b = in(reg) base, a = in(reg) at + done, options(nostack, preserves_flags));
            done += 64;
        }
        while length - done >= 16 {
            // What the register holds is no matter: bytes of no meaning.
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

/// Moves bytes.
///
/// # Safety
///
/// Both ranges lie in one live mapping and do not overlap; the processor has the instructions.
#[inline(always)]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, length: usize, how: Copying) {
    // SAFETY: as the caller vouches.
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

/// The C library's: called from assembly, so that the compiler does not put moves of its own in its place.
#[inline(always)]
unsafe fn by_libc(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: a call by the C calling convention, whose clobbers are declared; ranges as the caller vouches.
    unsafe {
        asm!("call {f}", f = in(reg) libc::memcpy as *const (), inout("rdi") to => _, inout("rsi") from => _,
            inout("rdx") length => _, clobber_abi("C"));
    }
}

#[inline(always)]
unsafe fn by_words(from: *const u8, to: *mut u8, length: usize) {
    let whole = length / 4 * 4;
    for n in (0..whole).step_by(4) {
        // SAFETY: four bytes of each range, as the caller vouches.
        unsafe {
            asm!("mov {x:e}, dword ptr [{f} + {n}]", "mov dword ptr [{t} + {n}], {x:e}", x = out(reg) _,
                f = in(reg) from, t = in(reg) to, n = in(reg) n, options(nostack, preserves_flags));
        }
    }
    // SAFETY: what is left of both ranges.
    unsafe { rest(from, to, whole, length) }
}

#[inline(always)]
unsafe fn by_sse(from: *const u8, to: *mut u8, length: usize) {
    let piece = |n: usize| {
        // SAFETY: 16 bytes of each range, as the caller vouches.
        unsafe {
            asm!("movups {x}, xmmword ptr [{f} + {n}]", "movups xmmword ptr [{t} + {n}], {x}",
                x = out(xmm_reg) _, f = in(reg) from, t = in(reg) to, n = in(reg) n,
                options(nostack, preserves_flags));
        }
    };
    // SAFETY: both ranges, as the caller vouches.
    unsafe { in_pieces(from, to, length, 16, piece) }
}

#[inline(always)]
unsafe fn by_avx2(from: *const u8, to: *mut u8, length: usize) {
    let piece = |n: usize| {
        // SAFETY: 32 bytes of each range, and the processor has AVX2, as the caller vouches.
        unsafe {
            asm!("vmovdqu ymm0, ymmword ptr [{f} + {n}]", "vmovdqu ymmword ptr [{t} + {n}], ymm0",
                f = in(reg) from, t = in(reg) to, n = in(reg) n, out("ymm0") _,
                options(nostack, preserves_flags));
        }
    };
    // SAFETY: both ranges, and AVX, as the caller vouches.
    unsafe {
        in_pieces(from, to, length, 32, piece);
        leave_wide();
    }
}

#[inline(always)]
unsafe fn by_avx512(from: *const u8, to: *mut u8, length: usize) {
    let piece = |n: usize| {
        // SAFETY: 64 bytes of each range, and the processor has AVX-512, as the caller vouches.
        unsafe {
            asm!("vmovdqu64 zmm0, zmmword ptr [{f} + {n}]", "vmovdqu64 zmmword ptr [{t} + {n}], zmm0",
                f = in(reg) from, t = in(reg) to, n = in(reg) n, out("ymm0") _,
                options(nostack, preserves_flags));
        }
    };
    // SAFETY: both ranges, and AVX, as the caller vouches.
    unsafe {
        in_pieces(from, to, length, 64, piece);
        leave_wide();
    }
}

/// Piece after piece; what is left is a piece that ends where the ranges end, some bytes of it a second time, as libraries
/// do it. A copy shorter than one piece is a string instruction.
///
/// # Safety
///
/// `piece` may copy `step` bytes from any place of the ranges that has as many behind it.
#[inline(always)]
unsafe fn in_pieces(from: *const u8, to: *mut u8, length: usize, step: usize, piece: impl Fn(usize)) {
    if length < step {
        // SAFETY: both ranges, as the caller vouches.
        unsafe { by_string(from, to, length) }
        return;
    }
    let whole = length / step * step;
    (0..whole).step_by(step).for_each(&piece);
    if whole < length {
        piece(length - step);
    }
}

/// 32 bytes at a time past the caches, from the first place on that is aligned for that.
#[inline(always)]
unsafe fn past_caches(from: *const u8, to: *mut u8, length: usize) {
    let first = to.align_offset(32).min(length);
    let whole = first + (length - first) / 32 * 32;
    // SAFETY: the beginning of both ranges, as the caller vouches.
    unsafe { rest(from, to, 0, first) }
    for n in (first..whole).step_by(32) {
        // SAFETY: 32 bytes of each range; the destination is aligned from `first` on; the processor has AVX.
        unsafe {
            asm!("vmovdqu ymm0, ymmword ptr [{f} + {n}]", "vmovntdq ymmword ptr [{t} + {n}], ymm0",
                f = in(reg) from, t = in(reg) to, n = in(reg) n, out("ymm0") _,
                options(nostack, preserves_flags));
        }
    }
    // SAFETY: what is left of both ranges.
    unsafe { rest(from, to, whole, length) }
    // SAFETY: the processor has AVX, as the caller vouches.
    unsafe { leave_wide() }
}

#[inline(always)]
unsafe fn by_string(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: both ranges as the caller vouches; the direction flag is clear by the calling convention.
    unsafe {
        asm!("rep movsb", inout("rcx") length => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags));
    }
}

/// Bytes from `done` to `length`, if there are any.
#[inline(always)]
unsafe fn rest(from: *const u8, to: *mut u8, done: usize, length: usize) {
    if done < length {
        // SAFETY: a part of both ranges, as the caller vouches.
        unsafe { by_string(from.add(done), to.add(done), length - done) }
    }
}

/// Without this, narrow instructions would wait for the upper halves of the registers.
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

/// Asks for a line ahead of its use.
///
/// # Safety
///
/// None is needed: a hint does not fault.
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

/// Sends a line away.
///
/// # Safety
///
/// The line lies in a live mapping, and the processor has the instruction.
#[inline(always)]
pub(super) unsafe fn clean(at: *const u8, how: Cleaning) {
    // SAFETY: changes no byte and no register; CLDEMOTE (0F 1C /0) is a hint that processors without it pass over.
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

/// Waits until every load before has its value and every store is visible, and lets nothing after it begin before: MFENCE
/// orders memory, LFENCE the reading of a clock.
#[inline(always)]
pub(super) fn fence() {
    // SAFETY: changes no byte and no register.
    unsafe { asm!("mfence", "lfence", options(nostack, preserves_flags)) }
}

/// So many hundreds of additions, each after the other: a cycle each on every x86-64 processor.
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
