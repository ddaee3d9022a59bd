//! Processing of one burst.
//!
//! In order of cost: while packets have the addresses of the last packet of the previous burst, the cached answer is
//! repeated (`follow_memo`). From the first other packet on, addresses are read and table lines prefetched (`plan`),
//! unless the flow is in the flow cache (`cache`); then, packet by packet in order, sources are confirmed and
//! destinations looked up (`decide`).
//!
//! Each packet is sent to one port, flooded to all others, or dropped. Processing neither blocks nor retains packets.

use super::cache::{ADDRESSES, Entry, FlowCache};
use crate::fdb::{Fdb, Source};
use crate::guard::{Inspected, MAX_INSPECTED, Reply};
use crate::hash::Buckets;
use crate::key::Key;
use crate::listing::RefusedMove;
use crate::ports::{Member, PortTable, View};
use crate::vlan::{EgressTagging, Form, NO_VLAN};
use mem::copy::Portable;
use port::{BURST, Burst, DropReason, EditId, Now, PortId, Verdicts};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::{Arp, EtherType, Ethernet};

/// Maximum number of new or moved stations that take the table lock per burst; others are learned from later packets.
/// Limits the cost that a source with varying addresses imposes on the other ports of its worker.
pub(super) const LEARNS_PER_BURST: u32 = 8;

/// Bytes that determine the form of a frame: addresses and EtherType, and for tagged frames the tag and the EtherType
/// after it.
const UNTAGGED_HEADER: usize = 14;
const TAGGED_HEADER: usize = 18;

/// Source and destination keys.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Flow {
    source: Key,
    destination: Key,
}

/// Cached answer: in this second, and until a station leaves one of the two ports, `flow` needs no learning and is sent
/// to `to`, or flooded if `to` is `None`.
#[derive(Clone, Copy)]
pub(super) struct CachedVerdict {
    flow: Flow,
    /// First bytes of a frame of the flow, and its form; `form` is used only if VLAN tags are evaluated.
    first: [u8; TAGGED_HEADER],
    form: Form,
    to: Option<PortId>,
    second: u32,
    /// Change counts of the source and destination ports; 0 for flooding.
    changes: [u64; 2],
}

impl CachedVerdict {
    /// Whether the answer is still valid; `changes` is the change count of the source port.
    #[inline(always)]
    fn holds(&self, fdb: &Fdb, changes: u64, second: u32) -> bool {
        self.second == second && self.changes == [changes, self.to.map_or(0, |to| fdb.changes(to))]
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn leaves_by(&self) -> Option<PortId> {
        self.to
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn is_valid(&self, fdb: &Fdb, from: PortId, second: u32) -> bool {
        self.holds(fdb, fdb.changes(from), second)
    }
}

/// A packet whose addresses are read and whose table lines are prefetched.
#[derive(Clone, Copy, Default)]
pub(super) struct Plan {
    flow: Flow,
    form: Form,
    /// Output port of a flow in the flow cache; the other fields are then unused.
    known: Option<PortId>,
    source: Buckets,
    destination: Buckets,
    lost: Option<DropReason>,
}

/// Learning events of one burst.
#[derive(Default)]
pub(super) struct Events {
    refused: u64,
    deferred: u64,
    moves: u64,
    refused_moves: u64,
}

impl Events {
    #[inline(always)]
    pub(super) fn count(&self, member: &Member) {
        if self.refused | self.deferred | self.moves | self.refused_moves != 0 {
            self.add(member);
        }
    }

    #[cold]
    fn add(&self, member: &Member) {
        let add = |counter: &AtomicU64, n| counter.fetch_add(n, Ordering::Relaxed);
        add(&member.counters.refused, self.refused);
        add(&member.counters.deferred, self.deferred);
        add(&member.counters.moves, self.moves);
        add(&member.counters.refused_moves, self.refused_moves);
    }
}

/// State of one burst.
pub(super) struct Pass<'a> {
    pub(super) burst: &'a mut Burst,
    pub(super) from: PortId,
    pub(super) now: Now,
    pub(super) second: u32,
    /// Change count of the source port, read before any look-up.
    pub(super) changes: u64,
    /// Whether the switch generated the burst on behalf of the port's front end.
    pub(super) injected: bool,
    /// Remaining attempts to take the table lock.
    pub(super) budget: u32,
    pub(super) table: &'a PortTable,
    pub(super) member: &'a Member,
    pub(super) view: &'a View,
    pub(super) memo: &'a mut Option<CachedVerdict>,
    pub(super) cache: &'a mut FlowCache,
    pub(super) plans: &'a mut [Plan; BURST],
    pub(super) out: &'a mut Verdicts,
    /// Buffer for frames inspected by a guard.
    pub(super) scratch: &'a mut [u8; MAX_INSPECTED],
    pub(super) events: Events,
    /// Last packet with a reusable answer, and the answer: a port, or `None` for flooding.
    pub(super) latest: Option<(u8, Option<PortId>)>,
    /// Whether a packet of this burst has moved a station; flow cache answers are then not used.
    pub(super) moved: bool,
    /// Packets to be flooded unmodified, not yet emitted.
    pub(super) flooding: Range<usize>,
    /// Last edit, by egress form, and the received form it is for.
    pub(super) edits: [(Form, EditId); 4],
}

impl Pass<'_> {
    #[inline(always)]
    pub(super) fn run<const TAGGED: bool, const GUARDED: bool>(&mut self) {
        let done = self.follow_memo::<TAGGED, GUARDED>();
        if done < self.burst.len() {
            self.plan::<TAGGED, GUARDED>(done);
            self.decide::<TAGGED>(done);
        }
    }

