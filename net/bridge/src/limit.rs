//! Rate limiter: a token bucket in one word.
//!
//! The word is the theoretical arrival time of the generic cell rate algorithm (ITU-T I.371): the time at which the
//! bucket is full again. All workers of a port share it, so the limit applies per port. It is written only for admitted
//! packets; a port far above its limit only reads it.

use super::config::Rate;
use mem::line::Padded;
use port::Now;
use std::sync::atomic::{AtomicU64, Ordering};

const NANOSECONDS: u64 = 1_000_000_000;

pub(super) struct Limiter {
    full_at: Padded<AtomicU64>,
    /// Nanoseconds per packet.
    interval: u64,
    /// Nanoseconds to fill the bucket, minus one packet.
    depth: u64,
}

impl Limiter {
    pub(super) fn new(rate: Rate) -> Self {
        let interval = (NANOSECONDS / u64::from(rate.packets_per_second.get())).max(1);
        let depth = interval * u64::from(rate.burst.get() - 1);
        Self { full_at: Padded(AtomicU64::new(0)), interval, depth }
    }

    /// Admits one packet if the bucket allows it.
    pub(super) fn admit(&self, now: Now) -> bool {
        let take = |full_at: u64| {
            let from = full_at.max(now.0);
            (from - now.0 <= self.depth).then_some(from + self.interval)
        };
        // Relaxed is sufficient: the word guards no other memory.
        self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limiter(rate: u32, burst: u32) -> Limiter {
        Limiter::new(Rate::new(rate, burst).unwrap())
    }

    #[test]
    fn full_bucket_admits_exactly_its_depth() {
        let limit = limiter(1000, 5);
        let passed = (0..100).filter(|_| limit.admit(Now(NANOSECONDS))).count();
        assert_eq!(passed, 5);
        assert!(!limit.admit(Now(NANOSECONDS + 999_999)), "the next token is due after a millisecond");
        assert!(limit.admit(Now(NANOSECONDS + 1_000_000)));
    }

    #[test]
    fn earlier_clock_of_another_worker_is_tolerated() {
        let limit = limiter(1000, 1);
        assert!(limit.admit(Now(5_000_000)));
        assert!(!limit.admit(Now(4_000_000)));
        assert!(limit.admit(Now(6_000_000)));
    }

    proptest! {
        #[test]
        fn admissions_never_exceed_depth_and_rate(
            rate in 1u32..100_000, burst in 1u32..200, gaps in prop::collection::vec(0u64..50_000_000, 1..300),
        ) {
            let limit = limiter(rate, burst);
            let (mut now, mut passed) = (0, 0u64);
            for gap in gaps {
                now += gap;
                passed += u64::from(limit.admit(Now(now)));
                let earned = now / (NANOSECONDS / u64::from(rate));
                prop_assert!(passed <= u64::from(burst) + earned);
            }
        }
    }
}
