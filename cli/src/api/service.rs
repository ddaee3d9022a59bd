//! Handles requests: validates them against the running topology, then calls the data plane. Knows no HTTP.
//!
//! The topology is changed only after the data plane, and both under one lock, so that two requests are never validated
//! against the same state. The topology has what the data plane did even if the request returns an error.

use super::error::ApiError;
use super::metrics;
use super::model::{
    BondReport, BridgeStatus, FdbReport, FlowReport, FlowsChanged, Flushed, PlacementReport, PortReport,
    RebalanceRequest, Status, Traffic, WorkerAdded, WorkersReport,
};
use super::policy;
use crate::dataplane::connections::{ConnectionFilter, ConnectionLimits, ConnectionReport};
use crate::dataplane::export_report::ExportReport;
use crate::dataplane::flow_report::{TraceReport, TraceRequest};
use crate::dataplane::interface::{DataPlane, DataPlaneError};
use crate::dataplane::link_report::NeighborsReport;
use crate::dataplane::offload_report::OffloadReport;
use crate::dataplane::open;
use crate::dataplane::report::{BridgeReport, FdbEntry, FdbFilter, FlowFilter, FlowRequest};
use crate::dataplane::tunnels::TunnelEntry;
use crate::grant::GrantRequest;
use crate::host::Host;
use crate::settings::bonds::BondSettings;
use crate::settings::config;
use crate::settings::kinds::PortKind;
use crate::settings::kinds::granted::{Granted, Holder};
use crate::settings::kinds::kind::Loaded;
use crate::settings::placement::Placement;
use crate::settings::topology::{BridgeSettings, PipelineKind, PortSettings, StaticEntry, Topology};
use engine::Snapshot;
use engine::balance::Balance;
use rustix::fd::OwnedFd;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::MacAddress;

/// Duration of a measurement. Clients time out after ten seconds.
const MEASURED: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(8);

/// Duration of a measurement of flows, whose counters workers update about twice a second.
const FLOWS_MEASURED: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(8);

/// Largest VLAN identifier (IEEE 802.1Q section 9.6).
const MAX_VLAN: u16 = 4094;

/// The running switch behind the API.
pub(crate) struct ApiService {
    topology: Mutex<Topology>,
    /// Held while a file is read.
    loading: Mutex<()>,
    control: PathBuf,
    data_plane: Box<dyn DataPlane>,
    /// Number of grants so far.
    granted: AtomicU64,
    stop: Box<dyn Fn() + Send + Sync>,
}

