//! Reports on the flow tables of a running switch: rates, caches, drops and traces; part of the control API's JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Rate of a flow in a measured interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FlowRate {
    /// Packets per second.
    pub(crate) packets: f64,
    /// Bits per second, without frame checksums.
    pub(crate) bits: f64,
}

/// Packets of an OpenFlow bridge by the place where their result was found, and those that its tables dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FlowCounts {
    /// Number of flows.
    pub(crate) flows: usize,
    /// Packets found in a head cache.
    pub(crate) head: u64,
    /// Packets found in a megaflow cache.
    pub(crate) megaflow: u64,
    /// Packets that were looked up in the tables.
    pub(crate) tables: u64,
    /// Masks that lookups in the megaflow cache have compared.
    pub(crate) probes: u64,
    /// Megaflows that were replaced by others, because the cache was full.
    pub(crate) evicted: u64,
    /// Masks of megaflows that were replaced by others.
    pub(crate) evicted_masks: u64,
    /// Drops by table and reason, up to half a second ago.
    pub(crate) drops: Vec<TableDrop>,
}

/// Packets that a table dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TableDrop {
    /// Last table that was looked up.
    pub(crate) table: u8,
    /// `no-flow` or `flow-drop`.
    pub(crate) reason: String,
    /// Number of packets.
    pub(crate) packets: u64,
}

/// Request of `POST /v1/trace`: a synthetic packet, or a frame with its ingress port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceRequest {
    /// Name of the bridge; the only OpenFlow bridge by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bridge: Option<String>,
    /// Fields of a synthetic packet, in the syntax of ovs-fields(7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) flow: Option<String>,
    /// Port on which the frame is received: a name or number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) in_port: Option<String>,
    /// First bytes of the frame, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) frame: Option<String>,
    /// Length of the frame; that of `frame` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) length: Option<usize>,
    /// Connection states of the packet after its first, second, ... `ct`, such as `trk|est`. After the last one, states
    /// are those of the connections that there are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ct_next: Vec<String>,
}

/// `POST /v1/trace`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TraceReport {
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// The pass of the packet, and one for each recirculation.
    pub(crate) passes: Vec<TracePass>,
    /// Recirculations that were not followed.
    pub(crate) omitted: usize,
}

/// One pass through the tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TracePass {
    /// Fields of the packet.
    pub(crate) flow: String,
    /// Lookups and actions, in order.
    pub(crate) steps: Vec<TraceStep>,
    /// Steps that were left out.
    pub(crate) omitted: usize,
    /// Fields of the packet after all steps; null if no step changed it.
    pub(crate) final_flow: Option<String>,
    /// Match of the megaflow that a worker installs.
    pub(crate) megaflow: String,
    /// Operations of the megaflow.
    pub(crate) operations: String,
    /// Result for the packet.
    pub(crate) verdict: String,
    /// Whether it is dropped.
    pub(crate) dropped: bool,
}

/// One step of a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TraceStep {
    /// Number of the steps that it is within.
    pub(crate) depth: usize,
    /// The flow, the action or the bucket.
    pub(crate) text: String,
    /// Fields that it changed, such as `nw_ttl 64 -> 63`.
    pub(crate) changes: Vec<String>,
}
