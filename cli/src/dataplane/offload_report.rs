//! Report of the kernel fast path; part of the control API's JSON.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use utoipa::ToSchema;
use wire::MacAddress;

/// `GET /v1/offload`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct OffloadReport {
    /// Pairs of stations, and flows between them, whose frames the kernel forwards.
    pub(crate) entries: Vec<OffloadEntry>,
    /// Packets that the kernel has forwarded since the start, also of entries that are no longer installed.
    pub(crate) packets: u64,
    /// Bytes of these packets, without frame checksums.
    pub(crate) bytes: u64,
}

/// A pair of stations, or a flow between them, whose frames the kernel forwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct OffloadEntry {
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// Name of the port at which the frames arrive.
    pub(crate) from: String,
    /// Name of the port to which they go.
    pub(crate) to: String,
    /// Their source address.
    #[schema(value_type = String)]
    pub(crate) source: MacAddress,
    /// Their destination address.
    #[schema(value_type = String)]
    pub(crate) destination: MacAddress,
    /// The flow; missing if all untagged frames between the stations are forwarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flow: Option<OffloadFlow>,
    /// Source address with which the frames are sent, if it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) new_source: Option<MacAddress>,
    /// Destination address with which the frames are sent, if it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) new_destination: Option<MacAddress>,
    /// Whether the time to live or hop limit is decremented.
    pub(crate) decrements_ttl: bool,
    /// Packets since the entry was installed.
    pub(crate) packets: u64,
    /// Bytes since the entry was installed, without frame checksums.
    pub(crate) bytes: u64,
    /// Seconds since the entry was installed.
    pub(crate) age: u64,
    /// Seconds since its last packet.
    pub(crate) idle: u64,
}

/// A flow whose frames the kernel forwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct OffloadFlow {
    /// `tcp` or `udp`.
    pub(crate) protocol: String,
    /// Source address and port.
    #[schema(value_type = String)]
    pub(crate) source: SocketAddr,
    /// Destination address and port.
    #[schema(value_type = String)]
    pub(crate) destination: SocketAddr,
    /// Type of service, or traffic class.
    pub(crate) traffic_class: u8,
    /// Whether it is a direction of an open connection that connection tracking knows.
    pub(crate) is_tracked: bool,
}
