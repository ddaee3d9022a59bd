//! Neighbor Discovery for IPv6 (RFC 4861 section 4): five ICMPv6 messages and their link-layer address options.

use crate::MacAddress;
use core::net::Ipv6Addr;

const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;
/// Unit of option lengths, in bytes.
const UNIT: usize = 8;

/// Neighbor Discovery message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdKind {
    /// Router Solicitation.
    RouterSolicitation,
    /// Router Advertisement.
    RouterAdvertisement,
    /// Neighbor Solicitation.
    NeighborSolicitation,
    /// Neighbor Advertisement.
    NeighborAdvertisement,
    /// Redirect.
    Redirect,
}

impl NdKind {
    /// The message of this ICMPv6 type. Returns `None` if it is not Neighbor Discovery.
    pub const fn of(icmp_type: u8) -> Option<Self> {
        match icmp_type {
            133 => Some(Self::RouterSolicitation),
            134 => Some(Self::RouterAdvertisement),
            135 => Some(Self::NeighborSolicitation),
            136 => Some(Self::NeighborAdvertisement),
            137 => Some(Self::Redirect),
            _ => None,
        }
    }

    /// Length before the options, in bytes.
    const fn header_len(self) -> usize {
        match self {
            Self::RouterSolicitation => 8,
            Self::RouterAdvertisement => 16,
            Self::NeighborSolicitation | Self::NeighborAdvertisement => 24,
            Self::Redirect => 40,
        }
    }
}

/// Flags of a Neighbor Advertisement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NaFlags {
    /// The sender is a router.
    pub router: bool,
    /// The message answers a solicitation.
    pub solicited: bool,
    /// The address replaces a known one.
    pub overrides: bool,
}

/// Length of the messages of [`neighbor_solicitation`] and [`neighbor_advertisement`], in bytes.
pub const NEIGHBOR_MESSAGE: usize = 32;

/// A Neighbor Solicitation with the source's link-layer address, and checksum 0.
#[must_use]
pub fn neighbor_solicitation(target: Ipv6Addr, source: MacAddress) -> [u8; NEIGHBOR_MESSAGE] {
    neighbor_message(135, 0, target, SOURCE_LINK_LAYER, source)
}

/// A Neighbor Advertisement with the target's link-layer address, and checksum 0.
#[must_use]
pub fn neighbor_advertisement(target: Ipv6Addr, mac: MacAddress, flags: NaFlags) -> [u8; NEIGHBOR_MESSAGE] {
    let bits = u8::from(flags.router) << 7 | u8::from(flags.solicited) << 6 | u8::from(flags.overrides) << 5;
    neighbor_message(136, bits, target, TARGET_LINK_LAYER, mac)
}

fn neighbor_message(
    kind: u8,
    flags: u8,
    target: Ipv6Addr,
    option: u8,
    mac: MacAddress,
) -> [u8; NEIGHBOR_MESSAGE] {
    let mut message = [0; NEIGHBOR_MESSAGE];
    (message[0], message[4]) = (kind, flags);
    message[8..24].copy_from_slice(&target.octets());
    (message[24], message[25]) = (option, 1);
    message[26..].copy_from_slice(&mac.octets());
    message
}

/// A Neighbor Discovery message with valid options.
#[derive(Clone, Copy, Debug)]
pub struct Nd<'a> {
    kind: NdKind,
    message: &'a [u8],
}

impl<'a> Nd<'a> {
    /// Returns `None` if type, length or an option is invalid. `message` starts at the ICMPv6 type and ends with the
    /// packet.
    pub fn new(message: &'a [u8]) -> Option<Self> {
        let kind = NdKind::of(*message.first()?)?;
        let mut options = message.get(kind.header_len()..)?;
        while !options.is_empty() {
            options = option(options)?.1;
        }
        Some(Self { kind, message })
    }

    /// Message type.
    pub fn kind(&self) -> NdKind {
        self.kind
    }

    /// Target address of a Neighbor Solicitation or Advertisement; `None` for other messages.
    pub fn target(&self) -> Option<Ipv6Addr> {
        let has = matches!(self.kind, NdKind::NeighborSolicitation | NdKind::NeighborAdvertisement);
        let octets = self.message.get(8..)?.first_chunk::<16>()?;
        has.then(|| Ipv6Addr::from(*octets))
    }

