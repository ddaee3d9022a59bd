//! Tunnels of a packet in execution.

use super::directory::{Member, Scope};
use super::execute::{Executor, Stopped};
use super::recirculation::{Carried, Received, TunnelInfo};
use super::underlay::Local;
use crate::action::Action;
use crate::modify::PortNo;
use crate::translate::{Encapsulation, flow_hash};
use crate::{Field, Key};
use port::{Context, DropReason, PortId, PuntReason, work};
use std::sync::Arc;
use tunnel::{Check, Inner, Kind, Opened, Payload, Unreachable};
use wire::HEADER_LEN;
use wire::checksum::Sum;

/// Congestion experienced (RFC 3168 section 5).
pub(super) const CE: u8 = 3;
/// Nanoseconds between two questions of a worker about next hops.
const ASKED: u64 = 1_000_000;

impl Executor<'_> {
    /// Adds outer headers, and continues on the bridge of the underlay. The packet itself is changed.
    pub(super) fn encapsulate(&mut self, key: &Key, way: &Encapsulation) -> Result<(), Stopped> {
        let (inner, strip) = self.inner(way)?;
        let longest = way.template.packet_len(self.longest(strip));
        if longest > usize::from(way.mtu) {
            return self.report_too_long(way);
        }
        let sum = self.rewriter.payload_sum(strip);
        let identification = self.recirculations.identification;
        self.recirculations.identification = identification.wrapping_add(1);
        let header = way.template.header(&Inner { hash: flow_hash(key), identification, sum, ..inner });
        let checksum = way.template.checksum_start();
        if self.rewriter.encapsulate(header.bytes(), strip, (checksum, sum.is_some())).is_err() {
            return self.refuse();
        }
        self.edit = None;
        if let Some(place) = self.scope.view.ports.get(&way.port) {
            let counts = self.recirculations.counts(place.port);
            (counts.tx_packets, counts.tx_bytes) =
                (counts.tx_packets + 1, counts.tx_bytes + inner.len as u64);
        }
        self.continue_on_underlay(key, way)
    }

    fn continue_on_underlay(&mut self, key: &Key, way: &Encapsulation) -> Result<(), Stopped> {
        let view = self.scope.directory.view(way.bridge);
        let (Some(view), Some(operations)) = (view, &way.then) else {
            let member = Member { bridge: way.bridge, number: PortNo::LOCAL, receives: true };
            let stage = self.recirculations.enter(member, Carried::default());
            return self.recirculate(stage);
        };
        let scope = Scope { view, bridge: way.bridge, is_nested: true, ..self.scope };
        let own = std::mem::replace(&mut self.scope, scope);
        let end = self.list(key, operations);
        self.scope = own;
        end
    }

    /// Inputs of the outer headers, and the number of bytes of the packet that they replace.
    fn inner(&mut self, way: &Encapsulation) -> Result<(Inner, usize), Stopped> {
        let (key, layout) = (*self.rewriter.key(), *self.rewriter.layout());
        let kind = key.get(Field::EthType);
        let is_ip = matches!(kind, 0x0800 | 0x86dd) && layout.network > 0;
        let strip = if way.template.kind().is_ethernet() {
            0
        } else if is_ip && layout.tags == 0 {
            usize::from(layout.network)
        } else {
            return self.refuse();
        };
        let own = if is_ip { (key.get(Field::IpDscp) << 2 | key.get(Field::IpEcn)) as u8 } else { 0 };
        let inner = Inner {
            len: self.rewriter.frame_len() - strip,
            tos: way.tos.map_or(own, |tos| tos & !CE | own & CE),
            ttl: (way.inherits_ttl && is_ip).then(|| key.get(Field::IpTtl) as u8),
            is_v6: kind == 0x86dd,
            ..self.mirrored(&key, way)
        };
        Ok((inner, strip))
    }

    /// Fields of the ERSPAN header that describe the packet.
    fn mirrored(&mut self, key: &Key, way: &Encapsulation) -> Inner {
        let place = self.scope.view.ports.get(&way.port);
        let Some(place) = place.filter(|_| way.template.kind() == Kind::Erspan) else {
            return Inner::default();
        };
        let vlan = key.get(Field::VlanVid) as u16;
        let tag = (vlan != 0).then(|| vlan & 0xfff | (key.get(Field::VlanPcp) as u16) << 13);
        Inner { sequence: self.recirculations.sequence(place.port), tag, ..Inner::default() }
    }

    /// Length of the payload, or of its longest segment.
    fn longest(&mut self, strip: usize) -> usize {
        let len = self.rewriter.frame_len();
        let offload = self.burst.offload(self.packet);
        if offload.segmentation().is_none() {
            return len - strip;
        }
        let headers = usize::from(offload.headers(self.burst.head(self.packet)));
        let payload = self.burst.frame_len(self.packet).saturating_sub(headers);
        len - strip - payload + payload.min(offload.segment())
    }

    /// The packet does not fit: control tells its sender.
    fn report_too_long(&mut self, way: &Encapsulation) -> Result<(), Stopped> {
        let layout = *self.rewriter.layout();
        let headers = if way.template.kind().is_ethernet() { usize::from(layout.network) } else { 0 };
        let mtu = usize::from(way.mtu).saturating_sub(way.template.packet_len(headers)) as u16;
        let (bridge, key) = (self.scope.view.bridge.name.clone(), *self.rewriter.key());
        let in_port = PortNo(key.get(Field::InPort) as u32);
        self.drop(DropReason::TunnelTooLong);
        if layout.network > 0 {
            self.lookup.learner.exchange().too_long((bridge, in_port), self.rewriter.head(), mtu);
        }
        Err(Stopped)
    }

    /// The remote end of a tunnel cannot be reached: control resolves the next hop.
    pub(super) fn unreachable(&mut self, why: Unreachable) {
        let request = match why {
            Unreachable::Unresolved(request) => request,
            Unreachable::NoRoute => return self.drop(DropReason::TunnelNoRoute),
            Unreachable::TooLong => return self.drop(DropReason::TunnelTooLong),
        };
        self.drop(DropReason::TunnelUnresolved);
        let now = self.context.now;
        if now.0.saturating_sub(self.recirculations.asked.0) >= ASKED || self.recirculations.asked.0 == 0 {
            self.recirculations.asked = now;
            self.lookup.learner.exchange().resolve(request);
        }
    }

    /// Removes outer headers; the packet continues in the tables of the bridge that the tunnel is a port of.
    pub(super) fn decapsulate(&mut self, kind: Kind, port: u16) -> Result<(), Stopped> {
        let network = usize::from(self.rewriter.layout().network);
        let len = self.rewriter.frame_len() - network;
        let packet = self.rewriter.head().get(network..).unwrap_or_default();
        let Ok(opened) = tunnel::open(kind, packet, len) else { return self.lose(DropReason::TunnelInvalid) };
        let options = packet.get(opened.options.clone()).unwrap_or_default().into();
        if opened.check.as_ref().is_some_and(|check| !self.is_valid(network, check)) {
            return self.lose(DropReason::TunnelInvalid);
        }
        let found = self.scope.directory.tunnels.find(kind, port, &opened);
        let Some((id, member)) = found.and_then(|id| Some((id, self.scope.directory.member(id)?))) else {
            return self.lose(DropReason::TunnelUnknown);
        };
        self.strip(network, &opened)?;
        let counts = self.recirculations.counts(id);
        let bytes = self.rewriter.frame_len() as u64;
        (counts.rx_packets, counts.rx_bytes) = (counts.rx_packets + 1, counts.rx_bytes + bytes);
        let received = Received { info: TunnelInfo::new(&opened), options };
        let carried = Carried { tunnel: Some(Arc::new(received)), ..Carried::default() };
        let stage = self.recirculations.enter(member, carried);
        self.recirculate_from(id, stage)
    }

    /// Removes the outer headers, and passes on congestion (RFC 6040 section 4.2).
    fn strip(&mut self, network: usize, opened: &Opened) -> Result<(), Stopped> {
        let ethertype = match opened.payload {
            Payload::Ethernet => None,
            Payload::Ipv4 => Some(0x0800),
            Payload::Ipv6 => Some(0x86dd),
        };
        self.edit = None;
        if self.rewriter.decapsulate(network + opened.inner, ethertype).is_err()
            || self.rewriter.frame_len() < HEADER_LEN
        {
            return self.lose(DropReason::TunnelInvalid);
        }
        if opened.tos & CE != CE {
            return Ok(());
        }
        let key = *self.rewriter.key();
        match (key.get(Field::EthType), key.get(Field::IpEcn)) {
            (0x0800 | 0x86dd, 0) => self.lose(DropReason::TunnelCongested),
            (0x0800 | 0x86dd, _) => {
                let mark = Action::SetField { field: Field::IpEcn, value: CE.into(), mask: CE.into() };
                self.rewriter.apply(&mark).map(drop).or_else(|_| self.refuse())
            }
            _ => Ok(()),
        }
    }

    /// Verifies a checksum over the payload, unless the port has, or it never left memory.
    fn is_valid(&mut self, network: usize, check: &Check) -> bool {
        let offload = self.burst.offload(self.packet);
        if offload.is_valid() || offload.segmentation().is_some() {
            return true;
        }
        let (start, end) = (network + check.range.start, network + check.range.end);
        if self.rewriter.partial_start() == Some(start) {
            return true;
        }
        self.verdicts.charge((end - start) as u64 / work::BYTES);
        if let Some(payload) = self.rewriter.payload_sum(start) {
            return check.is_valid(payload.total());
        }
        let head = self.rewriter.head();
        let mut sum = Sum::of(&head[start.min(head.len())..end.min(head.len())]);
        if let Some(behind) = end.checked_sub(head.len()).filter(|behind| *behind > 0) {
            let rest = self.burst.head(self.packet).len();
            sum.add_words(self.burst.frame(self.packet).sum(rest..rest + behind), behind);
        }
        check.is_valid(sum.total())
    }

    /// Delivers to the addresses of the bridge itself, on the control side.
    pub(super) fn deliver_locally(&mut self) -> Result<(), Stopped> {
        let port = PortNo(self.rewriter.key().get(Field::InPort) as u32);
        let bridge = self.member.bridge;
        self.punt_noted(PuntReason::Action, Some(Arc::new(Local { bridge, port })))
    }

    fn recirculate_from(&mut self, from: PortId, stage: u32) -> Result<(), Stopped> {
        let edit = self.edit()?;
        self.verdicts.recirculate(self.packet, Context { stage, from, ..*self.context }, edit);
        self.is_decided = true;
        Ok(())
    }

    fn lose<T>(&mut self, reason: DropReason) -> Result<T, Stopped> {
        self.drop(reason);
        Err(Stopped)
    }
}
