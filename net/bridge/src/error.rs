//! Errors of the control API. A failed operation changes nothing.

use super::config::BridgeConfig;
use port::PortId;
use port::Remedy;
use std::borrow::Cow;
use wire::MacAddress;

/// No bridge has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no bridge `{0}`")]
pub struct UnknownBridge(pub String);

impl Remedy for UnknownBridge {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("add it first".into())
    }
}

/// A bridge was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddBridgeError {
    /// The name is in use.
    #[error("a bridge `{0}` already exists")]
    Exists(String),
    /// The maximum number of bridges is reached.
    #[error("bridge `{0}` was not added: 65535 bridges is the most")]
    TooMany(String),
    /// The table capacity is out of range.
    #[error(
        "bridge `{name}` was not added: a table of {capacity} stations is outside {} to {}",
        BridgeConfig::CAPACITY.start(),
        BridgeConfig::CAPACITY.end()
    )]
    Capacity {
        /// Bridge name.
        name: String,
        /// Requested capacity, in stations.
        capacity: usize,
    },
    /// The ageing time is out of range.
    #[error(
        "bridge `{name}` was not added: an ageing time of {seconds} s is outside {} to {} s",
        BridgeConfig::AGEING.start(),
        BridgeConfig::AGEING.end()
    )]
    Ageing {
        /// Bridge name.
        name: String,
        /// Requested ageing time, in seconds.
        seconds: u32,
    },
}

/// A bridge was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetBridgeError {
    /// No bridge has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownBridge),
    /// The ageing time is out of range.
    #[error(
        "bridge `{name}` was not changed: an ageing time of {seconds} s is outside {} to {} s",
        BridgeConfig::AGEING.start(),
        BridgeConfig::AGEING.end()
    )]
    Ageing {
        /// Bridge name.
        name: String,
        /// Requested ageing time, in seconds.
        seconds: u32,
    },
    /// A setting differs that a bridge keeps.
    #[error("bridge `{0}` was not changed: its table, snooping and flow tables are those of its start")]
    Fixed(String),
}

/// A bridge was not removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoveBridgeError {
    /// No bridge has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownBridge),
    /// The bridge still has ports.
    #[error("bridge `{name}` still has {ports} ports and was not removed; remove them first")]
    InUse {
        /// Bridge name.
        name: String,
        /// Number of ports.
        ports: usize,
    },
}

/// A port was not added to a bridge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddPortError {
    /// No bridge has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownBridge),
    /// The port is already on a bridge.
    #[error("port {} belongs to bridge `{bridge}` already and stays there", port.0)]
    Member {
        /// Port.
        port: PortId,
        /// Its current bridge.
        bridge: String,
    },
    /// The port number is out of range.
    #[error("port {} was not added: the switch was made for ports 0 to {}", port.0, ports - 1)]
    OutOfRange {
        /// Port.
        port: PortId,
        /// Maximum number of ports of the switch.
        ports: usize,
    },
    /// One of its MAC addresses belongs to another port.
    #[error("port {} was not added: {mac} belongs to port {} already", port.0, owner.0)]
    MacTaken {
        /// Port.
        port: PortId,
        /// MAC address.
        mac: MacAddress,
        /// Port that owns the address.
        owner: PortId,
    },
    /// One of its MAC addresses is a group address or zero.
    #[error("port {} was not added: {mac} is a group address or zero, which no station has", port.0)]
    NoStation {
        /// Port.
        port: PortId,
        /// MAC address.
        mac: MacAddress,
    },
    /// An address list is too long.
    #[error("port {} was not added: it lists {entries} addresses, and at most {most} are allowed", port.0)]
    TooLong {
        /// Port.
        port: PortId,
        /// Number of entries.
        entries: usize,
        /// Maximum number of entries.
        most: usize,
    },
    /// Its sources include DHCP leases, but the bridge does not snoop DHCP.
    #[error("port {} was not added: its sources include dhcp, and bridge `{bridge}` does not snoop DHCP", port.0)]
    NoSnooping {
        /// Port.
        port: PortId,
        /// Bridge name.
        bridge: String,
    },
    /// The table has no space for its addresses.
    #[error("port {} was not added: the table of bridge `{bridge}` is full", port.0)]
    Full {
        /// Port.
        port: PortId,
        /// Bridge name.
        bridge: String,
    },
}

