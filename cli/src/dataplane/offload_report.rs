//! Report of the kernel fast path; part of the control API's JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wire::MacAddress;

/// `GET /v1/offload`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct OffloadReport {
    /// Pairs of stations whose frames the kernel forwards.
    pub(crate) entries: Vec<OffloadEntry>,
    /// Packets that the kernel has forwarded since the start, also of pairs that are no longer installed.
    pub(crate) packets: u64,
    /// Bytes of these packets, without frame checksums.
    pub(crate) bytes: u64,
}

/// A pair of stations whose frames the kernel forwards.
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
    /// Packets since the pair was installed.
    pub(crate) packets: u64,
    /// Bytes since the pair was installed, without frame checksums.
    pub(crate) bytes: u64,
    /// Seconds since the pair was installed.
    pub(crate) age: u64,
    /// Seconds since its last packet.
    pub(crate) idle: u64,
}
