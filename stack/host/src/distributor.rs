//! The owner of a received packet among the workers that share a port.
//!
//! - A destination port from the ephemeral range names the worker that chose it ([`stack::Affinity`]).
//! - Other connections and datagrams belong to the worker at which they arrive, or to that of their flow hash
//!   ([`FlowSteering`]).
//! - Fragments of TCP are copied to all workers, because only the first one has ports: the stack with the connection
//!   processes the reassembled segment. Other fragments belong to the worker of their addresses' hash, which hands the
//!   reassembled datagram to the worker of its port if it has no socket for it.
//! - Worker 0 answers what the host answers once: ARP requests, Neighbor Solicitations, queries of ICMP, DHCP.
//! - What every stack must learn is copied to all: ARP replies and announcements, advertisements of neighbours and
//!   routers, duplicate address detection of other hosts, redirects, errors of ICMP, queries for groups.
//!
//! A packet of another worker is copied to its handoff queue, and dropped as `handoff-full` if the queue is full. This
//! module must not change a packet. A packet that came from a handoff queue is handed over again only if the number of
//! active workers changes with the load ([`steer`]).

use crate::{Activity, Buffer};
use engine::Exchange;
use mem::VolatileSlice;
use port::{BURST, Burst, GeneratedBurst, MAX_HEAD, PLACES, Rss, RssTable, Steering};
use stack::{Affinity, Endpoint, Stack, Time};
use std::sync::Arc;
use steer::{Segment, Steer};
use wire::checksum::protocol;
use wire::toeplitz::{KEY_LEN, SYMMETRIC_KEY, Toeplitz};
use wire::{EtherType, HEADER_LEN, Layers, TAG_LEN};

/// Internet Group Management Protocol (RFC 9776).
const IGMP: u8 = 2;
/// Ports of clients of DHCP (RFC 2131) and DHCPv6 (RFC 9915).
const DHCP_CLIENTS: [u16; 2] = [68, 546];
/// The worker that answers.
const ANSWERS: usize = 0;

/// Which worker owns a connection that a peer opens, and a datagram to a port that no stack chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowSteering {
    /// The worker at which its packets arrive. The port must keep a flow on one queue, as network cards with
    /// receive-side scaling do, and have a queue pair for each worker; one without is idle.
    Arrival,
    /// The worker that the flow hash selects (symmetric Toeplitz), wherever packets arrive. For every port.
    #[default]
    Hash,
}

/// Receive-side scaling of a port: the worker at which packets of a flow arrive.
#[derive(Clone, Debug)]
pub struct Indirection {
    hash: Toeplitz,
    table: Vec<u16>,
}

impl Indirection {
    /// The hash has this key; `table` has the worker by the hash modulo its length.
    pub fn new(key: &[u8; KEY_LEN], table: Vec<u16>) -> Self {
        Self { hash: Toeplitz::new(key), table }
    }

    /// The table of [`FlowSteering::Hash`] with this many workers, and also of a linerate switch with one worker and as
    /// many queue pairs.
    pub fn symmetric(workers: u16) -> Self {
        Self::new(&SYMMETRIC_KEY, (0..workers).collect())
    }

    /// The table of a port whose queue pair `n` belongs to worker `n` modulo `workers`.
    pub fn of_port(rss: &RssTable, workers: u16) -> Self {
        let table = rss.queues().iter().map(|queue| queue % workers.max(1)).collect();
        Self { hash: rss.hash(), table }
    }

    /// The worker at which packets from `remote` to `local` arrive.
    pub fn worker(&self, local: Endpoint, remote: Endpoint) -> u16 {
        let hash = self.flow_hash(local, remote) as usize;
        self.table.get(hash % self.table.len().max(1)).copied().unwrap_or(0)
    }

    /// Hash of packets from `remote` to `local`.
    pub(crate) fn flow_hash(&self, local: Endpoint, remote: Endpoint) -> u32 {
        let ports = [remote.port.to_be_bytes(), local.port.to_be_bytes()].concat();
        self.hash.hash([remote.address.wire(), local.address.wire(), &ports].concat())
    }
}

stack::counters! {
    /// Counts of one worker's share of a port. `received + copied + forwarded == kept + handed_over + handoff_full`,
    /// and all workers hand over as many packets as they take.
    DistributorCounts {
        /// Packets received from the port.
        received: "rss_received",
        /// Additional copies of packets that several workers get, and reassembled datagrams of other workers.
        copied: "rss_copied",
        /// Packets passed to the own stack.
        kept: "rss_kept",
        /// Packets handed to other workers.
        handed_over: "handed_over",
        /// Packets of connections and sockets of other workers: what ports chosen by their arrival avoid.
        crossed: "handed_over_flows",
        /// Packets dropped because the handoff queue was full.
        handoff_full: "handoff_full",
        /// Packets taken from other workers.
        taken: "taken_over",
        /// Packets among them that were handed to the next worker, because this one does not have their connection.
        forwarded: "rss_forwarded",
        /// Packets among them that were dropped, because no worker had their connection after the number of active
        /// workers had changed.
        unsettled: "rss_unsettled",
        /// Workers that receive new connections, if their number follows the load.
        active: "workers_active",
        /// Workers that were activated.
        added: "workers_added",
        /// Workers that were drained.
        drained: "workers_drained",
    }
}

