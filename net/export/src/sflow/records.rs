//! Samples and their records (section 5, "sFlow Datagram Format"), all of enterprise 0.

use std::net::IpAddr;

/// `flow_sample` and `counter_sample`
const FLOW_SAMPLE: u32 = 1;
const COUNTERS_SAMPLE: u32 = 2;
/// `sampled_header`, `extended_switch` and `if_counters`
const SAMPLED_HEADER: u32 = 1;
const EXTENDED_SWITCH: u32 = 1001;
const IF_COUNTERS: u32 = 1;
/// `ETHERNET-ISO88023` of `header_protocol`.
const ETHERNET: u32 = 1;
/// Length of the frame check sequence, which is not in the header and is part of `frame_length`.
const FCS: u32 = 4;
/// `ethernetCsmacd` of `ifType`.
const ETHERNET_TYPE: u32 = 6;
/// `full-duplex` of `ifDirection`.
const FULL_DUPLEX: u32 = 1;
/// Value of a counter that is not known.
const UNKNOWN: u32 = u32::MAX;

/// Where a packet was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// By one interface.
    Interface(u32),
    /// By several interfaces.
    Interfaces(u32),
    /// To the switch itself.
    Internal,
    /// Nowhere. The reason is not told.
    Dropped,
}

impl Output {
    /// The field `output`: two bits of format, 30 bits of value.
    fn code(self) -> u32 {
        const MAX: u32 = 0x3fff_ffff;
        match self {
            Self::Interface(index) => index.min(MAX - 1),
            Self::Interfaces(count) => 2 << 30 | count.min(MAX),
            Self::Internal => MAX,
            // Reason 256: unknown.
            Self::Dropped => 1 << 30 | 256,
        }
    }
}

/// VLANs and priorities of a packet (`extended_switch`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switched {
    /// VLAN and priority of the received packet; 0 if unknown.
    pub source: (u16, u8),
    /// VLAN and priority of the sent packet; 0 if unknown.
    pub destination: (u16, u8),
}

/// A sampled packet.
#[derive(Clone, Copy, Debug)]
pub struct FlowSample<'a> {
    /// Interface (`ifIndex`, below 2^24) that received the packet.
    pub interface: u32,
    /// Mean number of packets for a sample.
    pub rate: u32,
    /// Packets of the interface that could have been sampled, modulo 2^32.
    pub pool: u32,
    /// Samples of the interface that were dropped, modulo 2^32.
    pub drops: u32,
    /// Where the packet was sent.
    pub output: Output,
    /// VLANs and priorities.
    pub switched: Switched,
    /// Length of the frame in bytes, without its frame check sequence.
    pub frame_len: u32,
    /// First bytes of the frame, at most [`crate::sample::MAX_HEADER`].
    pub header: &'a [u8],
}

impl FlowSample<'_> {
    pub(super) fn encode(&self, sequence: u32) -> Vec<u8> {
        let mut body = Vec::new();
        put(&mut body, &[sequence, self.interface, self.rate, self.pool, self.drops]);
        put(&mut body, &[self.interface, self.output.code(), 2]);
        let mut header = Vec::new();
        put(&mut header, &[ETHERNET, self.frame_len + FCS, FCS]);
        put_opaque(&mut header, self.header);
        put_record(&mut body, SAMPLED_HEADER, &header);
        let Switched { source, destination } = self.switched;
        let mut switched = Vec::new();
        let [source, destination] =
            [source, destination].map(|(vlan, priority)| [u32::from(vlan), u32::from(priority)]);
        put(&mut switched, &source);
        put(&mut switched, &destination);
        put_record(&mut body, EXTENDED_SWITCH, &switched);
        let mut sample = Vec::new();
        put_record(&mut sample, FLOW_SAMPLE, &body);
        sample
    }
}

/// Counters of an interface (`if_counters`). Multicast and broadcast packets are counted as unicast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Interface (`ifIndex`, below 2^24).
    pub interface: u32,
    /// Speed in bits per second; 0 if it is not known.
    pub speed: u64,
    /// Whether the interface can send and receive.
    pub is_up: bool,
    /// Received bytes and packets.
    pub rx: (u64, u64),
    /// Received packets that were dropped.
    pub rx_dropped: u64,
    /// Sent bytes and packets.
    pub tx: (u64, u64),
}

impl InterfaceCounters {
    pub(super) fn encode(&self, sequence: u32) -> Vec<u8> {
        let wide = |n: u64| [(n >> 32) as u32, n as u32];
        let mut counters = Vec::new();
        put(&mut counters, &[self.interface, ETHERNET_TYPE]);
        put(&mut counters, &wide(self.speed));
        // It is always enabled by its configuration.
        put(&mut counters, &[FULL_DUPLEX, 1 | u32::from(self.is_up) << 1]);
        put(&mut counters, &wide(self.rx.0));
        let discards = self.rx_dropped as u32;
        put(&mut counters, &[self.rx.1 as u32, UNKNOWN, UNKNOWN, discards, UNKNOWN, UNKNOWN]);
        put(&mut counters, &wide(self.tx.0));
        // The last one is `ifPromiscuousMode`.
        put(&mut counters, &[self.tx.1 as u32, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, 1]);
        let mut body = Vec::new();
        put(&mut body, &[sequence, self.interface, 1]);
        put_record(&mut body, IF_COUNTERS, &counters);
        let mut sample = Vec::new();
        put_record(&mut sample, COUNTERS_SAMPLE, &body);
        sample
    }
}

/// Appends words.
pub(super) fn put(to: &mut Vec<u8>, words: &[u32]) {
    to.extend(words.iter().flat_map(|word| word.to_be_bytes()));
}

/// Appends an address with its type.
pub(super) fn put_address(to: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            put(to, &[1]);
            to.extend(address.octets());
        }
        IpAddr::V6(address) => {
            put(to, &[2]);
            to.extend(address.octets());
        }
    }
}

/// Appends bytes of variable length, with their length and padding.
fn put_opaque(to: &mut Vec<u8>, bytes: &[u8]) {
    put(to, &[bytes.len() as u32]);
    to.extend_from_slice(bytes);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// Appends a structure with its format and length.
fn put_record(to: &mut Vec<u8>, format: u32, body: &[u8]) {
    put(to, &[format, body.len() as u32]);
    to.extend_from_slice(body);
}
