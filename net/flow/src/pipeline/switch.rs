//! Control API: bridges, their ports, and changes of their tables.
//!
//! Operations may wait for other control operations, and never for a worker.

use super::directory::{Bridge, Counts, Directory, Member, Place, View};
use super::drops::TableDrops;
use super::exchange::{Exchange, PortEvent, lock};
use super::worker::Worker;
use crate::action::{Action, Instructions};
use crate::modify::PortNo;
use crate::tables::{Changes, Control, Modification, ModificationError, Tables};
use crate::trace::{Trace, TracedPacket, trace};
use conntrack::{Config, Listed, Tracker};
use port::{Now, Pipeline, Pipelines, PortId, PortObserver, Published, Punted, Remedy};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

/// Packets for controllers that wait for [`FlowSwitch::take_punted`].
const MAX_PUNTED: usize = 1024;

/// No OpenFlow bridge has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no OpenFlow bridge \"{0}\"")]
pub struct UnknownBridge(pub String);

/// Why a bridge is not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddBridgeError {
    /// The name is in use.
    #[error("there is an OpenFlow bridge \"{0}\" already")]
    Exists(String),
    /// No further number is free.
    #[error("there are too many OpenFlow bridges for \"{0}\"")]
    TooMany(String),
}

/// Why a port is not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddPortError {
    /// See [`UnknownBridge`].
    #[error(transparent)]
    Bridge(#[from] UnknownBridge),
    /// It is on a bridge.
    #[error("port {0:?} is on an OpenFlow bridge already")]
    Member(PortId),
    /// The number is in use, 0, or reserved.
    #[error("number {0} of bridge \"{1}\" is in use, or not one of a port")]
    Number(u32, String),
}

impl Remedy for AddPortError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        let remedy = match self {
            Self::Bridge(_) => "name a bridge with `pipeline = \"openflow\"`",
            Self::Member(_) => "remove it from its bridge first",
            Self::Number(..) => "choose another number, from 1 to 4294967040",
        };
        Some(remedy.into())
    }
}

/// Why changes of tables are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// See [`UnknownBridge`].
    #[error(transparent)]
    Bridge(#[from] UnknownBridge),
    /// The change at this position is not valid.
    #[error("change {0}: {1}")]
    Invalid(usize, ModificationError),
    /// The change at this position has an action that workers do not execute.
    #[error("change {0}: the action `{1}` is not supported")]
    Unsupported(usize, &'static str),
}

/// Packets of a bridge by the place where their result was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// In the head cache, or by the ingress port alone.
    pub head: u64,
    /// In the megaflow cache.
    pub megaflow: u64,
    /// In the tables.
    pub tables: u64,
    /// Masks that lookups in the megaflow cache probed: at most 32 for each packet that is not in the head cache.
    pub probes: u64,
    /// Masks that were removed from the megaflow cache for others.
    pub evicted_masks: u64,
}

/// All OpenFlow bridges of the process. Shared by control and, as [`Pipelines`], by the workers.
pub struct FlowSwitch {
    pub(super) published: Arc<Published<Directory>>,
    /// Serialises changes of the directory.
    changing: Arc<Mutex<()>>,
    normal: Arc<dyn Pipelines>,
    punted: Arc<Mutex<VecDeque<Punted>>>,
    pub(super) exchange: Arc<Exchange>,
    tracker: Arc<Tracker>,
}

impl FlowSwitch {
    /// A switch without bridges. `normal` gets the packets of all other ports, and those for the port `NORMAL`.
    pub fn new(normal: Arc<dyn Pipelines>) -> Self {
        Self::with_connections(normal, Config::default())
    }

    /// The same with other limits and timeouts of connections.
    pub fn with_connections(normal: Arc<dyn Pipelines>, connections: Config) -> Self {
        let (published, changing, punted) = (Arc::default(), Arc::default(), Arc::default());
        let (exchange, tracker) = (Arc::new(Exchange::new()), Arc::new(Tracker::new(connections)));
        Self { published, changing, normal, punted, exchange, tracker }
    }

    /// The connections of all bridges.
    pub fn connections(&self, now: Now) -> impl Iterator<Item = Listed> {
        self.tracker.connections(now.0)
    }

    /// Removes all connections, or those of a zone. Returns their number.
    pub fn flush_connections(&self, zone: Option<u16>) -> usize {
        self.tracker.flush(zone)
    }

