//! A bridge with its agent. All tasks of the thread share it; no borrow lives across a wait.

use super::Plane;
use super::change_log::ChangeLog;
use super::handle::Session;
use super::ports::BridgePorts;
use super::status::Controller;
use super::tls::{Tls, TlsError, TlsFiles};
use crate::dataplane::report::OpenflowReport;
use crate::settings::openflow::{FailMode, OpenflowSettings, Target};
use agent::{Agent, Auxiliary, Datapath, Identity, Kind, SessionError, SessionId, SessionReport};
use flow::PortNo;
use flow::tables::Changes;
use openflow::Description;
use port::Punted;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Probe intervals without a controller after which a bridge forwards on its own: silence, a probe without an answer,
/// and one attempt to reconnect.
const PROBES: u32 = 3;
/// Time between two comparisons of the ports.
const PORTS: Duration = Duration::from_millis(500);

/// One bridge.
pub(super) struct Bridge {
    name: String,
    settings: OpenflowSettings,
    plane: Plane,
    controllers: Vec<Rc<Controller>>,
    tls: Option<TlsFiles>,
    state: RefCell<State>,
}

struct State {
    agent: Agent,
    ports: BridgePorts,
    sessions: BTreeMap<SessionId, Rc<Session>>,
    /// Sessions so far.
    opened: u64,
    /// When the ports were compared.
    compared: Option<Instant>,
    /// Since when no controller is connected; `None` while one is.
    alone: Option<Instant>,
    is_standalone: bool,
}

impl State {
    fn add(&mut self, changes: ChangeLog) -> Rc<Session> {
        self.opened += 1;
        let session = Rc::new(Session::new(SessionId(self.opened), changes));
        self.sessions.insert(session.id, session.clone());
        session
    }

    /// Reports ports that were added, changed or removed.
    fn compare_ports(&mut self) {
        self.compared = Some(Instant::now());
        for (reason, port) in self.ports.compare() {
            self.agent.port_changed(reason, &port);
        }
    }

    /// Lets all sessions send what waits.
    fn wake(&self) {
        self.sessions.values().for_each(|session| session.wake());
    }
}

impl Bridge {
    pub(super) fn new(
        name: &str,
        settings: OpenflowSettings,
        plane: Plane,
        controllers: Vec<Rc<Controller>>,
    ) -> Self {
        let id = settings.datapath_id.map_or(0, |id| id.0);
        let identity =
            Identity { probe_interval: settings.probe_interval.0, ..Identity::new(id, description(name)) };
        let state = RefCell::new(State {
            agent: Agent::new(identity),
            ports: BridgePorts::new(name, id, &plane),
            sessions: BTreeMap::new(),
            opened: 0,
            compared: None,
            alone: Some(Instant::now()),
            is_standalone: plane.switch.is_standalone(name),
        });
        let tls = settings.tls.clone().map(TlsFiles::new);
        Self { name: name.to_owned(), settings, plane, controllers, tls, state }
    }

    /// The TLS settings for a connection, from the files as they are now.
    pub(super) fn tls(&self) -> Result<Tls, TlsError> {
        self.tls.as_ref().ok_or(TlsError::Unconfigured)?.current()
    }

    pub(super) fn settings(&self) -> &OpenflowSettings {
        &self.settings
    }

    pub(super) fn controllers(&self) -> &[Rc<Controller>] {
        &self.controllers
    }

    /// Adds the session of a connection to `peer`.
    pub(super) fn open(&self, kind: Kind, peer: &str) -> Rc<Session> {
        let mut state = self.state.borrow_mut();
        let session = state.add(ChangeLog::new(&self.name, peer));
        state.agent.open(session.id, kind, self.plane.now());
        session
    }

    /// Adds the session of an auxiliary connection to `peer`.
    pub(super) fn open_auxiliary(&self, place: Auxiliary, peer: &str) -> Rc<Session> {
        let mut state = self.state.borrow_mut();
        let session = state.add(ChangeLog::new(&self.name, peer));
        state.agent.open_auxiliary(session.id, place, self.plane.now());
        session
    }

    /// Last state of a session; `None` after its end.
    pub(super) fn session(&self, id: SessionId) -> Option<SessionReport> {
        self.state.borrow().agent.sessions().find(|session| session.id == id)
    }

    /// Removes a session. Returns its last state.
    pub(super) fn close(&self, id: SessionId) -> Option<SessionReport> {
        let mut state = self.state.borrow_mut();
        let report = state.agent.sessions().find(|session| session.id == id);
        state.agent.close(id);
        state.sessions.remove(&id);
        state.wake();
        report
    }

