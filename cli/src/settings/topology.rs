//! Configuration of a switch as a plain value: read from a file, printed as a tree, sent through the control API.
//!
//! `text` prints it. Nothing here validates or acts. A value may still be impossible on this machine; `config`
//! validates it.

mod text;

use crate::settings::access::Access;
use crate::settings::bonds::BondSettings;
use crate::settings::confine::ConfineSettings;
use crate::settings::conntrack::ConntrackSettings;
use crate::settings::control::{ControlAccess, ReadSocket};
use crate::settings::export::ExportSettings;
use crate::settings::flows::{BadFlow, FileFlows, FilePorts, acl, changes};
use crate::settings::grants::GrantSettings;
use crate::settings::kinds::PortKind;
use crate::settings::kinds::granted::Granted;
use crate::settings::links::{LinkSettings, StpSettings};
use crate::settings::mirror::MirrorSettings;
use crate::settings::model::{ModelKind, ModelSettings, RoleSettings, RssMode};
use crate::settings::multicast::MulticastSettings;
use crate::settings::openflow::OpenflowSettings;
use crate::settings::placement::Placement;
use crate::settings::policy::Policy;
use crate::settings::reader::validation::PortCommon;
use crate::settings::remote::RemoteSettings;
use crate::settings::underlay::UnderlaySettings;
use crate::settings::wrappers::Wrappers;
use console::Span;
use flow::PortNo;
use flow::tables::Modification;
use flow::text::PortNames;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
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
    #[serde(skip_serializing_if = "ConntrackSettings::is_default")]
    pub(crate) conntrack: ConntrackSettings,
}

/// `[switch]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SwitchSettings {
    pub(crate) name: String,
    /// The control socket; `None`: the default path.
    pub(crate) control: Option<PathBuf>,
    /// Who may use the control socket, besides the user of the switch.
    #[serde(flatten)]
    pub(crate) control_access: ControlAccess,
    /// The socket at which the switch can only be read.
    #[serde(flatten)]
    pub(crate) read: ReadSocket,
    /// The socket at which applications request ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grants: Option<PathBuf>,
    /// The address at which metrics are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<SocketAddr>,
    /// The address of the web page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) web: Option<SocketAddr>,
    /// The API over TCP.
    #[serde(rename = "api", skip_serializing_if = "Option::is_none")]
    pub(crate) remote: Option<RemoteSettings>,
    /// The file with the token of the web page; `None`: the token is random.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) web_token_file: Option<PathBuf>,
    /// Whether the web page may capture packets.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) web_capture: bool,
    /// Addresses at which the machine is managed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) management_addresses: Vec<IpAddr>,
    /// How flows are distributed to the queue pairs of a port.
    pub(crate) rss: Rss,
    /// Access to the sockets of ports that set none.
    #[serde(flatten)]
    pub(crate) access: Access,
    /// What the process keeps after its start.
    #[serde(flatten)]
    pub(crate) confine: ConfineSettings,
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
            control_access: ControlAccess::default(),
            read: ReadSocket::default(),
            grants: None,
            metrics: None,
            web: None,
            web_token_file: None,
            remote: None,
            web_capture: false,
            management_addresses: Vec::new(),
            rss: Rss::default(),
            access,
            confine: ConfineSettings::default(),
        }
    }
}

/// Behaviour of an idle worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Polling {
    /// Sleeps until a notification.
    #[default]
    Adaptive,
    /// Never sleeps.
    Busy,
}

/// Behaviour when a destination is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum QueueFull {
    /// Drops the packet and counts it.
    #[default]
    Drop,
    /// Waits until there is room.
    Wait,
}