/// Owner of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The worker of a connection or socket.
    Flow(usize),
    /// The worker of anything else.
    Worker(usize),
    All,
}

/// Indices of packets of a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Indices {
    places: [u8; BURST],
    len: usize,
}

impl Indices {
    const EMPTY: Self = Self { places: [0; BURST], len: 0 };

    fn first(len: usize) -> Self {
        Self { places: PLACES, len }
    }

    fn push(&mut self, i: usize) {
        self.places[self.len] = i as u8;
        self.len += 1;
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.places[..self.len]
    }
}

/// Place of a packet whose owner may be any of several workers.
enum Step {
    Keep,
    To(usize),
    Drop,
}

/// Hands packets to their owners.
#[derive(Debug)]
pub(crate) struct Distributor {
    rule: FlowSteering,
    steering: Steering,
    exchange: Exchange,
    /// By worker.
    lists: Box<[Indices]>,
    /// A reassembled datagram on its way to another worker.
    whole: GeneratedBurst,
    counts: DistributorCounts,
    /// Present if the number of active workers changes.
    steer: Option<Steer>,
}

impl Distributor {
    pub(crate) fn new(rule: FlowSteering, exchange: Exchange, activity: Option<Arc<Activity>>) -> Self {
        let lists = vec![Indices::EMPTY; exchange.workers()].into();
        let (steering, steer) = (Steering::new(Rss::Symmetric), activity.map(Steer::new));
        let (whole, counts) = (GeneratedBurst::new(), DistributorCounts::default());
        Self { rule, steering, exchange, lists, whole, counts, steer }
    }

    pub(crate) fn counts(&self) -> DistributorCounts {
        let (handed_over, handoff_full) = self.exchange.sent();
        DistributorCounts { handed_over, handoff_full, ..self.counts }
    }

    /// Hands packets of a burst with loaded heads to other workers. Returns those for this one.
    #[inline]
    pub(crate) fn split(&mut self, burst: &mut Burst, stack: &Stack<Buffer>, now: Time) -> Indices {
        self.steer.iter_mut().for_each(|steer| steer.update(now));
        if burst.has_buffers() {
            return self.take(burst, stack, now);
        }
        let me = self.exchange.index();
        self.lists.iter_mut().for_each(|list| list.len = 0);
        for i in 0..burst.len() {
            match self.owner(burst, i, stack, now) {
                Owner::Flow(at) => {
                    self.counts.crossed += u64::from(at != me);
                    self.lists[at].push(i);
                }
                Owner::Worker(at) => self.lists[at].push(i),
                Owner::All => self.lists.iter_mut().for_each(|list| list.push(i)),
            }
        }
        let total: usize = self.lists.iter().map(|list| list.len).sum();
        self.counts.received += burst.len() as u64;
        self.counts.copied += (total - burst.len()) as u64;
        self.counts.kept += self.lists[me].len as u64;
        self.send(burst);
        self.lists[me]
    }

    /// As [`Distributor::split`], for packets from other workers.
    #[inline]
    fn take(&mut self, burst: &mut Burst, stack: &Stack<Buffer>, now: Time) -> Indices {
        self.counts.taken += burst.len() as u64;
        if self.steer.is_none() {
            return Indices::first(burst.len());
        }
        let me = self.exchange.index();
        self.lists.iter_mut().for_each(|list| list.len = 0);
        for i in 0..burst.len() {
            let place = (me, self.exchange.workers());
            let is_placed = owner_of(burst.head(i), place, self.rule).is_some();
            match if is_placed { Step::Keep } else { self.step((&mut *burst, i), true, stack, now) } {
                Step::Keep => self.lists[me].push(i),
                Step::To(at) => {
                    self.counts.forwarded += 1;
                    self.lists[at].push(i);
                }
                Step::Drop => self.counts.unsettled += 1,
            }
        }
        self.send(burst);
        self.lists[me]
    }

    /// Copies the packets in the lists of other workers to their queues.
    #[inline]
    fn send(&mut self, burst: &Burst) {
        let me = self.exchange.index();
        for (to, list) in self.lists.iter().enumerate().filter(|(to, list)| *to != me && list.len > 0) {
            self.exchange.send(burst, list.as_slice(), to);
        }
    }

    /// Hands a reassembled datagram to the worker of its socket.
    #[cold]
    pub(crate) fn hand_over(&mut self, frame: &[u8], to: usize) {
        let (head, rest) = frame.split_at(frame.len().min(MAX_HEAD));
        self.whole.restart();
        self.whole.start_packet(head);
        if !rest.is_empty() {
            self.whole.push_segment(VolatileSlice::of_private(rest));
        }
        (self.counts.copied, self.counts.crossed) = (self.counts.copied + 1, self.counts.crossed + 1);
        self.exchange.send(&self.whole, &PLACES[..1], to);
    }

