//! Kernel fast path: installs pairs of stations, and flows between them, that the XDP programs of `AF_XDP` ports
//! forward.
//!
//! One thread looks at frames that the programs had no entry for, at the counters of installed entries, and at whether
//! these may still be forwarded by the kernel. It starts with the first port that has `kernel_fast_path`. The end of an
//! entry does not wait for it: bridges and the tracker of connections advance the epochs of the fast path with each
//! change. Workers take no part, and frames without an entry take the usual path. A pair that can be installed is
//! preferred to its flows.

use super::offload_connections::Connections;
use super::offload_report::{OffloadEntry, OffloadFlow, OffloadReport};
use bridge::Switch;
use conntrack::Tuple;
use engine::{Now, PortSnapshot, Snapshot};
use flow::{FastRequest, FastResult, FlowSwitch};
use port::af_xdp::{
    ConnectionEpoch, Edits, FastCounts, FastKey, FastPath, MAX_ENTRIES, MAX_ENTRIES_PER_PORT, Target,
};
use port::{PortDetail, PortId};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::checksum::protocol::TCP;

/// Interval at which entries are installed and reviewed.
const INTERVAL: Duration = Duration::from_millis(200);
/// An entry without packets for this time is removed.
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
    entries: BTreeMap<FastKey, Entry>,
    connections: Connections,
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

/// An installed entry.
struct Entry {
    target: Target,
    /// Counters to update besides those of the ports, if flow tables have decided.
    result: Option<FastResult>,
    counts: FastCounts,
    installed: Instant,
    used: Instant,
    /// Whether it was seen after its end. Frames that were processed at its end are counted by then.
    ended: bool,
}

/// Where frames of an entry go, as a look-up finds it.
struct Found {
    to: PortId,
    /// If flow tables have decided.
    result: Option<FastResult>,
}

impl Found {
    fn edits(&self) -> Edits {
        self.result.as_ref().map(|result| result.edits).unwrap_or_default()
    }

    fn connection(&self) -> Option<ConnectionEpoch> {
        self.result.as_ref().and_then(|result| ConnectionEpoch::of(result.connection?.0))
    }

    /// Whether frames are still forwarded as the entry says.
    fn agrees(&self, target: &Target) -> bool {
        (self.to, self.edits(), self.connection()) == (target.to, target.edits, target.connection)
    }
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
    /// Reads the counters of all entries. Returns the keys of those that had packets.
    fn collect(&mut self, now: Now) -> Vec<FastKey> {
        let Some(path) = self.path.clone() else { return Vec::new() };
        let mut keys = self.keys();
        keys.retain(|key| path.counts(key).is_some_and(|counts| self.account(key, counts, now)));
        keys
    }

    fn keys(&self) -> Vec<FastKey> {
        self.entries.keys().copied().collect()
    }

    /// Adds what an entry was counted since its last reading. Returns whether it had packets.
    fn account(&mut self, key: &FastKey, counts: FastCounts, now: Now) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
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

    /// Whether another entry from this slot may be installed.
    fn has_room(&self, slot: u32) -> bool {
        let own = self.entries.keys().filter(|key| key.pair.slot == slot).count();
        self.entries.len() < MAX_ENTRIES && own < MAX_ENTRIES_PER_PORT
    }
}

impl Shared {
    /// A poisoned lock is valid: each entry changes in one step.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads counters, removes entries and installs others.
    fn tick(&self) {
        let (mut state, now) = (self.state(), Instant::now());
        let Some(path) = state.path.clone() else { return };
        for key in state.collect((self.now)()) {
            self.confirm(&mut state, &key, now);
        }
        for key in state.keys() {
            self.review(&mut state, &path, &key, now);
        }
        for key in path.take_candidates() {
            let pair = FastKey::from(key.pair);
            if !self.install(&mut state, &path, pair, now) && pair != key {
                self.install(&mut state, &path, key, now);
            }
        }
    }

