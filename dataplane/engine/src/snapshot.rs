//! Snapshot of the engine's state, serializable.

use crate::counters::{Totals, WorkerCounters};
use crate::history::{History, PortEvent, state_name};
use crate::latency::{DepthSnapshot, LatencySnapshot, LatencyTotals, RingDepthSnapshot};
use crate::model::Role;
use crate::step::CurrentStep;
use port::{DropReason, PortDetails, PortId, PortStatus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// All counters and states at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Snapshot {
    /// Nanoseconds since the engine started.
    pub uptime_ns: u64,
    /// Frequency of the time-stamp counter, in which cycles are measured.
    pub cycles_per_second: f64,
    /// The copy kernel in use.
    pub kernel: String,
    /// Workers by index.
    pub workers: Vec<WorkerSnapshot>,
    /// Work budget of a receive queue's turn.
    #[serde(default)]
    pub budget: BudgetSnapshot,
    /// Ports by number.
    pub ports: Vec<PortSnapshot>,
    /// Counts of removed ports, so that sums over all ports and this are consistent.
    #[serde(default)]
    pub removed: RemovedSnapshot,
}

/// Sums over all removed ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RemovedSnapshot {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received, without frame checksums.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Copies beyond the first, of received packets.
    pub replicated: u64,
    /// Packets and copies punted to the control plane.
    pub punted: u64,
    /// Drops by reason; reasons without drops are omitted.
    pub drops: BTreeMap<String, u64>,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WorkerSnapshot {
    /// Index.
    pub index: usize,
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
    /// Polls of receive queues.
    pub polls: u64,
    /// Polls that returned nothing.
    pub empty_polls: u64,
    /// Ticks spent in rounds with packets.
    pub busy_cycles: u64,
    /// Ticks spent in rounds without packets; time asleep is not included.
    pub idle_cycles: u64,
    /// Times the worker went to sleep.
    pub sleeps: u64,
    /// Times the worker woke.
    pub wakes: u64,
    /// Packets received.
    pub packets: u64,
    /// Bursts received.
    pub bursts: u64,
    /// Number of receive queues that it serves.
    pub queues: usize,
    /// Whether it sleeps now.
    pub sleeping: bool,
    /// Turns that ended with a burst carried over because it exceeded the budget.
    #[serde(default)]
    pub carried_turns: u64,
    /// Turns that queues skipped because they had used more than their share.
    #[serde(default)]
    pub skipped_turns: u64,
    /// Bursts taken from queues of other workers.
    #[serde(default)]
    pub steals: u64,
    /// Role: `all`, `rx`, `work` or `tx`. Stages on one thread have the same CPU.
    #[serde(default)]
    pub role: String,
    /// Use of its thread's cache of pool buffers.
    #[serde(default)]
    pub pool: PoolSnapshot,
    /// Ticks of each step, in bursts that were sampled.
    #[serde(default)]
    pub steps: StepSnapshot,
    /// The step that it is in; absent between rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_step: Option<CurrentStep>,
}

impl WorkerSnapshot {
    /// A number that changes with each round and each sleep. A worker without receive queues polls nothing, and its
    /// rounds take time.
    pub fn progress(&self) -> u64 {
        let Self { polls, busy_cycles, idle_cycles, sleeps, wakes, .. } = self;
        [polls, busy_cycles, idle_cycles, sleeps, wakes].into_iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }
}

/// Ticks of sampled bursts by step, about one burst in a millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StepSnapshot {
    /// Packets of these bursts.
    pub packets: u64,
    /// Receiving them from their queue.
    pub receive: u64,
    /// Finding their outputs.
    pub pipeline: u64,
    /// Passing them to transmit queues, and returning their buffers.
    pub transmit: u64,
}

/// Budget of a turn, in units of work of about a nanosecond each on the slowest supported machine; see `port::work`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BudgetSnapshot {
    /// A burst that costs more is carried over to later turns of its receive queue.
    pub turn: u64,
    /// A turn that continues a burst ends at the first step that exceeds this.
    pub slice: u64,
    /// A receive queue is skipped while it has used this much more than the one that used least, among those with
    /// packets.
    pub lead: u64,
}

impl Default for BudgetSnapshot {
    fn default() -> Self {
        Self { turn: port::work::TURN, slice: port::work::SLICE, lead: port::work::LEAD }
    }
}

