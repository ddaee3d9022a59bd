//! Bonds: which packets a member accepts.

use super::plan::{Flow, Lost};
use super::{Origin, Pass};
use crate::bond::{Admission, Link};
use lacp::SLOW_PROTOCOLS;
use port::{Burst, DropReason, Now, PuntReason, Verdicts};
use wire::{Arp, EtherType, Ethernet};

impl Pass<'_> {
    /// [`Pass::run`] for packets of a member of a bond.
    #[inline(never)]
    pub(in crate::worker) fn run_member(&mut self) {
        let is_checked = self.origin.member.guard.is_some() || self.origin.is_reflecting();
        match (self.view.vlan_aware, is_checked) {
            (false, false) => self.run_open::<false>(),
            (true, false) => self.run_open::<true>(),
            (false, true) => self.run_guarded::<false>(),
            (true, true) => self.run_guarded::<true>(),
        }
    }

    /// [`Pass::run`], not inlined.
    #[inline(never)]
    fn run_open<const TAGGED: bool>(&mut self) {
        self.run::<TAGGED, false>();
    }

    /// Whether a member of a bond whose other end is not aware of it accepts a packet.
    pub(super) fn admit(&self, i: usize, flow: Flow) -> Result<(), Lost> {
        let Some(Admission::Unreflected { is_active }) = self.origin.admission() else { return Ok(()) };
        if flow.destination.mac().is_group() && !is_active {
            return Err(Lost::Drop(DropReason::BondInactive));
        }
        let fdb = &self.view.bridge.fdb;
        let known = fdb.destination(flow.source, fdb.places(flow.source), self.second);
        if known.is_some_and(|port| port != self.origin.port) && !is_gratuitous(self.burst.head(i)) {
            return Err(Lost::Drop(DropReason::BondReflected));
        }
        Ok(())
    }

    /// Whether control gets the frame, because it is of a slow protocol on a member with LACP.
    pub(super) fn is_for_lacp(&self, flow: Flow) -> bool {
        self.origin.link.is_some_and(Link::has_lacp) && flow.destination.mac() == SLOW_PROTOCOLS
    }

    /// Outcome of a frame to a reserved address.
    #[cold]
    pub(super) fn reserved(&self, flow: Flow) -> Result<(), Lost> {
        if self.is_for_lacp(flow) {
            Err(Lost::Punt)
        } else if self.forwards_reserved(flow.destination.mac()) {
            Ok(())
        } else {
            Err(Lost::Drop(DropReason::NoDestination))
        }
    }
}

impl Origin<'_> {
    fn admission(&self) -> Option<Admission> {
        self.link.map(Link::admission)
    }

    fn is_reflecting(&self) -> bool {
        matches!(self.admission(), Some(Admission::Unreflected { .. }))
    }
}

/// Whether a frame is a gratuitous ARP packet: a station announces that it has moved.
fn is_gratuitous(head: &[u8]) -> bool {
    let announces = |head| {
        let frame = Ethernet::new(head).ok().filter(|frame| frame.inner_ethertype() == EtherType::ARP)?;
        let arp = Arp::new(frame.payload())?;
        Some(frame.destination().is_broadcast() && (arp.sender_ip() == arp.target_ip()))
    };
    announces(head) == Some(true)
}

/// Gives verdicts on packets of a member that receives nothing: LACPDUs are for control.
#[inline(never)]
pub(in crate::worker) fn refuse(burst: &Burst, link: &Link, now: Now, out: &mut Verdicts) {
    let slow = SLOW_PROTOCOLS.octets();
    for i in 0..burst.len() {
        if !link.has_lacp() || burst.first(i) != Some(&slow) {
            out.drop(i, DropReason::BondInactive);
        } else if link.limit.admit(now) {
            out.punt(i, PuntReason::Protocol);
        } else {
            out.drop(i, DropReason::ProtocolLimit);
        }
    }
}
