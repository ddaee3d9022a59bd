//! DHCP for IPv6 (RFC 8415), limited to the fields used for snooping: addresses and lifetimes.

use core::net::Ipv6Addr;

/// Length of a client/server message before the options, in bytes.
const HEADER: usize = 4;
const IA_NA: u16 = 3;
const IA_TA: u16 = 4;
const IA_ADDRESS: u16 = 5;
/// Maximum number of options parsed: top-level ones, and nested ones in total.
const MAX_OPTIONS: usize = 64;

/// A client/server message. Relay messages have another format and are not supported.
#[derive(Clone, Copy, Debug)]
pub struct Dhcpv6<'a> {
    kind: u8,
    options: &'a [u8],
}

impl<'a> Dhcpv6<'a> {
    /// Message type REPLY: the server grants the request.
    pub const REPLY: u8 = 7;
    /// Message type RELEASE: the client releases addresses.
    pub const RELEASE: u8 = 8;
    /// Message type DECLINE: addresses are in use elsewhere.
    pub const DECLINE: u8 = 9;
    const LAST: u8 = 11;

    /// Returns `None` if length or message type is invalid. `payload` is the UDP payload.
    pub fn new(payload: &'a [u8]) -> Option<Self> {
        let options = payload.get(HEADER..)?;
        let kind = payload[0];
        (1..=Self::LAST).contains(&kind).then_some(Self { kind, options })
    }

    /// Message type.
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// Addresses of all identity associations, with their valid lifetimes in seconds. Stops at a malformed option.
    pub fn addresses(&self) -> impl Iterator<Item = (Ipv6Addr, u32)> + use<'a> {
        let within = |(code, value): (u16, &'a [u8])| match code {
            IA_NA => value.get(12..),
            IA_TA => value.get(4..),
            _ => None,
        };
        Options(self.options)
            .take(MAX_OPTIONS)
            .filter_map(within)
            .flat_map(Options)
            .take(MAX_OPTIONS)
            .filter_map(address)
    }
}

/// Address and valid lifetime of an IA Address option.
fn address((code, value): (u16, &[u8])) -> Option<(Ipv6Addr, u32)> {
    let (address, lifetimes) = value.split_first_chunk::<16>()?;
    let valid = lifetimes.get(4..)?.first_chunk::<4>()?;
    (code == IA_ADDRESS).then(|| (Ipv6Addr::from(*address), u32::from_be_bytes(*valid)))
}

/// Iterator over option codes and values; stops at an option that exceeds the message.
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, after) = self.0.split_first_chunk::<4>()?;
        let len = u16::from_be_bytes([head[2], head[3]]);
        let (value, rest) = after.split_at_checked(usize::from(len))?;
        self.0 = rest;
        Some((u16::from_be_bytes([head[0], head[1]]), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;

    fn option(code: u16, value: &[u8]) -> Vec<u8> {
        [&code.to_be_bytes()[..], &(value.len() as u16).to_be_bytes(), value].concat()
    }

    fn leased(last: u8, seconds: u32) -> Vec<u8> {
        let address = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into());
        option(IA_ADDRESS, &[&address.octets()[..], &[0; 4], &seconds.to_be_bytes()].concat())
    }

    #[test]
    fn addresses_of_ia_na_and_ia_ta_are_parsed() {
        let lasting =
            option(IA_NA, &[&[0; 12][..], &leased(1, 60), &option(13, &[0, 0]), &leased(2, 70)].concat());
        let passing = option(IA_TA, &[&[0; 4][..], &leased(3, 80)].concat());
        let message = [&[7, 0, 0, 1][..], &option(1, &[9; 10]), &lasting, &passing, &leased(4, 1)].concat();
        let view = Dhcpv6::new(&message).unwrap();
        assert_eq!(view.kind(), Dhcpv6::REPLY);
        let found: Vec<_> =
            view.addresses().map(|(address, seconds)| (address.segments()[7], seconds)).collect();
        assert_eq!(found, [(1, 60), (2, 70), (3, 80)]);
    }

    #[test]
    fn relays_and_truncated_messages_are_rejected() {
        assert!(Dhcpv6::new(&[12, 0, 0, 0]).is_none() && Dhcpv6::new(&[7, 0, 0]).is_none());
        let whole = [&[7, 0, 0, 1][..], &option(IA_NA, &[&[0; 12][..], &leased(1, 60)].concat())].concat();
        for len in 4..whole.len() {
            assert_eq!(Dhcpv6::new(&whole[..len]).unwrap().addresses().count(), 0, "{len} bytes");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(prop_oneof![Just(0u8), 0u8..16, any::<u8>()], 0..200)) {
            if let Some(view) = Dhcpv6::new(&bytes) {
                prop_assert!(view.addresses().count() <= MAX_OPTIONS);
            }
        }
    }
}
