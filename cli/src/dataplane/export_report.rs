//! Export to collectors in the control API's JSON.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use utoipa::ToSchema;

/// `GET /v1/export`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ExportReport {
    /// sFlow and IPFIX of each bridge that has them.
    pub(crate) exporters: Vec<ExporterReport>,
    /// Interfaces of these bridges, as collectors know them.
    pub(crate) interfaces: Vec<InterfaceReport>,
}

/// One protocol of a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ExporterReport {
    /// Bridge.
    pub(crate) bridge: String,
    /// `sflow` or `ipfix`.
    pub(crate) protocol: String,
    /// Mean number of packets for a sample.
    pub(crate) sampling: u32,
    /// Received packets that could have been sampled.
    pub(crate) packets: u64,
    /// Sampled packets, including those that were dropped.
    pub(crate) samples: u64,
    /// Samples that were dropped because the queue of a worker was full.
    pub(crate) dropped: u64,
    /// sFlow: address of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) agent: Option<IpAddr>,
    /// IPFIX: flows in the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flows: Option<usize>,
    pub(crate) collectors: Vec<CollectorReport>,
}

/// A collector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct CollectorReport {
    /// Address and UDP port.
    #[schema(value_type = String)]
    pub(crate) address: SocketAddr,
    /// Sent datagrams.
    pub(crate) datagrams: u64,
    /// Bytes of their payload.
    pub(crate) bytes: u64,
    /// Datagrams that were dropped because the buffer of the socket was full.
    pub(crate) dropped: u64,
    /// Datagrams that could not be sent, and ICMP errors about sent ones.
    pub(crate) errors: u64,
    /// Latest error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct InterfaceReport {
    /// `ifIndex`.
    pub(crate) index: u32,
    /// Name of the port.
    pub(crate) port: String,
    /// Its bridge.
    pub(crate) bridge: String,
}
