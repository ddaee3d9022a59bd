//! Reports of a running switch about its bridges and addresses; part of the control API's JSON.

use super::flow_report::FlowRate;
use super::link_report::{StpPortReport, StpReport};
use console::Span;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wire::MacAddress;

/// One bridge of `GET /v1/bridges`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct BridgeReport {
    /// Name.
    pub(crate) name: String,
    /// Number of addresses, learned and static.
    pub(crate) addresses: usize,
    /// Capacity of the address table.
    pub(crate) table: usize,
    /// Its ports.
    pub(crate) ports: Vec<BridgePort>,
    /// The latest refused moves, at most one per port and second, oldest first.
    pub(crate) refused_moves: Vec<MoveEvent>,
    /// Controllers of a bridge with flow tables, up to 0.1 s ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) openflow: Option<OpenflowReport>,
    /// Spanning tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stp: Option<StpReport>,
}

/// OpenFlow state of a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct OpenflowReport {
    /// Identifier of the bridge, 16 hexadecimal digits.
    pub(crate) datapath_id: String,
    /// Path of the management socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) management: Option<String>,
    /// Whether the bridge ignores its flow tables because no controller is connected.
    pub(crate) standalone: bool,
    /// Controllers in the order of the file.
    pub(crate) controllers: Vec<ControllerReport>,
}

/// A controller of a bridge: one that the bridge connects to, or an address at which it listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ControllerReport {
    /// Target, as in the file.
    pub(crate) target: String,
    /// State of the connection.
    pub(crate) state: ControllerState,
    /// Seconds in this state.
    pub(crate) seconds: u64,
    /// Seconds until the next attempt to connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_in: Option<u64>,
    /// Connected sessions.
    pub(crate) sessions: usize,
    /// Auxiliary connections of the first session.
    #[serde(default)]
    pub(crate) auxiliary: usize,
    /// Role of the first session: `equal`, `primary` or `secondary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    /// Version of OpenFlow of the first session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// Messages received by the first session and its auxiliary connections.
    pub(crate) received: u64,
    /// Messages sent by them.
    pub(crate) sent: u64,
    /// Their asynchronous messages that were discarded because the controller read too slowly.
    pub(crate) discarded: u64,
    /// Latest reason without a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
}

/// State of the connection to a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ControllerState {
    /// The bridge connects, or the handshake is not complete.
    Connecting,
    /// At least one session has agreed on a version.
    Connected,
    /// The bridge waits before it connects again.
    Waiting,
    /// The bridge listens, and no controller is connected.
    Listening,
}

/// One port of a [`BridgeReport`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct BridgePort {
    /// Name of the port.
    pub(crate) port: String,
    /// Number of learned addresses.
    pub(crate) learned: u32,
    /// Maximum number of learned addresses.
    pub(crate) max_macs: u32,
    /// Number of static addresses.
    #[serde(rename = "static")]
    pub(crate) pinned: u32,
    /// Packets whose source was not learned because of a limit.
    pub(crate) not_learned: u64,
    /// Packets whose source was not learned because the table was being changed.
    pub(crate) deferred: u64,
    /// Addresses that moved to this port.
    pub(crate) moves: u64,
    /// Packets dropped because a move was refused.
    pub(crate) refused_moves: u64,
    /// State in the spanning tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stp: Option<StpPortReport>,
}

/// An address in use at `old_port` was the source of a frame from `new_port`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct MoveEvent {
    /// The address.
    #[schema(value_type = String)]
    pub(crate) mac: MacAddress,
    /// VLAN, or 0 without one.
    pub(crate) vlan: u16,
    /// Port at which the address is in use.
    pub(crate) old_port: String,
    /// Port that sent a frame from the address.
    pub(crate) new_port: String,
    /// Age in seconds.
    pub(crate) age: u32,
}

/// Origin of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// Learned from a frame.
    Learned,
    /// Configured.
    Static,
}