    /// Sets the function that wakes the caller of [`FlowSwitch::learn`], [`FlowSwitch::take_punted`] and
    /// [`FlowSwitch::take_port_events`], unless it is set. Workers call it, once for everything that was not taken yet;
    /// it must not wait.
    pub fn set_waker(&self, waker: impl Fn() + Send + Sync + 'static) {
        self.exchange.set_waker(Box::new(waker));
    }

    fn change(&self) -> (MutexGuard<'_, ()>, Directory) {
        let changing = lock(&self.changing);
        (changing, Directory::clone(&self.published.current()))
    }

    /// Adds a bridge without ports and flows.
    ///
    /// # Errors
    /// If the name is in use.
    pub fn add_bridge(&self, name: &str) -> Result<(), AddBridgeError> {
        let (_changing, mut directory) = self.change();
        if directory.named(name).is_some() {
            return Err(AddBridgeError::Exists(name.to_owned()));
        }
        let free = directory.bridges.iter().position(Option::is_none).unwrap_or(directory.bridges.len());
        if free >= usize::from(u16::MAX) {
            return Err(AddBridgeError::TooMany(name.to_owned()));
        }
        let mut control = Control::new(RandomState::new().hash_one(free));
        let tables = Published::new(control.seal());
        let control = Mutex::new(control);
        let bridge = Arc::new(Bridge { name: name.to_owned(), control, tables, counts: Counts::default() });
        directory.bridges.resize(directory.bridges.len().max(free + 1), None);
        directory.bridges[free] = Some(View { bridge, ports: BTreeMap::new(), is_standalone: false });
        self.published.publish(Arc::new(directory));
        Ok(())
    }