    /// Frees the buffers of a burst that came from another worker.
    #[inline]
    pub(crate) fn release(&mut self, burst: &Burst) {
        self.exchange.release(burst);
    }

    /// Wakes workers that have packets, after a fence.
    #[inline]
    pub(crate) fn notify(&mut self) {
        self.exchange.notify();
    }

    #[inline]
    fn owner(&self, burst: &mut Burst, i: usize, stack: &Stack<Buffer>, now: Time) -> Owner {
        let place = (self.exchange.index(), self.exchange.workers());
        if let Some(owner) = owner_of(burst.head(i), place, self.rule) {
            return owner;
        }
        match self.step((burst, i), false, stack, now) {
            Step::To(at) => Owner::Flow(at),
            Step::Keep | Step::Drop => Owner::Flow(self.exchange.index()),
        }
    }

    /// Place of packet `i`, which its hash selects. `is_taken` if it comes from another worker.
    #[inline]
    fn step(
        &self,
        (burst, i): (&mut Burst, usize),
        is_taken: bool,
        stack: &Stack<Buffer>,
        now: Time,
    ) -> Step {
        let hash = burst.rss_hash(i, &self.steering).unwrap_or(0);
        let Some(steer) = &self.steer else {
            return Step::To(hash as usize % self.exchange.workers());
        };
        let segment = match Segment::of(burst.head(i)) {
            Some(segment) => segment,
            None if is_taken => return Step::Keep,
            None => return Step::To(steer.owner(hash)),
        };
        let next = steer.next(hash, (self.exchange.index(), is_taken), segment.is_syn);
        let may_be_wrong = is_taken && !segment.is_syn && steer.is_settling(now);
        let is_last = next.is_none() && !may_be_wrong;
        if is_last || stack.claims(segment.ends, segment.numbers, now) {
            return Step::Keep;
        }
        next.map_or(Step::Drop, Step::To)
    }
}

/// Owner of a frame that starts with `head` and arrived at worker `me` of `workers`; `None` if its flow hash selects
/// the worker.
#[inline]
fn owner_of(head: &[u8], (me, workers): (usize, usize), rule: FlowSteering) -> Option<Owner> {
    let Some(layers) = Layers::of(head) else { return Some(owner_of_link(head, me)) };
    let Some([.., high, low]) = layers.ports(head).copied() else { return owner_of_control(&layers, head) };
    let port = u16::from_be_bytes([high, low]);
    match Affinity::owner(port, workers as u16) {
        Some(owner) => Some(Owner::Flow(owner.into())),
        None if layers.protocol == protocol::UDP && DHCP_CLIENTS.contains(&port) => {
            Some(Owner::Flow(ANSWERS))
        }
        None => (rule == FlowSteering::Arrival).then_some(Owner::Flow(me)),
    }
}

/// Owner of a frame that is not IP.
#[cold]
fn owner_of_link(frame: &[u8], me: usize) -> Owner {
    let ethertype = |at: usize| {
        let bytes = frame.get(at - 2..at).and_then(<[u8]>::first_chunk).copied();
        bytes.map(|bytes| EtherType(u16::from_be_bytes(bytes)))
    };
    let is_tagged = matches!(ethertype(HEADER_LEN), Some(EtherType::VLAN | EtherType::SERVICE_VLAN));
    let at = if is_tagged { HEADER_LEN + TAG_LEN } else { HEADER_LEN };
    if ethertype(at) != Some(EtherType::ARP) {
        return Owner::Worker(me);
    }
    let Some(arp) = frame.get(at..).and_then(wire::Arp::new) else { return Owner::Worker(me) };
    let is_question = arp.operation() == wire::Arp::REQUEST && arp.sender_ip() != arp.target_ip();
    if is_question { Owner::Worker(ANSWERS) } else { Owner::All }
}

/// Owner of an IP packet without ports; `None` for a fragment that the hash of its addresses places.
#[cold]
fn owner_of_control(layers: &Layers, frame: &[u8]) -> Option<Owner> {
    let kind = frame.get(layers.transport).copied();
    let is_for_all = match (layers.protocol, kind) {
        (number, _) if layers.is_fragment && number != protocol::TCP => return None,
        (protocol::TCP, _) => layers.is_fragment,
        (IGMP, _) => true,
        // Errors, redirects and advertisements of routers (RFC 792, RFC 1256).
        (protocol::ICMP, Some(kind)) => matches!(kind, 3..=5 | 9 | 11 | 12),
        // Errors, queries for groups, advertisements, redirects (RFC 4443, RFC 4861, RFC 9777).
        (protocol::ICMPV6, Some(kind @ (0..=127 | 130 | 134..=137))) => {
            // A solicitation without a source: another host probes an address (RFC 4862 section 5.4.2).
            kind != 135 || layers.addresses(frame).starts_with(&[0; 16])
        }
        _ => false,
    };
    Some(if is_for_all { Owner::All } else { Owner::Worker(ANSWERS) })
}

#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
pub(crate) mod steer;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use fuzz::fuzz_distributor;
#[cfg(test)]
mod tests;
