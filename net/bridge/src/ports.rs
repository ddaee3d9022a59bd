//! Mapping of ports to bridges: changed rarely, read per burst.

use super::config::{BridgeConfig, PortConfig, Vlan};
use super::fdb::Fdb;
use super::guard::Guard;
use super::limit::Limiter;
use super::refusals::Refusals;
use mem::line::Padded;
use port::PortId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Immutable state of a bridge.
pub(super) struct Bridge {
    pub(super) name: String,
    pub(super) config: BridgeConfig,
    pub(super) fdb: Fdb,
    pub(super) refusals: Refusals,
}

/// A bridge and its ports, as of one table.
#[derive(Clone)]
pub(super) struct View {
    pub(super) bridge: Arc<Bridge>,
    pub(super) members: Vec<PortId>,
    /// Whether a port is not transparent, so that tags must be evaluated.
    pub(super) vlan_aware: bool,
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
            counters: Padded(Counters::default()),
        }
    }
}

/// All bridges and their ports, each by number.
#[derive(Clone, Default)]
pub(super) struct PortTable {
    pub(super) members: Vec<Option<Arc<Member>>>,
    pub(super) views: Vec<Option<View>>,
}

impl PortTable {
    #[inline(always)]
    pub(super) fn member(&self, port: PortId) -> Option<&Member> {
        self.members.get(port.0 as usize)?.as_deref()
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
    pub(super) fn set(&mut self, port: PortId, member: Option<Arc<Member>>) {
        let number = port.0 as usize;
        if self.members.len() <= number {
            self.members.resize(number + 1, None);
        }
        self.members[number] = member;
        self.derive();
    }

    /// Recomputes the derived fields of all views.
    fn derive(&mut self) {
        let members = &self.members;
        for (number, view) in self.views.iter_mut().enumerate() {
            let Some(view) = view else { continue };
            let own = || {
                let all = members.iter().enumerate().filter_map(|(port, m)| Some((port, m.as_deref()?)));
                all.filter(|(_, member)| member.bridge as usize == number)
            };
            view.members = own().map(|(port, _)| PortId(port as u16)).collect();
            view.vlan_aware = own().any(|(_, member)| member.vlan != Vlan::Transparent);
        }
    }
}

/// The published table.
pub(super) type Published = port::Published<PortTable>;
