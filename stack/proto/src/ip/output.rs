//! Sending: the prepared header of a path, and packets of the stack itself.

use super::fragment::{self, set_ipv4_fragment, set_ipv6_fragment};
use super::neighbour::{Lookup, Solicitation};
use super::outbox::OutFrame;
use super::path::Path;
use super::route::{Hop, Plan, hop_on_link};
use super::template::{Fields, HOP_LIMIT};
use super::{HEAD, InterfaceId, Ip, NotReady, Outgoing, PathId, PrivateFrame};
use crate::{Address, Counters, Payload, Slice, Time};
use wire::{FRAGMENT_HEADER, MacAddress};

impl<P: Payload> Ip<P> {
    /// Writes the Ethernet and IP header of a packet with `len` bytes after the IP header into `head`, and returns the
    /// interface and the length of both headers. Source and destination are those of the path. Starts the resolution of
    /// the neighbour if its address is not known. Don't-fragment is set for IPv4. `len` may exceed the MTU for
    /// segmentation offload. This is the fast path: it copies a prepared header and changes lengths, identification,
    /// ECN, flow label and header checksum.
    #[inline]
    pub(crate) fn header(
        &mut self,
        path: PathId,
        len: usize,
        protocol: u8,
        (ecn, flow): (u8, u32),
        head: &mut [u8; HEAD],
        now: Time,
    ) -> Result<(InterfaceId, usize), NotReady> {
        let path = self.paths.get_used(path, now).ok_or(NotReady::Removed)?;
        let mac = match path.plan.hop {
            Hop::Local => return Err(NotReady::Loopback),
            Hop::Group(mac) => mac,
            Hop::Neighbour(next) => {
                match self.neighbours.lookup(&mut path.neighbour, (path.plan.interface, next), now) {
                    Lookup::Ready(mac) => mac,
                    Lookup::Ask(request) => {
                        let source = path.plan.source;
                        self.solicit(&request, Some(source));
                        return Err(NotReady::Resolving);
                    }
                    Lookup::Waiting | Lookup::Full => return Err(NotReady::Resolving),
                }
            }
        };
        let identification = path.next_identification();
        let hop_limit = HOP_LIMIT;
        let fields = Fields { len, protocol, ecn, flow, hop_limit, identification, dont_fragment: true };
        Ok((path.plan.interface, path.template.write(mac, &fields, head)))
    }

    /// Queues a packet: until there is room on the link, and, if necessary, until the neighbour is resolved. Counted
    /// and dropped if the queues are full.
    pub(crate) fn send(&mut self, packet: Outgoing<P>, now: Time, counters: &mut Counters) {
        let Some(path) = self.paths.get_used(packet.path, now) else {
            counters.ip_no_route += 1;
            return;
        };
        path.next_identification();
        let mut path = *path;
        self.send_on(&mut path, packet, now);
        self.count_drops(counters);
    }

    /// Sends a packet on a path that need not be in the table.
    pub(super) fn send_on(&mut self, path: &mut Path, packet: Outgoing<P>, now: Time) {
        let len = usize::from(packet.header.len) + packet.payload.iter().map(Slice::len).sum::<usize>();
        let Plan { source, destination, .. } = path.plan;
        let identification = if packet.may_fragment {
            self.identifications.next(source, destination, packet.protocol)
        } else {
            path.identification.into()
        };
        let longest = match packet.deferred.segment {
            0 => len,
            segment => usize::from(packet.header.len) + usize::from(segment),
        };
        if path.template.ip_len() + longest <= usize::from(path.mtu) {
            let mut frame = start(path, &packet, len, identification);
            frame.deferred = packet.deferred;
            frame.push(packet.header.bytes.get(..usize::from(packet.header.len)).unwrap_or_default());
            frame.payload = packet.payload;
            self.send_frame(path, frame, now);
        } else if packet.may_fragment {
            self.send_parts(path, packet, identification, now);
        } else {
            self.too_long += 1;
        }
    }

