//! Mapping of ports to bridges: changed rarely, read per burst.

use super::bond::{Bond, Link};
use super::config::{BridgeConfig, PortConfig, PortState, Vlan};
use super::fdb::Fdb;
use super::guard::Guard;
use super::limit::Limiter;
use super::mirror::{self, Mirror, Mirrors};
use super::protocols::{MEMBERSHIP_RATE, Protocols};
use super::refusals::Refusals;
use mem::line::Padded;
use port::PortId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// State of a bridge that all tables share.
pub(super) struct Bridge {
    pub(super) name: String,
    pub(super) fdb: Fdb,
    pub(super) refusals: Refusals,
    /// Ports of multicast groups; `None` without snooping.
    pub(super) groups: Option<port::Published<snooping::Table>>,
}

/// A bridge and its ports, as of one table.
#[derive(Clone)]
pub(super) struct View {
    pub(super) bridge: Arc<Bridge>,
    pub(super) config: BridgeConfig,
    pub(super) members: Vec<PortId>,
    /// Members that get flooded packets: those that forward, without the output ports of mirrors.
    pub(super) flooded: Vec<PortId>,
    pub(super) configured: Vec<Arc<Mirror>>,
    /// The mirrors whose output exists, if there are any.
    pub(super) mirrors: Option<Arc<Mirrors>>,
    /// Whether a port is not transparent, so that tags must be evaluated.
    pub(super) vlan_aware: bool,
    /// Bonds among the members.
    pub(super) bonds: Vec<Arc<Bond>>,
    /// Whether frames of protocols must be taken from its ports before flow tables see them.
    pub(super) has_protocols: bool,
}

impl View {
    /// A bridge without ports and mirrors.
    pub(super) fn new(bridge: Arc<Bridge>, config: BridgeConfig) -> Self {
        let (members, flooded, configured) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            bridge,
            config,
            members,
            flooded,
            configured,
            mirrors: None,
            vlan_aware: false,
            bonds: Vec::new(),
            has_protocols: false,
        }
    }
}

/// A port of a bridge.
pub(super) struct Member {
    /// Number of its bridge.
    pub(super) bridge: u16,
    pub(super) vlan: Vlan,
    pub(super) trusted: bool,
    /// Port security; `None` if all packets are allowed.
    pub(super) guard: Option<Box<Guard>>,
    pub(super) broadcast: Option<Limiter>,
    pub(super) unknown: Option<Limiter>,
    /// Whether the port is in a spanning tree.
    pub(super) stp: bool,
    /// Protocols whose frames go to control; `None` if there are none.
    pub(super) protocols: Option<Box<Protocols>>,
    /// Limit of membership messages; `None` without snooping.
    pub(super) membership: Option<Limiter>,
    pub(super) counters: Padded<Counters>,
}

/// Per-port counters of the workers. Updated once per burst, and only if non-zero.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) refused: AtomicU64,
    pub(super) deferred: AtomicU64,
    pub(super) moves: AtomicU64,
    pub(super) refused_moves: AtomicU64,
    /// The second after the one in which a refused move was last reported.
    pub(super) reported: AtomicU32,
}

impl Member {
    /// Whether to report a refused move: true for the first one in each second.
    pub(super) fn reports(&self, second: u32) -> bool {
        self.counters.reported.swap(second + 1, Ordering::Relaxed) != second + 1
    }

    pub(super) fn new(bridge: u16, settings: &BridgeConfig, config: &PortConfig) -> Self {
        Self {
            bridge,
            vlan: config.vlan.clone(),
            trusted: config.trusted,
            guard: Guard::of(settings, config),
            broadcast: config.broadcast_limit.map(Limiter::new),
            unknown: config.unknown_limit.map(Limiter::new),
            stp: config.stp,
            protocols: Protocols::of(config),
            membership: settings.multicast_snooping.then(|| Limiter::new(MEMBERSHIP_RATE)),
            counters: Padded(Counters::default()),
        }
    }
}

/// How packets of a port are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ingress {
    Open,
    Guarded,
    /// The port does not forward.
    Closed,
}

/// A port with its state.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) member: Arc<Member>,
    pub(super) state: PortState,
    pub(super) ingress: Ingress,
    /// Number of the bridge whose packets are sent to the port; [`NO_BRIDGE`] if the port does not forward.
    egress: u16,
}

/// No bridge has this number.
pub(super) const NO_BRIDGE: u16 = u16::MAX;

impl Place {
    pub(super) fn new(member: Arc<Member>, state: PortState) -> Self {
        let is_guarded = member.guard.is_some();
        let (ingress, egress) = match state {
            PortState::Forwarding if is_guarded => (Ingress::Guarded, member.bridge),
            PortState::Forwarding => (Ingress::Open, member.bridge),
            PortState::Discarding | PortState::Learning => (Ingress::Closed, NO_BRIDGE),
        };
        Self { member, state, ingress, egress }
    }
}

