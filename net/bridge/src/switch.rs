//! Control API: add and remove bridges and ports. `settings` changes them, `stations` lists, pins and flushes stations,
//! `bonds` has the control API of bonds, and `observer` what control learns from the engine.
//!
//! Operations may block on other control operations, and on a worker only while it holds a table lock to learn one
//! station.

mod bonds;
mod leases;
mod multicast;
mod observer;
mod settings;
mod stations;

use super::allowed::AllowedSource;
use super::bond::Bonds;
use super::config::{BridgeConfig, PortConfig, PortState, Vlan};
use super::error::{AddBridgeError, AddPortError, RemoveBridgeError, RemovePortError, UnknownBridge};
use super::fdb::Fdb;
use super::listing::{BridgeStatistics, PortStatistics};
use super::mirror::{self, Mirror, MirrorConfig, MirrorError, MirrorStatistics};
use super::pair_listener::PairListener;
use super::ports::{Bridge, Member, Place, PortTable, Published, View};
use super::refusals::Refusals;
use super::worker::Worker;
use super::wrapped::Wrapped;
pub use multicast::VlanPort;
use observer::{Observer, Watch};
use port::{Pipeline, Pipelines, PortId, PortObserver, Rss};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::VlanId;

pub use observer::LinkEvent;

/// Maximum number of trunk VLANs for which a port's own addresses become static entries.
const MAX_PINNED_VLANS: usize = 64;

/// All bridges of the process and their ports. Shared by the control thread and, as [`Pipelines`], by the workers.
pub struct Switch {
    pub(super) published: Arc<Published>,
    pub(super) pair_listener: PairListener,
    /// Serialises changes of the port table and related state.
    changing: Mutex<()>,
    bonds: Arc<Bonds>,
    watch: Watch,
    ports: usize,
    rss: Rss,
}

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switch").field("ports", &self.ports).finish_non_exhaustive()
    }
}

impl Switch {
    /// A switch without bridges, for ports numbered below `ports` (at most 65,536).
    pub fn new(ports: usize) -> Self {
        Self::with_rss(ports, Rss::default())
    }

    /// [`Switch::new`] for an engine with this distribution of flows, whose hash bonds use as well.
    pub fn with_rss(ports: usize, rss: Rss) -> Self {
        let (published, changing, ports) = (Arc::<Published>::default(), Mutex::new(()), ports.min(1 << 16));
        let watch = Watch::new(published.clone());
        let events = watch.clone();
        let bonds = Arc::new(Bonds::new(move |event| events.bond(event)));
        Self { published, pair_listener: PairListener::default(), changing, bonds, watch, ports, rss }
    }

    /// The port table, for a worker.
    #[cfg(all(test, not(loom)))]
    pub(super) fn published(&self) -> Arc<Published> {
        self.published.clone()
    }

    fn change(&self) -> (MutexGuard<'_, ()>, PortTable) {
        let changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        (changing, PortTable::clone(&self.published.current()))
    }

    /// Publishes a port table. Nothing is forwarded outside by the old one from then on.
    fn publish(&self, table: PortTable) {
        // Before the change, so that it takes effect for all packets; and behind it, because pairs may have been looked
        // up in the old table meanwhile.
        self.pair_listener.changed(None);
        self.published.publish(Arc::new(table));
        self.pair_listener.changed(None);
    }

    /// Adds a bridge without ports and allocates its table.
    ///
    /// # Errors
    /// If the name is in use or the configuration is out of range.
    pub fn add_bridge(&self, name: &str, config: BridgeConfig) -> Result<(), AddBridgeError> {
        check(name, &config)?;
        let (_changing, mut table) = self.change();
        if table.named(name).is_some() {
            return Err(AddBridgeError::Exists(name.to_owned()));
        }
        let free = table.views.iter().position(Option::is_none).unwrap_or(table.views.len());
        if free >= u16::MAX as usize {
            return Err(AddBridgeError::TooMany(name.to_owned()));
        }
        let fdb = Fdb::new(&config, self.ports).telling(self.pair_listener.clone());
        let groups = config.multicast_snooping.then(|| port::Published::new(Arc::default()));
        let (name, refusals) = (name.to_owned(), Refusals::default());
        let bridge = Arc::new(Bridge { name, fdb, refusals, groups });
        table.views.resize(table.views.len().max(free + 1), None);
        table.views[free] = Some(View::new(bridge, config));
        self.publish(table);
        Ok(())
    }

