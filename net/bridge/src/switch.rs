//! Control API: add and remove bridges and ports; list, pin and flush stations.
//!
//! Operations may block on other control operations, and on a worker only while it holds a table lock to learn one
//! station.

mod bonds;

use super::allowed::AllowedSource;
use super::bond::Bonds;
use super::config::{BridgeConfig, PortConfig, PortState, Vlan};
use super::error::{
    AddBridgeError, AddPortError, RemoveBridgeError, RemovePortError, RemoveStationError, StaticError,
    UnknownBridge,
};
use super::fdb::Fdb;
use super::key::Key;
use super::listing::{BridgeStatistics, PortStatistics, Selection, Station};
use super::mirror::{self, Mirror, MirrorConfig, MirrorError, MirrorStatistics, Mirrored};
use super::ports::{Bridge, Member, Place, PortTable, Published, View};
use super::refusals::Refusals;
use super::vlan::NO_VLAN;
use super::worker::{Share, Worker};
use port::{Now, Pipeline, Pipelines, PortId, PortObserver, Punted, Rss};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use wire::{MacAddress, VlanId};

/// Maximum number of trunk VLANs for which a port's own addresses become static entries.
const MAX_PINNED_VLANS: usize = 64;

/// All bridges of the process and their ports. Shared by the control thread and, as [`Pipelines`], by the workers.
pub struct Switch {
    published: Arc<Published>,
    /// Serialises changes of the port table and related state.
    changing: Mutex<()>,
    bonds: Arc<Bonds>,
    listener: Arc<OnceLock<Listener>>,
    ports: usize,
    rss: Rss,
}

/// What control learns about the links of ports.
#[derive(Clone, Debug)]
pub enum LinkEvent {
    /// Whether a port can send has changed.
    Changed(PortId, bool),
    /// A frame of a protocol was received on a port ([`PortConfig::stp`], [`PortConfig::lldp`]).
    Received(PortId, Box<[u8]>),
}

