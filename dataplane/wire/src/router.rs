//! Router discovery and address configuration of IPv6 (RFC 4861 sections 4.1, 4.2 and 4.6, RFC 4862).

use crate::MacAddress;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// Length of an advertisement before its options, in bytes.
const HEADER: usize = 16;
/// Unit of option lengths, in bytes.
const UNIT: usize = 8;
const SOLICITATION: u8 = 133;
const ADVERTISEMENT: u8 = 134;
const NEIGHBOR_SOLICITATION: u8 = 135;
const SOURCE_LINK_LAYER: u8 = 1;
const PREFIX: u8 = 3;
const MTU: u8 = 5;

/// A Router Advertisement with valid options.
#[derive(Clone, Copy, Debug)]
pub struct RouterAdvertisement<'a> {
    header: &'a [u8; HEADER],
    options: &'a [u8],
}

/// A Prefix Information option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInformation {
    /// Prefix. Bits after the prefix length are not checked.
    pub prefix: Ipv6Addr,
    /// Prefix length in bits, at most 128.
    pub len: u8,
    /// Whether addresses of the prefix are on the link.
    pub on_link: bool,
    /// Whether hosts form addresses with the prefix.
    pub autonomous: bool,
    /// Valid lifetime in seconds; `u32::MAX` for infinity.
    pub valid_seconds: u32,
    /// Preferred lifetime in seconds; `u32::MAX` for infinity.
    pub preferred_seconds: u32,
}

impl<'a> RouterAdvertisement<'a> {
    /// Returns `None` if type, code, length or an option is invalid. `message` starts at the ICMPv6 type and ends with
    /// the packet.
    pub fn new(message: &'a [u8]) -> Option<Self> {
        let (header, options) = message.split_first_chunk::<HEADER>()?;
        let mut rest = options;
        while !rest.is_empty() {
            rest = option(rest)?.2;
        }
        (header[..2] == [ADVERTISEMENT, 0]).then_some(Self { header, options })
    }

    /// Hop limit of packets to send; 0 if unspecified.
    pub fn hop_limit(&self) -> u8 {
        self.header[4]
    }

    /// Time in seconds for which the sender is a default router; 0 if it is none.
    pub fn router_seconds(&self) -> u16 {
        u16::from_be_bytes([self.header[6], self.header[7]])
    }

    /// Prefix Information options of valid length.
    pub fn prefixes(&self) -> impl Iterator<Item = PrefixInformation> + use<'a> {
        self.options(PREFIX).filter_map(prefix)
    }

    /// MTU of the link in bytes. Returns `None` if the option is missing.
    pub fn mtu(&self) -> Option<u32> {
        let value = self.options(MTU).next()?;
        value.get(2..)?.first_chunk().copied().map(u32::from_be_bytes)
    }

    fn options(&self, wanted: u8) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.options;
        let all = core::iter::from_fn(move || {
            let (kind, value, after) = option(rest)?;
            rest = after;
            Some((kind, value))
        });
        all.filter_map(move |(kind, value)| (kind == wanted).then_some(value))
    }
}

/// Kind and value of the first option, and the remaining options. Returns `None` if it is malformed.
fn option(options: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [kind, units, ..] = *options else { return None };
    let (option, rest) = options.split_at_checked(usize::from(units) * UNIT).filter(|_| units > 0)?;
    Some((kind, option.get(2..)?, rest))
}

fn prefix(value: &[u8]) -> Option<PrefixInformation> {
    let [len, flags, times @ ..] = value else { return None };
    let (times, rest) = times.split_first_chunk::<8>()?;
    let prefix = rest.get(4..)?.first_chunk::<16>()?;
    let [valid, preferred] =
        [[times[0], times[1], times[2], times[3]], [times[4], times[5], times[6], times[7]]];
    (*len <= 128).then_some(PrefixInformation {
        prefix: Ipv6Addr::from(*prefix),
        len: *len,
        on_link: flags & 0x80 != 0,
        autonomous: flags & 0x40 != 0,
        valid_seconds: u32::from_be_bytes(valid),
        preferred_seconds: u32::from_be_bytes(preferred),
    })
}

