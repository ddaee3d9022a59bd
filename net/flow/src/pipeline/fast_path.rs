//! Forwarding outside the workers, as by the kernel: results that depend on nothing but the ingress port and a few
//! headers of a frame.
//!
//! Control looks pairs of stations and flows between them up here, in the same tables as the workers. Every change of
//! the tables of a bridge, and of its ports, is told to a listener for each of its ports, after it was published: the
//! use of results must end then. A result may depend on an open connection: control must watch it, so that the tracker
//! tells when it changes. A result with any effect beyond its output and simple edits, such as a meter or a learned
//! flow, is none.

use super::directory::{Bridge, Directory, Scope, View};
use super::exchange::Exchange;
use super::program::tracking;
use super::switch::FlowSwitch;
use crate::modify::PortNo;
use crate::tables::{Control, Entry, GroupCounter};
use crate::translate::{CtOperation, Operation, Translation, enter, resume, set_state, translate};
use crate::{Field, Key};
use conntrack::{Tuple, Watched};
use port::af_xdp::{Edits, Headers};
use port::{Now, PortId, Published};
use std::net::IpAddr;
use std::sync::Arc;
use wire::{EtherType, MacAddress};

/// Frames that may be forwarded outside.
#[derive(Clone, Copy, Debug)]
pub struct FastRequest<'a> {
    /// Ingress port.
    pub from: PortId,
    /// Source address of the untagged frames.
    pub source: MacAddress,
    /// Destination address.
    pub destination: MacAddress,
    /// Further headers; `None` for all frames of the pair of stations.
    pub headers: Option<&'a Headers>,
}

/// Result for all frames of a request.
#[derive(Debug)]
pub struct FastResult {
    /// Output port.
    pub to: PortId,
    /// Changes of the frames.
    pub edits: Edits,
    /// The open connection that it depends on: number of its watch, 0 for none, and direction of the frames. The result
    /// must not be used without a watch.
    pub connection: Option<(u16, Tuple)>,
    flows: Vec<Arc<Entry>>,
    counters: Vec<Arc<GroupCounter>>,
}

impl FastResult {
    /// Counts frames that were forwarded outside the workers at their flows and groups.
    pub fn count(&self, packets: u64, bytes: u64, now: Now) {
        self.flows.iter().for_each(|flow| flow.count(packets, bytes, now));
        self.counters.iter().for_each(|counter| counter.add(packets, bytes));
    }
}

impl Exchange {
    /// Tells the listener that results of a bridge may have changed.
    pub(super) fn results_changed(&self, directory: &Directory, bridge: &Bridge) {
        let Some(listener) = self.result_listener.get() else { return };
        if let Some((_, view)) = directory.named(&bridge.name) {
            view.ports.values().for_each(|place| listener(place.port));
        }
    }

    /// Publishes a changed directory, and tells the listener that results of all bridges may have changed.
    pub(super) fn publish(&self, published: &Published<Directory>, directory: Directory) {
        let (before, after) = (published.current(), Arc::new(directory));
        published.publish(after.clone());
        let Some(listener) = self.result_listener.get() else { return };
        let views = [&before, &after].into_iter().flat_map(|directory| directory.bridges.iter().flatten());
        views.flat_map(|view| view.ports.values()).for_each(|place| listener(place.port));
    }
}

impl FlowSwitch {
    /// Sets the function that is called with each port whose pairs a change may affect. The first function stays. It
    /// must not block.
    pub fn watch_results(&self, listener: impl Fn(PortId) + Send + Sync + 'static) {
        let _ = self.exchange.result_listener.set(Box::new(listener));
    }

    /// Publishes the tables of a bridge as control has changed them.
    pub(super) fn publish_tables(&self, bridge: &Bridge, control: &mut Control) {
        bridge.tables.publish(control.seal());
        self.exchange.results_changed(&self.published.current(), bridge);
    }

    /// Whether flow tables decide about the packets of a port.
    pub fn decides(&self, port: PortId) -> bool {
        self.published.current().by_tables(port).is_some()
    }

    /// Result for all frames of a request, if they leave by another port and the result depends on nothing else.
    pub fn fast(&self, request: &FastRequest<'_>, now: Now) -> Option<FastResult> {
        let directory = self.published.current();
        let member = directory.by_tables(request.from).filter(|member| member.receives)?;
        let view = directory.view(member.bridge)?;
        let scope = Scope { directory: &directory, view, bridge: member.bridge, is_nested: false };
        let mut key = key_of(request);
        enter(&mut key, member.number);
        key.set(Field::InPhyPort, member.number.0.into());
        let tables = view.bridge.tables.current();
        let first = translate(&tables, &key, member.number, &scope);
        let Some((operation, rest)) = tracking(&first.operations) else {
            return result(first, request, view);
        };
        let (watched, tuple) = self.connection(operation, request, now)?;
        set_state(&mut key, &watched.state);
        let next = resume(&tables, &key, rest, &scope);
        let mut found = result(next, request, view).filter(|_| is_covered(&first, request))?;
        found.connection = Some((watched.number, tuple));
        found.flows.extend(first.flows);
        found.counters.extend(first.counters);
        Some(found)
    }

