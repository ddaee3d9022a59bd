//! Configuration of a switch as a plain value: read from a file, printed as a tree, sent through the control API.
//!
//! Nothing here validates or acts. A value may still be impossible on this machine; `config` validates it.

use crate::settings::access::Access;
use crate::settings::bonds::{BondSettings, Policy};
use crate::settings::flows::{BadFlow, FileFlows, FilePorts, changes};
use crate::settings::grants::GrantSettings;
use crate::settings::kinds::PortKind;
use crate::settings::kinds::granted::Granted;
use crate::settings::links::{LinkSettings, StpSettings};
use crate::settings::mirror::MirrorSettings;
use crate::settings::model::{ModelKind, ModelSettings, RoleSettings, RssMode};
use crate::settings::openflow::OpenflowSettings;
use crate::settings::placement::Placement;
use crate::settings::reader::validation::PortCommon;
use crate::settings::security::Security;
use crate::settings::underlay::UnderlaySettings;
use crate::settings::vlan::Vlan;
use crate::settings::wrappers::Wrappers;
use console::Span;
use flow::tables::Modification;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use utoipa::ToSchema;
use wire::MacAddress;

/// Default ageing time (IEEE 802.1Q table 8-6).
const AGEING: Span = Span(Duration::from_mins(5));

/// Configuration of a whole switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Topology {
    pub(crate) switch: SwitchSettings,
    pub(crate) model: ModelSettings,
    pub(crate) workers: Vec<WorkerSettings>,
    /// Placement of workers and queues; `None`: workers run on their configured CPUs, and each queue is assigned to
    /// the worker with the fewest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) placement: Option<Placement>,
    pub(crate) bridges: Vec<BridgeSettings>,
    pub(crate) ports: Vec<PortSettings>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) bonds: Vec<BondSettings>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) grants: Vec<GrantSettings>,
    /// `[[flow]]` and `[[acl]]`
    #[serde(flatten, skip_serializing_if = "FileFlows::is_empty")]
    pub(crate) flows: FileFlows,
    #[serde(rename = "mirror", skip_serializing_if = "Vec::is_empty")]
    pub(crate) mirrors: Vec<MirrorSettings>,
    /// `[[underlay]]`
    #[serde(rename = "underlay", skip_serializing_if = "Vec::is_empty")]
    pub(crate) underlays: Vec<UnderlaySettings>,
}

/// `[switch]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SwitchSettings {
    pub(crate) name: String,
    /// The control socket; `None`: the default path.
    pub(crate) control: Option<PathBuf>,
    /// The socket at which applications ask for ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grants: Option<PathBuf>,
    /// Addresses at which the machine is managed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) management_addresses: Vec<IpAddr>,
    /// How flows are distributed to the queue pairs of a port.
    pub(crate) rss: Rss,
    /// Access to the sockets of ports that set none.
    #[serde(flatten)]
    pub(crate) access: Access,
}

/// How flows are distributed to the queue pairs of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Rss {
    /// By symmetric flow hash, so that one worker processes both directions of a flow.
    #[default]
    Symmetric,
    /// By Toeplitz flow hash, like network cards.
    Toeplitz,
    /// By the queue pair on which the packet arrived.
    Pair,
}

impl Default for SwitchSettings {
    fn default() -> Self {
        let (name, access) = ("linerate".to_owned(), Access::default());
        Self {
            name,
            control: None,
            grants: None,
            management_addresses: Vec::new(),
            rss: Rss::default(),
            access,
        }
    }
}

/// Behaviour of an idle worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Polling {
    /// Sleeps until a notification.
    #[default]
    Adaptive,
    /// Never sleeps.
    Busy,
}

/// Behaviour when a destination is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum QueueFull {
    /// Drops the packet and counts it.
    #[default]
    Drop,
    /// Waits until there is room.
    Wait,
}

/// `[[worker]]`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct WorkerSettings {
    /// CPU to which it is pinned; `None`: chosen by the kernel.
    pub(crate) cpu: Option<usize>,
    pub(crate) polling: Polling,
    pub(crate) queue_full: QueueFull,
    /// Its pipeline roles; none if it runs to completion.
    pub(crate) roles: RoleSettings,
}

