//! Port security: validates packets from a guarded port before the bridge learns or forwards.
//!
//! `packet` parses headers from the private head, this module applies the port's rules, `leases` stores the DHCP leases
//! of a port, `dhcp` snoops server messages. Packets that cannot be parsed are dropped, except on trusted ports without
//! a source guard. A port without rules has no guard.

mod dhcp;
mod leases;
mod packet;
#[cfg(test)]
mod tests;

pub(super) use dhcp::Reply;

use super::allowed::AllowedSource;
use super::config::{BridgeConfig, PortConfig};
use leases::Leases;
use packet::{Ip, Packet, Upper};
use port::DropReason;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::{Arp, MacAddress, Nd, NdKind};

/// Maximum length of frames whose payload is inspected, in bytes; sufficient for DHCP and Neighbor Discovery.
pub(super) const MAX_INSPECTED: usize = 2048;

/// ICMPv6 types of Multicast Listener Discovery (RFC 2710, RFC 3810).
const LISTENER: [u8; 4] = [130, 131, 132, 143];

/// Security rules of one port.
pub(super) struct Guard {
    /// Allowed source MAC addresses; empty: all.
    macs: Vec<MacAddress>,
    sources: Option<Sources>,
    servers: Servers,
    trusted: bool,
}

/// Allowed IP source addresses.
struct Sources {
    networks: Vec<AllowedSource>,
    leases: Option<Leases>,
}

/// Handling of DHCP server messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Servers {
    Allowed,
    Denied,
    /// Allowed, and their leases are recorded.
    Followed,
}

/// A packet under inspection.
pub(super) struct Inspected<'a> {
    pub(super) source: MacAddress,
    /// Private copy of its first bytes.
    pub(super) head: &'a [u8],
    pub(super) second: u32,
    /// Copies the frame as far as it fits and returns its length.
    pub(super) copy: &'a dyn Fn(&mut [u8]) -> usize,
    /// Destination buffer of `copy`.
    pub(super) scratch: &'a mut [u8; MAX_INSPECTED],
}

impl Inspected<'_> {
    /// The whole frame in private memory. Returns `None` if it is longer than [`MAX_INSPECTED`].
    fn whole(&mut self) -> Option<&[u8]> {
        let len = (self.copy)(&mut self.scratch[..]);
        self.scratch.get(..len)
    }
}

impl Guard {
    /// The guard of a port. Returns `None` if the port has no rules.
    pub(super) fn of(bridge: &BridgeConfig, port: &PortConfig) -> Option<Box<Self>> {
        let servers = match (port.trusted, bridge.dhcp_snooping) {
            (true, true) => Servers::Followed,
            (false, true) => Servers::Denied,
            (false, false) if port.sources.is_some() => Servers::Denied,
            (_, false) => Servers::Allowed,
        };
        let guard = Self {
            macs: port.macs.clone(),
            sources: port.sources.as_deref().map(Sources::of),
            servers,
            trusted: port.trusted,
        };
        let needed = !guard.macs.is_empty() || guard.sources.is_some() || servers != Servers::Allowed;
        needed.then(|| Box::new(guard))
    }

    /// Validates one packet. Returns the DHCP reply if its leases must be recorded.
    pub(super) fn inspect(&self, seen: &mut Inspected<'_>) -> Result<Option<Reply>, DropReason> {
        if !self.macs.is_empty() && !self.macs.contains(&seen.source) {
            return Err(DropReason::MacViolation);
        }
        if self.sources.is_none() && self.servers == Servers::Allowed {
            return Ok(None);
        }
        match Packet::of(seen.head) {
            Ok(Packet::Ip(ip)) => self.ip(&ip, seen),
            Ok(Packet::Arp(packet)) => self.arp(packet, seen).map(|()| None),
            Ok(Packet::Other) if self.sources.is_none() => Ok(None),
            Err(_) if self.sources.is_none() && self.trusted => Ok(None),
            Err(_) if self.sources.is_none() => Err(DropReason::DhcpViolation),
            Ok(Packet::Other) | Err(_) => Err(DropReason::SourceViolation),
        }
    }

    fn ip(&self, ip: &Ip, seen: &mut Inspected<'_>) -> Result<Option<Reply>, DropReason> {
        let sends_as_server = dhcp::is_from_server(ip);
        if sends_as_server && self.servers == Servers::Denied {
            return Err(DropReason::DhcpViolation);
        }
        let asks = dhcp::is_to_server(ip) && !self.trusted;
        let speaks_from = if asks { dhcp::client(ip, seen, self.leases())? } else { None };
        if let Some(sources) = &self.sources {
            self.source(sources, ip, speaks_from, seen)?;
        }
        let followed = sends_as_server && self.servers == Servers::Followed;
        Ok(if followed { dhcp::reply(ip, seen) } else { None })
    }

