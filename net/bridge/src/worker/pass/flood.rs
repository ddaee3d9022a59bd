//! Packets to all other ports of a bridge, with the limits on them.

use super::Pass;
use super::plan::Plan;
use port::DropReason;

impl Pass<'_> {
    pub(super) fn unknown<const TAGGED: bool>(&mut self, i: usize, plan: &Plan) {
        if self.is_blocked(plan) {
            return self.out.drop(i, DropReason::StpBlocked);
        }
        if self.origin.member.unknown.as_ref().is_none_or(|limit| limit.admit(self.now)) {
            self.flood::<TAGGED>(i, plan);
        } else {
            self.out.drop(i, DropReason::UnknownLimit);
        }
    }

    /// Whether the destination is known at a port of the bridge that does not forward.
    fn is_blocked(&self, plan: &Plan) -> bool {
        if self.view.flooded.len() == self.view.members.len() {
            return false;
        }
        let Plan { flow, destination, .. } = plan;
        let at = self.view.bridge.fdb.destination(flow.destination, *destination, self.second);
        at.is_some_and(|at| self.view.members.contains(&at) && !self.view.flooded.contains(&at))
    }

    pub(super) fn broadcast<const TAGGED: bool>(&mut self, i: usize, plan: &Plan, confirmed: bool) {
        if let Some(groups) = self.groups
            && !plan.flow.destination.mac().is_broadcast()
        {
            return self.multicast::<TAGGED>(i, plan, groups);
        }
        let Some(limit) = &self.origin.member.broadcast else {
            self.flood::<TAGGED>(i, plan);
            if !TAGGED && confirmed && self.origin.member.guard.is_none() {
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
    pub(super) fn flood<const TAGGED: bool>(&mut self, i: usize, plan: &Plan) {
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
        for &to in &self.view.flooded {
            if to != self.origin.port && self.carries(to, vlan) {
                self.emit::<true>(i, to, plan.form);
            }
        }
        self.out.mark_flooded(i..i + 1);
    }

    /// Emits the pending flooded packets, before any later packet.
    #[inline(always)]
    pub(super) fn end_flood(&mut self) {
        if !self.flooding.is_empty() {
            self.emit_flood();
        }
    }

    #[inline(never)]
    fn emit_flood(&mut self) {
        let packets = std::mem::take(&mut self.flooding);
        let to = self.view.flooded.iter().filter(|to| **to != self.origin.port);
        self.out.flood(packets, to.copied());
    }
}