impl ApiService {
    /// The API of `data_plane`, which runs `topology`. `stop` ends the process.
    pub(crate) fn new(
        topology: Topology,
        control: PathBuf,
        data_plane: Box<dyn DataPlane>,
        stop: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            topology: Mutex::new(topology),
            loading: Mutex::default(),
            control,
            data_plane,
            granted: AtomicU64::new(0),
            stop: Box::new(stop),
        }
    }

    /// A panic in another request leaves the topology as it was: it changes in one step.
    pub(super) fn topology(&self) -> MutexGuard<'_, Topology> {
        self.topology.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn data_plane(&self) -> &dyn DataPlane {
        &*self.data_plane
    }

    /// `GET /v1/status`
    pub(crate) fn status(&self) -> Status {
        let (topology, now) = (self.topology(), self.data_plane.snapshot());
        let traffic = Traffic::of(&now);
        let bridge = |b: &BridgeSettings| BridgeStatus {
            flows: self.data_plane.flow_counts(&b.name),
            ..BridgeStatus::of(b, &topology.ports, self.data_plane.addresses(&b.name))
        };
        Status {
            name: topology.switch.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ns: now.uptime_ns,
            cycles_per_second: now.cycles_per_second,
            kernel: now.kernel.clone(),
            workers: now.workers.len(),
            model: topology.model.model,
            roles: roles(&now),
            sleeping: now.workers.iter().filter(|worker| worker.sleeping).count(),
            bridges: topology.bridges.iter().map(bridge).collect(),
            ports: topology.ports.len(),
            connected: now.ports.iter().filter(|port| port.state == "connected").count(),
            traffic,
        }
    }

    /// `GET /v1/snapshot`: every counter, read at one moment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.data_plane.snapshot()
    }

    /// `GET /metrics`
    pub(crate) fn metrics(&self) -> String {
        metrics::text(&metrics::Sources {
            now: self.snapshot(),
            bridges: self.status().bridges,
            reports: self.bridges(),
            neighbors: self.neighbors(),
            bonds: self.bonds(),
            mirrors: self.mirrors(),
            tunnels: self.data_plane.tunnels(),
            queues: self.queues(),
            multicasts: self.data_plane.multicast(),
        })
    }

    /// `GET /v1/bridges`
    pub(crate) fn bridges(&self) -> Vec<BridgeReport> {
        self.data_plane.bridges()
    }

    /// `GET /v1/neighbors`
    pub(crate) fn neighbors(&self) -> NeighborsReport {
        self.data_plane.neighbors()
    }

    /// `GET /v1/offload`
    pub(crate) fn offload(&self) -> OffloadReport {
        self.data_plane.offload()
    }

    /// `GET /v1/ports`
    pub(crate) fn ports(&self) -> Vec<PortReport> {
        let (topology, now) = (self.topology(), self.data_plane.snapshot());
        let mut stp = self.data_plane.stp_ports();
        let live = |name: &str| now.ports.iter().find(|port| port.name == name).cloned();
        let report = |port: &PortSettings| PortReport {
            settings: port.clone(),
            live: live(&port.name),
            stp: stp.remove(&port.name),
        };
        topology.ports.iter().map(report).collect()
    }

    /// `GET /v1/ports/{name}`
    pub(crate) fn port(&self, name: &str) -> Result<PortReport, ApiError> {
        let found = self.ports().into_iter().find(|port| port.settings.name == name);
        found.ok_or_else(|| no_port(name))
    }

    /// `POST /v1/ports`: waits for the disk if the port plays a file; does not block other requests meanwhile.
    pub(crate) fn add_port(&self, json: &Value) -> Result<PortReport, ApiError> {
        let running = self.topology().clone();
        let loaded = self.load(&config::requests::new_port(json, &running, &self.control)?)?;
        let mut topology = self.topology();
        // The running topology may have changed while the file was read.
        let port = config::requests::new_port(json, &topology, &self.control)?;
        self.data_plane.add_port(&port, loaded)?;
        topology.ports.push(port.clone());
        drop(topology);
        self.port(&port.name)
    }

    /// Reads the file that `port` plays. One file is read at a time, which limits memory and disk use of requests.
    fn load(&self, port: &PortSettings) -> Result<Loaded, ApiError> {
        if port.kind.plays().is_none() {
            return Ok(None);
        }
        let _turn = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        open::load(port).map_err(ApiError::Invalid)
    }

    /// `DELETE /v1/ports/{name}`. A port held by a hung worker is removed too, although the result is an error.
    pub(crate) fn remove_port(&self, name: &str) -> Result<PortSettings, ApiError> {
        let mut topology = self.topology();
        let index = topology.ports.iter().position(|port| port.name == name).ok_or_else(|| no_port(name))?;
        self.remove_at(&mut topology, index)
    }

    fn remove_at(&self, topology: &mut Topology, index: usize) -> Result<PortSettings, ApiError> {
        let name = topology.ports[index].name.clone();
        let removed = self.data_plane.remove_port(&name);
        if let Err(refused @ DataPlaneError::Refused(_)) = removed {
            return Err(refused.into());
        }
        for bridge in &mut topology.bridges {
            bridge.statics.retain(|entry| entry.port != name);
        }
        for bond in &mut topology.bonds {
            bond.ports.retain(|port| *port != name);
        }
        let port = topology.ports.remove(index);
        removed?;
        Ok(port)
    }

    /// Adds a port for the application `holder`, on the connection to it, if a `[[grant]]` section allows it. Returns the
    /// grant.
    pub(crate) fn grant(
        &self,
        request: &GrantRequest,
        holder: Holder,
        socket: OwnedFd,
    ) -> Result<Granted, ApiError> {
        let mut topology = self.topology();
        let section = policy::section(&topology, request, &holder)?;
        let grant = self.granted.fetch_add(1, Ordering::Relaxed);
        let granted = Granted { holder, grant, section, memory: topology.grants[section].bytes() };
        let port =
            PortSettings::granted(&topology.grants[section], &request.name, request.queue_pairs, granted);
        config::requests::granted_port(&port, &topology, &self.control)?;
        self.data_plane.add_granted(&port, socket)?;
        topology.ports.push(port);
        Ok(granted)
    }

    /// Removes the port of a grant, unless it was removed before.
    pub(crate) fn end_grant(&self, granted: &Granted) -> Result<(), ApiError> {
        let mut topology = self.topology();
        let is_own = |port: &PortSettings| port.kind == PortKind::Granted(*granted);
        match topology.ports.iter().position(is_own) {
            Some(index) => self.remove_at(&mut topology, index).map(drop),
            None => Ok(()),
        }
    }

    /// `GET /v1/bonds`
    pub(crate) fn bonds(&self) -> Vec<BondReport> {
        let (topology, mut live) = (self.topology(), self.data_plane.bonds());
        let report =
            |bond: &BondSettings| BondReport { settings: bond.clone(), live: live.remove(&bond.name) };
        topology.bonds.iter().map(report).collect()
    }

    /// `GET /v1/bonds/{name}`
    pub(crate) fn bond(&self, name: &str) -> Result<BondReport, ApiError> {
        self.bonds().into_iter().find(|bond| bond.settings.name == name).ok_or_else(|| no_bond(name))
    }

    /// `POST /v1/bonds`
    pub(crate) fn add_bond(&self, json: &Value) -> Result<BondReport, ApiError> {
        let mut topology = self.topology();
        let bond = config::requests::new_bond(json, &topology)?;
        self.data_plane.add_bond(&bond, &topology.ports)?;
        topology.bonds.push(bond.clone());
        drop(topology);
        self.bond(&bond.name)
    }

    /// `PATCH /v1/bonds/{name}`
    pub(crate) fn set_bond(&self, name: &str, json: &Value) -> Result<BondReport, ApiError> {
        let mut topology = self.topology();
        let index = topology.bonds.iter().position(|bond| bond.name == name).ok_or_else(|| no_bond(name))?;
        let bond = config::requests::changed_bond(json, &topology, index)?;
        self.data_plane.set_bond(&bond, &topology.ports)?;
        topology.bonds[index] = bond;
        drop(topology);
        self.bond(name)
    }

    /// `DELETE /v1/bonds/{name}`
    pub(crate) fn remove_bond(&self, name: &str) -> Result<BondSettings, ApiError> {
        let mut topology = self.topology();
        let index = topology.bonds.iter().position(|bond| bond.name == name).ok_or_else(|| no_bond(name))?;
        self.data_plane.remove_bond(name, &topology.ports)?;
        Ok(topology.bonds.remove(index))
    }

    /// `GET /v1/fdb`
    pub(crate) fn fdb(&self, wanted: &FdbFilter) -> Result<FdbReport, ApiError> {
        self.known(wanted)?;
        let mut entries = self.data_plane.fdb();
        entries.retain(|entry| wanted.names(entry));
        entries.sort_by(|a, b| (&a.bridge, a.vlan, a.mac).cmp(&(&b.bridge, b.vlan, b.mac)));
        let total = entries.len();
        entries.truncate(wanted.limit.unwrap_or(usize::MAX));
        Ok(FdbReport { total, entries })
    }

    /// `POST /v1/fdb`
    pub(crate) fn pin(&self, json: &Value) -> Result<StaticEntry, ApiError> {
        let mut topology = self.topology();
        let entry = config::requests::new_static(json, &topology)?;
        self.data_plane.pin(&entry)?;
        let home = topology.ports.iter().find(|port| port.name == entry.port).map(|port| port.bridge.clone());
        let home = topology.bridges.iter_mut().find(|bridge| Some(&bridge.name) == home.as_ref());
        if let Some(bridge) = home {
            bridge.statics.push(entry.clone());
        }
        Ok(entry)
    }

    /// `DELETE /v1/fdb/{mac}`: one address, learned or static.
    pub(crate) fn forget(&self, mac: &str, wanted: &FdbFilter) -> Result<FdbEntry, ApiError> {
        self.known(wanted)?;
        let entry = self.only(mac, wanted)?;
        let mut topology = self.topology();
        self.data_plane.forget(&entry.bridge, entry.mac, entry.vlan)?;
        if let Some(bridge) = topology.bridges.iter_mut().find(|bridge| bridge.name == entry.bridge) {
            // An entry written without a VLAN is listed under its port's VLAN.
            let gone = |old: &StaticEntry| old.mac == entry.mac && [0, entry.vlan].contains(&old.vlan);
            bridge.statics.retain(|old| !gone(old));
        }
        Ok(entry)
    }

    /// The only entry that matches.
    fn only(&self, mac: &str, wanted: &FdbFilter) -> Result<FdbEntry, ApiError> {
        let place = format!("address \"{mac}\"");
        let remedy = "write it as 02:00:00:00:00:01";
        let address = mac.parse::<MacAddress>();
        let address = address.map_err(|_| ApiError::invalid(&place, "not an Ethernet address", remedy))?;
        let mut found = self.data_plane.fdb();
        found.retain(|entry| entry.mac == address && wanted.names(entry));
        match (found.pop(), found.len()) {
            (None, _) => {
                let remedy = "see the addresses in `linerate fdb show`";
                Err(ApiError::not_found(place, format!("not in {}", wanted.table()), remedy))
            }
            (Some(entry), 0) => Ok(entry),
            (Some(_), more) => {
                let reason = format!("{address} has {} entries, and one can be removed at a time", more + 1);
                let remedy = "name the bridge, the port or the VLAN as well; see `linerate fdb show`";
                Err(ApiError::invalid(place, reason, remedy))
            }
        }
    }

    /// `DELETE /v1/fdb`
    pub(crate) fn flush(&self, wanted: &FdbFilter) -> Result<Flushed, ApiError> {
        self.known(wanted)?;
        Ok(Flushed { flushed: self.data_plane.flush(wanted)? })
    }

    /// `GET /v1/flows`: waits while rates are measured.
    pub(crate) fn flows(&self, wanted: &FlowFilter) -> Result<FlowReport, ApiError> {
        self.openflow(wanted.bridge.as_deref())?;
        if let Some(interval) = wanted.interval.filter(|interval| !FLOWS_MEASURED.contains(&interval.0)) {
            let reason = format!("invalid value \"{interval}\" for interval: expected 100ms to 8s");
            return Err(ApiError::invalid("query", reason, "measure for 100ms to 8s"));
        }
        let (total, flows) = self.data_plane.flows(wanted)?;
        Ok(FlowReport { total, flows })
    }

    /// `POST /v1/trace`
    pub(crate) fn trace(&self, request: &TraceRequest) -> Result<TraceReport, ApiError> {
        self.openflow(request.bridge.as_deref())?;
        Ok(self.data_plane.trace(request)?)
    }

    /// `POST /v1/flows`
    pub(crate) fn add_flows(&self, request: &FlowRequest) -> Result<FlowsChanged, ApiError> {
        self.openflow(request.bridge.as_deref())?;
        Ok(FlowsChanged { changed: self.data_plane.add_flows(request)? })
    }

    /// `DELETE /v1/flows`
    pub(crate) fn remove_flows(&self, wanted: &FlowFilter) -> Result<FlowsChanged, ApiError> {
        self.openflow(wanted.bridge.as_deref())?;
        Ok(FlowsChanged { changed: self.data_plane.remove_flows(wanted)? })
    }

    /// `GET /v1/connections`
    pub(crate) fn connections(&self, wanted: &ConnectionFilter) -> Result<ConnectionReport, ApiError> {
        self.openflow(None)?;
        Ok(self.data_plane.connections(wanted)?)
    }

    /// `GET /v1/connections/limits`
    pub(crate) fn connection_limits(&self) -> Result<ConnectionLimits, ApiError> {
        self.openflow(None)?;
        let settings = self.topology().conntrack.clone();
        Ok(self.data_plane.connection_limits(&settings)?)
    }

    /// `PATCH /v1/connections/limits`
    pub(crate) fn limit_connections(&self, json: &Value) -> Result<ConnectionLimits, ApiError> {
        self.openflow(None)?;
        let mut topology = self.topology();
        let changed = config::requests::changed_conntrack(json, &topology.conntrack)?;
        self.data_plane.limit_connections(&changed)?;
        topology.conntrack = changed;
        drop(topology);
        self.connection_limits()
    }

    /// `DELETE /v1/connections`
    pub(crate) fn flush_connections(&self, wanted: &ConnectionFilter) -> Result<Flushed, ApiError> {
        self.openflow(None)?;
        Ok(Flushed { flushed: self.data_plane.flush_connections(wanted.zone)? })
    }

    /// `GET /v1/export`
    pub(crate) fn export(&self) -> ExportReport {
        self.data_plane.export()
    }

    /// `GET /v1/tunnels`
    pub(crate) fn tunnels(&self) -> Vec<TunnelEntry> {
        self.data_plane.tunnels()
    }

    /// Checks that there is an OpenFlow bridge, of this name if one is given.
    fn openflow(&self, name: Option<&str>) -> Result<(), ApiError> {
        let topology = self.topology();
        let mut bridges = topology.bridges.iter().filter(|bridge| bridge.pipeline == PipelineKind::Openflow);
        if bridges.any(|bridge| name.is_none_or(|name| name == bridge.name)) {
            return Ok(());
        }
        let place = name.map_or_else(|| "flows".to_owned(), |name| format!("bridge \"{name}\""));
        let remedy = "set `pipeline = \"openflow\"` in a [[bridge]] section, and restart the switch";
        Err(ApiError::not_found(place, "there is no such OpenFlow bridge", remedy))
    }

    /// `GET /v1/workers`
    pub(crate) fn workers(&self) -> WorkersReport {
        let now = self.data_plane.snapshot();
        WorkersReport {
            uptime_ns: now.uptime_ns,
            cycles_per_second: now.cycles_per_second,
            budget: now.budget,
            workers: now.workers,
        }
    }

    /// `GET /v1/placement`
    pub(crate) fn placement(&self) -> Result<PlacementReport, ApiError> {
        let queues = self.data_plane.queues()?;
        let topology = self.topology();
        let placement = topology.placement.as_ref();
        let plan = placement.and_then(|placement| placement.plan.as_ref());
        Ok(PlacementReport {
            rules: placement.map(ToString::to_string),
            notes: plan.map(|plan| plan.notes.clone()).unwrap_or_default(),
            workers: self.data_plane.snapshot().workers,
            queues,
            latest: self.data_plane.latest_balance(),
        })
    }

    /// `POST /v1/rebalance`: waits while load is measured; does not block other requests.
    pub(crate) fn rebalance(&self, json: Value) -> Result<Balance, ApiError> {
        let bad = |reason: String, remedy: &str| ApiError::invalid("rebalance", reason, remedy);
        let wanted: RebalanceRequest = serde_json::from_value(json).map_err(|e| {
            bad(format!("invalid request: {e}"), "give `duration`, and optionally dry_run and threshold")
        })?;
        if !MEASURED.contains(&wanted.duration.0) {
            let reason = format!("invalid value \"{}\" for duration: expected 10ms to 8s", wanted.duration);
            return Err(bad(reason, "measure for 10ms to 8s"));
        }
        let usual =
            self.topology().placement.as_ref().map_or(Placement::default().threshold, |p| p.threshold);
        let threshold = wanted.threshold.unwrap_or(usual.0);
        if !(0.01..=1.0).contains(&threshold) {
            let reason = format!("invalid value {threshold} for threshold: expected 0.01 to 1");
            return Err(bad(reason, "give a share of a core"));
        }
        Ok(self.data_plane.rebalance(wanted.duration.0, threshold, !wanted.dry_run)?)
    }

    /// `POST /v1/workers`
    pub(crate) fn add_worker(&self, json: &Value) -> Result<WorkerAdded, ApiError> {
        let mut topology = self.topology();
        let (role, worker) = config::requests::new_worker(json, &topology, &Host::here())?;
        let index = self.data_plane.add_worker(role, &worker)?;
        topology.workers.push(worker);
        Ok(WorkerAdded { index, role, cpu: worker.cpu })
    }

    /// `POST /v1/shutdown`
    pub(crate) fn shutdown(&self) {
        (self.stop)();
    }

    /// Checks that the bridge and the port of a filter exist and that its VLAN is valid.
    pub(super) fn known(&self, wanted: &FdbFilter) -> Result<(), ApiError> {
        if let Some(vlan) = wanted.vlan.filter(|vlan| *vlan > MAX_VLAN) {
            let reason = format!("invalid value {vlan} for vlan: expected 0 to {MAX_VLAN}");
            return Err(ApiError::invalid("query", reason, "name a VLAN, or 0 for addresses without one"));
        }
        let topology = self.topology();
        match (&wanted.bridge, &wanted.port) {
            (Some(name), _) if topology.bridges.iter().all(|bridge| bridge.name != *name) => {
                let remedy = "see `linerate bridges show`";
                Err(ApiError::not_found(format!("bridge \"{name}\""), "there is no such bridge", remedy))
            }
            (_, Some(name)) if !is_port(&topology, name) => Err(no_port(name)),
            _ => Ok(()),
        }
    }
}

/// Number of workers of each role, in a pipeline.
fn roles(now: &Snapshot) -> BTreeMap<String, usize> {
    let mut roles = BTreeMap::new();
    for worker in &now.workers {
        *roles.entry(worker.role.clone()).or_default() += 1;
    }
    if roles.len() < 2 { BTreeMap::new() } else { roles }
}

/// Whether addresses can be at a port or bond of this name.
fn is_port(topology: &Topology, name: &str) -> bool {
    topology.ports.iter().any(|port| port.name == name) || topology.bonds.iter().any(|bond| bond.name == name)
}

fn no_bond(name: &str) -> ApiError {
    let remedy = "see `linerate bonds show`";
    ApiError::not_found(format!("bond \"{name}\""), "there is no such bond", remedy)
}

fn no_port(name: &str) -> ApiError {
    let remedy = "see `linerate ports show`";
    ApiError::not_found(format!("port \"{name}\""), "there is no such port", remedy)
}
