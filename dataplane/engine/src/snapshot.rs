//! The engine's state as one value, for people and programs.

use crate::counters::{Totals, WorkerCounters};
use crate::model::Role;
use port::{DropReason, PortId, PortState, PortStatus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// Everything countable, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Nanoseconds since the engine started.
    pub uptime_ns: u64,
    /// Ticks of the counter that cycles are measured in, per second.
    pub cycles_per_second: f64,
    /// The copy kernel in use.
    pub kernel: String,
    /// Worker by worker.
    pub workers: Vec<WorkerSnapshot>,
    /// Work that a receive queue's turn may be.
    #[serde(default)]
    pub budget: BudgetSnapshot,
    /// Port by port, by number.
    pub ports: Vec<PortSnapshot>,
    /// What was counted for ports that are there no more, so that the sums agree over all ports and this.
    #[serde(default)]
    pub removed: RemovedSnapshot,
}

/// What removed ports counted, all together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RemovedSnapshot {
    /// Packets that came in.
    pub rx_packets: u64,
    /// Bytes that came in, without frame checksums.
    pub rx_bytes: u64,
    /// Packets that left.
    pub tx_packets: u64,
    /// Bytes that left.
    pub tx_bytes: u64,
    /// Copies beyond the first, of packets that came in.
    pub replicated: u64,
    /// Packets and copies that were handed to the control plane.
    pub punted: u64,
    /// Losses by reason; reasons without losses are left out.
    pub drops: BTreeMap<String, u64>,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerSnapshot {
    /// Its index.
    pub index: usize,
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
    /// Times a queue was looked at.
    pub polls: u64,
    /// Times it had nothing.
    pub empty_polls: u64,
    /// Ticks spent in rounds that found packets.
    pub busy_cycles: u64,
    /// Ticks spent in rounds that found none, asleep or not.
    pub idle_cycles: u64,
    /// Times it went to sleep.
    pub sleeps: u64,
    /// Times it woke.
    pub wakes: u64,
    /// Packets received.
    pub packets: u64,
    /// Bursts received.
    pub bursts: u64,
    /// Receive queues it serves.
    pub queues: usize,
    /// Whether it sleeps now.
    pub sleeping: bool,
    /// Turns that ended with a burst carried over, because it was more work than a turn may be.
    #[serde(default)]
    pub carried_turns: u64,
    /// Turns that queues did not get because their packets had cost more than their share.
    #[serde(default)]
    pub skipped_turns: u64,
    /// Bursts that it took from queues of other workers.
    #[serde(default)]
    pub steals: u64,
    /// What it does of the work: `all`, `rx`, `work` or `tx`. Stages on one thread have one CPU.
    #[serde(default)]
    pub role: String,
    /// What it did with the cache of pool buffers of its thread.
    #[serde(default)]
    pub pool: PoolSnapshot,
}

/// The budget of a turn, in units of work: about a nanosecond each on the slowest supported machine ([`port::work`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetSnapshot {
    /// A burst that costs more than so many is carried over to later turns of its receive queue.
    pub turn: u64,
    /// A turn that goes on with a burst ends at the first step behind so many.
    pub slice: u64,
    /// A receive queue is skipped while it has used so many more than the one that used least, among those with packets.
    pub lead: u64,
}

impl Default for BudgetSnapshot {
    fn default() -> Self {
        Self { turn: port::work::TURN, slice: port::work::SLICE, lead: port::work::LEAD }
    }
}