    /// Removes a bridge with its flows. Its ports are on no OpenFlow bridge then.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn remove_bridge(&self, name: &str) -> Result<(), UnknownBridge> {
        let (_changing, mut directory) = self.change();
        let (number, view) = directory.named(name).ok_or_else(|| UnknownBridge(name.to_owned()))?;
        let ports: Vec<_> = view.ports.values().map(|place| place.port).collect();
        for port in ports {
            directory.set(port, None);
        }
        directory.bridges[usize::from(number)] = None;
        self.published.publish(Arc::new(directory));
        Ok(())
    }

    /// Adds a port to a bridge, with `number` or the lowest free one, which is returned. Workers apply the change from
    /// their next burst on.
    ///
    /// # Errors
    /// If there is no such bridge, or port or number are in use.
    pub fn add_port(
        &self,
        port: PortId,
        bridge: &str,
        number: Option<PortNo>,
    ) -> Result<PortNo, AddPortError> {
        let (_changing, mut directory) = self.change();
        if directory.member(port).is_some() {
            return Err(AddPortError::Member(port));
        }
        let (place, view) = directory.named(bridge).ok_or_else(|| UnknownBridge(bridge.to_owned()))?;
        let free = |number: &PortNo| !view.ports.contains_key(number);
        let number = match number {
            Some(number) => {
                Some(number).filter(|number| number.0 > 0 && *number <= PortNo::MAX && free(number))
            }
            None => (1..=PortNo::MAX.0).map(PortNo).find(free),
        };
        let number = number.ok_or_else(|| AddPortError::Number(0, bridge.to_owned()))?;
        directory.set(port, Some(Member { bridge: place, number }));
        self.published.publish(Arc::new(directory));
        Ok(number)
    }

    /// Removes a port from its bridge, if it is on one.
    pub fn remove_port(&self, port: PortId) {
        let (_changing, mut directory) = self.change();
        if directory.member(port).is_some() {
            directory.set(port, None);
            self.published.publish(Arc::new(directory));
            self.exchange.forget_port(port);
        }
    }

    /// Sets whether a port can send, for groups and liveness. A new port can; the observer of the engine
    /// ([`Pipelines::observer`]) sets it when that changes.
    pub fn set_live(&self, port: PortId, is_live: bool) {
        self.update(port, |place| place.is_live = is_live);
    }

    /// Ports for which it has changed since the last call whether they can send, with their latest state.
    pub fn take_port_events(&self) -> Vec<PortEvent> {
        self.exchange.take_port_events()
    }

    /// Sets whether a port gets flooded packets.
    pub fn set_flooded(&self, port: PortId, is_flooded: bool) {
        self.update(port, |place| place.is_flooded = is_flooded);
    }

    /// Sets whether a bridge ignores its tables: then its packets go to the pipeline of the port `NORMAL`. Its flows stay.
    ///
    /// # Errors
    /// If there is no such bridge.
    pub fn set_standalone(&self, bridge: &str, is_standalone: bool) -> Result<(), UnknownBridge> {
        let (_changing, mut directory) = self.change();
        let named = directory.named(bridge).map(|(number, _)| usize::from(number));
        let number = named.ok_or_else(|| UnknownBridge(bridge.to_owned()))?;
        directory.bridges[number].iter_mut().for_each(|view| view.is_standalone = is_standalone);
        self.published.publish(Arc::new(directory));
        Ok(())
    }

    fn update(&self, port: PortId, change: impl FnOnce(&mut Place)) {
        update((&self.changing, &self.published), port, change);
    }

    /// Executes all changes of a bridge's tables, or none. Workers apply them from their next burst on, all at once.
    ///
    /// # Errors
    /// If a change is not valid.
    pub fn modify(&self, bridge: &str, changes: &[Modification], now: Now) -> Result<Changes, ChangeError> {
        let bridge = self.bridge(bridge)?;
        supported(changes)?;
        let mut control = lock(&bridge.control);
        let done = control.bundle(changes, now).map_err(|(i, error)| ChangeError::Invalid(i, error))?;
        bridge.tables.publish(control.seal());
        Ok(done)
    }

    /// Removes flows whose timeout has passed, of all bridges. Returns what was removed, by bridge, and the time of the
    /// next call.
    pub fn expire(&self, now: Now) -> (Vec<(String, Changes)>, Option<Now>) {
        let (mut removed, mut next) = (Vec::new(), None);
        for bridge in self.published.current().bridges.iter().flatten().map(|view| &view.bridge) {
            let mut control = lock(&bridge.control);
            let changes = control.expire(now);
            if !changes.removed.is_empty() {
                bridge.tables.publish(control.seal());
                removed.push((bridge.name.clone(), changes));
            }
            bridge.tables.collect();
            next = next.into_iter().chain(control.next_deadline()).min();
        }
        (removed, next)
    }

    /// The tables of a bridge as workers see them.
    ///
    /// # Errors
    /// If there is no such bridge.
    pub fn tables(&self, bridge: &str) -> Result<Arc<Tables>, UnknownBridge> {
        Ok(self.bridge(bridge)?.tables.current())
    }

    /// Packets of a bridge by the place where their result was found.
    ///
    /// # Errors
    /// If there is no such bridge.
    pub fn cache_counts(&self, bridge: &str) -> Result<CacheCounts, UnknownBridge> {
        let bridge = self.bridge(bridge)?;
        let Counts { head, megaflow, tables, probes, evicted_masks, .. } = &bridge.counts;
        let counts = [head, megaflow, tables, probes, evicted_masks].map(|n| n.load(Ordering::Relaxed));
        let [head, megaflow, tables, probes, evicted_masks] = counts;
        Ok(CacheCounts { head, megaflow, tables, probes, evicted_masks })
    }

    /// Packets that the tables of a bridge dropped, up to half a second ago; tables without any are left out.
    ///
    /// # Errors
    /// If there is no such bridge.
    pub fn table_drops(&self, bridge: &str) -> Result<Vec<TableDrops>, UnknownBridge> {
        Ok(self.bridge(bridge)?.counts.drops.read())
    }

    /// Traces a packet through the tables of a bridge as they are now. Nothing is counted or sent.
    ///
    /// # Errors
    /// If there is no such bridge.
    pub fn trace(&self, bridge: &str, packet: &TracedPacket) -> Result<Trace, UnknownBridge> {
        let directory = self.published.current();
        let (_, view) = directory.named(bridge).ok_or_else(|| UnknownBridge(bridge.to_owned()))?;
        Ok(trace(&view.bridge.tables.current(), packet, view))
    }

    /// Number of a port on its bridge, and the name of the bridge.
    pub fn number(&self, port: PortId) -> Option<(String, PortNo)> {
        let directory = self.published.current();
        let member = directory.member(port)?;
        Some((directory.view(member.bridge)?.bridge.name.clone(), member.number))
    }

    /// Packets for controllers since the last call.
    pub fn take_punted(&self) -> VecDeque<Punted> {
        self.exchange.begin_taking();
        std::mem::take(&mut *lock(&self.punted))
    }

    pub(super) fn bridge(&self, name: &str) -> Result<Arc<Bridge>, UnknownBridge> {
        let directory = self.published.current();
        let found = directory.named(name).map(|(_, view)| view.bridge.clone());
        found.ok_or_else(|| UnknownBridge(name.to_owned()))
    }
}

