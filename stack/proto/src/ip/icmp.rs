//! ICMP: echo replies, errors received, and errors sent.
//!
//! Errors received change nothing unless they quote a packet of this host. Errors are sent at a limited rate, and never
//! about errors, group addresses or fragments other than the first (RFC 1122 section 3.2.2, RFC 4443 section 2.4).

use super::input::Datagram;
use super::path::Path;
use super::resolve::pseudo6;
use super::template::HOP_LIMIT;
use super::{Deferred, ErrorKind, Header, Ip, Outgoing, Packet, PathId, Received, TransportError};
use crate::{Address, Counters, Endpoint, Frame, Payload, Slice, Time};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use wire::checksum::{Sum, protocol, update};
use wire::{ICMP_HEADER, IPV6_HEADER, Icmp, IcmpKind, Ipv4, Ipv6, NdKind, Quoted, Version, icmp_header};

/// Bytes of a message that are parsed. Router advertisements can be as long as a packet.
pub(super) const MESSAGE: usize = 1536;
/// Maximum length in bytes of an IPv4 packet with an error (RFC 1812 section 4.3.2.3).
const ERROR4: usize = 576;
/// The same of IPv6: the minimum MTU (RFC 4443 section 2.4 c).
const ERROR6: usize = 1280;

impl<P: Payload> Ip<P> {
    /// Processes an ICMP message.
    pub(super) fn icmp<F: Frame<Payload = P>>(
        &mut self,
        frame: &mut F,
        datagram: &Datagram,
        now: Time,
        counters: &mut Counters,
    ) -> Received<P> {
        counters.icmp_in += 1;
        let packet = &datagram.packet;
        let len = packet.end - packet.transport;
        let mut buffer = [0; MESSAGE];
        let message = &mut buffer[..len.min(MESSAGE)];
        if len < ICMP_HEADER || !is_checksum_valid(frame, packet) {
            counters.icmp_errors += 1;
            return Received::Consumed;
        }
        frame.copy_to(packet.transport, message);
        let version = if packet.source.is_v4() { Version::V4 } else { Version::V6 };
        let Some(view) = Icmp::new(version, message) else { return Received::Consumed };
        match view.kind() {
            IcmpKind::EchoRequest => self.echo(frame, packet, &view, now, counters),
            IcmpKind::EchoReply => {}
            IcmpKind::Other => {
                let headers = frame.head().get(datagram.network..packet.transport).unwrap_or_default();
                self.other(datagram, headers, len, message, now, counters);
            }
            kind => {
                let error = view.quoted().and_then(|quoted| self.error(kind, version, &quoted, now));
                return error.map_or(Received::Consumed, Received::Error);
            }
        }
        Received::Consumed
    }

    /// Processes messages other than echo and errors, which follow the IP headers `headers`.
    fn other(
        &mut self,
        datagram: &Datagram,
        headers: &[u8],
        len: usize,
        message: &[u8],
        now: Time,
        counters: &mut Counters,
    ) {
        let Packet { interface, source, .. } = datagram.packet;
        let is_valid = match message.first() {
            _ if source.is_v4() => true,
            // RFC 3810 section 6.2.
            Some(130..=132 | 143) => {
                has_router_alert(headers)
                    && self.groups.receive(interface, source, datagram.hop_limit, message, now)
            }
            Some(kind) if NdKind::of(*kind).is_some() => {
                let is_valid = len <= MESSAGE && self.discover(datagram, message, now);
                self.act(interface, now, counters);
                is_valid
            }
            _ => true,
        };
        counters.icmp_errors += u64::from(!is_valid);
    }

    /// Sends Time Exceeded about a packet of which fragments are missing; `first` is its first fragment. Of several
    /// stacks that all have the fragments of TCP, one sends it.
    pub(super) fn report_expired(&mut self, first: Vec<u8>, now: Time, counters: &mut Counters) {
        let v4 =
            Ipv4::new(&first).map(|view| (11, pair(view.source_and_destination()), Some(view.protocol())));
        let v6 = || {
            let view = Ipv6::new(&first)?;
            let protocol = view.upper_layer().map(|upper| upper.protocol);
            Some((3, pair(view.source_and_destination()), protocol))
        };
        if let Some((kind, (source, destination), number)) = v4.or_else(v6)
            && (number != Some(protocol::TCP) || self.config.affinity.is_first())
        {
            self.send_error((destination, source), icmp_header(kind, 1, [0; 4]), first, now, counters);
        }
    }

