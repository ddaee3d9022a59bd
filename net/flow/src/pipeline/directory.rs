//! Ports of OpenFlow bridges: numbers of the engine and numbers of OpenFlow. Changed rarely, read per burst.

use super::drops::Drops;
use super::exchange::take;
use super::port_config::PortConfig;
use super::recirculation::TunnelCounts;
use crate::Key;
use crate::modify::PortNo;
use crate::tables::{Changes, Control, Tables};
use crate::translate::{Environment, Local, Resume, Translation, translate};
use ::tunnel::{Ambiguous, Path, Paths, Tunnel, Tunnels, Unreachable};
use port::{PortId, Published};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A bridge: its tables as control changes them, and as workers see them.
pub(super) struct Bridge {
    pub(super) name: String,
    pub(super) control: Mutex<Control>,
    pub(super) tables: Published<Tables>,
    /// Changes that their caller does not report itself. Added while `control` is locked, so that the changes of a call
    /// that locks it follow them.
    pub(super) recorded: Mutex<Changes>,
    pub(super) counts: Counts,
}

impl Bridge {
    /// Recorded changes, and then `changes`. Must be called while `control` is locked.
    pub(super) fn with_recorded(&self, changes: Changes) -> Changes {
        let mut all = take(&self.recorded);
        all.extend(changes);
        all
    }
}

/// Packets by the place where they were found, and learned flows. Added to by workers, once for many packets.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) head: AtomicU64,
    pub(super) megaflow: AtomicU64,
    pub(super) tables: AtomicU64,
    /// Masks of the megaflow cache.
    pub(super) probes: AtomicU64,
    /// See [`super::CacheCounts`].
    pub(super) evicted: AtomicU64,
    pub(super) evicted_masks: AtomicU64,
    /// See [`super::LearnCounts`].
    pub(super) learn_added: AtomicU64,
    pub(super) learn_refused: AtomicU64,
    pub(super) learn_full: AtomicU64,
    pub(super) drops: Drops,
}

/// A port of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Position in [`Directory::bridges`].
    pub(super) bridge: u16,
    pub(super) number: PortNo,
    /// Whether packets of the port are processed.
    pub(super) receives: bool,
}

/// A port as its bridge sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) port: PortId,
    /// Whether it can send.
    pub(super) is_live: bool,
    /// What controllers allow.
    pub(super) config: PortConfig,
    /// Whether it gets packets of mirrors only.
    pub(super) is_reserved: bool,
    pub(super) kind: PlaceKind,
}

/// How packets leave by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceKind {
    /// The engine sends them.
    Engine,
    /// Through a tunnel.
    Tunnel,
}

impl Place {
    pub(super) fn is_tunnel(self) -> bool {
        self.kind == PlaceKind::Tunnel
    }

    /// Whether it can send, for groups.
    pub(super) fn is_usable(self) -> bool {
        self.is_live && !self.config.is_down
    }
}

/// Changes of a bridge's ports, and of the other bridges that its results contain, by their place in the sequence of
/// all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PortChanges {
    /// The latest.
    pub(super) latest: u64,
    /// The latest of those on which all results depend: the numbers of ports, tunnels, and what underlays do.
    pub(super) numbers: u64,
    /// The latest of the ports that can send, on which the results of fast failover and of watched ports depend.
    pub(super) liveness: u64,
}

impl PortChanges {
    fn renumbered(&mut self) {
        self.latest += 1;
        self.numbers = self.latest;
    }

    fn revived(&mut self) {
        self.latest += 1;
        self.liveness = self.latest;
    }
}

/// A bridge and its ports.
#[derive(Clone)]
pub(super) struct View {
    pub(super) bridge: Arc<Bridge>,
    pub(super) ports: BTreeMap<PortNo, Place>,
    pub(super) changes: PortChanges,
    /// Whether packets go to the pipeline of `NORMAL` instead of the tables.
    pub(super) is_standalone: bool,
}

/// A tunnel and its counters, to which workers add once for many packets.
pub(super) struct Tunneling {
    pub(super) tunnel: Tunnel,
    pub(super) counts: SharedCounts,
    /// A translation that outputs to its port.
    pub(super) output: Arc<Resume>,
}

/// [`TunnelCounts`] of all workers.
#[derive(Default)]
pub(super) struct SharedCounts([AtomicU64; 4]);

