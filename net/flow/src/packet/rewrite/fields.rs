//! Setting of fields.

use super::sums::{Change, Covered};
use super::{ActionError, Rewriter};
use crate::field::{Access, Field};
use crate::key::Key;
use wire::EtherType;
use wire::checksum::protocol;

/// Where a field is: bits of an integer of up to 16 bytes, in network byte order, at an even offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) at: usize,
    pub(super) bytes: u8,
    /// Position of the lowest bit of the field in the integer.
    pub(super) shift: u8,
    /// IPv4 header whose checksum covers the field; 0 for none.
    pub(super) header: usize,
    /// How the transport checksum covers it.
    pub(super) covered: Covered,
}

impl Place {
    /// A place without checksum.
    pub(super) fn plain(at: usize, bytes: u8, shift: u8) -> Self {
        Self { at, bytes, shift, header: 0, covered: Covered::No }
    }

    fn covered(self, covered: Covered) -> Self {
        Self { covered, ..self }
    }

    /// Position of the lowest bit of the field in the window at its offset.
    fn position(&self) -> u32 {
        128 - 8 * u32::from(self.bytes) + u32::from(self.shift)
    }
}

impl Rewriter {
    /// Sets the bits `mask` of a field to those of `value`. Checksums that cover the field are updated. `vlan_tci` adds
    /// a VLAN tag if its bit 12 is set in a packet without, and removes the outer tag if the bit is cleared. Fields
    /// that are not read from the packet are set in the key.
    ///
    /// # Errors
    /// If the field is read-only, or the packet does not have it.
    pub fn set(&mut self, field: Field, value: u128, mask: u128) -> Result<(), ActionError> {
        let info = field.info();
        if info.access == Access::Read {
            return Err(ActionError::ReadOnly(info.name));
        }
        if !Key::PACKET.contains(&info.word.into()) {
            self.key.set_masked(field, value, mask & field.full());
            return Ok(());
        }
        if matches!(field, Field::VlanTci | Field::VlanVid | Field::VlanPcp) {
            return self.set_tag(field, value, mask);
        }
        let place = self.place(field)?;
        self.store(&place, value, mask & field.full())?;
        self.key.set_masked(field, value, mask & field.full());
        // Type and code decide whether fields of Neighbor Discovery follow.
        self.is_stale |= matches!(field, Field::Icmpv6Type | Field::Icmpv6Code);
        Ok(())
    }

    fn set_tag(&mut self, field: Field, value: u128, mask: u128) -> Result<(), ActionError> {
        const PRESENT: u16 = 0x1000;
        let (present, shift) = (self.outer_tag(), field.info().shift);
        let mask = ((mask & field.full()) as u16) << shift;
        let tag = present.map_or(0, |tag| tag | PRESENT) & !mask | (value as u16) << shift & mask;
        match (present, field) {
            (None, Field::VlanTci) if tag & PRESENT != 0 => {
                self.insert_tag(EtherType::VLAN.0, tag & !PRESENT)?;
            }
            (None, Field::VlanTci) if tag == 0 => {}
            (None, _) => return Err(ActionError::Absent(field.info().name)),
            (Some(_), Field::VlanTci) if tag & PRESENT == 0 => self.pop_vlan()?,
            (Some(old), _) => {
                // Bit 12 of the frame is the drop eligible indicator, which is no field.
                self.overwrite(14, (tag & !PRESENT | old & PRESENT).to_be_bytes());
                self.key.set(Field::VlanTci, (tag | PRESENT).into());
            }
        }
        Ok(())
    }

    /// The integer at a place, shifted to the field. Higher bits of the integer are above the field.
    pub(super) fn load(&self, place: &Place) -> u128 {
        u128::from_be_bytes(self.window(place.at)) >> place.position()
    }

    /// Sets the bits `mask` of a place, and updates checksums.
    ///
    /// # Errors
    /// For a port of a fragmented SCTP packet, whose CRC covers bytes of other fragments.
    pub(super) fn store(&mut self, place: &Place, value: u128, mask: u128) -> Result<(), ActionError> {
        let (old, mask) = (u128::from_be_bytes(self.window(place.at)), mask << place.position());
        let new = old & !mask | value << place.position() & mask;
        if old == new {
            return Ok(());
        }
        if place.covered == Covered::SctpPort && self.layout.is_fragment {
            return Err(ActionError::Fragment);
        }
        let change = Change { old: old.to_be_bytes(), new: new.to_be_bytes() };
        let start = self.start + place.at;
        if let Some(window) = self.bytes.get_mut(start..).and_then(|bytes| bytes.first_chunk_mut()) {
            *window = change.new;
        }
        self.changed.include(place.at, start + usize::from(place.bytes));
        if place.header != 0 {
            self.update_header(place.header, &change);
        }
        match place.covered {
            Covered::No => {}
            Covered::Pseudo | Covered::Transport => self.update_transport(place.covered, &change),
            Covered::SctpPort => self.update_crc(place.at, &change),
        }
        Ok(())
    }

