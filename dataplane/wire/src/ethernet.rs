//! Ethernet header (IEEE 802.3, clause 3): destination, source, type.
//!
//! Frames exclude preamble and FCS.

use crate::{MacAddress, TAG_LEN, Tag, VlanId};

/// Length of an untagged Ethernet header, in bytes.
pub const HEADER_LEN: usize = 14;

/// EtherType of the payload, or its length if below 1536.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EtherType(pub u16);

impl EtherType {
    /// Internet Protocol version 4.
    pub const IPV4: Self = Self(0x0800);
    /// Address Resolution Protocol.
    pub const ARP: Self = Self(0x0806);
    /// Reverse Address Resolution Protocol.
    pub const RARP: Self = Self(0x8035);
    /// Customer VLAN tag (C-TAG, IEEE 802.1Q).
    pub const VLAN: Self = Self(0x8100);
    /// Service VLAN tag (S-TAG, IEEE 802.1Q, formerly 802.1ad).
    pub const SERVICE_VLAN: Self = Self(0x88a8);
    /// Internet Protocol version 6.
    pub const IPV6: Self = Self(0x86dd);
    /// MPLS label stack (RFC 3032).
    pub const MPLS: Self = Self(0x8847);
    /// MPLS label stack with an upstream-assigned label (RFC 5332).
    pub const MPLS_UPSTREAM: Self = Self(0x8848);
    /// Backbone service tag (I-TAG, IEEE 802.1Q, formerly 802.1ah).
    pub const SERVICE_INSTANCE: Self = Self(0x88e7);
    /// LLDP (IEEE 802.1AB).
    pub const LLDP: Self = Self(0x88cc);

    /// Whether a VLAN tag follows.
    #[inline(always)]
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::SERVICE_VLAN)
    }

    /// Whether an MPLS label stack follows.
    #[inline(always)]
    pub const fn is_mpls(self) -> bool {
        matches!(self, Self::MPLS | Self::MPLS_UPSTREAM)
    }
}

/// The frame is shorter than an Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes has no complete Ethernet header of {HEADER_LEN}")]
pub struct TooShort(pub usize);

/// A frame with a complete Ethernet header.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<'a> {
    header: &'a [u8; HEADER_LEN],
    after: &'a [u8],
}

impl<'a> Ethernet<'a> {
    /// Checks that `frame` holds a complete header.
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

    /// Destination address.
    #[inline(always)]
    pub fn destination(&self) -> MacAddress {
        MacAddress::from_u64(self.word::<0>() >> 16)
    }

    /// Source address.
    #[inline(always)]
    pub fn source(&self) -> MacAddress {
        MacAddress::from_u64(self.word::<4>())
    }

    /// Loads eight bytes; for a constant offset the compiler removes the length check.
    #[inline(always)]
    fn word<const AT: usize>(&self) -> u64 {
        self.header[AT..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    /// EtherType after the addresses: that of the tag if the frame is tagged.
    #[inline(always)]
    pub fn ethertype(&self) -> EtherType {
        let [.., high, low] = *self.header;
        EtherType(u16::from_be_bytes([high, low]))
    }

    /// Customer VLAN tag. Returns `None` if the frame has no complete one. A service tag is part of the payload.
    #[inline(always)]
    pub fn tag(&self) -> Option<Tag> {
        match (self.ethertype(), self.after) {
            (EtherType::VLAN, [high, low, _, _, ..]) => Some(Tag(u16::from_be_bytes([*high, *low]))),
            _ => None,
        }
    }

    /// EtherType of the payload, after the customer VLAN tag if present.
    #[inline(always)]
    pub fn inner_ethertype(&self) -> EtherType {
        match (self.tag(), self.after) {
            (Some(_), [_, _, high, low, ..]) => EtherType(u16::from_be_bytes([*high, *low])),
            _ => self.ethertype(),
        }
    }

    /// Bytes after the header and the customer VLAN tag, if present.
    pub fn payload(&self) -> &'a [u8] {
        if self.tag().is_some() { &self.after[TAG_LEN..] } else { self.after }
    }
}

/// Writes an Ethernet header, with a tag of priority 0 if `vlan` is set, to the front of `to`. Returns its length, or
/// `None` if `to` is too short.
pub fn write_ethernet(
    to: &mut [u8],
    destination: MacAddress,
    source: MacAddress,
    vlan: Option<VlanId>,
    ethertype: EtherType,
) -> Option<usize> {
    let len = if vlan.is_some() { HEADER_LEN + TAG_LEN } else { HEADER_LEN };
    let header = to.get_mut(..len)?;
    header[..6].copy_from_slice(&destination.octets());
    header[6..12].copy_from_slice(&source.octets());
    if let Some(vlan) = vlan {
        header[12..16].copy_from_slice(&Tag(vlan.get()).header());
    }
    header[len - 2..].copy_from_slice(&ethertype.0.to_be_bytes());
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;
    use std::vec;

    fn frame(ethertype: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x52, 0x54, 0, 1, 2, 3, 0x52, 0x54, 0, 4, 5, 6];
        frame.extend(ethertype.to_be_bytes());
        frame.extend(payload);
        frame
    }

    #[test]
    fn addresses_and_type_are_parsed_in_wire_order() {
        let bytes = frame(0x0800, &[9; 46]);
        let view = Ethernet::new(&bytes).unwrap();
        assert_eq!(view.destination(), MacAddress::new([0x52, 0x54, 0, 1, 2, 3]));
        assert_eq!(view.source(), MacAddress::new([0x52, 0x54, 0, 4, 5, 6]));
        assert_eq!(view.ethertype(), EtherType::IPV4);
        assert_eq!((view.tag(), view.payload().len()), (None, 46));
    }

    #[test]
    fn truncated_tag_is_none() {
        let whole = frame(0x8100, &[0x20, 0x0a, 8, 0, 1]);
        let tag = Ethernet::new(&whole).unwrap().tag().unwrap();
        assert_eq!((tag.vlan(), tag.priority(), tag.drop_eligible()), (10, 1, false));
        assert_eq!(Ethernet::new(&whole).unwrap().payload(), &[1]);
        assert_eq!(Ethernet::new(&whole).unwrap().inner_ethertype(), EtherType::IPV4);
        assert_eq!(Ethernet::new(&whole[..17]).unwrap().tag(), None);
    }

    #[test]
    fn frame_below_fourteen_bytes_is_rejected() {
        assert_eq!(Ethernet::new(&[0; 13]).unwrap_err(), TooShort(13));
        assert!(Ethernet::new(&[0; 14]).is_ok());
    }

    #[test]
    fn written_header_is_parsed() {
        let (to, from) = (MacAddress::new([2, 0, 0, 0, 0, 1]), MacAddress::new([2, 0, 0, 0, 0, 2]));
        for vlan in [None, VlanId::new(9)] {
            let mut bytes = [0; 20];
            let len = write_ethernet(&mut bytes, to, from, vlan, EtherType::IPV6).unwrap();
            let view = Ethernet::new(&bytes[..len]).unwrap();
            assert_eq!((view.destination(), view.source()), (to, from));
            assert_eq!((view.inner_ethertype(), view.payload().len()), (EtherType::IPV6, 0));
            assert_eq!(view.tag(), vlan.map(|vlan| Tag(vlan.get())));
            assert_eq!(write_ethernet(&mut bytes[..len - 1], to, from, vlan, EtherType::IPV6), None);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_frames_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
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
