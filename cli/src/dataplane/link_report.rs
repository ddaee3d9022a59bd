//! Reports of protocols between neighbours; part of the control API's JSON.

use lldp::{Lldpdu, Neighbor, PortCounts};
use rstp::{BridgeStatus, PortStatus, Protocol};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// Spanning tree of a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct StpReport {
    /// Protocol: `rstp` or `stp`.
    pub(crate) protocol: String,
    /// Identifier of the bridge: priority in hexadecimal and address.
    pub(crate) id: String,
    /// Identifier of the root.
    pub(crate) root: String,
    /// Cost of the path to the root; 0 for the root.
    pub(crate) root_cost: u32,
    /// Name of the port that leads to the root; absent for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) root_port: Option<String>,
    /// Interval between BPDUs of this bridge, in seconds.
    pub(crate) hello: u8,
    /// Maximum age of information in seconds, as the root determines.
    pub(crate) max_age: u8,
    /// Forward delay in seconds, as the root determines.
    pub(crate) forward_delay: u8,
    /// Topology changes that the bridge detected or was notified of.
    pub(crate) topology_changes: u64,
    /// How often addresses were flushed for them.
    pub(crate) flushes: u64,
}

impl StpReport {
    pub(super) fn of(status: &BridgeStatus, root_port: Option<String>, flushes: u64) -> Self {
        Self {
            protocol: version(status.protocol == Protocol::Rstp),
            id: status.id.to_string(),
            root: status.root.to_string(),
            root_cost: status.cost,
            root_port,
            hello: status.times.hello,
            max_age: status.times.max_age,
            forward_delay: status.times.forward_delay,
            topology_changes: status.topology_changes,
            flushes,
        }
    }
}

/// State of a port in a spanning tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct StpPortReport {
    /// Role: `disabled`, `root`, `designated`, `alternate` or `backup`.
    pub(crate) role: String,
    /// State: `discarding`, `learning` or `forwarding`.
    pub(crate) state: String,
    /// Why the protocol has stopped the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Identifier of the port in hexadecimal: priority and number.
    pub(crate) id: String,
    /// Cost of the path through the port.
    pub(crate) cost: u32,
    /// Identifier of the designated bridge of its network.
    pub(crate) designated_bridge: String,
    /// Identifier of the designated port of its network, in hexadecimal.
    pub(crate) designated_port: String,
    /// Whether the port leads to a host.
    pub(crate) edge: bool,
    /// Whether at most one bridge is behind the port.
    pub(crate) point_to_point: bool,
    /// Protocol of the BPDUs that the port sends: `rstp` or `stp`.
    pub(crate) version: String,
    /// BPDUs received.
    pub(crate) received: u64,
    /// Frames received that are not valid BPDUs.
    pub(crate) invalid: u64,
    /// BPDUs sent.
    pub(crate) sent: u64,
}

impl From<PortStatus> for StpPortReport {
    fn from(status: PortStatus) -> Self {
        Self {
            role: status.role.to_string(),
            state: status.state.to_string(),
            reason: status
                .guarded
                .then(|| "bpdu-guard: a BPDU was received; the link must go down".to_owned()),
            id: format!("{:04x}", status.id),
            cost: status.cost,
            designated_bridge: status.designated.bridge.to_string(),
            designated_port: format!("{:04x}", status.designated.port),
            edge: status.edge,
            point_to_point: status.point_to_point,
            version: version(status.rapid),
            received: status.counts.received,
            invalid: status.counts.invalid,
            sent: status.counts.sent,
        }
    }
}

/// `GET /v1/neighbors`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct NeighborsReport {
    /// Neighbours by port.
    pub(crate) neighbors: Vec<NeighborReport>,
    /// Ports with LLDP.
    pub(crate) ports: Vec<LldpPortReport>,
}

/// A neighbour that LLDP has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct NeighborReport {
    /// Name of the port.
    pub(crate) port: String,
    /// Identifier of its system: an address or a name.
    pub(crate) chassis: String,
    /// Identifier of its port: an address or a name.
    pub(crate) port_id: String,
    /// Description of its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) port_description: Option<String>,
    /// Name of its system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) system_name: Option<String>,
    /// Description of its system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) system_description: Option<String>,
    /// Enabled capabilities of its system, such as `bridge` or `router`.
    pub(crate) capabilities: Vec<String>,
    /// Addresses at which it is managed.
    pub(crate) management: Vec<String>,
    /// VLAN of its untagged frames; 0 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) port_vlan: Option<u16>,
    /// Its VLANs.
    pub(crate) vlans: Vec<VlanReport>,
    /// Seconds since it was found.
    pub(crate) age: u64,
    /// Seconds until it is removed, unless it is received again.
    pub(crate) expires: u64,
}

/// A VLAN of a neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct VlanReport {
    /// Identifier.
    pub(crate) id: u16,
    /// Name.
    pub(crate) name: String,
}

/// Counters of a port with LLDP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct LldpPortReport {
    /// Name of the port.
    pub(crate) port: String,
    /// Frames received.
    pub(crate) received: u64,
    /// Frames received that are not valid.
    pub(crate) invalid: u64,
    /// Frames of neighbours that were not kept, because the port has eight.
    pub(crate) refused: u64,
    /// Neighbours that were removed because they were not received again.
    pub(crate) aged: u64,
    /// Frames sent.
    pub(crate) sent: u64,
}

impl NeighborReport {
    pub(super) fn of(port: &str, Neighbor { lldpdu, since, until }: &Neighbor, now: Duration) -> Self {
        let Lldpdu { chassis, port: id, port_description, system_name, system_description, .. } = lldpdu;
        let vlan = |vlan: &lldp::Vlan| VlanReport { id: vlan.id, name: vlan.name.clone() };
        let capabilities = lldpdu.capabilities.unwrap_or_default();
        Self {
            port: port.to_owned(),
            chassis: chassis.chassis_text(),
            port_id: id.port_text(),
            port_description: port_description.clone(),
            system_name: system_name.clone(),
            system_description: system_description.clone(),
            capabilities: capabilities.names().map(str::to_owned).collect(),
            management: lldpdu.management.iter().map(ToString::to_string).collect(),
            port_vlan: lldpdu.port_vlan,
            vlans: lldpdu.vlans.iter().map(vlan).collect(),
            age: now.saturating_sub(*since).as_secs(),
            expires: until.saturating_sub(now).as_secs(),
        }
    }
}

impl LldpPortReport {
    pub(super) fn of(port: &str, counts: PortCounts) -> Self {
        let PortCounts { received, invalid, refused, aged, sent } = counts;
        Self { port: port.to_owned(), received, invalid, refused, aged, sent }
    }
}

fn version(rapid: bool) -> String {
    if rapid { "rstp" } else { "stp" }.to_owned()
}
