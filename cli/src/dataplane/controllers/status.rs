//! State of a controller: for reports, and for the log, which has a line for each change, within [`LogLimit`].

use crate::dataplane::log_limit::LogLimit;
use crate::dataplane::report::{ControllerReport, ControllerState};
use crate::settings::openflow::Target;
use agent::{SessionId, SessionReport};
use openflow::Role;
use std::cell::RefCell;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// A controller of the configuration: one that the bridge connects to, or an address at which it listens.
pub(super) struct Controller {
    bridge: String,
    pub(super) target: Target,
    state: RefCell<State>,
}

struct State {
    phase: ControllerState,
    since: Instant,
    /// When the bridge connects next.
    next: Option<Instant>,
    sessions: Vec<SessionId>,
    /// Those that have agreed on a version.
    greeted: Vec<SessionId>,
    last_error: Option<String>,
    limit: LogLimit,
}

impl State {
    fn enter(&mut self, phase: ControllerState) {
        if self.phase != phase {
            (self.phase, self.since) = (phase, Instant::now());
        }
    }

    /// The number of lines that were left out before this one; `None` if this one must not be written.
    fn admitted(&mut self) -> Option<u64> {
        self.limit.admit(Instant::now())
    }
}

impl Controller {
    pub(super) fn new(bridge: &str, target: &Target) -> Self {
        let is_active = target.is_active();
        let state = State {
            phase: if is_active { ControllerState::Connecting } else { ControllerState::Listening },
            since: Instant::now(),
            next: None,
            sessions: Vec::new(),
            greeted: Vec::new(),
            last_error: None,
            limit: LogLimit::default(),
        };
        Self { bridge: bridge.to_owned(), target: target.clone(), state: RefCell::new(state) }
    }

    /// An attempt to connect begins.
    pub(super) fn connecting(&self) {
        let mut state = self.state.borrow_mut();
        state.next = None;
        state.enter(ControllerState::Connecting);
    }

    /// The next attempt begins after `pause`.
    pub(super) fn pausing(&self, pause: Duration) {
        let mut state = self.state.borrow_mut();
        state.next = Some(Instant::now() + pause);
        state.enter(ControllerState::Waiting);
    }

    /// There is no connection, for `reason`. A reason that repeats is logged once.
    pub(super) fn failed(&self, reason: &str) {
        let mut state = self.state.borrow_mut();
        if state.last_error.as_deref() != Some(reason)
            && let Some(left_out) = state.admitted()
        {
            warn!(bridge = self.bridge, controller = %self.target, left_out = shown(left_out), reason, "not connected");
        }
        state.last_error = Some(reason.to_owned());
    }

    /// A connection has a session.
    pub(super) fn opened(&self, id: SessionId) {
        self.state.borrow_mut().sessions.push(id);
    }

    /// A session has ended, for `reason`. `last` is its last state.
    pub(super) fn closed(&self, id: SessionId, last: Option<&SessionReport>, reason: &str) {
        if let Some(last) = last {
            self.observe(std::slice::from_ref(last));
        }
        let mut state = self.state.borrow_mut();
        state.sessions.retain(|other| *other != id);
        let is_greeted = state.greeted.contains(&id);
        state.greeted.retain(|other| *other != id);
        if !is_greeted {
            drop(state);
            return self.failed(reason);
        }
        state.last_error = Some(reason.to_owned());
        if state.greeted.is_empty() && !self.target.is_active() {
            state.enter(ControllerState::Listening);
        }
        if let Some(left_out) = state.admitted() {
            info!(bridge = self.bridge, controller = %self.target, left_out = shown(left_out), reason, "disconnected");
        }
    }

    /// Compares the sessions of the bridge with those seen before.
    pub(super) fn observe(&self, sessions: &[SessionReport]) {
        let mut state = self.state.borrow_mut();
        for session in sessions {
            let Some(version) = session.version.filter(|_| state.sessions.contains(&session.id)) else {
                continue;
            };
            if !state.greeted.contains(&session.id) {
                state.greeted.push(session.id);
                state.enter(ControllerState::Connected);
                if let Some(left_out) = state.admitted() {
                    info!(bridge = self.bridge, controller = %self.target, left_out = shown(left_out), %version, "connected");
                }
            }
        }
    }

    /// State for the control API.
    pub(super) fn report(&self, sessions: &[SessionReport]) -> ControllerReport {
        let state = self.state.borrow();
        let mut own = sessions.iter().filter(|session| state.greeted.contains(&session.id));
        let first = own.next();
        let is_own = |session: &&SessionReport| {
            let main = session.auxiliary.map(|auxiliary| auxiliary.main);
            main.is_some_and(|main| state.greeted.contains(&main)) && session.version.is_some()
        };
        let auxiliary = || sessions.iter().filter(is_own);
        let all = || first.into_iter().chain(auxiliary());
        let until = |at: Instant| at.saturating_duration_since(Instant::now());
        ControllerReport {
            target: self.target.to_string(),
            state: state.phase,
            seconds: state.since.elapsed().as_secs(),
            retry_in: state.next.map(|at| until(at).as_secs_f64().ceil() as u64),
            sessions: state.greeted.len(),
            role: first.map(|session| role(session.role).to_owned()),
            version: first.and_then(|session| session.version).map(|version| version.to_string()),
            received: all().map(|session| session.counters.received).sum(),
            sent: all().map(|session| session.counters.sent).sum(),
            auxiliary: auxiliary().count(),
            discarded: all().map(|session| session.counters.discarded).sum(),
            last_error: state.last_error.clone(),
        }
    }
}

/// A number that is left out of a line if it is 0.
fn shown(left_out: u64) -> Option<u64> {
    (left_out > 0).then_some(left_out)
}

fn role(role: Role) -> &'static str {
    match role {
        Role::NoChange | Role::Equal => "equal",
        Role::Primary => "primary",
        Role::Secondary => "secondary",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::{Counters, Kind};
    use openflow::Version;

    fn session(id: u64, version: Option<Version>) -> SessionReport {
        let (kind, counters) = (Kind::Controller, Counters::default());
        SessionReport { id: SessionId(id), kind, auxiliary: None, version, role: Role::Primary, counters }
    }

    #[test]
    fn a_controller_is_connected_once_a_version_is_agreed_on() {
        let controller = Controller::new("br0", &"tcp:192.0.2.1".parse().unwrap());
        let state = |sessions: &[SessionReport]| controller.report(sessions);
        assert_eq!(state(&[]).state, ControllerState::Connecting);
        controller.opened(SessionId(1));
        let (before, after) =
            ([session(1, None)], [session(1, Some(Version::V13)), session(2, Some(Version::V10))]);
        controller.observe(&before);
        assert_eq!(state(&before).state, ControllerState::Connecting);
        controller.observe(&after);
        let report = state(&after);
        assert_eq!((report.state, report.sessions), (ControllerState::Connected, 1));
        assert_eq!(
            (report.role.as_deref(), report.version.as_deref()),
            (Some("primary"), Some("OpenFlow 1.3"))
        );
        controller.closed(SessionId(1), Some(&after[0]), "gone");
        controller.pausing(Duration::from_secs(2));
        let report = state(&[]);
        assert_eq!((report.state, report.sessions, report.retry_in), (ControllerState::Waiting, 0, Some(2)));
        assert_eq!(report.last_error.as_deref(), Some("gone"));
    }
}
