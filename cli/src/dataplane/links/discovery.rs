//! LLDP of all ports that have it: what they tell, and their neighbours.

use super::Environment;
use crate::dataplane::link_report::{LldpPortReport, NeighborReport, NeighborsReport};
use crate::settings::links::address_of;
use crate::settings::topology::{PortSettings, SwitchSettings};
use crate::settings::vlan::Vlan;
use lldp::{Agent, Capabilities, Id, Lldpdu};
use port::PortId;
use std::collections::BTreeMap;
use std::time::Duration;

/// VLANs that a frame names.
const MAX_VLANS: usize = 32;

pub(super) struct Discovery {
    agent: Agent,
    /// Information that all ports send.
    system: Lldpdu,
    /// Names of the ports, by number.
    names: BTreeMap<u16, String>,
}

impl Discovery {
    pub(super) fn new(switch: &SwitchSettings) -> Self {
        let address = address_of(&switch.name, "");
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
        let is = Capabilities::BRIDGE;
        let system = Lldpdu {
            chassis: Id::chassis(address),
            system_name: name.ok().map(|name| name.trim().to_owned()),
            system_description: Some(format!("linerate {} ({})", env!("CARGO_PKG_VERSION"), switch.name)),
            capabilities: Some(Capabilities { supported: is, enabled: is }),
            management: switch.management_addresses.clone(),
            ..Lldpdu::default()
        };
        Self { agent: Agent::new(address), system, names: BTreeMap::new() }
    }

    pub(super) fn add_port(&mut self, port: PortId, settings: &PortSettings) {
        let (port_vlan, vlans) = vlans(settings.policy.vlan.as_ref());
        let own = Lldpdu {
            port: Id::interface(&settings.name),
            port_description: Some(format!("{} of bridge {}", settings.kind.name(), settings.bridge)),
            port_vlan,
            vlans,
            ..self.system.clone()
        };
        self.agent.add_port(port.0, own);
        self.names.insert(port.0, settings.name.clone());
    }

    /// Removes a port, which cannot send any more.
    pub(super) fn remove_port(&mut self, port: PortId) {
        self.agent.remove_port(port.0);
        self.names.remove(&port.0);
        // The number may belong to another port soon.
        self.agent.take_frames();
    }

    /// Tells all neighbours that the ports stop.
    pub(super) fn leave(&mut self, environment: &Environment) {
        for port in std::mem::take(&mut self.names).into_keys() {
            self.agent.remove_port(port);
        }
        self.send(environment);
    }

    pub(super) fn set_link(&mut self, port: PortId, is_up: bool, now: Duration) {
        self.agent.set_link(port.0, is_up, now);
    }

    pub(super) fn receive(&mut self, port: PortId, frame: &[u8], now: Duration) {
        if frame.starts_with(&lldp::GROUP.octets()) {
            self.agent.receive(port.0, frame, now);
        }
    }

    /// Runs the timers and sends what is due. Returns the time of the next call; `None` if no timer runs.
    pub(super) fn tick(&mut self, now: Duration, environment: &Environment) -> Option<Duration> {
        let next = self.agent.tick(now);
        self.send(environment);
        next
    }

    fn send(&mut self, environment: &Environment) {
        for (port, frame) in self.agent.take_frames() {
            environment.send(PortId(port), frame);
        }
    }

    pub(super) fn report(&self, now: Duration) -> NeighborsReport {
        let name = |port: u16| self.names.get(&port).map_or("", String::as_str);
        let known = self.agent.neighbors().map(|(port, known)| NeighborReport::of(name(port), known, now));
        let counts =
            |(port, name): (&u16, &String)| Some(LldpPortReport::of(name, self.agent.counts(*port)?));
        NeighborsReport { neighbors: known.collect(), ports: self.names.iter().filter_map(counts).collect() }
    }
}

/// VLAN of untagged frames, and names of the first VLANs of a port.
fn vlans(vlan: Option<&Vlan>) -> (Option<u16>, Vec<lldp::Vlan>) {
    let (untagged, all) = match vlan {
        None => return (None, Vec::new()),
        Some(Vlan::Access(vlan)) => (*vlan, vec![*vlan]),
        Some(Vlan::Trunk { trunk, native }) => (native.unwrap_or(0), trunk.clone()),
    };
    let named = |id: u16| lldp::Vlan { id, name: format!("VLAN {id}") };
    (Some(untagged), all.into_iter().take(MAX_VLANS).map(named).collect())
}
