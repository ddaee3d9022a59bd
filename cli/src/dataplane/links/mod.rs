//! Protocols between neighbours: runs the spanning trees of bridges (`tree`), multicast snooping (`multicast`), LLDP
//! (`discovery`), and the timers of bonds, whose events are handled where they arrive.
//!
//! One thread gets links and protocol frames from the engine's control thread, and the time. It publishes states of
//! ports to the workers, flushes addresses, and sends frames through the engine. It starts with the first port that has
//! a protocol, or the first bond. Neither the engine's control thread nor a worker waits for it, and what waits for it
//! is bounded for each port.

mod discovery;
mod multicast;
mod tree;

use super::link_report::{NeighborsReport, StpPortReport, StpReport};
use super::multicast_report::MulticastReport;
use crate::settings::topology::{PortSettings, Topology};
use bridge::{LinkEvent, Switch};
use discovery::Discovery;
use engine::{Engine, Injector, Now};
use flow::FlowSwitch;
use multicast::Multicast;
use port::{Context, PortId};
use rstp::PortConfig;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tree::Tree;

/// Frames that wait for the thread at most. Workers pass on 50 a second of each port.
const MAX_WAITING: usize = 1024;
/// Shortest wait for a timer, which bounds the work of many timers.
const PAUSE: Duration = Duration::from_millis(1);
/// Membership messages that wait for the thread at most: few, so that the other frames do not wait for them.
const MAX_MEMBERSHIPS: usize = 512;

