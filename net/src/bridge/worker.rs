//! The bridge as one worker runs it.
//!
//! A burst has one source port, so everything about that port is looked up once. Then, in order of cost: as long as
//! packets have the addresses of the last burst's last packet, the remembered answer is repeated (`follow_memo`).
//! From the first packet that differs, addresses are read and the table's lines asked for (`plan`), and only
//! then, packet by packet and in order, sources are confirmed and destinations looked up (`decide`).
//!
//! Each packet ends in exactly one of send, flood and drop. Whether VLAN tags are looked at is decided per burst.

use super::fdb::Source;
use super::hash::Places;
use super::key::Key;
use super::ports::{Member, PortTable, Published, View};
use super::vlan::{Form, NO_VLAN};
use engine::{Now, Outputs, Pipeline};
use port::{BURST, Burst, DropReason, PortId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::Ethernet;

const SECOND: u64 = 1_000_000_000;

/// One worker's bridge, over the tables it shares with the other workers.
pub(super) struct Worker {
    published: Arc<Published>,
    generation: u64,
    table: Arc<PortTable>,
    /// By port: the last answer that may be given again.
    memos: Vec<Option<Memo>>,
    /// By bridge: up to when aged stations have been swept.
    sweeps: Vec<Sweep>,
    plans: Box<[Plan; BURST]>,
}

/// Who sends to whom.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Flow {
    source: Key,
    destination: Key,
}

/// In this second and at this state of the table, `flow` needed no learning and left by `to`.
#[derive(Clone, Copy)]
struct Memo {
    flow: Flow,
    to: PortId,
    second: u32,
    changes: u64,
}

#[derive(Clone, Copy, Default)]
struct Sweep {
    second: u32,
    pending: bool,
}

/// A packet whose addresses have been read and whose table lines are on their way.
#[derive(Clone, Copy, Default)]
struct Plan {
    flow: Flow,
    source: Places,
    destination: Places,
    lost: Option<DropReason>,
}

impl Worker {
    pub(super) fn new(published: Arc<Published>, ports: usize) -> Self {
        let mut worker = Self {
            published,
            generation: u64::MAX,
            table: Arc::default(),
            memos: vec![None; ports],
            sweeps: Vec::new(),
            plans: Box::new([Plan::default(); BURST]),
        };
        worker.follow_ports();
        worker
    }

    /// Takes over a changed port table. What was remembered may be wrong under it.
    #[inline(always)]
    fn follow_ports(&mut self) {
        if let Some((generation, table)) = self.published.newer(self.generation) {
            self.adopt(generation, table);
        }
    }

    /// A port is published before its first packet comes in, so who does not find it has an old table, and another
    /// worker was taking the new one just when this one looked. It is waited for: as long as a pointer is copied.
    #[cold]
    fn catch_up(&mut self) {
        let (generation, table) = self.published.latest();
        if generation != self.generation {
            self.adopt(generation, table);
        }
    }

    fn adopt(&mut self, generation: u64, table: Arc<PortTable>) {
        self.sweeps.resize(table.views.len(), Sweep::default());
        self.memos.fill(None);
        (self.generation, self.table) = (generation, table);
    }
}

impl Pipeline for Worker {
    fn process(&mut self, burst: &mut Burst, from: PortId, now: Now, out: &mut Outputs) {
        self.follow_ports();
        let known = match self.table.member(from) {
            None => {
                self.catch_up();
                self.table.member(from)
            }
            known => known,
        };
        let place = known.and_then(|member| Some((member, self.table.view(member.bridge)?)));
        let (Some((member, view)), Some(memo)) = (place, self.memos.get_mut(from.0 as usize)) else {
            return (0..burst.len()).for_each(|_| out.drop(DropReason::NoDestination));
        };
        let second = (now.0 / SECOND) as u32;
        let mut pass = Pass {
            burst,
            from,
            now,
            second,
            changes: view.bridge.fdb.changes(),
            table: &self.table,
            member,
            view,
            memo,
            plans: &mut self.plans,
            out,
            events: Events::default(),
        };
        if view.vlan_aware {
            pass.run::<true>();
        } else {
            pass.run::<false>();
        }
        pass.events.count(member);
        self.sweeps[member.bridge as usize].run(view, second);
    }

