//! The fields that identify a flow, read from the header of a packet.

use super::Packet;
use super::template::{Network, Shape, Transport};
use wire::{Ethernet, Ipv4, Ipv6, Layers, Tag, Tcp, Version};

/// Protocol numbers (IANA).
const ICMP: u8 = 1;
const TCP: u8 = 6;
const ICMPV6: u8 = 58;

/// Key of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    pub(super) input: u32,
    pub(super) output: u32,
    /// Destination and source address.
    pub(super) addresses: [u8; 12],
    pub(super) ethertype: u16,
    pub(super) tag: Option<u16>,
    pub(super) network: NetworkKey,
    pub(super) transport: TransportKey,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum NetworkKey {
    None,
    V4 { addresses: [u8; 8], class: u8, protocol: u8 },
    V6 { addresses: [u8; 32], class: u8, protocol: u8, label: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum TransportKey {
    None,
    /// Of UDP and SCTP.
    Ports([u8; 4]),
    Tcp([u8; 4]),
    /// Type and code.
    Icmp([u8; 2]),
}

/// Increments of a flow's counters by one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    /// Bytes of the IP packet; 0 for others.
    pub(super) octets: u64,
    pub(super) frame: u64,
    pub(super) ttl: u8,
    pub(super) tcp_flags: u8,
}

impl FlowKey {
    /// Key and amount of a packet; `None` without an Ethernet header. Truncated headers are left out.
    pub(super) fn of(packet: &Packet<'_>) -> Option<(Self, Amount)> {
        let frame = Ethernet::new(packet.header).ok()?;
        let mut amount = Amount { frame: packet.frame_len.into(), ..Amount::default() };
        let layers = Layers::of(packet.header);
        let network = layers.and_then(|layers| network(packet, layers, &mut amount));
        let transport = network.as_ref().and(layers).and_then(|at| transport(packet.header, at, &mut amount));
        let key = Self {
            input: packet.input,
            output: packet.output,
            addresses: *packet.header.first_chunk()?,
            ethertype: frame.inner_ethertype().0,
            tag: frame.tag().map(|Tag(tag)| tag),
            network: network.unwrap_or(NetworkKey::None),
            transport: transport.unwrap_or(TransportKey::None),
        };
        Some((key, amount))
    }

    /// Layout of its records.
    pub(super) fn shape(&self) -> Shape {
        let network = match self.network {
            NetworkKey::None => Network::None,
            NetworkKey::V4 { .. } => Network::V4,
            NetworkKey::V6 { .. } => Network::V6,
        };
        let transport = match self.transport {
            TransportKey::None => Transport::None,
            TransportKey::Ports(_) => Transport::Ports,
            TransportKey::Tcp(_) => Transport::Tcp,
            TransportKey::Icmp(_) => Transport::Icmp,
        };
        Shape { is_tagged: self.tag.is_some(), network, transport }
    }
}

fn network(packet: &Packet<'_>, layers: Layers, amount: &mut Amount) -> Option<NetworkKey> {
    let bytes = packet.header.get(layers.network..)?;
    let rest = u64::from(packet.frame_len).saturating_sub(layers.network as u64);
    // A packet that is segmented later may have no valid length.
    let octets = |len: u64| if len == 0 || len > rest { rest } else { len };
    let protocol = layers.protocol;
    if layers.version == Version::V4 {
        let ip = Ipv4::new(bytes)?;
        (amount.octets, amount.ttl) = (octets(ip.total_len().into()), ip.ttl());
        return Some(NetworkKey::V4 { addresses: *ip.addresses(), class: ip.traffic_class(), protocol });
    }
    let ip = Ipv6::new(bytes)?;
    let len = if ip.payload_len() == 0 { 0 } else { 40 + u64::from(ip.payload_len()) };
    (amount.octets, amount.ttl) = (octets(len), ip.hop_limit());
    let (addresses, class, label) = (*ip.addresses(), ip.traffic_class(), ip.flow_label());
    Some(NetworkKey::V6 { addresses, class, protocol, label })
}

fn transport(header: &[u8], layers: Layers, amount: &mut Amount) -> Option<TransportKey> {
    if let Some(ports) = layers.ports(header) {
        let tcp = (layers.protocol == TCP).then(|| header.get(layers.transport..)).flatten();
        amount.tcp_flags = tcp.and_then(Tcp::new).map_or(0, |tcp| tcp.flags().0);
        return Some(if layers.protocol == TCP {
            TransportKey::Tcp(*ports)
        } else {
            TransportKey::Ports(*ports)
        });
    }
    let icmp = if layers.version == Version::V4 { ICMP } else { ICMPV6 };
    let message =
        header.get(layers.transport..).filter(|_| layers.protocol == icmp && !layers.is_fragment)?;
    Some(TransportKey::Icmp(*message.first_chunk()?))
}