/// When a known address may move to another port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MacMoves {
    /// If it has aged out, its port has stopped, or a trusted port announces it.
    #[default]
    Guarded,
    /// With any frame.
    Free,
}

/// How a bridge decides where packets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PipelineKind {
    /// By learned addresses.
    #[default]
    Learning,
    /// By flow tables.
    Openflow,
}

/// `[[bridge]]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct BridgeSettings {
    pub(crate) name: String,
    pub(crate) pipeline: PipelineKind,
    /// Controllers; only of a bridge with flow tables.
    #[serde(flatten)]
    pub(crate) openflow: Option<OpenflowSettings>,
    /// Ageing time: unused addresses are removed after it.
    pub(crate) ageing: Span,
    /// Capacity of the address table.
    pub(crate) table: u32,
    /// Maximum addresses learned per port, unless the port sets `max_macs`.
    pub(crate) max_macs_per_port: Option<u32>,
    /// Whether frames to the group addresses of spanning tree, LACP and LLDP are flooded.
    pub(crate) forward_reserved: bool,
    pub(crate) mac_moves: MacMoves,
    /// Whether DHCP servers are allowed behind trusted ports only, and leases are recorded.
    pub(crate) dhcp_snooping: bool,
    /// Spanning tree; `None`: the bridge has none.
    #[serde(flatten)]
    pub(crate) stp: Option<StpSettings>,
    #[serde(rename = "static")]
    pub(crate) statics: Vec<StaticEntry>,
}

impl BridgeSettings {
    /// A bridge with default settings.
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            pipeline: PipelineKind::default(),
            openflow: None,
            ageing: AGEING,
            table: 65_536,
            max_macs_per_port: None,
            forward_reserved: false,
            mac_moves: MacMoves::default(),
            dhcp_snooping: false,
            stp: None,
            statics: Vec::new(),
        }
    }
}

/// `[[bridge.static]]`: an address pinned to a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StaticEntry {
    /// Unicast address, such as `02:00:00:00:00:01`.
    #[schema(value_type = String)]
    pub(crate) mac: MacAddress,
    /// Name of the port.
    pub(crate) port: String,
    /// VLAN, or 0 for frames without one.
    #[serde(default)]
    pub(crate) vlan: u16,
}

/// `[[port]]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortSettings {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) kind: PortKind,
    pub(crate) queue_pairs: u16,
    /// MTU in bytes, without the Ethernet header. vhost-user: reported to the guest (`None`: the guest uses its own).
    /// Other kinds: packet length that one buffer holds (`None`: the default of the kind).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mtu: Option<u16>,
    pub(crate) bridge: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) vlan: Option<Vlan>,
    /// Packets per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) broadcast_limit: Option<u32>,
    /// Packets per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unknown_limit: Option<u32>,
    /// Packets that either limit admits at once; `None`: those of a tenth of a second, at least 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit_burst: Option<u32>,
    #[serde(flatten)]
    pub(crate) security: Security,
    #[serde(flatten)]
    pub(crate) links: LinkSettings,
    /// Where packets are distributed to workers; `None`: as in `[worker]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rss_mode: Option<RssMode>,
    #[serde(flatten)]
    pub(crate) wrappers: Wrappers,
}

