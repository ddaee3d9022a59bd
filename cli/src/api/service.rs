//! Handles requests: validates them against the running topology, then calls the data plane. Knows no HTTP.
//!
//! The topology is changed only after the data plane, and both in one turn, so that two requests are never validated
//! against the same state. The topology has what the data plane did even if the request returns an error.

use super::error::ApiError;
use super::inheritance::Inheritance;
use super::model::{BridgeStatus, ConfinementReport, PortReport, Status, Traffic};
use super::peer::Peer;
use super::source::Source;
use super::{hung_step, metrics, policy};
use crate::causes::earlier::Earlier;
use crate::dataplane::bond_changes::BondChanges;
use crate::dataplane::health::{HealthReport, Progress, ReadyReport};
use crate::dataplane::interface::{DataPlane, DataPlaneError};
use crate::dataplane::link_report::NeighborsReport;
use crate::dataplane::offload_report::OffloadReport;
use crate::dataplane::open;
use crate::dataplane::rate_history::RateHistory;
use crate::dataplane::report::BridgeReport;
use crate::event_log::EventLog;
use crate::grant::GrantRequest;
use crate::settings::config;
use crate::settings::kinds::PortKind;
use crate::settings::kinds::granted::{Granted, Holder};
use crate::settings::kinds::kind::Loaded;
use crate::settings::needs::Kept;
use crate::settings::reader::notes::shortened;
use crate::settings::topology::{BridgeSettings, PortSettings, Topology};
use console::Diagnostic;
use engine::Snapshot;
use rustix::fd::OwnedFd;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// The running switch behind the API.
pub(crate) struct ApiService {
    topology: Mutex<Topology>,
    /// The turn of a request that changes the topology, and whether one may. Locked before the topology.
    changes: Mutex<Turn>,
    /// The file of the topology; `None` if it has none. Locked after the topology.
    source: Mutex<Option<Source>>,
    /// Held while a file is read.
    loading: Mutex<()>,
    /// What a process inherits that takes the switch over; `None` if there can be none.
    inheritance: Option<Inheritance>,
    control: PathBuf,
    data_plane: Box<dyn DataPlane>,
    health: Mutex<(Progress, HealthReport)>,
    /// What the process keeps for ports; `None`: everything.
    kept: Option<Kept>,
    confinement: Option<ConfinementReport>,
    bond_changes: Mutex<BondChanges>,
    pub(super) history: Mutex<RateHistory>,
    /// Readings that findings are compared with.
    pub(super) earlier: Mutex<Earlier>,
    events: Arc<EventLog>,
    /// Number of grants so far.
    granted: AtomicU64,
    stop: Box<dyn Fn() + Send + Sync>,
}

/// Whether requests may change the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    /// One at a time may.
    #[default]
    Free,
    /// None may: another process takes over.
    Upgrade,
    /// None may: another process has taken over.
    Replaced,
    /// None may: the process ends.
    End,
}

impl Turn {
    fn admit(self) -> Result<(), ApiError> {
        let refused = |reason, remedy| Err(ApiError::Conflict(Diagnostic::bad("switch", reason, remedy)));
        match self {
            Self::Free => Ok(()),
            Self::Upgrade | Self::Replaced => {
                refused("another process takes the switch over", "try again when the upgrade has ended")
            }
            Self::End => refused("the switch ends", "start it again"),
        }
    }
}

/// The topology during a change. Dereferences to it.
pub(super) struct Change<'a> {
    topology: MutexGuard<'a, Topology>,
    _turn: MutexGuard<'a, Turn>,
}

impl Deref for Change<'_> {
    type Target = Topology;

    fn deref(&self) -> &Topology {
        &self.topology
    }
}

impl DerefMut for Change<'_> {
    fn deref_mut(&mut self) -> &mut Topology {
        &mut self.topology
    }
}

/// Refuses changes until it is dropped, or for ever ([`Unchanged::replaced`]).
pub(super) struct Unchanged<'a>(&'a ApiService);

impl Unchanged<'_> {
    /// Refuses changes for ever, because another process has taken over.
    pub(super) fn replaced(self) {
        *self.0.turn() = Turn::Replaced;
        std::mem::forget(self);
    }
}

impl Drop for Unchanged<'_> {
    fn drop(&mut self) {
        *self.0.turn() = Turn::Free;
    }
}

