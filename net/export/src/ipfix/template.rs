//! Templates: one for each combination of headers, with the records in its layout (RFC 7011, sections 3.4.1 and 3.4.2).

use super::Totals;
use super::cache::Ended;
use super::key::{NetworkKey, TransportKey};
use std::time::Duration;

/// Set identifiers of templates and options templates (RFC 7011, section 3.3.2).
pub(super) const TEMPLATE_SET: u16 = 2;
pub(super) const OPTIONS_SET: u16 = 3;
/// Identifier of the options template; those of records are above.
pub(super) const OPTIONS_ID: u16 = 256;
const FIRST_ID: u16 = 257;
/// Records are shorter than this, in bytes.
pub(super) const MAX_RECORD: usize = 160;

/// Number of an information element (IANA) and the length of its values in bytes.
type Field = (u16, u16);

/// Fields in the order of records, as `encode` writes them.
const BEGIN: &[Field] = &[
    (138, 4), // observationPointId
    (61, 1),  // flowDirection
    (10, 4),  // ingressInterface
    (14, 4),  // egressInterface
    (80, 6),  // destinationMacAddress
    (56, 6),  // sourceMacAddress
    (256, 2), // ethernetType
];
const TAG: &[Field] = &[
    (58, 2),  // vlanId
    (243, 2), // dot1qVlanId
    (244, 1), // dot1qPriority
];
const IP: &[Field] = &[
    (60, 1),  // ipVersion
    (192, 1), // ipTTL
    (4, 1),   // protocolIdentifier
    (5, 1),   // ipClassOfService
    (195, 1), // ipDiffServCodePoint
    (1, 8),   // octetDeltaCount
];
const V4: &[Field] = &[
    (8, 4),  // sourceIPv4Address
    (12, 4), // destinationIPv4Address
];
const V6: &[Field] = &[
    (27, 16), // sourceIPv6Address
    (28, 16), // destinationIPv6Address
    (31, 4),  // flowLabelIPv6
];
const PORTS: &[Field] = &[
    (7, 2),  // sourceTransportPort
    (11, 2), // destinationTransportPort
];
const TCP: &[Field] = &[
    (6, 2), // tcpControlBits
];
const ICMP_V4: &[Field] = &[
    (32, 2), // icmpTypeCodeIPv4
];
const ICMP_V6: &[Field] = &[
    (139, 2), // icmpTypeCodeIPv6
];
const END: &[Field] = &[
    (352, 8), // layer2OctetDeltaCount
    (2, 8),   // packetDeltaCount
    (152, 8), // flowStartMilliseconds
    (153, 8), // flowEndMilliseconds
    (136, 1), // flowEndReason
];
/// The first is the scope.
const SELECTOR: &[Field] = &[
    (302, 8), // selectorId
    (304, 2), // selectorAlgorithm
    (309, 4), // samplingSize
    (310, 4), // samplingPopulation
    (305, 4), // samplingPacketInterval
    (306, 4), // samplingPacketSpace
    (318, 8), // selectorIdTotalPktsObserved
    (319, 8), // selectorIdTotalPktsSelected
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    None,
    V4,
    V6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    None,
    Ports,
    Tcp,
    Icmp,
}

/// The headers of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) is_tagged: bool,
    pub(super) network: Network,
    pub(super) transport: Transport,
}

impl Shape {
    /// All shapes; a packet without an IP header has no transport header.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let networks = [Network::None, Network::V4, Network::V6].into_iter();
        let transports = [Transport::None, Transport::Ports, Transport::Tcp, Transport::Icmp];
        let pairs = networks.flat_map(move |network| transports.map(|transport| (network, transport)));
        let pairs = pairs.filter(|(network, kind)| *network != Network::None || *kind == Transport::None);
        pairs.flat_map(|(network, transport)| {
            [false, true].map(|is_tagged| Self { is_tagged, network, transport })
        })
    }

    /// Identifier of its template.
    pub(super) fn id(self) -> u16 {
        FIRST_ID + ((self.network as u16) << 3 | (self.transport as u16) << 1 | u16::from(self.is_tagged))
    }

    pub(super) fn fields(self) -> Vec<Field> {
        let tag = if self.is_tagged { TAG } else { &[] };
        let network: [&[Field]; 2] = match self.network {
            Network::None => [&[], &[]],
            Network::V4 => [IP, V4],
            Network::V6 => [IP, V6],
        };
        let transport: [&[Field]; 2] = match self.transport {
            Transport::None => [&[], &[]],
            Transport::Ports => [PORTS, &[]],
            Transport::Tcp => [PORTS, TCP],
            Transport::Icmp if self.network == Network::V4 => [ICMP_V4, &[]],
            Transport::Icmp => [ICMP_V6, &[]],
        };
        [BEGIN, tag, network[0], network[1], transport[0], transport[1], END].concat()
    }
}

