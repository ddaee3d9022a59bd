//! JSON of the control API's responses, shared by server and client.

use crate::dataplane::bond_report::BondState;
use crate::dataplane::flow_report::FlowCounts;
use crate::dataplane::link_report::StpPortReport;
use crate::dataplane::report::{FdbEntry, FlowEntry};
use crate::settings::bonds::BondSettings;
use crate::settings::mirror::MirrorSettings;
use crate::settings::model::{ModelKind, Role};
use crate::settings::topology::{BridgeSettings, PortSettings};
use confine::Confinement;
use console::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use utoipa::ToSchema;

use engine::balance::{Balance, QueueLoad};
use engine::{PortSnapshot, Snapshot, WorkerSnapshot};

/// `GET /v1/status`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Status {
    /// Name of the switch.
    pub(crate) name: String,
    /// Version of the program.
    pub(crate) version: String,
    /// Process identifier.
    pub(crate) pid: u32,
    /// Nanoseconds since start.
    pub(crate) uptime_ns: u64,
    /// Frequency of the time-stamp counter, in which cycles are measured.
    pub(crate) cycles_per_second: f64,
    /// The copy kernel in use.
    pub(crate) kernel: String,
    /// Number of workers.
    pub(crate) workers: usize,
    /// Number of workers that sleep now.
    pub(crate) sleeping: usize,
    /// Execution model.
    #[serde(default)]
    pub(crate) model: ModelKind,
    /// Number of workers by role, in a pipeline.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) roles: BTreeMap<String, usize>,
    /// Bridges in the order of the file.
    pub(crate) bridges: Vec<BridgeStatus>,
    /// Number of ports.
    pub(crate) ports: usize,
    /// Number of connected ports.
    pub(crate) connected: usize,
    /// Sums over all ports.
    pub(crate) traffic: Traffic,
    /// What the process gave up at its start; null if it is not confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) confinement: Option<ConfinementReport>,
}

/// Confinement of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ConfinementReport {
    /// Capabilities that it kept; workers have none.
    pub(crate) capabilities: Vec<String>,
    /// Whether system calls are filtered.
    pub(crate) seccomp: bool,
    /// Whether files are restricted: `off`, `on`, `in part`, or `not supported by the kernel`.
    pub(crate) file_rules: String,
}

impl From<&Confinement> for ConfinementReport {
    fn from(found: &Confinement) -> Self {
        Self {
            capabilities: confine::names(found.kept),
            seccomp: found.unfiltered.is_none(),
            file_rules: found.landlock.name().to_owned(),
        }
    }
}

impl fmt::Display for ConfinementReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capabilities = self.capabilities.join(" ");
        let capabilities = if capabilities.is_empty() { "none" } else { &capabilities };
        let seccomp = if self.seccomp { "on" } else { "not supported" };
        write!(f, "capabilities {capabilities}; seccomp {seccomp}; file rules {}", self.file_rules)
    }
}

/// One bridge of `GET /v1/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct BridgeStatus {
    /// Name.
    pub(crate) name: String,
    /// Ageing time, such as `5m`.
    #[schema(value_type = String)]
    pub(crate) ageing: Span,
    /// Capacity of the address table.
    pub(crate) table: u32,
    /// Number of addresses, learned and static.
    pub(crate) addresses: usize,
    /// Names of its ports.
    pub(crate) ports: Vec<String>,
    /// Counters of the flow tables, of an OpenFlow bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) flows: Option<FlowCounts>,
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
            flows: None,
        }
    }
}

/// Sums over all ports since start, including removed ones. While no burst is in flight, received plus replicated
/// packets equal sent, dropped and punted ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Traffic {
    /// Packets received.
    pub(crate) rx_packets: u64,
    /// Bytes received, without frame checksums.
    pub(crate) rx_bytes: u64,
    /// Packets sent.
    pub(crate) tx_packets: u64,
    /// Bytes sent.
    pub(crate) tx_bytes: u64,
    /// Copies beyond the first, by flooding or segmentation.
    pub(crate) replicated: u64,
    /// Packets and copies punted to the control plane.
    pub(crate) punted: u64,
    /// Drops by reason; reasons without drops are omitted.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct PortReport {
    /// Configuration.
    pub(crate) settings: PortSettings,
    /// Current state; null while the port starts.
    pub(crate) live: Option<PortSnapshot>,
    /// State in the spanning tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stp: Option<StpPortReport>,
}

