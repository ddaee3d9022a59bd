//! Messages from workers and the engine to control: flows that packets learn or end, and states of ports. The senders
//! do not wait for control, but wake it.

use super::directory::Bridge;
use super::packet_out::PacketOuts;
use super::underlay::{Local, Wanted};
use crate::modify::PortNo;
use crate::tables::{LearnedFlow, Learning, Reduction, Tables, limits};
use ::tunnel::Request;
use port::{Now, PortId, Punted};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Effects of packets that wait for control.
const MAX_NOTED: usize = 1024;
/// Learned flows of one version of the tables. Fewer than the changes that a version logs, so that a sender with many
/// addresses does not make the cached results of others wrong.
const BATCH: usize = 256;
const _: () = assert!(2 * BATCH < limits::LOGGED_CHANGES);

/// Whether a port of an OpenFlow bridge can send has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortEvent {
    /// The port.
    pub port: PortId,
    /// Its bridge.
    pub bridge: String,
    /// Its number on the bridge.
    pub number: PortNo,
    /// Whether it can send.
    pub is_up: bool,
}

/// Effects of the packets of a result on the flows of their bridge.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) learned: Box<[Arc<LearnedFlow>]>,
    pub(super) reduced: Box<[Reduction]>,
}

impl Effects {
    pub(super) fn new(learned: Vec<LearnedFlow>, reduced: Vec<Reduction>) -> Self {
        Self { learned: learned.into_iter().map(Arc::new).collect(), reduced: reduced.into() }
    }
}

/// A flow that a packet has learned, or whose timeouts it lowers.
pub(super) enum Effect {
    Learn(Arc<LearnedFlow>),
    Reduce(Reduction),
}

/// An effect of a packet at `used`.
pub(super) struct Noted {
    pub(super) bridge: Arc<Bridge>,
    pub(super) effect: Effect,
    pub(super) used: Now,
}

/// State shared by all threads. Workers wait for none of the locks.
pub(super) struct Exchange {
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Whether the waker was called since control took something.
    is_awake: AtomicBool,
    noted: SyncSender<Noted>,
    noted_taken: Mutex<Receiver<Noted>>,
    /// The latest event of each port.
    ports: Mutex<BTreeMap<PortId, PortEvent>>,
    pub(super) packet_outs: PacketOuts,
    /// For tunnels.
    pub(super) wanted: Wanted,
    /// See [`super::FlowSwitch::watch_results`].
    pub(super) result_listener: OnceLock<Box<dyn Fn(PortId) + Send + Sync>>,
}

/// Locks a mutex whose data are valid even if a thread has panicked.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the content of a mutex.
pub(super) fn take<T: Default>(mutex: &Mutex<T>) -> T {
    std::mem::take(&mut *lock(mutex))
}

impl Exchange {
    pub(super) fn new() -> Self {
        let (noted, receiver) = sync_channel(MAX_NOTED);
        Self {
            waker: OnceLock::new(),
            is_awake: AtomicBool::new(false),
            noted,
            noted_taken: Mutex::new(receiver),
            ports: Mutex::default(),
            packet_outs: PacketOuts::new(),
            wanted: Wanted::default(),
            result_listener: OnceLock::new(),
        }
    }

    /// Sets the function that wakes control, unless it is set.
    pub(super) fn set_waker(&self, waker: Box<dyn Fn() + Send + Sync>) {
        if self.waker.set(waker).is_ok() {
            // For what was added before.
            self.begin_taking();
            self.wake();
        }
    }

    /// Wakes control once for everything that it has not taken. Must be called after something was added.
    pub(super) fn wake(&self) {
        // Pairs with `begin_taking`: if that comes later, it sees what was added; if it came before, control is woken.
        if !self.is_awake.swap(true, Ordering::AcqRel)
            && let Some(waker) = self.waker.get()
        {
            waker();
        }
    }

    /// Must be called before control takes anything.
    pub(super) fn begin_taking(&self) {
        // See `wake`.
        self.is_awake.swap(false, Ordering::AcqRel);
    }

    /// Takes effects of packets, in the order in which each worker has noted them. Wakes control if there may be more.
    pub(super) fn take_noted(&self) -> Vec<Noted> {
        self.begin_taking();
        let taken: Vec<_> = lock(&self.noted_taken).try_iter().take(BATCH).collect();
        if taken.len() == BATCH {
            self.wake();
        }
        taken
    }

    /// Adds the state of a port, in place of an earlier one.
    pub(super) fn port_changed(&self, event: PortEvent) {
        lock(&self.ports).insert(event.port, event);
        self.wake();
    }

    /// Passes a frame to the addresses of a bridge.
    pub(super) fn frame(&self, local: &Local, packet: Punted) {
        self.wanted.frame(local, packet);
        self.wake();
    }

    /// Asks control to resolve a next hop.
    pub(super) fn resolve(&self, request: Request) {
        if self.wanted.resolve(request) {
            self.wake();
        }
    }

    /// Tells control of a packet that does not fit through a tunnel; see [`Wanted::too_long`].
    pub(super) fn too_long(&self, origin: (String, PortNo), head: &[u8], mtu: u16) {
        if self.wanted.too_long(origin, head, mtu) {
            self.wake();
        }
    }

    /// Removes the state of a port.
    pub(super) fn forget_port(&self, port: PortId) {
        lock(&self.ports).remove(&port);
    }

    pub(super) fn take_port_events(&self) -> Vec<PortEvent> {
        self.begin_taking();
        take(&self.ports).into_values().collect()
    }
}

/// A worker's way to change the flows that packets of a bridge learn or end.
pub(super) struct Learner {
    exchange: Arc<Exchange>,
    bridge: Arc<Bridge>,
}

impl Learner {
    pub(super) fn new(exchange: Arc<Exchange>, bridge: Arc<Bridge>) -> Self {
        Self { exchange, bridge }
    }

    /// The way to control for everything else.
    pub(super) fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// Refreshes the flows that a packet at `used` has learned, or passes them to control if `tables` does not have
    /// them, as well as those whose timeouts become lower. Returns `false` if control has no room for all, so that it
    /// must be called again.
    pub(super) fn apply(&self, tables: &Tables, effects: &Effects, used: Now) -> bool {
        let mut has_room = true;
        for flow in &effects.learned {
            match tables.learning(flow, used) {
                Learning::Known(found) => found.entry().refresh(used),
                Learning::Superseded | Learning::Full => {}
                Learning::Unknown => has_room &= self.pass(Effect::Learn(flow.clone()), used),
            }
        }
        for reduction in effects.reduced.iter().filter(|reduction| reduction.lower().is_some()) {
            has_room &= self.pass(Effect::Reduce(reduction.clone()), used);
        }
        has_room
    }

    fn pass(&self, effect: Effect, used: Now) -> bool {
        let noted = Noted { bridge: self.bridge.clone(), effect, used };
        let is_passed = self.exchange.noted.try_send(noted).is_ok();
        if is_passed {
            self.exchange.wake();
        } else {
            self.bridge.counts.learn_full.fetch_add(1, Ordering::Relaxed);
        }
        is_passed
    }
}