    /// [`Pass::run`] for a guarded port. Not inlined, so that the code for other ports is unaffected.
    #[inline(never)]
    pub(super) fn run_guarded<const TAGGED: bool>(&mut self) {
        self.run::<TAGGED, true>();
    }

    /// Sends packets while they match the cached answer. Returns their number.
    #[inline(always)]
    fn follow_memo<const TAGGED: bool, const GUARDED: bool>(&mut self) -> usize {
        let Some(memo) = *self.memo else { return 0 };
        if !memo.holds(&self.view.bridge.fdb, self.changes, self.second) {
            return 0;
        }
        let Some(to) = memo.to else {
            // Flooding is cached only for ports without a guard, on bridges without VLANs.
            self.flooding = 0..self.alike::<TAGGED>(&memo);
            let alike = self.flooding.end;
            self.end_flood();
            return alike;
        };
        if !GUARDED {
            let alike = self.alike::<TAGGED>(&memo);
            let edit = if TAGGED { self.edit(to, memo.form) } else { EditId::NONE };
            self.out.emit_run(0..alike, to, edit);
            return alike;
        }
        for i in 0..self.burst.len() {
            match self.read::<TAGGED, GUARDED>(i) {
                Ok((flow, form)) if flow == memo.flow => self.emit::<TAGGED>(i, to, form),
                _ => return i,
            }
        }
        self.burst.len()
    }

    /// Number of packets from the front that belong to the cached flow and have its form.
    #[inline(always)]
    fn alike<const TAGGED: bool>(&self, memo: &CachedVerdict) -> usize {
        fn begins<const N: usize>(first: &[u8; TAGGED_HEADER]) -> &[u8; N] {
            first.first_chunk().unwrap_or(&[0; N])
        }
        match (TAGGED, memo.form.is_tagged()) {
            (false, _) => self.burst.alike::<ADDRESSES>(begins(&memo.first)),
            (true, false) => self.burst.alike::<UNTAGGED_HEADER>(begins(&memo.first)),
            (true, true) => self.burst.alike(&memo.first),
        }
    }

    /// Sends packet `i`, received in form `form`, to `to` in the form of that port.
    #[inline(always)]
    fn emit<const TAGGED: bool>(&mut self, i: usize, to: PortId, form: Form) {
        let edit = if TAGGED { self.edit(to, form) } else { EditId::NONE };
        self.out.emit(i, to, edit);
    }

