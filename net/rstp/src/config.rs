//! Settings of bridges and ports (17.13, 17.14).

use std::ops::RangeInclusive;

/// Version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Spanning Tree Protocol: ports forward after two forward delays.
    Stp,
    /// Rapid Spanning Tree Protocol, which sends STP's BPDUs to neighbours that know no other.
    #[default]
    Rstp,
}

/// Bridge configuration. Times apply if the bridge is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Version.
    pub protocol: Protocol,
    /// Priority, a multiple of 4096: the bridge with the lowest one is the root.
    pub priority: u16,
    /// Interval between BPDUs, in seconds.
    pub hello: u8,
    /// Maximum age of information, in seconds or bridges.
    pub max_age: u8,
    /// Time in each of the states before forwarding, in seconds.
    pub forward_delay: u8,
}

impl BridgeConfig {
    /// Allowed values of [`BridgeConfig::hello`].
    pub const HELLO: RangeInclusive<u8> = 1..=10;
    /// Allowed values of [`BridgeConfig::max_age`].
    pub const MAX_AGE: RangeInclusive<u8> = 6..=40;
    /// Allowed values of [`BridgeConfig::forward_delay`].
    pub const FORWARD_DELAY: RangeInclusive<u8> = 4..=30;

    /// # Errors
    /// If a value is out of range, or the times do not fit each other.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Self { priority, hello, max_age, forward_delay, .. } = *self;
        if !priority.is_multiple_of(4096) {
            return Err(ConfigError::BridgePriority(priority));
        }
        let ranges = [
            ("hello time", hello, Self::HELLO),
            ("max age", max_age, Self::MAX_AGE),
            ("forward delay", forward_delay, Self::FORWARD_DELAY),
        ];
        if let Some((name, value, range)) =
            ranges.into_iter().find(|(_, value, range)| !range.contains(value))
        {
            return Err(ConfigError::Time { name, value, least: *range.start(), most: *range.end() });
        }
        let fits = 2 * (forward_delay - 1) >= max_age && max_age >= 2 * (hello + 1);
        if fits { Ok(()) } else { Err(ConfigError::Times) }
    }
}

impl Default for BridgeConfig {
    /// RSTP with the recommended values (tables 17-1 and 17-2): priority 32768, 2 s, 20 s, 15 s.
    fn default() -> Self {
        Self { protocol: Protocol::Rstp, priority: 0x8000, hello: 2, max_age: 20, forward_delay: 15 }
    }
}

/// Whether a port leads to a host instead of a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edge {
    /// If no BPDU is received for 3 s.
    #[default]
    Auto,
    /// From the start, until a BPDU is received.
    Yes,
    /// Never.
    No,
}

/// Port configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Priority, a multiple of 16.
    pub priority: u8,
    /// Cost of a path to the root through the port.
    pub cost: u32,
    /// Whether the port leads to a host.
    pub edge: Edge,
    /// Whether at most one bridge is behind the port, so that it can agree to forwarding.
    pub point_to_point: bool,
    /// Whether the port stops when it receives a BPDU, until its link goes down.
    pub bpdu_guard: bool,
}

impl PortConfig {
    /// Allowed values of [`PortConfig::cost`].
    pub const COST: RangeInclusive<u32> = 1..=200_000_000;

    /// # Errors
    /// If a value is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !self.priority.is_multiple_of(16) {
            return Err(ConfigError::PortPriority(self.priority));
        }
        if !Self::COST.contains(&self.cost) {
            return Err(ConfigError::Cost(self.cost));
        }
        Ok(())
    }
}

impl Default for PortConfig {
    /// Priority 128, the cost of 1 Gbit/s, automatic edge, point to point, without guard.
    fn default() -> Self {
        Self {
            priority: 128,
            cost: path_cost(1_000_000_000),
            edge: Edge::Auto,
            point_to_point: true,
            bpdu_guard: false,
        }
    }
}

/// Recommended cost of a link, from its speed in bits per second (table 17-3): 20,000 for 1 Gbit/s.
pub fn path_cost(speed: u64) -> u32 {
    let cost = 20_000_000_000_000 / speed.max(1);
    u32::try_from(cost).unwrap_or(u32::MAX).clamp(*PortConfig::COST.start(), *PortConfig::COST.end())
}

/// Invalid settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The bridge priority is not a multiple of 4096.
    #[error("invalid bridge priority {0}: expected a multiple of 4096")]
    BridgePriority(u16),
    /// The port priority is not a multiple of 16.
    #[error("invalid port priority {0}: expected a multiple of 16")]
    PortPriority(u8),
    /// The path cost is out of range.
    #[error("invalid path cost {0}: expected 1 to 200000000")]
    Cost(u32),
    /// A time is out of range.
    #[error("invalid {name} {value} s: expected {least} to {most} s")]
    Time {
        /// Name of the time.
        name: &'static str,
        /// Its value in seconds.
        value: u8,
        /// Least value in seconds.
        least: u8,
        /// Greatest value in seconds.
        most: u8,
    },
    /// The times do not fit each other (17.14).
    #[error("invalid times: expected 2 * (forward delay - 1 s) >= max age >= 2 * (hello time + 1 s)")]
    Times,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused() {
        let default = BridgeConfig::default();
        assert_eq!(default.validate(), Ok(()));
        assert_eq!(BridgeConfig { priority: 1, ..default }.validate(), Err(ConfigError::BridgePriority(1)));
        assert!(matches!(BridgeConfig { hello: 0, ..default }.validate(), Err(ConfigError::Time { .. })));
        assert_eq!(BridgeConfig { forward_delay: 4, ..default }.validate(), Err(ConfigError::Times));
        let fast = BridgeConfig { hello: 1, max_age: 6, forward_delay: 4, ..default };
        assert_eq!(fast.validate(), Ok(()));
        let port = PortConfig::default();
        assert_eq!(port.validate(), Ok(()));
        assert_eq!(PortConfig { priority: 8, ..port }.validate(), Err(ConfigError::PortPriority(8)));
        assert_eq!(PortConfig { cost: 0, ..port }.validate(), Err(ConfigError::Cost(0)));
    }

    #[test]
    fn path_costs_are_those_of_the_standard() {
        let costs = [0, 100_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000, 10_u64.pow(15)];
        let expected = [200_000_000, 200_000_000, 2_000_000, 200_000, 20_000, 2000, 1];
        assert_eq!(costs.map(path_cost), expected);
    }
}
