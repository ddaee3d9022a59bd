//! Packet parsing: validated header views, and layers on top of them.
//!
//! The constructor of a view checks all lengths once; its accessors cannot fail. The per-packet code does not allocate,
//! keeps no state between packets, and does not depend on ports, bursts, time or an operating system.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod arp;
pub mod checksum;
mod dhcp;
mod dhcpv6;
mod ethernet;
mod fragment;
mod icmp;
mod ipv4;
mod ipv6;
mod layers;
mod mac;
mod membership;
mod mpls;
mod nd;
mod pbb;
mod router;
mod sctp;
mod tcp;
pub mod toeplitz;
mod udp;
mod vlan;

pub use arp::{ARP_LEN, Arp, arp_packet};
pub use dhcp::{DHCP_HEADER, Dhcp, DhcpMessage};
pub use dhcpv6::Dhcpv6;
pub use ethernet::{EtherType, Ethernet, HEADER_LEN, TooShort, write_ethernet};
pub use fragment::{FRAGMENT_HEADER, Ipv6Fragment, ipv6_fragment_header};
pub use icmp::{ICMP_HEADER, Icmp, IcmpKind, Quoted, icmp_header};
pub use ipv4::{IPV4_HEADER, Ipv4, Ipv4Fields, rewrite_ipv4};
pub use ipv6::{IPV6_HEADER, Ipv6, UpperLayer, ipv6_header};
pub use layers::{Layers, Version};
pub use mac::{MacAddress, ParseMacError};
pub use membership::{GroupRecord, Membership, membership_report, old_membership_report};
pub use mpls::{LabelEntry, MPLS_ENTRY};
pub use nd::{NEIGHBOR_MESSAGE, NaFlags, Nd, NdKind, neighbor_advertisement, neighbor_solicitation};
pub use pbb::{SERVICE_TAG, ServiceTag};
pub use router::{PrefixInformation, RouterAdvertisement, duplicate_address_probe, router_solicitation};
pub use sctp::{SCTP_CHECKSUM, SCTP_HEADER, Sctp, crc32c_update};
pub use tcp::{MAX_TCP_HEADER, TCP_HEADER, Tcp, TcpBuilder, TcpFlags, TcpOption, TcpOptions, sack_range};
pub use udp::{UDP_HEADER, Udp, udp_header};
pub use vlan::{ParseVlanError, TAG_LEN, Tag, VlanId};