    #[inline]
    fn edit(&mut self, to: PortId, form: Form) -> EditId {
        let leaving =
            self.table.member(to).map_or(EgressTagging::AsReceived, |member| form.leaving(&member.vlan));
        if leaving == EgressTagging::AsReceived {
            return EditId::NONE;
        }
        let (of, edit) = self.edits[leaving as usize];
        if edit != EditId::NONE && of == form { edit } else { self.make_edit(form, leaving) }
    }

    #[inline(never)]
    fn make_edit(&mut self, form: Form, leaving: EgressTagging) -> EditId {
        let edit = form.edit(leaving).map_or(EditId::NONE, |edit| self.out.edit(&edit));
        self.edits[leaving as usize] = (form, edit);
        edit
    }

    /// Flow and form of packet `i`.
    #[inline(always)]
    fn read<const TAGGED: bool, const GUARDED: bool>(
        &mut self,
        i: usize,
    ) -> Result<(Flow, Form), DropReason> {
        let frame = Ethernet::new(self.burst.head(i)).map_err(|_| DropReason::TooShort)?;
        let (source, destination) = (frame.source(), frame.destination());
        let form = if TAGGED { Form::of(&frame, &self.member.vlan)? } else { Form::default() };
        let vlan = if TAGGED { form.vlan() } else { NO_VLAN };
        let flow = Flow { source: Key::new(source, vlan), destination: Key::new(destination, vlan) };
        if GUARDED { Ok((self.guard(i, flow)?, form)) } else { Ok((flow, form)) }
    }

    /// Port security for packet `i` of a guarded port.
    #[inline(never)]
    fn guard(&mut self, i: usize, flow: Flow) -> Result<Flow, DropReason> {
        let Some(guard) = &self.member.guard else { return Ok(flow) };
        let burst = &*self.burst;
        let copy = |to: &mut [u8]| {
            burst.frame(i).copy_to::<Portable>(to);
            burst.frame_len(i)
        };
        let (source, second, scratch) = (flow.source.mac(), self.second, &mut *self.scratch);
        let reply =
            guard.inspect(&mut Inspected { source, head: burst.head(i), second, copy: &copy, scratch })?;
        let recorded = reply.is_none_or(|reply| self.record(&reply, flow.source.vlan()));
        // A dropped reply is requested again; an unrecorded lease would leave the client unable to send.
        if recorded { Ok(flow) } else { Err(DropReason::DhcpViolation) }
    }

    /// Records the leases of a DHCP reply at its client's port, if that port uses leases, and ends them at all other
    /// ports. Returns `false` if another worker holds a lock.
    #[cold]
    fn record(&self, reply: &Reply, vlan: u16) -> bool {
        let (key, fdb) = (Key::new(reply.client, vlan), &self.view.bridge.fdb);
        let guarded = |port: PortId| {
            let guard = self.table.member(port).and_then(|member| member.guard.as_deref());
            guard.filter(|guard| guard.has_leases())
        };
        let Some(at) = fdb.destination(key, fdb.places(key), self.second) else { return true };
        let Some(guard) = guarded(at) else { return true };
        let others =
            || self.view.members.iter().filter(|port| **port != at).filter_map(|port| guarded(*port));
        reply.leases.iter().all(|&(ip, seconds)| {
            // A renewed lease is at no other port.
            let alone = guard.holds(ip, self.second) || others().all(|guard| guard.release(ip));
            alone && guard.bind(ip, self.second, seconds)
        })
    }

    /// Reads the packets' addresses and prefetches their table lines.
    #[inline(always)]
    fn plan<const TAGGED: bool, const GUARDED: bool>(&mut self, from: usize) {
        // Address zero is never looked up, so the default plan matches no packet.
        let mut last = Plan::default();
        for i in from..self.burst.len() {
            if !TAGGED
                && !GUARDED
                && let Some(to) = self.recall(i)
            {
                self.plans[i].known = Some(to);
                continue;
            }
            last = self.plan_one::<TAGGED, GUARDED>(i, last);
            self.plans[i] = last;
        }
    }

