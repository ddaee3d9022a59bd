//! Received tunnel packets: validation of the outer headers, and what they say.
//!
//! All lengths are validated against the packet, and no byte beyond the outer headers is read. A checksum over the
//! payload is returned for the caller to verify ([`Check`]), because the payload may be in memory of others.

use crate::kind::{ERSPAN, ETHERNET, GRE, IPV4, IPV6, UDP};
use crate::{Kind, geneve_options};
use std::net::IpAddr;
use std::ops::Range;
use wire::checksum::Sum;
use wire::{Ipv4, Ipv6, Udp};

/// Extension headers of GTP-U that are skipped.
const MAX_EXTENSIONS: usize = 4;

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A header is cut off, or a length field exceeds the packet.
    #[error("a header is cut off, or a length field exceeds the packet")]
    Truncated,
    /// The header checksum of IPv4 is wrong, or the packet is a fragment or source-routed.
    #[error("the outer IP header is invalid, or the packet is a fragment")]
    Network,
    /// The protocol of the outer IP header is another one.
    #[error("the protocol of the outer header is not that of the tunnel")]
    Protocol,
    /// Version or flags are not valid, or not supported.
    #[error("version or flags of the tunnel header are not supported")]
    Flags,
    /// An option or extension header is cut off, or must be known and is not.
    #[error("an option is cut off, has another length than expected, or is critical and not known")]
    Options,
    /// The payload is not that of the tunnel: neither Ethernet frames nor IP packets, or a message of the protocol
    /// itself.
    #[error("the payload is not that of the tunnel")]
    Payload,
}

/// Payload of a tunnel packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// An Ethernet frame.
    Ethernet,
    /// An IPv4 packet.
    Ipv4,
    /// An IPv6 packet.
    Ipv6,
}

/// A checksum over the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Sum of the pseudo header.
    pub pseudo: Sum,
    /// Bytes that the checksum covers, from the start of the outer IP header.
    pub range: Range<usize>,
}

impl Check {
    /// Whether the checksum is valid, if `total` is the unfolded sum of the words of [`Check::range`].
    pub fn is_valid(&self, total: u64) -> bool {
        let mut sum = self.pseudo;
        sum.add_words(total, self.range.len());
        sum.finish() == [0, 0]
    }
}

/// Fields of the outer headers of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub destination: IpAddr,
    /// Traffic class.
    pub tos: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// VNI, VSID, key, session or TEID; `None` for a header without one.
    pub key: Option<u32>,
    /// Whether it is a packet of operation and maintenance (Geneve).
    pub is_oam: bool,
    /// Offset of the payload, from the start of the outer IP header.
    pub inner: usize,
    /// Options of Geneve, from the start of the outer IP header; empty for other kinds. Their lengths are valid.
    pub options: Range<usize>,
    /// Payload.
    pub payload: Payload,
    /// Checksum to verify, if the sender set one.
    pub check: Option<Check>,
}

/// The outer IP header.
struct Network {
    opened: Opened,
    protocol: u8,
    /// End of the packet.
    end: usize,
}

/// Validates the headers of a tunnel packet. `packet` has the first bytes of `len` from the outer IP header on.
///
/// # Errors
/// If the packet is not a valid one of this kind.
pub fn open(kind: Kind, packet: &[u8], len: usize) -> Result<Opened, Malformed> {
    let packet = packet.get(..len).unwrap_or(packet);
    let network = network(packet, len)?;
    let expected = match kind {
        Kind::Vxlan | Kind::Geneve | Kind::Gtpu => UDP,
        Kind::Gre | Kind::Nvgre | Kind::Erspan => GRE,
        Kind::Ipip => return ip_in_ip(packet, network),
    };
    if network.protocol != expected {
        return Err(Malformed::Protocol);
    }
    let opened = match kind {
        Kind::Vxlan => vxlan(packet, udp(packet, network)?),
        Kind::Geneve => geneve(packet, udp(packet, network)?),
        Kind::Gtpu => gtpu(packet, udp(packet, network)?),
        Kind::Erspan => erspan(packet, network),
        _ => gre(kind, packet, network),
    }?;
    if opened.inner > packet.len() { Err(Malformed::Truncated) } else { Ok(opened) }
}

