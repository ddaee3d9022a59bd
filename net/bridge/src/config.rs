//! What an operator chooses for a bridge and for each of its ports. Plain values.

use super::{AllowedSource, VlanSet};
use std::num::NonZeroU32;
use wire::{MacAddress, VlanId};

/// A bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Most stations that the bridge remembers, static ones included: 16 to 16,777,216. About 20 bytes each. An
    /// eighth more fits, for static entries and for the first sixteen stations of each port.
    pub capacity: usize,
    /// Seconds without a packet after which a learned station is forgotten: 10 to 1,000,000 (IEEE 802.1Q,
    /// table 8-6).
    pub ageing_seconds: u32,
    /// Whether frames to `01:80:c2:00:00:00` to `0f` (spanning tree, LACP, LLDP, ...) are flooded like any other
    /// multicast. A bridge that follows IEEE 802.1Q does not forward them; they count as `no-destination`.
    pub forward_reserved: bool,
    /// When a known station may move to another port.
    pub mac_moves: MacMoves,
    /// Whether DHCP is followed: messages of servers come from trusted ports only, and what they lease is recorded for
    /// the ports whose sources include [`AllowedSource::Dhcp`].
    pub dhcp_snooping: bool,
}

/// When a known station may move to another port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MacMoves {
    /// Once it has aged; once its port has stopped or was removed; between two trusted ports; or when a reverse ARP
    /// announces it, from a trusted port or from a port's front end. Other frames from it are dropped as
    /// `mac-move-refused`.
    #[default]
    Guarded,
    /// At once, with any frame.
    Free,
}

impl BridgeConfig {
    /// Allowed values of [`BridgeConfig::capacity`].
    pub const CAPACITY: std::ops::RangeInclusive<usize> = 16..=1 << 24;
    /// Allowed values of [`BridgeConfig::ageing_seconds`].
    pub const AGEING: std::ops::RangeInclusive<u32> = 10..=1_000_000;
}

impl Default for BridgeConfig {
    /// 65,536 stations, 300 seconds, reserved groups not forwarded, moves guarded.
    fn default() -> Self {
        Self {
            capacity: 65_536,
            ageing_seconds: 300,
            forward_reserved: false,
            mac_moves: MacMoves::Guarded,
            dhcp_snooping: false,
        }
    }
}

/// A port of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Which VLANs it carries, and how.
    pub vlan: Vlan,
    /// Whether the network behind this port is trusted, as an uplink is: its reverse ARP moves stations, and stations
    /// move freely between trusted ports.
    pub trusted: bool,
    /// Whether stations are learned from this port. Without it, frames to them are flooded.
    pub learn: bool,
    /// Most stations that are learned from this port; without it a quarter of the bridge's capacity. At the limit
    /// new stations are not learned: frames to them are flooded.
    pub max_macs: Option<u32>,
    /// The only source addresses that are allowed; empty: all. They are static entries of this port, and no other port
    /// may use them. At most 64.
    pub macs: Vec<MacAddress>,
    /// The only IP source addresses that are allowed, also within ARP and neighbor discovery; `None`: all. At most 64.
    pub sources: Option<Vec<AllowedSource>>,
    /// Most broadcast and multicast packets that are taken from this port.
    pub broadcast_limit: Option<Rate>,
    /// Most packets to unknown stations that are taken from this port.
    pub unknown_limit: Option<Rate>,
}

impl PortConfig {
    /// Most entries of [`PortConfig::macs`] and of [`PortConfig::sources`]: each is compared with every packet.
    pub const LONGEST_LIST: usize = 64;
}

impl Default for PortConfig {
    /// Every VLAN, not trusted, learning, without limits.
    fn default() -> Self {
        Self {
            vlan: Vlan::default(),
            trusted: false,
            learn: true,
            max_macs: None,
            macs: Vec::new(),
            sources: None,
            broadcast_limit: None,
            unknown_limit: None,
        }
    }
}

/// Which VLANs a port carries. A bridge looks at tags only if at least one of its ports is not
/// [`Vlan::Transparent`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Vlan {
    /// Every VLAN, with its tag, and untagged frames, which belong to no VLAN and reach transparent ports only. On
    /// a bridge whose ports are all transparent, tags are not looked at.
    #[default]
    Transparent,
    /// One VLAN, without tags. Tagged frames are dropped, unless the tag carries a priority only.
    Access(VlanId),
    /// Several VLANs, with their tags.
    Trunk {
        /// The VLANs carried with a tag.
        allowed: VlanSet,
        /// The VLAN of untagged frames, carried as well and sent without a tag. Without it untagged frames are
        /// dropped.
        native: Option<VlanId>,
    },
}

/// A token bucket. It holds for the port, over all its queues and workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Packets per second. Above some ten million the rate is rounded to whole nanoseconds per packet.
    pub packets_per_second: NonZeroU32,
    /// Packets that may pass at once after a silence.
    pub burst: NonZeroU32,
}

impl Rate {
    /// A rate, unless one of the numbers is zero.
    pub const fn new(packets_per_second: u32, burst: u32) -> Option<Self> {
        match (NonZeroU32::new(packets_per_second), NonZeroU32::new(burst)) {
            (Some(packets_per_second), Some(burst)) => Some(Self { packets_per_second, burst }),
            _ => None,
        }
    }

    /// A rate whose burst is a tenth of a second's packets, and at least one full [`port::Burst`].
    pub const fn per_second(packets: NonZeroU32) -> Self {
        let tenth = packets.get() / 10;
        let burst = if tenth > port::BURST as u32 { tenth } else { port::BURST as u32 };
        match NonZeroU32::new(burst) {
            Some(burst) => Self { packets_per_second: packets, burst },
            None => Self { packets_per_second: packets, burst: packets },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_not_zero_and_its_burst_at_least_one_full_burst() {
        assert_eq!((Rate::new(0, 1), Rate::new(1, 0)), (None, None));
        let burst = |packets| NonZeroU32::new(packets).map(|rate| Rate::per_second(rate).burst.get());
        assert_eq!([1, 640, 10_000].map(burst), [Some(64), Some(64), Some(1000)]);
    }
}
