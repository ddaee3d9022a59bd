//! VLAN tags, MPLS label stack entries and backbone service tags.
//!
//! Fields of a pushed header are copied from existing ones as OpenFlow 1.3.5, table 6 says; without one they are 0. A
//! VLAN tag and a backbone service tag follow the Ethernet addresses. An MPLS entry follows the VLAN tags, where all
//! parsers look for it.

use super::{ActionError, Rewriter};
use crate::field::Field;
use wire::{EtherType, LabelEntry, MPLS_ENTRY, SERVICE_TAG, ServiceTag, TAG_LEN};

/// Length of the Ethernet addresses, which a tag follows.
const ADDRESSES: usize = 12;
/// Length of the EtherType of a backbone service tag and of the tag.
const PBB: usize = 2 + SERVICE_TAG;

impl Rewriter {
    /// Tag control information of the outer VLAN tag, as in the frame.
    pub(super) fn outer_tag(&self) -> Option<u16> {
        let [kind @ .., t0, t1, _, _] = self.bytes_at::<6>(ADDRESSES)?;
        EtherType(u16::from_be_bytes(kind)).is_vlan().then(|| u16::from_be_bytes([t0, t1]))
    }

    /// Adds a VLAN tag with this TPID, 0x8100 or 0x88a8. VLAN and priority are those of the present outer tag.
    ///
    /// # Errors
    /// For another TPID, or if headers grow too long.
    pub fn push_vlan(&mut self, ethertype: u16) -> Result<(), ActionError> {
        if !EtherType(ethertype).is_vlan() {
            return Err(ActionError::EtherType(ethertype));
        }
        self.insert_tag(ethertype, self.outer_tag().unwrap_or(0))
    }

    pub(super) fn insert_tag(&mut self, ethertype: u16, tag: u16) -> Result<(), ActionError> {
        if self.head().len() < wire::HEADER_LEN {
            return Err(ActionError::NoHeader("Ethernet header"));
        }
        let ([k0, k1], [t0, t1]) = (ethertype.to_be_bytes(), tag.to_be_bytes());
        self.insert(ADDRESSES, [k0, k1, t0, t1])
    }

    /// Removes the outer VLAN tag.
    ///
    /// # Errors
    /// If there is none.
    pub fn pop_vlan(&mut self) -> Result<(), ActionError> {
        self.outer_tag().ok_or(ActionError::NoHeader("VLAN tag"))?;
        self.remove(ADDRESSES, TAG_LEN);
        Ok(())
    }

    /// Adds a label stack entry: a copy of the outer one, or label 0 with the time to live of the IP header.
    /// `ethertype` is 0x8847 or 0x8848.
    ///
    /// # Errors
    /// For another EtherType, for a frame without, or if headers grow too long.
    pub fn push_mpls(&mut self, ethertype: u16) -> Result<(), ActionError> {
        if !EtherType(ethertype).is_mpls() {
            return Err(ActionError::EtherType(ethertype));
        }
        self.refresh();
        let (kind, present) = (usize::from(self.layout.ethertype), usize::from(self.layout.mpls));
        if kind == 0 {
            return Err(ActionError::NoHeader("Ethernet header"));
        }
        if self.layout.has_length(self.key.get(Field::EthType) as u16) {
            return Err(ActionError::HasLength);
        }
        let entry = match self.bytes_at::<MPLS_ENTRY>(present).filter(|_| present != 0) {
            Some(entry) => LabelEntry(u32::from_be_bytes(entry)).above(),
            None => LabelEntry::bottom(self.key.get(Field::IpTtl) as u8),
        };
        self.insert(kind + 2, entry.header())?;
        self.overwrite(kind, ethertype.to_be_bytes());
        Ok(())
    }

    /// Removes the outer label stack entry. `ethertype` is that of what follows it.
    ///
    /// # Errors
    /// If there is none.
    pub fn pop_mpls(&mut self, ethertype: u16) -> Result<(), ActionError> {
        self.refresh();
        if self.layout.mpls == 0 {
            return Err(ActionError::NoHeader("MPLS label"));
        }
        let kind = usize::from(self.layout.ethertype);
        self.remove(kind + 2, MPLS_ENTRY);
        self.overwrite(kind, ethertype.to_be_bytes());
        Ok(())
    }

    /// Adds a backbone service tag before the frame, whose addresses become those of the customer and stay those of the
    /// frame. The I-SID is that of the present tag, the priority that of the outer VLAN tag.
    ///
    /// # Errors
    /// If `ethertype` is not 0x88e7, or if headers grow too long.
    pub fn push_pbb(&mut self, ethertype: u16) -> Result<(), ActionError> {
        if EtherType(ethertype) != EtherType::SERVICE_INSTANCE {
            return Err(ActionError::EtherType(ethertype));
        }
        self.refresh();
        let addresses =
            self.bytes_at::<{ wire::HEADER_LEN }>(0).ok_or(ActionError::NoHeader("Ethernet header"))?;
        let service = self.key.get(Field::PbbIsid) as u32;
        let priority = wire::Tag(self.outer_tag().unwrap_or(0)).priority();
        let mut header = [0; PBB];
        header[..2].copy_from_slice(&ethertype.to_be_bytes());
        header[2..6].copy_from_slice(&ServiceTag::new(priority, service).0.to_be_bytes());
        header[6..].copy_from_slice(&addresses[..ADDRESSES]);
        self.insert(ADDRESSES, header)
    }

    /// Removes the backbone service tag. The customer's addresses become those of the frame; VLAN tags before it stay.
    ///
    /// # Errors
    /// If there is none that is complete.
    pub fn pop_pbb(&mut self) -> Result<(), ActionError> {
        self.refresh();
        let (at, kind) = (usize::from(self.layout.pbb), usize::from(self.layout.ethertype));
        // The customer's EtherType, which must be in the head because it takes the place of that of the tag.
        let customer = self.bytes_at::<{ SERVICE_TAG + 2 }>(at).filter(|_| at != 0);
        let Some([_, _, _, _, addresses @ .., _, _]) = customer else {
            return Err(ActionError::NoHeader("backbone service tag"));
        };
        self.remove(kind, PBB);
        let addresses: [u8; ADDRESSES] = addresses;
        self.overwrite(0, addresses);
        Ok(())
    }
}
