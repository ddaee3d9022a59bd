//! One burst on its way through the bridge.
//!
//! In order of cost: as long as packets have the addresses of the last burst's last packet, the remembered answer is
//! repeated (`follow_memo`). From the first packet that differs, addresses are read and the table's lines asked for
//! (`plan`) unless the flow is one that is remembered (`cache`), and only then, packet by packet and in order, sources are
//! confirmed and destinations looked up (`decide`).
//!
//! Each packet is sent to one port, sent to all others, or dropped. Nothing here waits or keeps a packet.

use super::cache::{ADDRESSES, Entry, FlowCache};
use crate::fdb::{Fdb, Source};
use crate::guard::{Inspected, LONGEST, Reply};
use crate::hash::Places;
use crate::key::Key;
use crate::listing::RefusedMove;
use crate::ports::{Member, PortTable, View};
use crate::vlan::{Form, Leaving, NO_VLAN};
use mem::copy::Portable;
use port::{BURST, Burst, DropReason, EditId, Now, PortId, Verdicts};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::{Arp, EtherType, Ethernet};

/// New or moved stations that take the table's lock in one burst; the others are learned from later packets. It bounds
/// what a source that changes its address with every packet costs the others on its worker.
pub(super) const LEARNS_PER_BURST: u32 = 8;

/// The addresses of a frame and its type; with a tag and the type behind it: all of which decide its form.
const UNTAGGED_HEADER: usize = 14;
const TAGGED_HEADER: usize = 18;

/// Source and destination.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Flow {
    source: Key,
    destination: Key,
}

/// In this second, and until a station leaves one of the two ports, `flow` needs no learning and leaves by `to`, or by every
/// other port where that is `None`.
#[derive(Clone, Copy)]
pub(super) struct Memo {
    flow: Flow,
    /// How a frame of the flow begins, and its form: of meaning where VLAN tags are looked at.
    first: [u8; TAGGED_HEADER],
    form: Form,
    to: Option<PortId>,
    second: u32,
    /// The changes of the source's port and of the destination's; 0 for every other port.
    changes: [u64; 2],
}

impl Memo {
    /// Whether the answer still holds, where `changes` are those of the source's port.
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

/// A packet whose addresses have been read and whose table lines are on their way.
#[derive(Clone, Copy, Default)]
pub(super) struct Plan {
    flow: Flow,
    form: Form,
    /// The port that a remembered flow leaves by; nothing else of the plan has a meaning then.
    known: Option<PortId>,
    source: Places,
    destination: Places,
    lost: Option<DropReason>,
}

/// What happened to sources in one burst.
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

/// One burst on its way through the bridge.
pub(super) struct Pass<'a> {
    pub(super) burst: &'a mut Burst,
    pub(super) from: PortId,
    pub(super) now: Now,
    pub(super) second: u32,
    /// Of the port that the burst came from, read before any look-up.
    pub(super) changes: u64,
    /// Whether the burst was made by the switch on behalf of the port's front end.
    pub(super) injected: bool,
    /// How often the table's lock may still be taken.
    pub(super) budget: u32,
    pub(super) table: &'a PortTable,
    pub(super) member: &'a Member,
    pub(super) view: &'a View,
    pub(super) memo: &'a mut Option<Memo>,
    pub(super) cache: &'a mut FlowCache,
    pub(super) plans: &'a mut [Plan; BURST],
    pub(super) out: &'a mut Verdicts,
    /// Where a guard copies what it looks into.
    pub(super) scratch: &'a mut [u8; LONGEST],
    pub(super) events: Events,
    /// The last packet whose answer may be given again, and that answer: a port, or every other one.
    pub(super) latest: Option<(u8, Option<PortId>)>,
    /// Whether a packet of this burst has moved a station, which remembered flows do not know of.
    pub(super) moved: bool,
    /// Packets that leave by every other port as they are, and for which that is still to be said.
    pub(super) flooding: Range<usize>,
    /// By form of leaving: the last edit that was made, and for which packets.
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

    /// The same, for a guarded port. Out of line, so that the code for other ports stays as it is.
    #[inline(never)]
    pub(super) fn run_guarded<const TAGGED: bool>(&mut self) {
        self.run::<TAGGED, true>();
    }

