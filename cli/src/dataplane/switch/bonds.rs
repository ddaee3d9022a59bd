//! Bonds of a running switch: their numbers and their members. `links` runs their timers.

use super::super::bond_report::{BondState, BucketState, LacpEnd, LacpStatus, MemberLacp, MemberState};
use super::super::controllers::LivePorts;
use super::super::convert::{bond_config, member_config};
use super::super::interface::DataPlaneError;
use super::super::offload::Offload;
use super::{Switch, not_running, speed};
use crate::settings::bonds::BondSettings;
use crate::settings::topology::PortSettings;
use bridge::{BondStatistics, MemberConfig, MemberStatistics};
use engine::{Engine, PortSnapshot};
use lacp::{Endpoint, Mux, Receive, State};
use port::{PortId, Remedy};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A bond that runs.
pub(super) struct Handle {
    id: PortId,
    settings: BondSettings,
}

/// All bonds of a switch.
#[derive(Clone, Default)]
pub(super) struct Bonds {
    handles: Arc<Mutex<BTreeMap<String, Handle>>>,
}

impl Bonds {
    /// A poisoned lock is valid: each entry changes in one step.
    fn handles(&self) -> MutexGuard<'_, BTreeMap<String, Handle>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers of the bonds.
    pub(super) fn names(&self) -> BTreeMap<u16, String> {
        self.handles().iter().map(|(name, handle)| (handle.id.0, name.clone())).collect()
    }

    /// Numbers and names of the bonds of a bridge.
    pub(super) fn on(&self, bridge: &str) -> Vec<(PortId, String)> {
        let handles = self.handles();
        let own = handles.iter().filter(|(_, handle)| handle.settings.bridge == bridge);
        own.map(|(name, handle)| (handle.id, name.clone())).collect()
    }

    /// Numbers of the bonds of a bridge, and their settings as its ports.
    pub(super) fn as_ports(&self, bridge: &str) -> Vec<(PortId, PortSettings)> {
        let handles = self.handles();
        let own = handles.values().filter(|handle| handle.settings.bridge == bridge);
        own.map(|handle| (handle.id, PortSettings::of_bond(&handle.settings))).collect()
    }

    /// Number and bridge of the bond `name`.
    pub(super) fn find(&self, name: &str) -> Option<(PortId, String)> {
        self.handles().get(name).map(|handle| (handle.id, handle.settings.bridge.clone()))
    }

    /// Number of the bond of which the port `port` is a member, and its configuration there.
    pub(super) fn of_member(&self, port: &str) -> Option<(PortId, MemberConfig)> {
        let handles = self.handles();
        let own = handles.values().find(|handle| handle.settings.ports.iter().any(|name| name == port))?;
        Some((own.id, member_config(&own.settings, port)))
    }

    /// Reads the ports of the engine, and bonds as ports, with the sums of their members.
    pub(super) fn live_ports(
        &self,
        engine: &Arc<Engine>,
        bridges: &Arc<bridge::Switch>,
        offload: &Arc<Offload>,
    ) -> LivePorts {
        let (bonds, engine, bridges) = (self.clone(), engine.clone(), bridges.clone());
        let offload = offload.clone();
        Arc::new(move || {
            let (mut ports, names) = (engine.snapshot().ports, bonds.names());
            offload.complete_ports(&mut ports);
            let states = if names.is_empty() { Vec::new() } else { bridges.bonds(engine.now()) };
            let bond = |state: &BondStatistics| Some(as_port(names.get(&state.port)?, state, &ports));
            let bonds: Vec<_> = states.iter().filter_map(bond).collect();
            ports.extend(bonds);
            ports
        })
    }

    /// A port is removed.
    pub(super) fn forget(&self, port: &str) {
        self.handles().values_mut().for_each(|handle| handle.settings.ports.retain(|name| name != port));
    }
}

impl Switch {
    /// Adds a bond to its bridge. Its members join when they are added, or with [`Switch::join_members`].
    pub(super) fn create_bond(
        &self,
        bond: &BondSettings,
        ports: &[PortSettings],
    ) -> Result<(), DataPlaneError> {
        let id = self.engine.reserve(&bond.name).map_err(|e| refused(&bond.name, &e))?;
        self.captures.add_port(id, &bond.name);
        let own = PortSettings::of_bond(bond);
        let added = self.bridges.add_bond(id, &bond.bridge, &self.config_of(&own), bond_config(bond, id));
        let added = added.map_err(|e| refused(&bond.name, &e)).and_then(|()| {
            let failed = |e: std::io::Error| DataPlaneError::Refused(no_thread(&bond.name, &e));
            let members = ports.iter().filter(|port| bond.ports.contains(&port.name));
            let speed = members.filter_map(speed).reduce(u64::saturating_add);
            self.links.start().map_err(failed)?;
            self.links.add_port(id, &own, bond.links.config(speed)).map_err(failed)?;
            self.add_to_tables(id, &own)
        });
        if added.is_err() {
            self.links.remove_port(id);
            let _ = self.bridges.remove_bond(id);
            let _ = self.engine.remove_port(id);
            return added;
        }
        self.bonds.handles().insert(bond.name.clone(), Handle { id, settings: bond.clone() });
        Ok(())
    }

