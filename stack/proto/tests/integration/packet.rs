//! IP packets in frames: decoded and checked, and encoded with valid checksums.

use stack::Address;
use wire::checksum::Sum;
use wire::checksum::protocol::{TCP, UDP};

/// Length of an Ethernet header in bytes.
pub(crate) const ETHERNET: usize = 14;

/// Ethernet address of the network itself: of routers that report errors.
pub(crate) const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xfe];

const ICMP: u8 = 1;
const IGMP: u8 = 2;
const ICMPV6: u8 = 58;

/// An IP packet in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) source: Address,
    pub(crate) destination: Address,
    pub(crate) traffic_class: u8,
    pub(crate) protocol: u8,
    /// The network header.
    pub(crate) network: &'a [u8],
    pub(crate) transport: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Returns `None` if the frame is not an unfragmented IP packet without extension headers.
    pub(crate) fn decode(frame: &'a [u8]) -> Option<Self> {
        let packet = frame.get(ETHERNET..)?;
        match frame.get(12..14)? {
            [0x08, 0x00] => Self::v4(packet),
            [0x86, 0xdd] => Self::v6(packet),
            _ => None,
        }
    }

    fn v4(packet: &'a [u8]) -> Option<Self> {
        let view = wire::Ipv4::new(packet)?;
        let (source, destination) = view.source_and_destination();
        Some(Self {
            source: source.into(),
            destination: destination.into(),
            traffic_class: packet[1],
            protocol: view.protocol(),
            network: &packet[..view.header_len()],
            transport: packet.get(view.header_len()..usize::from(view.total_len()))?,
        })
    }

    fn v6(packet: &'a [u8]) -> Option<Self> {
        let view = wire::Ipv6::new(packet)?;
        let (source, destination) = view.source_and_destination();
        Some(Self {
            source: source.into(),
            destination: destination.into(),
            traffic_class: (packet[0] << 4) | (packet[1] >> 4),
            protocol: packet[6],
            network: &packet[..40],
            transport: packet.get(40..40 + usize::from(view.payload_len()))?,
        })
    }

    /// Checks the checksums of both headers.
    pub(crate) fn check(self) -> Result<Self, String> {
        if self.source.is_v4() && Sum::of(self.network).finish() != [0, 0] {
            return Err("invalid IPv4 header checksum".into());
        }
        let sum = match self.protocol {
            ICMP | IGMP => Sum::of(self.transport).finish(),
            TCP | UDP | ICMPV6 => transport_sum(self.source, self.destination, self.protocol, self.transport),
            _ => [0, 0],
        };
        match sum {
            [0, 0] => Ok(self),
            sum => Err(format!("invalid transport checksum, off by {sum:02x?}")),
        }
    }
}

/// Checksum over pseudo header and transport packet.
pub(crate) fn transport_sum(source: Address, destination: Address, protocol: u8, bytes: &[u8]) -> [u8; 2] {
    let addresses = [source.wire(), destination.wire()].concat();
    let mut sum = Sum::pseudo(&addresses, protocol, bytes.len() as u32);
    sum.add(bytes);
    sum.finish()
}

/// A frame with an ICMP message from `source`; the checksum of the message is written.
pub(crate) fn icmp_frame(
    destination_mac: [u8; 6],
    source_mac: [u8; 6],
    (source, destination): (Address, Address),
    message: &[u8],
) -> Vec<u8> {
    let mut message = message.to_vec();
    message[2..4].fill(0);
    let (protocol, sum) = if source.is_v4() {
        (ICMP, Sum::of(&message).finish())
    } else {
        (ICMPV6, transport_sum(source, destination, ICMPV6, &message))
    };
    message[2..4].copy_from_slice(&sum);
    ip_frame(destination_mac, source_mac, (source, destination), protocol, 0, &message)
}

/// An ICMP error about the packet in `frame`, as a router at `router` sends it to the source.
pub(crate) fn icmp_error(frame: &[u8], router: Address, (kind, code): (u8, u8), info: u32) -> Vec<u8> {
    let packet = Packet::decode(frame).expect("an IP packet");
    let mut message = vec![kind, code, 0, 0];
    message.extend(info.to_be_bytes());
    message.extend(packet.network);
    message.extend(&packet.transport[..packet.transport.len().min(if router.is_v4() { 8 } else { 512 })]);
    let to = frame[6..12].try_into().expect("six bytes");
    icmp_frame(to, ROUTER_MAC, (router, packet.source), &message)
}

/// A frame with an IP header before `transport`.
pub(crate) fn ip_frame(
    destination_mac: [u8; 6],
    source_mac: [u8; 6],
    (source, destination): (Address, Address),
    protocol: u8,
    ecn: u8,
    transport: &[u8],
) -> Vec<u8> {
    let mut frame = [destination_mac, source_mac].concat();
    if source.is_v4() {
        let len = (transport.len() + 20) as u16;
        frame.extend([0x08, 0x00, 0x45, ecn]);
        frame.extend(len.to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    } else {
        frame.extend([0x86, 0xdd, 0x60, ecn << 4, 0, 0]);
        frame.extend((transport.len() as u16).to_be_bytes());
        frame.extend([protocol, 64]);
    }
    frame.extend(source.wire());
    frame.extend(destination.wire());
    if source.is_v4() {
        let sum = Sum::of(&frame[ETHERNET..]).finish();
        frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&sum);
    }
    frame.extend(transport);
    frame
}
