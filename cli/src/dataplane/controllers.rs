//! Controllers of OpenFlow bridges: connections, and the events of the data plane that agents report to them.
//!
//! One thread with its own runtime owns all of it: an agent for each bridge (`bridge`), whose switch is `ports`, the
//! tasks that connect and listen (`prepare`, `connect`, `tls`), and the loop of one connection (`session`), which others
//! reach by its `handle`. `status` is the state of a controller for reports and the log, `change_log` the changes of a
//! session for the log. The agent bounds the cost of one request, and other sessions have their turn after it; neither
//! the control API nor a worker waits for this thread.
//!
//! Connections are bounded: [`connect::MAX_SESSIONS`] for each socket that listens, and one for each controller that is
//! connected to. Memory and work for a connection are bounded by the agent.

mod bridge;
mod change_log;
mod connect;
mod handle;
mod ports;
mod prepare;
mod session;
mod status;
mod tls;

use super::report::OpenflowReport;
use crate::settings::openflow::OpenflowSettings;
use crate::settings::wrappers::queues::LiveQueue;
use bridge::Bridge;
use connect::Listener;
use console::Diagnostic;
use engine::PortSnapshot;
use flow::FlowSwitch;
use flow::tables::Changes;
use port::{Now, PortId};
pub(super) use ports::{port_bits, port_config};
use prepare::Prepared;
use status::Controller;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, oneshot};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::MissedTickBehavior;

/// Time between two checks of timeouts, ports and controllers.
const TURN: Duration = Duration::from_millis(100);
/// Calls of [`FlowSwitch::expire`] in one check, of 1024 flows each.
const MAX_EXPIRIES: usize = 64;

/// Reads the ports of the engine.
pub(super) type LivePorts = Arc<dyn Fn() -> Vec<PortSnapshot> + Send + Sync>;

/// Reads the running queues of a port.
pub(super) type LiveQueues = Arc<dyn Fn(PortId) -> Vec<LiveQueue> + Send + Sync>;

/// State of the bridges, by name; at most [`TURN`] old.
type Reports = Arc<Mutex<BTreeMap<String, OpenflowReport>>>;

/// The switch and its clock, which all bridges share.
#[derive(Clone)]
pub(super) struct Plane {
    pub(super) switch: Arc<FlowSwitch>,
    pub(super) start: Instant,
    /// Wakes the thread. The switch wakes one only.
    pub(super) events: Arc<Notify>,
    pub(super) live: LivePorts,
    pub(super) queues: LiveQueues,
}

impl Plane {
    /// Time of the flow tables.
    fn now(&self) -> Now {
        Now(self.start.elapsed().as_nanos() as u64)
    }
}

/// The thread of the controllers. Dropping it closes all connections and removes the socket files.
pub(super) struct Controllers {
    reports: Reports,
    close: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Controllers {
    fn drop(&mut self) {
        drop(self.close.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed already.
            let _ = thread.join();
        }
    }
}

impl Controllers {
    /// Listens and starts the thread for these bridges.
    pub(super) fn start(
        bridges: impl Iterator<Item = (String, OpenflowSettings)>,
        plane: Plane,
    ) -> Result<Self, Diagnostic> {
        let prepared = bridges.map(|(name, settings)| Prepared::new(name, settings));
        let prepared = prepared.collect::<Result<Vec<_>, _>>()?;
        let failed =
            |e| Diagnostic::failed("bridges", format!("cannot start a thread: {e}"), "raise its limits");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(failed)?;
        let reports = Reports::default();
        let (close, closed) = oneshot::channel();
        let inputs = Inputs { plane, reports: reports.clone(), closed };
        let thread = std::thread::Builder::new().name("openflow".to_owned());
        let thread = thread.spawn(move || run(runtime, prepared, inputs)).map_err(failed)?;
        Ok(Self { reports, close: Some(close), thread: Some(thread) })
    }

