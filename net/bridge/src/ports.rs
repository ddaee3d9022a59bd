//! Which port belongs to which bridge: a table that changes rarely and is read for every burst.
//!
//! A table is never changed once it is published. The control side publishes a new one and then bumps the
//! generation; each worker compares generations at its burst boundaries and takes the new table if no thread is
//! publishing at that moment, otherwise at its next burst. So neither waits for the other.

use super::config::{BridgeConfig, PortConfig, Vlan};
use super::fdb::Fdb;
use super::guard::Guard;
use super::limit::Limiter;
use super::refusals::Refusals;
use mem::line::Padded;
use port::PortId;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A bridge: what does not change while it lives.
pub(super) struct Bridge {
    pub(super) name: String,
    pub(super) config: BridgeConfig,
    pub(super) fdb: Fdb,
    pub(super) refusals: Refusals,
}

/// A bridge as of one table: with its ports.
#[derive(Clone)]
pub(super) struct View {
    pub(super) bridge: Arc<Bridge>,
    pub(super) members: Vec<PortId>,
    /// Whether a port of it is not transparent, so that tags have to be looked at.
    pub(super) vlan_aware: bool,
}

/// A port of a bridge.
pub(super) struct Member {
    /// The number of its bridge.
    pub(super) bridge: u16,
    pub(super) vlan: Vlan,
    pub(super) trusted: bool,
    /// Port security; `None` if any packet is allowed.
    pub(super) guard: Option<Box<Guard>>,
    pub(super) broadcast: Option<Limiter>,
    pub(super) unknown: Option<Limiter>,
    pub(super) counters: Padded<Counters>,
}

/// What workers count per port. They add once per burst, and only when something happened.
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
    /// Whether a refused move is to be reported: the first of each second.
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

    /// The bridge of that name, and its number.
    pub(super) fn named(&self, name: &str) -> Option<(u16, &View)> {
        let mut views =
            self.views.iter().enumerate().filter_map(|(i, view)| Some((i as u16, view.as_ref()?)));
        views.find(|(_, view)| view.bridge.name == name)
    }

    /// Puts `member` in place of whatever port `port` was.
    pub(super) fn set(&mut self, port: PortId, member: Option<Arc<Member>>) {
        let number = port.0 as usize;
        if self.members.len() <= number {
            self.members.resize(number + 1, None);
        }
        self.members[number] = member;
        self.derive();
    }

    /// Works out what follows from the members.
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
#[derive(Default)]
pub(super) struct Published {
    generation: Padded<AtomicU64>,
    current: Mutex<Arc<PortTable>>,
}

impl Published {
    /// The table of this moment. Waits for a publisher; for the control side.
    pub(super) fn table(&self) -> Arc<PortTable> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces it.
    pub(super) fn publish(&self, table: PortTable) {
        let table = Arc::new(table);
        let old = {
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, table)
        };
        // Pairs with the Acquire in `newer`: a reader of the new number finds at least this table.
        self.generation.fetch_add(1, Ordering::Release);
        drop(old);
    }

    /// The table, and its number, if it is newer than number `than` and no thread is publishing. Never waits.
    #[inline(always)]
    pub(super) fn newer(&self, than: u64) -> Option<(u64, Arc<PortTable>)> {
        // Pairs with the Release in `publish`.
        let generation = self.generation.load(Ordering::Acquire);
        if generation == than { None } else { self.take(generation) }
    }

    /// The table and a number that is not newer than it. Waits for a thread that is copying or replacing it.
    pub(super) fn latest(&self) -> (u64, Arc<PortTable>) {
        // Pairs with the Release in `publish`; read first, so that the table is at least as new.
        let generation = self.generation.load(Ordering::Acquire);
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        (generation, current.clone())
    }

    #[cold]
    fn take(&self, generation: u64) -> Option<(u64, Arc<PortTable>)> {
        self.current.try_lock().ok().map(|current| (generation, current.clone()))
    }
}