fn put_fields(to: &mut Vec<u8>, fields: &[Field]) {
    to.extend(fields.iter().flat_map(|(element, len)| [element.to_be_bytes(), len.to_be_bytes()]).flatten());
}

/// The template records of all shapes.
pub(super) fn all() -> impl Iterator<Item = Vec<u8>> {
    Shape::all().map(|shape| {
        let fields = shape.fields();
        let mut record = [shape.id().to_be_bytes(), (fields.len() as u16).to_be_bytes()].concat();
        put_fields(&mut record, &fields);
        record
    })
}

/// The options template record.
pub(super) fn options() -> Vec<u8> {
    let [count, scopes] = [SELECTOR.len() as u16, 1].map(u16::to_be_bytes);
    let mut record = [OPTIONS_ID.to_be_bytes(), count, scopes].concat();
    put_fields(&mut record, SELECTOR);
    record
}

/// How packets are selected (RFC 5477, section 6.5).
pub(super) struct SelectorReport {
    pub(super) selector: u32,
    pub(super) rate: u32,
    pub(super) totals: Totals,
}

impl SelectorReport {
    /// The options record. One packet in `rate` is selected at random; the elements of systematic sampling tell the
    /// same rate to collectors that know only them.
    pub(super) fn encode(&self) -> Vec<u8> {
        const RANDOM_N_OUT_OF_N: u16 = 3;
        let mut record = Vec::new();
        record.extend(u64::from(self.selector).to_be_bytes());
        record.extend(RANDOM_N_OUT_OF_N.to_be_bytes());
        for number in [1, self.rate, 1, self.rate - 1] {
            record.extend(number.to_be_bytes());
        }
        record.extend(self.totals.observed.to_be_bytes());
        record.extend(self.totals.selected.to_be_bytes());
        record
    }
}

/// Appends the record of a flow. `start` is the time of zero since 1970 (UTC).
pub(super) fn encode(ended: &Ended, point: u32, start: Duration, to: &mut Vec<u8>) {
    let Ended { key, flow, reason } = ended;
    to.extend(point.to_be_bytes());
    // Ingress.
    to.push(0);
    to.extend(key.input.to_be_bytes());
    to.extend(key.output.to_be_bytes());
    to.extend(key.addresses);
    to.extend(key.ethertype.to_be_bytes());
    if let Some(tag) = key.tag {
        let vlan = (tag & 0xfff).to_be_bytes();
        to.extend([vlan, vlan].as_flattened());
        to.push((tag >> 13) as u8);
    }
    encode_network(ended, to);
    match &key.transport {
        TransportKey::None => {}
        TransportKey::Ports(ports) => to.extend(ports),
        TransportKey::Tcp(ports) => {
            to.extend(ports);
            to.extend(u16::from(flow.amount.tcp_flags).to_be_bytes());
        }
        TransportKey::Icmp(message) => to.extend(message),
    }
    let [first, last] = [flow.first, flow.last].map(|at| (start + at).as_millis() as u64);
    for number in [flow.amount.frame, flow.packets, first, last] {
        to.extend(number.to_be_bytes());
    }
    to.push(*reason as u8);
}

fn encode_network(Ended { key, flow, .. }: &Ended, to: &mut Vec<u8>) {
    let (version, addresses, class, protocol): (_, &[u8], _, _) = match &key.network {
        NetworkKey::None => return,
        NetworkKey::V4 { addresses, class, protocol } => (4, addresses, *class, *protocol),
        NetworkKey::V6 { addresses, class, protocol, .. } => (6, addresses, *class, *protocol),
    };
    to.extend([version, flow.amount.ttl, protocol, class, class >> 2]);
    to.extend(flow.amount.octets.to_be_bytes());
    to.extend(addresses);
    if let NetworkKey::V6 { label, .. } = key.network {
        to.extend(label.to_be_bytes());
    }
}