/// Gets link events; must not wait.
type Listener = Box<dyn Fn(LinkEvent) + Send + Sync>;

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
        let (published, changing, ports) = (Arc::default(), Mutex::new(()), ports.min(1 << 16));
        let (bonds, listener) = (Arc::default(), Arc::default());
        Self { published, changing, bonds, listener, ports, rss }
    }

    /// Sets the function that gets the links and protocol frames of all ports, unless it is set. The engine's control
    /// thread calls it; it must not wait.
    pub fn listen(&self, listener: impl Fn(LinkEvent) + Send + Sync + 'static) {
        // The first one stays.
        let _ = self.listener.set(Box::new(listener));
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
        let fdb = Fdb::new(&config, self.ports);
        let bridge = Arc::new(Bridge { name: name.to_owned(), config, fdb, refusals: Refusals::default() });
        table.views.resize(table.views.len().max(free + 1), None);
        table.views[free] = Some(View::new(bridge));
        self.published.publish(Arc::new(table));
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
        self.published.publish(Arc::new(table));
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
        check_port(port, &view.bridge, config)?;
        let home = view.bridge.clone();
        home.fdb.reserve_all(&config.macs, port).map_err(|(mac, owner)| AddPortError::MacTaken {
            port,
            mac,
            owner,
        })?;
        let quarter = (view.bridge.config.capacity / 4) as u32;
        let limit = if config.learn { config.max_macs.unwrap_or(quarter) } else { 0 };
        view.bridge.fdb.open(port, limit, config.trusted);
        let mut without = table.clone();
        let state = if config.stp { PortState::Discarding } else { PortState::Forwarding };
        table.set(port, Some(Place::new(Arc::new(Member::new(number, &home.config, config)), state)));
        self.published.publish(Arc::new(table));
        if home.fdb.own(&config.macs, &vlans(&config.vlan), port) {
            return Ok(());
        }
        without.set(port, None);
        self.published.publish(Arc::new(without));
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
        self.published.publish(Arc::new(table));
        // From here on, a worker that still uses the old table cannot learn on this port.
        bridge.fdb.close(port);
        Ok(())
    }

    /// Sets the states of ports in the spanning tree of a bridge. Workers apply all of them at once, from their next burst
    /// on. Ports that are not in it, or not any more, keep theirs.
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
        self.published.publish(Arc::new(table));
    }

    /// Removes the stations of a bridge that were learned from these ports. Returns their number.
    ///
    /// # Errors
    /// If no bridge has this name.
    pub fn flush_ports(&self, bridge: &str, ports: &BTreeSet<PortId>) -> Result<usize, UnknownBridge> {
        Ok(self.bridge(bridge)?.fdb.flush(|entry| ports.contains(&entry.port)))
    }

    /// Adds a static entry for `mac` at `port`: it does not move or age, and frames from it received on other ports are
    /// dropped. `vlan` defaults to the VLAN of the port's untagged frames.
    ///
    /// # Errors
    /// If bridge, port, VLAN and address do not match, or the table is full.
    pub fn add_static(
        &self,
        bridge: &str,
        mac: MacAddress,
        vlan: Option<VlanId>,
        port: PortId,
    ) -> Result<(), StaticError> {
        let (_changing, table) = self.change();
        let (number, view) = table.named(bridge).ok_or_else(|| UnknownBridge(bridge.to_owned()))?;
        let member = table.member(port).filter(|member| member.bridge == number);
        let member = member.ok_or_else(|| StaticError::NoMember { port, bridge: bridge.to_owned() })?;
        if mac.is_group() || mac.is_zero() {
            return Err(StaticError::NoStation(mac));
        }
        let vlan = static_vlan(view, member, mac, vlan, port)?;
        if let Some(owner) = view.bridge.fdb.owner(mac).filter(|owner| *owner != port) {
            return Err(StaticError::Reserved { port, mac, owner });
        }
        let pinned = view.bridge.fdb.pin(Key::new(mac, vlan), port);
        if pinned { Ok(()) } else { Err(StaticError::Full(bridge.to_owned())) }
    }

    /// Removes a static entry. `vlan` is as in the listing; `None` for 0.
    ///
    /// # Errors
    /// If no bridge has this name, or no such entry exists.
    pub fn remove_static(
        &self,
        bridge: &str,
        mac: MacAddress,
        vlan: Option<VlanId>,
    ) -> Result<(), StaticError> {
        let vlan = vlan.map_or(NO_VLAN, VlanId::get);
        let removed = self.bridge(bridge)?.fdb.unpin(Key::new(mac, vlan));
        if removed { Ok(()) } else { Err(StaticError::Missing { bridge: bridge.to_owned(), mac, vlan }) }
    }

    /// Removes a station, learned or static. `vlan` is as in the listing; 0 for frames without one. A learned station
    /// is learned again from its next packet.
    ///
    /// # Errors
    /// If no bridge has this name, or the station is not known.
    pub fn forget(&self, bridge: &str, mac: MacAddress, vlan: u16) -> Result<(), RemoveStationError> {
        let removed = self.bridge(bridge)?.fdb.forget(Key::new(mac, vlan), |_| true);
        if removed {
            Ok(())
        } else {
            Err(RemoveStationError::Missing { bridge: bridge.to_owned(), mac, vlan })
        }
    }

    /// Removes the learned stations of a bridge selected by `selection`; returns their number.
    ///
    /// # Errors
    /// If no bridge has this name.
    pub fn flush(&self, bridge: &str, selection: Selection) -> Result<usize, UnknownBridge> {
        Ok(self.bridge(bridge)?.fdb.flush(|entry| selection.names(entry.port, entry.key.vlan())))
    }

    /// Stations of a bridge that have not aged, sorted by address and VLAN.
    ///
    /// # Errors
    /// If no bridge has this name.
    pub fn stations(&self, bridge: &str, now: Now) -> Result<Vec<Station>, UnknownBridge> {
        let second = (now.0 / 1_000_000_000) as u32;
        let entries = self.bridge(bridge)?.fdb.stations(second);
        let station = |entry: super::bucket::Entry| Station {
            mac: entry.key.mac(),
            vlan: entry.key.vlan(),
            port: entry.port.0,
            age_seconds: (!entry.pinned).then(|| second.saturating_sub(entry.stamp)),
            pinned: entry.pinned,
        };
        Ok(entries.into_iter().map(station).collect())
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
        self.published.publish(Arc::new(table));
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

    /// `inner`, with its packets copied by the mirrors of this switch. All ports of `inner` must be on bridges of this
    /// switch.
    pub fn mirrored(&self, inner: Arc<dyn Pipelines>) -> Mirrored {
        Mirrored::new(self.published.clone(), inner)
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
    fn worker(&self, index: usize) -> Box<dyn Pipeline> {
        Box::new(Worker::new(self.published.clone(), self.ports, Share { index, rss: self.rss }))
    }

    fn observer(&self) -> Option<Box<dyn PortObserver>> {
        let (published, bonds) = (self.published.clone(), self.bonds.clone());
        Some(Box::new(Observer { published, bonds, listener: self.listener.clone() }))
    }
}

/// Allows the stations of stopped ports to move, and passes on the links and protocol frames of ports: LACPDUs to bonds.
struct Observer {
    published: Arc<Published>,
    bonds: Arc<Bonds>,
    listener: Arc<OnceLock<Listener>>,
}

impl Observer {
    fn tell(&self, event: LinkEvent) {
        if let Some(listener) = self.listener.get() {
            listener(event);
        }
    }
}

impl PortObserver for Observer {
    fn changed(&mut self, port: PortId, is_up: bool, now: Now) {
        if let Some(bond) = self.bonds.changed(port, is_up, now) {
            self.stopped(bond, now);
        }
        self.tell(LinkEvent::Changed(port, is_up));
    }

    fn punted(&mut self, packet: Punted) {
        let port = packet.context.from;
        if self.published.current().link(port).is_some() {
            self.bonds.received(port, &packet.frame, packet.context.now);
        } else {
            self.tell(LinkEvent::Received(port, packet.frame));
        }
    }

    fn stopped(&mut self, port: PortId, now: Now) {
        let table = self.published.current();
        if let Some(view) = table.member(port).and_then(|member| table.view(member.bridge)) {
            view.bridge.fdb.release(port, (now.0 / 1_000_000_000) as u32);
        }
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

fn check_port(port: PortId, bridge: &Bridge, config: &PortConfig) -> Result<(), AddPortError> {
    let sources = config.sources.as_deref().unwrap_or_default();
    let (entries, most) = (config.macs.len().max(sources.len()), PortConfig::MAX_LIST);
    if entries > most {
        return Err(AddPortError::TooLong { port, entries, most });
    }
    if let Some(mac) = config.macs.iter().find(|mac| mac.is_group() || mac.is_zero()) {
        return Err(AddPortError::NoStation { port, mac: *mac });
    }
    if sources.contains(&AllowedSource::Dhcp) && !bridge.config.dhcp_snooping {
        return Err(AddPortError::NoSnooping { port, bridge: bridge.name.clone() });
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

/// VLAN of a static entry at `member`.
fn static_vlan(
    view: &View,
    member: &Member,
    mac: MacAddress,
    vlan: Option<VlanId>,
    port: PortId,
) -> Result<u16, StaticError> {
    let Some(vlan) = vlan.map(VlanId::get) else {
        return member.vlan.classify(None).ok_or(StaticError::VlanMissing { port, mac });
    };
    let carried = view.vlan_aware && member.vlan.carries(vlan);
    if carried { Ok(vlan) } else { Err(StaticError::VlanDenied { port, mac, vlan }) }
}

fn bridge_statistics(table: &PortTable, view: &View) -> BridgeStatistics {
    let Bridge { name, config, fdb, .. } = &*view.bridge;
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