/// A Router Solicitation, without checksum. `source` is the sender's Ethernet address; `None` if the source address is
/// unspecified (RFC 4861 section 4.1).
pub fn router_solicitation(source: Option<MacAddress>) -> Vec<u8> {
    let mut message = [SOLICITATION, 0, 0, 0, 0, 0, 0, 0].to_vec();
    if let Some(mac) = source {
        message.extend_from_slice(&[SOURCE_LINK_LAYER, 1]);
        message.extend_from_slice(&mac.octets());
    }
    message
}

/// A Neighbor Solicitation for duplicate address detection (RFC 4862 section 5.4.2), without checksum. It has no
/// options, because its source address is unspecified.
pub fn duplicate_address_probe(target: Ipv6Addr) -> [u8; 24] {
    let mut message = [0; 24];
    message[0] = NEIGHBOR_SOLICITATION;
    message[8..].copy_from_slice(&target.octets());
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Nd, NdKind};
    use proptest::prelude::*;
    use std::prelude::v1::*;

    fn advertisement(options: &[u8]) -> Vec<u8> {
        [&[134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0][..], options].concat()
    }

    fn prefix_option(len: u8, flags: u8) -> Vec<u8> {
        let prefix: Ipv6Addr = "2001:db8::".parse().unwrap();
        let fixed = [3, 4, len, flags, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0, 0];
        [&fixed[..], &prefix.octets()].concat()
    }

    #[test]
    fn an_advertisement_is_parsed() {
        let options =
            [&prefix_option(64, 0xc0)[..], &[5, 1, 0, 0, 0, 0, 5, 0xdc], &prefix_option(129, 0)].concat();
        let message = advertisement(&options);
        let view = RouterAdvertisement::new(&message).unwrap();
        assert_eq!((view.hop_limit(), view.router_seconds(), view.mtu()), (64, 1800, Some(1500)));
        let prefixes: Vec<_> = view.prefixes().collect();
        let expected = PrefixInformation {
            prefix: "2001:db8::".parse().unwrap(),
            len: 64,
            on_link: true,
            autonomous: true,
            valid_seconds: 9,
            preferred_seconds: 8,
        };
        assert_eq!(prefixes, [expected]);
    }

    #[test]
    fn malformed_advertisements_are_rejected() {
        assert!(RouterAdvertisement::new(&advertisement(&[])).is_some());
        assert!(RouterAdvertisement::new(&advertisement(&[])[..15]).is_none());
        for options in [&[5, 0, 0, 0, 0, 0, 5, 0xdc][..], &[5, 2, 0, 0, 0, 0, 5, 0xdc], &[5]] {
            assert!(RouterAdvertisement::new(&advertisement(options)).is_none(), "{options:?}");
        }
        for at in [0, 1] {
            let mut message = advertisement(&[]);
            message[at] ^= 1;
            assert!(RouterAdvertisement::new(&message).is_none());
        }
    }

    #[test]
    fn written_messages_are_valid() {
        let target: Ipv6Addr = "fe80::1".parse().unwrap();
        let probe = duplicate_address_probe(target);
        let view = Nd::new(&probe).unwrap();
        assert_eq!((view.kind(), view.target()), (NdKind::NeighborSolicitation, Some(target)));
        let mac = MacAddress::new([2, 0, 0, 0, 0, 9]);
        for (source, count) in [(None, 0), (Some(mac), 1)] {
            let message = router_solicitation(source);
            let view = Nd::new(&message).unwrap();
            assert_eq!((view.kind(), view.link_layers().count()), (NdKind::RouterSolicitation, count));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_options_do_not_panic(options in prop::collection::vec(0u8..6, 0..100)) {
            let message = advertisement(&options);
            if let Some(view) = RouterAdvertisement::new(&message) {
                prop_assert!(view.prefixes().count() <= options.len() / 32);
                let _ = view.mtu();
            }
        }
    }
}
