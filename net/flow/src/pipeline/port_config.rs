//! What controllers allow ports to do.

use super::directory::{Place, View};
use super::switch::FlowSwitch;
use crate::modify::PortNo;
use port::{DropReason, PortId};
use std::collections::BTreeMap;

/// Settings of a port by a controller (OpenFlow 1.3.5, 7.2.1, `ofp_port_config`, and `OFPPC_NO_FLOOD` of OpenFlow 1.0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "bits of the protocol, which are independent")]
pub struct PortConfig {
    /// Administratively down: neither receives nor sends, and is not live for groups.
    pub is_down: bool,
    /// Received packets are dropped.
    pub drops_received: bool,
    /// Packets to it are dropped.
    pub drops_sent: bool,
    /// Packets from it that no flow selects, or the table-miss flow, are not sent to controllers.
    pub misses_silently: bool,
    /// Gets no flooded packets.
    pub is_not_flooded: bool,
}

impl PortConfig {
    /// Whether received packets are processed.
    pub(super) fn receives(self) -> bool {
        !self.is_down && !self.drops_received
    }

    /// Whether packets leave by the port.
    pub(super) fn sends(self) -> bool {
        !self.is_down && !self.drops_sent
    }
}

impl View {
    /// The place of a port by which packets can leave.
    pub(super) fn output(&self, port: PortNo) -> Result<&Place, DropReason> {
        let place = self.ports.get(&port).ok_or(DropReason::NoDestination)?;
        if place.config.sends() { Ok(place) } else { Err(DropReason::PortBlocked) }
    }
}

impl FlowSwitch {
    /// Sets what a port may do.
    pub fn configure_port(&self, port: PortId, config: PortConfig) {
        self.update(port, |place| place.config = config);
    }

    /// What the ports of a bridge may do, without those that may do everything.
    pub fn port_configs(&self, bridge: &str) -> BTreeMap<PortNo, PortConfig> {
        let directory = self.published.current();
        let ports = directory.named(bridge).into_iter().flat_map(|(_, view)| &view.ports);
        let configs = ports.map(|(number, place)| (*number, place.config));
        configs.filter(|(_, config)| *config != PortConfig::default()).collect()
    }

    /// The port with this number on a bridge.
    pub fn port(&self, bridge: &str, number: PortNo) -> Option<PortId> {
        let directory = self.published.current();
        directory.named(bridge)?.1.ports.get(&number).map(|place| place.port)
    }
}