impl PortSettings {
    /// Settings common to all kinds that a kind depends on.
    pub(crate) fn common(&self) -> PortCommon<'_> {
        PortCommon { name: &self.name, queue_pairs: self.queue_pairs, mtu: self.mtu }
    }

    /// A bond as a port of its bridge.
    pub(crate) fn of_bond(bond: &BondSettings) -> Self {
        let Policy { vlan, broadcast_limit, unknown_limit, limit_burst, security } = bond.policy.clone();
        Self {
            name: bond.name.clone(),
            kind: PortKind::Granted(Granted::default()),
            queue_pairs: 1,
            mtu: None,
            bridge: bond.bridge.clone(),
            vlan,
            broadcast_limit,
            unknown_limit,
            limit_burst,
            security,
            links: LinkSettings::default(),
            rss_mode: None,
            wrappers: Wrappers::default(),
        }
    }

    /// A port of the section `grant`.
    pub(crate) fn granted(grant: &GrantSettings, name: &str, queue_pairs: u16, granted: Granted) -> Self {
        Self {
            name: name.to_owned(),
            kind: PortKind::Granted(granted),
            queue_pairs,
            mtu: None,
            bridge: grant.bridge.clone(),
            vlan: grant.vlan.clone(),
            broadcast_limit: grant.broadcast_limit,
            unknown_limit: grant.unknown_limit,
            limit_burst: grant.limit_burst,
            security: grant.security.clone(),
            links: LinkSettings::default(),
            rss_mode: None,
            wrappers: Wrappers::default(),
        }
    }
}

#[cfg(test)]
impl PortSettings {
    /// A port of the bridge `main` with default settings.
    pub(crate) fn named(name: &str, kind: PortKind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            queue_pairs: 1,
            mtu: None,
            bridge: "main".to_owned(),
            vlan: None,
            broadcast_limit: None,
            unknown_limit: None,
            limit_burst: None,
            security: Security::default(),
            links: LinkSettings::default(),
            rss_mode: None,
            wrappers: Wrappers::default(),
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "switch {}", self.switch.name)?;
        if let Some(path) = &self.switch.control {
            write!(f, ", control {}", path.display())?;
        }
        if let Some(path) = &self.switch.grants {
            write!(f, ", grants at {}", path.display())?;
        }
        f.write_str(match self.switch.rss {
            Rss::Symmetric => "",
            Rss::Toeplitz => ", RSS as in network cards",
            Rss::Pair => ", packets keep the number of their queue pair",
        })?;
        let branches = self.branches();
        for (i, (text, leaves)) in branches.iter().enumerate() {
            let last = i + 1 == branches.len();
            write!(f, "\n{} {text}", if last { "└─" } else { "├─" })?;
            for (j, leaf) in leaves.iter().enumerate() {
                let bar = if last { ' ' } else { '│' };
                let knee = if j + 1 == leaves.len() { "└─" } else { "├─" };
                write!(f, "\n{bar}  {knee} {leaf}")?;
            }
        }
        Ok(())
    }
}

impl Topology {
    /// Number of workers that receive from ports: all, or the Rx stages of a pipeline.
    pub(crate) fn takers(&self) -> usize {
        let stages = self.placement.as_ref().and_then(|placement| placement.stages);
        match self.model.model {
            ModelKind::Pipeline => {
                let listed = || self.workers.iter().filter(|worker| worker.roles.rx).count();
                stages.map_or_else(listed, |stages| stages.rx)
            }
            _ => self.workers.len(),
        }
    }

    /// The changes that add the flows of the file to a bridge, whose ports have numbers in the order of the file.
    ///
    /// # Errors
    /// With the flows that cannot be read or that a new bridge refuses.
    pub(crate) fn flow_changes(&self, bridge: &str) -> Result<Vec<Modification>, Vec<BadFlow>> {
        let ports = self.ports.iter().filter(|port| port.bridge == bridge);
        let ports = FilePorts::new(ports.map(|port| port.name.as_str()));
        changes(&self.flows, bridge, &ports)
    }

    /// The subtree of the switch: workers and their placement, then bridges with their ports, static entries and flows.
    fn branches(&self) -> Vec<(String, Vec<String>)> {
        let workers = self.workers.iter().enumerate();
        let workers = workers.map(|(i, worker)| (format!("worker {i}: {worker}"), Vec::new()));
        let usual = self.model == ModelSettings::default();
        let model = (!usual).then(|| (self.model.to_string(), Vec::new()));
        let placement = self.placement.iter().map(|placement| (placement.to_string(), placement.leaves()));
        model
            .into_iter()
            .chain(workers)
            .chain(placement)
            .chain(self.bridges.iter().map(|b| (b.to_string(), self.leaves(b))))
            .chain(self.grants.iter().map(|grant| (grant.to_string(), Vec::new())))
            .collect()
    }

