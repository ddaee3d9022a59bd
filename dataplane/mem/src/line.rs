//! Cache lines: their size, keeping things apart on them, and fetching them early.
//!
//! Two cores that write one line pay for it with a transfer each time, so what different cores write is
//! wrapped in [`Padded`]. Prefetches are hints: they never fault and never change what a program means.

/// Bytes of one cache line on every processor this project runs on.
pub const LINE: usize = 64;

/// A value on lines of its own: 128 bytes, because the adjacent-line prefetcher moves lines in pairs.
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

/// Asks for the line at `address` so that it can be read soon.
#[inline(always)]
pub fn prefetch_read(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint; it does not fault, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a prefetch is a hint; it does not fault, whatever the address.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    let _ = address;
}

/// Asks to own the line at `address` so that it can be written soon.
#[inline(always)]
pub fn prefetch_write(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: PREFETCHW is a hint that does not fault; processors without it treat it as a no-operation.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a prefetch is a hint; it does not fault, whatever the address.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    let _ = address;
}
