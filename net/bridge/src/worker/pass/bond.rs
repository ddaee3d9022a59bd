//! Bonds: which packets a member accepts, and the member for each packet to a bond.

use super::plan::{Flow, Lost};
use super::{Origin, Pass};
use crate::bond::{Admission, Bond, Hashing, Link};
use crate::key::Key;
use crate::vlan::{Form, NO_VLAN};
use lacp::SLOW_PROTOCOLS;
use port::{Burst, DropReason, Now, PuntReason, Steering, Verdicts};
use wire::{Arp, EtherType, Ethernet};

/// What one worker needs to distribute packets to members.
pub(in crate::worker) struct Distribution {
    pub(in crate::worker) worker: usize,
    pub(in crate::worker) steering: Steering,
}

impl Pass<'_> {
    /// [`Pass::run`] for a bridge with bonds.
    #[inline(never)]
    pub(in crate::worker) fn run_bonded(&mut self, distribution: &Distribution) {
        let is_checked = self.origin.member.guard.is_some() || self.origin.is_reflecting();
        match (self.view.vlan_aware, is_checked) {
            (false, false) => self.run_open::<false>(),
            (true, false) => self.run_open::<true>(),
            (false, true) => self.run_guarded::<false>(),
            (true, true) => self.run_guarded::<true>(),
        }
        let view = self.view;
        for bond in &view.bonds {
            self.distribute(bond, distribution);
        }
    }

    /// [`Pass::run`], not inlined.
    #[inline(never)]
    fn run_open<const TAGGED: bool>(&mut self) {
        self.run::<TAGGED, false>();
    }

    /// Sends the packets to a bond to its members.
    fn distribute(&mut self, bond: &Bond, distribution: &Distribution) {
        let load = bond.load(distribution.worker);
        let Self { burst, out, origin, view, .. } = self;
        let origin = &*origin;
        out.redirect(bond.port, DropReason::BondDown, |i| {
            let bucket = bucket(bond, burst, i, (origin, view.vlan_aware), &distribution.steering);
            let member = bond.member(bucket)?;
            if let Some(load) = load {
                load.add(bucket, burst.frame_len(i));
            }
            Some(member)
        });
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
        self.origin.link.is_some_and(|link| link.has_lacp) && flow.destination.mac() == SLOW_PROTOCOLS
    }

    /// What becomes of a frame to a reserved address.
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

/// The bucket of packet `i`.
fn bucket(
    bond: &Bond,
    burst: &mut Burst,
    i: usize,
    (origin, vlan_aware): (&Origin<'_>, bool),
    steering: &Steering,
) -> u8 {
    let source = |burst: &Burst| {
        let Ok(frame) = Ethernet::new(burst.head(i)) else { return 0 };
        let form = Form::of(&frame, &origin.member.vlan).ok().filter(|_| vlan_aware);
        bond.of_source(Key::new(frame.source(), form.map_or(NO_VLAN, Form::vlan)))
    };
    match bond.hashing {
        Hashing::One => 0,
        Hashing::Source => source(burst),
        Hashing::Flow => match burst.rss_hash(i, steering) {
            Some(hash) => bond.of_flow(hash),
            None => source(burst),
        },
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
        if !link.has_lacp || burst.first(i) != Some(&slow) {
            out.drop(i, DropReason::BondInactive);
        } else if link.limit.admit(now) {
            out.punt(i, PuntReason::Protocol);
        } else {
            out.drop(i, DropReason::ProtocolLimit);
        }
    }
}