    /// Router, solicited and override flag of a Neighbor Advertisement; all false for other messages.
    pub fn flags(&self) -> NaFlags {
        let bits = match self.kind {
            NdKind::NeighborAdvertisement => self.message.get(4).copied().unwrap_or_default(),
            _ => 0,
        };
        NaFlags { router: bits & 0x80 != 0, solicited: bits & 0x40 != 0, overrides: bits & 0x20 != 0 }
    }

    /// Addresses of all source and target link-layer address options.
    pub fn link_layers(&self) -> impl Iterator<Item = MacAddress> + use<'a> {
        let mut options = self.message.get(self.kind.header_len()..).unwrap_or_default();
        core::iter::from_fn(move || {
            let (found, rest) = option(options)?;
            options = rest;
            Some(found)
        })
        .flatten()
    }
}

/// Parses the first option: its link-layer address, if it has one, and the remaining options. Returns `None` if it is
/// malformed or the address is not 48 bits.
fn option(options: &[u8]) -> Option<(Option<MacAddress>, &[u8])> {
    let (kind, len) = (*options.first()?, usize::from(*options.get(1)?) * UNIT);
    let (option, rest) = options.split_at_checked(len).filter(|_| len > 0)?;
    let holds = matches!(kind, SOURCE_LINK_LAYER | TARGET_LINK_LAYER);
    if holds && len != UNIT {
        return None;
    }
    let octets = option[2..].first_chunk::<6>().filter(|_| holds);
    Some((octets.map(|octets| MacAddress::new(*octets)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;

    fn solicitation(options: &[u8]) -> Vec<u8> {
        let target: Ipv6Addr = "fe80::5".parse().unwrap();
        [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target.octets(), options].concat()
    }

    #[test]
    fn target_and_link_layer_addresses_are_parsed() {
        let message = solicitation(&[14, 1, 1, 2, 3, 4, 5, 6, 1, 1, 2, 0, 0, 0, 0, 9]);
        let view = Nd::new(&message).unwrap();
        assert_eq!(view.kind(), NdKind::NeighborSolicitation);
        assert_eq!(view.target(), Some("fe80::5".parse().unwrap()));
        assert_eq!(view.link_layers().collect::<Vec<_>>(), [MacAddress::new([2, 0, 0, 0, 0, 9])]);
    }

    #[test]
    fn built_messages_are_parsed() {
        let (target, mac) = ("fe80::5".parse().unwrap(), MacAddress::new([2, 0, 0, 0, 0, 9]));
        let flags = NaFlags { router: false, solicited: true, overrides: true };
        for (bytes, kind, flags) in [
            (neighbor_solicitation(target, mac), NdKind::NeighborSolicitation, NaFlags::default()),
            (neighbor_advertisement(target, mac, flags), NdKind::NeighborAdvertisement, flags),
        ] {
            let view = Nd::new(&bytes).unwrap();
            assert_eq!((view.kind(), view.target(), view.flags()), (kind, Some(target), flags));
            assert_eq!(view.link_layers().collect::<Vec<_>>(), [mac]);
        }
    }

    #[test]
    fn invalid_options_are_rejected() {
        let wrong: [&[u8]; 5] = [
            &[1],
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &[1, 2, 0, 0, 0, 0, 0, 0],
            &[1, 1, 0, 0, 0],
            &[1, 2, 2, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0],
        ];
        for options in wrong {
            assert!(Nd::new(&solicitation(options)).is_none(), "{options:?}");
        }
        assert!(Nd::new(&solicitation(&[])[..23]).is_none() && Nd::new(&[128; 24]).is_none());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(kind in 132u8..139, rest in prop::collection::vec(0u8..4, 0..100)) {
            let message = [&[kind][..], &rest].concat();
            if let Some(view) = Nd::new(&message) {
                prop_assert!(view.link_layers().count() <= message.len() / UNIT);
                let _ = (view.target(), view.flags());
            }
        }
    }
}
