//! State of bonds for display.

use super::config::BondMode;
use lacp::{Endpoint, Mux, PortCounts, Receive};

/// State of LACP of a bond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LacpStatus {
    /// Not configured.
    Off,
    /// No partner is known.
    Configured,
    /// At least one member has a partner.
    Negotiated,
}

/// State of a bond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BondStatistics {
    /// Number of the bond.
    pub port: u16,
    /// Mode.
    pub mode: BondMode,
    /// State of LACP.
    pub lacp: LacpStatus,
    /// Members in the order of their addition.
    pub members: Vec<MemberStatistics>,
    /// Buckets with load.
    pub buckets: Vec<BucketStatistics>,
    /// Nanoseconds until buckets are rebalanced.
    pub rebalance_in: Option<u64>,
    /// Buckets that were rebalanced since the bond was configured.
    pub moves: u64,
}

/// State of a member of a bond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatistics {
    /// Number of its port.
    pub port: u16,
    /// Whether its link is up.
    pub is_up: bool,
    /// Whether it is used.
    pub is_enabled: bool,
    /// Whether it is the active member.
    pub is_active: bool,
    /// Nanoseconds until a delay ends.
    pub changes_in: Option<u64>,
    /// Number of its buckets.
    pub buckets: usize,
    /// Bytes sent from its buckets, those of earlier intervals of rebalancing halved each time.
    pub load: u64,
    /// LACP; `None` if the bond does not use it.
    pub lacp: Option<MemberLacp>,
}

/// LACP of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberLacp {
    /// State of the receive machine.
    pub receive: Receive,
    /// State of the mux machine.
    pub mux: Mux,
    /// This end.
    pub actor: Endpoint,
    /// The other end; zero if it is not known.
    pub partner: Endpoint,
    /// LACPDUs.
    pub counts: PortCounts,
}

/// A bucket with load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketStatistics {
    /// Number of the bucket.
    pub bucket: u8,
    /// Port of its member.
    pub port: Option<u16>,
    /// As [`MemberStatistics::load`].
    pub load: u64,
}
