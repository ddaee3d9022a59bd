//! Queries that a snooper sends: general ones, and those for a group that a host has left.

use crate::querier::response;
use crate::query::{Content, frame};
use crate::snooper::{LAST_MEMBER, Snooper};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use wire::MacAddress;

/// VLANs that are queried at most.
const MAX_QUERIED: usize = 256;
/// Queries of one port that are to be repeated at most. Others are sent once.
const MAX_REPEATED: usize = 32;

/// A query to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// VLAN; 0 for none.
    pub vlan: u16,
    /// The port; `None` for all ports of the VLAN.
    pub port: Option<u16>,
    /// Untagged frame.
    pub frame: Box<[u8]>,
}

/// A group-specific query that is sent again.
#[derive(Debug)]
pub(crate) struct Repeated {
    pub(crate) at: Duration,
    vlan: u16,
    group: IpAddr,
    pub(crate) port: u16,
}

impl Snooper {
    /// Asks for further members of a group behind a port, if this is the querier.
    pub(crate) fn ask(&mut self, port: u16, key: (u16, IpAddr), now: Duration) {
        let (vlan, group) = key;
        let is_own = self.vlans.get(&vlan).is_some_and(|state| state.is_own(group.is_ipv6()));
        if self.config.querier.is_none() || !is_own {
            return;
        }
        self.query_group(vlan, group, port);
        let mut own = self.repeated.iter().filter(|query| query.port == port);
        let is_asked = self.repeated.iter().any(|q| (q.port, q.vlan, q.group) == (port, vlan, group));
        if !is_asked && own.nth(MAX_REPEATED - 1).is_none() {
            self.repeated.push(Repeated { at: now + LAST_MEMBER, vlan, group, port });
        }
    }

    fn query_group(&mut self, vlan: u16, group: IpAddr, port: u16) {
        if let Some(source) = self.own_addresses()[usize::from(group.is_ipv6())] {
            let content = Content { group, delay: LAST_MEMBER, interval: self.config.query_interval };
            self.queries.push(Query { vlan, port: Some(port), frame: frame(self.mac, source, content) });
        }
    }

    pub(crate) fn query_all(&mut self, vlan: u16, source: IpAddr, delay: Duration) {
        let group = if source.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let content = Content { group, delay, interval: self.config.query_interval };
        self.queries.push(Query { vlan, port: None, frame: frame(self.mac, source, content) });
    }

    /// Addresses of this querier in IGMP and MLD; `None` without a querier.
    pub(crate) fn own_addresses(&self) -> [Option<IpAddr>; 2] {
        let Some(querier) = self.config.querier else { return [None; 2] };
        [Some(querier.address.into()), Some(link_local(self.mac).into())]
    }

    /// VLANs with ports of untagged frames or with groups.
    pub(crate) fn queried_vlans(&self) -> Vec<u16> {
        self.vlans.keys().copied().filter(|vlan| self.is_queried(*vlan)).take(MAX_QUERIED).collect()
    }

    pub(crate) fn is_queried(&self, vlan: u16) -> bool {
        let from = (vlan, IpAddr::from([0; 4]));
        self.ports.values().any(|port| port.config.untagged == Some(vlan))
            || self.groups.range(from..).next().is_some_and(|((next, _), _)| *next == vlan)
    }

    pub(crate) fn repeat(&mut self, now: Duration) {
        let (due, later) = std::mem::take(&mut self.repeated).into_iter().partition(|query| query.at <= now);
        self.repeated = later;
        for Repeated { vlan, group, port, .. } in due as Vec<_> {
            if self.groups.get(&(vlan, group)).is_some_and(|members| members.contains_key(&port)) {
                self.query_group(vlan, group, port);
            }
        }
    }

    /// Sends general queries that are due. Returns when the next one is.
    pub(crate) fn query(&mut self, now: Duration) -> Option<Duration> {
        let (vlans, own) = (self.queried_vlans(), self.own_addresses());
        let mut next = None;
        for vlan in vlans {
            let Some(state) = self.vlans.get_mut(&vlan) else { continue };
            let is_due = state.is_due(&self.config, now);
            next = Some(next.map_or(state.next, |next: Duration| next.min(state.next)));
            let is_own = [state.is_own(false), state.is_own(true)];
            for (address, _) in own.into_iter().zip(is_own).filter(|(_, is_own)| is_due && *is_own) {
                if let Some(address) = address {
                    self.query_all(vlan, address, response(&self.config));
                }
            }
        }
        next
    }

    /// Takes the queries to send since the last call.
    pub fn take_queries(&mut self) -> Vec<Query> {
        std::mem::take(&mut self.queries)
    }
}

/// Link-local address with the interface identifier of an Ethernet address (RFC 4291, appendix A).
fn link_local(mac: MacAddress) -> Ipv6Addr {
    let mut octets = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 0];
    octets[8..11].copy_from_slice(&mac.octets()[..3]);
    octets[13..].copy_from_slice(&mac.octets()[3..]);
    octets[8] ^= 2;
    octets.into()
}