/// A cache of pool buffers, in operations of one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSnapshot {
    /// Buffers that the cache had at hand.
    pub hits: u64,
    /// Times that it had to go to the shared pool for more.
    pub refills: u64,
    /// Times that it had too many and took some back.
    pub spills: u64,
    /// Times that the pool had none.
    pub empty: u64,
    /// Exchanges with the shared pool that were tried again, because another thread's came first.
    #[serde(default)]
    pub retries: u64,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortSnapshot {
    /// Its number.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Its kind, as the configuration file spells it.
    pub kind: String,
    /// Where it is.
    pub place: String,
    /// `waiting`, `connected`, `faulted` or `closed`.
    pub state: String,
    /// The last fault.
    pub fault: Option<String>,
    /// Negotiated features.
    pub features: Vec<String>,
    /// Its queue pairs.
    pub queues: Vec<QueueSnapshot>,
    /// Times the other side connected.
    pub connects: u64,
    /// Memory regions mapped.
    pub memory_regions: usize,
    /// Bytes mapped.
    pub memory_bytes: u64,
    /// Packets that came in.
    pub rx_packets: u64,
    /// Bytes that came in, without frame checksums.
    pub rx_bytes: u64,
    /// Packets that left.
    pub tx_packets: u64,
    /// Bytes that left.
    pub tx_bytes: u64,
    /// Copies beyond the first, of packets that came in here.
    pub replicated: u64,
    /// Packets and copies that were handed to the control plane.
    pub punted: u64,
    /// Losses by reason; reasons without losses are left out.
    pub drops: BTreeMap<String, u64>,
    /// What the port says besides, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

/// One queue pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueSnapshot {
    /// Ring entries.
    pub size: u16,
    /// Whether packets are taken from it.
    pub rx_running: bool,
    /// Whether packets are sent to it.
    pub tx_running: bool,
}

