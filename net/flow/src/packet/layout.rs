//! Where the headers of a frame are.

/// Offsets of headers from the start of the frame, in bytes. 0 means that the frame has no such header, or that its
/// head does not contain it completely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Number of VLAN tags before [`Layout::ethertype`], at most [`Layout::MAX_TAGS`]. The first is at offset 12.
    pub tags: u8,
    /// EtherType of what follows the VLAN tags: after the addresses, a tag, or a SNAP header.
    pub ethertype: u16,
    /// Outermost MPLS label stack entry.
    pub mpls: u16,
    /// Tag control information of the backbone service tag.
    pub pbb: u16,
    /// IPv4, IPv6 or ARP header.
    pub network: u16,
    /// TCP, UDP, SCTP, ICMP or ICMPv6 header, or what follows the headers of another protocol.
    pub transport: u16,
    /// Target address of a neighbor solicitation or advertisement.
    pub target: u16,
    /// Address of its source link-layer address option.
    pub source_address: u16,
    /// Address of its target link-layer address option.
    pub target_address: u16,
    /// End of the IP packet, which padding may follow.
    pub end: u32,
    /// Whether the packet is an IP fragment, first or later.
    pub is_fragment: bool,
    /// Whether an IPv6 routing header has segments left, so that the pseudo-header contains another destination.
    pub is_routed: bool,
    /// Whether the head ends before a header of the frame, so that fields are missing that the frame has.
    pub is_truncated: bool,
}

impl Layout {
    /// Maximum number of VLAN tags. A third tag is the payload of the second.
    pub const MAX_TAGS: u8 = 2;

    /// Whether the frame has a length in place of the EtherType (IEEE 802.3), with or without a SNAP header.
    pub(super) fn has_length(&self, ethertype: u16) -> bool {
        usize::from(self.ethertype) != 12 + 4 * usize::from(self.tags) || ethertype == NO_ETHERTYPE
    }
}

/// Value of [`crate::Field::EthType`] of a frame without EtherType (`OFP_DL_TYPE_NOT_ETH_TYPE`).
pub(super) const NO_ETHERTYPE: u16 = 0x05ff;
