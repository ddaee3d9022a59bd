//! What the control API says: the JSON of each answer, shared by server and client.

use crate::model::{ModelKind, Role};
use crate::topology::{BridgeSettings, PortSettings};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use engine::balance::{Balance, QueueLoad};
pub(crate) use engine::{PortSnapshot, Snapshot, WorkerSnapshot};
use wire::MacAddress;

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
    /// Workers by role, where they share the work.
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
    pub(crate) ageing: u32,
    pub(crate) table: u32,
    pub(crate) addresses: usize,
    pub(crate) ports: Vec<String>,
}

impl BridgeStatus {
    /// The bridge with what is in it.
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

/// One bridge of `GET /v1/bridges`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BridgeReport {
    pub(crate) name: String,
    /// Addresses in its table, and as many as it holds.
    pub(crate) addresses: usize,
    pub(crate) table: usize,
    pub(crate) ports: Vec<BridgePort>,
    /// The latest refused moves, at most one per port and second, oldest first.
    pub(crate) refused_moves: Vec<MoveEvent>,
}

/// One port of a [`BridgeReport`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BridgePort {
    pub(crate) port: String,
    pub(crate) learned: u32,
    pub(crate) max_macs: u32,
    #[serde(rename = "static")]
    pub(crate) pinned: u32,
    /// Packets whose source was not learned: at a limit, or put off because the table was being changed.
    pub(crate) not_learned: u64,
    pub(crate) deferred: u64,
    /// Addresses that moved to this port, and packets that were dropped because theirs may not.
    pub(crate) moves: u64,
    pub(crate) refused_moves: u64,
}

/// An address that was in use at `old_port` and sent from `new_port`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MoveEvent {
    pub(crate) mac: MacAddress,
    /// 0: no VLAN.
    pub(crate) vlan: u16,
    pub(crate) old_port: String,
    pub(crate) new_port: String,
    /// Seconds since then.
    pub(crate) age: u32,
}

/// Sums over all ports since the start: what came in and was replicated is what went out, was lost or was punted.
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
    /// The sums over all ports, those that were removed among them.
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
    /// What was asked for.
    pub(crate) settings: PortSettings,
    /// What is; `None` in the moment in which the port starts.
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
    /// The `[placement]` section in a line; `None`: there is none.
    pub(crate) rules: Option<String>,
    /// What there is to say about it.
    pub(crate) notes: Vec<String>,
    pub(crate) workers: Vec<WorkerSnapshot>,
    /// Every receive queue with its worker.
    pub(crate) queues: Vec<QueueLoad>,
    /// What was found last, where load is watched.
    pub(crate) latest: Option<Balance>,
}

/// `POST /v1/rebalance`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RebalanceRequest {
    /// Whether it is only said what would be moved.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// Milliseconds of measuring.
    pub(crate) over_ms: u64,
    /// The share of a core that must be gained; `None`: what the file says, or what is usual.
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

/// Where an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    Learned,
    Static,
}

/// One address of a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FdbEntry {
    pub(crate) bridge: String,
    pub(crate) mac: MacAddress,
    /// 0: no VLAN.
    pub(crate) vlan: u16,
    pub(crate) port: String,
    pub(crate) origin: Origin,
    /// Seconds since it was last seen; static entries have none.
    pub(crate) age: Option<u32>,
}

/// Which addresses are meant; what is left out may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FdbFilter {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bridge: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<String>,
    /// 0: no VLAN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vlan: Option<u16>,
    /// Most entries of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<usize>,
}

impl FdbFilter {
    /// Whether an address is meant.
    pub(crate) fn names(&self, entry: &FdbEntry) -> bool {
        self.bridge.as_ref().is_none_or(|bridge| *bridge == entry.bridge)
            && self.port.as_ref().is_none_or(|port| *port == entry.port)
            && self.vlan.is_none_or(|vlan| vlan == entry.vlan)
    }

    /// Where one would look, to end a sentence: ` at port "a" in VLAN 5`.
    pub(crate) fn among(&self) -> String {
        let at = |what: &str, name: &Option<String>| {
            name.as_ref().map(|name| format!(" {what} \"{name}\"")).unwrap_or_default()
        };
        let vlan = self.vlan.map(|vlan| format!(" in VLAN {vlan}")).unwrap_or_default();
        at("on bridge", &self.bridge) + &at("at port", &self.port) + &vlan
    }
}

/// `GET /v1/fdb`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FdbReport {
    /// How many there are, whatever the limit.
    pub(crate) total: usize,
    pub(crate) entries: Vec<FdbEntry>,
}

/// `DELETE /v1/fdb`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flushed {
    pub(crate) flushed: u64,
}

/// Every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ErrorBody {
    pub(crate) error: String,
    pub(crate) remedy: String,
    /// Where there was more than one error: the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) more: Vec<ErrorBody>,
}

impl ErrorBody {
    /// One error.
    pub(crate) fn new(error: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { error: error.into(), remedy: remedy.into(), more: Vec::new() }
    }
}
