//! State of a bridge and its ports for reports.

use crate::config::Protocol;
use crate::vector::{BridgeId, Times, Vector};
use std::fmt;

/// Role of a port (17.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Without a link, or stopped.
    #[default]
    Disabled,
    /// Leads to the root.
    Root,
    /// Connects its network to the root.
    Designated,
    /// Another path to the root.
    Alternate,
    /// Another path to the network of a designated port of this bridge.
    Backup,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disabled => "disabled",
            Self::Root => "root",
            Self::Designated => "designated",
            Self::Alternate => "alternate",
            Self::Backup => "backup",
        })
    }
}

/// State of a port (7.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Frames are discarded.
    #[default]
    Discarding,
    /// Addresses are learned, and frames are discarded.
    Learning,
    /// Addresses are learned, and frames are forwarded.
    Forwarding,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discarding => "discarding",
            Self::Learning => "learning",
            Self::Forwarding => "forwarding",
        })
    }
}

/// State of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeStatus {
    /// Configured version.
    pub protocol: Protocol,
    /// Identifier of the bridge.
    pub id: BridgeId,
    /// Root.
    pub root: BridgeId,
    /// Cost of the path to the root; 0 for the root.
    pub cost: u32,
    /// Number of the root port; `None` for the root.
    pub root_port: Option<u16>,
    /// Times of the root.
    pub times: Times,
    /// Topology changes that this bridge detected or was notified of.
    pub topology_changes: u64,
}

/// State of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the port")]
pub struct PortStatus {
    /// Number.
    pub number: u16,
    /// Role.
    pub role: Role,
    /// State.
    pub state: State,
    /// Port identifier: priority in the most significant 4 bits, and number.
    pub id: u16,
    /// Path cost.
    pub cost: u32,
    /// Priority vector of the port: root and designated bridge of its network.
    pub designated: Vector,
    /// Whether it leads to a host.
    pub edge: bool,
    /// Whether it agrees with one neighbour.
    pub point_to_point: bool,
    /// Whether it sends BPDUs of the Rapid Spanning Tree Protocol.
    pub rapid: bool,
    /// Whether it was stopped by a BPDU.
    pub guarded: bool,
    /// Received and sent BPDUs.
    pub counts: PortCounts,
}

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Received BPDUs.
    pub received: u64,
    /// Received frames that are not valid BPDUs.
    pub invalid: u64,
    /// Sent BPDUs.
    pub sent: u64,
}