    /// Answers an echo request. The payload is that of the request.
    fn echo<F: Frame<Payload = P>>(
        &mut self,
        frame: &mut F,
        packet: &Packet,
        view: &Icmp<'_>,
        now: Time,
        counters: &mut Counters,
    ) {
        let is_v4 = packet.source.is_v4();
        // An answer to a broadcast would multiply the sender's packets.
        if is_v4 && packet.is_group || packet.source.is_unspecified() {
            return;
        }
        let Some(interface) = self.interfaces.get(packet.interface) else { return };
        let source =
            if packet.is_group { interface.select_source(packet.source) } else { Some(packet.destination) };
        let Some(mut path) = source.and_then(|source| self.reply_path(source, packet.source, now)) else {
            return;
        };
        let [old, reply] = if is_v4 { [8, 0] } else { [128, 129] };
        let mut header = *view.header();
        let mut checksum = update(view.checksum(), &[old, 0], &[reply, 0]);
        if !is_v4 {
            checksum = update(checksum, packet.destination.octets(), path.plan.source.octets());
        }
        header[0] = reply;
        header[2..4].copy_from_slice(&checksum);
        let Some(payload) = frame.retain(packet.transport + ICMP_HEADER..packet.end) else { return };
        let protocol = packet.protocol;
        counters.icmp_out += 1;
        self.send_on(&mut path, message(protocol, header, vec![payload], true), now);
    }

    /// Path of an answer. It is not kept, so that requests of many senders replace no path.
    fn reply_path(&mut self, source: Address, destination: Address, now: Time) -> Option<Path> {
        let plan = self.routes.plan(&self.interfaces, Some(source), destination).ok()?;
        let interface = self.interfaces.get(plan.interface)?;
        let mut path = Path::new(plan, interface, 0, now);
        let known = self.paths.find(source, destination).and_then(|id| self.paths.describe(id));
        path.mtu = known.map_or(path.mtu, |(_, mtu)| mtu);
        Some(path)
    }

    /// Meaning of an error for the transport that sent the quoted packet.
    fn error(
        &mut self,
        kind: IcmpKind,
        version: Version,
        quoted: &Quoted,
        now: Time,
    ) -> Option<TransportError> {
        let is_v4 = version == Version::V4;
        let (local, remote) = (Address::from(quoted.source), Address::from(quoted.destination));
        if local.is_v4() != is_v4 || remote.is_v4() != is_v4 || !self.is_local(local) {
            return None;
        }
        if !matches!(quoted.protocol, protocol::TCP | protocol::UDP) {
            return None;
        }
        let kind = match kind {
            IcmpKind::Refused => ErrorKind::Refused,
            IcmpKind::TooBig(mtu) => {
                let mtu = self.paths.reported((local, remote), quoted.len, mtu)?;
                // TCP knows whether the packet was sent (RFC 5927 section 7.2); of datagrams there is no record.
                if quoted.protocol == protocol::UDP {
                    self.paths.shrink((local, remote), mtu, now);
                }
                ErrorKind::TooBig(mtu)
            }
            _ => ErrorKind::Unreachable,
        };
        let [a, b, c, d, sequence @ ..] = quoted.transport;
        Some(TransportError {
            kind,
            protocol: quoted.protocol,
            local: Endpoint::new(local, u16::from_be_bytes([a, b])),
            remote: Endpoint::new(remote, u16::from_be_bytes([c, d])),
            sequence: u32::from_be_bytes(sequence),
        })
    }

    /// Answers a UDP datagram to a port without a socket, or another protocol without handler, with an ICMP error
    /// (rate-limited; never for group addresses).
    pub(crate) fn refuse<F: Frame<Payload = P>>(
        &mut self,
        frame: &F,
        packet: &Packet,
        now: Time,
        counters: &mut Counters,
    ) {
        let network = wire::Ethernet::new(frame.head()).map(|view| frame.head().len() - view.payload().len());
        if let Ok(network) = network
            && let Some(header) = refusal(frame.head().get(network..).unwrap_or_default(), packet)
        {
            let mut quote = vec![0; packet.end.saturating_sub(network).min(ERROR6)];
            frame.copy_to(network, &mut quote);
            self.send_error((packet.destination, packet.source), header, quote, now, counters);
        }
    }

