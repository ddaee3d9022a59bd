//! Data plane of a running switch: an engine and its bridges.
//!
//! Converts configuration values to values of the engine and bridge crates. A port is added to its bridge before its
//! first packet can arrive, and removed from the engine before it is removed from its bridge.

mod bonds;
mod mirrors;

use super::bond_report::BondState;
use super::connections::{ConnectionFilter, ConnectionLimits, ConnectionReport};
use super::convert::{bridge_config, port_config, rebalancing, rss, worker_config};
use super::export::Export;
use super::export_report::ExportReport;
use super::flow_report::{FlowCounts, TraceReport, TraceRequest};
use super::flows::{Flows, Names, unknown};
use super::interface::{DataPlane, DataPlaneError};
use super::link_report::{NeighborsReport, StpPortReport};
use super::links::Links;
use super::logged::Logged;
use super::multicast_report::MulticastReport;
use super::offload::Offload;
use super::offload_report::OffloadReport;
use super::open::{deferred, load, open_in_switch};
use super::report::{
    BridgePort, BridgeReport, FdbEntry, FdbFilter, FlowEntry, FlowFilter, FlowRequest, MoveEvent, Origin,
};
use super::tunnels::TunnelEntry;
use crate::remedy;
use crate::settings::MAX_PORTS;
use crate::settings::bonds::BondSettings;
use crate::settings::conntrack::ConntrackSettings;
use crate::settings::kinds::PortKind;
use crate::settings::kinds::kind::{Loaded, OpenError};
use crate::settings::mirror::MirrorSettings;
use crate::settings::model::{Role, RssMode};
use crate::settings::multicast::RouterSetting;
use crate::settings::topology::{PortSettings, StaticEntry, Topology, WorkerSettings};
use crate::settings::wrappers::queues::Queues;
use bonds::Bonds;
use bridge::{
    BridgeStatistics, MirrorStatistics, PortConfig, PortStatistics, RefusedMove, Selection, Wrapped,
};
use console::Diagnostic;
use engine::balance::{Balance, QueueLoad};
use engine::{Engine, EngineConfig, EngineError, Now, Snapshot};
use port::{Pipelines, PortControl, PortId, Remedy};
use rustix::fd::OwnedFd;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::{MacAddress, VlanId};

/// A running engine with its bridges.
pub(crate) struct Switch {
    engine: Arc<Engine>,
    bridges: Arc<bridge::Switch>,
    /// Pipelines of the workers.
    pipelines: Wrapped,
    mirrors: Mutex<Vec<MirrorSettings>>,
    bonds: Bonds,
    /// OpenFlow bridges, if there are any.
    flows: Option<Flows>,
    links: Links,
    export: Export,
    offload: Offload,
    /// Default address limit of ports, by bridge.
    quotas: BTreeMap<String, Option<u32>>,
    /// Default distribution of ports with one queue pair.
    rss_mode: RssMode,
    members: Arc<Mutex<Vec<Member>>>,
}

/// A running port.
struct Member {
    id: PortId,
    name: String,
    bridge: String,
    /// Shaped queues of the port.
    queues: Option<Queues>,
}

