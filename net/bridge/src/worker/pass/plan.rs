//! Addresses of packets, and the table lines of their look-ups.

use super::Pass;
use crate::hash::Buckets;
use crate::key::Key;
use crate::vlan::{Form, NO_VLAN};
use port::{DropReason, PortId};
use wire::{Ethernet, MacAddress};

/// Source and destination keys.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Flow {
    pub(super) source: Key,
    pub(super) destination: Key,
}

/// A packet whose addresses are read and whose table lines are prefetched.
#[derive(Clone, Copy, Default)]
pub(in crate::worker) struct Plan {
    pub(super) flow: Flow,
    pub(super) form: Form,
    /// Output port of a flow in the flow cache; the other fields are then unused.
    pub(super) known: Option<PortId>,
    pub(super) source: Buckets,
    pub(super) destination: Buckets,
    pub(super) lost: Option<Lost>,
}

/// Why a packet is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    Drop(DropReason),
    /// It is for control.
    Punt,
}

impl Pass<'_> {
    /// Flow and form of packet `i`.
    #[inline(always)]
    pub(super) fn read<const TAGGED: bool, const GUARDED: bool>(
        &mut self,
        i: usize,
    ) -> Result<(Flow, Form), Lost> {
        let frame = Ethernet::new(self.burst.head(i)).map_err(|_| Lost::Drop(DropReason::TooShort))?;
        let (source, destination) = (frame.source(), frame.destination());
        let form = if TAGGED {
            Form::of(&frame, &self.origin.member.vlan).map_err(Lost::Drop)?
        } else {
            Form::default()
        };
        let vlan = if TAGGED { form.vlan() } else { NO_VLAN };
        let flow = Flow { source: Key::new(source, vlan), destination: Key::new(destination, vlan) };
        if GUARDED { Ok((self.guard(i, flow)?, form)) } else { Ok((flow, form)) }
    }

    /// Reads the packets' addresses and prefetches their table lines.
    #[inline(always)]
    pub(super) fn plan<const TAGGED: bool, const GUARDED: bool>(&mut self, from: usize) {
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

    /// Plans packet `i` of a cached flow again, because an earlier packet moved a station.
    #[cold]
    pub(super) fn plan_anew(&mut self, i: usize) {
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

    #[inline(always)]
    fn validate(&self, flow: Flow) -> Result<Flow, Lost> {
        let source = flow.source.mac();
        if source.is_group() || source.is_zero() {
            return Err(Lost::Drop(DropReason::BadSource));
        }
        if flow.destination.mac().is_bridge_reserved() {
            self.reserved(flow)?;
        }
        Ok(flow)
    }

    /// Whether frames to a reserved group address are flooded: if the bridge does, and the port does not use them.
    #[cold]
    pub(super) fn forwards_reserved(&self, group: MacAddress) -> bool {
        let protocols = self.origin.member.protocols.as_ref();
        self.view.config.forward_reserved && protocols.is_none_or(|protocols| !protocols.use_group(group))
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
}
