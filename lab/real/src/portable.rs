//! Accesses by volatile loads and stores, for architectures without an assembly implementation.
//!
//! Fences provide the order that the model needs and x86 guarantees: loads stay in order, and stores stay in order.

use std::sync::atomic::{Ordering, fence as fence_all};

use sim::memory::{Address, Cleaning, Copying, Intent, Width};

/// Loads a value at any alignment.
///
/// # Safety
///
/// The bytes lie in one live mapping.
#[inline(always)]
pub(super) unsafe fn load(base: *mut u8, at: Address, width: Width) -> u64 {
    // SAFETY: guaranteed by the caller.
    let value = unsafe { raw_load(base.add(at as usize), width) };
    fence_all(Ordering::Acquire);
    value
}

/// Stores a value at any alignment.
///
/// # Safety
///
/// The bytes lie in one live mapping.
#[inline(always)]
pub(super) unsafe fn store(base: *mut u8, at: Address, width: Width, value: u64) {
    // Pairs with the fence after the load of `load`.
    fence_all(Ordering::Release);
    // SAFETY: guaranteed by the caller.
    unsafe { raw_store(base.add(at as usize), width, value) }
}

#[expect(clippy::cast_ptr_alignment, reason = "the alignment is checked before the cast")]
unsafe fn raw_load(from: *const u8, width: Width) -> u64 {
    let bytes = width.bytes() as usize;
    if !(from as usize).is_multiple_of(bytes) {
        // SAFETY: the bytes lie in the mapping, guaranteed by the caller of `load`.
        return (0..bytes).map(|n| u64::from(unsafe { from.add(n).read_volatile() }) << (8 * n)).sum();
    }
    // SAFETY: as above, and the pointer is aligned, as checked above.
    unsafe {
        match width {
            Width::Two => u64::from(from.cast::<u16>().read_volatile()),
            Width::Four => u64::from(from.cast::<u32>().read_volatile()),
            Width::Eight => from.cast::<u64>().read_volatile(),
        }
    }
}

#[expect(clippy::cast_ptr_alignment, reason = "the alignment is checked before the cast")]
unsafe fn raw_store(to: *mut u8, width: Width, value: u64) {
    let bytes = width.bytes() as usize;
    if !(to as usize).is_multiple_of(bytes) {
        for n in 0..bytes {
            // SAFETY: the bytes lie in the mapping, guaranteed by the caller of `store`.
            unsafe { to.add(n).write_volatile((value >> (8 * n)) as u8) };
        }
        return;
    }
    // SAFETY: as above, and the pointer is aligned, as checked above.
    unsafe {
        match width {
            Width::Two => to.cast::<u16>().write_volatile(value as u16),
            Width::Four => to.cast::<u32>().write_volatile(value as u32),
            Width::Eight => to.cast::<u64>().write_volatile(value),
        }
    }
}

/// Loads an even number of bytes and discards them.
///
/// # Safety
///
/// The bytes lie in one live mapping.
#[inline(always)]
pub(super) unsafe fn read(base: *mut u8, at: Address, length: u64) {
    for part in (0..length).step_by(8) {
        let width = if length - part >= 8 { Width::Eight } else { Width::Two };
        // SAFETY: guaranteed by the caller; lengths are even.
        unsafe { raw_load(base.add((at + part) as usize), width) };
    }
}

/// Stores zeroes; the content is not significant.
///
/// # Safety
///
/// The bytes lie in one live mapping.
#[inline(always)]
pub(super) unsafe fn write(base: *mut u8, at: Address, length: u64) {
    let to = |part| base.wrapping_add((at + part) as usize);
    for part in (0..length / 8 * 8).step_by(8) {
        // SAFETY: guaranteed by the caller.
        unsafe { raw_store(to(part), Width::Eight, 0) };
    }
    for part in length / 8 * 8..length {
        // SAFETY: as above.
        unsafe { to(part).write_volatile(0) };
    }
}

/// Copies bytes with the C library or word by word. Validation rejects the other kinds before a run.
///
/// # Safety
///
/// Both ranges lie in one live mapping and do not overlap.
#[inline(always)]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, length: usize, how: Copying) {
    match how {
        Copying::None => {}
        // SAFETY: guaranteed by the caller; a call into another library, whose body the compiler does not see.
        Copying::Libc => unsafe {
            libc::memcpy(to.cast(), from.cast(), length);
        },
        _ => {
            for n in (0..length / 4 * 4).step_by(4) {
                // SAFETY: guaranteed by the caller.
                unsafe { raw_store(to.add(n), Width::Four, raw_load(from.add(n), Width::Four)) };
            }
            for n in length / 4 * 4..length {
                // SAFETY: as above.
                unsafe { to.add(n).write_volatile(from.add(n).read_volatile()) };
            }
        }
    }
}

/// Prefetches a line, if the processor has a prefetch hint.
///
/// # Safety
///
/// No requirement: a hint does not fault.
#[inline(always)]
pub(super) unsafe fn prefetch(at: *const u8, intent: Intent) {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint does not fault and changes no register.
    unsafe {
        match intent {
            Intent::Read => core::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, readonly)),
            Intent::Write => core::arch::asm!("prfm pstl1keep, [{}]", in(reg) at, options(nostack, readonly)),
        }
    }
    #[cfg(not(target_arch = "aarch64"))]
    let _ = (at, intent);
}

/// Does nothing: cleaning is not supported here, and validation rejects it before a run.
///
/// # Safety
///
/// No requirement.
#[inline(always)]
pub(super) unsafe fn clean(_: *const u8, _: Cleaning) {}

/// Orders all earlier accesses before all later ones. Unlike x86's, it need not wait for stores to be visible.
#[inline(always)]
pub(super) fn fence() {
    fence_all(Ordering::SeqCst);
}

/// Performs `hundreds` * 100 dependent additions.
#[inline(never)]
pub(super) fn dependent_additions(hundreds: u64) {
    let mut sum = hundreds;
    for _ in 0..hundreds * 100 {
        #[cfg(target_arch = "aarch64")]
        // SAFETY: adds to a register.
        unsafe {
            core::arch::asm!("add {0}, {0}, #1", inout(reg) sum, options(nostack, nomem));
        }
        #[cfg(not(target_arch = "aarch64"))]
        {
            sum = std::hint::black_box(sum + 1);
        }
    }
    std::hint::black_box(sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_stores_loads_and_copies_agree() {
        let mut bytes = [0_u64; 512];
        let base = bytes.as_mut_ptr().cast::<u8>();
        for (at, width) in [(0, Width::Two), (3, Width::Four), (8, Width::Eight), (17, Width::Eight)] {
            // SAFETY: below 4096 bytes of an array with no other user during the call.
            let loaded = unsafe {
                store(base, at, width, 0x1234);
                load(base, at, width)
            };
            assert_eq!(loaded, 0x1234);
        }
        for how in [Copying::Libc, Copying::Words] {
            // SAFETY: as above.
            let loaded = unsafe {
                write(base, 1024, 78);
                read(base, 1024, 78);
                prefetch(base, Intent::Read);
                clean(base, Cleaning::Demote);
                copy(base, base.add(1024), 25, how);
                load(base, 1024 + 17, Width::Eight)
            };
            assert_eq!(loaded, 0x1234);
        }
        dependent_additions(1);
        fence();
    }
}