/// Parses the outer IP header; `inner` is its end.
fn network(packet: &[u8], len: usize) -> Result<Network, Malformed> {
    let (check, key, is_oam, options, payload) = (None, None, false, 0..0, Payload::Ethernet);
    if let Some(view) = Ipv4::new(packet) {
        let (inner, end) = (view.header_len(), usize::from(view.total_len()));
        if !view.is_checksum_valid() || view.is_fragment() || view.has_source_route() {
            return Err(Malformed::Network);
        }
        let (source, destination) = view.source_and_destination();
        let (source, destination) = (source.into(), destination.into());
        let (tos, ttl) = (view.traffic_class(), view.ttl());
        let opened = Opened { source, destination, tos, ttl, key, is_oam, inner, options, payload, check };
        return within(Network { opened, protocol: view.protocol(), end }, len);
    }
    let view = Ipv6::new(packet).ok_or(Malformed::Truncated)?;
    let upper = view.upper_layer().ok_or(Malformed::Truncated)?;
    if upper.is_fragment || view.must_discard() {
        return Err(Malformed::Network);
    }
    let end = wire::IPV6_HEADER + usize::from(view.payload_len());
    let (source, destination) = view.source_and_destination();
    let (source, destination) = (source.into(), destination.into());
    let (tos, ttl) = (view.traffic_class(), view.hop_limit());
    let inner = upper.at;
    let opened = Opened { source, destination, tos, ttl, key, is_oam, inner, options, payload, check };
    within(Network { opened, protocol: upper.protocol, end }, len)
}

fn within(network: Network, len: usize) -> Result<Network, Malformed> {
    let fits = (network.opened.inner..=len).contains(&network.end);
    if fits { Ok(network) } else { Err(Malformed::Truncated) }
}

/// Parses the UDP header; `inner` and `end` are those of its payload.
fn udp(packet: &[u8], mut network: Network) -> Result<Network, Malformed> {
    let at = network.opened.inner;
    let header = packet.get(at..).and_then(Udp::new).ok_or(Malformed::Truncated)?;
    let end = at + usize::from(header.len());
    if end > network.end {
        return Err(Malformed::Truncated);
    }
    // Without a checksum also in IPv6, which RFC 6935 permits to tunnels.
    if header.has_checksum() {
        let pseudo = pseudo(packet, &network.opened, header.len());
        network.opened.check = Some(Check { pseudo, range: at..end });
    }
    (network.opened.inner, network.end) = (at + wire::UDP_HEADER, end);
    Ok(network)
}

fn pseudo(packet: &[u8], opened: &Opened, len: u16) -> Sum {
    let addresses = if opened.source.is_ipv4() { 12..20 } else { 8..40 };
    Sum::pseudo(packet.get(addresses).unwrap_or_default(), UDP, len.into())
}

/// The header of a tunnel.
fn header<const N: usize>(packet: &[u8], network: &Network) -> Result<[u8; N], Malformed> {
    let at = network.opened.inner;
    let header = packet.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Malformed::Truncated)?;
    if at + N > network.end { Err(Malformed::Truncated) } else { Ok(*header) }
}

fn vxlan(packet: &[u8], network: Network) -> Result<Opened, Malformed> {
    let [flags, _, _, _, vni @ ..] = header::<8>(packet, &network)?;
    if flags & 0x08 == 0 {
        return Err(Malformed::Flags);
    }
    let inner = network.opened.inner + 8;
    Ok(Opened { key: Some(u32::from_be_bytes(vni) >> 8), inner, ..network.opened })
}

fn geneve(packet: &[u8], network: Network) -> Result<Opened, Malformed> {
    let [first, flags, high, low, vni @ ..] = header::<8>(packet, &network)?;
    if first >> 6 != 0 {
        return Err(Malformed::Flags);
    }
    if u16::from_be_bytes([high, low]) != ETHERNET {
        return Err(Malformed::Payload);
    }
    let at = network.opened.inner + 8;
    let inner = at + usize::from(first & 0x3f) * 4;
    let options = packet.get(at..inner).filter(|_| inner <= network.end).ok_or(Malformed::Truncated)?;
    // Which critical ones are known depends on the tunnel.
    geneve_options(options).try_for_each(|option| option.map(drop))?;
    let key = Some(u32::from_be_bytes(vni) >> 8);
    Ok(Opened { key, is_oam: flags & 0x80 != 0, inner, options: at..inner, ..network.opened })
}

