//! Kernel fast path: installs pairs of stations that the XDP programs of `AF_XDP` ports forward.
//!
//! One thread looks at pairs of frames that the programs had no entry for, at the counters of installed pairs, and at
//! whether these may still be forwarded by the kernel. It starts with the first port that has `kernel_fast_path`. The
//! end of a pair does not wait for it: bridges advance the epochs of the fast path with each change. Workers take no
//! part, and frames of pairs that are not installed take the usual path.

use super::offload_report::{OffloadEntry, OffloadReport};
use bridge::Switch;
use engine::{Now, PortSnapshot, Snapshot};
use flow::{FlowSwitch, PairResult};
use port::af_xdp::{FastCounts, FastPath, MAX_PAIRS, MAX_PAIRS_PER_PORT, Pair, Target};
use port::{PortDetail, PortId};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which pairs are installed and reviewed.
const INTERVAL: Duration = Duration::from_millis(200);
/// A pair without packets for this time is removed.
const IDLE: Duration = Duration::from_secs(10);

/// The kernel fast path of a switch.
pub(super) struct Offload {
    shared: Arc<Shared>,
    thread: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

struct Shared {
    bridges: Arc<Switch>,
    flows: Option<Arc<FlowSwitch>>,
    now: Box<dyn Fn() -> Now + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` until a port uses it.
    path: Option<Arc<FastPath>>,
    members: BTreeMap<PortId, Member>,
    entries: BTreeMap<Pair, Entry>,
    /// By port.
    totals: BTreeMap<PortId, Totals>,
    /// Of ports that were removed.
    removed: Totals,
}

/// A port with a fast path.
struct Member {
    name: String,
    bridge: String,
}

/// An installed pair.
struct Entry {
    target: Target,
    /// Counters to update besides those of the ports, if flow tables have decided.
    result: Option<PairResult>,
    counts: FastCounts,
    installed: Instant,
    used: Instant,
    /// Whether it was seen after its end. Frames that were processed at its end are counted by then.
    ended: bool,
}

/// Frames that the kernel forwarded from and to a port.
#[derive(Clone, Copy, Default)]
struct Totals {
    received: FastCounts,
    sent: FastCounts,
}

fn add(sum: &mut FastCounts, more: FastCounts) {
    sum.packets += more.packets;
    sum.bytes += more.bytes;
}

impl State {
    /// Reads the counters of all pairs. Returns the pairs that had packets.
    fn collect(&mut self, now: Now) -> Vec<Pair> {
        let Some(path) = self.path.clone() else { return Vec::new() };
        let pairs: Vec<Pair> = self.entries.keys().copied().collect();
        let read = |pair: &Pair| path.counts(pair).is_some_and(|counts| self.account(pair, counts, now));
        pairs.into_iter().filter(read).collect()
    }

    /// Adds what a pair was counted since its last reading. Returns whether it had packets.
    fn account(&mut self, pair: &Pair, counts: FastCounts, now: Now) -> bool {
        let Some(entry) = self.entries.get_mut(pair) else { return false };
        let more = FastCounts {
            packets: counts.packets.saturating_sub(entry.counts.packets),
            bytes: counts.bytes.saturating_sub(entry.counts.bytes),
        };
        entry.counts = counts;
        let Target { from, to, .. } = entry.target;
        add(&mut self.totals.entry(from).or_default().received, more);
        add(&mut self.totals.entry(to).or_default().sent, more);
        if more.packets > 0 {
            entry.result.iter().for_each(|result| result.count(more.packets, more.bytes, now));
        }
        more.packets > 0
    }

    /// Removes a pair, with its last packets.
    fn remove(&mut self, pair: &Pair, now: Now) {
        let counts = self.path.as_ref().and_then(|path| path.remove(pair));
        if let Some(counts) = counts {
            self.account(pair, counts, now);
        }
        self.entries.remove(pair);
    }

    /// Adds the packets that the kernel forwarded to the counters of ports.
    fn complete(&mut self, ports: &mut [PortSnapshot], now: Now) {
        self.collect(now);
        for port in ports {
            if let Some(totals) = self.totals.get(&PortId(port.id)) {
                complete(port, totals);
            }
        }
    }

    /// Number of the open port in a slot.
    fn in_slot(&self, path: &FastPath, slot: u32) -> Option<PortId> {
        let name = path.name(slot)?;
        self.members.iter().find(|(_, member)| member.name == name).map(|(id, _)| *id)
    }

    /// Whether another pair from this slot may be installed.
    fn has_room(&self, slot: u32) -> bool {
        let own = self.entries.keys().filter(|pair| pair.slot == slot).count();
        self.entries.len() < MAX_PAIRS && own < MAX_PAIRS_PER_PORT
    }
}

impl Shared {
    /// A poisoned lock is valid: each pair changes in one step.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads counters, removes pairs and installs others.
    fn tick(&self) {
        let (mut state, now) = (self.state(), Instant::now());
        let Some(path) = state.path.clone() else { return };
        for pair in state.collect((self.now)()) {
            let Some(entry) = state.entries.get_mut(&pair) else { continue };
            entry.used = now;
            self.bridges.confirm(entry.target.from, pair.source, (self.now)());
        }
        let pairs: Vec<Pair> = state.entries.keys().copied().collect();
        for pair in pairs {
            self.review(&mut state, &path, &pair, now);
        }
        for pair in path.take_candidates() {
            self.install(&mut state, &path, pair, now);
        }
    }

    /// Removes a pair that has ended, that has no packets, or that has aged.
    fn review(&self, state: &mut State, path: &FastPath, pair: &Pair, now: Instant) {
        let Some(entry) = state.entries.get_mut(pair) else { return };
        let Target { stamp, from, to, .. } = entry.target;
        let has_ended = path.stamp(from, to) != stamp;
        if has_ended && !entry.ended {
            entry.ended = true;
            return;
        }
        let is_idle = now.duration_since(entry.used) >= IDLE;
        if has_ended || is_idle || self.find(from, pair).is_none_or(|found| found.0 != to) {
            state.remove(pair, (self.now)());
        }
    }

    /// Installs a pair, if all that it depends on allows it.
    fn install(&self, state: &mut State, path: &FastPath, pair: Pair, now: Instant) {
        if state.entries.contains_key(&pair) || !state.has_room(pair.slot) {
            return;
        }
        let Some((target, result)) = self.target(state, path, &pair) else { return };
        // There is a limit of pairs below that of the map, so only a port that has just been closed is refused.
        if path.install(&pair, &target).is_ok() {
            let counts = FastCounts::default();
            let entry = Entry { target, result, counts, installed: now, used: now, ended: false };
            state.entries.insert(pair, entry);
        }
    }

    fn target(&self, state: &State, path: &FastPath, pair: &Pair) -> Option<(Target, Option<PairResult>)> {
        let from = state.in_slot(path, pair.slot)?;
        let (to, _) = self.find(from, pair)?;
        // The look-ups are repeated behind the reading of the epochs, which therefore cover them.
        let stamp = path.stamp(from, to);
        let slot = path.slot(&state.members.get(&to)?.name)?;
        let (again, result) = self.find(from, pair)?;
        let same = state.in_slot(path, pair.slot) == Some(from) && again == to;
        same.then_some((Target { stamp, from, to, slot }, result))
    }

    /// Output port of a pair, if the kernel may forward its frames.
    fn find(&self, from: PortId, pair: &Pair) -> Option<(PortId, Option<PairResult>)> {
        let (source, destination) = (pair.source, pair.destination);
        let Some(flows) = self.flows.as_ref().filter(|flows| flows.decides(from)) else {
            return Some((self.bridges.pair(from, source, destination, (self.now)())?, None));
        };
        let result = flows.pair(from, source, destination)?;
        self.bridges.leaves_to_tables(from, result.to).then_some((result.to, Some(result)))
    }

    fn run(&self, quit: &Receiver<()>) {
        while quit.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            self.tick();
        }
    }
}

impl Offload {
    pub(super) fn new(
        (bridges, flows): (Arc<Switch>, Option<Arc<FlowSwitch>>),
        now: impl Fn() -> Now + Send + Sync + 'static,
    ) -> Self {
        let shared = Shared { bridges, flows, now: Box::new(now), state: Mutex::default() };
        Self { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// Adds a port with a fast path that is on its bridge.
    pub(super) fn add_port(&self, port: PortId, name: &str, bridge: &str) -> std::io::Result<()> {
        self.start()?;
        let member = Member { name: name.to_owned(), bridge: bridge.to_owned() };
        self.shared.state().members.insert(port, member);
        Ok(())
    }

    /// Removes a port, whose programs do not run any more, with its pairs.
    pub(super) fn remove_port(&self, port: PortId) {
        let mut state = self.shared.state();
        let own = |entry: &Entry| entry.target.from == port || entry.target.to == port;
        let pairs: Vec<Pair> =
            state.entries.iter().filter(|(_, entry)| own(entry)).map(|(pair, _)| *pair).collect();
        for pair in pairs {
            state.remove(&pair, (self.shared.now)());
        }
        state.members.remove(&port);
        let totals = state.totals.remove(&port).unwrap_or_default();
        add(&mut state.removed.received, totals.received);
        add(&mut state.removed.sent, totals.sent);
    }

    /// Starts the thread, unless it runs.
    fn start(&self) -> std::io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_some() {
            return Ok(());
        }
        let path = FastPath::of_process()?;
        let epochs = path.clone();
        self.shared.bridges.watch_pairs(move |port| epochs.invalidate(port));
        if let Some(flows) = &self.shared.flows {
            let epochs = path.clone();
            flows.watch_pairs(move |port| epochs.invalidate(Some(port)));
        }
        self.shared.state().path = Some(path);
        let (shared, (quit, quits)) = (self.shared.clone(), channel());
        let builder = std::thread::Builder::new().name("offload".to_owned());
        *thread = Some((quit, builder.spawn(move || shared.run(&quits))?));
        Ok(())
    }

    /// Ends the thread and all pairs.
    pub(super) fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((quit, thread)) = thread {
            drop(quit);
            // A panic of the thread was printed already.
            let _ = thread.join();
        }
        let mut state = self.shared.state();
        let pairs: Vec<Pair> = state.entries.keys().copied().collect();
        for pair in pairs {
            state.remove(&pair, (self.shared.now)());
        }
    }

    /// Adds the packets that the kernel forwarded to the counters of ports.
    pub(super) fn complete(&self, snapshot: &mut Snapshot) {
        let mut state = self.shared.state();
        state.complete(&mut snapshot.ports, (self.shared.now)());
        let (removed, Totals { received, sent }) = (&mut snapshot.removed, state.removed);
        removed.rx_packets += received.packets;
        removed.rx_bytes += received.bytes;
        removed.tx_packets += sent.packets;
        removed.tx_bytes += sent.bytes;
    }

    /// As [`Offload::complete`], for the counters of running ports alone.
    pub(super) fn complete_ports(&self, ports: &mut [PortSnapshot]) {
        self.shared.state().complete(ports, (self.shared.now)());
    }

    /// All pairs that are installed and have not ended.
    pub(super) fn report(&self) -> OffloadReport {
        let mut state = self.shared.state();
        state.collect((self.shared.now)());
        let now = Instant::now();
        let is_valid = |entry: &Entry| {
            let Target { stamp, from, to, .. } = entry.target;
            state.path.as_ref().is_some_and(|path| path.stamp(from, to) == stamp)
        };
        let valid = state.entries.iter().filter(|(_, entry)| is_valid(entry));
        let entries = valid.filter_map(|(pair, entry)| reported(&state, pair, entry, now)).collect();
        let mut all = state.removed.received;
        state.totals.values().for_each(|totals| add(&mut all, totals.received));
        OffloadReport { entries, packets: all.packets, bytes: all.bytes }
    }
}

fn complete(port: &mut PortSnapshot, Totals { received, sent }: &Totals) {
    port.rx_packets += received.packets;
    port.rx_bytes += received.bytes;
    port.tx_packets += sent.packets;
    port.tx_bytes += sent.bytes;
    port.details.insert(PortDetail::Offloaded.name().to_owned(), received.packets.to_string());
}

fn reported(state: &State, pair: &Pair, entry: &Entry, now: Instant) -> Option<OffloadEntry> {
    let (from, to) = (state.members.get(&entry.target.from)?, state.members.get(&entry.target.to)?);
    Some(OffloadEntry {
        bridge: from.bridge.clone(),
        from: from.name.clone(),
        to: to.name.clone(),
        source: pair.source,
        destination: pair.destination,
        packets: entry.counts.packets,
        bytes: entry.counts.bytes,
        age: now.duration_since(entry.installed).as_secs(),
        idle: now.duration_since(entry.used).as_secs(),
    })
}
