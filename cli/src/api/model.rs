//! JSON of the control API's responses, shared by server and client.

use crate::dataplane::report::FdbEntry;
use crate::settings::model::{ModelKind, Role};
use crate::settings::topology::{BridgeSettings, PortSettings};
use console::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use engine::balance::{Balance, QueueLoad};
use engine::{PortSnapshot, Snapshot, WorkerSnapshot};

/// `GET /v1/status`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) pid: u32,
    pub(crate) uptime_ns: u64,
    pub(crate) cycles_per_second: f64,
    /// The copy kernel in use.
    pub(crate) kernel: String,
    pub(crate) workers: usize,
    pub(crate) sleeping: usize,
    #[serde(default)]
    pub(crate) model: ModelKind,
    /// Number of workers by role, in a pipeline.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) roles: BTreeMap<String, usize>,
    pub(crate) bridges: Vec<BridgeStatus>,
    pub(crate) ports: usize,
    pub(crate) connected: usize,
    pub(crate) traffic: Traffic,
}

/// One bridge of `GET /v1/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BridgeStatus {
    pub(crate) name: String,
    pub(crate) ageing: Span,
    pub(crate) table: u32,
    pub(crate) addresses: usize,
    pub(crate) ports: Vec<String>,
}

impl BridgeStatus {
    /// Status of a bridge with its ports and addresses.
    pub(crate) fn of(bridge: &BridgeSettings, ports: &[PortSettings], addresses: usize) -> Self {
        let members = ports.iter().filter(|port| port.bridge == bridge.name);
        Self {
            name: bridge.name.clone(),
            ageing: bridge.ageing,
            table: bridge.table,
            addresses,
            ports: members.map(|port| port.name.clone()).collect(),
        }
    }
}

/// Sums over all ports since start. Received plus replicated packets equal those sent, lost and punted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traffic {
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
    pub(crate) replicated: u64,
    pub(crate) punted: u64,
    pub(crate) drops: BTreeMap<String, u64>,
}

impl Traffic {
    /// Sums over all ports, including removed ones.
    pub(crate) fn of(now: &Snapshot) -> Self {
        let removed = now.removed.clone();
        let mut sum = Self {
            rx_packets: removed.rx_packets,
            rx_bytes: removed.rx_bytes,
            tx_packets: removed.tx_packets,
            tx_bytes: removed.tx_bytes,
            replicated: removed.replicated,
            punted: removed.punted,
            drops: removed.drops,
        };
        for port in &now.ports {
            sum.rx_packets += port.rx_packets;
            sum.rx_bytes += port.rx_bytes;
            sum.tx_packets += port.tx_packets;
            sum.tx_bytes += port.tx_bytes;
            sum.replicated += port.replicated;
            sum.punted += port.punted;
            for (reason, packets) in &port.drops {
                *sum.drops.entry(reason.clone()).or_default() += packets;
            }
        }
        sum
    }
}

/// One port of `GET /v1/ports`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PortReport {
    /// Configuration.
    pub(crate) settings: PortSettings,
    /// Current state; `None` while the port starts.
    pub(crate) live: Option<PortSnapshot>,
}

/// `GET /v1/workers`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkersReport {
    pub(crate) uptime_ns: u64,
    pub(crate) cycles_per_second: f64,
    pub(crate) budget: engine::BudgetSnapshot,
    pub(crate) workers: Vec<WorkerSnapshot>,
}

/// `GET /v1/placement`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlacementReport {
    /// The `[placement]` section in one line; `None` if absent.
    pub(crate) rules: Option<String>,
    /// Remarks on the placement.
    pub(crate) notes: Vec<String>,
    pub(crate) workers: Vec<WorkerSnapshot>,
    /// All receive queues, each with its worker.
    pub(crate) queues: Vec<QueueLoad>,
    /// Latest result of load balancing, if enabled.
    pub(crate) latest: Option<Balance>,
}

/// `POST /v1/rebalance`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RebalanceRequest {
    /// Whether moves are only reported.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// Duration of the measurement in milliseconds.
    pub(crate) over_ms: u64,
    /// Minimum gain as a share of a core; `None`: the configured value or the default.
    #[serde(default)]
    pub(crate) threshold: Option<f64>,
}

/// `POST /v1/workers`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkerAdded {
    pub(crate) index: usize,
    pub(crate) role: Role,
    pub(crate) cpu: Option<usize>,
}

/// `GET /v1/fdb`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FdbReport {
    /// Total number of matching entries, regardless of the limit.
    pub(crate) total: usize,
    pub(crate) entries: Vec<FdbEntry>,
}

/// `DELETE /v1/fdb`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flushed {
    pub(crate) flushed: u64,
}