impl std::fmt::Debug for FlowSwitch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowSwitch").finish_non_exhaustive()
    }
}

/// Checks that a new bridge would execute all changes.
///
/// # Errors
/// As [`FlowSwitch::modify`].
pub fn check_changes(changes: &[Modification]) -> Result<(), ChangeError> {
    supported(changes)?;
    let done = Control::new(0).bundle(changes, Now(0));
    done.map(drop).map_err(|(i, error)| ChangeError::Invalid(i, error))
}

fn supported(changes: &[Modification]) -> Result<(), ChangeError> {
    let found = changes.iter().enumerate().find_map(|(i, change)| Some((i, unsupported(change)?)));
    found.map_or(Ok(()), |(i, action)| Err(ChangeError::Unsupported(i, action)))
}

/// An action of a change that workers do not execute.
fn unsupported(change: &Modification) -> Option<&'static str> {
    let any = |actions: &[Action]| actions.iter().find_map(not_executed);
    match change {
        Modification::Flow(change) => {
            let Instructions { apply, write, .. } = &change.instructions;
            any(apply).or_else(|| any(write))
        }
        Modification::Group(change) => change.buckets.iter().find_map(|bucket| any(&bucket.actions)),
        Modification::Meter(_) => None,
    }
}

pub(super) fn not_executed(action: &Action) -> Option<&'static str> {
    match action {
        // Learned flows would have this action.
        Action::Learn(learn) if learn.fin_idle_timeout != 0 || learn.fin_hard_timeout != 0 => {
            Some("fin_timeout")
        }
        Action::Clone(actions) => actions.iter().find_map(not_executed),
        _ => None,
    }
}

impl Pipelines for FlowSwitch {
    fn worker(&self, index: usize) -> Box<dyn Pipeline> {
        let (published, exchange) = (self.published.clone(), self.exchange.clone());
        Box::new(Worker::new((published, exchange, self.tracker.clone()), self.normal.worker(index)))
    }

    fn observer(&self) -> Option<Box<dyn PortObserver>> {
        Some(Box::new(Observer {
            published: self.published.clone(),
            changing: self.changing.clone(),
            punted: self.punted.clone(),
            exchange: self.exchange.clone(),
            normal: self.normal.observer(),
        }))
    }
}

/// Changes a port, and publishes the directory if that is different then.
fn update(
    (changing, published): (&Mutex<()>, &Published<Directory>),
    port: PortId,
    change: impl FnOnce(&mut Place),
) {
    let _changing = lock(changing);
    let mut directory = Directory::clone(&published.current());
    if directory.update(port, change) {
        published.publish(Arc::new(directory));
    }
}

/// Keeps packets for controllers and states of ports, and passes everything else on.
struct Observer {
    published: Arc<Published<Directory>>,
    changing: Arc<Mutex<()>>,
    punted: Arc<Mutex<VecDeque<Punted>>>,
    exchange: Arc<Exchange>,
    normal: Option<Box<dyn PortObserver>>,
}

impl Observer {
    fn set_up(&self, port: PortId, is_up: bool) {
        update((&self.changing, &self.published), port, |place| place.is_live = is_up);
        let directory = self.published.current();
        let Some(Member { bridge, number }) = directory.member(port) else { return };
        if let Some(view) = directory.view(bridge) {
            let bridge = view.bridge.name.clone();
            self.exchange.port_changed(PortEvent { port, bridge, number, is_up });
        }
    }
}

impl PortObserver for Observer {
    fn changed(&mut self, port: PortId, is_up: bool, now: Now) {
        self.normal.iter_mut().for_each(|observer| observer.changed(port, is_up, now));
        self.set_up(port, is_up);
    }

    fn stopped(&mut self, port: PortId, now: Now) {
        self.normal.iter_mut().for_each(|observer| observer.stopped(port, now));
    }

    fn punted(&mut self, packet: Punted) {
        if self.published.current().by_tables(packet.context.from).is_none() {
            return self.normal.iter_mut().for_each(|observer| observer.punted(packet.clone()));
        }
        let mut punted = lock(&self.punted);
        if punted.len() < MAX_PUNTED {
            punted.push_back(packet);
        }
        drop(punted);
        self.exchange.wake();
    }
}
