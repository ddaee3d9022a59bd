//! Counts of connections, and their limits.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Zones: every number of 16 bits.
const ZONES: usize = 1 << 16;

/// Why a connection is not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// Of all zones.
    Total,
    Zone,
}

/// Counts of all zones.
pub(crate) struct Limits {
    count: AtomicUsize,
    limit: usize,
    zones: Box<[Zone]>,
    zone_limit: u32,
}

#[derive(Default)]
struct Zone {
    count: AtomicU32,
    /// One more than the limit; 0 for the default.
    limit: AtomicU32,
}

impl Limits {
    pub(crate) fn new(limit: usize, zone_limit: Option<u32>) -> Self {
        let zones = (0..ZONES).map(|_| Zone::default()).collect();
        Self { count: AtomicUsize::new(0), limit, zones, zone_limit: zone_limit.unwrap_or(u32::MAX) }
    }

    /// Counts a connection that is added.
    pub(crate) fn admit(&self, zone: u16) -> Result<(), Full> {
        // Relaxed: counts order nothing else.
        let place = &self.zones[usize::from(zone)];
        let limit = place.limit.load(Ordering::Relaxed).checked_sub(1).unwrap_or(self.zone_limit);
        if place.count.fetch_add(1, Ordering::Relaxed) >= limit {
            place.count.fetch_sub(1, Ordering::Relaxed);
            return Err(Full::Zone);
        }
        if self.count.fetch_add(1, Ordering::Relaxed) >= self.limit {
            self.release(zone);
            return Err(Full::Total);
        }
        Ok(())
    }

    /// Counts a connection that was removed.
    pub(crate) fn release(&self, zone: u16) {
        self.zones[usize::from(zone)].count.fetch_sub(1, Ordering::Relaxed);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sets the limit of a zone; `None` for the default.
    pub(crate) fn set(&self, zone: u16, limit: Option<u32>) {
        let limit = limit.map_or(0, |limit| limit.saturating_add(1));
        self.zones[usize::from(zone)].limit.store(limit, Ordering::Relaxed);
    }

    /// Connections of all zones.
    pub(crate) fn total(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Connections of a zone.
    pub(crate) fn zone(&self, zone: u16) -> u32 {
        self.zones[usize::from(zone)].count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_and_the_total_are_limited() {
        let limits = Limits::new(3, Some(2));
        assert_eq!((limits.admit(1), limits.admit(1), limits.admit(1)), (Ok(()), Ok(()), Err(Full::Zone)));
        limits.set(1, Some(9));
        assert_eq!((limits.admit(1), limits.admit(2)), (Ok(()), Err(Full::Total)));
        limits.release(1);
        assert_eq!((limits.admit(2), limits.total(), limits.zone(1)), (Ok(()), 3, 2));
    }
}
