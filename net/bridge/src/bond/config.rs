//! Configuration of bonds, as plain values.

use lacp::GroupConfig;
use std::time::Duration;

/// Maximum number of members of a bond.
pub const MAX_MEMBERS: usize = 16;

/// How a bond distributes packets to its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BondMode {
    /// One member carries all packets.
    #[default]
    ActiveBackup,
    /// By source address and VLAN. The other end is not aware of the bond.
    BalanceSlb,
    /// By the flow of each packet. Requires LACP.
    BalanceTcp,
}

/// Bond configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BondConfig {
    /// Distribution of packets.
    pub mode: BondMode,
    /// LACP; `None` if the other end has none.
    pub lacp: Option<GroupConfig>,
    /// Whether the bond is used without a partner, as if LACP were off; [`BondMode::BalanceTcp`] is then
    /// [`BondMode::ActiveBackup`].
    pub fallback: bool,
    /// Time for which the link of a member must be up before it is used. Without LACP only.
    pub up_delay: Duration,
    /// Time for which the link of a member must be down before it is not used. Without LACP only.
    pub down_delay: Duration,
    /// Interval at which buckets move to members with less load; `None`: they do not.
    pub rebalance: Option<Duration>,
}

/// Member configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberConfig {
    /// Priority in LACP; a lower number is preferred.
    pub priority: u16,
    /// Whether the member is active whenever it can be. Otherwise it becomes active when the active member fails.
    pub is_primary: bool,
}

impl Default for BondConfig {
    /// Active-backup without LACP and delays, buckets rebalanced every ten seconds.
    fn default() -> Self {
        Self {
            mode: BondMode::default(),
            lacp: None,
            fallback: false,
            up_delay: Duration::ZERO,
            down_delay: Duration::ZERO,
            rebalance: Some(Duration::from_secs(10)),
        }
    }
}
