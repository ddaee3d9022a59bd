//! Classification of a multicast packet by a worker, from its first bytes. No checks: control makes them on its copy.

use crate::message::{IGMP, IGMP_LEAVE, IGMP_REPORT_1, IGMP_REPORT_2, IGMP_REPORT_3, MLD_DONE, MLD_QUERY};
use crate::message::{MLD_REPORT_1, MLD_REPORT_2, PIM};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::checksum::protocol::ICMPV6;
use wire::{EtherType, Ethernet, Ipv4, Ipv6};

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A packet to a multicast Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// A report, leave or done message: for router ports and control.
    Report,
    /// A query, another message of IGMP, or one of PIM: for all ports and control.
    Query,
    /// A packet to a group: for its members and router ports.
    Data(IpAddr),
    /// Any other packet: for all ports.
    Other,
}

impl Traffic {
    /// Classifies a frame. `frame` has at least the first 128 bytes of a longer one.
    pub fn of(frame: &Ethernet<'_>) -> Self {
        match frame.inner_ethertype() {
            EtherType::IPV4 => Self::ipv4(frame.payload()),
            EtherType::IPV6 => Self::ipv6(frame.payload()),
            _ => None,
        }
        .unwrap_or(Self::Other)
    }

    fn ipv4(packet: &[u8]) -> Option<Self> {
        let header = Ipv4::new(packet)?;
        let (_, destination) = header.source_and_destination();
        match header.protocol() {
            IGMP => Some(match packet.get(header.header_len()) {
                Some(&(IGMP_REPORT_1 | IGMP_REPORT_2 | IGMP_LEAVE | IGMP_REPORT_3)) => Self::Report,
                _ => Self::Query,
            }),
            PIM => Some(Self::Query),
            _ => is_snooped(destination.into()).then_some(Self::Data(destination.into())),
        }
    }

    fn ipv6(packet: &[u8]) -> Option<Self> {
        let header = Ipv6::new(packet)?;
        let (_, destination) = header.source_and_destination();
        let upper = header.upper_layer().filter(|upper| !upper.is_fragment);
        match upper.map(|upper| (upper.protocol, packet.get(upper.at))) {
            Some((ICMPV6, Some(&(MLD_REPORT_1 | MLD_DONE | MLD_REPORT_2)))) => Some(Self::Report),
            Some((ICMPV6, Some(&MLD_QUERY)) | (PIM, _)) => Some(Self::Query),
            _ => is_snooped(destination.into()).then_some(Self::Data(destination.into())),
        }
    }
}

/// Whether membership of a group is tracked. That of 224.0.0.0/24, of `ff02::1` and of groups that are not to leave a
/// node is not: their packets go to all ports (RFC 4541, sections 2.1.2 and 3).
pub(crate) fn is_snooped(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group.is_multicast() && !is_local(group),
        IpAddr::V6(group) => group.is_multicast() && scope(group) > 1 && group != ALL_NODES,
    }
}

/// Whether packets to the group go to all ports if it has no members. Hosts need not report the groups of Neighbor
/// Discovery, which are link-local.
pub(crate) fn is_always_flooded(group: IpAddr) -> bool {
    matches!(group, IpAddr::V6(group) if scope(group) == 2)
}

fn is_local(group: Ipv4Addr) -> bool {
    group.octets()[..3] == [224, 0, 0]
}

fn scope(group: Ipv6Addr) -> u16 {
    group.segments()[0] & 15
}