    /// Sends an error from an own address about a packet whose first bytes are `quote`, unless it was sent to a group
    /// address. Rate-limited.
    pub(super) fn send_error(
        &mut self,
        (source, destination): (Address, Address),
        mut header: [u8; ICMP_HEADER],
        mut quote: Vec<u8>,
        now: Time,
        counters: &mut Counters,
    ) {
        let is_unicast =
            self.is_local(source) && !destination.is_unspecified() && !destination.is_multicast();
        if !is_unicast || !self.allow_error(now, counters) {
            return;
        }
        let Some(mut path) = self.reply_path(source, destination, now) else { return };
        let (longest, number) =
            if source.is_v4() { (ERROR4, protocol::ICMP) } else { (ERROR6, protocol::ICMPV6) };
        quote.truncate(longest - path.template.ip_len() - ICMP_HEADER);
        let len = ICMP_HEADER + quote.len();
        let mut sum = if source.is_v4() { Sum::default() } else { pseudo6(source, destination, len) };
        sum.add(&header);
        sum.add(&quote);
        header[2..4].copy_from_slice(&sum.finish());
        counters.icmp_out += 1;
        let error = message(number, header, vec![Slice::new(P::copy_of(&quote))], false);
        self.send_on(&mut path, error, now);
        self.count_drops(counters);
    }

    /// Whether a reset or ICMP error may be sent now.
    pub(crate) fn allow_error(&mut self, now: Time, counters: &mut Counters) -> bool {
        let is_allowed = self.errors.allow(now);
        counters.rate_limited += u64::from(!is_allowed);
        is_allowed
    }
}

/// Header of the error about an IP packet: the port is unreachable, or the protocol is unknown.
fn refusal(ip: &[u8], packet: &Packet) -> Option<[u8; ICMP_HEADER]> {
    Some(match (packet.source.is_v4(), packet.protocol == protocol::UDP) {
        (true, true) => icmp_header(3, 3, [0; 4]),
        (true, false) => icmp_header(3, 2, [0; 4]),
        (false, true) => icmp_header(1, 4, [0; 4]),
        (false, false) => icmp_header(4, 1, (Ipv6::new(ip)?.protocol_at() as u32).to_be_bytes()),
    })
}

fn pair<T: Into<Address>>((source, destination): (T, T)) -> (Address, Address) {
    (source.into(), destination.into())
}

/// A message as a packet; its path is given to [`Ip::send_on`].
fn message<P>(
    protocol: u8,
    header: [u8; ICMP_HEADER],
    payload: Vec<Slice<P>>,
    may_fragment: bool,
) -> Outgoing<P> {
    let mut bytes = [0; 64];
    bytes[..ICMP_HEADER].copy_from_slice(&header);
    Outgoing {
        path: PathId { index: u32::MAX, generation: 0 },
        protocol,
        ecn: 0,
        flow: 0,
        hop_limit: HOP_LIMIT,
        header: Header { bytes, len: ICMP_HEADER as u8 },
        payload,
        may_fragment,
        deferred: Deferred::default(),
    }
}

/// Whether a Hop-by-Hop Options header after the IPv6 header has the option Router Alert for MLD (RFC 2711 section
/// 2.1).
fn has_router_alert(headers: &[u8]) -> bool {
    let (Some(0), Some([_, units, options @ ..])) = (headers.get(6), headers.get(IPV6_HEADER..)) else {
        return false;
    };
    let mut options = options.get(..usize::from(*units) * 8 + 6).unwrap_or_default();
    loop {
        options = match options {
            [5, 2, 0, 0, ..] => return true,
            [0, rest @ ..] => rest,
            [_, len, rest @ ..] => rest.get(usize::from(*len)..).unwrap_or_default(),
            _ => return false,
        };
    }
}

fn is_checksum_valid<F: Frame>(frame: &F, packet: &Packet) -> bool {
    let range = packet.transport..packet.end;
    let mut sum = match packet.source.ip() {
        IpAddr::V4(_) => Sum::default(),
        IpAddr::V6(_) => pseudo6(packet.source, packet.destination, range.len()),
    };
    frame.is_checksum_valid() || {
        sum.add_words(frame.sum(range.clone()), range.len());
        sum.finish() == [0, 0]
    }
}
