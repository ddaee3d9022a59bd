//! ARP for IPv4 over Ethernet (RFC 826), and RARP (RFC 903), which has the same format.

use crate::MacAddress;
use core::net::Ipv4Addr;

/// Length of an ARP packet for Ethernet and IPv4, in bytes.
pub const ARP_LEN: usize = 28;

/// Hardware type Ethernet, protocol type IPv4, address lengths 6 and 4.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// A complete ARP packet for Ethernet and IPv4.
#[derive(Clone, Copy, Debug)]
pub struct Arp<'a>(&'a [u8; ARP_LEN]);

impl<'a> Arp<'a> {
    /// Operation code of a request.
    pub const REQUEST: u16 = 1;
    /// Operation code of a reply.
    pub const REPLY: u16 = 2;

    /// Returns `None` if the packet is too short or not for Ethernet and IPv4. Ignores padding after the packet.
    pub fn new(packet: &'a [u8]) -> Option<Self> {
        let packet: &[u8; ARP_LEN] = packet.first_chunk()?;
        packet.starts_with(&ETHERNET_IPV4).then_some(Self(packet))
    }

    /// Operation code.
    pub fn operation(&self) -> u16 {
        u16::from_be_bytes([self.0[6], self.0[7]])
    }

    /// The sender's Ethernet address.
    pub fn sender_mac(&self) -> MacAddress {
        MacAddress::new(self.0[8..].first_chunk().copied().unwrap_or_default())
    }

    /// The sender's IPv4 address.
    pub fn sender_ip(&self) -> Ipv4Addr {
        self.0[14..].first_chunk::<4>().copied().unwrap_or_default().into()
    }

    /// The target's Ethernet address, zero in most requests.
    pub fn target_mac(&self) -> MacAddress {
        MacAddress::new(self.0[18..].first_chunk().copied().unwrap_or_default())
    }

    /// The IPv4 address whose Ethernet address is requested, or that of the host to which a reply goes.
    pub fn target_ip(&self) -> Ipv4Addr {
        self.0.last_chunk::<4>().copied().unwrap_or_default().into()
    }
}

/// An ARP packet. The target's Ethernet address is [`MacAddress::ZERO`] in requests.
#[must_use]
pub fn arp_packet(
    operation: u16,
    (sender_mac, sender_ip): (MacAddress, Ipv4Addr),
    (target_mac, target_ip): (MacAddress, Ipv4Addr),
) -> [u8; ARP_LEN] {
    let mut packet = [0; ARP_LEN];
    packet[..6].copy_from_slice(&ETHERNET_IPV4);
    packet[6..8].copy_from_slice(&operation.to_be_bytes());
    packet[8..14].copy_from_slice(&sender_mac.octets());
    packet[14..18].copy_from_slice(&sender_ip.octets());
    packet[18..24].copy_from_slice(&target_mac.octets());
    packet[24..].copy_from_slice(&target_ip.octets());
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;

    #[test]
    fn arp_is_parsed_for_ethernet_and_ipv4_only() {
        let mut packet = [0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 5].to_vec();
        packet.resize(46, 0);
        let view = Arp::new(&packet).unwrap();
        assert_eq!((view.operation(), view.sender_ip()), (2, Ipv4Addr::new(10, 0, 0, 5)));
        assert_eq!(view.sender_mac(), MacAddress::new([2, 0, 0, 0, 0, 1]));
        assert!(Arp::new(&packet[..27]).is_none());
        for at in 0..6 {
            let mut other = packet.clone();
            other[at] ^= 1;
            assert!(Arp::new(&other).is_none(), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn built_packet_is_parsed(operation: u16, sender: [u8; 6], ip: [u8; 4], target: [u8; 4]) {
            let sender = (MacAddress::new(sender), Ipv4Addr::from(ip));
            let bytes = arp_packet(operation, sender, (sender.0, target.into()));
            let view = Arp::new(&bytes).unwrap();
            prop_assert_eq!((view.sender_mac(), view.sender_ip()), sender);
            prop_assert_eq!((view.operation(), view.target_ip()), (operation, target.into()));
            prop_assert_eq!(view.target_mac(), sender.0);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let bytes = [&ETHERNET_IPV4[..], &bytes].concat();
            if let Some(view) = Arp::new(&bytes) {
                let _ = (view.operation(), view.sender_mac(), view.sender_ip(), view.target_ip());
            }
        }
    }
}