impl Switch {
    /// Starts everything that `topology` describes, or nothing. A port whose socket or interface is not available is
    /// started anyway and retries; the second part of the result contains the reasons. If this is so for all ports,
    /// nothing starts.
    pub(crate) fn start(topology: &Topology) -> Result<(Self, Vec<Diagnostic>), Diagnostic> {
        let bridges = Arc::new(bridge::Switch::with_rss(MAX_PORTS, rss(topology.switch.rss)));
        for bridge in &topology.bridges {
            let place = format!("bridge \"{}\"", bridge.name);
            let added = bridges.add_bridge(&bridge.name, bridge_config(bridge));
            added.map_err(|e| Diagnostic::failed(place, e, "correct this [[bridge]] section"))?;
        }
        let workers = topology.workers.iter().map(worker_config).collect();
        let model = topology.model.engine(topology.workers.iter().map(|worker| worker.roles));
        let flows = Flows::new(topology, bridges.clone())?;
        flows.iter().try_for_each(|flows| flows.load(topology))?;
        let normal = || -> Arc<dyn Pipelines> { bridges.clone() };
        let export = Export::new(topology);
        let inner = export.sampled(flows.as_ref().map_or_else(normal, Flows::pipelines));
        let pipelines = bridges.wrap(inner);
        let engine = Engine::start_as(
            EngineConfig { workers, max_ports: MAX_PORTS, rss: rss(topology.switch.rss) },
            model,
            &pipelines,
        );
        let default = "correct the worker sections, or raise the limits on threads and descriptors";
        let engine = engine.map_err(|e| remedy::failed("workers", &e, default))?;
        if let Some(flows) = &flows {
            flows.connect(engine.injector());
        }
        let engine = Arc::new(engine);
        let injector = engine.injector();
        bridges.connect_bonds(move |port, frame, stage| injector.inject_at(port, frame, stage));
        let quotas = topology.bridges.iter().map(|bridge| (bridge.name.clone(), bridge.max_macs_per_port));
        let rss_mode = topology.model.rss_mode;
        let switch = flows.as_ref().map(Flows::switch);
        let links = Links::new(topology, (bridges.clone(), switch), engine.clone());
        let members = Arc::default();
        let clock = engine.clone();
        let offload = Offload::new(bridges.clone(), move || clock.now());
        let mirrors = Mutex::new(topology.mirrors.clone());
        let (bonds, quotas) = (Bonds::default(), quotas.collect());
        let mut switch = Self {
            engine,
            bridges,
            pipelines,
            mirrors,
            bonds,
            flows,
            links,
            export,
            offload,
            quotas,
            rss_mode,
            members,
        };
        switch.place(topology)?;
        let deferred = switch.populate(topology)?;
        switch.start_controllers(topology)?;
        switch.start_export()?;
        Ok((switch, deferred))
    }

    /// Connects OpenFlow bridges to their controllers.
    fn start_controllers(&mut self, topology: &Topology) -> Result<(), Diagnostic> {
        let live = self.bonds.live_ports(&self.engine, &self.bridges);
        let Some(flows) = &mut self.flows else { return Ok(()) };
        flows.set_underlay(topology)?;
        let members = self.members.clone();
        let queues = move |id| {
            let members = members.lock().unwrap_or_else(PoisonError::into_inner);
            let port = members.iter().find(|member| member.id == id);
            port.and_then(|port| port.queues.as_ref()).map_or_else(Vec::new, Queues::live)
        };
        flows.start_controllers(&topology.bridges, live, Arc::new(queues))
    }

    /// Sends samples and counters to collectors.
    fn start_export(&self) -> Result<(), Diagnostic> {
        let engine = self.engine.clone();
        let started = self.export.start(Arc::new(move || engine.snapshot().ports));
        started.map_err(|e| Diagnostic::failed("export", e, "raise the limits on threads"))
    }

    /// Configures queue affinity and load balancing in the engine.
    fn place(&self, topology: &Topology) -> Result<(), Diagnostic> {
        let Some(placement) = &topology.placement else { return Ok(()) };
        let is_port = |name: &str| topology.ports.iter().any(|port| port.name == name);
        let (place, default) = ("placement", "correct the [placement] section");
        let failed = |e| remedy::failed(place, &e, default);
        let affinity = placement.affinity(topology.takers(), is_port);
        let affinity = affinity.map_err(|e| Diagnostic::failed(place, e, default))?;
        self.engine.set_queue_affinity(affinity).map_err(failed)?;
        self.engine.watch_load(rebalancing(placement)).map_err(failed)
    }