    /// Sends packet `i` and the following ones whose cached flow has output port `to`. Returns the end of the run.
    #[inline(always)]
    fn emit_known(&mut self, i: usize, to: PortId) -> usize {
        let rest = self.plans[i + 1..self.burst.len()].iter();
        let end = i + 1 + rest.take_while(|plan| plan.known == Some(to)).count();
        self.end_flood();
        self.out.emit_run(i..end, to, EditId::NONE);
        end
    }

    /// Plans packet `i` of a cached flow again, because an earlier packet moved a station.
    #[cold]
    fn plan_anew(&mut self, i: usize) {
        self.plans[i] = self.plan_one::<false, false>(i, Plan::default());
    }

    #[inline(always)]
    fn plan_one<const TAGGED: bool, const GUARDED: bool>(&mut self, i: usize, last: Plan) -> Plan {
        let read = self.read::<TAGGED, GUARDED>(i).and_then(|(flow, form)| Ok((self.validate(flow)?, form)));
        match read {
            Ok((flow, form)) => Plan { form, ..self.plan_flow(flow, last) },
            Err(reason) => Plan { lost: Some(reason), ..Plan::default() },
        }
    }

    /// Output port of packet `i`, if its flow is cached.
    #[inline(always)]
    fn recall(&self, i: usize) -> Option<PortId> {
        // Group addresses are not cached.
        let addresses: &[u8; ADDRESSES] = self.burst.first(i).filter(|addresses| addresses[0] & 1 == 0)?;
        let entry = self.cache.get(addresses, self.from, self.second)?;
        let fdb = &self.view.bridge.fdb;
        let is_steady = entry.changes == [self.changes as u32, fdb.changes(entry.to) as u32];
        is_steady.then_some(entry.to)
    }

    #[inline(always)]
    fn validate(&self, flow: Flow) -> Result<Flow, DropReason> {
        let source = flow.source.mac();
        if source.is_group() || source.is_zero() {
            return Err(DropReason::BadSource);
        }
        if flow.destination.mac().is_bridge_reserved() && !self.view.bridge.config.forward_reserved {
            return Err(DropReason::NoDestination);
        }
        Ok(flow)
    }

    /// Computes the buckets of the addresses, unless they equal those of the previous packet.
    #[inline(always)]
    fn plan_flow(&self, flow: Flow, last: Plan) -> Plan {
        let fdb = &self.view.bridge.fdb;
        let mut plan = Plan { flow, lost: None, ..last };
        if flow.source != last.flow.source || last.lost.is_some() {
            plan.source = fdb.places(flow.source);
            fdb.prefetch(plan.source);
        }
        if (flow.destination != last.flow.destination || last.lost.is_some())
            && !flow.destination.mac().is_group()
        {
            plan.destination = fdb.places(flow.destination);
            fdb.prefetch(plan.destination);
        }
        plan
    }

