//! Control API of multicast groups.

use super::Switch;
use crate::config::Vlan;
use crate::error::UnknownBridge;
use crate::ports::PortTable;
use crate::vlan::{Form, NO_VLAN};
use port::PortId;
use snooping::Table;
use std::sync::Arc;
use wire::{EtherType, Ethernet};

impl Switch {
    /// Sets the ports of multicast groups. Workers apply the change from their next burst on. Has no effect on a bridge
    /// without [`crate::BridgeConfig::multicast_snooping`].
    ///
    /// # Errors
    /// If no bridge has this name.
    pub fn set_groups(&self, bridge: &str, table: Table) -> Result<(), UnknownBridge> {
        if let Some(groups) = &self.bridge(bridge)?.groups {
            groups.publish(Arc::new(table));
        }
        Ok(())
    }

    /// The ports of a bridge that send packets of a VLAN, 0 for none: each with whether they send them tagged. A bond
    /// is represented by a member.
    ///
    /// # Errors
    /// If no bridge has this name.
    pub fn vlan_ports(&self, bridge: &str, vlan: u16) -> Result<Vec<VlanPort>, UnknownBridge> {
        let table = self.published.current();
        let (_, view) = table.named(bridge).ok_or_else(|| UnknownBridge(bridge.to_owned()))?;
        let vlan_port = |port: &PortId| {
            let mode = &table.member(*port)?.vlan;
            let is_tagged = view.vlan_aware && mode.tags(vlan);
            let bond = view.bonds.iter().find(|bond| bond.port == *port);
            let sender = bond.map_or(Some(*port), |bond| bond.member(0))?;
            carries(mode, view.vlan_aware, vlan).then_some(VlanPort { port: *port, sender, is_tagged })
        };
        Ok(view.flooded.iter().filter_map(vlan_port).collect())
    }
}

/// A port that sends packets of a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanPort {
    /// The port or bond.
    pub port: PortId,
    /// The port, or a member of the bond.
    pub sender: PortId,
    /// Whether packets are tagged.
    pub is_tagged: bool,
}

fn carries(mode: &Vlan, is_aware: bool, vlan: u16) -> bool {
    if is_aware { mode.carries(vlan) } else { vlan == NO_VLAN }
}

/// Port or bond and VLAN of a frame that was punted for snooping, by the port that received it. `None` for a frame of
/// another protocol.
pub(super) fn home(table: &PortTable, from: PortId, frame: &[u8]) -> Option<(PortId, u16)> {
    let port = table.link(from).map_or(from, |link| link.bond);
    let member = table.member(port)?;
    let view = table.view(member.bridge).filter(|view| view.bridge.groups.is_some())?;
    let frame = Ethernet::new(frame).ok()?;
    if !matches!(frame.inner_ethertype(), EtherType::IPV4 | EtherType::IPV6) {
        return None;
    }
    let vlan = if view.vlan_aware { Form::of(&frame, &member.vlan).ok()?.vlan() } else { NO_VLAN };
    Some((port, vlan))
}