    /// Adds a port or bond to the flow tables of its bridge, if it has some.
    fn add_to_tables(&self, id: PortId, port: &PortSettings) -> Result<(), DataPlaneError> {
        let added = self.flows.as_ref().map_or(Ok(()), |flows| flows.add_port(id, &port.bridge, &port.name));
        added.map_err(|e| refused(&port.name, &e))
    }

    /// Makes running ports members of their bond, except those of `before`.
    fn join_members(&self, bond: &BondSettings, before: &[String]) -> Result<(), DataPlaneError> {
        let Some((id, _)) = self.bonds.find(&bond.name) else { return Err(not_running(&bond.name)) };
        bond.ports.iter().filter(|name| !before.contains(name)).try_for_each(|name| {
            let port = self.number(name).ok_or_else(|| not_running(name))?;
            // The bond is in the spanning tree and in flow tables in its place.
            self.links.remove_port(port);
            self.flows.iter().for_each(|flows| flows.remove_port(port));
            let joined = self.bridges.join_bond(port, id, member_config(bond, name), self.engine.now());
            joined.map_err(|e| refused(&bond.name, &e))
        })
    }

    /// Returns those of the ports that are members of a bond to its bridge.
    fn release_members<'a>(&self, bond: PortId, ports: impl Iterator<Item = &'a PortSettings>) {
        let state = self.bridges.bonds(self.engine.now()).into_iter().find(|state| state.port == bond.0);
        let members: Vec<_> = state.iter().flat_map(|state| &state.members).map(|own| own.port).collect();
        for port in ports {
            let Some(id) = self.number(&port.name).filter(|id| members.contains(&id.0)) else { continue };
            if self.bridges.leave_bond(id, self.engine.now()).is_ok() {
                // The port was on this bridge with this configuration before, and the thread runs.
                let _ = self.bridges.add_port(id, &port.bridge, &self.config_of(port));
                let _ = self.join_links(id, port);
                let _ = self.add_to_tables(id, port);
                self.bridges.repeat_link(id, |is_up| {
                    self.flows.iter().for_each(|flows| flows.set_live(id, is_up));
                });
            }
        }
    }

    pub(super) fn add_running_bond(
        &self,
        bond: &BondSettings,
        ports: &[PortSettings],
    ) -> Result<(), DataPlaneError> {
        self.create_bond(bond, ports)?;
        let joined = self.join_members(bond, &[]).and_then(|()| self.renew_mirrors());
        joined.inspect_err(|_| {
            // The first error has the cause.
            let _ = self.remove_running_bond(&bond.name, ports);
        })
    }

    /// Mirrors name bonds as well.
    fn renew_mirrors(&self) -> Result<(), DataPlaneError> {
        self.apply_mirrors(&self.members())
    }

    pub(super) fn remove_running_bond(
        &self,
        name: &str,
        ports: &[PortSettings],
    ) -> Result<(), DataPlaneError> {
        let Handle { id, settings } = self.bonds.handles().remove(name).ok_or_else(|| not_running(name))?;
        self.release_members(id, ports.iter().filter(|port| settings.ports.contains(&port.name)));
        self.links.remove_port(id);
        self.flows.iter().for_each(|flows| flows.remove_port(id));
        self.bridges.remove_bond(id).map_err(|e| refused(name, &e))?;
        // No port of the engine had the number, which is free from now on.
        let _ = self.engine.remove_port(id);
        self.renew_mirrors()
    }

    /// Replaces the settings of a bond, except name, bridge and those that ports have as well. New members join first,
    /// so that the bond has always one that carries packets. After an error, the bond is as before.
    pub(super) fn change_bond(
        &self,
        bond: &BondSettings,
        ports: &[PortSettings],
    ) -> Result<(), DataPlaneError> {
        let before = match self.bonds.handles().get_mut(&bond.name) {
            Some(handle) => std::mem::replace(&mut handle.settings, bond.clone()),
            None => return Err(not_running(&bond.name)),
        };
        let Some((id, _)) = self.bonds.find(&bond.name) else { return Err(not_running(&bond.name)) };
        let only_in = |one: &BondSettings, other: &BondSettings| {
            let found = ports.iter().filter(|port| one.ports.contains(&port.name));
            found.filter(|port| !other.ports.contains(&port.name)).cloned().collect::<Vec<_>>()
        };
        let joined = self.join_members(bond, &before.ports);
        if let Err(error) = joined.and_then(|()| self.set_members(bond, id)) {
            self.release_members(id, only_in(bond, &before).iter());
            self.bonds.handles().entry(bond.name.clone()).and_modify(|handle| handle.settings = before);
            return Err(error);
        }
        self.release_members(id, only_in(&before, bond).iter());
        Ok(())
    }

    /// Changes the configuration of a bond and its members.
    fn set_members(&self, bond: &BondSettings, id: PortId) -> Result<(), DataPlaneError> {
        let member = |name: &String| Some((self.number(name)?, member_config(bond, name)));
        let members: Vec<_> = bond.ports.iter().filter_map(member).collect();
        let set = self.bridges.set_bond(id, bond_config(bond, id), &members, self.engine.now());
        set.map_err(|e| refused(&bond.name, &e))
    }

    /// Number of a running port.
    pub(super) fn number(&self, name: &str) -> Option<PortId> {
        self.members().iter().find(|member| member.name == name).map(|member| member.id)
    }

    /// States of all bonds, by name.
    pub(super) fn bond_states(&self) -> BTreeMap<String, BondState> {
        let (bonds, ports) = (self.bonds.names(), self.names());
        let states = self.bridges.bonds(self.engine.now());
        let state =
            |state: BondStatistics| Some((bonds.get(&state.port)?.clone(), bond_state(&state, &ports)));
        states.into_iter().filter_map(state).collect()
    }
}

