//! VLAN classification, port membership and tagging on egress (IEEE 802.1Q, clauses 6.9 and 8.6).
//!
//! Only customer tags (0x8100) are evaluated. A frame whose outermost tag is a service tag counts as untagged.

use super::config::Vlan;
use port::{DropReason, Edit};
use wire::{EtherType, Ethernet, TAG_LEN, Tag};

/// Untagged frame on a transparent port, in no VLAN.
pub(super) const NO_VLAN: u16 = 0;
const RESERVED: u16 = 4095;
/// Length of the addresses before a tag, in bytes.
const ADDRESSES: usize = 12;

impl Vlan {
    /// The VLAN of a frame received with `tag`. Returns `None` if the port does not accept such frames.
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

    /// Whether the port sends frames of `vlan`.
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

    /// Whether the port sends frames of `vlan` tagged.
    #[inline]
    pub(super) fn tags(&self, vlan: u16) -> bool {
        match self {
            Vlan::Transparent => vlan != NO_VLAN,
            Vlan::Access(_) => false,
            Vlan::Trunk { native, .. } => native.is_none_or(|own| own.get() != vlan),
        }
    }
}

/// Received form of a packet: its tag state and the tag of its VLAN.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Form {
    tag: Tag,
    tagged: bool,
    /// Priority-tagged (VLAN 0), so that the tag must be replaced if the packet leaves tagged.
    priority: bool,
}

impl Form {
    /// VLAN and form of a frame received on a port with mode `vlan`.
    #[inline]
    pub(super) fn of(frame: &Ethernet<'_>, vlan: &Vlan) -> Result<Self, DropReason> {
        let tag = frame.tag();
        if tag.is_none() && frame.ethertype() == EtherType::VLAN {
            return Err(DropReason::TooShort);
        }
        // Removing a priority tag in front of another tag would let a guest choose its VLAN on the next switch.
        let hides_another =
            tag.is_some() && matches!(vlan, Vlan::Access(_)) && frame.inner_ethertype() == EtherType::VLAN;
        let own = vlan.classify(tag).filter(|_| !hides_another).ok_or(DropReason::VlanDenied)?;
        let priority = tag.is_some_and(|tag| tag.vlan() == 0);
        Ok(Self { tag: tag.unwrap_or_default().with_vlan(own), tagged: tag.is_some(), priority })
    }

    /// VLAN of the packet.
    #[inline]
    pub(super) fn vlan(self) -> u16 {
        self.tag.vlan()
    }

    /// Whether the received packet is tagged.
    #[inline]
    pub(super) fn is_tagged(self) -> bool {
        self.tagged
    }

    /// Egress form of the packet on a port with mode `vlan`; used as an array index.
    #[inline]
    pub(super) fn leaving(self, vlan: &Vlan) -> EgressTagging {
        match (self.tagged, vlan.tags(self.vlan())) {
            (false, false) => EgressTagging::AsReceived,
            (true, true) if !self.priority => EgressTagging::AsReceived,
            (false, true) => EgressTagging::Tagged,
            (true, false) => EgressTagging::Untagged,
            (true, true) => EgressTagging::Retagged,
        }
    }

    /// The form of a copy in another VLAN: a received tag is replaced.
    pub(super) fn moved(self, vlan: u16) -> Self {
        Self { tag: self.tag.with_vlan(vlan), priority: self.tagged, ..self }
    }

    /// Egress form of a packet of [`Form::moved`].
    pub(super) fn leaving_as(self, is_tagged: bool) -> EgressTagging {
        match (self.tagged, is_tagged) {
            (false, false) => EgressTagging::AsReceived,
            (false, true) => EgressTagging::Tagged,
            (true, false) => EgressTagging::Untagged,
            (true, true) => EgressTagging::Retagged,
        }
    }

    /// The edit that gives the packet the form `leaving`. Returns `None` if it is unchanged.
    pub(super) fn edit(self, leaving: EgressTagging) -> Option<Edit> {
        let header = self.tag.header();
        let edit = match leaving {
            EgressTagging::AsReceived => return None,
            EgressTagging::Tagged => Edit::splice(ADDRESSES, 0, &header),
            EgressTagging::Untagged => Edit::splice(ADDRESSES, TAG_LEN, &[]),
            EgressTagging::Retagged => Edit::splice(ADDRESSES, TAG_LEN, &header),
        };
        edit.ok()
    }
}

/// Egress form of a packet, relative to the received form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EgressTagging {
    AsReceived,
    Tagged,
    Untagged,
    /// The received tag is replaced by the tag of its VLAN.
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
    fn frame_vlan_follows_from_tag_and_port() {
        // Tag of the frame; then the VLAN on a transparent port, on access 10, and on trunks without native VLAN and
        // with native 99.
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
    fn port_tags_all_but_its_native_vlan() {
        assert!(!Vlan::Transparent.tags(NO_VLAN) && Vlan::Transparent.tags(10));
        assert!(!Vlan::Access(id(10)).tags(10));
        assert!(trunk(None).tags(10) && trunk(Some(99)).tags(10) && !trunk(Some(99)).tags(99));
        assert!(Vlan::Trunk { allowed: VlanSet::all(), native: None }.carries(4094));
        assert!(!trunk(None).carries(NO_VLAN) && !trunk(Some(99)).carries(30));
    }
}