    /// State of a bridge; `None` if it has no flow tables.
    pub(super) fn report(&self, bridge: &str) -> Option<OpenflowReport> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).get(bridge).cloned()
    }
}

/// Messages to the thread.
struct Inputs {
    plane: Plane,
    reports: Reports,
    /// The thread ends when its sender is dropped.
    closed: oneshot::Receiver<()>,
}

/// The thread.
fn run(runtime: Runtime, prepared: Vec<Prepared>, inputs: Inputs) {
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let (mut bridges, mut files) = (BTreeMap::new(), Vec::new());
        for Prepared { name, settings, management, listeners, files: own } in prepared {
            let bridge = start_bridge(&name, settings, &inputs.plane, management, listeners);
            files.extend(own);
            bridges.insert(name, bridge);
        }
        serve(&bridges, inputs).await;
    });
    drop(local);
    // The resolution of a name may still wait for a server.
    runtime.shutdown_background();
}

/// Starts the tasks of a bridge.
fn start_bridge(
    name: &str,
    settings: OpenflowSettings,
    plane: &Plane,
    management: Option<Listener>,
    listeners: Vec<Listener>,
) -> Rc<Bridge> {
    let controllers = settings.controllers.iter().map(|target| Rc::new(Controller::new(name, target)));
    let controllers = controllers.collect();
    let bridge = Rc::new(Bridge::new(name, settings, plane.clone(), controllers));
    if let Some(listener) = management {
        spawn_local(connect::passive(bridge.clone(), None, listener));
    }
    let mut listeners = listeners.into_iter();
    for controller in bridge.controllers() {
        if controller.target.is_active() {
            spawn_local(connect::active(bridge.clone(), controller.clone()));
        } else if let Some(listener) = listeners.next() {
            // Both are in the order of the configuration.
            spawn_local(connect::passive(bridge.clone(), Some(controller.clone()), listener));
        }
    }
    bridge
}

/// Passes events of the data plane to the agents until closed.
async fn serve(bridges: &BTreeMap<String, Rc<Bridge>>, inputs: Inputs) {
    let Inputs { plane, reports, mut closed } = inputs;
    let events = plane.events.clone();
    let waker = events.clone();
    plane.switch.set_waker(move || waker.notify_one());
    let mut timer = tokio::time::interval(TURN);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = &mut closed => return,
            () = events.notified() => {}
            _ = timer.tick() => {
                for _ in 0..MAX_EXPIRIES {
                    let (removed, next) = plane.switch.expire(plane.now());
                    pass_changes(bridges, removed);
                    if next.is_none_or(|next| next > plane.now()) {
                        break;
                    }
                }
                for bridge in bridges.values() {
                    bridge.turn();
                }
                let shown = bridges.iter().map(|(name, bridge)| (name.clone(), bridge.report())).collect();
                *reports.lock().unwrap_or_else(PoisonError::into_inner) = shown;
            }
        }
        pass_events(bridges, &plane);
        plane.switch.serve_underlay(plane.now());
    }
}

/// Passes changes that no session has made to their bridges.
fn pass_changes(
    bridges: &BTreeMap<String, Rc<Bridge>>,
    changes: impl IntoIterator<Item = (String, Changes)>,
) {
    for (name, changes) in changes {
        bridges.get(&name).iter().for_each(|bridge| bridge.changed(&changes));
    }
}

/// Passes changes by the control API, learned flows, packets for controllers, and changed ports to their bridges.
fn pass_events(bridges: &BTreeMap<String, Rc<Bridge>>, plane: &Plane) {
    pass_changes(bridges, plane.switch.take_recorded());
    pass_changes(bridges, plane.switch.learn(plane.now()));
    for packet in plane.switch.take_punted() {
        let Some((name, number)) = plane.switch.number(packet.context.from) else { continue };
        bridges.get(&name).iter().for_each(|bridge| bridge.punted(number, &packet));
    }
    for event in plane.switch.take_port_events() {
        bridges.get(&event.bridge).iter().for_each(|bridge| bridge.ports_changed());
    }
}