/// A bond as a port.
fn as_port(name: &str, state: &BondStatistics, ports: &[PortSnapshot]) -> PortSnapshot {
    let is_up = state.members.iter().any(|member| member.is_active);
    let mut bond = PortSnapshot {
        id: state.port,
        name: name.to_owned(),
        state: if is_up { "connected" } else { "waiting" }.to_owned(),
        ..PortSnapshot::default()
    };
    for member in &state.members {
        let Some(port) = ports.iter().find(|port| port.id == member.port) else { continue };
        bond.rx_packets += port.rx_packets;
        bond.rx_bytes += port.rx_bytes;
        bond.tx_packets += port.tx_packets;
        bond.tx_bytes += port.tx_bytes;
        for (reason, packets) in &port.drops {
            *bond.drops.entry(reason.clone()).or_default() += packets;
        }
    }
    bond
}

fn refused(bond: &str, error: &dyn Remedy) -> DataPlaneError {
    DataPlaneError::refused(format!("bond \"{bond}\""), error, "correct the bond, or remove another port")
}

fn no_thread(bond: &str, error: &std::io::Error) -> console::Diagnostic {
    let reason = format!("cannot start a thread: {error}");
    console::Diagnostic::failed(format!("bond \"{bond}\""), reason, "raise the limit on threads")
}

fn bond_state(state: &BondStatistics, names: &BTreeMap<u16, String>) -> BondState {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let name = |port: u16| names.get(&port).cloned().unwrap_or_default();
    let member = |member: &MemberStatistics| MemberState {
        port: name(member.port),
        up: member.is_up,
        enabled: member.is_enabled,
        changes_in: member.changes_in.map(seconds),
        buckets: member.buckets,
        load: member.load,
        lacp: member.lacp.map(|lacp| MemberLacp {
            receive: receive_name(lacp.receive).to_owned(),
            mux: mux_name(lacp.mux).to_owned(),
            actor: end(&lacp.actor),
            partner: end(&lacp.partner),
            received: lacp.counts.received,
            sent: lacp.counts.sent,
        }),
    };
    BondState {
        lacp: match state.lacp {
            bridge::LacpStatus::Off => LacpStatus::Off,
            bridge::LacpStatus::Configured => LacpStatus::Configured,
            bridge::LacpStatus::Negotiated => LacpStatus::Negotiated,
        },
        active: state.members.iter().find(|member| member.is_active).map(|member| name(member.port)),
        members: state.members.iter().map(member).collect(),
        buckets: state
            .buckets
            .iter()
            .map(|b| BucketState { bucket: b.bucket, port: b.port.map(name), load: b.load })
            .collect(),
        rebalance_in: state.rebalance_in.map(seconds),
        moves: state.moves,
    }
}

fn receive_name(state: Receive) -> &'static str {
    match state {
        Receive::Disabled => "disabled",
        Receive::Expired => "expired",
        Receive::Defaulted => "defaulted",
        Receive::Current => "current",
    }
}

fn mux_name(state: Mux) -> &'static str {
    match state {
        Mux::Detached => "detached",
        Mux::Waiting(_) => "waiting",
        Mux::Attached => "attached",
        Mux::Distributing => "distributing",
    }
}

fn end(end: &Endpoint) -> LacpEnd {
    let states = State::NAMES.iter().filter(|(state, _)| end.state.has(*state));
    LacpEnd {
        system: end.system,
        system_priority: end.system_priority,
        key: end.key,
        port: end.port,
        port_priority: end.port_priority,
        state: states.map(|(_, name)| (*name).to_owned()).collect(),
    }
}
