//! IPv6 and its extension headers.

use super::Parser;
use crate::field::Field;
use wire::{IPV6_HEADER, Ipv6};

/// Bits of [`Field::Ipv6Exthdr`] (OpenFlow 1.3.5, 7.2.3.8, `ofp_ipv6exthdr_flags`).
mod bit {
    pub(super) const NO_NEXT: u16 = 1 << 0;
    pub(super) const ESP: u16 = 1 << 1;
    pub(super) const AUTHENTICATION: u16 = 1 << 2;
    pub(super) const DESTINATION: u16 = 1 << 3;
    pub(super) const FRAGMENT: u16 = 1 << 4;
    pub(super) const ROUTER: u16 = 1 << 5;
    pub(super) const HOP: u16 = 1 << 6;
    pub(super) const REPEATED: u16 = 1 << 7;
    pub(super) const OUT_OF_ORDER: u16 = 1 << 8;
}

/// Protocol numbers of extension headers (IANA).
mod next {
    pub(super) const HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const ESP: u8 = 50;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const NONE: u8 = 59;
    pub(super) const DESTINATION: u8 = 60;
}

/// Extension headers found, and the position of the last one in the recommended order (RFC 8200 section 4.1).
#[derive(Default)]
pub(super) struct Extensions {
    bits: u16,
    place: u8,
    destinations: u8,
}

impl Extensions {
    /// Notes a header. Destination options may occur twice: before a routing header, and last.
    pub(super) fn add(&mut self, protocol: u8) {
        let (bit, place) = match protocol {
            next::HOP => (bit::HOP, 0),
            next::DESTINATION if self.place < 2 && self.destinations == 0 => (bit::DESTINATION, 1),
            next::ROUTING => (bit::ROUTER, 2),
            next::FRAGMENT => (bit::FRAGMENT, 3),
            next::AUTHENTICATION => (bit::AUTHENTICATION, 4),
            next::ESP => (bit::ESP, 5),
            next::DESTINATION => (bit::DESTINATION, 6),
            next::NONE => (bit::NO_NEXT, 7),
            _ => return,
        };
        self.destinations += u8::from(bit == bit::DESTINATION);
        let may_repeat = bit == bit::DESTINATION && self.destinations <= 2;
        if self.bits & bit != 0 && !may_repeat {
            self.bits |= bit::REPEATED;
        }
        // Hop-by-hop options must be first, and their bit states that they are.
        if place < self.place || bit == bit::HOP && self.bits != 0 {
            self.bits |= bit::OUT_OF_ORDER;
        }
        if bit != bit::HOP || self.bits == 0 {
            self.bits |= bit;
        }
        self.place = self.place.max(place);
    }
}

/// Contents after the extension headers.
struct Upper {
    protocol: u8,
    /// Offset in the frame; `None` in a fragment other than the first, or if an extension header is too long.
    at: Option<usize>,
}

impl Parser<'_> {
    #[inline]
    pub(super) fn ipv6(&mut self, at: usize) -> Option<()> {
        let packet = self.head.get(at..)?;
        let Some(view) = Ipv6::new(packet) else { return (packet.len() >= IPV6_HEADER).then_some(()) };
        let end = at + IPV6_HEADER + usize::from(view.payload_len());
        if end > self.len {
            return Some(());
        }
        let (source, destination) = view.source_and_destination();
        self.key.set(Field::Ipv6Src, source.into());
        self.key.set(Field::Ipv6Dst, destination.into());
        self.traffic_class(view.traffic_class());
        self.key.put(Field::IpTtl, view.hop_limit().into());
        self.key.put(Field::Ipv6Flabel, view.flow_label().into());
        self.layout.network = at as u16;
        self.layout.end = end as u32;
        let mut upper = Upper { protocol: view.next_header(), at: Some(at + IPV6_HEADER) };
        let is_complete =
            if is_extension(view.next_header()) { self.extensions(&mut upper) } else { Some(()) };
        self.key.put(Field::IpProto, upper.protocol.into());
        is_complete?;
        match upper.at {
            Some(at) => self.transport::<6>(at, upper.protocol),
            None => Some(()),
        }
    }

    /// Follows the extension headers. If one is cut off, `upper` names it.
    fn extensions(&mut self, upper: &mut Upper) -> Option<()> {
        let mut found = Extensions::default();
        let is_complete = self.walk(upper, &mut found);
        self.key.put(Field::Ipv6Exthdr, found.bits.into());
        is_complete
    }

    fn walk(&mut self, upper: &mut Upper, found: &mut Extensions) -> Option<()> {
        while let Some(at) = upper.at {
            found.add(upper.protocol);
            let unit = match upper.protocol {
                next::HOP | next::DESTINATION | next::ROUTING | next::FRAGMENT => 8,
                next::AUTHENTICATION => 4,
                _ => break,
            };
            let end = self.layout.end as usize;
            if at + 8 > end {
                upper.at = None;
                break;
            }
            let header = self.bytes::<8>(at)?;
            let len = match upper.protocol {
                next::FRAGMENT => unit,
                next::AUTHENTICATION => (usize::from(header[1]) + 2) * unit,
                _ => (usize::from(header[1]) + 1) * unit,
            };
            if at + len > end {
                upper.at = None;
                break;
            }
            self.layout.is_routed |= upper.protocol == next::ROUTING && header[3] != 0;
            if upper.protocol == next::FRAGMENT && self.ipv6_fragment([header[2], header[3]]) {
                *upper = Upper { protocol: next::FRAGMENT, at: None };
                break;
            }
            *upper = Upper { protocol: header[0], at: Some(at + len) };
        }
        Some(())
    }

    /// Whether the packet is a fragment other than the first.
    fn ipv6_fragment(&mut self, offset_and_flags: [u8; 2]) -> bool {
        let (offset, more) = (u16::from_be_bytes(offset_and_flags) & 0xfff8, offset_and_flags[1] & 1);
        if offset != 0 || more != 0 {
            self.fragment(offset != 0);
        }
        offset != 0
    }
}

#[inline(always)]
fn is_extension(protocol: u8) -> bool {
    matches!(protocol, next::HOP | next::ROUTING | next::FRAGMENT)
        || matches!(protocol, next::ESP | next::AUTHENTICATION | next::NONE | next::DESTINATION)
}