    /// Passes received bytes to the agent.
    pub(super) fn receive(&self, id: SessionId, bytes: &[u8]) -> Result<(), SessionError> {
        let mut state = self.state.borrow_mut();
        let State { agent, ports, sessions, .. } = &mut *state;
        let result = agent.receive(id, bytes, ports, self.plane.now());
        let made = std::mem::take(&mut ports.made);
        sessions.get(&id).iter().for_each(|session| session.changes.changed(made, Instant::now()));
        state.wake();
        result
    }

    /// Bytes that a session sends next.
    pub(super) fn output(&self, id: SessionId) -> Vec<u8> {
        self.state.borrow_mut().agent.output(id)
    }

    /// The peer of a session has read a part of much output.
    pub(super) fn progressed(&self, id: SessionId) {
        self.state.borrow_mut().agent.progressed(id);
    }

    /// Whether no message of a session is processed until a part of its output is taken.
    pub(super) fn is_full(&self, id: SessionId) -> bool {
        self.state.borrow().agent.is_full(id)
    }

    /// Whether received messages of a session may wait.
    pub(super) fn waits(&self, id: SessionId) -> bool {
        self.state.borrow().agent.waits(id)
    }

    /// Reports changes that no session has made.
    pub(super) fn changed(&self, changes: &Changes) {
        let mut state = self.state.borrow_mut();
        let tables = state.ports.tables();
        state.agent.changed(changes, &tables, self.plane.now());
        state.wake();
    }

    /// Sends a packet to the controllers.
    pub(super) fn punted(&self, number: PortNo, packet: &Punted) {
        let mut state = self.state.borrow_mut();
        state.agent.punted(number, packet);
        state.wake();
    }

    /// A port has started or stopped.
    pub(super) fn ports_changed(&self) {
        let mut state = self.state.borrow_mut();
        state.compare_ports();
        state.wake();
    }

    /// Checks timeouts, ports, and whether a controller is connected.
    pub(super) fn turn(&self) {
        let mut state = self.state.borrow_mut();
        let (ended, _) = state.agent.tick(self.plane.now());
        for (id, error) in ended {
            state.sessions.get(&id).iter().for_each(|session| session.end(&error.to_string()));
        }
        if state.compared.is_none_or(|at| at.elapsed() >= PORTS) {
            state.compare_ports();
        }
        self.fail_or_recover(&mut state);
        let reports: Vec<_> = state.agent.sessions().collect();
        self.controllers.iter().for_each(|controller| controller.observe(&reports));
        state.sessions.values().for_each(|session| session.changes.turn(Instant::now()));
        state.wake();
    }

    /// Ignores the flow tables after a time without a controller, if the bridge is configured so, until one connects.
    fn fail_or_recover(&self, state: &mut State) {
        if self.settings.fail_mode == FailMode::Secure {
            return;
        }
        let since = *state.alone.get_or_insert_with(Instant::now);
        if state.agent.has_controller() {
            state.alone = None;
        }
        let is_due = since.elapsed() >= self.settings.probe_interval.0 * PROBES;
        let is_standalone = state.alone.is_some() && (is_due || state.is_standalone);
        if is_standalone == state.is_standalone {
            return;
        }
        state.is_standalone = is_standalone;
        // The bridge exists as long as the switch.
        let _ = self.plane.switch.set_standalone(&self.name, is_standalone);
        if is_standalone {
            warn!(bridge = self.name, "no controller is connected: forwards as a learning bridge");
        } else {
            info!(bridge = self.name, "forwards by its flow tables again");
        }
    }

    /// State for the control API.
    pub(super) fn report(&self) -> OpenflowReport {
        let state = self.state.borrow();
        let sessions: Vec<_> = state.agent.sessions().collect();
        OpenflowReport {
            datapath_id: self.settings.datapath_id.map(|id| id.to_string()).unwrap_or_default(),
            management: self.settings.management.as_ref().map(|path| path.display().to_string()),
            standalone: state.is_standalone,
            controllers: self.controllers.iter().map(|controller| controller.report(&sessions)).collect(),
        }
    }
}

/// Answer to description requests.
fn description(name: &str) -> Description {
    Description {
        manufacturer: "linerate".to_owned(),
        hardware: "software switch".to_owned(),
        software: format!("linerate {}", env!("CARGO_PKG_VERSION")),
        serial: "none".to_owned(),
        datapath: name.to_owned(),
    }
}

/// Kind of the sessions of a target, or of the management socket: only controllers that the bridge connects to are
/// primary ones.
pub(super) fn kind(target: Option<&Target>) -> Kind {
    match target {
        Some(target) if target.is_active() => Kind::Controller,
        Some(_) => Kind::Service,
        None => Kind::Management,
    }
}