    /// Learns and forwards, in packet order.
    #[inline(always)]
    fn decide<const TAGGED: bool>(&mut self, from: usize) {
        // State of the previous packet: confirmed source; destination and its port.
        let mut confirmed = None;
        let mut answer = None;
        let mut next = from;
        while next < self.burst.len() {
            let i = next;
            if !TAGGED && let Some(to) = self.plans[i].known {
                if !self.moved {
                    next = self.emit_known(i, to);
                    continue;
                }
                self.plan_anew(i);
            }
            next += 1;
            let plan = self.plans[i];
            if let Some(reason) = plan.lost {
                self.out.drop(i, reason);
                continue;
            }
            if confirmed != Some(plan.flow.source) {
                confirmed = Some(plan.flow.source);
                let (fdb, source) = (&self.view.bridge.fdb, plan.flow.source);
                if !fdb.confirm(source, plan.source, self.from, self.second) {
                    // The learned station may be the destination that an earlier packet did not find.
                    answer = None;
                    match self.learn(i, &plan) {
                        Source::Known => {}
                        Source::Elsewhere => {
                            self.out.drop(i, DropReason::StaticMacViolation);
                            confirmed = None;
                            continue;
                        }
                        Source::Contested(_) => {
                            self.out.drop(i, DropReason::MacMoveRefused);
                            confirmed = None;
                            continue;
                        }
                        _ => confirmed = None,
                    }
                }
            }
            if plan.flow.destination.mac().is_group() {
                self.broadcast::<TAGGED>(i, &plan, confirmed.is_some());
                continue;
            }
            let to = match answer {
                Some((destination, to)) if destination == plan.flow.destination => Some(to),
                _ => self.destination(&plan),
            };
            // An unknown destination is not cached: a later packet of the burst may make it known.
            answer = to.map(|to| (plan.flow.destination, to));
            self.unicast::<TAGGED>(i, &plan, to, confirmed.is_some());
            if !TAGGED && self.latest.is_some_and(|(latest, _)| usize::from(latest) == i) {
                self.remember_flow(i, &plan);
            }
        }
        self.end_flood();
        if let Some((i, to)) = self.latest {
            self.remember(i, to);
        }
    }

    /// Learns the source of packet `i` and counts the result.
    #[cold]
    #[inline(never)]
    fn learn(&mut self, i: usize, plan: &Plan) -> Source {
        let (key, fdb) = (plan.flow.source, &self.view.bridge.fdb);
        let source = match fdb.learn(key, plan.source, self.from, self.second, &mut self.budget) {
            Source::Contested(_) if self.is_announced(i, key) => {
                fdb.announce(key, self.from, self.second, &mut self.budget)
            }
            source => source,
        };
        match source {
            Source::Refused => self.events.refused += 1,
            Source::Deferred => self.events.deferred += 1,
            Source::Moved => {
                self.events.moves += 1;
                self.moved = true;
            }
            Source::Contested(at) => self.report(key, at),
            Source::Known | Source::Learned | Source::Elsewhere => {}
        }
        source
    }

    /// Whether packet `i` is a RARP frame for `key` from a port that may announce stations.
    fn is_announced(&self, i: usize, key: Key) -> bool {
        let announces = |head: &[u8]| {
            let frame =
                Ethernet::new(head).ok().filter(|frame| frame.inner_ethertype() == EtherType::RARP)?;
            Some(Arp::new(frame.payload())?.sender_mac() == key.mac())
        };
        (self.member.trusted || self.injected) && announces(self.burst.head(i)) == Some(true)
    }

    fn report(&mut self, key: Key, at: PortId) {
        self.events.refused_moves += 1;
        if self.member.reports(self.second) {
            let (old_port, new_port) = (at.0, self.from.0);
            let (mac, vlan, second) = (key.mac(), key.vlan(), self.second);
            self.view.bridge.refusals.add(RefusedMove { mac, vlan, old_port, new_port, second });
        }
    }

    /// Port of the destination, if it is known and that port still belongs to this bridge.
    #[inline(always)]
    fn destination(&self, plan: &Plan) -> Option<PortId> {
        let to = self.view.bridge.fdb.destination(plan.flow.destination, plan.destination, self.second)?;
        let bridge = self.table.member(to)?.bridge;
        (bridge == self.member.bridge).then_some(to)
    }

    /// Caches the flow of packet `i`, which was just answered, under the same rule as [`Pass::remember`].
    #[inline(never)]
    fn remember_flow(&mut self, i: usize, plan: &Plan) {
        let (Some((_, Some(to))), Some(&addresses)) = (self.latest, self.burst.first(i)) else { return };
        let changes = [self.changes as u32, self.view.bridge.fdb.changes(to) as u32];
        let entry = Entry { addresses, from: self.from, to, second: self.second, changes };
        if self.member.guard.is_some() || self.cache.slot(&entry).is_none() {
            return;
        }
        if self.destination(plan) == Some(to)
            && let Some(slot) = self.cache.slot(&entry)
        {
            *slot = entry;
        }
    }

