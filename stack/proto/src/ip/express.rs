//! The common form of received packets: to the interface's own Ethernet address, without VLAN tag, IP options,
//! extension headers and fragmentation.
//!
//! A packet of this form that belongs to a known connection needs no further checks: its addresses were checked when
//! the connection was created. All others are processed by [`super::input`].

use super::{InterfaceId, Ip, Packet};
use crate::{Address, Frame, Payload};
use wire::checksum::{Sum, protocol};
use wire::{EtherType, HEADER_LEN, IPV4_HEADER, IPV6_HEADER};

/// Ethernet and IPv4 header.
const HEAD4: usize = HEADER_LEN + IPV4_HEADER;
const HEAD6: usize = HEADER_LEN + IPV6_HEADER;

impl<P: Payload> Ip<P> {
    /// The TCP segment of a frame of the common form. Does not validate addresses.
    #[inline]
    pub(crate) fn express<F: Frame<Payload = P>>(&self, id: InterfaceId, frame: &F) -> Option<Packet> {
        let (head, config) = (frame.head(), &self.interfaces.get(id)?.config);
        let destination = head.first_chunk::<6>()?;
        if *destination != config.mac.octets() || config.vlan.is_some() {
            return None;
        }
        match EtherType(u16::from_be_bytes(*head.get(12..)?.first_chunk()?)) {
            EtherType::IPV4 => ipv4(id, head.first_chunk()?, frame.len()),
            EtherType::IPV6 => ipv6(id, head.first_chunk()?, frame.len()),
            _ => None,
        }
    }
}

#[inline(always)]
fn ipv4(interface: InterfaceId, head: &[u8; HEAD4], len: usize) -> Option<Packet> {
    let header: &[u8; IPV4_HEADER] = head[HEADER_LEN..].first_chunk()?;
    let end = HEADER_LEN + usize::from(u16::from_be_bytes([header[2], header[3]]));
    let is_fragment = (header[6] & 0x3f) | header[7] != 0;
    let is_common = header[0] == 0x45 && !is_fragment && header[9] == protocol::TCP;
    if !is_common || end < HEAD4 || end > len || Sum::of(header).finish() != [0, 0] {
        return None;
    }
    let address = |at: usize| header[at..].first_chunk().copied().map(Address::v4);
    Some(Packet {
        interface,
        source: address(12)?,
        destination: address(16)?,
        protocol: protocol::TCP,
        transport: HEAD4,
        end,
        ecn: header[1] & 3,
        is_group: false,
    })
}

#[inline]
fn ipv6(interface: InterfaceId, head: &[u8; HEAD6], len: usize) -> Option<Packet> {
    let header: &[u8; IPV6_HEADER] = head[HEADER_LEN..].first_chunk()?;
    let end = HEAD6 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || header[6] != protocol::TCP || end > len {
        return None;
    }
    let source = Address::v6(*header[8..].first_chunk()?);
    let destination = Address::v6(*header[24..].first_chunk()?);
    // An IPv4-mapped address would be taken for that of an IPv4 connection.
    (!source.is_v4() && !destination.is_v4()).then_some(Packet {
        interface,
        source,
        destination,
        protocol: protocol::TCP,
        transport: HEAD6,
        end,
        ecn: header[1] >> 4 & 3,
        is_group: false,
    })
}