/// How long the end of the process waits for a request that changes the switch: longer than another process may need to
/// confirm that the ports run there.
const END: Duration = Duration::from_secs(8);

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
            changes: Mutex::default(),
            source: Mutex::default(),
            loading: Mutex::default(),
            inheritance: None,
            control,
            data_plane,
            health: Mutex::default(),
            kept: None,
            confinement: None,
            bond_changes: Mutex::default(),
            history: Mutex::default(),
            earlier: Mutex::default(),
            events: Arc::default(),
            granted: AtomicU64::new(0),
            stop: Box::new(stop),
        }
    }

    /// Names the file of the topology.
    #[must_use]
    pub(crate) fn with_source(self, source: Source) -> Self {
        Self { source: Mutex::new(Some(source)), ..self }
    }

    /// Lets another process take the switch over.
    #[must_use]
    pub(crate) fn with_inheritance(self, inheritance: Inheritance) -> Self {
        Self { inheritance: Some(inheritance), ..self }
    }

    pub(crate) fn inheritance(&self) -> Option<&Inheritance> {
        self.inheritance.as_ref()
    }

    /// Names what the process keeps for ports, and what is in force.
    #[must_use]
    pub(crate) fn confined(self, kept: Option<Kept>, confinement: Option<ConfinementReport>) -> Self {
        Self { kept, confinement, ..self }
    }

    /// Refuses a port for which the process gave up what it needs.
    pub(super) fn can_open(&self, port: &PortSettings) -> Result<(), ApiError> {
        let refusal = self.kept.and_then(|kept| kept.refusal(port));
        refusal.map_or(Ok(()), |error| Err(ApiError::Forbidden(error)))
    }

    /// Has the API read `events`.
    #[must_use]
    pub(crate) fn with_events(self, events: Arc<EventLog>) -> Self {
        Self { events, ..self }
    }

    /// A poisoned lock is valid: the source changes in one step.
    pub(super) fn source(&self) -> MutexGuard<'_, Option<Source>> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The topology, to be changed by one request at a time.
    ///
    /// # Errors
    /// Another process takes the switch over.
    pub(super) fn change(&self) -> Result<Change<'_>, ApiError> {
        let turn = self.turn();
        turn.admit()?;
        Ok(Change { topology: self.topology(), _turn: turn })
    }

    /// Refuses a change beside the topology while another process takes the switch over.
    pub(super) fn may_change(&self) -> Result<(), ApiError> {
        self.turn().admit()
    }

    /// Refuses requests to change the topology, which can still be read.
    ///
    /// # Errors
    /// Another process takes the switch over already.
    pub(super) fn keep_unchanged(&self) -> Result<Unchanged<'_>, ApiError> {
        let mut turn = self.turn();
        turn.admit()?;
        *turn = Turn::Upgrade;
        Ok(Unchanged(self))
    }

    /// Lets no request change the switch any more, because the process ends. An upgrade whose successor does not have
    /// the ports yet is ended.
    ///
    /// # Errors
    /// A request still changes the switch after a limit.
    pub(crate) fn end_changes(&self) -> Result<(), Diagnostic> {
        let until = Instant::now() + END;
        loop {
            // Again, if an upgrade was taken back meanwhile.
            self.inheritance.iter().for_each(Inheritance::refuse);
            if let Some(mut turn) = self.try_turn().filter(|turn| **turn != Turn::Upgrade) {
                if *turn == Turn::Free {
                    *turn = Turn::End;
                }
                return Ok(());
            }
            if Instant::now() > until {
                let remedy = "end the process with SIGKILL if it does not end";
                return Err(Diagnostic::failed("switch", "a request that changes it does not end", remedy));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A poisoned lock is valid: the value changes in one step.
    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`ApiService::turn`] without waiting. Returns `None` while a request has the turn, which may hang; an upgrade
    /// does not hold the lock.
    fn try_turn(&self) -> Option<MutexGuard<'_, Turn>> {
        match self.changes.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A panic in another request leaves the topology as it was: it changes in one step.
    pub(super) fn topology(&self) -> MutexGuard<'_, Topology> {
        self.topology.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Path of the control socket.
    pub(super) fn control(&self) -> &Path {
        &self.control
    }

    pub(crate) fn data_plane(&self) -> &dyn DataPlane {
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
            confinement: self.confinement.clone(),
        }
    }

    /// `GET /v1/snapshot`: every counter, read at one moment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.data_plane.snapshot()
    }

    /// `GET /metrics`
    pub(super) fn metrics(&self, format: metrics::Format) -> String {
        let sources = metrics::Sources {
            now: self.snapshot(),
            health: self.health(),
            bridges: self.status().bridges,
            reports: self.bridges(),
            neighbors: self.neighbors(),
            bonds: self.bonds(),
            mirrors: self.mirrors(),
            tunnels: self.data_plane.tunnels(),
            queues: self.queues(),
            multicasts: self.data_plane.multicast(),
            export: self.data_plane.export(),
        };
        metrics::text(&sources, format)
    }

    /// Looks at the workers. Must be called again and again: [`ApiService::health`] is the result of the last call.
    pub(crate) fn observe_health(&self, now: &Snapshot) -> HealthReport {
        self.observe_health_at(now, Instant::now())
    }

    pub(super) fn observe_health_at(&self, now: &Snapshot, time: Instant) -> HealthReport {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.1 = health.0.observe(&now.workers, time);
        for hung in &mut health.1.hung_workers {
            hung.step = hung_step::of(now, hung.worker, self.data_plane.worker_thread(hung.worker));
        }
        health.1.clone()
    }

    /// Logs changes of members of bonds since the last call.
    pub(crate) fn observe_bonds(&self) {
        let bonds = self.data_plane.bonds();
        self.bond_changes.lock().unwrap_or_else(PoisonError::into_inner).observe(&bonds);
    }

    /// The last events.
    pub(super) fn events(&self) -> &EventLog {
        &self.events
    }

    /// `GET /healthz`
    pub(crate) fn health(&self) -> HealthReport {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// `GET /readyz`
    pub(crate) fn readiness(&self) -> ReadyReport {
        ReadyReport::of(&self.data_plane.snapshot())
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
        found.ok_or_else(|| missing("port", name))
    }

    /// `POST /v1/ports`: waits for the disk if the port plays a file; does not block other requests meanwhile.
    pub(crate) fn add_port(&self, json: &Value, peer: &Peer) -> Result<PortReport, ApiError> {
        let running = self.topology().clone();
        let port = config::requests::new_port(json, &running, &self.control)?;
        self.may_add(&port, self.places(peer).as_ref())?;
        let loaded = self.load(&port)?;
        let mut topology = self.change()?;
        // The running topology may have changed while the file was read.
        let port = config::requests::new_port(json, &topology, &self.control)?;
        self.data_plane.add_port(&port, loaded)?;
        topology.ports.push(port.clone());
        drop(topology);
        self.port(&port.name)
    }

    /// Reads the file that `port` plays. One file is read at a time, which limits memory and disk use of requests.
    pub(super) fn load(&self, port: &PortSettings) -> Result<Loaded, ApiError> {
        if port.kind.plays().is_none() {
            return Ok(None);
        }
        let _turn = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        open::load(port).map_err(ApiError::Invalid)
    }

    /// `DELETE /v1/ports/{name}`. A port held by a hung worker is removed too, although the result is an error.
    pub(crate) fn remove_port(&self, name: &str) -> Result<PortSettings, ApiError> {
        let mut topology = self.change()?;
        let index =
            topology.ports.iter().position(|port| port.name == name).ok_or_else(|| missing("port", name))?;
        self.remove_at(&mut topology, index)
    }

    fn remove_at(&self, topology: &mut Topology, index: usize) -> Result<PortSettings, ApiError> {
        let name = topology.ports[index].name.clone();
        let removed = self.data_plane.remove_port(&name);
        if let Err(refused @ DataPlaneError::Refused(_)) = removed {
            return Err(refused.into());
        }
        let port = topology.ports[index].clone();
        topology.forget_port(&name);
        removed?;
        Ok(port)
    }

    /// Adds a port for the application `holder`, on the connection to it, if a `[[grant]]` section allows it. Returns
    /// the grant.
    pub(crate) fn grant(
        &self,
        request: &GrantRequest,
        holder: Holder,
        socket: OwnedFd,
    ) -> Result<Granted, ApiError> {
        let mut topology = self.change()?;
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
        let mut topology = self.change()?;
        let is_own = |port: &PortSettings| port.kind == PortKind::Granted(*granted);
        match topology.ports.iter().position(is_own) {
            Some(index) => self.remove_at(&mut topology, index).map(drop),
            None => Ok(()),
        }
    }

    /// `POST /v1/shutdown`: refused while another process takes over, which would be left without its sockets.
    pub(crate) fn shutdown(&self) -> Result<(), ApiError> {
        let turn = self.try_turn().map(|turn| *turn);
        if matches!(turn, Some(Turn::Upgrade | Turn::Replaced)) {
            let (reason, remedy) = ("another process takes the switch over", "wait for the upgrade to end");
            return Err(ApiError::Conflict(Diagnostic::bad("switch", reason, remedy)));
        }
        self.stop();
        Ok(())
    }

    /// Ends the process.
    pub(super) fn stop(&self) {
        (self.stop)();
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

/// The error for the name of a `noun`, such as `port`, that does not exist.
pub(super) fn missing(noun: &str, name: &str) -> ApiError {
    let (reason, remedy) = (format!("there is no such {noun}"), format!("see `linerate {noun}s show`"));
    ApiError::not_found(format!("{noun} \"{}\"", shortened(name)), reason, remedy)
}
