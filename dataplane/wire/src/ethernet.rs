//! The Ethernet header (IEEE 802.3, clause 3): destination, source, type.
//!
//! Frames are seen without preamble and checksum.

use crate::{MacAddress, TAG_LEN, Tag};

/// Bytes of an Ethernet header without a tag.
pub const HEADER_LEN: usize = 14;

/// The type of a payload, or a length where it is below 1536.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EtherType(pub u16);

impl EtherType {
    /// Internet protocol, version 4.
    pub const IPV4: Self = Self(0x0800);
    /// Address resolution.
    pub const ARP: Self = Self(0x0806);
    /// Reverse address resolution.
    pub const RARP: Self = Self(0x8035);
    /// A customer VLAN tag (C-TAG, IEEE 802.1Q).
    pub const VLAN: Self = Self(0x8100);
    /// A service VLAN tag (S-TAG, IEEE 802.1Q, formerly 802.1ad).
    pub const SERVICE_VLAN: Self = Self(0x88a8);
    /// Internet protocol, version 6.
    pub const IPV6: Self = Self(0x86dd);
}

/// The frame has no room for an Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes has no complete Ethernet header of {HEADER_LEN}")]
pub struct TooShort(pub usize);

/// A frame whose Ethernet header is complete.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<'a> {
    header: &'a [u8; HEADER_LEN],
    after: &'a [u8],
}

impl<'a> Ethernet<'a> {
    /// Checks that `frame` holds a whole header.
    ///
    /// # Errors
    /// [`TooShort`] below [`HEADER_LEN`] bytes.
    #[inline(always)]
    pub fn new(frame: &'a [u8]) -> Result<Self, TooShort> {
        match frame.split_first_chunk() {
            Some((header, after)) => Ok(Self { header, after }),
            None => Err(TooShort(frame.len())),
        }
    }

    /// Where the frame goes.
    #[inline(always)]
    pub fn destination(&self) -> MacAddress {
        MacAddress::from_u64(self.word::<0>() >> 16)
    }

    /// Who sent it.
    #[inline(always)]
    pub fn source(&self) -> MacAddress {
        MacAddress::from_u64(self.word::<4>())
    }

    /// Eight bytes at once: with a constant offset the length check is gone after compilation.
    #[inline(always)]
    fn word<const AT: usize>(&self) -> u64 {
        self.header[AT..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    /// The type that follows the addresses: that of the tag, where there is one.
    #[inline(always)]
    pub fn ethertype(&self) -> EtherType {
        let [.., high, low] = *self.header;
        EtherType(u16::from_be_bytes([high, low]))
    }

    /// The customer VLAN tag, if the frame has a whole one. A service tag is part of the payload.
    #[inline(always)]
    pub fn tag(&self) -> Option<Tag> {
        match (self.ethertype(), self.after) {
            (EtherType::VLAN, [high, low, _, _, ..]) => Some(Tag(u16::from_be_bytes([*high, *low]))),
            _ => None,
        }
    }

    /// The type of the payload: behind the customer VLAN tag, where the frame has one.
    #[inline(always)]
    pub fn inner_ethertype(&self) -> EtherType {
        match (self.tag(), self.after) {
            (Some(_), [_, _, high, low, ..]) => EtherType(u16::from_be_bytes([*high, *low])),
            _ => self.ethertype(),
        }
    }

    /// What follows the header, and the tag where there is one.
    pub fn payload(&self) -> &'a [u8] {
        if self.tag().is_some() { &self.after[TAG_LEN..] } else { self.after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(ethertype: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x52, 0x54, 0, 1, 2, 3, 0x52, 0x54, 0, 4, 5, 6];
        frame.extend(ethertype.to_be_bytes());
        frame.extend(payload);
        frame
    }

    #[test]
    fn addresses_and_type_are_read_in_the_order_of_the_wire() {
        let bytes = frame(0x0800, &[9; 46]);
        let view = Ethernet::new(&bytes).unwrap();
        assert_eq!(view.destination(), MacAddress::new([0x52, 0x54, 0, 1, 2, 3]));
        assert_eq!(view.source(), MacAddress::new([0x52, 0x54, 0, 4, 5, 6]));
        assert_eq!(view.ethertype(), EtherType::IPV4);
        assert_eq!((view.tag(), view.payload().len()), (None, 46));
    }

    #[test]
    fn a_tag_that_is_cut_off_is_no_tag() {
        let whole = frame(0x8100, &[0x20, 0x0a, 8, 0, 1]);
        let tag = Ethernet::new(&whole).unwrap().tag().unwrap();
        assert_eq!((tag.vlan(), tag.priority(), tag.drop_eligible()), (10, 1, false));
        assert_eq!(Ethernet::new(&whole).unwrap().payload(), &[1]);
        assert_eq!(Ethernet::new(&whole).unwrap().inner_ethertype(), EtherType::IPV4);
        assert_eq!(Ethernet::new(&whole[..17]).unwrap().tag(), None);
    }

    #[test]
    fn a_frame_below_fourteen_bytes_has_no_view() {
        assert_eq!(Ethernet::new(&[0; 13]).unwrap_err(), TooShort(13));
        assert!(Ethernet::new(&[0; 14]).is_ok());
    }

    proptest! {
        #[test]
        fn no_frame_makes_a_view_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(view) = Ethernet::new(&bytes) {
                prop_assert_eq!(&view.destination().octets(), &bytes[..6]);
                prop_assert_eq!(&view.source().octets(), &bytes[6..12]);
                let tagged = if view.tag().is_some() { TAG_LEN } else { 0 };
                prop_assert_eq!(view.payload(), &bytes[HEADER_LEN + tagged..]);
            } else {
                prop_assert!(bytes.len() < HEADER_LEN);
            }
        }
    }
}
