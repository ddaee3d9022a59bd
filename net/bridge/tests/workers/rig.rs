//! A switch with two workers and vhost-user ports in a temporary directory.

use crate::guest::{PAIRS, TIMEOUT};
use bridge::Switch;
use bridge::{BridgeConfig, PortConfig};
use engine::{Engine, EngineConfig, Model, PortSnapshot, Role, Rss, Snapshot, WorkerConfig};
use port::PortId;
use port::vhost_user::{Options, VhostUser};
use port::virtio_user::{self, RingKind, VirtioUser};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PORTS: usize = 8;
/// MTU of all ports, reported to guests.
pub(crate) const MTU: u16 = 1500;

/// Engine, bridge and socket directory.
pub(crate) struct Rig {
    pub(crate) engine: Engine,
    bridge: Switch,
    folder: TempDir,
    /// Whether ports use software RSS.
    is_software_rss: bool,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(|bridge| Engine::start(config(), bridge).unwrap())
    }

    /// An engine whose pipelines wrap the bridge's.
    pub(crate) fn with(start: impl FnOnce(&Switch) -> Engine) -> Self {
        let bridge = Switch::new(PORTS);
        bridge.add_bridge("lan", BridgeConfig::default()).unwrap();
        Self { engine: start(&bridge), bridge, folder: tempfile::tempdir().unwrap(), is_software_rss: false }
    }

    /// An engine with another execution model, on `threads` threads.
    pub(crate) fn in_model(model: &Model, threads: usize) -> Self {
        let config = EngineConfig { workers: vec![WorkerConfig::default(); threads], ..config() };
        let rig = Self::with(|bridge| Engine::start_as(config, model.clone(), bridge).unwrap());
        Self { is_software_rss: matches!(model, Model::SoftwareRss(_)), ..rig }
    }

    /// Adds a worker, a stage in a pipeline.
    pub(crate) fn add_worker(&self, role: Role) -> usize {
        self.engine.add_worker(role, WorkerConfig::default(), None, &self.bridge).unwrap()
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Adds a port that listens on the socket of its name.
    pub(crate) fn add(&self, name: &str) -> PortId {
        let id = self.engine.reserve(name).unwrap();
        self.bridge.add_port(id, "lan", &PortConfig::default()).unwrap();
        let options = Options { queue_pairs: PAIRS, mtu: Some(MTU), ..Options::default() };
        let control = Box::new(VhostUser::listen(self.socket(name), options).unwrap());
        if self.is_software_rss {
            self.engine.add_rss_port(id, control).unwrap();
        } else {
            self.engine.add_reserved(id, control).unwrap();
        }
        id
    }

    /// Adds a port that connects to the switch at `socket`.
    pub(crate) fn add_uplink(&self, name: &str, socket: &Path, ring: RingKind) -> PortId {
        let id = self.engine.reserve(name).unwrap();
        self.bridge.add_port(id, "lan", &PortConfig::default()).unwrap();
        let options = virtio_user::Options { ring, queue_pairs: PAIRS, ..Default::default() };
        let control = VirtioUser::connect(socket, options, Instant::now()).unwrap();
        self.engine.add_reserved(id, Box::new(control)).unwrap();
        id
    }

    pub(crate) fn remove(&self, id: PortId) {
        self.engine.remove_port(id).unwrap();
        self.bridge.remove_port(id).unwrap();
    }

    /// The port with this name. Returns `None` before it has started.
    pub(crate) fn port(&self, name: &str) -> Option<PortSnapshot> {
        self.engine.snapshot().ports.into_iter().find(|port| port.name == name)
    }

    /// All stations with the names of their ports.
    pub(crate) fn stations(&self) -> Vec<(String, String)> {
        let ports = self.engine.snapshot().ports;
        let name = |number| ports.iter().find(|port| port.id == number).map(|port| port.name.clone());
        let all = self.bridge.stations("lan", engine::Now(0)).unwrap().into_iter();
        all.map(|station| (station.mac.to_string(), name(station.port).unwrap_or_default())).collect()
    }

    /// Waits until the guests of these ports have received `more` frames.
    pub(crate) fn wait_for_traffic(&self, names: &[&str], more: u64) {
        let sum = || names.iter().map(|name| self.port(name).map_or(0, |p| p.tx_packets)).sum::<u64>();
        let (before, end) = (sum(), Instant::now() + TIMEOUT);
        while sum() < before + more {
            assert!(Instant::now() < end, "traffic stopped: {:#?}", self.engine.snapshot());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Counters after all packets in flight are processed: a stage may still hold packets in handoff queues after the
    /// guest has its buffers back.
    pub(crate) fn settled(&self) -> Snapshot {
        let end = Instant::now() + TIMEOUT;
        loop {
            let now = self.engine.snapshot();
            let (entered, left, lost) = sums(&now);
            if entered == left + lost || Instant::now() > end {
                return now;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until the port satisfies `wanted`.
    pub(crate) fn wait(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&PortSnapshot) -> bool,
    ) -> PortSnapshot {
        let end = Instant::now() + TIMEOUT;
        loop {
            let port = self.port(name);
            match port {
                Some(port) if wanted(&port) => return port,
                _ => assert!(Instant::now() < end, "waiting for: {what}; the port is {port:?}"),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Two workers without CPU pinning.
pub(crate) fn config() -> EngineConfig {
    EngineConfig { workers: vec![WorkerConfig::default(); 2], max_ports: PORTS, rss: Rss::default() }
}

/// Packets received plus copies, packets sent, and packets dropped, including removed ports.
fn sums(now: &Snapshot) -> (u64, u64, u64) {
    let ports = now.ports.iter();
    let entered: u64 = ports.clone().map(|p| p.rx_packets + p.replicated).sum();
    let left: u64 = ports.clone().map(|p| p.tx_packets).sum();
    let lost: u64 = ports.map(|p| p.drops.values().sum::<u64>()).sum();
    let removed = &now.removed;
    let gone: u64 = removed.drops.values().sum();
    (entered + removed.rx_packets + removed.replicated, left + removed.tx_packets, lost + gone)
}

/// Checks that every packet is accounted for. No packet may be in flight.
pub(crate) fn assert_sums_agree(now: &Snapshot) {
    let (entered, left, lost) = sums(now);
    assert!(entered > 0, "nothing was sent");
    assert_eq!(entered, left + lost, "packets vanished or appeared: {now:#?}");
}
