//! Processing of one burst.
//!
//! In order of cost: while packets have the addresses of the last packet of the previous burst, the cached answer is
//! repeated (`follow_memo`). From the first other packet on, addresses are read and table lines prefetched (`plan`),
//! unless the flow is in the flow cache (`cache`); then, packet by packet in order, sources are confirmed and
//! destinations looked up (`decide`).
//!
//! Each packet is sent to one port, to the ports of its group (`multicast`), flooded to all others, or dropped.
//! Processing neither blocks nor retains packets.

use super::cache::FlowCache;
use crate::bond::Link;
use crate::config::PortState;
use crate::fdb::Source;
use crate::guard::MAX_INSPECTED;
use crate::key::Key;
use crate::ports::{Member, PortTable, View};
use crate::vlan::{EgressTagging, Form};
use port::{BURST, Burst, DropReason, EditId, Now, PortId, PuntReason, Verdicts};
use std::ops::Range;
use wire::Ethernet;

mod bond;
mod flood;
mod guard;
mod learn;
mod memo;
mod multicast;
mod plan;

pub(super) use bond::refuse;
pub(super) use learn::Learning;
pub(super) use memo::CachedVerdict;
use plan::Lost;
pub(super) use plan::Plan;

/// Source port of a burst.
pub(super) struct Origin<'a> {
    pub(super) port: PortId,
    pub(super) member: &'a Member,
    /// Change count of the port, read before any look-up.
    pub(super) changes: u64,
    /// Whether the switch generated the burst on behalf of the port's front end.
    pub(super) injected: bool,
    /// The port as a member of the bond that `port` is; `None` for other ports.
    pub(super) link: Option<&'a Link>,
}

/// State of one burst.
pub(super) struct Pass<'a> {
    pub(super) burst: &'a mut Burst,
    pub(super) origin: Origin<'a>,
    pub(super) now: Now,
    pub(super) second: u32,
    pub(super) table: &'a PortTable,
    pub(super) view: &'a View,
    /// Ports of multicast groups; `None` without snooping.
    pub(super) groups: Option<&'a snooping::Table>,
    pub(super) memo: &'a mut Option<CachedVerdict>,
    pub(super) cache: &'a mut FlowCache,
    pub(super) plans: &'a mut [Plan; BURST],
    pub(super) out: &'a mut Verdicts,
    /// Buffer for frames inspected by a guard.
    pub(super) scratch: &'a mut [u8; MAX_INSPECTED],
    pub(super) learning: Learning,
    /// Last packet with a reusable answer, and the answer: a port, or `None` for flooding.
    pub(super) latest: Option<(u8, Option<PortId>)>,
    /// Packets to be flooded unmodified, not yet emitted.
    pub(super) flooding: Range<usize>,
    /// Last edit, by egress form, and the received form it is for.
    pub(super) edits: [(Form, EditId); 4],
}

/// Look-ups of the previous packet that the next one need not repeat.
#[derive(Default)]
struct Previous {
    /// Source that the table confirms.
    confirmed: Option<Key>,
    /// Destination and its port.
    answer: Option<(Key, PortId)>,
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

