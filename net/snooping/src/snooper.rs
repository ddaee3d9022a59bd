//! Groups, router ports and timers of one bridge.

use crate::config::{Config, PortConfig, RouterPort};
use crate::counts::Counts;
use crate::member::{Member, Times};
use crate::message::{Body, Change, Message, Record};
use crate::querier::{Heard, Vlan, presence};
use crate::queries::{Query, Repeated};
use crate::query::ROBUSTNESS;
use crate::table::Table;
use crate::traffic::is_snooped;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;
use wire::{EtherType, MacAddress};

/// Last member query interval (RFC 3376, section 8.8): reports are awaited for twice this time.
pub(crate) const LAST_MEMBER: Duration = Duration::from_secs(1);

/// The state of a port.
#[derive(Debug, Default)]
pub(crate) struct Port {
    pub(crate) config: PortConfig,
    counts: Counts,
    groups: usize,
}

pub(crate) type Groups = BTreeMap<(u16, IpAddr), BTreeMap<u16, Member>>;

/// Snooping of one bridge.
#[derive(Debug)]
pub struct Snooper {
    pub(crate) config: Config,
    pub(crate) mac: MacAddress,
    pub(crate) ports: BTreeMap<u16, Port>,
    pub(crate) groups: Groups,
    pub(crate) vlans: BTreeMap<u16, Vlan>,
    pub(crate) queries: Vec<Query>,
    pub(crate) repeated: Vec<Repeated>,
    /// No timer of a membership or router ends before.
    next_expiry: Duration,
    is_changed: bool,
}

/// Configuration of a port, also of one that is not there.
pub(crate) fn port_config(ports: &BTreeMap<u16, Port>, port: u16) -> PortConfig {
    ports.get(&port).map(|port| port.config).unwrap_or_default()
}

impl Snooper {
    /// Snooping without ports. `mac` is the source of queries.
    pub fn new(config: Config, mac: MacAddress) -> Self {
        Self {
            config,
            mac,
            ports: BTreeMap::new(),
            groups: BTreeMap::new(),
            vlans: BTreeMap::new(),
            queries: Vec::new(),
            repeated: Vec::new(),
            next_expiry: Duration::MAX,
            is_changed: true,
        }
    }

    /// Adds a port.
    pub fn add_port(&mut self, number: u16, config: PortConfig, now: Duration) {
        self.ports.insert(number, Port { config, ..Port::default() });
        if let Some(vlan) = config.untagged {
            self.vlans.entry(vlan).or_insert_with(|| Vlan::new(now));
        }
        self.is_changed = true;
    }

    /// Whether the port was added.
    pub fn has_port(&self, number: u16) -> bool {
        self.ports.contains_key(&number)
    }

    /// Removes a port with its memberships.
    pub fn remove_port(&mut self, number: u16) {
        self.forget_port(number);
        self.is_changed |= self.ports.remove(&number).is_some();
    }

    /// The link of a port came up or went down. A port without link has no members and no router.
    pub fn set_link(&mut self, number: u16, is_up: bool, now: Duration) {
        if !self.has_port(number) {
            return;
        }
        if !is_up {
            return self.forget_port(number);
        }
        self.vlans.values_mut().for_each(|vlan| vlan.restart(now));
    }

    fn forget_port(&mut self, number: u16) {
        self.retain(|_, _, port, _| port != number);
        self.repeated.retain(|query| query.port != number);
        for vlan in self.vlans.values_mut() {
            self.is_changed |= vlan.remove_port(number);
        }
    }

