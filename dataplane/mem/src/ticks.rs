//! CPU time-stamp counter. It is in this crate because it needs a processor instruction; only the engine and the crates
//! above it may call it, and they pass the time on to all others.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the counter is compared with the system's clock.
const COMPARED: Duration = Duration::from_millis(10);
/// Readings of both at either end, of which the shortest one counts: longer ones were interrupted.
const READINGS: usize = 8;

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

/// Ticks per second, to some 10 millionths. The first call of a process takes 10 ms, in which it compares the counter
/// with the system's monotonic clock.
pub fn ticks_per_second() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let from = reading();
        std::thread::sleep(COMPARED);
        let to = reading();
        to.0.wrapping_sub(from.0) as f64 / (to.1 - from.1).as_secs_f64()
    })
}

/// The counter and the system's clock at the same time.
fn reading() -> (u64, Instant) {
    let mut shortest = (u64::MAX, (0, Instant::now()));
    for _ in 0..READINGS {
        let (from, now) = (ticks(), Instant::now());
        let took = ticks().wrapping_sub(from);
        if took < shortest.0 {
            shortest = (took, (from.wrapping_add(took / 2), now));
        }
    }
    shortest.1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ticks_advance_at_the_rate_that_was_measured() {
        let rate = ticks_per_second();
        let from = reading();
        std::thread::sleep(2 * COMPARED);
        let to = reading();
        let ratio = (to.0 - from.0) as f64 / rate / (to.1 - from.1).as_secs_f64();
        // Not a matter of speed: every reading at one end would have to be interrupted, for 100 us and more.
        assert!((0.99..1.01).contains(&ratio), "{ratio}");
    }
}
