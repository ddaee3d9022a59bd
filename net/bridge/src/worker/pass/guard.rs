//! Port security: frames of guarded ports, and leases in DHCP replies.

use super::Pass;
use super::plan::{Flow, Lost};
use crate::guard::{Inspected, Reply};
use crate::key::Key;
use mem::copy::Portable;
use port::{DropReason, PortId};

impl Pass<'_> {
    /// Admission to a bond, and port security, for packet `i` of a port that has either.
    #[inline(never)]
    pub(super) fn guard(&mut self, i: usize, flow: Flow) -> Result<Flow, Lost> {
        if self.is_for_lacp(flow) {
            return Ok(flow);
        }
        self.admit(i, flow)?;
        let Some(guard) = &self.origin.member.guard else { return Ok(flow) };
        let burst = &*self.burst;
        let copy = |to: &mut [u8]| {
            burst.frame(i).copy_to::<Portable>(to);
            burst.frame_len(i)
        };
        let (source, second, scratch) = (flow.source.mac(), self.second, &mut *self.scratch);
        let reply =
            guard.inspect(&mut Inspected { source, head: burst.head(i), second, copy: &copy, scratch });
        let reply = reply.map_err(Lost::Drop)?;
        let recorded = reply.is_none_or(|reply| self.record(&reply, flow.source.vlan()));
        // A dropped reply is requested again; an unrecorded lease would leave the client unable to send.
        if recorded { Ok(flow) } else { Err(Lost::Drop(DropReason::DhcpViolation)) }
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
}