/// All bridges and their ports, each by number.
#[derive(Clone, Default)]
pub(super) struct PortTable {
    places: Vec<Option<Place>>,
    /// Members of bonds; they are on no bridge themselves.
    pub(super) links: Vec<Option<Arc<Link>>>,
    pub(super) views: Vec<Option<View>>,
    /// The bonds of all bridges.
    pub(super) bonds: Vec<Arc<Bond>>,
}

impl PortTable {
    #[inline(always)]
    pub(super) fn place(&self, port: PortId) -> Option<&Place> {
        self.places.get(port.0 as usize)?.as_ref()
    }

    #[inline(always)]
    pub(super) fn member(&self, port: PortId) -> Option<&Member> {
        Some(&self.place(port)?.member)
    }

    /// Whether packets of a bridge are sent to `port`.
    #[inline(always)]
    pub(super) fn sends(&self, bridge: u16, port: PortId) -> bool {
        self.place(port).is_some_and(|place| place.egress == bridge)
    }

    /// The port as a member of a bond.
    #[inline]
    pub(super) fn link(&self, port: PortId) -> Option<&Link> {
        self.links.get(port.0 as usize)?.as_deref()
    }

    #[inline(always)]
    pub(super) fn view(&self, bridge: u16) -> Option<&View> {
        self.views.get(bridge as usize)?.as_ref()
    }

    /// The bridge with this name, and its number.
    pub(super) fn named(&self, name: &str) -> Option<(u16, &View)> {
        let mut views =
            self.views.iter().enumerate().filter_map(|(i, view)| Some((i as u16, view.as_ref()?)));
        views.find(|(_, view)| view.bridge.name == name)
    }

    /// Sets or clears the entry of `port`.
    pub(super) fn set(&mut self, port: PortId, place: Option<Place>) {
        let number = port.0 as usize;
        if self.places.len() <= number {
            self.places.resize(number + 1, None);
        }
        self.places[number] = place;
        self.derive();
    }

    /// Sets the mirrors of a bridge.
    pub(super) fn set_mirrors(&mut self, bridge: u16, mirrors: Vec<Arc<Mirror>>) {
        if let Some(Some(view)) = self.views.get_mut(usize::from(bridge)) {
            view.configured = mirrors;
            self.derive();
        }
    }

    /// The ports of a bridge, with their VLAN modes.
    pub(super) fn modes(&self, bridge: u16) -> BTreeMap<PortId, &Vlan> {
        let all = (0..).zip(&self.places).filter_map(|(port, place)| Some((port, place.as_ref()?)));
        let own = all.filter(|(_, place)| place.member.bridge == bridge);
        own.map(|(port, place)| (PortId(port), &place.member.vlan)).collect()
    }

    /// Sets or clears the bond of which `port` is a member.
    pub(super) fn set_link(&mut self, port: PortId, link: Option<Arc<Link>>) {
        let number = port.0 as usize;
        if self.links.len() <= number {
            self.links.resize(number + 1, None);
        }
        self.links[number] = link;
    }

    /// Recomputes the derived fields of all views.
    pub(super) fn derive(&mut self) {
        let places = &self.places;
        for (number, view) in self.views.iter_mut().enumerate() {
            let Some(view) = view else { continue };
            let own = || {
                let all = places.iter().enumerate();
                let all = all.filter_map(|(port, place)| Some((PortId(port as u16), place.as_ref()?)));
                all.filter(|(_, place)| place.member.bridge as usize == number)
            };
            view.members = own().map(|(port, _)| port).collect();
            view.flooded =
                own().filter(|(_, place)| place.egress != NO_BRIDGE).map(|(port, _)| port).collect();
            view.vlan_aware = own().any(|(_, place)| place.member.vlan != Vlan::Transparent);
            view.has_protocols =
                view.config.flow_tables && own().any(|(_, place)| place.member.protocols.is_some());
        }
        for bridge in 0..self.views.len() {
            self.derive_mirrors(bridge as u16);
        }
        self.bonds = self.views.iter().flatten().flat_map(|view| view.bonds.iter().cloned()).collect();
    }

    fn derive_mirrors(&mut self, bridge: u16) {
        let Some(view) = self.view(bridge) else { return };
        let modes = self.modes(bridge);
        let reserved = mirror::reserved(&view.configured, &modes);
        let mirrors = Mirrors::new(&view.configured, &modes);
        if let Some(Some(view)) = self.views.get_mut(usize::from(bridge)) {
            view.mirrors = mirrors;
            view.flooded.retain(|port| !reserved.contains(port));
        }
    }
}

/// The published table.
pub(super) type Published = port::Published<PortTable>;
