//! Why the control side refuses something. Nothing is changed then.

use super::config::BridgeConfig;
use port::PortId;
use wire::MacAddress;

/// There is no such bridge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no bridge `{0}`; add it first")]
pub struct UnknownBridge(pub String);

/// Why a bridge was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddBridgeError {
    /// The name is taken.
    #[error("a bridge `{0}` exists already and is left as it is")]
    Exists(String),
    /// There are as many bridges as there can be.
    #[error("bridge `{0}` was not added: 65535 bridges is the most")]
    TooMany(String),
    /// The table would be too small or too large.
    #[error(
        "bridge `{name}` was not added: a table of {capacity} stations is outside {} to {}",
        BridgeConfig::CAPACITY.start(),
        BridgeConfig::CAPACITY.end()
    )]
    Capacity {
        /// The bridge.
        name: String,
        /// What was asked for.
        capacity: usize,
    },
    /// The ageing time is too short or too long.
    #[error(
        "bridge `{name}` was not added: an ageing time of {seconds} s is outside {} to {} s",
        BridgeConfig::AGEING.start(),
        BridgeConfig::AGEING.end()
    )]
    Ageing {
        /// The bridge.
        name: String,
        /// What was asked for.
        seconds: u32,
    },
}

/// Why a bridge was not removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoveBridgeError {
    /// There is none of that name.
    #[error(transparent)]
    Unknown(#[from] UnknownBridge),
    /// Ports would be left without a bridge.
    #[error("bridge `{name}` still has {ports} ports and was not removed; remove them first")]
    InUse {
        /// The bridge.
        name: String,
        /// How many.
        ports: usize,
    },
}

/// Why a port was not added to a bridge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddPortError {
    /// There is no such bridge.
    #[error(transparent)]
    Unknown(#[from] UnknownBridge),
    /// It has a bridge already.
    #[error("port {} belongs to bridge `{bridge}` already and stays there; remove it there first", port.0)]
    Member {
        /// The port.
        port: PortId,
        /// Where it is.
        bridge: String,
    },
    /// The number is too high.
    #[error("port {} was not added: the switch was made for ports 0 to {}", port.0, ports - 1)]
    OutOfRange {
        /// The port.
        port: PortId,
        /// How many ports the switch was made for.
        ports: usize,
    },
    /// An address of it is another port's.
    #[error("port {} was not added: {mac} belongs to port {} already; give it to one of them", port.0, owner.0)]
    MacTaken {
        /// The port.
        port: PortId,
        /// The address.
        mac: MacAddress,
        /// The port that has it.
        owner: PortId,
    },
    /// An address of it is a group address or zero.
    #[error("port {} was not added: {mac} is a group address or zero, which no station has", port.0)]
    NoStation {
        /// The port.
        port: PortId,
        /// The address.
        mac: MacAddress,
    },
    /// A list of addresses is too long.
    #[error("port {} was not added: it lists {entries} addresses, and at most {most} are allowed", port.0)]
    TooLong {
        /// The port.
        port: PortId,
        /// How many.
        entries: usize,
        /// Most of them.
        most: usize,
    },
    /// Leases are wanted, and nothing records them.
    #[error("port {} was not added: its sources include dhcp, and bridge `{bridge}` does not follow DHCP; turn on dhcp_snooping there", port.0)]
    NoSnooping {
        /// The port.
        port: PortId,
        /// The bridge.
        bridge: String,
    },
    /// There is no room for its addresses.
    #[error("port {} was not added: the table of bridge `{bridge}` is full; flush it or give the bridge a larger capacity", port.0)]
    Full {
        /// The port.
        port: PortId,
        /// The bridge.
        bridge: String,
    },
}

/// Why a port was not removed from its bridge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemovePortError {
    /// It has none.
    #[error("port {} belongs to no bridge; there is nothing to remove", .0.0)]
    NoMember(PortId),
}

/// Why a static entry was not added or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StaticError {
    /// There is no such bridge.
    #[error(transparent)]
    Unknown(#[from] UnknownBridge),
    /// The port is elsewhere.
    #[error("port {} is not on bridge `{bridge}`, so no address was pinned to it", port.0)]
    NoMember {
        /// The port.
        port: PortId,
        /// The bridge.
        bridge: String,
    },
    /// No station has such an address.
    #[error("{0} is a group address or zero and cannot be pinned to one port")]
    NoStation(MacAddress),
    /// The address is among the allowed ones of another port.
    #[error("{mac} belongs to port {}, so it was not pinned to port {}", owner.0, port.0)]
    Reserved {
        /// The port.
        port: PortId,
        /// The address.
        mac: MacAddress,
        /// The port that has it.
        owner: PortId,
    },
    /// The port does not carry the VLAN.
    #[error("port {} does not carry VLAN {vlan}, so {mac} was not pinned to it", port.0)]
    VlanDenied {
        /// The port.
        port: PortId,
        /// The address.
        mac: MacAddress,
        /// The VLAN.
        vlan: u16,
    },
    /// Without a VLAN it is not clear what is meant.
    #[error("port {} has no VLAN for untagged frames: say in which VLAN {mac} is", port.0)]
    VlanMissing {
        /// The port.
        port: PortId,
        /// The address.
        mac: MacAddress,
    },
    /// There is no room.
    #[error("the table of bridge `{0}` is full: flush it or give the bridge a larger capacity")]
    Full(String),
    /// There is no such entry.
    #[error("bridge `{bridge}` has no static entry for {mac} in VLAN {vlan}; nothing was removed")]
    Missing {
        /// The bridge.
        bridge: String,
        /// The address.
        mac: MacAddress,
        /// The VLAN; 0 stands for frames without one.
        vlan: u16,
    },
}

/// Why a station was not forgotten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgetError {
    /// There is no such bridge.
    #[error(transparent)]
    Unknown(#[from] UnknownBridge),
    /// There is no such station.
    #[error("bridge `{bridge}` does not know {mac} in VLAN {vlan}; nothing was removed")]
    Missing {
        /// The bridge.
        bridge: String,
        /// The address.
        mac: MacAddress,
        /// The VLAN; 0 stands for frames without one.
        vlan: u16,
    },
}