impl Remedy for AddPortError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Unknown(error) => return error.remedy(),
            Self::Member { .. } => "remove it there first".into(),
            Self::MacTaken { .. } => "give it to one of them".into(),
            Self::NoSnooping { .. } => "turn on dhcp_snooping there".into(),
            Self::Full { .. } => "flush it or give the bridge a larger capacity".into(),
            Self::OutOfRange { .. } | Self::NoStation { .. } | Self::TooLong { .. } => return None,
        })
    }
}

/// A bond was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BondError {
    /// No bond has this number.
    #[error("port {} is not a bond", .0.0)]
    NoBond(PortId),
    /// The bond has members.
    #[error("bond {} has members and was not changed", .0.0)]
    HasMembers(PortId),
    /// The port is a bond or a member of one.
    #[error("port {} is a bond, or a member of one already", .0.0)]
    Member(PortId),
}

impl Remedy for BondError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::NoBond(_) => None,
            Self::HasMembers(_) | Self::Member(_) => Some("remove the members first".into()),
        }
    }
}

/// A port was not removed from its bridge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemovePortError {
    /// The port is on no bridge.
    #[error("port {} belongs to no bridge; there is nothing to remove", .0.0)]
    NoMember(PortId),
}

/// A static entry was not added or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StaticError {
    /// No bridge has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownBridge),
    /// The port is not on this bridge.
    #[error("port {} is not on bridge `{bridge}`, so no address was pinned to it", port.0)]
    NoMember {
        /// Port.
        port: PortId,
        /// Bridge name.
        bridge: String,
    },
    /// The address is a group address or zero.
    #[error("{0} is a group address or zero and cannot be pinned to one port")]
    NoStation(MacAddress),
    /// The address belongs to another port.
    #[error("{mac} belongs to port {}, so it was not pinned to port {}", owner.0, port.0)]
    Reserved {
        /// Port.
        port: PortId,
        /// MAC address.
        mac: MacAddress,
        /// Port that owns the address.
        owner: PortId,
    },
    /// The port does not carry the VLAN.
    #[error("port {} does not carry VLAN {vlan}, so {mac} was not pinned to it", port.0)]
    VlanDenied {
        /// Port.
        port: PortId,
        /// MAC address.
        mac: MacAddress,
        /// VLAN ID.
        vlan: u16,
    },
    /// No VLAN is given, and the port has none for untagged frames.
    #[error("port {} has no VLAN for untagged frames, and the VLAN of {mac} is not given", port.0)]
    VlanMissing {
        /// Port.
        port: PortId,
        /// MAC address.
        mac: MacAddress,
    },
    /// The table is full.
    #[error("the table of bridge `{0}` is full")]
    Full(String),
    /// No such static entry exists.
    #[error("bridge `{bridge}` has no static entry for {mac} in VLAN {vlan}; nothing was removed")]
    Missing {
        /// Bridge name.
        bridge: String,
        /// MAC address.
        mac: MacAddress,
        /// VLAN ID; 0 for frames without one.
        vlan: u16,
    },
}

impl Remedy for StaticError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Unknown(error) => return error.remedy(),
            Self::VlanMissing { .. } => "name a VLAN".into(),
            Self::Full(..) => "flush it or give the bridge a larger capacity".into(),
            Self::NoMember { .. }
            | Self::NoStation(..)
            | Self::Reserved { .. }
            | Self::VlanDenied { .. }
            | Self::Missing { .. } => return None,
        })
    }
}

/// A station was not removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoveStationError {
    /// No bridge has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownBridge),
    /// The station is not known.
    #[error("bridge `{bridge}` does not know {mac} in VLAN {vlan}; nothing was removed")]
    Missing {
        /// Bridge name.
        bridge: String,
        /// MAC address.
        mac: MacAddress,
        /// VLAN ID; 0 for frames without one.
        vlan: u16,
    },
}

impl Remedy for RemoveStationError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Unknown(error) => error.remedy(),
            Self::Missing { .. } => None,
        }
    }
}
