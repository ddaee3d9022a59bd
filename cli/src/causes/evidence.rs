//! Evidence of the checks: plain values, collected once, so that each check is a function of them.

use super::proc::{Listener, SocketFile, socket_file};
use crate::dataplane::bond_report::BondState;
use crate::dataplane::health::HungWorker;
use crate::dataplane::report::BridgeReport;
use crate::settings::topology::PortSettings;
use engine::{PortSnapshot, Snapshot, WorkerSnapshot};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Everything that was collected.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    /// Seconds between the two readings of the counters.
    pub(crate) seconds: f64,
    pub(crate) ports: Vec<Port>,
    /// Bonds by name.
    pub(crate) bonds: BTreeMap<String, BondState>,
    pub(crate) bridges: Vec<BridgeReport>,
    pub(crate) workers: Vec<Worker>,
    /// CPUs by number.
    pub(crate) cpus: BTreeMap<usize, Cpu>,
    /// Workers that hang, by `/healthz`.
    pub(crate) hung: Vec<HungWorker>,
    /// Huge pages of the machine that are reserved.
    pub(crate) huge_pages: Option<u64>,
}

/// Two readings of all counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readings {
    pub(crate) before: Snapshot,
    pub(crate) now: Snapshot,
}

impl Readings {
    /// Seconds between the readings.
    pub(crate) fn seconds(&self) -> f64 {
        self.now.uptime_ns.saturating_sub(self.before.uptime_ns) as f64 / 1e9
    }

    /// A port with its socket, at which these processes listen.
    pub(crate) fn port(&self, settings: PortSettings, listeners: Option<&[Listener]>) -> Port {
        let find = |at: &Snapshot| at.ports.iter().find(|port| port.name == settings.name).cloned();
        let (before, now) = (find(&self.before), find(&self.now));
        let socket = Socket::of(&settings, listeners);
        Port { settings, before, now, socket }
    }

    /// All workers, without what only the machine knows of them.
    pub(crate) fn workers(&self) -> impl Iterator<Item = Worker> {
        let seconds = self.seconds();
        self.now.workers.iter().map(move |worker| {
            let earlier = self.before.workers.iter().find(|earlier| earlier.index == worker.index);
            let before = earlier.cloned().unwrap_or_default();
            let busy = worker.busy_cycles.saturating_sub(before.busy_cycles) as f64;
            let busy = share(busy / self.now.cycles_per_second, seconds);
            Worker { busy, before, now: worker.clone(), ..Worker::default() }
        })
    }
}

/// A part of an interval, from 0 to 1.
pub(crate) fn share(part: f64, interval: f64) -> f64 {
    if interval > 0.0 && part.is_finite() { (part / interval).clamp(0.0, 1.0) } else { 0.0 }
}

/// One port.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) settings: PortSettings,
    /// Counters at the first reading; `None` for a new port.
    pub(crate) before: Option<PortSnapshot>,
    /// State and counters at the second reading; `None` while the port starts.
    pub(crate) now: Option<PortSnapshot>,
    /// Its Unix socket, if it has one.
    pub(crate) socket: Option<Socket>,
}

impl Port {
    pub(crate) fn name(&self) -> &str {
        &self.settings.name
    }

    /// State of the second reading; empty while the port starts.
    pub(crate) fn state(&self) -> &str {
        self.now.as_ref().map_or("", |now| now.state.as_str())
    }

    /// Reason for the state; empty if there is none.
    pub(crate) fn reason(&self) -> &str {
        self.now.as_ref().and_then(|now| now.reason.as_deref()).unwrap_or_default()
    }

    /// Whether it could not be created yet, as the reason says.
    pub(crate) fn is_deferred(&self) -> bool {
        self.reason().starts_with("the port cannot be created yet")
    }

    /// Whether a feature was negotiated.
    pub(crate) fn has(&self, feature: &str) -> bool {
        self.now.as_ref().is_some_and(|now| now.features.iter().any(|own| own == feature))
    }