    fn egress(&mut self, burst: &mut Burst, to: PortId, picks: &[u8]) {
        let Some(member) = self.table.member(to) else { return };
        for &i in picks {
            let i = usize::from(i);
            Form::of_note(burst.note(i)).shape(burst, i, &member.vlan);
        }
    }

    fn rewrites(&self, to: PortId) -> bool {
        let view = self.table.member(to).and_then(|member| self.table.view(member.bridge));
        view.is_some_and(|view| view.vlan_aware)
    }
}

impl Sweep {
    /// A slice of ageing, while this second's share is not done.
    #[inline(always)]
    fn run(&mut self, view: &View, second: u32) {
        if self.second != second {
            *self = Self { second, pending: true };
        }
        if self.pending {
            self.pending = view.bridge.fdb.sweep(second);
        }
    }
}

/// What happened to sources in one burst.
#[derive(Default)]
struct Events {
    refused: u64,
    deferred: u64,
    moves: u64,
}

impl Events {
    #[inline(always)]
    fn count(&self, member: &Member) {
        if self.refused | self.deferred | self.moves != 0 {
            self.add(member);
        }
    }

    #[cold]
    fn add(&self, member: &Member) {
        let add = |counter: &AtomicU64, n| counter.fetch_add(n, Ordering::Relaxed);
        add(&member.counters.refused, self.refused);
        add(&member.counters.deferred, self.deferred);
        add(&member.counters.moves, self.moves);
    }
}

/// One burst on its way through the bridge.
struct Pass<'a> {
    burst: &'a mut Burst,
    from: PortId,
    now: Now,
    second: u32,
    changes: u64,
    table: &'a PortTable,
    member: &'a Member,
    view: &'a View,
    memo: &'a mut Option<Memo>,
    plans: &'a mut [Plan; BURST],
    out: &'a mut Outputs,
    events: Events,
}