    /// Sends packets for as long as they are like the remembered one. Returns how many.
    #[inline(always)]
    fn follow_memo<const TAGGED: bool, const GUARDED: bool>(&mut self) -> usize {
        let Some(memo) = *self.memo else { return 0 };
        if !memo.holds(&self.view.bridge.fdb, self.changes, self.second) {
            return 0;
        }
        let Some(to) = memo.to else {
            // Only of ports without a guard, on bridges without VLANs.
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

    /// How many packets from the front on belong to the remembered flow and have its form.
    #[inline(always)]
    fn alike<const TAGGED: bool>(&self, memo: &Memo) -> usize {
        fn begins<const N: usize>(first: &[u8; TAGGED_HEADER]) -> &[u8; N] {
            first.first_chunk().unwrap_or(&[0; N])
        }
        match (TAGGED, memo.form.is_tagged()) {
            (false, _) => self.burst.alike::<ADDRESSES>(begins(&memo.first)),
            (true, false) => self.burst.alike::<UNTAGGED_HEADER>(begins(&memo.first)),
            (true, true) => self.burst.alike(&memo.first),
        }
    }

    /// Packet `i`, received in this form, leaves by `to` in the form that this port wants.
    #[inline(always)]
    fn emit<const TAGGED: bool>(&mut self, i: usize, to: PortId, form: Form) {
        let edit = if TAGGED { self.edit(to, form) } else { EditId::NONE };
        self.out.emit(i, to, edit);
    }

    #[inline]
    fn edit(&mut self, to: PortId, form: Form) -> EditId {
        let leaving = self.table.member(to).map_or(Leaving::AsReceived, |member| form.leaving(&member.vlan));
        if leaving == Leaving::AsReceived {
            return EditId::NONE;
        }
        let (of, edit) = self.edits[leaving as usize];
        if edit != EditId::NONE && of == form { edit } else { self.make_edit(form, leaving) }
    }

    #[inline(never)]
    fn make_edit(&mut self, form: Form, leaving: Leaving) -> EditId {
        let edit = form.edit(leaving).map_or(EditId::NONE, |edit| self.out.edit(&edit));
        self.edits[leaving as usize] = (form, edit);
        edit
    }

    /// The addresses of packet `i`, within its VLAN, and its form.
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

    /// Port security, for packet `i` of a guarded port.
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
        // A reply that is lost is asked for again; one that is not recorded would lead to a client that cannot send.
        if recorded { Ok(flow) } else { Err(DropReason::DhcpViolation) }
    }

    /// Records what a DHCP server has leased: at its client's port, if leases are wanted there, and no longer at any
    /// other. `false` if another worker is writing there.
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
            // A lease that is renewed was at no other port.
            let alone = guard.holds(ip, self.second) || others().all(|guard| guard.release(ip));
            alone && guard.bind(ip, self.second, seconds)
        })
    }

    /// Reads the packets' addresses and asks for the table's lines.
    #[inline(always)]
    fn plan<const TAGGED: bool, const GUARDED: bool>(&mut self, from: usize) {
        // No station has the address zero, so the empty plan stands for no packet that is looked up.
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

    /// Packets from `i` on whose flows are remembered as leaving by `to`, which packet `i` does. Returns where they end.
    #[inline(always)]
    fn emit_known(&mut self, i: usize, to: PortId) -> usize {
        let rest = self.plans[i + 1..self.burst.len()].iter();
        let end = i + 1 + rest.take_while(|plan| plan.known == Some(to)).count();
        self.end_flood();
        self.out.emit_run(i..end, to, EditId::NONE);
        end
    }

    /// Plans packet `i`, whose flow was remembered, because a packet before it has moved a station.
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

    /// The port that packet `i` leaves by, if its flow is remembered.
    #[inline(always)]
    fn recall(&self, i: usize) -> Option<PortId> {
        // A group has no port to remember.
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

    /// Finds out where the addresses are in the table, unless the packet before had the same ones.
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

    /// Learns and forwards, in the packets' order.
    #[inline(always)]
    fn decide<const TAGGED: bool>(&mut self, from: usize) {
        // What the packet before found out: its source needs nothing, its destination is at that port.
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
                    // A station that is learned may be the one that an earlier packet did not find.
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
            // That it is unknown is not worth remembering: a later packet of the burst may make it known.
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

    /// Learns the source of packet `i`, and counts what became of it.
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

    /// Whether packet `i` is a reverse ARP for `key` from a place that may announce stations.
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

    /// The port of the destination, if it is known and that port still belongs to this bridge.
    #[inline(always)]
    fn destination(&self, plan: &Plan) -> Option<PortId> {
        let to = self.view.bridge.fdb.destination(plan.flow.destination, plan.destination, self.second)?;
        let bridge = self.table.member(to)?.bridge;
        (bridge == self.member.bridge).then_some(to)
    }

    /// Remembers the flow of packet `i`, which has just been answered, under the same rule as [`Pass::remember`].
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

    /// Keeps the answer `to` for packet `i` for the next burst. The count of the destination's port has to be older than the
    /// look-up, and which port that is only a look-up says: so there is a second one, once per burst.
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
            *self.memo = Some(Memo { flow, first, form, to, second: self.second, changes });
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

    /// Sends packet `i` to every other port that carries its VLAN. Without any it has no verdict, and is dropped as that.
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
    }

    /// Sends the packets that leave by every other port, before any packet that comes behind them.
    #[inline(always)]
    fn end_flood(&mut self) {
        if !self.flooding.is_empty() {
            self.emit_flood();
        }
    }

    #[inline(never)]
    fn emit_flood(&mut self) {
        let packets = std::mem::take(&mut self.flooding);
        for &to in self.view.members.iter().filter(|to| **to != self.from) {
            self.out.emit_run(packets.clone(), to, EditId::NONE);
        }
    }

    fn carries(&self, port: PortId, vlan: u16) -> bool {
        self.table.member(port).is_some_and(|member| member.vlan.carries(vlan))
    }
}
