//! Multicast packets of a bridge with snooping: to the members of their group and router ports. Membership messages are
//! copied for control.

use super::Pass;
use super::plan::Plan;
use port::{DropReason, PortId, PuntReason};
use snooping::{Receivers, Table, Traffic};
use wire::Ethernet;

impl Pass<'_> {
    /// Sends packet `i`, whose destination is a multicast address. Answers are not cached: groups change, and addresses
    /// of frames do not identify them.
    #[inline(never)]
    pub(super) fn multicast<const TAGGED: bool>(&mut self, i: usize, plan: &Plan, groups: &Table) {
        let member = self.origin.member;
        if member.broadcast.as_ref().is_some_and(|limit| !limit.admit(self.now)) {
            return self.out.drop(i, DropReason::BroadcastLimit);
        }
        let traffic = Ethernet::new(self.burst.head(i)).map_or(Traffic::Other, |frame| Traffic::of(&frame));
        if matches!(traffic, Traffic::Report | Traffic::Query) {
            if member.membership.as_ref().is_none_or(|limit| !limit.admit(self.now)) {
                return self.out.drop(i, DropReason::ProtocolLimit);
            }
            self.out.punt(i, PuntReason::Protocol);
        }
        let vlan = plan.flow.destination.vlan();
        let receivers = match traffic {
            Traffic::Report => Receivers::Ports(groups.routers(vlan)),
            Traffic::Data(group) => groups.receivers(vlan, group),
            Traffic::Query | Traffic::Other => Receivers::All,
        };
        match receivers {
            Receivers::All => self.flood::<TAGGED>(i, plan),
            Receivers::Ports(ports) => self.emit_to::<TAGGED>(i, plan, ports),
        }
    }

    /// Sends packet `i` to those of `ports` that forward and carry its VLAN. If there are none, it has no verdict and
    /// is dropped as `no-destination`.
    fn emit_to<const TAGGED: bool>(&mut self, i: usize, plan: &Plan, ports: &[u16]) {
        self.end_flood();
        let Plan { flow, form, .. } = *plan;
        let (origin, home) = (self.origin.port, self.origin.member.bridge);
        for to in ports.iter().map(|port| PortId(*port)).filter(|to| *to != origin) {
            let is_open = self.table.sends(home, to);
            if is_open && (!TAGGED || self.carries(to, flow.destination.vlan())) {
                self.emit::<TAGGED>(i, to, form);
            }
        }
        self.out.mark_flooded(i..i + 1);
    }
}
