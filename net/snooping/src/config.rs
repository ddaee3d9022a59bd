//! Configuration of snooping, as plain values.

use std::net::Ipv4Addr;
use std::time::Duration;

/// Snooping of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Maximum number of groups, counted for each VLAN.
    pub max_groups: usize,
    /// Maximum number of groups of one port, counted for each VLAN.
    pub max_groups_per_port: usize,
    /// Time after which a membership that is not reported again ends (RFC 3376, section 8.4).
    pub membership_interval: Duration,
    /// Interval between general queries (RFC 3376, section 8.2). Also determines how long another querier and a learned
    /// router port are kept (section 8.5).
    pub query_interval: Duration,
    /// Whether packets to a group without members are flooded. If false, they go to router ports only.
    pub flood_unregistered: bool,
    /// Whether the bridge sends queries where no other querier does.
    pub querier: Option<Querier>,
}

/// The querier of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Querier {
    /// Source of IGMP queries. With 0.0.0.0 every other querier is preferred, and other bridges do not forward reports
    /// to this one (RFC 4541, section 2.1.1).
    pub address: Ipv4Addr,
}

impl Default for Config {
    /// 2048 groups, a quarter of them for one port; intervals of RFC 3376, section 8; no querier.
    fn default() -> Self {
        Self {
            max_groups: 2048,
            max_groups_per_port: 512,
            membership_interval: Duration::from_secs(260),
            query_interval: Duration::from_secs(125),
            flood_unregistered: true,
            querier: None,
        }
    }
}

/// Whether a multicast router is behind a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouterPort {
    /// If a querier or a PIM router is heard there.
    #[default]
    Auto,
    /// The port gets all reports and all multicast packets.
    Always,
    /// Queries and PIM messages of the port are not taken into account.
    Never,
}

/// Snooping of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortConfig {
    /// Whether a multicast router is behind the port.
    pub router: RouterPort,
    /// Whether a leave message ends a membership at once: only one host is behind the port.
    pub fast_leave: bool,
    /// VLAN of the port's untagged frames, which the querier queries; 0 for frames without one.
    pub untagged: Option<u16>,
}