    fn populate(&self, topology: &Topology) -> Result<Vec<Diagnostic>, Diagnostic> {
        let opened: Vec<_> = topology.ports.iter().map(|port| (port, open_first(port))).collect();
        let errors: Vec<_> = opened.iter().filter_map(|(_, opened)| opened.as_ref().err().cloned()).collect();
        if !opened.is_empty() && errors.len() == opened.len() {
            return Err(Diagnostic::all(errors));
        }
        for bond in &topology.bonds {
            self.create_bond(bond, &topology.ports).map_err(DataPlaneError::into_diagnostic)?;
        }
        for (port, opened) in opened {
            let control = opened.unwrap_or_else(|error| deferred(port, &error));
            self.join(port, control).map_err(DataPlaneError::into_diagnostic)?;
        }
        for entry in topology.bridges.iter().flat_map(|bridge| &bridge.statics) {
            self.pin(entry).map_err(DataPlaneError::into_diagnostic)?;
        }
        Ok(errors)
    }

    /// Adds a created port to its bridge.
    fn join(&self, port: &PortSettings, control: Box<dyn PortControl>) -> Result<(), DataPlaneError> {
        let mut members = self.members();
        let id = self.plug_in(port, control)?;
        let queues = port.wrappers.queues.clone();
        members.push(Member { id, name: port.name.clone(), bridge: port.bridge.clone(), queues });
        self.apply_mirrors(&members)
    }

    /// A poisoned lock is valid: the list changes in one step.
    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names of the running ports and bonds, by number.
    fn names(&self) -> BTreeMap<u16, String> {
        let mut names = self.bonds.names();
        names.extend(self.members().iter().map(|member| (member.id.0, member.name.clone())));
        names
    }

    /// Number and bridge of a running port or bond.
    fn place_of(&self, name: &str) -> Option<(PortId, String)> {
        let members = self.members();
        let port = members.iter().find(|member| member.name == name);
        port.map(|port| (port.id, port.bridge.clone())).or_else(|| self.bonds.find(name))
    }

    /// Passes `control` to the engine, with a number already known to its bridge.
    fn plug_in(&self, port: &PortSettings, control: Box<dyn PortControl>) -> Result<PortId, DataPlaneError> {
        let refused = |e: &dyn Remedy| {
            let remedy = "correct the port's section, or remove another port";
            DataPlaneError::refused(format!("port \"{}\"", port.name), e, remedy)
        };
        let id = self.engine.reserve(&port.name).map_err(|e| refused(&e))?;
        let bond = self.bonds.of_member(&port.name);
        let is_member = bond.is_some();
        let joined = if let Some((bond, member)) = bond {
            let joined = self.bridges.join_bond(id, bond, member, self.engine.now());
            joined.map_err(|e| refused(&e))
        } else {
            let added = self.bridges.add_port(id, &port.bridge, &self.config_of(port));
            added.map_err(|e| refused(&e))
        };
        // A member is no port of the flow tables, and has the protocols of its bond.
        let joined = joined.and_then(|()| match &self.flows {
            Some(flows) if !is_member => {
                flows.add_port(id, &port.bridge, &port.name).map_err(|e| refused(&e))
            }
            _ => Ok(()),
        });
        let joined = joined.and_then(|()| if is_member { Ok(()) } else { self.join_links(id, port) });
        let joined = joined.and_then(|()| self.add_tunnel(id, port));
        self.export.add_port(id, port, speed(port));
        let joined = joined.and_then(|()| self.join_offload(id, port));
        let started = joined.and_then(|()| self.start_port(id, port, control).map_err(|e| refused(&e)));
        started.map(|()| id).inspect_err(|_| {
            // The first error has the cause; a port that never ran is not held.
            let _ = self.pull_out(id, &port.name);
        })
    }

    /// Configuration of a port on its bridge.
    fn config_of(&self, port: &PortSettings) -> PortConfig {
        let quota = self.quotas.get(&port.bridge).copied().flatten();
        PortConfig { stp: self.links.has_tree(&port.bridge), ..port_config(port, quota) }
    }

