//! Reports of a running switch about its bridges and addresses; part of the control API's JSON.

use serde::{Deserialize, Serialize};
use wire::MacAddress;

/// One bridge of `GET /v1/bridges`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BridgeReport {
    pub(crate) name: String,
    /// Number of addresses, and capacity of the table.
    pub(crate) addresses: usize,
    pub(crate) table: usize,
    pub(crate) ports: Vec<BridgePort>,
    /// The latest refused moves, at most one per port and second, oldest first.
    pub(crate) refused_moves: Vec<MoveEvent>,
}

/// One port of a [`BridgeReport`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BridgePort {
    pub(crate) port: String,
    pub(crate) learned: u32,
    pub(crate) max_macs: u32,
    #[serde(rename = "static")]
    pub(crate) pinned: u32,
    /// Packets whose source was not learned because of a limit, and because the table was being changed.
    pub(crate) not_learned: u64,
    pub(crate) deferred: u64,
    /// Addresses that moved to this port, and packets dropped because a move was refused.
    pub(crate) moves: u64,
    pub(crate) refused_moves: u64,
}

/// An address in use at `old_port` was the source of a frame from `new_port`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MoveEvent {
    pub(crate) mac: MacAddress,
    /// 0: no VLAN.
    pub(crate) vlan: u16,
    pub(crate) old_port: String,
    pub(crate) new_port: String,
    /// Age in seconds.
    pub(crate) age: u32,
}

/// Origin of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    Learned,
    Static,
}

/// One address of a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FdbEntry {
    pub(crate) bridge: String,
    pub(crate) mac: MacAddress,
    /// 0: no VLAN.
    pub(crate) vlan: u16,
    pub(crate) port: String,
    pub(crate) origin: Origin,
    /// Seconds since last use; none for static entries.
    pub(crate) age: Option<u32>,
}

/// Filter of addresses; absent fields match all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FdbFilter {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bridge: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<String>,
    /// 0: no VLAN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vlan: Option<u16>,
    /// Maximum number of entries returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<usize>,
}

impl FdbFilter {
    /// Whether an address matches.
    pub(crate) fn names(&self, entry: &FdbEntry) -> bool {
        self.bridge.as_ref().is_none_or(|bridge| *bridge == entry.bridge)
            && self.port.as_ref().is_none_or(|port| *port == entry.port)
            && self.vlan.is_none_or(|vlan| vlan == entry.vlan)
    }

    /// The filter as the end of an error message: ` at port "a" in VLAN 5`.
    pub(crate) fn among(&self) -> String {
        let at = |what: &str, name: &Option<String>| {
            name.as_ref().map(|name| format!(" {what} \"{name}\"")).unwrap_or_default()
        };
        let vlan = self.vlan.map(|vlan| format!(" in VLAN {vlan}")).unwrap_or_default();
        at("on bridge", &self.bridge) + &at("at port", &self.port) + &vlan
    }
}