    /// Caches the answer `to` for packet `i` for the next burst. The change count of the destination port must be older
    /// than the look-up, but the port is known only from a look-up: so a second look-up is made, once per burst.
    #[inline(never)]
    fn remember(&mut self, i: u8, to: Option<PortId>) {
        let plan = self.plans[usize::from(i)];
        let changes = [self.changes, to.map_or(0, |to| self.view.bridge.fdb.changes(to))];
        let mut first = [0; TAGGED_HEADER];
        let head = self.burst.head(usize::from(i));
        let len = head.len().min(TAGGED_HEADER);
        first[..len].copy_from_slice(&head[..len]);
        if to.is_none() || self.destination(&plan) == to {
            let Plan { flow, form, .. } = plan;
            *self.memo = Some(CachedVerdict { flow, first, form, to, second: self.second, changes });
        }
    }

    #[inline(always)]
    fn unicast<const TAGGED: bool>(&mut self, i: usize, plan: &Plan, to: Option<PortId>, confirmed: bool) {
        let Some(to) = to else { return self.unknown::<TAGGED>(i, plan) };
        if to == self.from {
            return self.out.drop(i, DropReason::NoDestination);
        }
        if TAGGED && !self.carries(to, plan.flow.destination.vlan()) {
            return self.out.drop(i, DropReason::VlanDenied);
        }
        self.end_flood();
        self.emit::<TAGGED>(i, to, plan.form);
        if confirmed {
            self.latest = Some((i as u8, Some(to)));
        }
    }

    fn unknown<const TAGGED: bool>(&mut self, i: usize, plan: &Plan) {
        if self.member.unknown.as_ref().is_none_or(|limit| limit.admit(self.now)) {
            self.flood::<TAGGED>(i, plan);
        } else {
            self.out.drop(i, DropReason::UnknownLimit);
        }
    }

    fn broadcast<const TAGGED: bool>(&mut self, i: usize, plan: &Plan, confirmed: bool) {
        let Some(limit) = &self.member.broadcast else {
            self.flood::<TAGGED>(i, plan);
            if !TAGGED && confirmed && self.member.guard.is_none() {
                self.latest = Some((i as u8, None));
            }
            return;
        };
        if limit.admit(self.now) {
            self.flood::<TAGGED>(i, plan);
        } else {
            self.out.drop(i, DropReason::BroadcastLimit);
        }
    }

    /// Floods packet `i` to all other ports that carry its VLAN. If there are none, it has no verdict and is dropped as
    /// `no-destination`.
    #[inline]
    fn flood<const TAGGED: bool>(&mut self, i: usize, plan: &Plan) {
        if TAGGED {
            return self.flood_tagged(i, plan);
        }
        if self.flooding.end != i {
            self.end_flood();
            self.flooding = i..i;
        }
        self.flooding.end = i + 1;
    }

    fn flood_tagged(&mut self, i: usize, plan: &Plan) {
        let vlan = plan.flow.destination.vlan();
        for &to in &self.view.members {
            if to != self.from && self.carries(to, vlan) {
                self.emit::<true>(i, to, plan.form);
            }
        }
        self.out.mark_flooded(i..i + 1);
    }

    /// Emits the pending flooded packets, before any later packet.
    #[inline(always)]
    fn end_flood(&mut self) {
        if !self.flooding.is_empty() {
            self.emit_flood();
        }
    }

    #[inline(never)]
    fn emit_flood(&mut self) {
        let packets = std::mem::take(&mut self.flooding);
        let to = self.view.members.iter().filter(|to| **to != self.from);
        self.out.flood(packets, to.copied());
    }

    fn carries(&self, port: PortId, vlan: u16) -> bool {
        self.table.member(port).is_some_and(|member| member.vlan.carries(vlan))
    }
}