    /// Adds a port to its protocols between neighbours.
    fn join_links(&self, id: PortId, port: &PortSettings) -> Result<(), DataPlaneError> {
        let (mut config, mut port) = (port.links.config(speed(port)), Cow::Borrowed(port));
        // An application is no bridge and no router.
        if matches!(port.kind, PortKind::Granted(_)) {
            config.bpdu_guard = true;
            port.to_mut().links.multicast.multicast_router = RouterSetting::Never;
        }
        let added = self.links.add_port(id, &port, config);
        added.map_err(|e| {
            let remedy = "raise the limits on threads";
            DataPlaneError::Refused(Diagnostic::failed(format!("port \"{}\"", port.name), e, remedy))
        })
    }

    /// Adds a port to the kernel fast path, if it has it.
    fn join_offload(&self, id: PortId, port: &PortSettings) -> Result<(), DataPlaneError> {
        if !port.kind.has_fast_path() {
            return Ok(());
        }
        let added = self.offload.add_port(id, &port.name, &port.bridge);
        added.map_err(|e| {
            let (place, remedy) = (format!("port \"{}\"", port.name), "remove `kernel_fast_path`");
            DataPlaneError::Refused(Diagnostic::failed(place, e, remedy))
        })
    }

    /// Makes a port a tunnel, if it is one.
    fn add_tunnel(&self, id: PortId, port: &PortSettings) -> Result<(), DataPlaneError> {
        let (PortKind::Tunnel(tunnel), Some(flows)) = (&port.kind, &self.flows) else { return Ok(()) };
        let place = format!("port \"{}\"", port.name);
        let remedy = "choose another `remote`, `local`, `key` or `destination_port`";
        let added = flows.add_tunnel(id, tunnel.settings());
        added.map_err(|e| DataPlaneError::Refused(Diagnostic::failed(place, e, remedy)))
    }

    fn start_port(
        &self,
        id: PortId,
        port: &PortSettings,
        control: Box<dyn PortControl>,
    ) -> Result<(), EngineError> {
        // A port with several queue pairs distributes packets by choosing a pair.
        let usual = if port.queue_pairs == 1 { self.rss_mode } else { RssMode::Queues };
        let control = Box::new(Logged::new(&port.name, control));
        match port.rss_mode.unwrap_or(usual) {
            RssMode::Software => self.engine.add_spread(id, control),
            RssMode::Queues => self.engine.add_reserved(id, control),
        }
    }

    /// Removes a port from engine and bridge. It is not an error if it is already removed. In any case the engine
    /// owns `id` afterwards and may assign it to another port.
    fn pull_out(&self, id: PortId, name: &str) -> Result<(), DataPlaneError> {
        let removed = self.engine.remove_port(id);
        self.links.remove_port(id);
        self.export.remove_port(id);
        self.offload.remove_port(id);
        let _ = self.bridges.remove_port(id);
        let _ = self.bridges.leave_bond(id, self.engine.now());
        self.bonds.forget(name);
        self.flows.iter().for_each(|flows| flows.remove_port(id));
        match removed {
            Err(EngineError::WorkerHung { worker, .. }) => Err(DataPlaneError::held(name, worker)),
            _ => Ok(()),
        }
    }

    /// The OpenFlow bridges, and the names of the ports of `bridge`.
    fn flows_and_names(&self, bridge: Option<&str>) -> Result<(&Flows, Names), DataPlaneError> {
        let flows = self.flows.as_ref().ok_or_else(|| unknown(bridge.unwrap_or_default()))?;
        let names = self.names();
        let names = names.iter().map(|(id, name)| (PortId(*id), name.as_str()));
        Ok((flows, flows.names(names, bridge)))
    }

    /// Addresses of one bridge.
    fn stations(&self, bridge: &str) -> Vec<bridge::Station> {
        let now = Now(self.engine.snapshot().uptime_ns);
        self.bridges.stations(bridge, now).unwrap_or_default()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // Their threads use the engine, which ends after them.
        self.links.stop();
        self.export.stop();
        self.offload.stop();
        self.flows.iter_mut().for_each(Flows::stop_controllers);
    }
}