    /// Sends a packet in fragments.
    fn send_parts(&mut self, path: &mut Path, mut packet: Outgoing<P>, identification: u32, now: Time) {
        packet.complete();
        let extension = if path.plan.destination.is_v4() { 0 } else { FRAGMENT_HEADER };
        let room = usize::from(path.mtu).saturating_sub(path.template.ip_len() + extension);
        let payload = packet.payload.iter().map(Slice::len).sum();
        let Some(parts) = fragment::parts(packet.header.len.into(), payload, room) else {
            self.too_long += 1;
            return;
        };
        for part in parts {
            let mut frame = start(path, &packet, extension + part.len(), identification);
            let at = frame.len - path.template.ip_len();
            let header = frame.head.get_mut(at..frame.len).unwrap_or_default();
            if extension == 0 {
                set_ipv4_fragment(header, &part, identification as u16);
            } else if let Some(header) = header.first_chunk_mut() {
                let extension = set_ipv6_fragment(header, &part, identification);
                frame.push(&extension);
            }
            frame.push(packet.header.bytes.get(part.header).unwrap_or_default());
            frame.payload = fragment::slices(&packet.payload, part.payload).collect();
            self.send_frame(path, frame, now);
        }
    }

    /// Sends a whole IP packet over an interface, also without an address or route.
    pub(crate) fn send_whole(
        &mut self,
        id: InterfaceId,
        destination: Address,
        packet: &[u8],
        now: Time,
        counters: &mut Counters,
    ) {
        let Some(interface) = self.interfaces.get(id) else { return };
        let hop = match hop_on_link(interface, destination) {
            Hop::Neighbour(_) => {
                let via = self.routes.find(destination, Some(id)).and_then(|route| route.via);
                Hop::Neighbour(via.unwrap_or(destination))
            }
            group => group,
        };
        let plan = Plan { interface: id, source: Address::UNSPECIFIED, destination, hop };
        let mut path = Path::new(plan, interface, 0, now);
        let frame =
            OutFrame { payload: alloc::vec![Slice::new(P::copy_of(packet))], ..path.template.ethernet(id) };
        self.send_frame(&mut path, frame, now);
        self.count_drops(counters);
    }

    /// Sends a complete frame, except for its destination's Ethernet address, to the next hop of a path.
    fn send_frame(&mut self, path: &mut Path, mut frame: OutFrame<P>, now: Time) {
        let next = match path.plan.hop {
            Hop::Local if frame.deferred.segment == 0 => return self.loop_back(&frame),
            Hop::Local => return frame.datagrams().for_each(|frame| self.loop_back(&frame)),
            Hop::Group(_) => return self.outbox.push(frame),
            Hop::Neighbour(next) => next,
        };
        match self.neighbours.lookup(&mut path.neighbour, (path.plan.interface, next), now) {
            Lookup::Ready(mac) => {
                frame.set_destination(mac);
                return self.outbox.push(frame);
            }
            Lookup::Ask(request) => self.solicit(&request, Some(path.plan.source)),
            Lookup::Waiting | Lookup::Full => {}
        }
        self.neighbours.enqueue(path.neighbour, frame);
    }

    fn loop_back(&mut self, frame: &OutFrame<P>) {
        if self.loopback.len() < self.config.limits.outbox as usize {
            self.loopback.push_back((frame.interface, PrivateFrame::new(frame.to_vec(), true)));
        } else {
            self.outbox.count_dropped();
        }
    }

    /// Sends a request for a neighbour's Ethernet address.
    pub(super) fn solicit(&mut self, request: &Solicitation, source: Option<Address>) {
        if let Some(frame) = super::resolve::solicitation(&self.interfaces, request, source) {
            self.outbox.push(frame);
        }
    }

    /// Counts packets dropped at a limit, and addresses that other hosts have.
    pub(super) fn count_drops(&mut self, counters: &mut Counters) {
        counters.neighbour_failed += self.neighbours.take_failed();
        counters.duplicate_addresses += self.clients.take_duplicates();
        counters.outbox_full += self.outbox.take_dropped();
        counters.fragment_failed += core::mem::take(&mut self.too_long);
    }
}

/// A frame with the Ethernet and IP header of a packet with `len` bytes after them.
fn start<P: Payload>(path: &Path, packet: &Outgoing<P>, len: usize, identification: u32) -> OutFrame<P> {
    let fields = Fields {
        len,
        protocol: packet.protocol,
        ecn: packet.ecn,
        flow: packet.flow,
        hop_limit: packet.hop_limit,
        identification: identification as u16,
        dont_fragment: !packet.may_fragment,
    };
    let mac = if let Hop::Group(mac) = path.plan.hop { mac } else { MacAddress::ZERO };
    let mut frame = OutFrame::new(path.plan.interface);
    frame.len = path.template.write(mac, &fields, &mut frame.head);
    frame.network = frame.len - path.template.ip_len();
    frame
}
