//! The flow cache: flows of sampled packets, until they end by a timeout or make room for others.

use super::Packet;
use super::key::{Amount, FlowKey};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Why a flow ended (`flowEndReason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndReason {
    Idle = 1,
    Active = 2,
    Forced = 4,
    Resources = 5,
}

/// A flow. Its fields that are no counters are those of its first packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) first: Duration,
    pub(super) last: Duration,
    pub(super) packets: u64,
    /// Sums, except for the TTL.
    pub(super) amount: Amount,
    /// Its place in the order of first packets.
    number: u64,
}

impl Flow {
    fn new(amount: Amount, now: Duration, number: u64) -> Self {
        Self { first: now, last: now, packets: 1, amount, number }
    }

    fn add(&mut self, amount: &Amount, now: Duration) {
        self.last = now;
        self.packets += 1;
        self.amount.octets += amount.octets;
        self.amount.frame += amount.frame;
        self.amount.tcp_flags |= amount.tcp_flags;
    }
}

/// A flow that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) key: FlowKey,
    pub(super) flow: Flow,
    pub(super) reason: EndReason,
}

/// Flows by key, and their keys by the order of their first packets.
#[derive(Debug)]
pub(super) struct Cache {
    active_timeout: Duration,
    idle_timeout: Duration,
    max_flows: usize,
    flows: HashMap<FlowKey, Flow>,
    order: BTreeMap<u64, FlowKey>,
    next: u64,
}

impl Cache {
    pub(super) fn new(active_timeout: Duration, idle_timeout: Duration, max_flows: usize) -> Self {
        let (flows, order) = (HashMap::new(), BTreeMap::new());
        Self { active_timeout, idle_timeout, max_flows, flows, order, next: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    /// Adds a packet. Returns a flow that ends now: that of the packet without a cache, or the oldest one of a full
    /// cache.
    pub(super) fn add(&mut self, packet: &Packet<'_>, now: Duration) -> Option<Ended> {
        let (key, amount) = FlowKey::of(packet)?;
        if self.max_flows == 0 || self.active_timeout.is_zero() {
            return Some(Ended { key, flow: Flow::new(amount, now, 0), reason: EndReason::Active });
        }
        match self.flows.entry(key) {
            Entry::Occupied(mut entry) => {
                entry.get_mut().add(&amount, now);
                return None;
            }
            Entry::Vacant(entry) => {
                self.order.insert(self.next, entry.key().clone());
                entry.insert(Flow::new(amount, now, self.next));
                self.next += 1;
            }
        }
        if self.flows.len() <= self.max_flows {
            return None;
        }
        let (_, oldest) = self.order.pop_first()?;
        self.end(oldest, EndReason::Resources)
    }

    /// Ends the flows whose time is over.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<Ended> {
        let is_over = |flow: &Flow| {
            if now >= flow.first + self.active_timeout {
                return Some(EndReason::Active);
            }
            (now >= flow.last + self.idle_timeout).then_some(EndReason::Idle)
        };
        let over: Vec<_> =
            self.flows.iter().filter_map(|(key, flow)| Some((key.clone(), is_over(flow)?))).collect();
        over.into_iter().filter_map(|(key, reason)| self.end(key, reason)).collect()
    }

    /// Ends all flows, in the order of their first packets.
    pub(super) fn end_all(&mut self, reason: EndReason) -> Vec<Ended> {
        let keys = std::mem::take(&mut self.order).into_values();
        keys.filter_map(|key| self.end(key, reason)).collect()
    }

    fn end(&mut self, key: FlowKey, reason: EndReason) -> Option<Ended> {
        let flow = self.flows.remove(&key)?;
        self.order.remove(&flow.number);
        Some(Ended { key, flow, reason })
    }
}
