//! The customer VLAN tag (IEEE 802.1Q, clause 9): four bytes between the source address and the type.
//!
//! Adding and removing a tag moves the twelve bytes of the addresses and nothing behind them. The caller owns the
//! room in front of the frame; these helpers only move bytes inside the slice that they are given.

use crate::{EtherType, HEADER_LEN};
use std::fmt;
use std::str::FromStr;

/// Bytes of a tag.
pub const TAG_LEN: usize = 4;

const ADDRESSES: usize = 12;

/// A VLAN that a frame can belong to: 1 to 4094.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VlanId(u16);

impl VlanId {
    /// The VLAN with this number, unless it is 0 (no VLAN) or 4095 (reserved), or does not fit twelve bits.
    pub const fn new(id: u16) -> Option<Self> {
        if id == 0 || id >= 4095 { None } else { Some(Self(id)) }
    }

    /// Its number.
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

/// Why a text names no VLAN.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a VLAN: write a number from 1 to 4094")]
pub struct ParseVlanError(pub String);

impl FromStr for VlanId {
    type Err = ParseVlanError;

    fn from_str(text: &str) -> Result<Self, ParseVlanError> {
        text.parse().ok().and_then(Self::new).ok_or_else(|| ParseVlanError(text.to_owned()))
    }
}

/// The control information of a tag: priority (3 bits), drop eligible (1 bit), VLAN (12 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tag(pub u16);

impl Tag {
    /// The twelve bits that name a VLAN; 0 says that the tag carries a priority only.
    #[inline(always)]
    pub const fn vlan(self) -> u16 {
        self.0 & 0x0fff
    }

    /// The priority code point, 0 to 7.
    #[inline(always)]
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// Whether the frame may be discarded first.
    #[inline(always)]
    pub const fn drop_eligible(self) -> bool {
        self.0 & 0x1000 != 0
    }

    /// The same priority in another VLAN; bits above the twelfth are ignored.
    #[inline(always)]
    #[must_use]
    pub const fn with_vlan(self, vlan: u16) -> Self {
        Self(self.0 & 0xf000 | vlan & 0x0fff)
    }
}

/// Tags the frame that begins [`TAG_LEN`] bytes into `frame`, so that it begins at its start.
/// `false`, and nothing is changed, when `frame` has no room for a tagged header.
#[inline]
pub fn insert_tag(frame: &mut [u8], tag: Tag) -> bool {
    if frame.len() < HEADER_LEN + TAG_LEN {
        return false;
    }
    frame.copy_within(TAG_LEN..TAG_LEN + ADDRESSES, 0);
    write_tag(frame, tag)
}

/// Writes a tag over the four bytes behind the addresses. `false`, and nothing is changed, when there are none.
#[inline]
pub fn write_tag(frame: &mut [u8], tag: Tag) -> bool {
    let Some(place) = frame.get_mut(ADDRESSES..ADDRESSES + TAG_LEN) else { return false };
    place[..2].copy_from_slice(&EtherType::VLAN.0.to_be_bytes());
    place[2..].copy_from_slice(&tag.0.to_be_bytes());
    true
}

/// Takes the tag out of `frame`, which then begins [`TAG_LEN`] bytes later.
/// `false`, and nothing is changed, when `frame` has no room for a tagged header.
#[inline]
pub fn remove_tag(frame: &mut [u8]) -> bool {
    if frame.len() < HEADER_LEN + TAG_LEN {
        return false;
    }
    frame.copy_within(..ADDRESSES, TAG_LEN);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ethernet;
    use proptest::prelude::*;

    #[test]
    fn vlans_0_and_4095_are_not_vlans() {
        assert_eq!([0, 4095, 4096, u16::MAX].map(VlanId::new), [None; 4]);
        assert_eq!([1, 4094].map(|id| VlanId::new(id).map(VlanId::get)), [Some(1), Some(4094)]);
        assert_eq!("4095".parse::<VlanId>(), Err(ParseVlanError("4095".into())));
        assert_eq!("12".parse::<VlanId>().unwrap().to_string(), "12");
    }

    #[test]
    fn a_frame_without_room_for_a_tag_is_left_alone() {
        let mut short = [7; 17];
        assert!(!insert_tag(&mut short, Tag(1)) && !remove_tag(&mut short));
        assert!(!write_tag(&mut short[..15], Tag(1)));
        assert_eq!(short, [7; 17]);
    }

    #[test]
    fn a_tag_keeps_its_priority_in_another_vlan() {
        let tag = Tag(0xb00a).with_vlan(0x1014);
        assert_eq!((tag.priority(), tag.drop_eligible(), tag.vlan()), (5, true, 0x14));
    }

    proptest! {
        #[test]
        fn a_tag_put_in_is_read_back_and_taken_out_again(
            frame in prop::collection::vec(any::<u8>(), HEADER_LEN..128), tci: u16,
        ) {
            let mut room = vec![0; TAG_LEN];
            room.extend(&frame);
            prop_assert!(insert_tag(&mut room, Tag(tci)));
            let view = Ethernet::new(&room).unwrap();
            prop_assert_eq!(view.tag(), Some(Tag(tci)));
            prop_assert_eq!(&room[..12], &frame[..12]);
            prop_assert_eq!(&room[16..], &frame[12..]);
            prop_assert!(remove_tag(&mut room));
            prop_assert_eq!(&room[TAG_LEN..], &frame[..]);
        }
    }
}