    /// The open connection of the packets, if it is all that the operation has an effect on.
    fn connection(
        &self,
        operation: &CtOperation,
        request: &FastRequest<'_>,
        now: Now,
    ) -> Option<(Watched, Tuple)> {
        if operation.force || operation.mark.1 != 0 || operation.label.1 != 0 {
            return None;
        }
        let Headers { source, destination, protocol, ports, .. } = *request.headers?;
        let tuple = Tuple::new((source, destination), protocol, operation.zone).with_ports(ports.0, ports.1);
        Some((self.tracker().watched(&tuple, now.0)?, tuple))
    }
}

/// The result of a translation that only sends frames to a port, possibly edited.
fn result(found: Translation, request: &FastRequest<'_>, view: &View) -> Option<FastResult> {
    let (edits, port) = simple(&found, request)?;
    let place = view.output(port).ok().filter(|place| place.port != request.from && !place.is_tunnel())?;
    let Translation { flows, counters, .. } = found;
    Some(FastResult { to: place.port, edits, connection: None, flows, counters })
}

/// The fields of all frames of a request. Those that a result may not depend on are those of any packet.
fn key_of(request: &FastRequest<'_>) -> Key {
    let mut key = Key::ZERO;
    key.set(Field::EthSrc, request.source.to_u64().into());
    key.set(Field::EthDst, request.destination.to_u64().into());
    let Some(headers) = request.headers else { return key };
    let ends = [headers.source, headers.destination];
    for (address, [v4, v6]) in
        ends.into_iter().zip([[Field::Ipv4Src, Field::Ipv6Src], [Field::Ipv4Dst, Field::Ipv6Dst]])
    {
        match address {
            IpAddr::V4(address) => key.set(v4, address.to_bits().into()),
            IpAddr::V6(address) => key.set(v6, address.to_bits()),
        }
    }
    let ethertype = if headers.source.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    key.set(Field::EthType, ethertype.0.into());
    key.set(Field::IpProto, headers.protocol.into());
    key.set(Field::IpDscp, (headers.traffic_class >> 2).into());
    key.set(Field::IpEcn, (headers.traffic_class & 3).into());
    key.set(Field::IpTtl, 64);
    key.set(Field::UdpSrc, headers.ports.0.into());
    key.set(Field::UdpDst, headers.ports.1.into());
    key
}

/// Whether a translation depends on no packet field beyond those of a request, and has no effect beside its operations.
fn is_covered(found: &Translation, request: &FastRequest<'_>) -> bool {
    const PAIR: [Field; 3] = [Field::EthSrc, Field::EthDst, Field::VlanTci];
    const FLOW: [Field; 12] = [
        Field::EthType,
        Field::IpProto,
        Field::IpDscp,
        Field::IpEcn,
        Field::IpFrag,
        Field::Ipv6Exthdr,
        Field::Ipv4Src,
        Field::Ipv4Dst,
        Field::Ipv6Src,
        Field::Ipv6Dst,
        Field::UdpSrc,
        Field::UdpDst,
    ];
    let mut known = Key::ZERO;
    let flow: &[Field] = if request.headers.is_some() { &FLOW } else { &[] };
    for field in PAIR.iter().chain(flow) {
        known.set(*field, field.full());
    }
    let is_known = |i: usize| found.mask.words()[i] & !known.words()[i] == 0;
    let is_quiet = found.learned.is_empty() && found.reduced.is_empty() && found.error.is_none();
    is_quiet && Key::PACKET.into_iter().all(is_known)
}

/// Edits and output port of a translation that is covered and does nothing else.
fn simple(found: &Translation, request: &FastRequest<'_>) -> Option<(Edits, PortNo)> {
    if request.source.is_group() || request.destination.is_group() {
        return None;
    }
    let (Operation::Output(port), changes) = found.operations.split_last()? else { return None };
    let (mut addresses, mut decrements_ttl) = ([request.destination, request.source], false);
    for change in changes {
        match change {
            Operation::Set { field: Field::EthDst, value, mask } => set(&mut addresses[0], *value, *mask),
            Operation::Set { field: Field::EthSrc, value, mask } => set(&mut addresses[1], *value, *mask),
            Operation::DecNwTtl(_) if request.headers.is_some() && !decrements_ttl => decrements_ttl = true,
            _ => return None,
        }
    }
    let is_changed = addresses != [request.destination, request.source];
    let edits = Edits { addresses: is_changed.then_some(addresses), decrements_ttl };
    is_covered(found, request).then_some((edits, *port))
}

fn set(address: &mut MacAddress, value: u128, mask: u128) {
    let bits = u128::from(address.to_u64()) & !mask | value & mask;
    *address = MacAddress::from_u64(bits as u64);
}
