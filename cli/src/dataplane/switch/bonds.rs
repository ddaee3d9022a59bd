//! Bonds of a running switch: their numbers, their members, and the thread that runs their timers.

use super::super::bond_report::{BondState, BucketState, LacpEnd, LacpStatus, MemberLacp, MemberState};
use super::super::convert::{bond_config, member_config, port_config};
use super::super::interface::DataPlaneError;
use super::{Switch, not_running};
use crate::settings::bonds::BondSettings;
use crate::settings::topology::PortSettings;
use bridge::{BondStatistics, MemberConfig, MemberStatistics};
use engine::{Engine, Now};
use lacp::{Endpoint, Mux, Receive, State};
use port::{PortId, Remedy};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest and shortest time between two runs of the timers. Events start timers in between.
const TURN: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(10);

/// A bond that runs.
pub(super) struct Handle {
    id: PortId,
    settings: BondSettings,
}

/// All bonds of a switch.
#[derive(Default)]
pub(super) struct Bonds {
    handles: Mutex<BTreeMap<String, Handle>>,
    timers: Mutex<Option<Timers>>,
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

    /// A port is removed.
    pub(super) fn forget(&self, port: &str) {
        self.handles().values_mut().for_each(|handle| handle.settings.ports.retain(|name| name != port));
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        *self.timers.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Runs timers from now on.
    fn run(&self, engine: &Arc<Engine>, bridges: &Arc<bridge::Switch>) -> std::io::Result<()> {
        let mut timers = self.timers.lock().unwrap_or_else(PoisonError::into_inner);
        match &*timers {
            Some(timers) => {
                // The thread ends after this value.
                let _ = timers.wake.send(());
            }
            None => *timers = Some(Timers::start(engine.clone(), bridges.clone())?),
        }
        Ok(())
    }
}

/// The thread that runs the timers of bonds. Ends when dropped.
struct Timers {
    wake: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Timers {
    fn start(engine: Arc<Engine>, bridges: Arc<bridge::Switch>) -> std::io::Result<Self> {
        let (wake, woken) = channel();
        let thread = std::thread::Builder::new().name("bonds".to_owned());
        let thread = thread.spawn(move || run(&engine, &bridges, &woken))?;
        Ok(Self { wake, thread: Some(thread) })
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        // Closes the channel, which ends the thread. A panic of the thread was printed already.
        self.wake = channel().0;
        self.thread.take().map(JoinHandle::join);
    }
}

fn run(engine: &Engine, bridges: &bridge::Switch, woken: &Receiver<()>) {
    loop {
        let now = engine.now();
        let ended = match bridges.run_bonds(now) {
            None => woken.recv().is_err(),
            Some(Now(due)) => {
                let wait = Duration::from_nanos(due.saturating_sub(now.0)).clamp(PAUSE, TURN);
                woken.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected)
            }
        };
        if ended {
            return;
        }
    }
}

impl Switch {
    /// Adds a bond to its bridge. Its members join when they are added, or with [`Switch::join_members`].
    pub(super) fn create_bond(&self, bond: &BondSettings) -> Result<(), DataPlaneError> {
        let failed = |e: &dyn Remedy| refused(&bond.name, e);
        let id = self.engine.reserve(&bond.name).map_err(|e| failed(&e))?;
        let quota = self.quotas.get(&bond.bridge).copied().flatten();
        let config = bond_config(bond, id);
        let added = self.bridges.add_bond(
            id,
            &bond.bridge,
            &port_config(&PortSettings::of_bond(bond), quota),
            config,
        );
        let run = added.map_err(|e| failed(&e)).and_then(|()| {
            let why = |error| DataPlaneError::Refused(no_thread(&bond.name, &error));
            self.bonds.run(&self.engine, &self.bridges).map_err(why)
        });
        if run.is_err() {
            let _ = self.bridges.remove_bond(id);
            let _ = self.engine.remove_port(id);
            return run;
        }
        self.bonds.handles().insert(bond.name.clone(), Handle { id, settings: bond.clone() });
        Ok(())
    }

    /// Makes running ports members of their bond.
    fn join_members(&self, bond: &BondSettings) -> Result<(), DataPlaneError> {
        let Some((id, _)) = self.bonds.find(&bond.name) else { return Err(not_running(&bond.name)) };
        bond.ports.iter().try_for_each(|name| {
            let port = self.number(name).ok_or_else(|| not_running(name))?;
            let joined = self.bridges.join_bond(port, id, member_config(bond, name), self.engine.now());
            joined.map_err(|e| refused(&bond.name, &e))
        })
    }

    /// Returns the members of a bond to its bridge. `ports` has the settings of the ports.
    fn release_members(&self, bond: &BondSettings, ports: &[PortSettings]) {
        for port in ports.iter().filter(|port| bond.ports.contains(&port.name)) {
            let Some(id) = self.number(&port.name) else { continue };
            if self.bridges.leave_bond(id, self.engine.now()).is_ok() {
                let quota = self.quotas.get(&port.bridge).copied().flatten();
                // The port was on this bridge with this configuration before.
                let _ = self.bridges.add_port(id, &port.bridge, &port_config(port, quota));
            }
        }
    }

    pub(super) fn add_running_bond(
        &self,
        bond: &BondSettings,
        ports: &[PortSettings],
    ) -> Result<(), DataPlaneError> {
        self.create_bond(bond)?;
        self.join_members(bond).inspect_err(|_| {
            // The first error has the cause.
            let _ = self.remove_running_bond(&bond.name, ports);
        })
    }

    pub(super) fn remove_running_bond(
        &self,
        name: &str,
        ports: &[PortSettings],
    ) -> Result<(), DataPlaneError> {
        let Handle { id, settings } = self.bonds.handles().remove(name).ok_or_else(|| not_running(name))?;
        self.release_members(&settings, ports);
        self.bridges.remove_bond(id).map_err(|e| refused(name, &e))?;
        // No port of the engine had the number, which is free from now on.
        let _ = self.engine.remove_port(id);
        Ok(())
    }

    /// Replaces the settings of a bond, except name, bridge and those that ports have as well.
    pub(super) fn change_bond(
        &self,
        bond: &BondSettings,
        ports: &[PortSettings],
    ) -> Result<(), DataPlaneError> {
        let before = match self.bonds.handles().get_mut(&bond.name) {
            Some(handle) => std::mem::replace(&mut handle.settings, bond.clone()),
            None => return Err(not_running(&bond.name)),
        };
        self.release_members(&before, ports);
        let Some((id, _)) = self.bonds.find(&bond.name) else { return Err(not_running(&bond.name)) };
        self.bridges.set_bond(id, bond_config(bond, id)).map_err(|e| refused(&bond.name, &e))?;
        self.join_members(bond)
    }

    /// Number of a running port.
    fn number(&self, name: &str) -> Option<PortId> {
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
        lacp: member.lacp.map(|(receive, mux, actor, partner)| MemberLacp {
            receive: receive_name(receive).to_owned(),
            mux: mux_name(mux).to_owned(),
            actor: end(&actor),
            partner: end(&partner),
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