    /// Difference of a counter.
    pub(crate) fn difference(&self, counter: fn(&PortSnapshot) -> u64) -> u64 {
        let value = |port: &Option<PortSnapshot>| port.as_ref().map_or(0, counter);
        value(&self.now).saturating_sub(value(&self.before))
    }

    /// Packets that were dropped between the readings for a reason.
    pub(crate) fn dropped(&self, reason: &str) -> u64 {
        let value = |port: &Option<PortSnapshot>| {
            port.as_ref().and_then(|port| port.drops.get(reason).copied()).unwrap_or(0)
        };
        value(&self.now).saturating_sub(value(&self.before))
    }

    /// Whether it received or sent packets between the readings.
    pub(crate) fn is_used(&self) -> bool {
        self.difference(|port| port.rx_packets) + self.difference(|port| port.tx_packets) > 0
    }

    /// Number of queue pairs that run.
    pub(crate) fn running(&self) -> usize {
        let queues = self.now.as_ref().map_or(&[][..], |now| &now.queues);
        queues.iter().filter(|queue| queue.rx_running || queue.tx_running).count()
    }
}

/// The file of a Unix socket, and the sockets that are bound to its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) path: PathBuf,
    /// Whether the switch listens, and the peer connects.
    pub(crate) listens: bool,
    /// The file; `None` if there is none.
    pub(crate) file: Option<SocketFile>,
    /// Sockets that listen at the path, of the switch and of other processes; `None` if they were not read.
    pub(crate) listeners: Option<Listeners>,
}

impl Socket {
    /// The Unix socket of a port that exchanges frames over one; `None` also if its file may not be looked up.
    fn of(port: &PortSettings, listeners: Option<&[Listener]>) -> Option<Self> {
        let (path, listens) = port.kind.socket()?;
        let at_path = |is_own: bool| {
            let listeners = listeners.into_iter().flatten();
            listeners.filter(|listener| listener.path == path && listener.is_own == is_own).count()
        };
        let listeners = listeners.map(|_| Listeners { own: at_path(true), other: at_path(false) });
        let file = socket_file(path).ok()?;
        Some(Self { path: path.to_owned(), listens, file, listeners })
    }
}

/// Numbers of listening sockets of one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listeners {
    pub(crate) own: usize,
    pub(crate) other: usize,
}

/// One worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Worker {
    pub(crate) before: WorkerSnapshot,
    pub(crate) now: WorkerSnapshot,
    /// Ports whose queues it serves.
    pub(crate) ports: Vec<String>,
    /// Share of the interval that it spent with packets.
    pub(crate) busy: f64,
    /// Share of the interval in which its thread could run and did not; `None` if it cannot be read.
    pub(crate) waited: Option<f64>,
    /// The CPU on which its thread ran last.
    pub(crate) cpu: Option<usize>,
}

impl Worker {
    /// Difference of a counter.
    pub(crate) fn difference(&self, counter: fn(&WorkerSnapshot) -> u64) -> u64 {
        counter(&self.now).saturating_sub(counter(&self.before))
    }
}

/// One CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cpu {
    /// Other CPUs of its core.
    pub(crate) siblings: Vec<usize>,
    /// Frequency governor, if the kernel has one.
    pub(crate) governor: Option<String>,
    /// Share of the interval in which it was not idle.
    pub(crate) busy: f64,
    /// Share of the interval that the host took.
    pub(crate) stolen: f64,
    /// Threads of other processes that used it most, busiest first.
    pub(crate) others: Vec<Thread>,
}

/// A thread that used a CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Thread {
    pub(crate) process: String,
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// Share of the interval.
    pub(crate) share: f64,
}

impl Thread {
    /// Whether it is a virtual CPU of a guest: QEMU names these `CPU 0/KVM`.
    pub(crate) fn is_guest(&self) -> bool {
        let is_machine = ["qemu", "kvm", "cloud-hyperviso", "firecracker", "crosvm"];
        let process = is_machine.iter().any(|name| self.process.starts_with(name));
        process
            && (self.name.starts_with("CPU ")
                || self.name.starts_with("vcpu")
                || self.name.starts_with("fc_vcpu"))
    }
}
