//! CPU time-stamp counter. It is in this crate because it needs a processor instruction; only the engine and the crates
//! above it may call it, and they pass the time on to all others.

/// Time-stamp counter ticks: constant rate, arbitrary origin.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: RDTSC reads a counter and has no other effect; every x86-64 processor has it.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let ticks: u64;
        // SAFETY: reading the virtual counter is allowed in user space and has no other effect.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, nomem)) };
        ticks
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        std::time::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_nanos() as u64)
    }
}