/// Use of a cache of pool buffers by one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PoolSnapshot {
    /// Buffers served by the cache.
    pub hits: u64,
    /// Refills from the shared pool.
    pub refills: u64,
    /// Spills of surplus buffers to the shared pool.
    pub spills: u64,
    /// Allocations that failed because the pool was empty.
    pub empty: u64,
    /// Exchanges with the shared pool that were retried because of a concurrent one.
    #[serde(default)]
    pub retries: u64,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PortSnapshot {
    /// Number.
    pub id: u16,
    /// Name.
    pub name: String,
    /// Kind, as spelled in the configuration file.
    pub kind: String,
    /// Location, such as a socket path or an interface.
    pub place: String,
    /// `waiting`, `connected`, `faulted`, `ended` or `closed`.
    pub state: String,
    /// Reason for the state; `None` if the port is connected.
    pub reason: Option<String>,
    /// Latest changes of the state, oldest first, with their times and reasons.
    #[serde(default)]
    pub history: Vec<PortEvent>,
    /// Negotiated features.
    pub features: Vec<String>,
    /// Queue pairs.
    pub queues: Vec<QueueSnapshot>,
    /// Times the peer connected.
    pub connects: u64,
    /// Number of mapped memory regions.
    pub memory_regions: usize,
    /// Mapped bytes.
    pub memory_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received, without frame checksums.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Copies beyond the first, of packets received on this port.
    pub replicated: u64,
    /// Packets and copies punted to the control plane.
    pub punted: u64,
    /// Drops by reason; reasons without drops are omitted.
    pub drops: BTreeMap<String, u64>,
    /// Packets to the port whose checksum the switch has completed, alone or as segments of larger packets, because the
    /// port does not accept them otherwise.
    #[serde(default)]
    pub completed: u64,
    /// Latencies of sampled packets that were sent to the port, from their reception; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencySnapshot>,
    /// Packets found waiting in its receive queues, in sampled polls; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<DepthSnapshot>,
    /// Entries of its transmit rings that the peer has not returned, in samples; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_depth: Option<RingDepthSnapshot>,
    /// Port-specific details, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

/// One queue pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueueSnapshot {
    /// Number of ring entries.
    pub size: u16,
    /// Whether packets are received from it.
    pub rx_running: bool,
    /// Whether packets are sent to it.
    pub tx_running: bool,
}

/// Registry entry of one port.
struct Entry {
    /// `None` if the port is gone but its number is not free yet.
    name: Option<String>,
    /// `None` before the port starts and after it is gone.
    status: Option<PortStatus>,
    details: PortDetails,
    history: History,
    /// Totals of its number at registration.
    before: Totals,
    /// Counts of the process before, from which this one has taken the port over.
    carried: Totals,
    latency_before: LatencyTotals,
}

/// Names and states of the ports. Written by the control thread and by registration.
#[derive(Default)]
pub(crate) struct Registry {
    ports: Mutex<BTreeMap<PortId, Entry>>,
    /// Counts of the process before, of ports that are gone. Locked after the ports.
    gone: Mutex<Totals>,
}

