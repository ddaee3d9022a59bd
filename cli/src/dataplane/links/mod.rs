//! Protocols between neighbours: runs the spanning trees of bridges (`tree`) and LLDP (`discovery`).
//!
//! One thread gets links and protocol frames from the engine's control thread, and the time. It publishes states of ports
//! to the workers, flushes addresses, and sends frames through the engine. It starts with the first port that has a
//! protocol. Neither the engine's control thread nor a worker waits for it, and waiting frames are bounded.

mod discovery;
mod tree;

use super::link_report::{NeighborsReport, StpPortReport, StpReport};
use crate::settings::topology::{PortSettings, Topology};
use bridge::{LinkEvent, Switch};
use discovery::Discovery;
use engine::Injector;
use port::{Context, PortId};
use rstp::PortConfig;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tree::Tree;

/// Frames that wait for the thread at most. Workers pass on 50 a second of each port.
const MAX_WAITING: usize = 1024;

/// The protocols of all bridges.
pub(super) struct Links {
    shared: Arc<Shared>,
    events: Sender<Event>,
    /// Events until the thread has started.
    waiting: Mutex<Option<Receiver<Event>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// State of the protocols, for the thread and for reports.
struct Shared {
    protocols: Mutex<Protocols>,
    outside: Outside,
    /// Frames that were received and not handled yet.
    frames: Arc<AtomicUsize>,
    start: Instant,
}

struct Protocols {
    /// By bridge.
    trees: BTreeMap<String, Tree>,
    discovery: Discovery,
}

/// What the protocols act on.
struct Outside {
    switch: Arc<Switch>,
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
    Remove(PortId),
    Link(LinkEvent),
    Quit,
}

impl Outside {
    /// Sends a frame on a port. It is lost if too many wait; the protocols repeat theirs.
    fn send(&self, port: PortId, frame: Box<[u8]>) {
        let _ = self.injector.inject_at(port, frame, Context::TRANSMIT);
    }
}

impl Shared {
    /// Time since the start, of all protocols.
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// A poisoned lock is valid: the state of a protocol is whole between two of its functions.
    fn protocols(&self) -> MutexGuard<'_, Protocols> {
        self.protocols.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs timers. Returns the time until the next call; `None` if no timer runs.
    fn tick(&self) -> Option<Duration> {
        let now = self.now();
        let mut protocols = self.protocols();
        let Protocols { trees, discovery } = &mut *protocols;
        let discovery = discovery.tick(now, &self.outside);
        let due = trees.values_mut().filter_map(|tree| tree.tick(now, &self.outside)).chain(discovery).min();
        due.map(|at| at.saturating_sub(self.now()))
    }

    /// Handles an event. Returns `false` if it is the last one.
    fn handle(&self, event: Event) -> bool {
        let now = self.now();
        let mut protocols = self.protocols();
        let Protocols { trees, discovery } = &mut *protocols;
        match event {
            Event::Discover(port, settings) => discovery.add_port(port, &settings),
            Event::AddToTree { port, name, bridge, config } => {
                if let Some(tree) = trees.get_mut(&bridge) {
                    tree.add_port(port, &name, config, &self.outside);
                }
            }
            Event::Remove(port) => {
                for tree in trees.values_mut() {
                    tree.remove_port(port, &self.outside);
                }
                discovery.remove_port(port);
            }
            Event::Link(LinkEvent::Changed(port, is_up)) => {
                for tree in trees.values_mut() {
                    tree.set_link(port, is_up, &self.outside);
                }
                discovery.set_link(port, is_up, now);
            }
            Event::Link(LinkEvent::Received(port, frame)) => {
                self.frames.fetch_sub(1, Ordering::Relaxed);
                for tree in trees.values_mut() {
                    tree.receive(port, &frame, &self.outside);
                }
                discovery.receive(port, &frame, now);
            }
            Event::Quit => {
                discovery.leave(&self.outside);
                return false;
            }
        }
        true
    }

    fn run(&self, events: &Receiver<Event>) {
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
    pub(super) fn new(topology: &Topology, switch: Arc<Switch>, injector: Injector) -> Self {
        let start = Instant::now();
        let trees = topology.bridges.iter().filter_map(|bridge| {
            let tree = Tree::new(&topology.switch.name, bridge, Duration::ZERO)?;
            Some((bridge.name.clone(), tree))
        });
        let outside = Outside { switch, injector };
        let protocols = Protocols { trees: trees.collect(), discovery: Discovery::new(&topology.switch) };
        let shared = Shared { protocols: Mutex::new(protocols), outside, frames: Arc::default(), start };
        let (events, waiting) = channel();
        Self {
            shared: Arc::new(shared),
            events,
            waiting: Mutex::new(Some(waiting)),
            thread: Mutex::default(),
        }
    }

    /// Whether a bridge has a spanning tree.
    pub(super) fn has_tree(&self, bridge: &str) -> bool {
        self.shared.protocols().trees.contains_key(bridge)
    }

    /// Adds a port that is on its bridge, before it starts.
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
        if has_tree {
            let (name, bridge) = (settings.name.clone(), settings.bridge.clone());
            self.post(Event::AddToTree { port, name, bridge, config });
        }
        if has_lldp {
            self.post(Event::Discover(port, Box::new(settings.clone())));
        }
        Ok(())
    }

    /// Removes a port, if it has a protocol.
    pub(super) fn remove_port(&self, port: PortId) {
        if lock(&self.thread).is_some() {
            self.post(Event::Remove(port));
        }
    }

    /// Starts the thread, unless it runs.
    fn start(&self) -> std::io::Result<()> {
        let mut waiting = lock(&self.waiting);
        let Some(events) = waiting.take() else { return Ok(()) };
        let (frames, sender) = (self.shared.frames.clone(), self.events.clone());
        self.shared.outside.switch.listen(move |event| {
            let is_frame = matches!(event, LinkEvent::Received(..));
            if is_frame && frames.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
                frames.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            // The thread has ended if there is no receiver.
            let _ = sender.send(Event::Link(event));
        });
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name("links".to_owned());
        *lock(&self.thread) = Some(thread.spawn(move || shared.run(&events))?);
        Ok(())
    }

    fn post(&self, event: Event) {
        // The thread has ended if there is no receiver.
        let _ = self.events.send(event);
    }

    /// The spanning tree of a bridge; `None` if it has none.
    pub(super) fn stp(&self, bridge: &str) -> Option<StpReport> {
        self.shared.protocols().trees.get(bridge).map(Tree::report)
    }

    /// States of all ports in spanning trees, by name.
    pub(super) fn stp_ports(&self) -> BTreeMap<String, StpPortReport> {
        self.shared.protocols().trees.values().flat_map(Tree::port_reports).collect()
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
    /// Ends the protocols. Neighbours are told, if the engine still runs.
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