    /// Removes a bridge, which must have no ports.
    ///
    /// # Errors
    /// If no bridge has this name, or it has ports.
    pub fn remove_bridge(&self, name: &str) -> Result<(), RemoveBridgeError> {
        let (_changing, mut table) = self.change();
        let (number, view) = table.named(name).ok_or_else(|| UnknownBridge(name.to_owned()))?;
        let ports = view.members.len();
        if ports > 0 {
            return Err(RemoveBridgeError::InUse { name: name.to_owned(), ports });
        }
        table.views[number as usize] = None;
        self.publish(table);
        Ok(())
    }

    /// Adds `port` to a bridge. Workers apply the change from their next burst on.
    ///
    /// # Errors
    /// If no bridge has this name, the port is already on a bridge, its number is out of range, or its configuration is
    /// invalid.
    pub fn add_port(&self, port: PortId, bridge: &str, config: &PortConfig) -> Result<(), AddPortError> {
        let (_changing, mut table) = self.change();
        if port.0 as usize >= self.ports {
            return Err(AddPortError::OutOfRange { port, ports: self.ports });
        }
        let place = table.member(port).or_else(|| table.member(table.link(port)?.bond));
        if let Some(view) = place.and_then(|member| table.view(member.bridge)) {
            return Err(AddPortError::Member { port, bridge: view.bridge.name.clone() });
        }
        let (number, view) = table.named(bridge).ok_or_else(|| UnknownBridge(bridge.to_owned()))?;
        check_port(port, view, config)?;
        let (home, member) = (view.bridge.clone(), Member::new(number, &view.config, config));
        home.fdb.reserve_all(&config.macs, port).map_err(|(mac, owner)| AddPortError::MacTaken {
            port,
            mac,
            owner,
        })?;
        home.fdb.open(port, station_limit(&view.config, config), config.trusted);
        let mut without = table.clone();
        let state = if config.stp { PortState::Discarding } else { PortState::Forwarding };
        table.set(port, Some(Place::new(Arc::new(member), state)));
        self.publish(table);
        if home.fdb.own(&config.macs, &vlans(&config.vlan), port) {
            return Ok(());
        }
        without.set(port, None);
        self.publish(without);
        home.fdb.close(port);
        Err(AddPortError::Full { port, bridge: bridge.to_owned() })
    }

    /// Removes a port from its bridge, with all its stations, including static entries.
    ///
    /// # Errors
    /// If the port is on no bridge.
    pub fn remove_port(&self, port: PortId) -> Result<(), RemovePortError> {
        let (_changing, mut table) = self.change();
        let view = table.member(port).and_then(|member| table.view(member.bridge));
        let bridge = view.ok_or(RemovePortError::NoMember(port))?.bridge.clone();
        table.set(port, None);
        self.publish(table);
        // From here on, a worker that still uses the old table cannot learn on this port.
        bridge.fdb.close(port);
        Ok(())
    }

    /// Sets the states of ports in the spanning tree of a bridge. Workers apply all of them at once, from their next
    /// burst on. Ports that are not in it, or not any more, keep theirs.
    pub fn set_states(&self, bridge: &str, states: impl Iterator<Item = (PortId, PortState)>) {
        let (_changing, mut table) = self.change();
        let Some(home) = table.named(bridge).map(|(number, _)| number) else { return };
        for (port, state) in states {
            let place = table.place(port).filter(|place| place.member.stp && place.member.bridge == home);
            let place = place.map(|place| Place::new(place.member.clone(), state));
            if place.is_some() {
                table.set(port, place);
            }
        }
        self.publish(table);
    }

    /// Replaces the mirrors of a bridge. A mirror that was there before, by its name, keeps its counters. Workers apply
    /// the change from their next burst on.
    ///
    /// # Errors
    /// If no bridge has this name, or a mirror is invalid. Nothing is changed then.
    pub fn set_mirrors(&self, bridge: &str, mirrors: &[MirrorConfig]) -> Result<(), MirrorError> {
        let (_changing, mut table) = self.change();
        let (number, view) = table.named(bridge).ok_or_else(|| UnknownBridge(bridge.to_owned()))?;
        let mirrors = Mirror::all(bridge, mirrors, &view.configured)?;
        table.set_mirrors(number, mirrors);
        self.publish(table);
        Ok(())
    }

    /// Counters of the mirrors of a bridge.
    ///
    /// # Errors
    /// If no bridge has this name.
    pub fn mirrors(&self, bridge: &str) -> Result<Vec<MirrorStatistics>, UnknownBridge> {
        let table = self.published.current();
        let (number, view) = table.named(bridge).ok_or_else(|| UnknownBridge(bridge.to_owned()))?;
        let modes = table.modes(number);
        let statistics = |mirror: &Arc<Mirror>| mirror.statistics(mirror::is_active(mirror, &modes));
        Ok(view.configured.iter().map(statistics).collect())
    }

