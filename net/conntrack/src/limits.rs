//! Counts of connections, and their limits.

use crate::config::Config;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Zones, and ports of the engine: every number of 16 bits.
const NUMBERS: usize = 1 << 16;

/// Why a connection is not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// Of all zones.
    Total,
    Zone,
    Port,
}

/// Connections that were not added, by the limit that they would have exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Of all zones.
    pub total: u64,
    /// Of their zone.
    pub zone: u64,
    /// Of their port.
    pub port: u64,
}

/// Counts of all zones and ports.
pub(crate) struct Limits {
    count: AtomicUsize,
    limit: AtomicUsize,
    zones: Box<[Zone]>,
    zone_limit: AtomicU32,
    ports: Box<[AtomicU32]>,
    port_limit: AtomicU32,
    /// By [`Full`].
    refused: [AtomicU64; 3],
    /// Connections that others have replaced.
    evicted: AtomicU64,
}

#[derive(Default)]
struct Zone {
    count: AtomicU32,
    /// One more than the limit; 0 for the default.
    limit: AtomicU32,
}

// Relaxed everywhere: counts and limits order nothing else.
impl Limits {
    pub(crate) fn new(config: &Config) -> Self {
        let limits = Self {
            count: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
            zones: (0..NUMBERS).map(|_| Zone::default()).collect(),
            zone_limit: AtomicU32::new(0),
            ports: (0..NUMBERS).map(|_| AtomicU32::new(0)).collect(),
            port_limit: AtomicU32::new(0),
            refused: Default::default(),
            evicted: AtomicU64::new(0),
        };
        limits.set(config);
        limits
    }

    /// Sets all limits. Connections above them stay.
    pub(crate) fn set(&self, config: &Config) {
        self.limit.store(config.limit, Ordering::Relaxed);
        self.zone_limit.store(config.zone_limit.unwrap_or(u32::MAX), Ordering::Relaxed);
        self.port_limit.store(config.port_limit.unwrap_or(u32::MAX), Ordering::Relaxed);
        for (number, zone) in (0..=u16::MAX).zip(&self.zones) {
            let limit = config.zones.get(&number).map_or(0, |limit| limit.saturating_add(1));
            zone.limit.store(limit, Ordering::Relaxed);
        }
    }

    /// Counts a connection that is added.
    pub(crate) fn admit(&self, zone: u16, port: u16) -> Result<(), Full> {
        let place = &self.zones[usize::from(zone)];
        let own = place.limit.load(Ordering::Relaxed).checked_sub(1);
        let zone_limit = own.unwrap_or_else(|| self.zone_limit.load(Ordering::Relaxed));
        if place.count.fetch_add(1, Ordering::Relaxed) >= zone_limit {
            place.count.fetch_sub(1, Ordering::Relaxed);
            return Err(Full::Zone);
        }
        let of_port = &self.ports[usize::from(port)];
        if of_port.fetch_add(1, Ordering::Relaxed) >= self.port_limit.load(Ordering::Relaxed) {
            of_port.fetch_sub(1, Ordering::Relaxed);
            place.count.fetch_sub(1, Ordering::Relaxed);
            return Err(Full::Port);
        }
        if self.count.fetch_add(1, Ordering::Relaxed) >= self.limit.load(Ordering::Relaxed) {
            self.release(zone, port);
            return Err(Full::Total);
        }
        Ok(())
    }

    /// Counts a connection that is added regardless of limits.
    pub(crate) fn count(&self, zone: u16, port: u16) {
        self.zones[usize::from(zone)].count.fetch_add(1, Ordering::Relaxed);
        self.ports[usize::from(port)].fetch_add(1, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that was removed.
    pub(crate) fn release(&self, zone: u16, port: u16) {
        self.zones[usize::from(zone)].count.fetch_sub(1, Ordering::Relaxed);
        self.ports[usize::from(port)].fetch_sub(1, Ordering::Relaxed);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a connection that was not added.
    pub(crate) fn refuse(&self, why: Full) {
        self.refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) -> Refused {
        let [total, zone, port] = self.refused.each_ref().map(|count| count.load(Ordering::Relaxed));
        Refused { total, zone, port }
    }

    /// Counts a connection that another one replaces before its time.
    pub(crate) fn replace(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    /// Connections that others have replaced.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Connections of all zones.
    pub(crate) fn total(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Connections of a zone.
    pub(crate) fn zone(&self, zone: u16) -> u32 {
        self.zones[usize::from(zone)].count.load(Ordering::Relaxed)
    }

    /// Connections that packets of a port have begun.
    pub(crate) fn port(&self, port: u16) -> u32 {
        self.ports[usize::from(port)].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_ports_and_the_total_are_limited() {
        let config = |limit, zones: &[(u16, u32)], port_limit| Config {
            limit,
            zone_limit: Some(2),
            zones: zones.iter().copied().collect(),
            port_limit,
            ..Config::default()
        };
        let limits = Limits::new(&config(3, &[], None));
        let admit = |zone, port| limits.admit(zone, port);
        assert_eq!((admit(1, 5), admit(1, 5), admit(1, 6)), (Ok(()), Ok(()), Err(Full::Zone)));
        limits.set(&config(3, &[(1, 9)], None));
        assert_eq!((admit(1, 5), admit(2, 5)), (Ok(()), Err(Full::Total)));
        limits.release(1, 5);
        limits.set(&config(3, &[(1, 9)], Some(2)));
        assert_eq!((admit(2, 5), admit(2, 6)), (Err(Full::Port), Ok(())));
        assert_eq!((limits.total(), limits.zone(1), limits.zone(2)), (3, 2, 1));
        assert_eq!((limits.port(5), limits.port(6)), (2, 1));
    }
}
