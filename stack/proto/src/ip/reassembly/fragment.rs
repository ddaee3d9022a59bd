//! A received fragment: its headers, and its place in the packet.

use super::Reassembled;
use crate::Address;
use crate::ip::InterfaceId;
use core::ops::Range;
use wire::{FRAGMENT_HEADER, IPV6_HEADER, Ipv4, Ipv6, Ipv6Fragment};

pub(super) const HOP_BY_HOP: u8 = 0;
pub(super) const ROUTING: u8 = 43;
pub(super) const FRAGMENT: u8 = 44;
pub(super) const DESTINATION: u8 = 60;
/// Maximum number of extension headers parsed.
pub(super) const MAX_EXTENSIONS: usize = 8;

/// Fragments with equal keys belong to one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    interface: InterfaceId,
    source: Address,
    destination: Address,
    identification: u32,
    /// Protocol for IPv4, 0 for IPv6.
    protocol: u8,
}

/// A fragment, first or later, or a packet with the fragment header of one (RFC 6946).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment<'a> {
    key: Key,
    /// The frame before the IP header.
    pub(super) link: &'a [u8],
    /// Headers before the payload, for IPv6 including the fragment header.
    pub(super) headers: &'a [u8],
    /// Offset of the next-header field that announces the fragment header, for IPv6.
    pub(super) announced_at: usize,
    /// Protocol of the fragmented part.
    pub(super) protocol: u8,
    /// Place of the payload in the fragmented part.
    pub(super) offset: usize,
    pub(super) len: usize,
    pub(super) more: bool,
}

impl<'a> Fragment<'a> {
    /// Parses the first bytes of a frame, which must be private, with the IP header at `network`. Returns `None` if the
    /// packet is not a fragment, or the headers are incomplete. The caller has checked that the frame has as many bytes
    /// as the IP header announces.
    pub(crate) fn new(interface: InterfaceId, head: &'a [u8], network: usize) -> Option<Self> {
        let (link, packet) = head.split_at_checked(network)?;
        let fragment = match packet.first()? >> 4 {
            4 => Self::v4(interface, packet)?,
            6 => Self::v6(interface, packet)?,
            _ => return None,
        };
        Some(Self { link, ..fragment })
    }

    fn v4(interface: InterfaceId, packet: &'a [u8]) -> Option<Self> {
        let view = Ipv4::new(packet).filter(Ipv4::is_fragment)?;
        let (source, destination) = view.source_and_destination();
        let (identification, protocol) = (view.identification().into(), view.protocol());
        Some(Self {
            key: Key {
                interface,
                source: source.into(),
                destination: destination.into(),
                identification,
                protocol,
            },
            link: &[],
            headers: packet.get(..view.header_len())?,
            announced_at: 0,
            protocol,
            offset: usize::from(view.fragment_offset()) * 8,
            len: usize::from(view.total_len()).checked_sub(view.header_len())?,
            more: packet.get(6)? & 0x20 != 0,
        })
    }

    fn v6(interface: InterfaceId, packet: &'a [u8]) -> Option<Self> {
        let view = Ipv6::new(packet)?;
        let (announced_at, at) = fragment_header(packet)?;
        let header = Ipv6Fragment::new(packet.get(at..)?)?;
        let (source, destination) = view.source_and_destination();
        let identification = header.identification();
        let headers = packet.get(..at + FRAGMENT_HEADER)?;
        Some(Self {
            key: Key {
                interface,
                source: source.into(),
                destination: destination.into(),
                identification,
                protocol: 0,
            },
            link: &[],
            headers,
            announced_at,
            protocol: header.next_header(),
            offset: header.offset().into(),
            len: (IPV6_HEADER + usize::from(view.payload_len())).checked_sub(headers.len())?,
            more: header.more_fragments(),
        })
    }

    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// Range of the fragment's payload, from the start of the frame.
    pub(crate) fn payload(&self) -> Range<usize> {
        let start = self.link.len() + self.headers.len();
        start..start + self.len
    }

    /// Whether the fragment is a whole packet.
    pub(super) fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }

    pub(super) fn end(&self) -> usize {
        self.offset + self.len
    }

    pub(super) fn is_v4(&self) -> bool {
        self.key.source.is_v4()
    }

    /// ECN field of the header.
    pub(super) fn ecn(&self) -> u8 {
        let byte = self.headers.get(1).copied().unwrap_or_default();
        if self.is_v4() { byte & 3 } else { byte >> 4 & 3 }
    }

    /// Refuses fragments that can be part of no packet: lengths that are not a multiple of eight before the last one,
    /// empty ones, and those that end beyond the maximum length of a packet ("ping of death").
    pub(super) fn check(&self) -> Result<(), Reassembled> {
        let before = if self.is_v4() {
            self.headers.len()
        } else {
            self.headers.len() - IPV6_HEADER - FRAGMENT_HEADER
        };
        if self.more && !self.len.is_multiple_of(8) {
            return Err(self.refuse(0, 4));
        }
        if self.len == 0 && !self.is_atomic() {
            return Err(Reassembled::Discarded);
        }
        if before + self.end() > usize::from(u16::MAX) {
            return Err(self.refuse(0, self.headers.len() - FRAGMENT_HEADER + 2));
        }
        Ok(())
    }

    /// Answer to an invalid fragment; IPv4 has none.
    pub(super) fn refuse(&self, code: u8, pointer: usize) -> Reassembled {
        if self.is_v4() {
            return Reassembled::Discarded;
        }
        Reassembled::Refused { code, pointer: pointer as u32 }
    }
}

/// Offsets of the next-header field that announces the fragment header, and of the fragment header.
fn fragment_header(packet: &[u8]) -> Option<(usize, usize)> {
    let (mut announced_at, mut at) = (6, IPV6_HEADER);
    for _ in 0..MAX_EXTENSIONS {
        match *packet.get(announced_at)? {
            FRAGMENT => return Some((announced_at, at)),
            HOP_BY_HOP | ROUTING | DESTINATION => {
                (announced_at, at) = (at, at + 8 + usize::from(*packet.get(at + 1)?) * 8);
            }
            _ => return None,
        }
    }
    None
}