impl Pass<'_> {
    #[inline(always)]
    fn run<const TAGGED: bool>(&mut self) {
        let done = self.follow_memo::<TAGGED>();
        if done < self.burst.len() {
            self.plan::<TAGGED>(done);
            self.decide::<TAGGED>(done);
        }
    }

    /// Sends packets for as long as they are like the remembered one. Returns how many.
    #[inline(always)]
    fn follow_memo<const TAGGED: bool>(&mut self) -> usize {
        let Some(memo) = *self.memo else { return 0 };
        if memo.second != self.second || memo.changes != self.changes {
            return 0;
        }
        for i in 0..self.burst.len() {
            if self.read::<TAGGED>(i) != Ok(memo.flow) {
                return i;
            }
            self.out.send(i, memo.to);
        }
        self.burst.len()
    }

    /// The addresses of packet `i`, within its VLAN.
    #[inline(always)]
    fn read<const TAGGED: bool>(&mut self, i: usize) -> Result<Flow, DropReason> {
        let frame = Ethernet::new(self.burst.head(i)).map_err(|_| DropReason::TooShort)?;
        let (source, destination) = (frame.source(), frame.destination());
        let mut vlan = NO_VLAN;
        if TAGGED {
            let form = Form::of(&frame, &self.member.vlan)?;
            vlan = form.vlan();
            self.burst.set_note(i, form.note());
        }
        Ok(Flow { source: Key::new(source, vlan), destination: Key::new(destination, vlan) })
    }

    /// Reads the packets' addresses and asks for the table's lines.
    #[inline(always)]
    fn plan<const TAGGED: bool>(&mut self, from: usize) {
        // Nobody has the address zero, so the empty plan stands for no packet that is looked up.
        let mut last = Plan::default();
        for i in from..self.burst.len() {
            let read = self.read::<TAGGED>(i).and_then(|flow| self.judge(flow));
            last = match read {
                Ok(flow) => self.plan_flow(flow, last),
                Err(reason) => Plan { lost: Some(reason), ..Plan::default() },
            };
            self.plans[i] = last;
        }
    }

    #[inline(always)]
    fn judge(&self, flow: Flow) -> Result<Flow, DropReason> {
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
        for i in from..self.burst.len() {
            let plan = self.plans[i];
            if let Some(reason) = plan.lost {
                self.out.drop(reason);
                continue;
            }
            if confirmed != Some(plan.flow.source) {
                let source = self.confirm(&plan);
                confirmed = (source == Source::Known).then_some(plan.flow.source);
                if source == Source::Elsewhere {
                    self.out.drop(DropReason::StaticElsewhere);
                    continue;
                }
                if source != Source::Known {
                    answer = None;
                }
            }
            if plan.flow.destination.mac().is_group() {
                self.broadcast::<TAGGED>(i, plan.flow.destination.vlan());
                continue;
            }
            let to = match answer {
                Some((destination, to)) if destination == plan.flow.destination => Some(to),
                _ => self.destination(&plan),
            };
            // That it is unknown is not worth remembering: a later packet of the burst may make it known.
            answer = to.map(|to| (plan.flow.destination, to));
            self.unicast::<TAGGED>(i, plan.flow, to, confirmed.is_some());
        }
    }

    #[inline(always)]
    fn confirm(&mut self, plan: &Plan) -> Source {
        let source = self.view.bridge.fdb.confirm(plan.flow.source, plan.source, self.from, self.second);
        match source {
            Source::Refused => self.events.refused += 1,
            Source::Deferred => self.events.deferred += 1,
            Source::Moved => self.events.moves += 1,
            Source::Known | Source::Learned | Source::Elsewhere => {}
        }
        source
    }

    /// The port of the destination, if it is known and that port still belongs to this bridge.
    #[inline(always)]
    fn destination(&self, plan: &Plan) -> Option<PortId> {
        let to = self.view.bridge.fdb.destination(plan.flow.destination, plan.destination, self.second)?;
        let bridge = self.table.member(to)?.bridge;
        (bridge == self.member.bridge).then_some(to)
    }

    #[inline(always)]
    fn unicast<const TAGGED: bool>(&mut self, i: usize, flow: Flow, to: Option<PortId>, confirmed: bool) {
        let Some(to) = to else { return self.unknown::<TAGGED>(i, flow.destination.vlan()) };
        if to == self.from {
            return self.out.drop(DropReason::NoDestination);
        }
        if TAGGED && !self.carries(to, flow.destination.vlan()) {
            return self.out.drop(DropReason::VlanDenied);
        }
        self.out.send(i, to);
        if confirmed {
            *self.memo = Some(Memo { flow, to, second: self.second, changes: self.changes });
        }
    }

    fn unknown<const TAGGED: bool>(&mut self, i: usize, vlan: u16) {
        if self.member.unknown.as_ref().is_none_or(|limit| limit.admit(self.now)) {
            self.flood::<TAGGED>(i, vlan);
        } else {
            self.out.drop(DropReason::UnknownLimit);
        }
    }

    fn broadcast<const TAGGED: bool>(&mut self, i: usize, vlan: u16) {
        if self.member.broadcast.as_ref().is_none_or(|limit| limit.admit(self.now)) {
            self.flood::<TAGGED>(i, vlan);
        } else {
            self.out.drop(DropReason::BroadcastLimit);
        }
    }

    fn flood<const TAGGED: bool>(&mut self, i: usize, vlan: u16) {
        let (from, table) = (self.from, self.table);
        let reached =
            |to: PortId| to != from && (!TAGGED || table.member(to).is_some_and(|m| m.vlan.carries(vlan)));
        self.out.flood(i, self.view.members.iter().copied().filter(|to| reached(*to)));
    }

    fn carries(&self, port: PortId, vlan: u16) -> bool {
        self.table.member(port).is_some_and(|member| member.vlan.carries(vlan))
    }
}
