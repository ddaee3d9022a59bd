//! Rates of a meter: one bucket for each band, shared by all workers.
//!
//! A bucket is one number, the time at which it would be full again (generic cell rate algorithm, ITU-T I.371): a
//! packet is within the rate if that time is at most the duration of a burst ahead. Workers add to it by
//! compare-and-exchange; a metered flow shares this line between cores, others do not.

use crate::modify::{Band, MeterFlags};
use port::Now;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Attempts to add to a bucket. The packet passes uncounted if other workers change it all the time.
const ATTEMPTS: usize = 8;

/// Bucket and counters of a band.
#[derive(Debug)]
pub(super) struct Rate {
    /// Time at which the bucket is full.
    full_at: AtomicU64,
    /// Nanoseconds for 1000 units.
    interval: u64,
    /// Nanoseconds of the burst.
    burst: u64,
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Rate {
    pub(super) fn new(band: &Band, flags: MeterFlags) -> Self {
        let rate = u64::from(band.rate.max(1));
        // Without a burst size: what passes in a tenth of a second, but at least one packet.
        let burst = if flags.burst && band.burst > 0 { u64::from(band.burst) } else { (rate / 10).max(1) };
        Self {
            full_at: AtomicU64::new(0),
            // Of packets, or of bits at kbit/s.
            interval: if flags.packets { 1000 * SECOND / rate } else { SECOND / rate },
            burst: burst.saturating_mul(SECOND) / rate,
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Adds a packet. Returns whether it exceeds the rate; it is not added then, but counted.
    pub(super) fn exceeds(&self, flags: MeterFlags, bytes: u64, now: Now) -> bool {
        let units = if flags.packets { 1 } else { 8 * bytes };
        let cost = units.saturating_mul(self.interval) / 1000;
        for _ in 0..ATTEMPTS {
            let before = self.full_at.load(Ordering::Relaxed);
            let after = before.max(now.0).saturating_add(cost);
            if before.max(now.0) - now.0 > self.burst.saturating_sub(cost) {
                self.packets.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(bytes, Ordering::Relaxed);
                return true;
            }
            // Nothing else is published by this number.
            if self.full_at.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                return false;
            }
        }
        false
    }

    /// Adds packets and bytes that exceeded the rate.
    pub(super) fn add(&self, (packets, bytes): (u64, u64)) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Packets and bytes that exceeded the rate.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(rate: &Rate, flags: MeterFlags, bytes: u64, every: u64, until: u64) -> u64 {
        (0..until / every).filter(|n| !rate.exceeds(flags, bytes, Now(n * every))).count() as u64
    }

    #[test]
    fn packets_pass_at_the_rate_after_a_burst() {
        let flags = MeterFlags { packets: true, burst: true, stats: true };
        let rate = Rate::new(&Band { rate: 1000, burst: 50, remark: None }, flags);
        // Two seconds of 10,000 packets a second.
        let n = passed(&rate, flags, 60, 100_000, 2 * SECOND);
        assert!((2000..=2055).contains(&n), "{n}");
        assert_eq!(rate.counts(), (20_000 - n, (20_000 - n) * 60));
    }

    #[test]
    fn kilobits_pass_at_the_rate() {
        let flags = MeterFlags { packets: false, burst: true, stats: true };
        let rate = Rate::new(&Band { rate: 8000, burst: 80, remark: None }, flags);
        // 8 Mbit/s are 1000 frames of 1000 bytes a second; the burst is 10 frames.
        let n = passed(&rate, flags, 1000, 100_000, SECOND);
        assert!((1000..=1012).contains(&n), "{n}");
    }

    #[test]
    fn slow_traffic_is_not_limited() {
        let flags = MeterFlags { packets: true, ..MeterFlags::default() };
        let rate = Rate::new(&Band { rate: 100, burst: 0, remark: None }, flags);
        assert_eq!(passed(&rate, flags, 60, 20_000_000, 10 * SECOND), 500);
    }
}
