//! Table that workers read: the ports of each group.

use crate::traffic::is_always_flooded;
use std::collections::HashMap;
use std::net::IpAddr;

/// The ports of all groups of a bridge. Numbers of ports are in ascending order. Immutable: control publishes a new
/// one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Members and router ports, by VLAN and group.
    pub(crate) groups: HashMap<(u16, IpAddr), Box<[u16]>>,
    /// Router ports, by VLAN; of other VLANs: `always`.
    pub(crate) routers: HashMap<u16, Box<[u16]>>,
    pub(crate) always: Box<[u16]>,
    pub(crate) flood_unregistered: bool,
}

impl Default for Table {
    /// Without groups; everything is flooded.
    fn default() -> Self {
        Self {
            groups: HashMap::new(),
            routers: HashMap::new(),
            always: Box::default(),
            flood_unregistered: true,
        }
    }
}

/// The ports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receivers<'a> {
    /// All ports.
    All,
    /// These ports.
    Ports(&'a [u16]),
}

impl Table {
    /// The ports of a packet to `group` in `vlan`.
    pub fn receivers(&self, vlan: u16, group: IpAddr) -> Receivers<'_> {
        match self.groups.get(&(vlan, group)) {
            Some(ports) => Receivers::Ports(ports),
            None if self.flood_unregistered || is_always_flooded(group) => Receivers::All,
            None => Receivers::Ports(self.routers(vlan)),
        }
    }

    /// The router ports of a VLAN.
    pub fn routers(&self, vlan: u16) -> &[u16] {
        self.routers.get(&vlan).unwrap_or(&self.always)
    }
}
