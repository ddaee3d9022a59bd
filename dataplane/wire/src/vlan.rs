//! Customer VLAN tag (IEEE 802.1Q, clause 9): four bytes between the source address and the EtherType.
//!
//! This module encodes and decodes tags; it does not insert them into frames.

use crate::EtherType;
use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// Length of a tag, in bytes.
pub const TAG_LEN: usize = 4;

/// VLAN ID, 1 to 4094.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VlanId(u16);

impl VlanId {
    /// Returns `None` if `id` is 0 (priority tag) or above 4094 (4095 is reserved).
    pub const fn new(id: u16) -> Option<Self> {
        if id == 0 || id >= 4095 { None } else { Some(Self(id)) }
    }

    /// The number.
    #[inline(always)]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Invalid VLAN ID text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a VLAN: write a number from 1 to 4094")]
pub struct ParseVlanError(pub String);

impl FromStr for VlanId {
    type Err = ParseVlanError;

    fn from_str(text: &str) -> Result<Self, ParseVlanError> {
        text.parse().ok().and_then(Self::new).ok_or_else(|| ParseVlanError(text.to_owned()))
    }
}

/// Tag control information: PCP (3 bits), DEI (1 bit), VLAN ID (12 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tag(pub u16);

impl Tag {
    /// VLAN ID, 12 bits; 0 for a priority tag.
    #[inline(always)]
    pub const fn vlan(self) -> u16 {
        self.0 & 0x0fff
    }

    /// Priority code point (PCP), 0 to 7.
    #[inline(always)]
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// Drop eligible indicator (DEI).
    #[inline(always)]
    pub const fn drop_eligible(self) -> bool {
        self.0 & 0x1000 != 0
    }

    /// The same PCP and DEI with another VLAN ID; bits above the twelfth are ignored.
    #[inline(always)]
    #[must_use]
    pub const fn with_vlan(self, vlan: u16) -> Self {
        Self(self.0 & 0xf000 | vlan & 0x0fff)
    }

    /// The four tag bytes after the addresses (IEEE 802.1Q clause 9.5).
    #[inline]
    #[must_use]
    pub fn header(self) -> [u8; TAG_LEN] {
        let ([first, second], [third, fourth]) = (EtherType::VLAN.0.to_be_bytes(), self.0.to_be_bytes());
        [first, second, third, fourth]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ethernet, HEADER_LEN};
    use proptest::prelude::*;
    use std::prelude::v1::*;

    /// Length of the addresses before a tag, in bytes.
    const ADDRESSES: usize = 12;

    #[test]
    fn vlan_ids_0_and_4095_are_rejected() {
        assert_eq!([0, 4095, 4096, u16::MAX].map(VlanId::new), [None; 4]);
        assert_eq!([1, 4094].map(|id| VlanId::new(id).map(VlanId::get)), [Some(1), Some(4094)]);
        assert_eq!("4095".parse::<VlanId>(), Err(ParseVlanError("4095".into())));
        assert_eq!("12".parse::<VlanId>().unwrap().to_string(), "12");
    }

    #[test]
    fn changing_the_vlan_keeps_the_priority() {
        let tag = Tag(0xb00a).with_vlan(0x1014);
        assert_eq!((tag.priority(), tag.drop_eligible(), tag.vlan()), (5, true, 0x14));
    }

    proptest! {
        #[test]
        fn inserted_tag_is_parsed(frame in prop::collection::vec(any::<u8>(), HEADER_LEN..128), tci: u16) {
            let tagged = [&frame[..ADDRESSES], &Tag(tci).header(), &frame[ADDRESSES..]].concat();
            let view = Ethernet::new(&tagged).unwrap();
            prop_assert_eq!(view.tag(), Some(Tag(tci)));
            prop_assert_eq!(&view.inner_ethertype().0.to_be_bytes()[..], &frame[ADDRESSES..HEADER_LEN]);
        }
    }
}