impl DataPlane for Switch {
    fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.engine.snapshot();
        self.offload.complete(&mut snapshot);
        snapshot
    }

    fn fdb(&self) -> Vec<FdbEntry> {
        let names = self.names();
        let entry = |bridge: &str, station: bridge::Station| FdbEntry {
            bridge: bridge.to_owned(),
            mac: station.mac,
            vlan: station.vlan,
            port: names.get(&station.port).cloned().unwrap_or_default(),
            origin: if station.pinned { Origin::Static } else { Origin::Learned },
            age: station.age_seconds,
        };
        let bridges = self.quotas.keys();
        bridges.flat_map(|bridge| self.stations(bridge).into_iter().map(move |s| entry(bridge, s))).collect()
    }

    fn bridges(&self) -> Vec<BridgeReport> {
        let second = (self.engine.snapshot().uptime_ns / 1_000_000_000) as u32;
        let names = self.names();
        let openflow = |name: &str| self.flows.as_ref()?.report(name);
        let mut stp_ports = self.links.stp_ports();
        let report = |bridge: BridgeStatistics| {
            let (openflow, stp) = (openflow(&bridge.name), self.links.stp(&bridge.name));
            let mut report = BridgeReport { openflow, stp, ..bridge_report(bridge, &names, second) };
            report.ports.iter_mut().for_each(|port| port.stp = stp_ports.remove(&port.port));
            report
        };
        self.bridges.statistics().into_iter().map(report).collect()
    }

    fn stp_ports(&self) -> BTreeMap<String, StpPortReport> {
        self.links.stp_ports()
    }

    fn neighbors(&self) -> NeighborsReport {
        self.links.neighbors()
    }

    fn offload(&self) -> OffloadReport {
        self.offload.report()
    }

    fn multicast(&self) -> Vec<MulticastReport> {
        self.links.multicast(&self.names())
    }

    fn flush_multicast(&self, wanted: &FdbFilter) -> u64 {
        let port = wanted.port.as_ref().and_then(|name| self.place_of(name)).map(|(port, _)| port);
        if wanted.port.is_some() && port.is_none() {
            return 0;
        }
        self.links.flush_multicast(wanted.bridge.as_deref(), wanted.vlan, port) as u64
    }

    fn addresses(&self, bridge: &str) -> usize {
        let all = self.bridges.statistics();
        all.iter().find(|statistics| statistics.name == bridge).map_or(0, |statistics| statistics.stations)
    }

    fn add_port(&self, port: &PortSettings, loaded: Loaded) -> Result<(), DataPlaneError> {
        self.join(port, open_in_switch(port, &loaded)?)
    }

    fn add_granted(&self, port: &PortSettings, socket: OwnedFd) -> Result<(), DataPlaneError> {
        let PortKind::Granted(granted) = &port.kind else { return Err(not_running(&port.name)) };
        let refused = |e| DataPlaneError::refused(format!("port \"{}\"", port.name), &e, "try again");
        self.join(port, granted.over(port.common(), socket).map_err(refused)?)
    }

    fn remove_port(&self, name: &str) -> Result<(), DataPlaneError> {
        let mut members = self.members();
        let index = members.iter().position(|member| member.name == name);
        let index = index.ok_or_else(|| not_running(name))?;
        // Removed from the list even if a worker holds it: another port may soon run under its number.
        let removed = self.pull_out(members.remove(index).id, name);
        self.apply_mirrors(&members)?;
        removed
    }

    fn bonds(&self) -> BTreeMap<String, BondState> {
        self.bond_states()
    }

    fn add_bond(&self, bond: &BondSettings, ports: &[PortSettings]) -> Result<(), DataPlaneError> {
        self.add_running_bond(bond, ports)
    }

    fn set_bond(&self, bond: &BondSettings, ports: &[PortSettings]) -> Result<(), DataPlaneError> {
        self.change_bond(bond, ports)
    }

    fn remove_bond(&self, name: &str, ports: &[PortSettings]) -> Result<(), DataPlaneError> {
        self.remove_running_bond(name, ports)
    }

    fn add_worker(&self, role: Role, worker: &WorkerSettings) -> Result<usize, DataPlaneError> {
        let added = self.engine.add_stage(role.engine(), worker_config(worker), &self.pipelines);
        let remedy = "name another CPU, or raise the limits on threads and descriptors";
        added.map_err(|e| DataPlaneError::refused("the new worker", &e, remedy))
    }

    fn pin(&self, entry: &StaticEntry) -> Result<(), DataPlaneError> {
        let members = self.members();
        let member = members.iter().find(|member| member.name == entry.port);
        let member = member.ok_or_else(|| not_running(&entry.port))?;
        let vlan = VlanId::new(entry.vlan);
        let added = self.bridges.add_static(&member.bridge, entry.mac, vlan, member.id);
        added.map_err(|e| DataPlaneError::refused(entry, &e, "remove other entries of this bridge"))
    }

    fn forget(&self, bridge: &str, mac: MacAddress, vlan: u16) -> Result<(), DataPlaneError> {
        let remedy = "see the addresses in `linerate fdb show`";
        let forgotten = self.bridges.forget(bridge, mac, vlan);
        forgotten.map_err(|e| DataPlaneError::refused(format!("address {mac}"), &e, remedy))
    }

    fn flush(&self, wanted: &FdbFilter) -> Result<u64, DataPlaneError> {
        let port = wanted.port.as_ref().and_then(|name| self.place_of(name));
        if wanted.port.is_some() && port.is_none() {
            return Ok(0);
        }
        let home = |bridge: &&String| port.as_ref().is_none_or(|(_, home)| home == *bridge);
        let named = |bridge: &&String| wanted.bridge.as_ref().is_none_or(|name| name == *bridge);
        let selection = Selection { port: port.as_ref().map(|(id, _)| *id), vlan: wanted.vlan };
        self.quotas.keys().filter(home).filter(named).try_fold(0, |sum, bridge| {
            let flushed = self.bridges.flush(bridge, selection);
            let flushed = flushed.map_err(|e| DataPlaneError::refused("fdb flush", &e, "try again"))?;
            Ok(sum + flushed as u64)
        })
    }

    fn flows(&self, wanted: &FlowFilter) -> Result<(usize, Vec<FlowEntry>), DataPlaneError> {
        let (flows, names) = self.flows_and_names(wanted.bridge.as_deref())?;
        if let Some(interval) = wanted.interval {
            return flows.hot(wanted, &names, interval.0);
        }
        flows.list(wanted, &names)
    }

    fn flow_counts(&self, bridge: &str) -> Option<FlowCounts> {
        self.flows.as_ref()?.counts(bridge)
    }

    fn trace(&self, request: &TraceRequest) -> Result<TraceReport, DataPlaneError> {
        let (flows, names) = self.flows_and_names(request.bridge.as_deref())?;
        flows.trace(request, &names)
    }

    fn add_flows(&self, request: &FlowRequest) -> Result<usize, DataPlaneError> {
        let (flows, names) = self.flows_and_names(request.bridge.as_deref())?;
        flows.add(request.bridge.as_deref(), &request.flows, &names)
    }

    fn remove_flows(&self, wanted: &FlowFilter) -> Result<usize, DataPlaneError> {
        let (flows, names) = self.flows_and_names(wanted.bridge.as_deref())?;
        flows.remove(wanted, &names)
    }

    fn connections(&self, wanted: &ConnectionFilter) -> Result<ConnectionReport, DataPlaneError> {
        Ok(self.flows_and_names(None)?.0.connections(wanted))
    }

    fn connection_limits(&self, settings: &ConntrackSettings) -> Result<ConnectionLimits, DataPlaneError> {
        let names = self.names();
        Ok(self.flows_and_names(None)?.0.connection_limits(settings, &names))
    }

    fn limit_connections(&self, settings: &ConntrackSettings) -> Result<(), DataPlaneError> {
        self.flows_and_names(None)?.0.limit_connections(settings);
        Ok(())
    }

    fn flush_connections(&self, zone: Option<u16>) -> Result<u64, DataPlaneError> {
        Ok(self.flows_and_names(None)?.0.flush_connections(zone))
    }

    fn set_mirrors(&self, mirrors: &[MirrorSettings]) -> Result<(), DataPlaneError> {
        self.replace_mirrors(mirrors)
    }

    fn mirrors(&self, bridge: &str) -> Vec<MirrorStatistics> {
        self.mirror_statistics(bridge)
    }

    fn tunnels(&self) -> Vec<TunnelEntry> {
        let names = self.names();
        let name = |id: PortId| names.get(&id.0).cloned();
        self.flows.as_ref().map(|flows| flows.tunnels(name)).unwrap_or_default()
    }

    fn export(&self) -> ExportReport {
        self.export.report()
    }

    fn queues(&self) -> Result<Vec<QueueLoad>, DataPlaneError> {
        let remedy = "see `linerate workers show` for a hung worker";
        self.engine.queues().map_err(|e| DataPlaneError::refused("placement", &e, remedy))
    }

    fn latest_balance(&self) -> Option<Balance> {
        self.engine.latest_balance()
    }

    fn rebalance(&self, over: Duration, threshold: f64, moves: bool) -> Result<Balance, DataPlaneError> {
        let remedy = "see `linerate workers show` for a hung worker";
        let found = self.engine.rebalance(over, threshold, moves);
        found.map_err(|e| DataPlaneError::refused("rebalance", &e, remedy))
    }
}