    /// [`Pass::run`] for a port that does not forward: learns if `state` allows it, and drops everything.
    #[cold]
    #[inline(never)]
    pub(super) fn run_closed(&mut self, state: PortState) {
        // Ports without a guard pass its checks, and do not use the flow cache.
        if self.view.vlan_aware {
            self.plan::<true, true>(0);
        } else {
            self.plan::<false, true>(0);
        }
        for i in 0..self.burst.len() {
            let plan = self.plans[i];
            if let Some(lost) = plan.lost {
                self.lose(i, lost);
                continue;
            }
            let learns = state == PortState::Learning;
            let learned = if learns { self.confirm(i, &plan, &mut Previous::default()) } else { Ok(()) };
            self.out.drop(i, learned.err().unwrap_or(DropReason::StpBlocked));
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

    /// Learns and forwards, in packet order.
    #[inline(always)]
    fn decide<const TAGGED: bool>(&mut self, from: usize) {
        let mut previous = Previous::default();
        let mut next = from;
        while next < self.burst.len() {
            let i = next;
            if !TAGGED && let Some(to) = self.plans[i].known {
                // Answers of the flow cache are not used once a packet of this burst has moved a station.
                if !self.learning.has_moved() {
                    next = self.emit_known(i, to);
                    continue;
                }
                self.plan_anew(i);
            }
            next += 1;
            self.decide_one::<TAGGED>(i, &mut previous);
        }
        self.end_flood();
        if let Some((i, to)) = self.latest {
            self.remember(i, to);
        }
    }

    /// Learns and forwards packet `i`.
    #[inline(always)]
    fn decide_one<const TAGGED: bool>(&mut self, i: usize, previous: &mut Previous) {
        let plan = self.plans[i];
        if let Some(lost) = plan.lost {
            return self.lose(i, lost);
        }
        if previous.confirmed != Some(plan.flow.source)
            && let Err(reason) = self.confirm(i, &plan, previous)
        {
            return self.out.drop(i, reason);
        }
        let confirmed = previous.confirmed.is_some();
        let destination = plan.flow.destination;
        if destination.mac().is_group() {
            return self.broadcast::<TAGGED>(i, &plan, confirmed);
        }
        let to = match previous.answer {
            Some((last, to)) if last == destination => Some(to),
            _ => self.destination(&plan),
        };
        // An unknown destination is not cached: a later packet of the burst may make it known.
        previous.answer = to.map(|to| (destination, to));
        self.unicast::<TAGGED>(i, &plan, to, confirmed);
        if !TAGGED && self.latest.is_some_and(|(latest, _)| usize::from(latest) == i) {
            self.remember_flow(i, &plan);
        }
    }

    /// Drops packet `i`, unless it is a frame of a protocol of its port: such a frame goes to control, also if VLANs or
    /// port security do not allow it.
    #[cold]
    fn lose(&mut self, i: usize, lost: Lost) {
        let Origin { member, link, .. } = &self.origin;
        let limit = match lost {
            Lost::Punt => link.map(|link| &link.limit),
            Lost::Drop(_) => member.protocols.as_ref().and_then(|protocols| {
                let frame = Ethernet::new(self.burst.head(i)).ok()?;
                protocols.limit(&frame)
            }),
        };
        match (limit, lost) {
            (Some(limit), _) if limit.admit(self.now) => self.out.punt(i, PuntReason::Protocol),
            (None, Lost::Drop(reason)) => self.out.drop(i, reason),
            _ => self.out.drop(i, DropReason::ProtocolLimit),
        }
    }

    /// Confirms the source of packet `i` in the table, or learns it.
    #[inline(always)]
    fn confirm(&mut self, i: usize, plan: &Plan, previous: &mut Previous) -> Result<(), DropReason> {
        let (fdb, source) = (&self.view.bridge.fdb, plan.flow.source);
        previous.confirmed = Some(source);
        if fdb.confirm(source, plan.source, self.origin.port, self.second) {
            return Ok(());
        }
        // The learned station may be the destination that an earlier packet did not find.
        previous.answer = None;
        let learned = self.learn(i, plan);
        if learned != Source::Known {
            previous.confirmed = None;
        }
        match learned {
            Source::Elsewhere => Err(DropReason::StaticMacViolation),
            Source::Contested(_) => Err(DropReason::MacMoveRefused),
            _ => Ok(()),
        }
    }

    /// Port of the destination, if it is known and that port still belongs to this bridge and forwards.
    #[inline(always)]
    fn destination(&self, plan: &Plan) -> Option<PortId> {
        let to = self.view.bridge.fdb.destination(plan.flow.destination, plan.destination, self.second)?;
        self.table.sends(self.origin.member.bridge, to).then_some(to)
    }

    #[inline(always)]
    fn unicast<const TAGGED: bool>(&mut self, i: usize, plan: &Plan, to: Option<PortId>, confirmed: bool) {
        let Some(to) = to else { return self.unknown::<TAGGED>(i, plan) };
        if to == self.origin.port {
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

    fn carries(&self, port: PortId, vlan: u16) -> bool {
        self.table.member(port).is_some_and(|member| member.vlan.carries(vlan))
    }
}
