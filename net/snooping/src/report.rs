//! State of a snooper for display.

use crate::config::RouterPort;
use crate::querier::Vlan;
use crate::snooper::{Snooper, port_config};
use std::net::IpAddr;
use std::time::Duration;

/// A port of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// VLAN; 0 for frames without one.
    pub vlan: u16,
    /// The group.
    pub group: IpAddr,
    /// Number of the port.
    pub port: u16,
    /// Version of IGMP or MLD of the latest report.
    pub version: u8,
    /// Whether the hosts receive all sources except `sources`; else `sources` only.
    pub is_exclude: bool,
    /// Sources.
    pub sources: Vec<IpAddr>,
    /// Time since the port became a member.
    pub age: Duration,
    /// Time until the membership ends, unless it is reported again.
    pub expires: Duration,
}

/// A router port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterStatus {
    /// VLAN; `None` for all VLANs of a configured router port.
    pub vlan: Option<u16>,
    /// Number of the port.
    pub port: u16,
    /// Address of the router that was heard last; `None` for a configured router port.
    pub source: Option<IpAddr>,
    /// Time until the port is no router port any more; `None` for a configured router port.
    pub expires: Option<Duration>,
}

/// The querier of a VLAN that was heard, or this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuerierStatus {
    /// VLAN; 0 for frames without one.
    pub vlan: u16,
    /// Its address.
    pub address: IpAddr,
    /// Its port; `None` for this bridge.
    pub port: Option<u16>,
}

impl Snooper {
    /// All ports of all groups, by VLAN, group and port.
    pub fn groups(&self, now: Duration) -> impl Iterator<Item = GroupStatus> {
        let members = self.groups.iter().flat_map(|(key, ports)| ports.iter().map(move |port| (key, port)));
        members.map(move |((vlan, group), (port, member))| GroupStatus {
            vlan: *vlan,
            group: *group,
            port: *port,
            version: member.version,
            is_exclude: member.exclude_until.is_some(),
            sources: match member.exclude_until {
                Some(_) => member.excluded.clone(),
                None => member.sources.keys().copied().collect(),
            },
            age: now.saturating_sub(member.since),
            expires: member.until().saturating_sub(now),
        })
    }

    /// All router ports.
    pub fn routers(&self, now: Duration) -> Vec<RouterStatus> {
        let always = self.ports.iter().filter(|(_, port)| port.config.router == RouterPort::Always);
        let always =
            always.map(|(port, _)| RouterStatus { vlan: None, port: *port, source: None, expires: None });
        let learned = self.vlans.iter().flat_map(|(vlan, state)| {
            state.routers.values().filter(|heard| self.is_auto(heard.port)).map(move |heard| RouterStatus {
                vlan: Some(*vlan),
                port: heard.port,
                source: Some(heard.source),
                expires: Some(heard.until.saturating_sub(now)),
            })
        });
        always.chain(learned).collect()
    }

    fn is_auto(&self, port: u16) -> bool {
        port_config(&self.ports, port).router == RouterPort::Auto
    }

    /// The queriers of all VLANs.
    pub fn queriers(&self) -> Vec<QuerierStatus> {
        let of_vlan = |(vlan, state): (&u16, &Vlan)| {
            let (vlan, others) = (*vlan, state.others);
            let own = self.own_addresses().into_iter().zip(others).filter(|(_, other)| other.is_none());
            let own: Vec<_> = own
                .filter_map(|(own, _)| own.filter(|_| self.is_queried(vlan)))
                .map(|address| QuerierStatus { vlan, address, port: None })
                .collect();
            let others = others.into_iter().flatten();
            others
                .map(move |heard| QuerierStatus { vlan, address: heard.source, port: Some(heard.port) })
                .chain(own)
        };
        self.vlans.iter().flat_map(of_vlan).collect()
    }
}