    /// `inner`, with the bonds, protocols and mirrors of this switch. All ports of `inner` must be on bridges of this
    /// switch. A switch with bonds or mirrors must be wrapped.
    pub fn wrap(&self, inner: Arc<dyn Pipelines>) -> Wrapped {
        Wrapped::new(self.published.clone(), inner, self.rss)
    }

    /// Statistics of all bridges.
    pub fn statistics(&self) -> Vec<BridgeStatistics> {
        let table = self.published.current();
        table.views.iter().flatten().map(|view| bridge_statistics(&table, view)).collect()
    }

    fn bridge(&self, name: &str) -> Result<Arc<Bridge>, UnknownBridge> {
        let table = self.published.current();
        let found = table.named(name).map(|(_, view)| view.bridge.clone());
        found.ok_or_else(|| UnknownBridge(name.to_owned()))
    }
}

impl Pipelines for Switch {
    /// All workers have the same pipeline, over the same tables.
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(Worker::new(self.published.clone(), self.ports))
    }

    fn observer(&self) -> Option<Box<dyn PortObserver>> {
        let (watch, bonds) = (self.watch.clone(), self.bonds.clone());
        Some(Box::new(Observer { watch, bonds, pair_listener: self.pair_listener.clone() }))
    }
}

fn check(name: &str, config: &BridgeConfig) -> Result<(), AddBridgeError> {
    let (capacity, seconds) = (config.capacity, config.ageing_seconds);
    if !BridgeConfig::CAPACITY.contains(&capacity) {
        return Err(AddBridgeError::Capacity { name: name.to_owned(), capacity });
    }
    if !BridgeConfig::AGEING.contains(&seconds) {
        return Err(AddBridgeError::Ageing { name: name.to_owned(), seconds });
    }
    Ok(())
}

/// Number of stations that a port may learn.
fn station_limit(bridge: &BridgeConfig, port: &PortConfig) -> u32 {
    let quarter = (bridge.capacity / 4) as u32;
    if port.learn { port.max_macs.unwrap_or(quarter) } else { 0 }
}

fn check_port(port: PortId, view: &View, config: &PortConfig) -> Result<(), AddPortError> {
    let sources = config.sources.as_deref().unwrap_or_default();
    let (entries, most) = (config.macs.len().max(sources.len()), PortConfig::MAX_LIST);
    if entries > most {
        return Err(AddPortError::TooLong { port, entries, most });
    }
    if let Some(mac) = config.macs.iter().find(|mac| mac.is_group() || mac.is_zero()) {
        return Err(AddPortError::NoStation { port, mac: *mac });
    }
    if sources.contains(&AllowedSource::Dhcp) && !view.config.dhcp_snooping {
        return Err(AddPortError::NoSnooping { port, bridge: view.bridge.name.clone() });
    }
    Ok(())
}

/// VLANs in which a port's own addresses become static entries. In the other VLANs of a wide trunk they are learned, at
/// this port only.
fn vlans(vlan: &Vlan) -> Vec<u16> {
    let tagged = match vlan {
        Vlan::Trunk { allowed, .. } if allowed.iter().count() <= MAX_PINNED_VLANS => {
            allowed.iter().map(VlanId::get).collect()
        }
        _ => Vec::new(),
    };
    let mut all: Vec<u16> = vlan.classify(None).into_iter().chain(tagged).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn bridge_statistics(table: &PortTable, view: &View) -> BridgeStatistics {
    let (Bridge { name, fdb, .. }, config) = (&*view.bridge, &view.config);
    let (stations, static_entries) = fdb.len();
    let ports =
        view.members.iter().filter_map(|port| Some(port_statistics(fdb, *port, table.member(*port)?)));
    BridgeStatistics {
        name: name.clone(),
        vlan_aware: view.vlan_aware,
        ageing_seconds: config.ageing_seconds,
        capacity: config.capacity,
        stations,
        static_entries,
        memory_bytes: fdb.bytes(),
        ports: ports.collect(),
        refused_moves: view.bridge.refusals.list(),
    }
}

fn port_statistics(fdb: &Fdb, port: PortId, member: &Member) -> PortStatistics {
    let share = fdb.share(port);
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    PortStatistics {
        port: port.0,
        learned: share.learned,
        static_entries: share.pinned,
        max_macs: share.limit,
        refused: read(&member.counters.refused),
        deferred: read(&member.counters.deferred),
        moves: read(&member.counters.moves),
        refused_moves: read(&member.counters.refused_moves),
    }
}