impl Registry {
    fn with<R>(&self, f: impl FnOnce(&mut BTreeMap<PortId, Entry>) -> R) -> R {
        f(&mut self.ports.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn gone(&self) -> MutexGuard<'_, Totals> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the counts of the process before this one.
    pub(crate) fn restore(&self, before: &Snapshot) {
        self.with(|ports| {
            let mut gone = Totals::of_removed(&before.removed);
            for port in &before.ports {
                let (name, counted) = (Some(&port.name), Totals::of_port(port));
                match ports.values_mut().find(|entry| entry.name.as_ref() == name) {
                    Some(entry) => entry.carried = counted,
                    None => gone = gone.plus(counted),
                }
            }
            *self.gone() = gone;
        });
    }

    /// Reserves the lowest free number for `name`.
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
            let (before, latency_before) = (Totals::of(id, counters), LatencyTotals::of(id, counters));
            let (name, details, history) = (Some(name.to_owned()), Vec::new(), History::default());
            let carried = Totals::default();
            ports.insert(id, Entry { name, status: None, details, history, before, carried, latency_before });
            Ok(id)
        })
    }

    /// Whether `id` is the number of a port that is not hidden.
    pub(crate) fn contains(&self, id: PortId) -> bool {
        self.with(|ports| ports.get(&id).is_some_and(|entry| entry.name.is_some()))
    }

    /// Name of port `id`; empty if it is gone.
    pub(crate) fn name(&self, id: PortId) -> String {
        self.with(|ports| ports.get(&id).and_then(|entry| entry.name.clone()).unwrap_or_default())
    }

    /// Last reported status of port `id`.
    pub(crate) fn status(&self, id: PortId) -> Option<PortStatus> {
        self.with(|ports| ports.get(&id).and_then(|entry| entry.status.clone()))
    }

    pub(crate) fn update(&self, id: PortId, status: PortStatus, details: PortDetails) {
        self.with(|ports| {
            if let Some(entry) = ports.get_mut(&id) {
                // A new connection is an event even if the state is the same as before.
                let before = entry.status.as_ref().map(|before| (&before.state, before.connects));
                if before != Some((&status.state, status.connects)) {
                    entry.history.push(SystemTime::now(), &status.state);
                }
                (entry.status, entry.details) = (Some(status), details);
            }
        });
    }

    /// Hides a removed port whose number is not free yet.
    pub(crate) fn hide(&self, id: PortId) {
        self.with(|ports| {
            if let Some(entry) = ports.get_mut(&id) {
                (entry.name, entry.status) = (None, None);
                self.lose(entry);
            }
        });
    }

    pub(crate) fn remove(&self, id: PortId) {
        self.with(|ports| {
            if let Some(mut entry) = ports.remove(&id) {
                self.lose(&mut entry);
            }
        });
    }

    fn lose(&self, entry: &mut Entry) {
        let mut gone = self.gone();
        *gone = gone.plus(std::mem::take(&mut entry.carried));
    }

    /// The ports with a status, and the sums for all others.
    pub(crate) fn ports(&self, counters: &[Arc<WorkerCounters>]) -> (Vec<PortSnapshot>, RemovedSnapshot) {
        self.with(|ports| {
            let numbers = counters.first().map_or(0, |worker| worker.max_ports()) as u16;
            let mut removed = *self.gone();
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
                let counted = now.minus(entry.before).plus(entry.carried);
                let shown_port = port_snapshot(id, name, status, &counted);
                let details =
                    entry.details.iter().map(|(detail, said)| (detail.name().to_owned(), said.clone()));
                let (history, details) = (entry.history.events(), details.collect());
                let sampled = LatencyTotals::of(id, counters);
                let latency = sampled.since(&entry.latency_before);
                let depth = sampled.depth_since(&entry.latency_before);
                let transmit_depth = sampled.transmit_since(&entry.latency_before);
                let sampled = PortSnapshot { latency, depth, transmit_depth, ..shown_port };
                shown.push(PortSnapshot { history, details, ..sampled });
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
        reason: status.state.reason().map(ToString::to_string),
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
        completed: counted.completed,
        history: Vec::new(),
        latency: None,
        depth: None,
        transmit_depth: None,
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

impl Totals {
    fn of_port(port: &PortSnapshot) -> Self {
        Self {
            rx_packets: port.rx_packets,
            rx_bytes: port.rx_bytes,
            tx_packets: port.tx_packets,
            tx_bytes: port.tx_bytes,
            replicated: port.replicated,
            punted: port.punted,
            drops: by_reason(&port.drops),
            completed: port.completed,
        }
    }

    fn of_removed(removed: &RemovedSnapshot) -> Self {
        Self {
            rx_packets: removed.rx_packets,
            rx_bytes: removed.rx_bytes,
            tx_packets: removed.tx_packets,
            tx_bytes: removed.tx_bytes,
            replicated: removed.replicated,
            punted: removed.punted,
            drops: by_reason(&removed.drops),
            completed: 0,
        }
    }
}

/// Drops by reason. A reason that this version does not have is left out.
fn by_reason(drops: &BTreeMap<String, u64>) -> [u64; DropReason::COUNT] {
    let mut by_reason = [0; DropReason::COUNT];
    for reason in DropReason::ALL {
        by_reason[reason as usize] = drops.get(reason.name()).copied().unwrap_or_default();
    }
    by_reason
}

/// Drops by name of the reason.
fn drops(counted: &Totals) -> BTreeMap<String, u64> {
    let lost =
        DropReason::ALL.iter().map(|&reason| (reason.name().to_owned(), counted.drops[reason as usize]));
    lost.filter(|(_, n)| *n > 0).collect()
}

fn queue_snapshot(queue: &port::QueueStatus) -> QueueSnapshot {
    QueueSnapshot { size: queue.size, rx_running: queue.rx_running, tx_running: queue.tx_running }
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
        steps: StepSnapshot {
            packets: c.sampled_packets.get(),
            receive: c.step_receive.get(),
            pipeline: c.step_pipeline.get(),
            transmit: c.step_transmit.get(),
        },
        current_step: c.step.get(c.max_ports()),
    }
}
