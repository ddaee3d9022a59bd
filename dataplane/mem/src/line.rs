//! Cache lines: size, padding and prefetch.
//!
//! A line written by two cores is transferred on each write, so data written by different cores is wrapped in
//! [`Padded`]. Prefetches are hints: they do not fault and do not change program behaviour.

use crate::record::{Kind, note};

/// Cache-line size in bytes on all supported processors.
pub const LINE: usize = 64;

/// Aligns a value to 128 bytes, because the adjacent-line prefetcher fetches lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> core::ops::Deref for Padded<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> core::ops::DerefMut for Padded<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

const _: () = assert!(align_of::<Padded<u8>>() == 128 && size_of::<Padded<u8>>() == 128);

/// Prefetches the line at `address` for reading.
#[inline(always)]
pub fn prefetch_read(address: *const u8) {
    note(Kind::PrefetchRead, address.addr(), 1);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint; it does not fault for any address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a prefetch is a hint; it does not fault for any address.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    let _ = address;
}

/// Prefetches the line at `address` for writing.
#[inline(always)]
pub fn prefetch_write(address: *const u8) {
    note(Kind::PrefetchWrite, address.addr(), 1);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: PREFETCHW is a hint and does not fault; processors without it treat it as a no-op.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a prefetch is a hint; it does not fault for any address.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    let _ = address;
}
