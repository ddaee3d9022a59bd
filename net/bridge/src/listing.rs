//! What the control side tells about a bridge, for people and for JSON, and how it picks stations.

use port::PortId;
use serde::{Deserialize, Serialize};
use wire::MacAddress;

/// One station that a bridge knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Station {
    /// Its address.
    pub mac: MacAddress,
    /// Its VLAN; 0 stands for frames without one.
    pub vlan: u16,
    /// The number of the port it is at.
    pub port: u16,
    /// Seconds since it was last seen; nothing for a static entry, which does not age.
    pub age_seconds: Option<u32>,
    /// Whether an operator put it there.
    #[serde(rename = "static")]
    pub pinned: bool,
}

/// Which stations are meant: those at a port, in a VLAN, both, or all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only those at this port.
    pub port: Option<PortId>,
    /// Only those in this VLAN; 0 stands for frames without one.
    pub vlan: Option<u16>,
}

impl Selection {
    /// Whether a station is meant.
    pub(super) fn names(self, port: PortId, vlan: u16) -> bool {
        self.port.is_none_or(|wanted| wanted == port) && self.vlan.is_none_or(|wanted| wanted == vlan)
    }
}

/// A bridge in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeStatistics {
    /// Its name.
    pub name: String,
    /// Whether it looks at VLAN tags.
    pub vlan_aware: bool,
    /// Seconds after which a silent station is forgotten.
    pub ageing_seconds: u32,
    /// Most stations it remembers.
    pub capacity: usize,
    /// Stations in the table, static ones included. Those that have aged count until the sweep reaches them.
    pub stations: usize,
    /// Static entries among them.
    pub static_entries: usize,
    /// Bytes of the table.
    pub memory_bytes: usize,
    /// Its ports, by number.
    pub ports: Vec<PortStatistics>,
    /// The latest moves that were refused, at most one per port and second, oldest first.
    pub refused_moves: Vec<RefusedMove>,
}

/// A station that was in use at one port sent from another, and was not moved there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedMove {
    /// Its address.
    pub mac: MacAddress,
    /// Its VLAN; 0 stands for frames without one.
    pub vlan: u16,
    /// The number of the port that it stays at.
    pub old_port: u16,
    /// The number of the port that the frame came from.
    pub new_port: u16,
    /// The second since the start in which that happened.
    pub second: u32,
}

/// A port of a bridge in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortStatistics {
    /// The port's number.
    pub port: u16,
    /// Stations learned from it that are in the table.
    pub learned: u32,
    /// Static entries that point to it.
    pub static_entries: u32,
    /// Most stations that are learned from it.
    pub max_macs: u32,
    /// Packets whose station was not learned because the port or the table was at its limit.
    pub refused: u64,
    /// Packets whose station was not learned because the table was being changed, or the burst
    /// had brought as many new stations as are learned from one burst.
    pub deferred: u64,
    /// Stations that moved to this port from another one.
    pub moves: u64,
    /// Packets from stations in use at another port, which were dropped.
    pub refused_moves: u64,
}