/// One address of a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FdbEntry {
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// The address.
    #[schema(value_type = String)]
    pub(crate) mac: MacAddress,
    /// VLAN, or 0 without one.
    pub(crate) vlan: u16,
    /// Name of the port.
    pub(crate) port: String,
    /// Learned or static.
    pub(crate) origin: Origin,
    /// Seconds since last use; null for static entries.
    pub(crate) age: Option<u32>,
}

/// Filter of listed addresses; absent fields match all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StationFilter {
    /// Name of the bridge.
    pub(crate) bridge: Option<String>,
    /// Name of the port.
    pub(crate) port: Option<String>,
    /// VLAN, or 0 for addresses without one.
    pub(crate) vlan: Option<u16>,
    /// Ethernet address, such as `02:00:00:00:00:01`.
    #[param(value_type = Option<String>)]
    pub(crate) mac: Option<MacAddress>,
    /// Maximum number of entries returned.
    pub(crate) limit: Option<usize>,
}

/// Filter of addresses; absent fields match all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FdbFilter {
    /// Name of the bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bridge: Option<String>,
    /// Name of the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<String>,
    /// VLAN, or 0 for addresses without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vlan: Option<u16>,
    /// Maximum number of entries returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<usize>,
}

/// One flow of `GET /v1/flows`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FlowEntry {
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// Number of the table.
    pub(crate) table: u8,
    /// Priority.
    pub(crate) priority: u16,
    /// Cookie, in hexadecimal.
    pub(crate) cookie: String,
    /// Age in seconds.
    pub(crate) age: u64,
    /// Packets, up to half a second ago.
    pub(crate) packets: u64,
    /// Bytes, up to half a second ago.
    pub(crate) bytes: u64,
    /// Rate in the interval of the request, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<FlowRate>,
    /// Match, in the syntax of ovs-fields(7).
    #[serde(rename = "match")]
    pub(crate) matching: String,
    /// Instructions and actions, in the syntax of ovs-actions(7).
    pub(crate) actions: String,
}

/// Selection of flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowFilter {
    /// Name of the bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bridge: Option<String>,
    /// Match, in the syntax of ovs-fields(7): selects the flows that it covers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flow: Option<String>,
    /// Whether only the flow with exactly this match and priority is removed.
    #[serde(default)]
    pub(crate) strict: bool,
    /// Measures rates for this time, such as `1s`, from `100ms` to `8s`: returns flows with packets, by descending
    /// rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub(crate) interval: Option<Span>,
    /// Maximum number of entries returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<usize>,
}

/// Request of `POST /v1/flows`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowRequest {
    /// Name of the bridge; the only OpenFlow bridge by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bridge: Option<String>,
    /// Flows in the syntax of `ovs-ofctl add-flow`; all are added, or none.
    pub(crate) flows: Vec<String>,
}

impl StationFilter {
    /// Whether an address of `bridge` at `port` matches.
    pub(crate) fn names(&self, bridge: &str, port: &str, (mac, vlan): (MacAddress, u16)) -> bool {
        self.mac.is_none_or(|own| own == mac)
            && self.vlan.is_none_or(|own| own == vlan)
            && self.bridge.as_ref().is_none_or(|own| own == bridge)
            && self.port.as_ref().is_none_or(|own| own == port)
    }
}

impl FdbFilter {
    /// The filter with an address.
    pub(crate) fn with_mac(&self, mac: MacAddress) -> StationFilter {
        let Self { bridge, port, vlan, limit } = self.clone();
        StationFilter { bridge, port, vlan, mac: Some(mac), limit }
    }

    /// The filter in an error message: `any forwarding table at port "a" in VLAN 5`.
    pub(crate) fn table(&self) -> String {
        let table = self.bridge.as_ref().map(|name| format!("the forwarding table of bridge \"{name}\""));
        let port = self.port.as_ref().map(|name| format!(" at port \"{name}\"")).unwrap_or_default();
        let vlan = self.vlan.map(|vlan| format!(" in VLAN {vlan}")).unwrap_or_default();
        table.unwrap_or_else(|| "any forwarding table".to_owned()) + &port + &vlan
    }
}