    /// Keeps what an entry with packets depends on from ageing.
    fn confirm(&self, state: &mut State, key: &FastKey, now: Instant) {
        let Some(entry) = state.entries.get_mut(key) else { return };
        entry.used = now;
        self.bridges.confirm(entry.target.from, key.pair.source, (self.now)());
        let connection = entry.result.as_ref().and_then(|result| result.connection);
        if let Some(((_, tuple), flows)) = connection.zip(self.flows.as_ref()) {
            flows.tracker().confirm(&tuple, (self.now)().0);
        }
    }

    /// Removes an entry that has ended, that has no packets, or that has aged.
    fn review(&self, state: &mut State, path: &FastPath, key: &FastKey, now: Instant) {
        let Some(entry) = state.entries.get_mut(key) else { return };
        let target = entry.target;
        let has_ended = path.stamp(target.from, target.to, target.connection) != target.stamp;
        if has_ended && !entry.ended {
            entry.ended = true;
            return;
        }
        let is_idle = now.duration_since(entry.used) >= IDLE;
        let agrees = || self.find(target.from, key).is_some_and(|found| found.agrees(&target));
        if has_ended || is_idle || !agrees() {
            self.remove(state, key);
        }
    }

    /// Removes an entry, with its last packets.
    fn remove(&self, state: &mut State, key: &FastKey) {
        let counts = state.path.as_ref().and_then(|path| path.remove(key));
        if let Some(counts) = counts {
            state.account(key, counts, (self.now)());
        }
        let Some(Entry { target, result, .. }) = state.entries.remove(key) else { return };
        let tuple = result.and_then(|result| result.connection).map(|(_, tuple)| tuple);
        self.release(state, target.connection.zip(tuple));
    }

    /// Ends the use of a connection by an entry.
    fn release(&self, state: &mut State, connection: Option<(ConnectionEpoch, Tuple)>) {
        let unused = connection.filter(|(number, _)| state.connections.release(*number));
        if let Some(((_, tuple), flows)) = unused.zip(self.flows.as_ref()) {
            flows.tracker().unwatch(&tuple);
        }
    }

    /// Installs an entry, if all that it depends on allows it. Returns whether it is installed.
    fn install(&self, state: &mut State, path: &FastPath, key: FastKey, now: Instant) -> bool {
        if state.entries.contains_key(&key) || !state.has_room(key.pair.slot) {
            return state.entries.contains_key(&key);
        }
        let Some(from) = state.in_slot(path, key.pair.slot) else { return false };
        let Some(found) = self.find(from, &key) else { return false };
        let tuple = found.result.as_ref().and_then(|result| result.connection).map(|(_, tuple)| tuple);
        let watch = tuple.map(|tuple| self.watch(state, &tuple));
        if watch == Some(None) {
            return false;
        }
        let watch = watch.flatten();
        let target = self.target(state, path, (from, &key), found.to, watch);
        // There is a limit of entries below that of the map, so only a port that has just been closed is refused.
        let Some((target, result)) = target.filter(|(target, _)| path.install(&key, target).is_ok()) else {
            self.release(state, watch.zip(tuple));
            return false;
        };
        let counts = FastCounts::default();
        let entry = Entry { target, result, counts, installed: now, used: now, ended: false };
        state.entries.insert(key, entry);
        true
    }

    /// Watches a connection for one more entry.
    fn watch(&self, state: &mut State, tuple: &Tuple) -> Option<ConnectionEpoch> {
        let (flows, free) = (self.flows.as_ref()?, state.connections.free()?);
        let watched = flows.tracker().watch(tuple, free.number(), (self.now)().0)?;
        let number = ConnectionEpoch::of(watched.number)?;
        state.connections.hold(number);
        Some(number)
    }

    /// The target of an entry to `to`, if a look-up after the reading of the epochs, which therefore cover it, agrees.
    fn target(
        &self,
        state: &State,
        path: &FastPath,
        (from, key): (PortId, &FastKey),
        to: PortId,
        connection: Option<ConnectionEpoch>,
    ) -> Option<(Target, Option<FastResult>)> {
        let stamp = path.stamp(from, to, connection);
        let slot = path.slot(&state.members.get(&to)?.name)?;
        let found = self.find(from, key)?;
        let target = Target { stamp, from, to, slot, edits: found.edits(), connection };
        let same = state.in_slot(path, key.pair.slot) == Some(from) && found.agrees(&target);
        same.then_some((target, found.result))
    }

