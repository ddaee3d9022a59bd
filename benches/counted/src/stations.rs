//! Stations distributed over ports, and the addresses of their traffic.

use crate::guest::Mac;

/// Numbered stations; station `s` is behind port `s % ports`.
#[derive(Clone, Copy, Debug)]
pub struct Stations {
    /// Number of ports.
    pub ports: usize,
    per_port: usize,
}

impl Stations {
    /// About `count` stations: the same number behind each port, at least one.
    pub fn new(count: usize, ports: usize) -> Self {
        Self { ports, per_port: count.div_ceil(ports).max(1) }
    }

    /// Number of stations.
    pub fn count(&self) -> usize {
        self.per_port * self.ports
    }

    /// Number of stations behind each port.
    pub fn per_port(&self) -> usize {
        self.per_port
    }

    /// The address of the `n`-th station behind `port`; `n` wraps around.
    pub fn mac(&self, port: usize, n: usize) -> Mac {
        let number = (n % self.per_port * self.ports + port) as u32;
        let mut mac = [0x02, 0, 0, 0, 0, 0];
        mac[2..].copy_from_slice(&number.to_be_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn station_addresses_are_unique_and_evenly_split() {
        let stations = Stations::new(10, 4);
        let all = (0..4).flat_map(|port| (0..stations.per_port()).map(move |n| stations.mac(port, n)));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!((all.len(), stations.count(), stations.per_port()), (12, 12, 3));
    }

    #[test]
    fn each_port_has_at_least_one_station() {
        assert_eq!(Stations::new(10, 64).count(), 64);
    }
}