impl SharedCounts {
    pub(super) fn add(&self, counts: &TunnelCounts) {
        let TunnelCounts { rx_packets, rx_bytes, tx_packets, tx_bytes } = *counts;
        for (counter, n) in self.0.iter().zip([rx_packets, rx_bytes, tx_packets, tx_bytes]) {
            if n > 0 {
                counter.fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn read(&self) -> TunnelCounts {
        let [rx_packets, rx_bytes, tx_packets, tx_bytes] =
            self.0.each_ref().map(|counter| counter.load(Ordering::Relaxed));
        TunnelCounts { rx_packets, rx_bytes, tx_packets, tx_bytes }
    }
}

/// All bridges and their ports, and where tunnels lead.
#[derive(Clone, Default)]
pub(super) struct Directory {
    /// By number of the engine.
    members: Vec<Option<Member>>,
    pub(super) bridges: Vec<Option<View>>,
    /// Tunnels by the number of their port.
    tunnel_ports: BTreeMap<PortId, Arc<Tunneling>>,
    /// Whether controllers have forbidden any port to send, or had.
    has_blocked: bool,
    /// Tunnels by the packets that they receive.
    pub(super) tunnels: Tunnels<PortId>,
    /// Routes and neighbours of the addresses of bridges.
    pub(super) paths: Arc<Paths>,
}

impl Directory {
    /// Bridge and number of a port.
    #[inline]
    pub(super) fn member(&self, port: PortId) -> Option<Member> {
        *self.members.get(usize::from(port.0))?
    }

    /// As [`Directory::member`], if the tables of the bridge decide about its packets.
    #[inline]
    pub(super) fn by_tables(&self, port: PortId) -> Option<Member> {
        self.member(port).filter(|member| self.view(member.bridge).is_some_and(|view| !view.is_standalone))
    }

    /// A bridge.
    #[inline]
    pub(super) fn view(&self, bridge: u16) -> Option<&View> {
        self.bridges.get(usize::from(bridge))?.as_ref()
    }

    /// The bridge of this name.
    pub(super) fn named(&self, name: &str) -> Option<(u16, &View)> {
        let mut views = (0..).zip(&self.bridges).filter_map(|(i, view)| Some((i, view.as_ref()?)));
        views.find(|(_, view)| view.bridge.name == name)
    }

    /// Makes a port a tunnel.
    pub(super) fn add_tunnel(&mut self, port: PortId, tunnel: Tunnel) -> Result<(), Ambiguous> {
        self.tunnels.add(&tunnel, port)?;
        let counts = SharedCounts::default();
        let number = self.member(port).map_or(PortNo::ANY, |own| own.number);
        let output = Arc::new(Resume::output(number));
        self.tunnel_ports.insert(port, Arc::new(Tunneling { tunnel, counts, output }));
        self.update(port, |place| place.kind = PlaceKind::Tunnel);
        self.renew_all();
        Ok(())
    }

    /// The tunnel that a port is.
    #[inline]
    pub(super) fn tunnel(&self, port: PortId) -> Option<&Tunneling> {
        self.tunnel_ports.get(&port).map(|tunnel| &**tunnel)
    }

    /// All ports that are tunnels.
    pub(super) fn tunnel_ports(&self) -> impl Iterator<Item = (PortId, &Arc<Tunneling>)> {
        self.tunnel_ports.iter().map(|(port, tunnel)| (*port, tunnel))
    }

    /// Whether any port is a tunnel.
    #[inline]
    pub(super) fn has_tunnels(&self) -> bool {
        !self.tunnel_ports.is_empty()
    }

    /// Whether controllers have forbidden any port to send, or had.
    #[inline]
    pub(super) fn has_blocked_ports(&self) -> bool {
        self.has_blocked
    }

    /// The output of packets to a port, if not the engine alone decides about them.
    pub(super) fn output_by_tables(&self, port: PortId) -> Option<Arc<Resume>> {
        if let Some(tunnel) = self.tunnel(port) {
            return Some(tunnel.output.clone());
        }
        let Member { bridge, number, .. } = self.member(port)?;
        let place = self.view(bridge)?.ports.get(&number)?;
        (!place.config.sends()).then(|| Arc::new(Resume::output(number)))
    }

    /// Whether the results of other bridges contain those of this one.
    pub(super) fn is_underlay(&self, bridge: u16) -> bool {
        self.has_tunnels() && self.paths.interface(bridge).is_some()
    }

    /// Replaces the routes and neighbours.
    pub(super) fn set_paths(&mut self, paths: Paths) {
        self.paths = Arc::new(paths);
        self.renew_all();
    }

    /// Discards the results of a bridge, and those of all bridges if they may contain its results.
    pub(super) fn renew(&mut self, bridge: u16) {
        self.changed(bridge, PortChanges::renumbered);
    }

    /// Discards the results of all bridges.
    fn renew_all(&mut self) {
        self.bridges.iter_mut().flatten().for_each(|view| view.changes.renumbered());
    }

    fn changed(&mut self, bridge: u16, change: impl Fn(&mut PortChanges)) {
        let is_underlay = self.is_underlay(bridge);
        let views = (0..).zip(&mut self.bridges).filter(|(number, _)| is_underlay || *number == bridge);
        views.filter_map(|(_, view)| view.as_mut()).for_each(|view| change(&mut view.changes));
    }

    /// Adds or removes a port.
    pub(super) fn set(&mut self, port: PortId, member: Option<Member>) {
        let at = usize::from(port.0);
        self.members.resize(self.members.len().max(at + 1), None);
        let before = std::mem::replace(&mut self.members[at], member);
        if let Some(view) = before.and_then(|member| self.bridges[usize::from(member.bridge)].as_mut()) {
            view.ports.retain(|_, place| place.port != port);
        }
        if let Some(member) = before {
            self.renew(member.bridge);
        }
        if let Some(found) = self.tunnel_ports.remove(&port) {
            self.tunnels.remove(&found.tunnel);
            self.renew_all();
        }
        let Some(Member { bridge, number, .. }) = member else { return };
        if let Some(view) = &mut self.bridges[usize::from(bridge)] {
            let (config, kind) = (PortConfig::default(), PlaceKind::Engine);
            let place = Place { port, is_live: true, config, is_reserved: false, kind };
            view.ports.insert(number, place);
        }
        self.renew(bridge);
    }

    /// Changes a port. Returns whether it is different then.
    pub(super) fn update(&mut self, port: PortId, change: impl FnOnce(&mut Place)) -> bool {
        let Some(Member { bridge, number, .. }) = self.member(port) else { return false };
        let Some(view) = self.bridges[usize::from(bridge)].as_mut() else { return false };
        let Some(place) = view.ports.get_mut(&number) else { return false };
        let before = *place;
        change(place);
        let after = *place;
        if after.is_usable() != before.is_usable() {
            self.changed(bridge, PortChanges::revived);
        }
        if after.config.sends() != before.config.sends() {
            self.has_blocked = true;
            self.renew(bridge);
        }
        if let Some(member) = &mut self.members[usize::from(port.0)] {
            member.receives = after.config.receives();
        }
        if after.is_tunnel() && after != (Place { is_live: after.is_live, ..before }) {
            // Results contain the copies of flooded packets for tunnels.
            self.renew(bridge);
        }
        after != before
    }
}

/// A bridge among all others, for translations.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) directory: &'a Directory,
    pub(super) view: &'a View,
    /// Number of the bridge.
    pub(super) bridge: u16,
    /// Whether the packet has outer headers of this pass already. Further ones need another pass.
    pub(super) is_nested: bool,
}

impl Environment for Scope<'_> {
    fn is_live(&self, port: PortNo) -> bool {
        self.view.ports.get(&port).is_some_and(|place| place.is_usable())
    }

    fn tunnel(&self, port: PortNo) -> Option<&Tunnel> {
        let place = self.view.ports.get(&port).filter(|place| place.is_tunnel())?;
        self.directory.tunnel(place.port).map(|found| &found.tunnel)
    }

    fn tunnels(&self, flooded: bool) -> Vec<PortNo> {
        let is_member = |place: &Place| {
            place.is_tunnel() && !place.is_reserved && (!place.config.is_not_flooded || !flooded)
        };
        self.view.ports.iter().filter(|(_, place)| is_member(place)).map(|(number, _)| *number).collect()
    }

    fn local(&self) -> Option<Local<'_>> {
        let Directory { paths, tunnels, .. } = self.directory;
        let interface = paths.interface(self.bridge)?;
        Some(Local { bridge: self.bridge, interface, paths, tunnels })
    }

    fn path(&self, source: Option<IpAddr>, destination: IpAddr) -> Result<Path, Unreachable> {
        self.directory.paths.find(source, destination)
    }

    fn underlay(&self, bridge: u16, key: &Key) -> Option<Translation> {
        let view = self.directory.view(bridge).filter(|view| !self.is_nested && !view.is_standalone)?;
        let scope = Scope { view, bridge, is_nested: true, ..*self };
        Some(translate(&view.bridge.tables.current(), key, PortNo::LOCAL, &scope))
    }
}