/// The protocols of all bridges.
pub(super) struct Links {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// State of the protocols, for the thread and for reports.
struct Shared {
    protocols: Mutex<Protocols>,
    environment: Environment,
    /// Events until the thread takes them.
    waiting: Mutex<Option<Receiver<Event>>>,
    inbox: Arc<Inbox>,
}

/// Where events go. Must not own what ends with the switch, because the switch owns it.
struct Inbox {
    events: Sender<Event>,
    /// Frames that were received and not handled yet.
    frames: AtomicUsize,
    /// The same of membership messages.
    memberships: AtomicUsize,
    /// Whether an event says already that a timer of bonds is due earlier.
    is_due_told: AtomicBool,
}

struct Protocols {
    /// By bridge.
    trees: BTreeMap<String, Tree>,
    /// By bridge.
    multicasts: BTreeMap<String, Multicast>,
    discovery: Discovery,
}

/// Switch, engine and flow tables that the protocols control.
struct Environment {
    switch: Arc<Switch>,
    /// Flow tables of bridges, if there are any.
    flows: Option<Arc<FlowSwitch>>,
    engine: Arc<Engine>,
    injector: Injector,
}

enum Event {
    /// A port of a spanning tree with its bridge.
    AddToTree {
        port: PortId,
        name: String,
        bridge: String,
        config: PortConfig,
    },
    /// A port with LLDP.
    Discover(PortId, Box<PortSettings>),
    /// A port or bond of a bridge with multicast snooping.
    Snoop(PortId, Box<PortSettings>),
    Remove(PortId),
    Link(LinkEvent),
    /// The state was changed by another thread.
    Publish,
    Quit,
}

impl Environment {
    /// Sends a frame on a port, or on the active member of a bond. It is lost if too many wait; the protocols repeat
    /// theirs.
    fn send(&self, port: PortId, frame: Box<[u8]>) {
        if let Some(port) = self.switch.sender(port) {
            let _ = self.injector.inject_at(port, frame, Context::TRANSMIT);
        }
    }
}

/// Counts one more that waits, if fewer than `most` do.
fn has_room(waiting: &AtomicUsize, most: usize) -> bool {
    let has_room = waiting.fetch_add(1, Ordering::Relaxed) < most;
    if !has_room {
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
    has_room
}

impl Inbox {
    fn post(&self, event: Event) {
        // The thread has ended if there is no receiver.
        let _ = self.events.send(event);
    }

    /// Passes an event on to the thread, unless it adds nothing.
    fn pass(&self, event: LinkEvent) {
        let is_passed = match &event {
            LinkEvent::Changed(..) | LinkEvent::Bond(..) => true,
            LinkEvent::Due => !self.is_due_told.swap(true, Ordering::Relaxed),
            LinkEvent::Received(..) => has_room(&self.frames, MAX_WAITING),
            LinkEvent::Membership(..) => has_room(&self.memberships, MAX_MEMBERSHIPS),
        };
        if is_passed {
            self.post(Event::Link(event));
        }
    }
}

impl Shared {
    /// Time of all protocols.
    fn now(&self) -> Duration {
        Duration::from_nanos(self.environment.engine.now().0)
    }

    /// A poisoned lock is valid: the state of a protocol is whole between two of its functions.
    fn protocols(&self) -> MutexGuard<'_, Protocols> {
        self.protocols.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs timers. Returns the time until the next call; `None` if no timer runs.
    fn tick(&self) -> Option<Duration> {
        let now = self.now();
        let bonds = self.environment.switch.run_bonds(Now(now.as_nanos() as u64));
        let bonds = bonds.map(|due| Duration::from_nanos(due.0));
        let mut protocols = self.protocols();
        let Protocols { trees, multicasts, discovery } = &mut *protocols;
        let others = discovery.tick(now, &self.environment).into_iter().chain(bonds);
        let trees = trees.iter_mut().filter_map(|(bridge, tree)| {
            let next = tree.tick(now, &self.environment);
            let flushed = tree.take_flushed();
            if let Some(multicast) = multicasts.get_mut(bridge).filter(|_| !flushed.is_empty()) {
                multicast.topology_changed(&flushed, now);
            }
            next
        });
        let due = trees.chain(others).min();
        let multicasts =
            multicasts.values_mut().filter_map(|multicast| multicast.tick(now, &self.environment));
        let due = multicasts.chain(due).min();
        due.map(|at| at.saturating_sub(self.now()).max(PAUSE))
    }

    /// Handles an event. Returns `false` if it is the last one.
    fn handle(&self, event: Event) -> bool {
        let now = self.now();
        let mut protocols = self.protocols();
        let Protocols { trees, multicasts, discovery } = &mut *protocols;
        match event {
            Event::Discover(port, settings) => discovery.add_port(port, &settings),
            Event::Snoop(port, settings) => {
                if let Some(multicast) = multicasts.get_mut(&settings.bridge) {
                    multicast.add_port(port, &settings, now);
                }
            }
            Event::AddToTree { port, name, bridge, config } => {
                if let Some(tree) = trees.get_mut(&bridge) {
                    tree.add_port(port, &name, config, &self.environment);
                }
            }
            Event::Remove(port) => {
                for tree in trees.values_mut() {
                    tree.remove_port(port, &self.environment);
                }
                for multicast in multicasts.values_mut() {
                    multicast.remove_port(port);
                }
                discovery.remove_port(port);
            }
            Event::Link(event) => self.handle_link(&mut protocols, event),
            Event::Publish => {}
            Event::Quit => {
                discovery.leave(&self.environment);
                return false;
            }
        }
        true
    }

    /// Handles a change of a link or a frame.
    fn handle_link(&self, protocols: &mut Protocols, event: LinkEvent) {
        let (now, Protocols { trees, multicasts, discovery }) = (self.now(), protocols);
        match event {
            LinkEvent::Bond(port, is_up) | LinkEvent::Changed(port, is_up) => {
                for tree in trees.values_mut() {
                    tree.set_link(port, is_up, &self.environment);
                }
                for multicast in multicasts.values_mut() {
                    multicast.set_link(port, is_up, now);
                }
                if matches!(event, LinkEvent::Bond(..)) {
                    self.environment.flows.iter().for_each(|flows| flows.set_link(port, is_up));
                } else {
                    discovery.set_link(port, is_up, now);
                }
            }
            LinkEvent::Membership(port, vlan, frame) => {
                self.inbox.memberships.fetch_sub(1, Ordering::Relaxed);
                for multicast in multicasts.values_mut() {
                    multicast.receive(port, vlan, &frame, now);
                }
            }
            LinkEvent::Received(port, frame) => {
                self.inbox.frames.fetch_sub(1, Ordering::Relaxed);
                for tree in trees.values_mut() {
                    tree.receive(port, &frame, &self.environment);
                }
                discovery.receive(port, &frame, now);
            }
            // Timers run after each event.
            LinkEvent::Due => self.inbox.is_due_told.store(false, Ordering::Relaxed),
        }
    }

    fn run(&self) {
        let Some(events) = lock(&self.waiting).take() else { return };
        loop {
            let event = match self.tick() {
                Some(timeout) => events.recv_timeout(timeout),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let goes_on = match event {
                Ok(event) => self.handle(event),
                Err(error) => error == RecvTimeoutError::Timeout,
            };
            if !goes_on {
                return;
            }
        }
    }
}

impl Links {
    /// The protocols of the bridges of `topology`.
    pub(super) fn new(
        topology: &Topology,
        (switch, flows): (Arc<Switch>, Option<Arc<FlowSwitch>>),
        engine: Arc<Engine>,
    ) -> Self {
        let now = Duration::from_nanos(engine.now().0);
        let trees = topology.bridges.iter().filter_map(|bridge| {
            let tree = Tree::new(&topology.switch.name, bridge, now)?;
            Some((bridge.name.clone(), tree))
        });
        let multicasts = topology
            .bridges
            .iter()
            .filter_map(|bridge| Some((bridge.name.clone(), Multicast::new(&topology.switch.name, bridge)?)));
        let (trees, multicasts) = (trees.collect(), multicasts.collect());
        let protocols = Protocols { trees, multicasts, discovery: Discovery::new(&topology.switch) };
        let (events, waiting) = channel();
        let (frames, memberships) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let inbox = Inbox { events, frames, memberships, is_due_told: AtomicBool::new(false) };
        let injector = engine.injector();
        let shared = Shared {
            protocols: Mutex::new(protocols),
            environment: Environment { switch, flows, engine, injector },
            waiting: Mutex::new(Some(waiting)),
            inbox: Arc::new(inbox),
        };
        Self { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// Whether a bridge has a spanning tree.
    pub(super) fn has_tree(&self, bridge: &str) -> bool {
        self.shared.protocols().trees.contains_key(bridge)
    }

    /// Adds a port or bond that is on its bridge, before it starts.
    pub(super) fn add_port(
        &self,
        port: PortId,
        settings: &PortSettings,
        config: PortConfig,
    ) -> std::io::Result<()> {
        let (has_tree, has_lldp) = (self.has_tree(&settings.bridge), settings.links.lldp);
        if has_tree || has_lldp {
            self.start()?;
        }
        self.snoop(port, settings)?;
        if has_tree {
            let (name, bridge) = (settings.name.clone(), settings.bridge.clone());
            self.post(Event::AddToTree { port, name, bridge, config });
        }
        if has_lldp {
            self.post(Event::Discover(port, Box::new(settings.clone())));
        }
        Ok(())
    }

    /// Adds a port or bond, if its bridge has multicast snooping.
    fn snoop(&self, port: PortId, settings: &PortSettings) -> std::io::Result<()> {
        if self.shared.protocols().multicasts.contains_key(&settings.bridge) {
            self.start()?;
            self.post(Event::Snoop(port, Box::new(settings.clone())));
        }
        Ok(())
    }

    /// Removes a port, if it has a protocol.
    pub(super) fn remove_port(&self, port: PortId) {
        if lock(&self.thread).is_some() {
            self.post(Event::Remove(port));
        }
    }

    /// Starts the thread, unless it runs. Bonds and ports with a protocol need it.
    pub(super) fn start(&self) -> std::io::Result<()> {
        self.start_with(Builder::new())
    }

    fn start_with(&self, thread: Builder) -> std::io::Result<()> {
        let mut running = lock(&self.thread);
        if running.is_some() {
            return Ok(());
        }
        let shared = self.shared.clone();
        *running = Some(thread.name("links".to_owned()).spawn(move || shared.run())?);
        let inbox = self.shared.inbox.clone();
        self.shared.environment.switch.listen(move |event| inbox.pass(event));
        Ok(())
    }

    fn post(&self, event: Event) {
        self.shared.inbox.post(event);
    }

    /// The spanning tree of a bridge; `None` if it has none.
    pub(super) fn stp(&self, bridge: &str) -> Option<StpReport> {
        self.shared.protocols().trees.get(bridge).map(Tree::report)
    }

    /// States of all ports in spanning trees, by name.
    pub(super) fn stp_ports(&self) -> BTreeMap<String, StpPortReport> {
        self.shared.protocols().trees.values().flat_map(Tree::port_reports).collect()
    }

    /// All bridges with multicast snooping; `names` has the names of ports and bonds.
    pub(super) fn multicast(&self, names: &BTreeMap<u16, String>) -> Vec<MulticastReport> {
        let now = self.shared.now();
        self.shared.protocols().multicasts.values().map(|multicast| multicast.report(names, now)).collect()
    }

    /// Removes memberships of a bridge, VLAN or port, or all. Returns their number.
    pub(super) fn flush_multicast(
        &self,
        bridge: Option<&str>,
        vlan: Option<u16>,
        port: Option<PortId>,
    ) -> usize {
        let mut protocols = self.shared.protocols();
        let bridges = protocols.multicasts.iter_mut();
        let bridges = bridges.filter(|(name, _)| bridge.is_none_or(|bridge| bridge == *name));
        let flushed = bridges.map(|(_, multicast)| multicast.flush(vlan, port)).sum();
        drop(protocols);
        self.post(Event::Publish);
        flushed
    }

    /// Neighbours of all ports with LLDP.
    pub(super) fn neighbors(&self) -> NeighborsReport {
        let now = self.shared.now();
        self.shared.protocols().discovery.report(now)
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Links {
    /// Stops the protocols. Notifies neighbours if the engine still runs.
    pub(super) fn stop(&self) {
        self.post(Event::Quit);
        if let Some(thread) = lock(&self.thread).take() {
            // A panic of the thread was printed already.
            let _ = thread.join();
        }
    }
}

/// A poisoned lock is valid: what it guards changes in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
