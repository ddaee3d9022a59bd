//! Bridge state for display and JSON, and station selection.

use port::PortId;
use serde::{Deserialize, Serialize};
use wire::MacAddress;

/// A known station.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Station {
    /// MAC address.
    pub mac: MacAddress,
    /// VLAN ID; 0 for frames without one.
    pub vlan: u16,
    /// Number of its port.
    pub port: u16,
    /// Seconds since it was last seen; `None` for a static entry, which does not age.
    pub age_seconds: Option<u32>,
    /// Whether this is a static entry.
    #[serde(rename = "static")]
    pub pinned: bool,
}

/// Selects stations by port, by VLAN, by both, or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only stations at this port.
    pub port: Option<PortId>,
    /// Only stations in this VLAN; 0 for frames without one.
    pub vlan: Option<u16>,
}

impl Selection {
    /// Whether a station is selected.
    pub(super) fn names(self, port: PortId, vlan: u16) -> bool {
        self.port.is_none_or(|wanted| wanted == port) && self.vlan.is_none_or(|wanted| wanted == vlan)
    }
}

/// Bridge statistics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeStatistics {
    /// Bridge name.
    pub name: String,
    /// Whether the bridge evaluates VLAN tags.
    pub vlan_aware: bool,
    /// Ageing time in seconds.
    pub ageing_seconds: u32,
    /// Maximum number of stations.
    pub capacity: usize,
    /// Stations in the table, including static ones. Aged stations count until the sweep removes them.
    pub stations: usize,
    /// Number of static entries.
    pub static_entries: usize,
    /// Size of the table, in bytes.
    pub memory_bytes: usize,
    /// Ports, by number.
    pub ports: Vec<PortStatistics>,
    /// Most recent refused moves, at most one per port and second, oldest first.
    pub refused_moves: Vec<RefusedMove>,
}

/// A refused move: a station in use at one port sent from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedMove {
    /// MAC address.
    pub mac: MacAddress,
    /// VLAN ID; 0 for frames without one.
    pub vlan: u16,
    /// Number of its current port.
    pub old_port: u16,
    /// Number of the port that received the frame.
    pub new_port: u16,
    /// Time in seconds since the start.
    pub second: u32,
}

/// Port statistics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortStatistics {
    /// Port number.
    pub port: u16,
    /// Stations in the table learned from this port.
    pub learned: u32,
    /// Static entries at this port.
    pub static_entries: u32,
    /// Maximum number of stations learned from this port.
    pub max_macs: u32,
    /// Packets whose source was not learned because the port or the table was at its limit.
    pub refused: u64,
    /// Packets whose source was not learned because the table lock was busy or the burst exceeded the number of
    /// stations learned per burst.
    pub deferred: u64,
    /// Stations that moved to this port.
    pub moves: u64,
    /// Packets dropped because their source is in use at another port.
    pub refused_moves: u64,
}