    /// The spanning tree has changed: members may be behind other ports now. All hosts are queried, and memberships of
    /// these ports end soon unless they are reported (RFC 4541, section 2.1.1). Without a querier this is so for IGMP
    /// only, because MLD has no source address for such queries.
    pub fn topology_changed(&mut self, ports: &BTreeSet<u16>, now: Duration) {
        let own = self.own_addresses();
        let end = now + LAST_MEMBER * (ROBUSTNESS + 1);
        for ((_, group), members) in &mut self.groups {
            if group.is_ipv4() || own[1].is_some() {
                let moved = members.iter_mut().filter(|(port, _)| ports.contains(port));
                moved.for_each(|(_, member)| member.shorten(end));
            }
        }
        self.next_expiry = self.next_expiry.min(end);
        for vlan in self.queried_vlans() {
            let addresses = [own[0].unwrap_or(IpAddr::from([0; 4]))].into_iter().chain(own[1]);
            addresses.for_each(|address| self.query_all(vlan, address, LAST_MEMBER));
        }
    }

    /// Removes memberships that `doomed` selects by VLAN, group and port. Returns their number.
    pub fn flush(&mut self, doomed: impl Fn(u16, IpAddr, u16) -> bool) -> usize {
        self.retain(|vlan, group, port, _| !doomed(vlan, group, port))
    }

    fn retain(&mut self, mut keep: impl FnMut(u16, IpAddr, u16, &mut Member) -> bool) -> usize {
        let mut removed = 0;
        for ((vlan, group), members) in &mut self.groups {
            members.retain(|port, member| {
                let is_kept = keep(*vlan, *group, *port, member);
                if !is_kept {
                    removed += 1;
                    if let Some(port) = self.ports.get_mut(port) {
                        port.groups = port.groups.saturating_sub(1);
                    }
                }
                is_kept
            });
        }
        self.groups.retain(|_, members| !members.is_empty());
        self.is_changed |= removed > 0;
        removed
    }

    /// Handles an IP packet that was received on a port.
    pub fn receive(&mut self, number: u16, vlan: u16, ethertype: EtherType, packet: &[u8], now: Duration) {
        let Some(port) = self.ports.get_mut(&number) else { return };
        let message = match Message::parse(ethertype, packet) {
            Ok(message) => message,
            Err(error) => return port.counts.reject(error),
        };
        let Message { source, version, body } = message;
        match body {
            Body::Report(records) => {
                port.counts.reports += 1;
                for record in &records {
                    self.record(number, vlan, version, record, now);
                }
            }
            Body::Query { group, delay, is_suppressed } => {
                port.counts.queries += 1;
                let is_heard = self.hear(number, vlan, source, true, now);
                if let Some(group) = group.filter(|_| is_heard && !is_suppressed) {
                    self.query_heard((vlan, group), now + delay.max(LAST_MEMBER) * ROBUSTNESS);
                }
            }
            Body::Router => _ = self.hear(number, vlan, source, false, now),
        }
    }

    /// A querier or router was heard. Returns whether it counts: queries without an address are of other bridges, and
    /// no routers (RFC 4541, section 2.1.1).
    fn hear(&mut self, port: u16, vlan: u16, source: IpAddr, is_query: bool, now: Duration) -> bool {
        if source.is_unspecified() || port_config(&self.ports, port).router == RouterPort::Never {
            return false;
        }
        let heard = Heard { source, port, until: now + presence(&self.config) };
        self.next_expiry = self.next_expiry.min(heard.until);
        let own = self.own_addresses()[usize::from(source.is_ipv6())];
        let state = self.vlans.entry(vlan).or_insert_with(|| Vlan::new(now));
        if is_query {
            state.elect(heard, own);
        }
        self.is_changed |= state.add_router(heard);
        true
    }

    /// Another querier asks for the members of a group: those that do not report have left.
    fn query_heard(&mut self, key: (u16, IpAddr), end: Duration) {
        if let Some(members) = self.groups.get_mut(&key) {
            for member in members.values_mut() {
                member.shorten(end);
            }
            self.next_expiry = self.next_expiry.min(end);
        }
    }

