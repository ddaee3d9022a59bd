//! Control API: bridges, their ports, and changes of their tables.
//!
//! Operations may wait for other control operations, and never for a worker.

use super::directory::{Bridge, Counts, Directory, Member, Place, PortChanges, Scope, View};
use super::drops::TableDrops;
use super::error::{AddBridgeError, AddPortError, UnknownBridge};
use super::exchange::{Exchange, PortEvent, lock, take};
use super::observer::{Observer, set_up, update};
use super::underlay;
use super::worker::Worker;
use crate::modify::PortNo;
use crate::tables::{Changes, Control, Tables};
use crate::trace::{Connections, Trace, TracedPacket, trace};
use conntrack::{Config, Listed, Tracker};
use port::{Now, Pipeline, Pipelines, PortId, PortObserver, Published, Punted};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

/// Packets of a bridge by the place where their first result was found. A packet that continues is counted once.
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
    /// Megaflows that were replaced by others, because the cache was full.
    pub evicted: u64,
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
    pub(super) underlay: Mutex<underlay::Control>,
}

impl FlowSwitch {
    /// A switch without bridges. `normal` gets the packets of all other ports, and those for the port `NORMAL`.
    pub fn new(normal: Arc<dyn Pipelines>) -> Self {
        Self::with_connections(normal, &Config::default())
    }

    /// The same with other limits and timeouts of connections.
    pub fn with_connections(normal: Arc<dyn Pipelines>, connections: &Config) -> Self {
        let (published, changing, punted) = (Arc::default(), Arc::default(), Arc::default());
        let (exchange, tracker) = (Arc::new(Exchange::new()), Arc::new(Tracker::new(connections)));
        let underlay = Mutex::default();
        Self { published, changing, normal, punted, exchange, tracker, underlay }
    }

    /// The connections of all bridges.
    pub fn connections(&self, now: Now) -> impl Iterator<Item = Listed> {
        self.tracker.connections(now.0)
    }

    /// Removes all connections, or those of a zone. Returns their number.
    pub fn flush_connections(&self, zone: Option<u16>) -> usize {
        self.tracker.flush(zone)
    }

    /// The connection tracker of all bridges.
    pub fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// Sets the function that wakes the caller of [`FlowSwitch::learn`], [`FlowSwitch::take_punted`] and
    /// [`FlowSwitch::take_port_events`], unless it is set. Workers call it, once for everything that was not taken yet;
    /// it must not wait.
    pub fn set_waker(&self, waker: impl Fn() + Send + Sync + 'static) {
        self.exchange.set_waker(Box::new(waker));
    }

    pub(super) fn change(&self) -> (MutexGuard<'_, ()>, Directory) {
        let changing = lock(&self.changing);
        (changing, Directory::clone(&self.published.current()))
    }

    pub(super) fn publish(&self, directory: Directory) {
        self.exchange.publish(&self.published, directory);
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
        let (name, recorded, counts) = (name.to_owned(), Mutex::default(), Counts::default());
        let bridge = Arc::new(Bridge { name, control, tables, recorded, counts });
        directory.bridges.resize(directory.bridges.len().max(free + 1), None);
        directory.bridges[free] = Some(View {
            bridge,
            ports: BTreeMap::new(),
            changes: PortChanges::default(),
            is_standalone: false,
        });
        self.publish(directory);
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
        self.publish(directory);
        Ok(())
    }

