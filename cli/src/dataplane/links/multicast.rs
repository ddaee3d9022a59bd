//! Multicast snooping of one bridge: passes messages to its snooper, publishes its tables and sends its queries.
//!
//! A table is published every [`PAUSE`] at most: hosts determine how often memberships change.

use super::Environment;
use crate::dataplane::multicast_report::MulticastReport;
use crate::settings::links::address_of;
use crate::settings::topology::{BridgeSettings, PortSettings};
use crate::settings::vlan::Vlan;
use bridge::VlanPort;
use port::PortId;
use snooping::{PortConfig, Query, Snooper};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;
use wire::{Ethernet, VlanId};

/// Time between two tables.
const PAUSE: Duration = Duration::from_millis(10);
/// Length of the addresses before a tag.
const ADDRESSES: usize = 12;

pub(super) struct Multicast {
    name: String,
    snooper: Snooper,
    /// When the next table may be published.
    next: Duration,
}

impl Multicast {
    /// Snooping of a bridge; `None` if it has none.
    pub(super) fn new(switch: &str, bridge: &BridgeSettings) -> Option<Self> {
        let config = bridge.multicast.as_ref()?.config();
        let snooper = Snooper::new(config, address_of(switch, &bridge.name));
        Some(Self { name: bridge.name.clone(), snooper, next: Duration::ZERO })
    }

    pub(super) fn add_port(&mut self, port: PortId, settings: &PortSettings, now: Duration) {
        let untagged = match &settings.policy.vlan {
            None => Some(0),
            Some(Vlan::Access(vlan)) => Some(*vlan),
            Some(Vlan::Trunk { native, .. }) => *native,
        };
        let keys = settings.links.multicast;
        let config = PortConfig { router: keys.router(), fast_leave: keys.fast_leave, untagged };
        self.snooper.add_port(port.0, config, now);
    }

    pub(super) fn remove_port(&mut self, port: PortId) {
        self.snooper.remove_port(port.0);
    }

    pub(super) fn set_link(&mut self, port: PortId, is_up: bool, now: Duration) {
        self.snooper.set_link(port.0, is_up, now);
    }

    pub(super) fn topology_changed(&mut self, ports: &BTreeSet<PortId>, now: Duration) {
        self.snooper.topology_changed(&ports.iter().map(|port| port.0).collect(), now);
    }

    /// Handles a frame that was received on a port or bond in a VLAN.
    pub(super) fn receive(&mut self, port: PortId, vlan: u16, frame: &[u8], now: Duration) {
        if let Ok(frame) = Ethernet::new(frame) {
            self.snooper.receive(port.0, vlan, frame.inner_ethertype(), frame.payload(), now);
        }
    }

    /// Runs the timers, publishes and sends. Returns the time of the next call; `None` if no timer runs.
    pub(super) fn tick(&mut self, now: Duration, environment: &Environment) -> Option<Duration> {
        let next = self.snooper.tick(now);
        for query in self.snooper.take_queries() {
            self.send(&query, environment);
        }
        if !self.snooper.is_changed() {
            return next;
        }
        if now < self.next {
            return Some(next.map_or(self.next, |next| next.min(self.next)));
        }
        if let Some(table) = self.snooper.take_table() {
            // The bridge exists as long as the switch.
            let _ = environment.switch.set_groups(&self.name, table);
            self.next = now + PAUSE;
        }
        next
    }

    fn send(&self, query: &Query, environment: &Environment) {
        let vlan_ports = environment.switch.vlan_ports(&self.name, query.vlan).unwrap_or_default();
        let is_wanted = |vlan_port: &&VlanPort| query.port.is_none_or(|port| port == vlan_port.port.0);
        for vlan_port in vlan_ports.iter().filter(is_wanted) {
            let tag = VlanId::new(query.vlan).filter(|_| vlan_port.is_tagged);
            environment.send(vlan_port.sender, tagged(&query.frame, tag));
        }
    }

    /// Removes memberships of a VLAN or port, or all. Returns their number.
    pub(super) fn flush(&mut self, vlan: Option<u16>, port: Option<PortId>) -> usize {
        let is_of = |own: u16, _: IpAddr, at: u16| {
            vlan.is_none_or(|vlan| vlan == own) && port.is_none_or(|port| port.0 == at)
        };
        self.snooper.flush(is_of)
    }

    /// State of the bridge; `names` has the names of ports.
    pub(super) fn report(&self, names: &BTreeMap<u16, String>, now: Duration) -> MulticastReport {
        MulticastReport::of(&self.name, &self.snooper, names, now)
    }
}

/// The frame with a tag.
fn tagged(frame: &[u8], vlan: Option<VlanId>) -> Box<[u8]> {
    let Some((addresses, rest)) = frame.split_at_checked(ADDRESSES) else { return frame.into() };
    match vlan {
        Some(vlan) => [addresses, &wire::Tag(vlan.get()).header(), rest].concat().into(),
        None => frame.into(),
    }
}