    fn record(&mut self, number: u16, vlan: u16, version: u8, record: &Record, now: Duration) {
        let Some(port) = self.ports.get_mut(&number) else { return };
        if !is_snooped(record.group) {
            port.counts.reserved += 1;
            return;
        }
        let key = (vlan, record.group);
        let is_known = self.groups.get(&key).is_some_and(|members| members.contains_key(&number));
        if !is_known && !may_join(record) {
            return;
        }
        if !is_known && port.groups >= self.config.max_groups_per_port {
            port.counts.port_full += 1;
            return;
        }
        if !self.groups.contains_key(&key) && self.groups.len() >= self.config.max_groups {
            port.counts.bridge_full += 1;
            return;
        }
        port.groups += usize::from(!is_known);
        self.is_changed |= !is_known;
        let left = if port.config.fast_leave { now } else { now + LAST_MEMBER * ROBUSTNESS };
        let times = Times { now, kept: now + self.config.membership_interval, left };
        self.vlans.entry(vlan).or_insert_with(|| Vlan::new(now));
        let members = self.groups.entry(key).or_default();
        let member = members.entry(number).or_insert_with(|| Member::new(version, now));
        member.version = version;
        if version == 1 && record.group.is_ipv4() {
            member.stays_until = times.kept;
        }
        let has_left = member.apply(record.change, &record.sources, times);
        self.next_expiry = self.next_expiry.min(member.next().unwrap_or(now));
        if has_left && member.until() > now {
            self.ask(number, key, now);
        }
    }

    /// Runs the timers up to `now`. Returns the time of the next call; `None` if no timer runs.
    pub fn tick(&mut self, now: Duration) -> Option<Duration> {
        if now >= self.next_expiry {
            self.expire(now);
        }
        self.repeat(now);
        let query = self.config.querier.and_then(|_| self.query(now));
        let repeated = self.repeated.iter().map(|query| query.at).min();
        let expiry = (self.next_expiry < Duration::MAX).then_some(self.next_expiry);
        [query, repeated, expiry].into_iter().flatten().min()
    }

    fn expire(&mut self, now: Duration) {
        self.retain(|_, _, _, member| member.expire(now));
        for vlan in self.vlans.values_mut() {
            self.is_changed |= vlan.expire(now);
        }
        let members = self.groups.values().flat_map(BTreeMap::values).filter_map(Member::next);
        let routers = self.vlans.values().filter_map(Vlan::next_expiry);
        self.next_expiry = members.chain(routers).min().unwrap_or(Duration::MAX);
    }

    /// Whether the table for workers has changed since [`Snooper::take_table`].
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// The table for workers, if it has changed since the last call.
    pub fn take_table(&mut self) -> Option<Table> {
        std::mem::take(&mut self.is_changed).then(|| self.table())
    }

    fn table(&self) -> Table {
        let always = self.ports.iter().filter(|(_, port)| port.config.router == RouterPort::Always);
        let always: BTreeSet<u16> = always.map(|(number, _)| *number).collect();
        let with_routers = |vlan: u16, ports: &mut BTreeSet<u16>| {
            ports.extend(&always);
            ports.extend(self.vlans.get(&vlan).iter().flat_map(|state| state.routers.keys()));
        };
        let routers = self.vlans.keys().map(|vlan| {
            let mut ports = BTreeSet::new();
            with_routers(*vlan, &mut ports);
            (*vlan, ports.into_iter().collect())
        });
        let groups = self.groups.iter().map(|(key, members)| {
            let mut ports = members.keys().copied().collect();
            with_routers(key.0, &mut ports);
            (*key, ports.into_iter().collect())
        });
        Table {
            groups: groups.collect(),
            routers: routers.collect(),
            always: always.iter().copied().collect(),
            flood_unregistered: self.config.flood_unregistered,
        }
    }

    /// Configuration of the bridge.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Number of groups, counted for each VLAN.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Counters of all ports.
    pub fn counts(&self) -> impl Iterator<Item = (u16, Counts)> {
        self.ports.iter().map(|(number, port)| (*number, port.counts))
    }
}

/// Whether the record is one of a host that receives the group or some sources.
fn may_join(record: &Record) -> bool {
    match record.change {
        Change::IsExclude | Change::ToExclude => true,
        Change::IsInclude | Change::ToInclude | Change::Allow => !record.sources.is_empty(),
        Change::Block => false,
    }
}
