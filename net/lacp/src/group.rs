//! The ports of one aggregation and its selection logic (6.4.14).
//!
//! There is one aggregation: the ports that lead to the partner of the preferred port. A port that distributes is
//! preferred, then one with a synchronized partner, then one with the better priority. Ports with another partner, with
//! none, or that lead back to this system are not selected.

use crate::pdu::{Endpoint, Pdu, State};
use crate::port::Port;
use std::collections::BTreeMap;
use wire::MacAddress;

/// Settings of an aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// Whether LACPDUs are sent without a partner that asks for them.
    pub is_active: bool,
    /// Whether the partner is asked to send every second instead of every 30 seconds.
    pub is_fast: bool,
    /// Priority of this system; the system with the lower number chooses between ports.
    pub system_priority: u16,
    /// Address of this system.
    pub system: MacAddress,
    /// Key of this aggregation in this system.
    pub key: u16,
}

impl GroupConfig {
    /// This end of the link of a port that has received nothing yet.
    fn actor(&self, port: u16, port_priority: u16) -> Endpoint {
        let state = State::AGGREGATION.with(State::DEFAULTED, true);
        let state = state.with(State::ACTIVITY, self.is_active).with(State::SHORT_TIMEOUT, self.is_fast);
        let GroupConfig { system_priority, system, key, .. } = *self;
        Endpoint { system_priority, system, key, port_priority, port, state }
    }
}

/// An aggregation with its ports, by number.
#[derive(Clone, Debug)]
pub struct Group {
    config: GroupConfig,
    ports: BTreeMap<u16, Port>,
}

impl Group {
    /// An aggregation without ports.
    pub fn new(config: GroupConfig) -> Self {
        Self { config, ports: BTreeMap::new() }
    }

    /// Adds port `number`, whose link is down, or replaces it. A lower `priority` is preferred.
    pub fn add(&mut self, number: u16, priority: u16) {
        self.ports.insert(number, Port::new(self.config.actor(number, priority)));
    }

    /// Changes the settings. Ports keep their state and their partners, which learn of the change and may detach.
    pub fn configure(&mut self, config: GroupConfig) {
        self.config = config;
        self.ports.iter_mut().for_each(|(number, port)| {
            port.set_actor(config.actor(*number, port.actor().port_priority));
        });
    }

    /// Changes the priority of a port, which keeps its state.
    pub fn set_priority(&mut self, number: u16, priority: u16) {
        if let Some(port) = self.ports.get_mut(&number) {
            port.set_actor(self.config.actor(number, priority));
        }
    }

    /// Removes a port.
    pub fn remove(&mut self, number: u16) {
        self.ports.remove(&number);
    }

    /// The link of a port came up or went down.
    pub fn set_enabled(&mut self, number: u16, is_enabled: bool, now: u64) {
        if let Some(port) = self.ports.get_mut(&number) {
            port.set_enabled(is_enabled, now);
        }
    }

    /// A port received an LACPDU.
    pub fn receive(&mut self, number: u16, pdu: &Pdu, now: u64) {
        let Some(port) = self.ports.get_mut(&number) else { return };
        if port.received(pdu, now) {
            port.detach(now);
        }
    }

    /// Runs all machines. Calls `send` for each LACPDU that has to be sent, with the number of its port. Must be called
    /// after each event and at each deadline.
    pub fn run(&mut self, now: u64, mut send: impl FnMut(u16, &Pdu)) {
        self.ports.values_mut().for_each(|port| port.check_partner(now));
        self.select();
        for (number, port) in &mut self.ports {
            port.run_mux(now);
            if port.transmit(now) {
                send(*number, &port.pdu());
            }
        }
    }

    /// When [`Group::run`] has to be called next, without events; `None` if no timer runs.
    pub fn deadline(&self, now: u64) -> Option<u64> {
        self.ports.values().filter_map(|port| port.deadline(now)).min()
    }

    /// A port.
    pub fn port(&self, number: u16) -> Option<&Port> {
        self.ports.get(&number)
    }

    /// Whether a port has a partner, so that this aggregation is negotiated.
    pub fn is_negotiated(&self) -> bool {
        self.ports.values().any(|port| self.may_select(port))
    }

    /// Settings.
    pub fn config(&self) -> &GroupConfig {
        &self.config
    }

    fn may_select(&self, port: &Port) -> bool {
        port.has_partner() && port.partner().system != self.config.system
    }

    fn select(&mut self) {
        let candidates = self.ports.iter().filter(|(_, port)| self.may_select(port));
        let preferred = candidates.min_by_key(|(_, port)| {
            let in_sync = port.partner().state.has(State::SYNCHRONIZATION);
            (!port.is_distributing(), !in_sync, preference(port))
        });
        let lead = preferred.map(|(number, port)| (*number, *port.partner()));
        let own = self.config.system;
        for (number, port) in &mut self.ports {
            let fits = lead.is_some_and(|(leader, partner)| {
                *number == leader || port.partner().system != own && are_aggregated(&partner, port.partner())
            });
            port.set_selected(fits && port.has_partner());
        }
    }
}

/// Order of ports: by the numbers of the system with the better priority (6.4.14.1 d).
fn preference(port: &Port) -> (u16, MacAddress, u16, u16) {
    let order = |end: &Endpoint| (end.system_priority, end.system, end.port_priority, end.port);
    order(port.actor()).min(order(port.partner()))
}

/// Whether two partners are ports of one aggregation.
fn are_aggregated(one: &Endpoint, other: &Endpoint) -> bool {
    let identity = |end: &Endpoint| (end.system_priority, end.system, end.key);
    let can = |end: &Endpoint| end.state.has(State::AGGREGATION);
    identity(one) == identity(other) && can(one) && can(other)
}