    /// Where a field of the packet is.
    pub(super) fn place(&mut self, field: Field) -> Result<Place, ActionError> {
        self.refresh();
        let place =
            match field {
                Field::EthDst => self.link(0),
                Field::EthSrc => self.link(6),
                Field::PbbIsid => place_of(self.layout.pbb, 0, 4, 0),
                Field::PbbUca => place_of(self.layout.pbb, 0, 4, 27),
                Field::MplsLabel => place_of(self.layout.mpls, 0, 4, 12),
                Field::MplsTc => place_of(self.layout.mpls, 0, 4, 9),
                Field::MplsTtl => place_of(self.layout.mpls, 0, 4, 0),
                Field::NdTarget => {
                    place_of(self.layout.target, 0, 16, 0).map(|place| place.covered(Covered::Transport))
                }
                Field::NdSll => place_of(self.layout.source_address, 0, 6, 0)
                    .map(|place| place.covered(Covered::Transport)),
                Field::NdTll => place_of(self.layout.target_address, 0, 6, 0)
                    .map(|place| place.covered(Covered::Transport)),
                _ => match EtherType(self.key.get(Field::EthType) as u16) {
                    EtherType::IPV4 => self.ipv4(field).or_else(|| self.transport(field)),
                    EtherType::IPV6 => self.ipv6(field).or_else(|| self.transport(field)),
                    EtherType::ARP | EtherType::RARP => self.arp(field),
                    _ => None,
                },
            };
        place.ok_or(ActionError::Absent(field.info().name))
    }

    fn link(&self, at: usize) -> Option<Place> {
        (self.head().len() >= wire::HEADER_LEN).then(|| Place::plain(at, 6, 0))
    }

    fn arp(&self, field: Field) -> Option<Place> {
        let (offset, bytes) = match field {
            Field::ArpOp => (6, 2),
            Field::ArpSha => (8, 6),
            Field::ArpSpa => (14, 4),
            Field::ArpTha => (18, 6),
            Field::ArpTpa => (24, 4),
            _ => return None,
        };
        place_of(self.layout.network, offset, bytes, 0)
    }

    fn ipv4(&self, field: Field) -> Option<Place> {
        let (offset, bytes, shift, covered) = match field {
            Field::IpDscp => (0, 2, 2, Covered::No),
            Field::IpEcn => (0, 2, 0, Covered::No),
            Field::IpTtl => (8, 2, 8, Covered::No),
            Field::Ipv4Src => (12, 4, 0, Covered::Pseudo),
            Field::Ipv4Dst => (16, 4, 0, Covered::Pseudo),
            _ => return None,
        };
        let place = place_of(self.layout.network, offset, bytes, shift)?;
        Some(Place { header: self.layout.network.into(), covered, ..place })
    }

    fn ipv6(&self, field: Field) -> Option<Place> {
        // With segments left, the pseudo-header has the last address of the route (RFC 8200 section 8.1).
        let destination = if self.layout.is_routed { Covered::No } else { Covered::Pseudo };
        let (offset, bytes, shift, covered) = match field {
            Field::IpDscp => (0, 2, 6, Covered::No),
            Field::IpEcn => (0, 2, 4, Covered::No),
            Field::Ipv6Flabel => (0, 4, 0, Covered::No),
            Field::IpTtl => (6, 2, 0, Covered::No),
            Field::Ipv6Src => (8, 16, 0, Covered::Pseudo),
            Field::Ipv6Dst => (24, 16, 0, destination),
            _ => return None,
        };
        Some(place_of(self.layout.network, offset, bytes, shift)?.covered(covered))
    }

    fn transport(&self, field: Field) -> Option<Place> {
        let (wanted, offset, shift) = match field {
            Field::TcpSrc => (protocol::TCP, 0, 0),
            Field::TcpDst => (protocol::TCP, 2, 0),
            Field::UdpSrc => (protocol::UDP, 0, 0),
            Field::UdpDst => (protocol::UDP, 2, 0),
            Field::SctpSrc => (protocol::SCTP, 0, 0),
            Field::SctpDst => (protocol::SCTP, 2, 0),
            Field::IcmpType => (protocol::ICMP, 0, 8),
            Field::IcmpCode => (protocol::ICMP, 0, 0),
            Field::Icmpv6Type => (protocol::ICMPV6, 0, 8),
            Field::Icmpv6Code => (protocol::ICMPV6, 0, 0),
            _ => return None,
        };
        if self.key.get(Field::IpProto) != wanted.into() {
            return None;
        }
        let covered = if wanted == protocol::SCTP { Covered::SctpPort } else { Covered::Transport };
        // A byte is changed with its neighbour, because a checksum consists of words.
        Some(place_of(self.layout.transport, offset, 2, shift)?.covered(covered))
    }
}

/// A place in the header at `header`; `None` if the packet has none.
fn place_of(header: u16, offset: usize, bytes: u8, shift: u8) -> Option<Place> {
    (header != 0).then(|| Place::plain(usize::from(header) + offset, bytes, shift))
}