    /// Adds a port to a bridge, with `number` or the lowest free one, which is returned. Workers apply the change from
    /// their next burst on. The number may be [`PortNo::LOCAL`], on a bridge without addresses of its own.
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
        let is_valid = |number: &PortNo| match *number {
            PortNo::LOCAL => directory.paths.interface(place).is_none(),
            number => number.0 > 0 && number <= PortNo::MAX,
        };
        let number = match number {
            Some(number) => Some(number).filter(|number| is_valid(number) && free(number)),
            None => (1..=PortNo::MAX.0).map(PortNo).find(free),
        };
        let number = number.ok_or_else(|| AddPortError::Number(0, bridge.to_owned()))?;
        directory.set(port, Some(Member { bridge: place, number, receives: true }));
        self.publish(directory);
        Ok(number)
    }

    /// Removes a port from its bridge, if it is on one.
    pub fn remove_port(&self, port: PortId) {
        let (_changing, mut directory) = self.change();
        if directory.member(port).is_some() {
            directory.set(port, None);
            self.publish(directory);
            self.exchange.forget_port(port);
        }
    }

    /// Sets whether a port can send, for groups and liveness. A new port can; the observer of the engine
    /// ([`Pipelines::observer`]) sets it when that changes.
    pub fn set_live(&self, port: PortId, is_live: bool) {
        self.update(port, |place| place.is_live = is_live);
    }

    /// [`FlowSwitch::set_live`] for a port that the engine does not know, such as a bond. Controllers are told.
    pub fn set_link(&self, port: PortId, is_up: bool) {
        set_up((&self.changing, &self.published, &self.exchange), port, is_up);
    }

    /// Ports for which it has changed since the last call whether they can send, with their latest state.
    pub fn take_port_events(&self) -> Vec<PortEvent> {
        self.exchange.take_port_events()
    }

    /// Sets whether a port is reserved for the copies of mirrors, so that it gets no packets for several ports.
    pub fn set_reserved(&self, port: PortId, is_reserved: bool) {
        self.update(port, |place| place.is_reserved = is_reserved);
    }

    /// Sets whether a bridge ignores its tables: then its packets go to the pipeline of the port `NORMAL`. Its flows
    /// stay.
    ///
    /// # Errors
    /// If there is no such bridge.
    pub fn set_standalone(&self, bridge: &str, is_standalone: bool) -> Result<(), UnknownBridge> {
        let (_changing, mut directory) = self.change();
        let named = directory.named(bridge).map(|(number, _)| usize::from(number));
        let number = named.ok_or_else(|| UnknownBridge(bridge.to_owned()))?;
        directory.bridges[number].iter_mut().for_each(|view| view.is_standalone = is_standalone);
        directory.renew(number as u16);
        self.publish(directory);
        Ok(())
    }

    /// Whether a bridge ignores its tables.
    pub fn is_standalone(&self, bridge: &str) -> bool {
        self.published.current().named(bridge).is_some_and(|(_, view)| view.is_standalone)
    }

    pub(super) fn update(&self, port: PortId, change: impl FnOnce(&mut Place)) {
        update((&self.changing, &self.published, &self.exchange), port, change);
    }

    /// Discards the results of all bridges that may contain those of a bridge whose tables have changed.
    pub(super) fn renew_underlay(&self, bridge: &str) {
        let of = |directory: &Directory| {
            let (number, _) = directory.named(bridge)?;
            Some(number).filter(|number| directory.is_underlay(*number))
        };
        if of(&self.published.current()).is_none() {
            return;
        }
        let (_changing, mut directory) = self.change();
        if let Some(number) = of(&directory) {
            directory.renew(number);
            self.publish(directory);
        }
    }

    /// Removes flows whose timeout has passed, of all bridges. Returns what was changed, by bridge, with recorded
    /// changes, and the time of the next call.
    pub fn expire(&self, now: Now) -> (Vec<(String, Changes)>, Option<Now>) {
        let (mut removed, mut next) = (Vec::new(), None);
        for bridge in self.published.current().bridges.iter().flatten().map(|view| &view.bridge) {
            let mut control = lock(&bridge.control);
            let changes = control.expire(now);
            if !changes.removed.is_empty() {
                self.publish_tables(bridge, &mut control);
                removed.push((bridge.name.clone(), bridge.with_recorded(changes)));
                self.renew_underlay(&bridge.name);
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
        let Counts { head, megaflow, tables, probes, evicted, evicted_masks, .. } = &bridge.counts;
        let counts =
            [head, megaflow, tables, probes, evicted, evicted_masks].map(|n| n.load(Ordering::Relaxed));
        let [head, megaflow, tables, probes, evicted, evicted_masks] = counts;
        Ok(CacheCounts { head, megaflow, tables, probes, evicted, evicted_masks })
    }

    /// Packets that the tables of a bridge dropped, up to half a second ago; tables without any are left out.
    ///
    /// # Errors
    /// If there is no such bridge.
    pub fn table_drops(&self, bridge: &str) -> Result<Vec<TableDrops>, UnknownBridge> {
        Ok(self.bridge(bridge)?.counts.drops.read())
    }

    /// Traces a packet through the tables of a bridge and its connections as they are now. Nothing is counted or sent.
    /// Packets after `ct` have the given connection states first ([`Connections::new`]).
    ///
    /// # Errors
    /// If there is no such bridge.
    pub fn trace(
        &self,
        bridge: &str,
        packet: &TracedPacket,
        states: &[u32],
        now: Now,
    ) -> Result<Trace, UnknownBridge> {
        let directory = self.published.current();
        let (number, view) = directory.named(bridge).ok_or_else(|| UnknownBridge(bridge.to_owned()))?;
        let scope = Scope { directory: &directory, view, bridge: number, is_nested: false };
        let mut connections = Connections::new(&self.tracker, now, states);
        Ok(trace(&view.bridge.tables.current(), packet, &scope, &mut connections))
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
        take(&self.punted)
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
