//! Control API: bridges, their ports, and changes of their tables.
//!
//! Operations may wait for other control operations, and never for a worker.

use super::directory::{Bridge, Counts, Directory, Member, Place, View};
use super::worker::Worker;
use crate::action::{Action, Instructions};
use crate::modify::PortNo;
use crate::tables::{Changes, Control, Modification, ModificationError, Tables};
use port::{Now, Pipeline, Pipelines, PortId, PortObserver, Published, Punted, Remedy};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
}

/// All OpenFlow bridges of the process. Shared by control and, as [`Pipelines`], by the workers.
pub struct FlowSwitch {
    published: Arc<Published<Directory>>,
    /// Serialises changes of the directory.
    changing: Mutex<()>,
    normal: Arc<dyn Pipelines>,
    punted: Arc<Mutex<VecDeque<Punted>>>,
}

impl FlowSwitch {
    /// A switch without bridges. `normal` gets the packets of all other ports, and those for the port `NORMAL`.
    pub fn new(normal: Arc<dyn Pipelines>) -> Self {
        let (published, punted) = (Arc::default(), Arc::default());
        Self { published, changing: Mutex::new(()), normal, punted }
    }

    fn change(&self) -> (MutexGuard<'_, ()>, Directory) {
        let changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
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
        directory.bridges[free] = Some(View { bridge, ports: BTreeMap::new() });
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
        }
    }

    /// Sets whether a port can send, for groups and liveness.
    pub fn set_live(&self, port: PortId, is_live: bool) {
        self.update(port, |place| place.is_live = is_live);
    }

    /// Sets whether a port gets flooded packets.
    pub fn set_flooded(&self, port: PortId, is_flooded: bool) {
        self.update(port, |place| place.is_flooded = is_flooded);
    }

    fn update(&self, port: PortId, change: impl FnOnce(&mut Place)) {
        let (_changing, mut directory) = self.change();
        directory.update(port, change);
        self.published.publish(Arc::new(directory));
    }

    /// Executes all changes of a bridge's tables, or none. Workers apply them from their next burst on, all at once.
    ///
    /// # Errors
    /// If a change is not valid.
    pub fn modify(&self, bridge: &str, changes: &[Modification], now: Now) -> Result<Changes, ChangeError> {
        let bridge = self.bridge(bridge)?;
        if let Some((i, action)) =
            changes.iter().enumerate().find_map(|(i, change)| Some((i, unsupported(change)?)))
        {
            return Err(ChangeError::Unsupported(i, action));
        }
        let mut control = bridge.control.lock().unwrap_or_else(PoisonError::into_inner);
        let done = control.bundle(changes, now).map_err(|(i, error)| ChangeError::Invalid(i, error))?;
        bridge.tables.publish(control.seal());
        Ok(done)
    }

    /// Removes flows whose timeout has passed, of all bridges. Returns what was removed, by bridge, and the time of the
    /// next call.
    pub fn expire(&self, now: Now) -> (Vec<(String, Changes)>, Option<Now>) {
        let (mut removed, mut next) = (Vec::new(), None);
        for bridge in self.published.current().bridges.iter().flatten().map(|view| &view.bridge) {
            let mut control = bridge.control.lock().unwrap_or_else(PoisonError::into_inner);
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
        let [head, megaflow, tables] = [&bridge.counts.head, &bridge.counts.megaflow, &bridge.counts.tables]
            .map(|n| n.load(Ordering::Relaxed));
        Ok(CacheCounts { head, megaflow, tables })
    }

    /// Number of a port on its bridge, and the name of the bridge.
    pub fn number(&self, port: PortId) -> Option<(String, PortNo)> {
        let directory = self.published.current();
        let member = directory.member(port)?;
        Some((directory.view(member.bridge)?.bridge.name.clone(), member.number))
    }

    /// Packets for controllers since the last call.
    pub fn take_punted(&self) -> VecDeque<Punted> {
        std::mem::take(&mut *self.punted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn bridge(&self, name: &str) -> Result<Arc<Bridge>, UnknownBridge> {
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

fn not_executed(action: &Action) -> Option<&'static str> {
    match action {
        Action::Ct(_) => Some("ct"),
        Action::Learn(_) => Some("learn"),
        Action::Clone(actions) => actions.iter().find_map(not_executed),
        _ => None,
    }
}

impl Pipelines for FlowSwitch {
    fn worker(&self, index: usize) -> Box<dyn Pipeline> {
        Box::new(Worker::new(self.published.clone(), self.normal.worker(index)))
    }

    fn observer(&self) -> Option<Box<dyn PortObserver>> {
        let (published, punted, normal) =
            (self.published.clone(), self.punted.clone(), self.normal.observer());
        Some(Box::new(Observer { published, punted, normal }))
    }
}

/// Keeps packets for controllers, and passes everything else on.
struct Observer {
    published: Arc<Published<Directory>>,
    punted: Arc<Mutex<VecDeque<Punted>>>,
    normal: Option<Box<dyn PortObserver>>,
}

impl PortObserver for Observer {
    fn stopped(&mut self, port: PortId, now: Now) {
        self.normal.iter_mut().for_each(|observer| observer.stopped(port, now));
    }

    fn punted(&mut self, packet: Punted) {
        if self.published.current().member(packet.context.from).is_none() {
            return self.normal.iter_mut().for_each(|observer| observer.punted(packet.clone()));
        }
        let mut punted = self.punted.lock().unwrap_or_else(PoisonError::into_inner);
        if punted.len() < MAX_PUNTED {
            punted.push_back(packet);
        }
    }
}
