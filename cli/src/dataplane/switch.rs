//! Data plane of a running switch: an engine and its bridges.
//!
//! Converts configuration values to values of the engine and bridge crates. A port is added to its bridge before its
//! first packet can arrive, and removed from the engine before it is removed from its bridge.

mod bonds;
mod bridges;
pub(crate) mod handover;
mod mirrors;
mod ports;
mod requests;
mod state;

use super::captures::Captures;
use super::convert::{rebalancing, rss, worker_config};
use super::export::Export;
use super::flows::{Flows, Names, unknown};
use super::interface::{DataPlane, DataPlaneError};
use super::links::Links;
use super::offload::Offload;
use super::open::deferred;
use super::state::Continued;
use crate::remedy;
use crate::settings::MAX_PORTS;
use crate::settings::mirror::MirrorSettings;
use crate::settings::model::RssMode;
use crate::settings::topology::{PortSettings, Topology};
use crate::settings::wrappers::queues::Queues;
use bonds::Bonds;
use bridge::Wrapped;
use bridges::add_bridge;
use console::Diagnostic;
use engine::placement::QueueAffinity;
use engine::{Engine, EngineConfig, Now};
use port::{Pipelines, PortControl, PortId};
use ports::{open_first, speed};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    offload: Arc<Offload>,
    captures: Captures,
    /// Default address limit of ports, by bridge.
    quotas: Mutex<BTreeMap<String, Option<u32>>>,
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

/// The section, and the remedy of an error in it.
const PLACEMENT: (&str, &str) = ("placement", "correct the [placement] section");

/// Rules for receive queues; `None` without `[placement]`.
fn affinity(topology: &Topology) -> Result<Option<QueueAffinity>, Diagnostic> {
    let Some(placement) = &topology.placement else { return Ok(None) };
    let is_port = |name: &str| topology.ports.iter().any(|port| port.name == name);
    let affinity = placement.affinity(topology.takers(), is_port);
    affinity.map(Some).map_err(|e| Diagnostic::failed(PLACEMENT.0, e, PLACEMENT.1))
}

impl Switch {
    /// Starts everything that `topology` describes, or nothing. A port whose socket or interface is not available is
    /// started anyway and retries; the second part of the result contains the reasons. If this is so for all ports,
    /// nothing starts.
    pub(crate) fn start(topology: &Topology) -> Result<(Self, Vec<Diagnostic>), Diagnostic> {
        let (switch, deferred) = Self::start_with(topology, &Continued::default(), open_first)?;
        switch.connect_controllers(topology)?;
        Ok((switch, deferred))
    }

    /// Starts a switch whose ports are created by `open`, without connections to controllers.
    fn start_with(
        topology: &Topology,
        continued: &Continued,
        open: impl Fn(&PortSettings) -> Result<Box<dyn PortControl>, Diagnostic>,
    ) -> Result<(Self, Vec<Diagnostic>), Diagnostic> {
        let bridges = Arc::new(bridge::Switch::with_rss(MAX_PORTS, rss(topology.switch.rss)));
        for bridge in &topology.bridges {
            add_bridge(&bridges, bridge)?;
        }
        let workers = topology.workers.iter().map(worker_config).collect();
        let model = topology.model.engine(topology.workers.iter().map(|worker| worker.roles));
        let flows = Flows::new(topology, bridges.clone(), continued)?;
        flows.iter().try_for_each(|flows| flows.load(topology, continued))?;
        let normal = || -> Arc<dyn Pipelines> { bridges.clone() };
        let export = Export::new(topology);
        let inner = export.sampled(flows.as_ref().map_or_else(normal, Flows::pipelines));
        let pipelines = bridges.wrap(inner);
        let engine = Engine::continue_as(
            EngineConfig { workers, max_ports: MAX_PORTS, rss: rss(topology.switch.rss) },
            model,
            &pipelines,
            continued.age(),
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
        let offloaded = (bridges.clone(), switch.clone());
        let links = Links::new(topology, (bridges.clone(), switch), engine.clone());
        let members = Arc::default();
        let clock = engine.clone();
        let offload = Arc::new(Offload::new(offloaded, move || clock.now()));
        let mirrors = Mutex::new(topology.mirrors.clone());
        let (bonds, quotas) = (Bonds::default(), Mutex::new(quotas.collect()));
        let switch = Self {
            engine,
            bridges,
            pipelines,
            mirrors,
            bonds,
            flows,
            links,
            export,
            offload,
            captures: Captures::default(),
            quotas,
            rss_mode,
            members,
        };
        switch.place(topology)?;
        let deferred = switch.populate(topology, open)?;
        switch.flows.iter().try_for_each(|flows| flows.set_underlay(topology))?;
        switch.start_export()?;
        Ok((switch, deferred))
    }

    /// Connects OpenFlow bridges to their controllers, and opens their management sockets.
    fn connect_controllers(&self, topology: &Topology) -> Result<(), Diagnostic> {
        let live = self.bonds.live_ports(&self.engine, &self.bridges, &self.offload);
        let Some(flows) = &self.flows else { return Ok(()) };
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
        let (Some(affinity), Some(placement)) = (affinity(topology)?, &topology.placement) else {
            return Ok(());
        };
        let failed = |e| remedy::failed(PLACEMENT.0, &e, PLACEMENT.1);
        self.engine.set_queue_affinity(affinity).map_err(failed)?;
        self.engine.watch_load(rebalancing(placement)).map_err(failed)
    }

    fn populate(
        &self,
        topology: &Topology,
        open: impl Fn(&PortSettings) -> Result<Box<dyn PortControl>, Diagnostic>,
    ) -> Result<Vec<Diagnostic>, Diagnostic> {
        let opened: Vec<_> = topology.ports.iter().map(|port| (port, open(port))).collect();
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
        self.captures.stop();
        self.links.stop();
        self.export.stop();
        self.offload.stop();
        self.flows.iter().for_each(Flows::stop_controllers);
    }
}

fn not_running(name: &str) -> DataPlaneError {
    let place = format!("port \"{name}\"");
    DataPlaneError::Refused(Diagnostic::failed(
        place,
        "the port does not run",
        "see the ports in `linerate ports show`",
    ))
}

#[cfg(test)]
mod tests;
