//! Which VLAN a packet is in, which ports carry it, and in what form (IEEE 802.1Q, clauses 6.9 and 8.6).
//!
//! Only customer tags (0x8100) count. A frame whose outermost tag is a service tag is an untagged frame here.

use super::config::Vlan;
use port::{DropReason, Edit};
use wire::{EtherType, Ethernet, TAG_LEN, Tag};

/// A frame in no VLAN: untagged, on a transparent port.
pub(super) const NO_VLAN: u16 = 0;
const RESERVED: u16 = 4095;
/// Bytes in front of a tag.
const ADDRESSES: usize = 12;

impl Vlan {
    /// The VLAN of a frame that came in with `tag`, if this port takes such frames.
    pub(super) fn classify(&self, tag: Option<Tag>) -> Option<u16> {
        let tagged = tag.map(Tag::vlan).filter(|vlan| *vlan != 0);
        match (self, tagged) {
            (Vlan::Transparent, vlan) => vlan.or(Some(NO_VLAN)).filter(|vlan| *vlan != RESERVED),
            (Vlan::Access(vlan), None) => Some(vlan.get()),
            (Vlan::Access(_), Some(_)) => None,
            (Vlan::Trunk { native, .. }, None) => native.map(wire::VlanId::get),
            (Vlan::Trunk { .. }, Some(vlan)) => self.carries(vlan).then_some(vlan),
        }
    }

    /// Whether frames of `vlan` leave by this port.
    #[inline]
    pub(super) fn carries(&self, vlan: u16) -> bool {
        match self {
            Vlan::Transparent => true,
            Vlan::Access(own) => own.get() == vlan,
            Vlan::Trunk { allowed, native } => {
                allowed.has(vlan) || native.is_some_and(|own| own.get() == vlan)
            }
        }
    }

    /// Whether frames of `vlan` leave by this port with a tag.
    #[inline]
    fn tags(&self, vlan: u16) -> bool {
        match self {
            Vlan::Transparent => vlan != NO_VLAN,
            Vlan::Access(_) => false,
            Vlan::Trunk { native, .. } => native.is_none_or(|own| own.get() != vlan),
        }
    }
}

/// How a packet was received: whether it carries a tag, and the tag of its VLAN.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Form {
    tag: Tag,
    tagged: bool,
    /// Whether the tag that the packet carries names no VLAN, so that it is another one where the packet leaves tagged.
    priority: bool,
}

impl Form {
    /// The VLAN and form of a frame that came in by a port configured as `vlan`.
    #[inline]
    pub(super) fn of(frame: &Ethernet<'_>, vlan: &Vlan) -> Result<Self, DropReason> {
        let tag = frame.tag();
        if tag.is_none() && frame.ethertype() == EtherType::VLAN {
            return Err(DropReason::TooShort);
        }
        // Taking off a priority tag that hides another one would let a guest choose its VLAN on the next switch.
        let hides_another =
            tag.is_some() && matches!(vlan, Vlan::Access(_)) && frame.inner_ethertype() == EtherType::VLAN;
        let own = vlan.classify(tag).filter(|_| !hides_another).ok_or(DropReason::VlanDenied)?;
        let priority = tag.is_some_and(|tag| tag.vlan() == 0);
        Ok(Self { tag: tag.unwrap_or_default().with_vlan(own), tagged: tag.is_some(), priority })
    }

    /// The VLAN that the packet is in.
    #[inline]
    pub(super) fn vlan(self) -> u16 {
        self.tag.vlan()
    }

    /// Whether a packet of this form carries a tag.
    #[inline]
    pub(super) fn is_tagged(self) -> bool {
        self.tagged
    }

    /// What a packet of this form becomes where it leaves by a port configured as `vlan`: every form that a packet leaves in,
    /// by number.
    #[inline]
    pub(super) fn leaving(self, vlan: &Vlan) -> Leaving {
        match (self.tagged, vlan.tags(self.vlan())) {
            (false, false) => Leaving::AsReceived,
            (true, true) if !self.priority => Leaving::AsReceived,
            (false, true) => Leaving::Tagged,
            (true, false) => Leaving::Untagged,
            (true, true) => Leaving::Retagged,
        }
    }

    /// The edit that gives a packet of this form the form `leaving`; `None` if it stays as it was received.
    pub(super) fn edit(self, leaving: Leaving) -> Option<Edit> {
        let header = self.tag.header();
        let edit = match leaving {
            Leaving::AsReceived => return None,
            Leaving::Tagged => Edit::splice(ADDRESSES, 0, &header),
            Leaving::Untagged => Edit::splice(ADDRESSES, TAG_LEN, &[]),
            Leaving::Retagged => Edit::splice(ADDRESSES, TAG_LEN, &header),
        };
        edit.ok()
    }
}

/// How a packet leaves, beside how it was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leaving {
    AsReceived,
    Tagged,
    Untagged,
    /// Its tag is that of its VLAN now.
    Retagged,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VlanSet;
    use wire::VlanId;

    fn id(vlan: u16) -> VlanId {
        VlanId::new(vlan).unwrap()
    }

    fn trunk(native: Option<u16>) -> Vlan {
        Vlan::Trunk { allowed: "10,20-29".parse().unwrap(), native: native.map(id) }
    }

    #[test]
    fn a_frame_is_in_the_vlan_that_its_tag_and_its_port_say() {
        // Tag of the frame, then the VLAN on a transparent port, on access 10, on trunks without and with native 99.
        let table = [
            (None, Some(0), Some(10), None, Some(99)),
            (Some(0), Some(0), Some(10), None, Some(99)),
            (Some(10), Some(10), None, Some(10), Some(10)),
            (Some(30), Some(30), None, None, None),
            (Some(99), Some(99), None, None, Some(99)),
            (Some(4095), None, None, None, None),
        ];
        for (tag, transparent, access, plain, native) in table {
            let tag = tag.map(|vlan| Tag(0xa000 | vlan));
            let found = [Vlan::Transparent, Vlan::Access(id(10)), trunk(None), trunk(Some(99))]
                .map(|vlan| vlan.classify(tag));
            assert_eq!(found, [transparent, access, plain, native], "{tag:?}");
        }
    }

    #[test]
    fn a_port_tags_what_is_not_its_own_untagged_vlan() {
        assert!(!Vlan::Transparent.tags(NO_VLAN) && Vlan::Transparent.tags(10));
        assert!(!Vlan::Access(id(10)).tags(10));
        assert!(trunk(None).tags(10) && trunk(Some(99)).tags(10) && !trunk(Some(99)).tags(99));
        assert!(Vlan::Trunk { allowed: VlanSet::all(), native: None }.carries(4094));
        assert!(!trunk(None).carries(NO_VLAN) && !trunk(Some(99)).carries(30));
    }
}
