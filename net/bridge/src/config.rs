//! Configuration of bridges and ports, as plain values.

use super::{AllowedSource, VlanSet};
use std::num::NonZeroU32;
use wire::{MacAddress, VlanId};

/// Bridge configuration.
#[expect(clippy::struct_excessive_bools, reason = "independent settings")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Capacity of the station table, including static entries: 16 to 16,777,216, about 20 bytes each. One eighth more
    /// is reserved for static entries and for the first sixteen stations of each port.
    pub capacity: usize,
    /// Ageing time in seconds: a learned station is removed after this time without a packet. 10 to 1,000,000 (IEEE
    /// 802.1Q, table 8-6).
    pub ageing_seconds: u32,
    /// Whether frames to `01:80:c2:00:00:00` to `0f` (spanning tree, LACP, LLDP, ...) are flooded like other multicast.
    /// If false, as IEEE 802.1Q requires, they are dropped as `no-destination`.
    pub forward_reserved: bool,
    /// When a known station may move to another port.
    pub mac_moves: MacMoves,
    /// DHCP snooping: server messages are accepted from trusted ports only, and their leases are recorded for ports
    /// whose sources include [`AllowedSource::Dhcp`].
    pub dhcp_snooping: bool,
    /// Whether flow tables decide about packets before the bridge. Frames of protocols of its ports and of LACP are
    /// taken out in front of them.
    pub flow_tables: bool,
    /// Whether IGMP, MLD and PIM messages go to control, and multicast packets to the ports of
    /// [`crate::Switch::set_groups`].
    pub multicast_snooping: bool,
}

/// When a known station may move to another port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MacMoves {
    /// If it has aged; if its port has stopped or was removed; between two trusted ports; or if announced by a RARP
    /// frame from a trusted port or from the port's front end. Other frames from it are dropped as `mac-move-refused`.
    #[default]
    Guarded,
    /// Immediately, with any frame.
    Free,
}

impl BridgeConfig {
    /// Allowed values of [`BridgeConfig::capacity`].
    pub const CAPACITY: std::ops::RangeInclusive<usize> = 16..=1 << 24;
    /// Allowed values of [`BridgeConfig::ageing_seconds`].
    pub const AGEING: std::ops::RangeInclusive<u32> = 10..=1_000_000;
}

impl Default for BridgeConfig {
    /// 65,536 stations, 300 seconds, reserved groups not forwarded, guarded moves, no snooping.
    fn default() -> Self {
        Self {
            capacity: 65_536,
            ageing_seconds: 300,
            forward_reserved: false,
            mac_moves: MacMoves::Guarded,
            dhcp_snooping: false,
            flow_tables: false,
            multicast_snooping: false,
        }
    }
}

/// Port configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent settings")]
pub struct PortConfig {
    /// VLAN mode.
    pub vlan: Vlan,
    /// Whether the network behind this port is trusted, like an uplink: its RARP frames move stations, and stations
    /// move freely between trusted ports.
    pub trusted: bool,
    /// Whether stations are learned from this port. If false, frames to them are flooded.
    pub learn: bool,
    /// Maximum number of stations learned from this port; default: a quarter of the bridge's capacity. At the limit,
    /// new stations are not learned, and frames to them are flooded.
    pub max_macs: Option<u32>,
    /// Allowed source MAC addresses; empty: all. They become static entries of this port, and other ports cannot use
    /// them. At most 64.
    pub macs: Vec<MacAddress>,
    /// Allowed IP source addresses, also checked in ARP and Neighbor Discovery; `None`: all. At most 64.
    pub sources: Option<Vec<AllowedSource>>,
    /// Rate limit for broadcast and multicast packets received on this port.
    pub broadcast_limit: Option<Rate>,
    /// Rate limit for packets to unknown stations received on this port.
    pub unknown_limit: Option<Rate>,
    /// Whether the port belongs to a spanning tree: BPDUs go to control, and the port discards until
    /// [`crate::Switch::set_states`].
    pub stp: bool,
    /// Whether LLDP frames go to control.
    pub lldp: bool,
}

/// State of a port in a spanning tree (IEEE 802.1D-2004, section 7.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortState {
    /// Packets are discarded.
    Discarding,
    /// Stations are learned, and packets are discarded.
    Learning,
    /// Stations are learned, and packets are forwarded.
    #[default]
    Forwarding,
}

impl PortConfig {
    /// Maximum length of [`PortConfig::macs`] and [`PortConfig::sources`]: each packet is compared with each entry.
    pub const MAX_LIST: usize = 64;
}

impl Default for PortConfig {
    /// All VLANs, not trusted, learning, without limits and protocols.
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
            stp: false,
            lldp: false,
        }
    }
}

/// VLAN mode of a port. A bridge evaluates tags only if at least one of its ports is not [`Vlan::Transparent`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Vlan {
    /// All VLANs, tagged, and untagged frames, which belong to no VLAN and are forwarded to transparent ports only. If
    /// all ports of a bridge are transparent, tags are ignored.
    #[default]
    Transparent,
    /// One VLAN, untagged. Tagged frames are dropped, except priority-tagged ones (VLAN 0).
    Access(VlanId),
    /// Several VLANs, tagged.
    Trunk {
        /// VLANs carried with a tag.
        allowed: VlanSet,
        /// VLAN of untagged frames, also carried and sent untagged. If `None`, untagged frames are dropped.
        native: Option<VlanId>,
    },
}

/// Token bucket parameters, shared by all queues and workers of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Packets per second. Above about ten million, the rate is rounded to whole nanoseconds per packet.
    pub packets_per_second: NonZeroU32,
    /// Burst size in packets.
    pub burst: NonZeroU32,
}

impl Rate {
    /// Returns `None` if either number is zero.
    pub const fn new(packets_per_second: u32, burst: u32) -> Option<Self> {
        match (NonZeroU32::new(packets_per_second), NonZeroU32::new(burst)) {
            (Some(packets_per_second), Some(burst)) => Some(Self { packets_per_second, burst }),
            _ => None,
        }
    }

    /// A rate with a burst of a tenth of a second, at least one full [`port::Burst`].
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
    fn rate_is_nonzero_and_allows_one_full_burst() {
        assert_eq!((Rate::new(0, 1), Rate::new(1, 0)), (None, None));
        let burst = |packets| NonZeroU32::new(packets).map(|rate| Rate::per_second(rate).burst.get());
        assert_eq!([1, 640, 10_000].map(burst), [Some(64), Some(64), Some(1000)]);
    }
}