    /// Where frames of an entry go, if the kernel may forward them.
    fn find(&self, from: PortId, key: &FastKey) -> Option<Found> {
        let (source, destination) = (key.pair.source, key.pair.destination);
        let Some(flows) = self.flows.as_ref().filter(|flows| flows.decides(from)) else {
            // Addresses decide, so a pair has all flows.
            let to = self.bridges.pair(from, source, destination, (self.now)());
            return to.filter(|_| key.headers.is_none()).map(|to| Found { to, result: None });
        };
        let request = FastRequest { from, source, destination, headers: key.headers.as_ref() };
        let result = flows.fast(&request, (self.now)())?;
        let is_allowed = self.bridges.leaves_to_tables(from, result.to);
        is_allowed.then_some(Found { to: result.to, result: Some(result) })
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

    /// Removes a port, whose programs do not run any more, with its entries.
    pub(super) fn remove_port(&self, port: PortId) {
        let mut state = self.shared.state();
        let own = |entry: &Entry| entry.target.from == port || entry.target.to == port;
        let keys: Vec<FastKey> =
            state.entries.iter().filter(|(_, entry)| own(entry)).map(|(key, _)| *key).collect();
        for key in keys {
            self.shared.remove(&mut state, &key);
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
            flows.watch_results(move |port| epochs.invalidate(Some(port)));
            let epochs = path.clone();
            flows.tracker().on_end(move |number| {
                if let Some(connection) = ConnectionEpoch::of(number) {
                    epochs.end_connection(connection);
                }
            });
        }
        self.shared.state().path = Some(path);
        let (shared, (quit, quits)) = (self.shared.clone(), channel());
        let builder = std::thread::Builder::new().name("offload".to_owned());
        *thread = Some((quit, builder.spawn(move || shared.run(&quits))?));
        Ok(())
    }

    /// Ends the thread and all entries.
    pub(super) fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((quit, thread)) = thread {
            drop(quit);
            // A panic of the thread was printed already.
            let _ = thread.join();
        }
        let mut state = self.shared.state();
        for key in state.keys() {
            self.shared.remove(&mut state, &key);
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

    /// All entries that are installed and have not ended.
    pub(super) fn report(&self) -> OffloadReport {
        let mut state = self.shared.state();
        state.collect((self.shared.now)());
        let now = Instant::now();
        let is_valid = |entry: &Entry| {
            let Target { stamp, from, to, connection, .. } = entry.target;
            state.path.as_ref().is_some_and(|path| path.stamp(from, to, connection) == stamp)
        };
        let valid = state.entries.iter().filter(|(_, entry)| is_valid(entry));
        let entries = valid.filter_map(|(key, entry)| reported(&state, key, entry, now)).collect();
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

fn reported(state: &State, key: &FastKey, entry: &Entry, now: Instant) -> Option<OffloadEntry> {
    let (from, to) = (state.members.get(&entry.target.from)?, state.members.get(&entry.target.to)?);
    let Edits { addresses, decrements_ttl } = entry.target.edits;
    Some(OffloadEntry {
        bridge: from.bridge.clone(),
        from: from.name.clone(),
        to: to.name.clone(),
        source: key.pair.source,
        destination: key.pair.destination,
        flow: key.headers.map(|headers| OffloadFlow {
            protocol: if headers.protocol == TCP { "tcp" } else { "udp" }.to_owned(),
            source: SocketAddr::new(headers.source, headers.ports.0),
            destination: SocketAddr::new(headers.destination, headers.ports.1),
            traffic_class: headers.traffic_class,
            is_tracked: entry.target.connection.is_some(),
        }),
        new_source: addresses.map(|[_, source]| source),
        new_destination: addresses.map(|[destination, _]| destination),
        decrements_ttl,
        packets: entry.counts.packets,
        bytes: entry.counts.bytes,
        age: now.duration_since(entry.installed).as_secs(),
        idle: now.duration_since(entry.used).as_secs(),
    })
}