/// Opens a port of the file, with the capture that it replays.
fn open_first(port: &PortSettings) -> Result<Box<dyn PortControl>, Diagnostic> {
    open_in_switch(port, &load(port)?).map_err(OpenError::into_diagnostic)
}

fn not_running(name: &str) -> DataPlaneError {
    let place = format!("port \"{name}\"");
    DataPlaneError::Refused(Diagnostic::failed(
        place,
        "the port does not run",
        "see the ports in `linerate ports show`",
    ))
}

/// Report of a bridge, with port names. A removed port has no name.
fn bridge_report(bridge: BridgeStatistics, names: &BTreeMap<u16, String>, second: u32) -> BridgeReport {
    let name = |number: u16| names.get(&number).cloned().unwrap_or_default();
    let port = |port: PortStatistics| BridgePort {
        port: name(port.port),
        learned: port.learned,
        max_macs: port.max_macs,
        pinned: port.static_entries,
        not_learned: port.refused,
        deferred: port.deferred,
        moves: port.moves,
        refused_moves: port.refused_moves,
        stp: None,
    };
    let event = |refused: RefusedMove| MoveEvent {
        mac: refused.mac,
        vlan: refused.vlan,
        old_port: name(refused.old_port),
        new_port: name(refused.new_port),
        age: second.saturating_sub(refused.second),
    };
    BridgeReport {
        name: bridge.name,
        addresses: bridge.stations,
        table: bridge.capacity,
        ports: bridge.ports.into_iter().map(port).collect(),
        refused_moves: bridge.refused_moves.into_iter().map(event).collect(),
        openflow: None,
        stp: None,
    }
}

/// Speed of the interface of a port in bits per second, if the kernel knows it. That of a TAP interface has no meaning.
fn speed(port: &PortSettings) -> Option<u64> {
    let has_link = ["af_packet", "af_xdp"].contains(&port.kind.name());
    let interface = port.kind.claims().into_iter().find(|claim| has_link && claim.key == "interface")?;
    let text = std::fs::read_to_string(format!("/sys/class/net/{}/speed", interface.shown)).ok()?;
    // In Mbit/s; negative if it is not known.
    text.trim().parse::<u64>().ok().map(|speed| speed * 1_000_000)
}

#[cfg(test)]
mod tests;