/// `[[worker]]`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// sFlow and IPFIX.
    #[serde(flatten)]
    pub(crate) export: ExportSettings,
    /// IGMP and MLD snooping; `None`: multicast packets are flooded.
    #[serde(rename = "multicast_snooping", skip_serializing_if = "Option::is_none")]
    pub(crate) multicast: Option<MulticastSettings>,
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
            export: ExportSettings::default(),
            multicast: None,
            statics: Vec::new(),
        }
    }

    /// Name of the local port.
    pub(crate) fn local(&self) -> Option<&str> {
        self.openflow.as_ref()?.local.as_deref()
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
    #[serde(flatten)]
    pub(crate) policy: Policy,
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

    /// Files of the port, each with its key.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.kind.files().into_iter().chain(self.wrappers.files().map(|(key, file, _)| (key, file)))
    }

    /// A bond as a port of its bridge.
    pub(crate) fn of_bond(bond: &BondSettings) -> Self {
        Self {
            name: bond.name.clone(),
            kind: PortKind::Granted(Granted::default()),
            queue_pairs: 1,
            mtu: None,
            bridge: bond.bridge.clone(),
            policy: bond.policy.clone(),
            links: bond.links.clone(),
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
            policy: grant.policy.clone(),
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
            policy: Policy::default(),
            links: LinkSettings::default(),
            rss_mode: None,
            wrappers: Wrappers::default(),
        }
    }
}

impl Topology {
    /// Number of workers that receive from ports: all, or the Rx stages of a pipeline.
    pub(crate) fn takers(&self) -> usize {
        let stages = self.placement.as_ref().and_then(|placement| placement.stages);
        match self.model.model {
            ModelKind::Pipeline => {
                let listed = self.workers.iter().filter(|worker| worker.roles.rx).count();
                // Before they are placed.
                stages.filter(|_| listed == 0).map_or(listed, |stages| stages.rx)
            }
            _ => self.workers.len(),
        }
    }

    /// Names of the bonds of a bridge, and of its ports that are no members of them.
    pub(crate) fn names_on(&self, bridge: &str) -> Vec<&str> {
        let bonds = || self.bonds.iter().filter(|bond| bond.bridge == bridge);
        let is_member = |port: &&PortSettings| bonds().any(|bond| bond.ports.contains(&port.name));
        let ports = self.ports.iter().filter(|port| port.bridge == bridge && !is_member(port));
        bonds().map(|bond| bond.name.as_str()).chain(ports.map(|port| port.name.as_str())).collect()
    }

    /// The changes that add the flows of the file to a bridge, whose bonds and then other ports have numbers in the
    /// order of the file.
    ///
    /// # Errors
    /// With the flows that cannot be read or that a new bridge refuses.
    pub(crate) fn flow_changes(&self, bridge: &str) -> Result<Vec<Modification>, Vec<BadFlow>> {
        let settings = self.bridges.iter().find(|candidate| candidate.name == bridge);
        let options = settings.and_then(|settings| settings.openflow.as_ref());
        let options = options.map_or(&[][..], |options| &options.tunnel_options);
        changes(&self.flows, bridge, &self.file_ports(bridge), (self.acl_zone(bridge), options))
    }

    /// Names and OpenFlow numbers that ports of a bridge have at the start.
    pub(crate) fn numbers_on(&self, bridge: &str) -> Vec<(&str, PortNo)> {
        let ports = self.file_ports(bridge);
        self.names_on(bridge).into_iter().filter_map(|name| Some((name, ports.number(name)?))).collect()
    }

    fn file_ports(&self, bridge: &str) -> FilePorts<'_> {
        let local = self.bridges.iter().find(|other| other.name == bridge).and_then(BridgeSettings::local);
        FilePorts::new(self.names_on(bridge).into_iter(), local)
    }

    /// Zone of the connections of a bridge's access list.
    pub(crate) fn acl_zone(&self, bridge: &str) -> u16 {
        acl::zone(self.bridges.iter().position(|other| other.name == bridge).unwrap_or_default())
    }

    /// Removes a port, with its static entries and from its bond.
    pub(crate) fn forget_port(&mut self, name: &str) {
        for bridge in &mut self.bridges {
            bridge.statics.retain(|entry| entry.port != name);
        }
        for bond in &mut self.bonds {
            bond.ports.retain(|port| port != name);
        }
        self.ports.retain(|port| port.name != name);
    }

    /// Whether a port is the local one of its bridge.
    pub(crate) fn is_local(&self, port: &PortSettings) -> bool {
        let bridge = self.bridges.iter().find(|bridge| bridge.name == port.bridge);
        bridge.and_then(BridgeSettings::local) == Some(&port.name)
    }
}
