//! Evidence of the checks: plain values, collected once (`collect`), so that each check is a function of them.

use crate::api::model::ConfinementReport;
use crate::dataplane::health::HungWorker;
use crate::settings::topology::PortSettings;
use engine::{PortSnapshot, WorkerSnapshot};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Everything that was collected.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    /// Seconds between the two readings of the counters.
    pub(super) seconds: f64,
    pub(super) ports: Vec<Port>,
    pub(super) workers: Vec<Worker>,
    /// CPUs by number.
    pub(super) cpus: BTreeMap<usize, Cpu>,
    /// Workers that hang, by `/healthz`.
    pub(super) hung: Vec<HungWorker>,
    /// Huge pages of the machine that are reserved.
    pub(super) huge_pages: Option<u64>,
    /// Confinement of the switch; `None`: it is not confined.
    pub(super) confinement: Option<ConfinementReport>,
    /// Evidence that could not be read, with the reason.
    pub(super) unread: Vec<String>,
}

/// One port.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) settings: PortSettings,
    /// Counters at the first reading; `None` for a new port.
    pub(super) before: Option<PortSnapshot>,
    /// State and counters at the second reading; `None` while the port starts.
    pub(super) now: Option<PortSnapshot>,
    /// Its Unix socket, if it has one.
    pub(super) socket: Option<Socket>,
}

impl Port {
    pub(super) fn name(&self) -> &str {
        &self.settings.name
    }

    /// State of the second reading; empty while the port starts.
    pub(super) fn state(&self) -> &str {
        self.now.as_ref().map_or("", |now| now.state.as_str())
    }

    /// Reason for the state; empty if there is none.
    pub(super) fn reason(&self) -> &str {
        self.now.as_ref().and_then(|now| now.reason.as_deref()).unwrap_or_default()
    }

    /// Whether it could not be created yet, as the reason says.
    pub(super) fn is_deferred(&self) -> bool {
        self.reason().starts_with("the port cannot be created yet")
    }

    /// Whether a feature was negotiated.
    pub(super) fn has(&self, feature: &str) -> bool {
        self.now.as_ref().is_some_and(|now| now.features.iter().any(|own| own == feature))
    }

    /// Difference of a counter.
    pub(super) fn difference(&self, counter: fn(&PortSnapshot) -> u64) -> u64 {
        let value = |port: &Option<PortSnapshot>| port.as_ref().map_or(0, counter);
        value(&self.now).saturating_sub(value(&self.before))
    }

    /// Packets that were dropped between the readings for a reason.
    pub(super) fn dropped(&self, reason: &str) -> u64 {
        let value = |port: &Option<PortSnapshot>| {
            port.as_ref().and_then(|port| port.drops.get(reason).copied()).unwrap_or(0)
        };
        value(&self.now).saturating_sub(value(&self.before))
    }

    /// Whether it received or sent packets between the readings.
    pub(super) fn is_used(&self) -> bool {
        self.difference(|port| port.rx_packets) + self.difference(|port| port.tx_packets) > 0
    }

    /// Number of queue pairs that run.
    pub(super) fn running(&self) -> usize {
        let queues = self.now.as_ref().map_or(&[][..], |now| &now.queues);
        queues.iter().filter(|queue| queue.rx_running || queue.tx_running).count()
    }
}

/// The file of a Unix socket, and the sockets that are bound to its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Socket {
    pub(super) path: PathBuf,
    /// Whether the switch listens, and the peer connects.
    pub(super) listens: bool,
    /// The file; `None` if there is none.
    pub(super) file: Option<SocketFile>,
    /// Sockets that listen at the path: of the switch, and of other processes.
    pub(super) listeners: Option<Listeners>,
}

/// Access to the file of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SocketFile {
    pub(super) owner: u32,
    pub(super) mode: u32,
}

/// Numbers of listening sockets of one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Listeners {
    pub(super) own: usize,
    pub(super) other: usize,
}

/// One worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Worker {
    pub(super) before: WorkerSnapshot,
    pub(super) now: WorkerSnapshot,
    /// Ports whose queues it serves.
    pub(super) ports: Vec<String>,
    /// Share of the interval that it spent with packets.
    pub(super) busy: f64,
    /// Share of the interval in which its thread could run and did not; `None` if it cannot be read.
    pub(super) waited: Option<f64>,
    /// The CPU on which its thread ran last.
    pub(super) cpu: Option<usize>,
}

impl Worker {
    /// Difference of a counter.
    pub(super) fn difference(&self, counter: fn(&WorkerSnapshot) -> u64) -> u64 {
        counter(&self.now).saturating_sub(counter(&self.before))
    }
}

/// One CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Cpu {
    /// Other CPUs of its core.
    pub(super) siblings: Vec<usize>,
    /// Frequency governor, if the kernel has one.
    pub(super) governor: Option<String>,
    /// Share of the interval in which it was not idle.
    pub(super) busy: f64,
    /// Share of the interval that the host took.
    pub(super) stolen: f64,
    /// Threads of other processes that used it most, busiest first.
    pub(super) others: Vec<Thread>,
}

/// A thread that used a CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Thread {
    pub(super) process: String,
    pub(super) name: String,
    pub(super) pid: u32,
    /// Share of the interval.
    pub(super) share: f64,
}

impl Thread {
    /// Whether it is a virtual CPU of a guest: QEMU names these `CPU 0/KVM`.
    pub(super) fn is_guest(&self) -> bool {
        let is_machine = ["qemu", "kvm", "cloud-hyperviso", "firecracker", "crosvm"];
        let process = is_machine.iter().any(|name| self.process.starts_with(name));
        process
            && (self.name.starts_with("CPU ")
                || self.name.starts_with("vcpu")
                || self.name.starts_with("fc_vcpu"))
    }
}