fn gre(kind: Kind, packet: &[u8], mut network: Network) -> Result<Opened, Malformed> {
    let at = network.opened.inner;
    let [high, low, protocol @ ..] = header::<4>(packet, &network)?;
    let flags = u16::from_be_bytes([high, low]);
    let (has_sum, has_key, has_sequence) = (flags & 0x8000 != 0, flags & 0x2000 != 0, flags & 0x1000 != 0);
    let is_nvgre = kind == Kind::Nvgre;
    if flags & 0x4fff != 0 || is_nvgre && flags != 0x2000 {
        return Err(Malformed::Flags);
    }
    if u16::from_be_bytes(protocol) != ETHERNET {
        return Err(Malformed::Payload);
    }
    let mut inner = at + 4;
    if has_sum {
        network.opened.check = Some(Check { pseudo: Sum::default(), range: at..network.end });
        inner += 4;
    }
    let key = has_key.then(|| packet.get(inner..)?.first_chunk().map(|key| u32::from_be_bytes(*key)));
    let key = key.map(|key| key.ok_or(Malformed::Truncated)).transpose()?;
    inner += 4 * (usize::from(has_key) + usize::from(has_sequence));
    if inner > network.end {
        return Err(Malformed::Truncated);
    }
    Ok(Opened { key: key.map(|key| if is_nvgre { key >> 8 } else { key }), inner, ..network.opened })
}

fn erspan(packet: &[u8], network: Network) -> Result<Opened, Malformed> {
    let [high, low, protocol_high, protocol_low, _, _, _, _, first, _, session @ .., _, _, _, _] =
        header::<16>(packet, &network)?;
    // Of GRE, a sequence number and nothing else; type II has version 1.
    if [high, low] != [0x10, 0] || first >> 4 != 1 {
        return Err(Malformed::Flags);
    }
    if u16::from_be_bytes([protocol_high, protocol_low]) != ERSPAN {
        return Err(Malformed::Payload);
    }
    let key = Some(u32::from(u16::from_be_bytes(session) & 0x3ff));
    Ok(Opened { key, inner: network.opened.inner + 16, ..network.opened })
}

fn ip_in_ip(packet: &[u8], network: Network) -> Result<Opened, Malformed> {
    let payload = match network.protocol {
        IPV4 => Payload::Ipv4,
        IPV6 => Payload::Ipv6,
        _ => return Err(Malformed::Protocol),
    };
    if version(packet, &network, network.opened.inner)? == payload {
        Ok(Opened { payload, ..network.opened })
    } else {
        Err(Malformed::Payload)
    }
}

/// Version of an inner IP packet.
fn version(packet: &[u8], network: &Network, inner: usize) -> Result<Payload, Malformed> {
    let first = packet.get(inner).filter(|_| inner < network.end).ok_or(Malformed::Truncated)?;
    match first >> 4 {
        4 => Ok(Payload::Ipv4),
        6 => Ok(Payload::Ipv6),
        _ => Err(Malformed::Payload),
    }
}

fn gtpu(packet: &[u8], network: Network) -> Result<Opened, Malformed> {
    const G_PDU: u8 = 255;
    let at = network.opened.inner;
    let [flags, message, high, low, teid @ ..] = header::<8>(packet, &network)?;
    // Version 1, protocol type GTP.
    if flags & 0xf0 != 0x30 {
        return Err(Malformed::Flags);
    }
    if message != G_PDU {
        return Err(Malformed::Payload);
    }
    let end = at + 8 + usize::from(u16::from_be_bytes([high, low]));
    if end > network.end {
        return Err(Malformed::Truncated);
    }
    let network = Network { end, ..network };
    let inner = if flags & 0x07 == 0 { at + 8 } else { gtpu_extensions(packet, at + 8, flags)? };
    let payload = version(packet, &network, inner)?;
    Ok(Opened { key: Some(u32::from_be_bytes(teid)), inner, payload, ..network.opened })
}

/// End of the optional fields at `at` and of the extension headers (3GPP TS 29.281 section 5.2).
fn gtpu_extensions(packet: &[u8], at: usize, flags: u8) -> Result<usize, Malformed> {
    let byte = |at: usize| packet.get(at).copied().ok_or(Malformed::Truncated);
    let (mut inner, mut next) = (at + 4, if flags & 0x04 == 0 { 0 } else { byte(at + 3)? });
    for _ in 0..MAX_EXTENSIONS {
        if next == 0 {
            return Ok(inner);
        }
        let len = usize::from(byte(inner)?) * 4;
        // The two high bits of the type say that an endpoint must know it.
        if len == 0 || next & 0xc0 == 0xc0 {
            return Err(Malformed::Options);
        }
        inner += len;
        next = byte(inner - 1)?;
    }
    if next == 0 { Ok(inner) } else { Err(Malformed::Options) }
}
