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

/// Sums over all ports since the start: what came in and was replicated is what went out and was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traffic {
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
    pub(crate) replicated: u64,
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
            drops: removed.drops,
        };
        for port in &now.ports {
            sum.rx_packets += port.rx_packets;
            sum.rx_bytes += port.rx_bytes;
            sum.tx_packets += port.tx_packets;
            sum.tx_bytes += port.tx_bytes;
            sum.replicated += port.replicated;
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
pub(crate) struct Refusal {
    pub(crate) error: String,
    pub(crate) remedy: String,
    /// Where there was more than one mistake: the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) more: Vec<Refusal>,
}

impl Refusal {
    /// One error.
    pub(crate) fn new(error: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { error: error.into(), remedy: remedy.into(), more: Vec::new() }
    }
}
