//! Reports of bonds; part of the control API's JSON.

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;
use wire::MacAddress;

/// State of a bond.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct BondState {
    /// `off`, `configured` (no partner is known) or `negotiated`.
    pub(crate) lacp: LacpStatus,
    /// Active member; null if no member can be used.
    pub(crate) active: Option<String>,
    /// Members in the order of `ports`.
    pub(crate) members: Vec<MemberState>,
    /// Buckets with load.
    pub(crate) buckets: Vec<BucketState>,
    /// Seconds until load is rebalanced; null if it is not.
    pub(crate) rebalance_in: Option<f64>,
    /// Buckets that were moved by rebalancing since the bond was configured.
    pub(crate) moves: u64,
}

/// State of LACP of a bond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LacpStatus {
    /// The bond does not use LACP.
    Off,
    /// No member has a partner.
    Configured,
    /// At least one member has a partner.
    Negotiated,
}

impl fmt::Display for LacpStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Configured => "configured",
            Self::Negotiated => "negotiated",
        })
    }
}

/// State of a member of a bond.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct MemberState {
    /// Name of its port.
    pub(crate) port: String,
    /// Whether its link is up.
    pub(crate) up: bool,
    /// Whether it is used: its link is up, its delays have passed, and LACP permits it.
    pub(crate) enabled: bool,
    /// Seconds until a delay ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) changes_in: Option<f64>,
    /// Number of buckets, of 256.
    pub(crate) buckets: usize,
    /// Bytes sent from its buckets, those of earlier intervals of rebalancing halved each time.
    pub(crate) load: u64,
    /// State of LACP, of a bond that uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lacp: Option<MemberLacp>,
}

/// State of LACP of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct MemberLacp {
    /// State of the receive machine: `disabled`, `expired`, `defaulted` or `current`.
    pub(crate) receive: String,
    /// State of the mux machine: `detached`, `waiting`, `attached` or `distributing`.
    pub(crate) mux: String,
    /// This end.
    pub(crate) actor: LacpEnd,
    /// The other end; zero if it is not known.
    pub(crate) partner: LacpEnd,
    /// LACPDUs received.
    #[serde(default)]
    pub(crate) received: u64,
    /// LACPDUs sent.
    #[serde(default)]
    pub(crate) sent: u64,
}

/// One end of a link in LACP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct LacpEnd {
    /// Address of the system.
    #[schema(value_type = String)]
    pub(crate) system: MacAddress,
    /// Priority of the system.
    pub(crate) system_priority: u16,
    /// Key.
    pub(crate) key: u16,
    /// Number of the port.
    pub(crate) port: u16,
    /// Priority of the port.
    pub(crate) port_priority: u16,
    /// States: `activity`, `timeout` (short), `aggregation`, `synchronized`, `collecting`, `distributing`, `defaulted`
    /// and `expired`.
    pub(crate) state: Vec<String>,
}

/// A bucket with load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct BucketState {
    /// Number of the bucket, from 0 to 255.
    pub(crate) bucket: u8,
    /// Port of its member; null if no member can be used.
    pub(crate) port: Option<String>,
    /// Bytes, as of a member.
    pub(crate) load: u64,
}
