//! One bond as control sees it: LACP, the members that are used, and their buckets. Publishes the result to workers.

use super::balance::{self, Bucket, Buckets};
use super::config::{BondConfig, BondMode, MemberConfig};
use super::control::Announcement;
use super::members::{Member, Members};
use super::report::{BondStatistics, BucketStatistics, LacpStatus, MemberLacp, MemberStatistics};
use super::shared::{Admission, BUCKETS, Bond, Hashing, Link};
use lacp::{Group, lacp_frame};
use port::PortId;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Learning packets that are sent in one run, so that the engine's queue has room for other frames.
const ANNOUNCED_AT_ONCE: usize = 512;

/// Nanoseconds between two such runs.
const ANNOUNCE_PAUSE: u64 = 10_000_000;

/// A bond.
pub(super) struct Control {
    config: BondConfig,
    pub(super) shared: Arc<Bond>,
    pub(super) lacp: Option<Group>,
    pub(super) members: Members,
    /// Whether it has a usable member, as last reported.
    pub(super) is_up: bool,
    pub(super) links: BTreeMap<PortId, Arc<Link>>,
    balance: Balance,
    /// Stations at other ports that are still to be announced to the other end; `None`: they are to be collected.
    pub(super) announcing: Option<VecDeque<Announcement>>,
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

pub(super) fn hashing(mode: BondMode) -> Hashing {
    match mode {
        BondMode::ActiveBackup => Hashing::One,
        BondMode::BalanceSlb => Hashing::Source,
        BondMode::BalanceTcp => Hashing::Flow,
    }
}

pub(super) fn add_to(group: &mut Group, port: PortId, priority: u16, (is_up, now): (bool, u64)) {
    group.add(number(port), priority);
    group.set_enabled(number(port), is_up, now);
}

/// Number of a port in LACPDUs, where zero is no port.
pub(super) fn number(port: PortId) -> u16 {
    port.0 + 1
}

impl Control {
    pub(super) fn new(config: BondConfig, shared: Arc<Bond>) -> Self {
        Self {
            lacp: config.lacp.map(Group::new),
            config,
            shared,
            members: Members::default(),
            is_up: false,
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

    /// Changes the configuration. Members keep their states and buckets, and LACP its partners, as far as it allows.
    pub(super) fn configure(
        &mut self,
        config: BondConfig,
        members: &[(PortId, MemberConfig)],
        now: u64,
    ) -> Option<Arc<Bond>> {
        self.members.configure(members);
        self.links.values().for_each(|link| link.set_lacp(config.lacp.is_some()));
        let priority = |port| members.iter().find(|(member, _)| *member == port).map(|(_, own)| own.priority);
        match (&mut self.lacp, config.lacp) {
            (Some(group), Some(settings)) => {
                group.configure(settings);
                for (port, own) in members {
                    group.set_priority(number(*port), own.priority);
                }
            }
            (lacp, settings) => {
                *lacp = settings.map(Group::new);
                if let Some(group) = lacp {
                    self.members.list.iter().for_each(|member| {
                        let priority = priority(member.port).unwrap_or(u16::MAX);
                        add_to(group, member.port, priority, (member.is_up, now));
                    });
                }
            }
        }
        let hashing = hashing(config.mode);
        self.config = config;
        if hashing == self.shared.hashing {
            return None;
        }
        self.measure();
        self.balance.counted.fill(0);
        self.shared = Arc::new(self.shared.rehashed(hashing));
        self.publish();
        Some(self.shared.clone())
    }

    fn lacp_status(&self) -> LacpStatus {
        match &self.lacp {
            None => LacpStatus::Off,
            Some(group) if group.is_negotiated() => LacpStatus::Negotiated,
            Some(_) => LacpStatus::Configured,
        }
    }

    /// Runs LACP and everything that depends on it.
    pub(super) fn run(&mut self, now: u64, send: &dyn Fn(PortId, Box<[u8]>)) {
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
        let is_single = self.is_single(status);
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
            self.publish();
        }
    }

    /// Whether one member carries all packets.
    fn is_single(&self, status: LacpStatus) -> bool {
        match self.config.mode {
            BondMode::ActiveBackup => true,
            BondMode::BalanceSlb => false,
            BondMode::BalanceTcp => status != LacpStatus::Negotiated,
        }
    }

    fn publish(&self) {
        let buckets = self.balance.buckets.iter().enumerate();
        buckets.for_each(|(i, bucket)| self.shared.set_member(i, bucket.member));
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
    pub(super) fn announce(&mut self, send: &dyn Fn(PortId, Box<[u8]>)) {
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

    /// When a timer is due; `None` if none runs.
    pub(super) fn deadline(&self, now: u64) -> Option<u64> {
        let is_balanced = self.config.rebalance.is_some() && !self.is_single(self.lacp_status());
        let rebalance = is_balanced.then_some(self.balance.next);
        let lacp = self.lacp.as_ref().and_then(|group| group.deadline(now));
        let announce = match &self.announcing {
            None => Some(now),
            Some(list) => (!list.is_empty()).then_some(now + ANNOUNCE_PAUSE),
        };
        [rebalance, lacp, announce, self.members.deadline()].into_iter().flatten().min()
    }

    pub(super) fn statistics(&mut self, now: u64) -> BondStatistics {
        self.measure();
        let buckets = &self.balance.buckets;
        let is_balanced = self.config.mode != BondMode::ActiveBackup;
        let member = |member: &Member| MemberStatistics {
            port: member.port.0,
            is_up: member.is_up,
            is_enabled: member.is_enabled,
            is_active: self.members.active == Some(member.port),
            changes_in: member.changes_at.map(|at| at.saturating_sub(now)),
            buckets: balance::count(buckets, member.port),
            load: balance::load(buckets, member.port),
            lacp: self.lacp.as_ref().and_then(|group| group.port(number(member.port))).map(|port| {
                MemberLacp {
                    receive: port.receive_state(),
                    mux: port.mux(),
                    actor: *port.actor(),
                    partner: *port.partner(),
                    counts: port.counts(),
                }
            }),
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
