//! Reports of multicast snooping; part of the control API's JSON.

use serde::{Deserialize, Serialize};
use snooping::{Counts, GroupStatus, QuerierStatus, RouterStatus, Snooper};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use utoipa::ToSchema;

/// One bridge of `GET /v1/multicast`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct MulticastReport {
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// Number of groups, counted for each VLAN.
    pub(crate) total: usize,
    /// Maximum number of groups.
    pub(crate) max_groups: usize,
    /// Ports of groups, by VLAN, group and port.
    pub(crate) groups: Vec<GroupReport>,
    /// Router ports.
    pub(crate) routers: Vec<RouterReport>,
    /// Queriers by VLAN.
    pub(crate) queriers: Vec<QuerierReport>,
    /// Counters of ports.
    pub(crate) ports: Vec<MulticastPortReport>,
}

/// A port of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct GroupReport {
    /// VLAN, or 0 without one.
    pub(crate) vlan: u16,
    /// Address of the group.
    pub(crate) group: String,
    /// Name of the port.
    pub(crate) port: String,
    /// Version of the latest report, such as `IGMPv3`.
    pub(crate) version: String,
    /// Filter mode: `exclude` for all sources except `sources`, or `include` for these only. Packets are not filtered
    /// by source.
    pub(crate) mode: String,
    /// Sources.
    pub(crate) sources: Vec<String>,
    /// Seconds since the port became a member.
    pub(crate) age: u64,
    /// Seconds until the membership ends, unless it is reported again.
    pub(crate) expires: u64,
}

/// A router port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RouterReport {
    /// VLAN, or 0 without one; absent for all VLANs of a configured router port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) vlan: Option<u16>,
    /// Name of the port.
    pub(crate) port: String,
    /// Address of the router; absent for a configured router port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    /// Seconds until the port is no router port any more, unless the router is heard again; absent for a configured
    /// router port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<u64>,
}

/// The querier of a VLAN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct QuerierReport {
    /// VLAN, or 0 without one.
    pub(crate) vlan: u16,
    /// Its address.
    pub(crate) address: String,
    /// Name of its port; absent for the bridge itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<String>,
}

/// Counters of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct MulticastPortReport {
    /// Name of the port.
    pub(crate) port: String,
    /// Valid queries that were received.
    pub(crate) queries: u64,
    /// Valid reports and leave messages that were received.
    pub(crate) reports: u64,
    /// Memberships refused because of `max_groups_per_port`.
    pub(crate) port_full: u64,
    /// Memberships refused because of `max_groups`.
    pub(crate) bridge_full: u64,
    /// Records of groups that are not snooped, such as 224.0.0.251.
    pub(crate) reserved: u64,
    /// Invalid messages, by reason.
    pub(crate) invalid: BTreeMap<String, u64>,
}

type Names = BTreeMap<u16, String>;

fn name(names: &Names, port: u16) -> String {
    names.get(&port).cloned().unwrap_or_default()
}

impl MulticastReport {
    pub(super) fn of(bridge: &str, snooper: &Snooper, names: &Names, now: Duration) -> Self {
        Self {
            bridge: bridge.to_owned(),
            total: snooper.group_count(),
            max_groups: snooper.config().max_groups,
            groups: snooper.groups(now).map(|status| GroupReport::of(&status, names)).collect(),
            routers: snooper
                .routers(now)
                .into_iter()
                .map(|status| RouterReport::of(&status, names))
                .collect(),
            queriers: snooper.queriers().iter().map(|status| QuerierReport::of(status, names)).collect(),
            ports: snooper
                .counts()
                .map(|(port, counts)| MulticastPortReport::of(name(names, port), counts))
                .collect(),
        }
    }
}

impl GroupReport {
    fn of(status: &GroupStatus, names: &Names) -> Self {
        let protocol = if status.group.is_ipv4() { "IGMP" } else { "MLD" };
        Self {
            vlan: status.vlan,
            group: status.group.to_string(),
            port: name(names, status.port),
            version: format!("{protocol}v{}", status.version),
            mode: if status.is_exclude { "exclude" } else { "include" }.to_owned(),
            sources: status.sources.iter().map(IpAddr::to_string).collect(),
            age: status.age.as_secs(),
            expires: status.expires.as_secs(),
        }
    }
}

impl RouterReport {
    fn of(status: &RouterStatus, names: &Names) -> Self {
        Self {
            vlan: status.vlan,
            port: name(names, status.port),
            address: status.source.map(|source| source.to_string()),
            expires: status.expires.map(|time| time.as_secs()),
        }
    }
}

impl QuerierReport {
    fn of(status: &QuerierStatus, names: &Names) -> Self {
        let port = status.port.map(|port| name(names, port));
        Self { vlan: status.vlan, address: status.address.to_string(), port }
    }
}

impl MulticastPortReport {
    fn of(port: String, counts: Counts) -> Self {
        let invalid = counts.invalid().map(|(reason, count)| (reason.to_owned(), count)).collect();
        let Counts { queries, reports, port_full, bridge_full, reserved, .. } = counts;
        Self { port, queries, reports, port_full, bridge_full, reserved, invalid }
    }
}