/// One bond of `GET /v1/bonds`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct BondReport {
    /// Configuration.
    pub(crate) settings: BondSettings,
    /// Current state; null while the bond is added.
    pub(crate) live: Option<BondState>,
}

/// A mirror with its counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct MirrorReport {
    #[serde(flatten)]
    pub(crate) settings: MirrorSettings,
    /// Whether its output exists.
    pub(crate) active: bool,
    /// Packets that were copied. One with copies for several ports of a VLAN, or with an offload, counts once.
    pub(crate) packets: u64,
    /// Bytes of these packets, before their copies are truncated.
    pub(crate) bytes: u64,
}

/// `GET /v1/workers`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct WorkersReport {
    /// Nanoseconds since start.
    pub(crate) uptime_ns: u64,
    /// Frequency of the time-stamp counter, in which cycles are measured.
    pub(crate) cycles_per_second: f64,
    /// Work budget of a receive queue's turn.
    pub(crate) budget: engine::BudgetSnapshot,
    /// Workers by index.
    pub(crate) workers: Vec<WorkerSnapshot>,
}

/// `GET /v1/placement`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct PlacementReport {
    /// The `[placement]` section in one line; null if absent.
    pub(crate) rules: Option<String>,
    /// Remarks on the placement.
    pub(crate) notes: Vec<String>,
    /// Workers by index.
    pub(crate) workers: Vec<WorkerSnapshot>,
    /// All receive queues, each with its worker.
    pub(crate) queues: Vec<QueueLoad>,
    /// Latest result of load balancing, if enabled.
    pub(crate) latest: Option<Balance>,
}

/// `POST /v1/rebalance`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RebalanceRequest {
    /// Whether moves are only reported.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// Duration of the measurement, from `10ms` to `8s`.
    #[schema(value_type = String)]
    pub(crate) duration: Span,
    /// Minimum gain as a share of a core, from 0.01 to 1. Default: the configured value, or 0.1.
    #[serde(default)]
    pub(crate) threshold: Option<f64>,
}

/// Request of `POST /v1/workers`, and of `PATCH /v1/workers/{index}` without `role`; null stands for the default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct WorkerRequest {
    /// Role of a stage; required in a pipeline, and only there.
    #[schema(value_type = Option<Role>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    /// CPU to pin it to. Default: not pinned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu: Option<usize>,
    /// `adaptive` (default) or `busy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) polling: Option<String>,
    /// `drop` (default) or `wait`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue_full: Option<String>,
}

/// A worker that was added, changed or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct WorkerReport {
    /// Index of the worker.
    pub(crate) index: usize,
    /// `rx`, `work` or `tx`, or `all` if it runs to completion.
    pub(crate) role: String,
    /// CPU to which it is pinned.
    pub(crate) cpu: Option<usize>,
}

/// `GET /v1/fdb`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FdbReport {
    /// Total number of matching entries, regardless of the limit.
    pub(crate) total: usize,
    /// Matching entries, at most as many as the limit.
    pub(crate) entries: Vec<FdbEntry>,
}

/// `DELETE /v1/fdb`, `DELETE /v1/connections`, `DELETE /v1/multicast`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Flushed {
    /// Number of removed addresses, connections or memberships.
    pub(crate) flushed: u64,
}

/// `GET /v1/flows`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FlowReport {
    /// Total number of matching flows, regardless of the limit.
    pub(crate) total: usize,
    /// Matching flows, at most as many as the limit.
    pub(crate) flows: Vec<FlowEntry>,
}

/// Changes of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FlowsChanged {
    /// Number of flows that were added or removed.
    pub(crate) changed: usize,
}

/// Changes of options of tunnels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct OptionsChanged {
    /// Number of options that were bound or freed.
    pub(crate) changed: usize,
}