/// What a port says of itself besides its status.
type Details = Vec<(&'static str, String)>;

/// One port as the registry knows it.
struct Entry {
    /// `None`: the port is gone, but its number is not free yet.
    name: Option<String>,
    /// `None`: not alive yet, or not any more.
    status: Option<PortStatus>,
    details: Details,
    /// What stood under its number when it got it.
    before: Totals,
}

/// Names and states of the ports; written by control, read by anyone.
#[derive(Default)]
pub(crate) struct Registry(Mutex<BTreeMap<PortId, Entry>>);

impl Registry {
    fn with<R>(&self, f: impl FnOnce(&mut BTreeMap<PortId, Entry>) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the lowest free number for `name`.
    pub(crate) fn reserve(
        &self,
        name: &str,
        most: usize,
        counters: &[Arc<WorkerCounters>],
    ) -> Result<PortId, crate::EngineError> {
        self.with(|ports| {
            if ports.values().any(|entry| entry.name.as_deref() == Some(name)) {
                return Err(crate::EngineError::NameTaken(name.to_owned()));
            }
            let free = (0..most as u16).map(PortId).find(|id| !ports.contains_key(id));
            let id = free.ok_or(crate::EngineError::TooManyPorts(most))?;
            let before = Totals::of(id, counters);
            ports
                .insert(id, Entry { name: Some(name.to_owned()), status: None, details: Vec::new(), before });
            Ok(id)
        })
    }

    /// Whether a port has the number `id`: one that was hidden has it no more.
    pub(crate) fn contains(&self, id: PortId) -> bool {
        self.with(|ports| ports.get(&id).is_some_and(|entry| entry.name.is_some()))
    }

    /// The name of the port with the number `id`; empty, if it is gone.
    pub(crate) fn name(&self, id: PortId) -> String {
        self.with(|ports| ports.get(&id).and_then(|entry| entry.name.clone()).unwrap_or_default())
    }

    pub(crate) fn update(&self, id: PortId, status: PortStatus, details: Details) {
        self.with(|ports| {
            if let Some(entry) = ports.get_mut(&id) {
                (entry.status, entry.details) = (Some(status), details);
            }
        });
    }

    /// The port is gone for everybody, but its number is not free yet.
    pub(crate) fn hide(&self, id: PortId) {
        self.with(|ports| {
            if let Some(entry) = ports.get_mut(&id) {
                (entry.name, entry.status) = (None, None);
            }
        });
    }

    pub(crate) fn remove(&self, id: PortId) {
        self.with(|ports| ports.remove(&id));
    }

    /// The ports that live, and what was counted for all others.
    pub(crate) fn ports(&self, counters: &[Arc<WorkerCounters>]) -> (Vec<PortSnapshot>, RemovedSnapshot) {
        self.with(|ports| {
            let numbers = counters.first().map_or(0, |worker| worker.max_ports()) as u16;
            let mut removed = Totals::default();
            let mut shown = Vec::new();
            for id in (0..numbers).map(PortId) {
                let now = Totals::of(id, counters);
                let entry = ports.get(&id);
                let live = entry.and_then(|e| Some((e.name.as_ref()?, e.status.as_ref()?, e)));
                let Some((name, status, entry)) = live else {
                    removed = removed.plus(now);
                    continue;
                };
                removed = removed.plus(entry.before);
                let shown_port = port_snapshot(id, name, status, &now.minus(entry.before));
                let details = entry.details.iter().map(|(name, said)| ((*name).to_owned(), said.clone()));
                shown.push(PortSnapshot { details: details.collect(), ..shown_port });
            }
            (shown, removed_snapshot(&removed))
        })
    }
}

fn port_snapshot(id: PortId, name: &str, status: &PortStatus, counted: &Totals) -> PortSnapshot {
    PortSnapshot {
        id: id.0,
        name: name.to_owned(),
        kind: status.kind.to_owned(),
        place: status.place.clone(),
        state: state_name(&status.state).to_owned(),
        fault: status.last_fault.as_ref().map(ToString::to_string),
        features: status.features.iter().map(|&f| f.to_owned()).collect(),
        queues: status.queues.iter().map(queue_snapshot).collect(),
        connects: status.connects,
        memory_regions: status.memory.0,
        memory_bytes: status.memory.1,
        rx_packets: counted.rx_packets,
        rx_bytes: counted.rx_bytes,
        tx_packets: counted.tx_packets,
        tx_bytes: counted.tx_bytes,
        replicated: counted.replicated,
        punted: counted.punted,
        drops: drops(counted),
        details: BTreeMap::new(),
    }
}

fn removed_snapshot(counted: &Totals) -> RemovedSnapshot {
    RemovedSnapshot {
        rx_packets: counted.rx_packets,
        rx_bytes: counted.rx_bytes,
        tx_packets: counted.tx_packets,
        tx_bytes: counted.tx_bytes,
        replicated: counted.replicated,
        punted: counted.punted,
        drops: drops(counted),
    }
}

/// Losses by the names of their reasons.
fn drops(counted: &Totals) -> BTreeMap<String, u64> {
    let lost =
        DropReason::ALL.iter().map(|&reason| (reason.name().to_owned(), counted.drops[reason as usize]));
    lost.filter(|(_, n)| *n > 0).collect()
}

fn queue_snapshot(queue: &port::QueueStatus) -> QueueSnapshot {
    QueueSnapshot { size: queue.size, rx_running: queue.rx_running, tx_running: queue.tx_running }
}

fn state_name(state: &PortState) -> &'static str {
    match state {
        PortState::Waiting => "waiting",
        PortState::Connected => "connected",
        PortState::Faulted(_) => "faulted",
        PortState::Closed => "closed",
    }
}

pub(crate) fn worker_snapshot(
    index: usize,
    (cpu, role): (Option<usize>, Role),
    c: &WorkerCounters,
) -> WorkerSnapshot {
    WorkerSnapshot {
        index,
        cpu,
        polls: c.polls.get(),
        empty_polls: c.empty_polls.get(),
        busy_cycles: c.busy_ticks.get(),
        idle_cycles: c.idle_ticks.get(),
        sleeps: c.sleeps.get(),
        wakes: c.wakes.get(),
        packets: c.packets.get(),
        bursts: c.bursts.get(),
        queues: c.queues.get() as usize,
        sleeping: c.sleeping.load(Ordering::Relaxed),
        carried_turns: c.carried_turns.get(),
        skipped_turns: c.skipped_turns.get(),
        steals: c.steals.get(),
        role: role.name().to_owned(),
        pool: PoolSnapshot {
            hits: c.pool_hits.get(),
            refills: c.pool_refills.get(),
            spills: c.pool_spills.get(),
            empty: c.pool_empty.get(),
            retries: c.pool_retries.get(),
        },
    }
}