    /// IP source guard. `speaks_from` is the client address in the client's own DHCP message.
    fn source(
        &self,
        sources: &Sources,
        ip: &Ip,
        speaks_from: Option<Ipv4Addr>,
        seen: &mut Inspected<'_>,
    ) -> Result<(), DropReason> {
        let allowed = match ip.source {
            // A client without an address, or one that renews its lease: the server decides.
            IpAddr::V4(v4) if speaks_from == Some(v4) => true,
            IpAddr::V4(_) => sources.allow(ip.source, seen.second),
            IpAddr::V6(v6) if v6.is_unspecified() => may_be_unspecified(ip),
            IpAddr::V6(v6) => sources.allow_v6(v6, seen.source, seen.second),
        };
        if !allowed {
            return Err(DropReason::SourceViolation);
        }
        match ip.upper {
            Upper::Icmpv6 { kind, at } if NdKind::of(kind).is_some() => self.nd(sources, ip, at, seen),
            _ => Ok(()),
        }
    }

    fn nd(&self, sources: &Sources, ip: &Ip, at: usize, seen: &mut Inspected<'_>) -> Result<(), DropReason> {
        let (source, second) = (seen.source, seen.second);
        let frame = if ip.is_whole { seen.whole() } else { None };
        let message = frame.and_then(|frame| Nd::new(frame.get(at..ip.end)?));
        let message = message.ok_or(DropReason::NdViolation)?;
        let from_router = matches!(message.kind(), NdKind::RouterAdvertisement | NdKind::Redirect);
        if from_router {
            return if self.trusted { Ok(()) } else { Err(DropReason::NdViolation) };
        }
        let owns = |target: Ipv6Addr| sources.allow_v6(target, source, second);
        let advertises = message.kind() == NdKind::NeighborAdvertisement;
        let honest = message.link_layers().all(|mac| mac == source)
            && !(ip.source.is_unspecified() && message.link_layers().next().is_some())
            && (!advertises || message.target().is_some_and(owns));
        if honest { Ok(()) } else { Err(DropReason::NdViolation) }
    }

    fn arp(&self, packet: &[u8], seen: &Inspected<'_>) -> Result<(), DropReason> {
        let Some(sources) = &self.sources else { return Ok(()) };
        let packet = Arp::new(packet).ok_or(DropReason::ArpViolation)?;
        let ip = packet.sender_ip();
        let is_probe = ip.is_unspecified() && packet.operation() != Arp::REPLY;
        let honest =
            packet.sender_mac() == seen.source && (is_probe || sources.allow(ip.into(), seen.second));
        if honest { Ok(()) } else { Err(DropReason::ArpViolation) }
    }

    fn leases(&self) -> Option<&Leases> {
        self.sources.as_ref()?.leases.as_ref()
    }

    /// Whether DHCP leases are recorded for this port.
    pub(super) fn has_leases(&self) -> bool {
        self.leases().is_some()
    }

    /// Whether `ip` is leased to this port.
    pub(super) fn holds(&self, ip: IpAddr, second: u32) -> bool {
        self.leases().is_some_and(|leases| leases.contains(ip, second))
    }

    /// All leases of this port, each with the second at which it ends.
    pub(super) fn all_leases(&self, second: u32) -> Vec<(IpAddr, u32)> {
        self.leases().map_or_else(Vec::new, |leases| leases.all(second).collect())
    }

    /// Records a lease for this port. Returns `false` if it could not be recorded.
    pub(super) fn bind(&self, ip: IpAddr, second: u32, seconds: u32) -> bool {
        self.leases().is_none_or(|leases| leases.bind(ip, second, seconds))
    }

    /// Ends a lease of this port. Returns `false` if it could not be recorded.
    pub(super) fn release(&self, ip: IpAddr) -> bool {
        self.leases().is_none_or(|leases| leases.release(ip))
    }
}

/// Whether a packet may have the unspecified source address: solicitations and listener reports.
fn may_be_unspecified(ip: &Ip) -> bool {
    let Upper::Icmpv6 { kind, .. } = ip.upper else { return false };
    let solicits =
        matches!(NdKind::of(kind), Some(NdKind::NeighborSolicitation | NdKind::RouterSolicitation));
    solicits || LISTENER.contains(&kind)
}

impl Sources {
    fn of(list: &[AllowedSource]) -> Self {
        let networks = list.iter().copied().filter(|source| *source != AllowedSource::Dhcp).collect();
        Self { networks, leases: list.contains(&AllowedSource::Dhcp).then(Leases::default) }
    }

    fn allow(&self, ip: IpAddr, second: u32) -> bool {
        self.networks.iter().any(|network| network.contains(ip))
            || self.leases.as_ref().is_some_and(|leases| leases.contains(ip, second))
    }

    /// [`Sources::allow`], plus the link-local address derived from the sender's MAC address.
    fn allow_v6(&self, ip: Ipv6Addr, sender: MacAddress, second: u32) -> bool {
        let mapped = ip.to_ipv4_mapped().is_some();
        !mapped && (ip == link_local(sender) || self.allow(ip.into(), second))
    }
}

/// Link-local address derived from a MAC address (modified EUI-64, RFC 4291, appendix A).
fn link_local(mac: MacAddress) -> Ipv6Addr {
    const PREFIX: u128 = 0xfe80 << 112;
    let mac = u128::from(mac.to_u64());
    // OUI, ff:fe, NIC-specific octets; the U/L bit is inverted.
    let identifier = (mac >> 24) << 40 | 0xff_fe00_0000 | mac & 0xff_ffff;
    Ipv6Addr::from_bits(PREFIX | identifier ^ 1 << 57)
}
