//! MAC addresses (IEEE 802, clause 8) as one machine word.
//!
//! The first octet on the wire is the most significant of the low 48 bits, so that comparing, hashing and packing an
//! address into a table key are single instructions.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// An EUI-48 address. The upper 16 bits of the word are always zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MacAddress(u64);

const GROUP: u64 = 1 << 40;
const LOCAL: u64 = 1 << 41;
const MASK: u64 = (1 << 48) - 1;

impl MacAddress {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Self = Self(MASK);
    /// `00:00:00:00:00:00`, invalid as a source address.
    pub const ZERO: Self = Self(0);

    /// Address from the low 48 bits of `word`; the other bits are ignored.
    #[inline(always)]
    pub const fn from_u64(word: u64) -> Self {
        Self(word & MASK)
    }

    /// Address in the low 48 bits of a word.
    #[inline(always)]
    pub const fn to_u64(self) -> u64 {
        self.0
    }

    /// Address from octets in network byte order.
    #[inline(always)]
    pub const fn new(o: [u8; 6]) -> Self {
        Self(u64::from_be_bytes([0, 0, o[0], o[1], o[2], o[3], o[4], o[5]]))
    }

    /// Octets in network byte order.
    #[inline(always)]
    pub const fn octets(self) -> [u8; 6] {
        let [_, _, octets @ ..] = self.0.to_be_bytes();
        octets
    }

    /// Whether this is a group address, multicast or broadcast (I/G bit).
    #[inline(always)]
    pub const fn is_group(self) -> bool {
        self.0 & GROUP != 0
    }

    /// Whether the address is locally administered (U/L bit).
    #[inline(always)]
    pub const fn is_local(self) -> bool {
        self.0 & LOCAL != 0
    }

    /// Whether this is the broadcast address.
    #[inline(always)]
    pub const fn is_broadcast(self) -> bool {
        self.0 == MASK
    }

    /// Whether all bits are zero.
    #[inline(always)]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether the address is in the range `01:80:c2:00:00:00` to `0f`, which a bridge must not forward (IEEE 802.1Q,
    /// table 8-1).
    #[inline(always)]
    pub const fn is_bridge_reserved(self) -> bool {
        self.0 & !0xf == 0x0180_c200_0000
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, rest @ ..] = self.octets();
        write!(f, "{first:02x}")?;
        rest.iter().try_for_each(|octet| write!(f, ":{octet:02x}"))
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<[u8; 6]> for MacAddress {
    fn from(octets: [u8; 6]) -> Self {
        Self::new(octets)
    }
}

/// Invalid MAC address text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a MAC address: write six pairs of hexadecimal digits, like 52:54:00:12:34:56")]
pub struct ParseMacError(String);

impl FromStr for MacAddress {
    type Err = ParseMacError;

    /// Six pairs of hexadecimal digits, separated by `:` or by `-`.
    fn from_str(text: &str) -> Result<Self, ParseMacError> {
        let wrong = || ParseMacError(text.to_owned());
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut octets = [0; 6];
        let mut pairs = text.split(separator);
        for octet in &mut octets {
            *octet = pairs.next().and_then(pair).ok_or_else(wrong)?;
        }
        if pairs.next().is_some() { Err(wrong()) } else { Ok(Self::new(octets)) }
    }
}

/// Parses exactly two hexadecimal digits; `from_str_radix` alone would accept a sign.
fn pair(text: &str) -> Option<u8> {
    let digits = text.len() == 2 && text.bytes().all(|b| b.is_ascii_hexdigit());
    digits.then(|| u8::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(feature = "serde")]
impl serde::Serialize for MacAddress {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for MacAddress {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <alloc::borrow::Cow<'de, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;

    #[test]
    fn group_bit_is_in_the_first_octet() {
        assert!(MacAddress::new([1, 0, 0x5e, 0, 0, 1]).is_group());
        assert!(!MacAddress::new([0, 0, 0, 0, 0, 1]).is_group());
        assert!(MacAddress::new([2, 0, 0, 0, 0, 1]).is_local());
        assert!(MacAddress::BROADCAST.is_group() && MacAddress::BROADCAST.is_broadcast());
        assert!(MacAddress::ZERO.is_zero());
    }

    #[test]
    fn only_the_sixteen_bridge_addresses_are_reserved() {
        assert!(MacAddress::new([1, 0x80, 0xc2, 0, 0, 0]).is_bridge_reserved());
        assert!(MacAddress::new([1, 0x80, 0xc2, 0, 0, 0xf]).is_bridge_reserved());
        assert!(!MacAddress::new([1, 0x80, 0xc2, 0, 0, 0x10]).is_bridge_reserved());
        assert!(!MacAddress::new([0, 0x80, 0xc2, 0, 0, 0]).is_bridge_reserved());
    }

    #[test]
    fn invalid_text_is_rejected_with_its_value() {
        for text in ["", "52:54:00:12:34", "52:54:00:12:34:56:78", "52:54:00:12:34:5", "5g:54:00:12:34:56"] {
            assert_eq!(text.parse::<MacAddress>(), Err(ParseMacError(text.to_owned())));
        }
        for text in ["+2:54:00:12:34:56", "52:54-00:12:34:56", "52 54 00 12 34 56", ":::::"] {
            assert!(text.parse::<MacAddress>().is_err(), "{text}");
        }
        assert_eq!("52-54-00-12-34-56".parse(), Ok(MacAddress::new([0x52, 0x54, 0, 0x12, 0x34, 0x56])));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn an_address_is_a_string_in_json() {
        let mac = MacAddress::new([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
        assert_eq!(serde_json::to_string(&mac).unwrap(), "\"52:54:00:12:34:56\"");
        assert_eq!(serde_json::from_str::<MacAddress>("\"52:54:00:12:34:56\"").unwrap(), mac);
        assert!(serde_json::from_str::<MacAddress>("\"52:54\"").is_err());
    }

    proptest! {
        #[test]
        fn text_and_octets_round_trip(octets: [u8; 6]) {
            let mac = MacAddress::new(octets);
            prop_assert_eq!(mac.octets(), octets);
            prop_assert_eq!(MacAddress::from_u64(mac.to_u64() | 0xffff << 48), mac);
            prop_assert_eq!(mac.to_string().parse::<MacAddress>().unwrap(), mac);
            prop_assert_eq!(mac.to_string().to_uppercase().parse::<MacAddress>().unwrap(), mac);
        }

        #[test]
        fn arbitrary_text_does_not_panic(text: String) {
            let _ = text.parse::<MacAddress>();
        }
    }
}
