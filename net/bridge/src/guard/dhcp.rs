//! DHCP snooping: recognises server messages, validates client messages, extracts leases from replies.
//!
//! A message is recognised by its source or destination port, because a receiver checks only its own port.

use super::Inspected;
use super::leases::Leases;
use super::packet::{Ip, Upper};
use port::DropReason;
use std::net::{IpAddr, Ipv4Addr};
use wire::{Dhcp, Dhcpv6, Ethernet, MacAddress};

const SERVER: u16 = 67;
const CLIENT: u16 = 68;
const CLIENT_V6: u16 = 546;
const SERVER_V6: u16 = 547;
/// Maximum number of addresses recorded per reply.
const MAX_LEASES: usize = 8;

/// Leases granted by one server message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) client: MacAddress,
    /// Addresses with lease times in seconds; 0 ends the lease.
    pub(crate) leases: Vec<(IpAddr, u32)>,
}

fn ports(ip: &Ip) -> Option<(u16, u16)> {
    match ip.upper {
        Upper::Udp { source, destination, .. } => Some((source, destination)),
        _ => None,
    }
}

/// Whether a client would accept this packet as a server message.
pub(super) fn is_from_server(ip: &Ip) -> bool {
    let (server, client) = if ip.source.is_ipv4() { (SERVER, CLIENT) } else { (SERVER_V6, CLIENT_V6) };
    ports(ip).is_some_and(|(source, destination)| source == server || destination == client)
}

/// Whether a server would accept this packet as a client message.
pub(super) fn is_to_server(ip: &Ip) -> bool {
    let server = if ip.source.is_ipv4() { SERVER } else { SERVER_V6 };
    ports(ip).is_some_and(|(_, destination)| destination == server)
}

/// UDP payload, limited to the length in the IP header.
fn payload<'a>(ip: &Ip, frame: &'a [u8]) -> Option<&'a [u8]> {
    let Upper::Udp { payload, .. } = ip.upper else { return None };
    frame.get(payload..ip.end.min(frame.len()))
}

/// Validates a client message: the client must act only for its own MAC address. Ends leases that the client releases.
/// Returns the client's IPv4 address from the message; `None` for IPv6.
pub(super) fn client(
    ip: &Ip,
    seen: &mut Inspected<'_>,
    leases: Option<&Leases>,
) -> Result<Option<Ipv4Addr>, DropReason> {
    let source = seen.source;
    let frame = if ip.is_whole { seen.whole() } else { None };
    let payload = frame.and_then(|frame| payload(ip, frame)).ok_or(DropReason::DhcpViolation)?;
    match ip.source {
        IpAddr::V4(_) => client_v4(payload, source, leases).map(Some),
        IpAddr::V6(_) => client_v6(payload, leases).map(|()| None),
    }
}

fn client_v4(payload: &[u8], source: MacAddress, leases: Option<&Leases>) -> Result<Ipv4Addr, DropReason> {
    let message = Dhcp::new(payload).ok_or(DropReason::DhcpViolation)?;
    let own = message.client_mac() == source && message.relay_address().is_unspecified();
    if !own || message.operation() != Dhcp::REQUEST {
        return Err(DropReason::DhcpViolation);
    }
    let given_back = match message.message_type() {
        Some(Dhcp::RELEASE) => Some(message.client_address()),
        Some(Dhcp::DECLINE) => message.requested_address(),
        _ => None,
    };
    let kept = given_back.into_iter().all(|ip| leases.is_none_or(|leases| leases.release(ip.into())));
    if kept { Ok(message.client_address()) } else { Err(DropReason::DhcpViolation) }
}

fn client_v6(payload: &[u8], leases: Option<&Leases>) -> Result<(), DropReason> {
    let message = Dhcpv6::new(payload).ok_or(DropReason::DhcpViolation)?;
    let gives_back = matches!(message.kind(), Dhcpv6::RELEASE | Dhcpv6::DECLINE);
    let mut given_back = message.addresses().filter(|_| gives_back);
    let kept = given_back.all(|(ip, _)| leases.is_none_or(|leases| leases.release(ip.into())));
    if kept { Ok(()) } else { Err(DropReason::DhcpViolation) }
}

/// Leases granted by a server message, if any.
pub(super) fn reply(ip: &Ip, seen: &mut Inspected<'_>) -> Option<Reply> {
    if !ip.is_whole {
        return None;
    }
    let frame = seen.whole()?;
    let payload = payload(ip, frame)?;
    match ip.source {
        IpAddr::V4(_) => reply_v4(payload),
        IpAddr::V6(_) => reply_v6(payload, Ethernet::new(frame).ok()?.destination()),
    }
}

fn reply_v4(payload: &[u8]) -> Option<Reply> {
    let message = Dhcp::new(payload)?;
    let leases = message.operation() == Dhcp::REPLY && message.message_type() == Some(Dhcp::ACK);
    let (ip, seconds) = (message.your_address(), message.lease_seconds()?);
    let leases = leases && !ip.is_unspecified();
    leases.then(|| Reply { client: message.client_mac(), leases: vec![(ip.into(), seconds)] })
}

/// A reply is sent to the client's MAC address: the message itself identifies the client by another identifier.
fn reply_v6(payload: &[u8], client: MacAddress) -> Option<Reply> {
    let message = Dhcpv6::new(payload).filter(|message| message.kind() == Dhcpv6::REPLY)?;
    let leases: Vec<_> =
        message.addresses().take(MAX_LEASES).map(|(ip, seconds)| (ip.into(), seconds)).collect();
    (!leases.is_empty()).then_some(Reply { client, leases })
}
