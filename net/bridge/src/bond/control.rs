//! Control of bonds: runs LACP, chooses members and distributes buckets, and publishes the result to workers.
//!
//! Events come from the engine's control thread (links, LACPDUs) and from a timer ([`Bonds::run`]). Each locks the bonds
//! for some microseconds; none waits for a worker.

use super::balance::{self, Bucket, Buckets};
use super::config::{BondConfig, BondMode, MemberConfig};
use super::members::Members;
use super::report::{BondStatistics, BucketStatistics, LacpStatus, MemberStatistics};
use super::shared::{Admission, BUCKETS, Bond, Hashing, Link};
use crate::key::Key;
use lacp::{Group, SlowFrame, lacp_frame, marker_response};
use port::{Context, Now, PortId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use wire::MacAddress;

/// Learning packets that are sent in one run, so that the engine's queue has room for other frames.
const ANNOUNCED_AT_ONCE: usize = 512;

/// Has a worker send a frame on a port.
type Send = Box<dyn Fn(PortId, Box<[u8]>, u32) -> bool + std::marker::Send + Sync>;

/// All bonds.
#[derive(Default)]
pub(crate) struct Bonds {
    state: Mutex<State>,
    send: OnceLock<Send>,
}

#[derive(Default)]
struct State {
    bonds: BTreeMap<PortId, Control>,
    /// Ports with a link, also those that are no members.
    up: BTreeSet<PortId>,
}

/// A bond.
struct Control {
    config: BondConfig,
    shared: Arc<Bond>,
    lacp: Option<Group>,
    members: Members,
    links: BTreeMap<PortId, Arc<Link>>,
    balance: Balance,
    /// Stations at other ports that are still to be announced to the other end; `None`: they are to be collected.
    announcing: Option<VecDeque<Announcement>>,
}

/// Buckets and their load.
struct Balance {
    buckets: Box<Buckets>,
    /// Bytes that were counted already.
    counted: Box<[u64; BUCKETS]>,
    assigned: Vec<PortId>,
    next: u64,
    moves: u64,
}

/// A station that is announced: its address and VLAN, and the frame.
pub(crate) struct Announcement {
    pub(crate) source: Key,
    pub(crate) frame: Box<[u8]>,
}

impl Bonds {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the function that sends frames; the first one remains.
    pub(crate) fn connect(&self, send: Send) {
        let _ = self.send.set(send);
    }

    /// Adds a bond without members, or replaces it. Returns what workers read.
    pub(crate) fn add(&self, bond: PortId, config: BondConfig) -> Arc<Bond> {
        let hashing = match config.mode {
            BondMode::ActiveBackup => Hashing::One,
            BondMode::BalanceSlb => Hashing::Source,
            BondMode::BalanceTcp => Hashing::Flow,
        };
        let shared = Arc::new(Bond::new(bond, hashing));
        self.lock().bonds.insert(bond, Control::new(config, shared.clone()));
        shared
    }

    pub(crate) fn remove(&self, bond: PortId) {
        self.lock().bonds.remove(&bond);
    }

    /// Adds a member. Returns what workers read; `None` if the bond does not exist.
    pub(crate) fn join(
        &self,
        port: PortId,
        bond: PortId,
        config: MemberConfig,
        now: Now,
    ) -> Option<Arc<Link>> {
        let mut state = self.lock();
        let is_up = state.up.contains(&port);
        let control = state.bonds.get_mut(&bond)?;
        let link = Arc::new(Link::new(bond, control.lacp.is_some()));
        control.links.insert(port, link.clone());
        control.members.add(port, config.is_primary, is_up);
        if let Some(group) = &mut control.lacp {
            group.add(number(port), config.priority);
            group.set_enabled(number(port), is_up, now.0);
        }
        control.run(now.0, &|port, frame| self.send(port, frame));
        Some(link)
    }

    pub(crate) fn leave(&self, port: PortId, bond: PortId, now: Now) {
        let mut state = self.lock();
        let Some(control) = state.bonds.get_mut(&bond) else { return };
        control.members.remove(port);
        control.links.remove(&port);
        if let Some(group) = &mut control.lacp {
            group.remove(number(port));
        }
        control.run(now.0, &|port, frame| self.send(port, frame));
    }

    /// The link of a port came up or went down. Returns the bond that has no usable member since then.
    pub(crate) fn changed(&self, port: PortId, is_up: bool, now: Now) -> Option<PortId> {
        let mut state = self.lock();
        if is_up {
            state.up.insert(port)
        } else {
            state.up.remove(&port)
        };
        let control = state.bonds.values_mut().find(|control| control.links.contains_key(&port))?;
        let before = control.members.active;
        control.members.set_up(port, is_up);
        if let Some(group) = &mut control.lacp {
            group.set_enabled(number(port), is_up, now.0);
        }
        control.run(now.0, &|port, frame| self.send(port, frame));
        (before.is_some() && control.members.active.is_none()).then_some(control.shared.port)
    }

    /// A member received a frame of a slow protocol.
    pub(crate) fn received(&self, port: PortId, frame: &[u8], now: Now) {
        let mut state = self.lock();
        let Some(control) = state.bonds.values_mut().find(|control| control.links.contains_key(&port)) else {
            return;
        };
        let Some(group) = &mut control.lacp else { return };
        match SlowFrame::parse(frame) {
            Ok(SlowFrame::Lacp(pdu)) => {
                group.receive(number(port), &pdu, now.0);
                control.run(now.0, &|port, frame| self.send(port, frame));
            }
            Ok(SlowFrame::Marker(marker)) => {
                let response = marker_response(group.config().system, &marker);
                self.send(port, Box::new(response));
            }
            Err(_) => {}
        }
    }

    /// Runs all timers. `stations` returns the stations at other ports than a bond. Returns when the next timer is due;
    /// `None` if there is no bond.
    pub(crate) fn run(&self, now: Now, stations: impl Fn(PortId) -> VecDeque<Announcement>) -> Option<Now> {
        let mut state = self.lock();
        let send = |port: PortId, frame: Box<[u8]>| self.send(port, frame);
        state.bonds.values_mut().for_each(|control| control.run(now.0, &send));
        let wanted = state.bonds.iter().filter(|(_, control)| control.announcing.is_none());
        let wanted: Vec<PortId> = wanted.map(|(bond, _)| *bond).collect();
        // Tables can be large: events do not wait for them.
        drop(state);
        let found: Vec<_> = wanted.into_iter().map(|bond| (bond, stations(bond))).collect();
        let mut state = self.lock();
        for (bond, list) in found {
            state.bonds.entry(bond).and_modify(|control| control.announcing = Some(list));
        }
        state.bonds.values_mut().for_each(|control| control.announce(&send));
        let pending = |control: &Control| control.announcing.as_ref().is_none_or(|list| !list.is_empty());
        let deadlines = state.bonds.values().map(|control| {
            if pending(control) { now.0 } else { control.deadline(now.0).unwrap_or(u64::MAX) }
        });
        deadlines.min().map(Now)
    }

    fn send(&self, port: PortId, frame: Box<[u8]>) {
        // A frame that the engine has no room for is lost, as on a wire.
        let _ = self.send.get().is_some_and(|send| send(port, frame, Context::TRANSMIT));
    }

    pub(crate) fn statistics(&self, now: Now) -> Vec<BondStatistics> {
        self.lock().bonds.values_mut().map(|control| control.statistics(now.0)).collect()
    }
}

/// Number of a port in LACPDUs, where zero is no port.
fn number(port: PortId) -> u16 {
    port.0 + 1
}

impl Control {
    fn new(config: BondConfig, shared: Arc<Bond>) -> Self {
        Self {
            lacp: config.lacp.map(Group::new),
            config,
            shared,
            members: Members::default(),
            links: BTreeMap::new(),
            balance: Balance {
                buckets: Box::new([Bucket::default(); BUCKETS]),
                counted: Box::new([0; BUCKETS]),
                assigned: Vec::new(),
                next: 0,
                moves: 0,
            },
            announcing: Some(VecDeque::new()),
        }
    }

    fn lacp_status(&self) -> LacpStatus {
        match &self.lacp {
            None => LacpStatus::Off,
            Some(group) if group.is_negotiated() => LacpStatus::Negotiated,
            Some(_) => LacpStatus::Configured,
        }
    }

    /// Runs LACP and everything that depends on it.
    fn run(&mut self, now: u64, send: &dyn Fn(PortId, Box<[u8]>)) {
        if let Some(group) = &mut self.lacp {
            let system = group.config().system;
            group.run(now, |port, pdu| send(PortId(port - 1), Box::new(lacp_frame(system, pdu))));
        }
        let (status, fallback) = (self.lacp_status(), self.config.fallback);
        let group = self.lacp.as_ref();
        let is_changed = self.members.update(&self.config, now, |port| match status {
            LacpStatus::Off => true,
            LacpStatus::Configured => fallback,
            LacpStatus::Negotiated => {
                group.and_then(|group| group.port(number(port))).is_some_and(lacp::Port::is_distributing)
            }
        });
        // A partner that is aware of the bond learns the stations from LACP's change itself.
        let is_aware = status == LacpStatus::Negotiated;
        if is_changed && self.members.active.is_some() && !is_aware {
            self.announcing = None;
        }
        self.admit(status);
        self.distribute(now, status);
    }

    /// Tells workers which packets each member accepts.
    fn admit(&self, status: LacpStatus) {
        for member in &self.members.list {
            let is_active = self.members.active == Some(member.port);
            let all = |accepts: bool| if accepts { Admission::All } else { Admission::Nothing };
            let admission = match (status, self.config.mode) {
                (LacpStatus::Negotiated, _) => all(member.is_enabled),
                (LacpStatus::Configured, _) if !self.config.fallback => Admission::Nothing,
                (_, BondMode::BalanceSlb) => Admission::Unreflected { is_active },
                (_, BondMode::ActiveBackup | BondMode::BalanceTcp) => all(is_active),
            };
            if let Some(link) = self.links.get(&member.port) {
                link.admit(admission);
            }
        }
    }

    /// Tells workers the member of each bucket.
    fn distribute(&mut self, now: u64, status: LacpStatus) {
        let is_single = match self.config.mode {
            BondMode::ActiveBackup => true,
            BondMode::BalanceSlb => false,
            BondMode::BalanceTcp => status != LacpStatus::Negotiated,
        };
        let usable =
            if is_single { self.members.active.into_iter().collect() } else { self.members.enabled() };
        let mut is_changed = usable != self.balance.assigned;
        if is_changed {
            self.measure();
            balance::assign(&mut self.balance.buckets, &usable);
            self.balance.assigned.clone_from(&usable);
        }
        if let Some(interval) = self.config.rebalance.filter(|_| !is_single)
            && now >= self.balance.next
        {
            self.measure();
            let moved = balance::rebalance(&mut self.balance.buckets, &usable);
            self.balance.next = now + interval.as_nanos() as u64;
            self.balance.moves += moved as u64;
            is_changed |= moved > 0;
        }
        if is_changed {
            let buckets = self.balance.buckets.iter().enumerate();
            buckets.for_each(|(i, bucket)| self.shared.set_member(i, bucket.member));
        }
    }

    /// Adds the bytes that workers have sent since the last time.
    fn measure(&mut self) {
        let Balance { buckets, counted, .. } = &mut self.balance;
        for (i, (bucket, counted)) in buckets.iter_mut().zip(counted.iter_mut()).enumerate() {
            let sent = self.shared.sent(i);
            bucket.load += sent.wrapping_sub(*counted);
            *counted = sent;
        }
    }

    /// Sends some learning packets.
    fn announce(&mut self, send: &dyn Fn(PortId, Box<[u8]>)) {
        let Some(list) = &mut self.announcing else { return };
        for Announcement { source, frame } in list.drain(..list.len().min(ANNOUNCED_AT_ONCE)) {
            let bucket = match self.shared.hashing {
                Hashing::One => 0,
                Hashing::Source | Hashing::Flow => self.shared.of_source(source),
            };
            if let Some(port) = self.shared.member(bucket) {
                send(port, frame);
            }
        }
    }

    fn deadline(&self, now: u64) -> Option<u64> {
        let is_balanced = self.config.mode != BondMode::ActiveBackup && self.config.rebalance.is_some();
        let rebalance = is_balanced.then_some(self.balance.next);
        let lacp = self.lacp.as_ref().and_then(|group| group.deadline(now));
        [rebalance, lacp, self.members.deadline()].into_iter().flatten().min()
    }

    fn statistics(&mut self, now: u64) -> BondStatistics {
        self.measure();
        let buckets = &self.balance.buckets;
        let is_balanced = self.config.mode != BondMode::ActiveBackup;
        let member = |member: &super::members::Member| MemberStatistics {
            port: member.port.0,
            is_up: member.is_up,
            is_enabled: member.is_enabled,
            is_active: self.members.active == Some(member.port),
            changes_in: member.changes_at.map(|at| at.saturating_sub(now)),
            buckets: balance::count(buckets, member.port),
            load: balance::load(buckets, member.port),
            lacp: self
                .lacp
                .as_ref()
                .and_then(|group| group.port(number(member.port)))
                .map(|port| (port.receive_state(), port.mux(), *port.actor(), *port.partner())),
        };
        let loaded = buckets.iter().enumerate().filter(|(_, bucket)| bucket.load > 0);
        BondStatistics {
            port: self.shared.port.0,
            mode: self.config.mode,
            lacp: self.lacp_status(),
            members: self.members.list.iter().map(member).collect(),
            buckets: loaded
                .map(|(i, bucket)| BucketStatistics {
                    bucket: i as u8,
                    port: bucket.member.map(|port| port.0),
                    load: bucket.load,
                })
                .collect(),
            rebalance_in: self
                .config
                .rebalance
                .filter(|_| is_balanced)
                .map(|_| self.balance.next.saturating_sub(now)),
            moves: self.balance.moves,
        }
    }
}

/// A reverse ARP request for `mac`, which every switch on its way learns (RFC 903).
pub(crate) fn learning_packet(mac: MacAddress, vlan: Option<wire::VlanId>) -> Box<[u8]> {
    const REVERSE_REQUEST: u16 = 3;
    let none = std::net::Ipv4Addr::UNSPECIFIED;
    let mut frame = vec![0; 64];
    let header = wire::write_ethernet(&mut frame, MacAddress::BROADCAST, mac, vlan, wire::EtherType::RARP);
    let at = header.unwrap_or(wire::HEADER_LEN);
    let packet = wire::arp_packet(REVERSE_REQUEST, (mac, none), (mac, none));
    frame[at..at + wire::ARP_LEN].copy_from_slice(&packet);
    frame.into_boxed_slice()
}