    fn leaves(&self, bridge: &BridgeSettings) -> Vec<String> {
        let ports = self.ports.iter().filter(|port| port.bridge == bridge.name);
        let acl = self.flows.acl.iter().filter(|rule| rule.bridge == bridge.name);
        let flows = self.flows.flows.iter().filter(|flow| flow.bridge == bridge.name);
        let flows = acl.map(ToString::to_string).chain(flows.map(ToString::to_string));
        let statics = bridge.statics.iter().map(ToString::to_string);
        let bonds = self.bonds.iter().filter(|bond| bond.bridge == bridge.name).map(ToString::to_string);
        let mirrors = self.mirrors.iter().filter(|mirror| mirror.bridge == bridge.name);
        let mirrors = mirrors.map(ToString::to_string);
        let underlays = self.underlays.iter().filter(|underlay| underlay.bridge == bridge.name);
        let statics = underlays.map(ToString::to_string).chain(statics);
        ports.map(ToString::to_string).chain(bonds).chain(statics).chain(flows).chain(mirrors).collect()
    }
}

impl fmt::Display for WorkerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cpu {
            Some(cpu) => write!(f, "cpu {cpu}")?,
            None => f.write_str("any cpu")?,
        }
        if self.roles != RoleSettings::default() {
            write!(f, ", {}", self.roles)?;
        }
        f.write_str(match self.polling {
            Polling::Adaptive => ", sleeps when idle",
            Polling::Busy => ", always polls",
        })?;
        f.write_str(match self.queue_full {
            QueueFull::Drop => ", drops when a queue is full",
            QueueFull::Wait => ", waits when a queue is full",
        })
    }
}

impl fmt::Display for BridgeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flows = if self.pipeline == PipelineKind::Openflow { "OpenFlow, " } else { "" };
        write!(f, "bridge {}: {flows}{} addresses", self.name, self.table)?;
        write!(f, ", aged out after {}", self.ageing)?;
        if let Some(most) = self.max_macs_per_port {
            write!(f, ", at most {most} per port")?;
        }
        f.write_str(if self.forward_reserved { ", reserved groups forwarded" } else { "" })?;
        f.write_str(if self.mac_moves == MacMoves::Free { ", addresses move freely" } else { "" })?;
        f.write_str(if self.dhcp_snooping { ", DHCP snooping" } else { "" })?;
        self.stp.iter().try_for_each(|stp| stp.fmt(f))?;
        self.openflow.iter().try_for_each(|openflow| openflow.fmt(f))
    }
}

impl fmt::Display for StaticEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "static {} at port {}", self.mac, self.port)?;
        if self.vlan == 0 { Ok(()) } else { write!(f, ", VLAN {}", self.vlan) }
    }
}

impl fmt::Display for PortSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, queue_pairs, mtu, .. } = self;
        let pairs = if *queue_pairs == 1 { "pair" } else { "pairs" };
        write!(f, "port {name}: {kind}, {queue_pairs} queue {pairs}")?;
        if let Some(mtu) = mtu {
            write!(f, ", MTU {mtu}")?;
        }
        if let Some(vlan) = &self.vlan {
            write!(f, ", {vlan}")?;
        }
        let limits = [(self.broadcast_limit, "broadcasts/s"), (self.unknown_limit, "unknown unicasts/s")];
        for (limit, what) in limits.iter().filter_map(|(limit, what)| Some((limit.as_ref()?, what))) {
            write!(f, ", at most {limit} {what}")?;
        }
        if let Some(packets) = self.limit_burst {
            write!(f, " in bursts of {packets}")?;
        }
        self.security.fmt(f)?;
        self.links.fmt(f)?;
        f.write_str(match self.rss_mode {
            None => "",
            Some(RssMode::Queues) => ", RSS by queues",
            Some(RssMode::Software) => ", RSS in software",
        })?;
        self.wrappers.fmt(f)
    }
}
