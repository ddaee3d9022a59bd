//! Counters: each received frame is counted under one outcome, and so is each segment of no connection.

use super::link::{Bytes, Port, Received};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use stack::ip::{InterfaceConfig, InterfaceId};
use stack::tcp::Options;
use stack::{Address, Config, Counters, Endpoint, Event, Identifier, Limits, Stack, Time, UdpOptions};
use std::net::IpAddr;
use wire::MacAddress;
use wire::checksum::{Sum, protocol};

const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Ports of the listener, of the UDP socket, of DHCP clients, and one without a socket.
const PORTS: [u16; 4] = [80, 53, 68, 9];
const IGMP: u8 = 2;
const FRAGMENT: u8 = 44;
/// More fragments follow.
const MORE: u16 = 0x2000;
const NO_NEXT_HEADER: u8 = 59;

/// Frames that ended at each layer. A reassembled packet is one more packet.
pub(crate) fn outcomes(c: &Counters) -> u64 {
    let link = c.not_for_us + c.arp_in;
    let network = c.ip_header_errors + c.ip_unknown_protocol + c.fragments_in + c.icmp_in + c.igmp_in;
    link + network + c.dhcp_in + c.udp_in + c.udp_no_port + c.udp_errors + c.udp_overflow + c.tcp_in
}

/// A frame, by choices between useful and useless values of its fields.
#[derive(Clone, Debug)]
struct Shape {
    /// Ethernet addresses, EtherType, and IP addresses.
    link: (u8, u8, u8, u8),
    protocol: u8,
    hop_limit: u8,
    /// Flags and offset of a fragment; 0 for most packets.
    fragment: u16,
    /// Whether header and transport checksums are right.
    is_header_valid: bool,
    is_sum_valid: bool,
    has_buffer: bool,
    /// Ports, or type and code.
    kind: (u8, u8),
    flags: u8,
    body: Vec<u8>,
    /// Bytes that are missing at the end.
    cut: usize,
}

fn often() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.9)
}

fn shape() -> impl Strategy<Value = Shape> {
    let cut = prop_oneof![9 => Just(0_usize), 1 => 0..60_usize];
    let fragment = prop_oneof![4 => Just(0_u16), 1 => prop::sample::select(vec![MORE, 1, 2, MORE | 1])];
    let checks = (often(), often(), often());
    let body = prop::collection::vec(any::<u8>(), 0..80);
    let fields = (any::<u8>(), any::<u8>(), fragment, checks, any::<(u8, u8)>(), any::<u8>());
    (any::<(u8, u8, u8, u8)>(), fields, body, cut).prop_map(|(link, fields, body, cut)| {
        let (protocol, hop_limit, fragment, checks, kind, flags) = fields;
        let (is_header_valid, is_sum_valid, has_buffer) = checks;
        Shape {
            link,
            protocol,
            hop_limit,
            fragment,
            is_header_valid,
            is_sum_valid,
            has_buffer,
            kind,
            flags,
            body,
            cut,
        }
    })
}

impl Shape {
    fn is_v4(&self) -> bool {
        self.link.2.is_multiple_of(2)
    }

    fn protocol(&self) -> u8 {
        let (icmp, other) = if self.is_v4() { (protocol::ICMP, IGMP) } else { (protocol::ICMPV6, 60) };
        [protocol::TCP, protocol::UDP, icmp, other, NO_NEXT_HEADER, 200][usize::from(self.protocol % 6)]
    }

    fn ends(&self) -> (Address, Address) {
        // Fragments have one source, so that some of them are of one datagram.
        let last = if self.fragment == 0 { self.link.3 / 4 } else { 2 };
        if self.is_v4() {
            let to = [[10, 0, 0, 1], [10, 0, 0, 1], [224, 0, 0, 1], [10, 0, 0, 7]];
            (Address::v4([10, 0, 0, last]), Address::v4(to[usize::from(self.link.3 % 4)]))
        } else {
            let group = Address::from("ff02::1".parse::<IpAddr>().unwrap());
            let of = |last| Address::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
            (of(last), [of(1), of(1), group, of(7)][usize::from(self.link.3 % 4)])
        }
    }

    /// Transport header and payload, with their checksum.
    fn transport(&self) -> Vec<u8> {
        let port = |choice: u8| PORTS[usize::from(choice % 4)].to_be_bytes();
        let mut bytes = [port(self.kind.0), port(self.kind.1)].concat();
        let number = self.protocol();
        let checksum_at = match number {
            protocol::TCP => {
                bytes.extend([[1; 8].as_slice(), &[0x50, self.flags, 9, 9, 0, 0, 0, 0]].concat());
                16
            }
            protocol::UDP => {
                let len = 8 + self.body.len() as u16;
                bytes.extend([len.to_be_bytes(), [0; 2]].concat());
                6
            }
            protocol::ICMP | IGMP => {
                let kinds = [0x11, 0x16, 0x22, 3, 8, 0];
                bytes = vec![kinds[usize::from(self.kind.0) % kinds.len()], self.kind.1 % 5, 0, 0];
                2
            }
            protocol::ICMPV6 => {
                let kinds = [1, 2, 128, 130, 131, 134, 135, 136, 143];
                bytes = vec![kinds[usize::from(self.kind.0) % kinds.len()], 0, 0, 0];
                2
            }
            _ => return self.body.clone(),
        };
        bytes.extend(&self.body);
        let (source, destination) = self.ends();
        let mut sum = Sum::default();
        if !matches!(number, protocol::ICMP | IGMP) {
            sum = Sum::pseudo(source.wire(), number, bytes.len() as u32);
            sum.add(destination.wire());
        }
        sum.add(&bytes);
        if self.is_sum_valid {
            bytes[checksum_at..checksum_at + 2].copy_from_slice(&sum.finish());
        }
        if self.fragment & MORE != 0 {
            bytes.truncate(8);
        }
        bytes
    }

    fn frame(&self) -> Vec<u8> {
        let (source, destination) = self.ends();
        let to = match self.link.0 % 8 {
            0 => [0xff; 6],
            1 => [2; 6],
            _ if destination.is_v4() && destination.is_multicast() => [1, 0, 0x5e, 0, 0, 1],
            _ if destination.is_multicast() => [0x33, 0x33, 0, 0, 0, 1],
            _ => OWN,
        };
        let ethertype: u16 = match (self.link.1 % 16, self.is_v4()) {
            (0, _) => 0x0806,
            (1, _) => 0x88cc,
            (_, true) => 0x0800,
            (_, false) => 0x86dd,
        };
        let mut frame = [to.as_slice(), &PEER, &ethertype.to_be_bytes()].concat();
        let transport = self.transport();
        frame.extend(match ethertype {
            0x0806 => arp(self.kind.0 % 3),
            _ if self.is_v4() => self.ipv4(source, destination, &transport),
            _ => self.ipv6(source, destination, &transport),
        });
        frame.truncate(frame.len() - self.cut.min(frame.len()));
        frame
    }

    fn ipv4(&self, source: Address, destination: Address, transport: &[u8]) -> Vec<u8> {
        let hop_limit = if self.hop_limit < 128 { 1 } else { 64 };
        let [high, low] = self.fragment.to_be_bytes();
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, high, low, hop_limit, self.protocol(), 0, 0];
        packet.extend([source.wire(), destination.wire(), transport].concat());
        let len = packet.len() as u16;
        wire::rewrite_ipv4(&mut packet, len, 7);
        packet[10] ^= u8::from(!self.is_header_valid);
        packet
    }

    fn ipv6(&self, source: Address, destination: Address, transport: &[u8]) -> Vec<u8> {
        let hop_limit = [1, 255][usize::from(self.hop_limit % 2)];
        let (offset, more) = (self.fragment << 3, self.fragment & MORE != 0);
        let fragment = wire::ipv6_fragment_header(self.protocol(), offset, more, 7);
        let is_fragment = self.fragment != 0;
        let extension = if is_fragment { fragment.as_slice() } else { &[] };
        let len = (extension.len() + transport.len()) as u16 + 9 * u16::from(!self.is_header_valid);
        let next = if is_fragment { FRAGMENT } else { self.protocol() };
        let mut packet = vec![0x60, 0, 0, 0];
        packet
            .extend([&len.to_be_bytes()[..], &[next, hop_limit], source.wire(), destination.wire()].concat());
        packet.extend([extension, transport].concat());
        packet
    }
}

fn arp(operation: u8) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, operation];
    packet.extend([PEER.as_slice(), &[10, 0, 0, 2], &[0; 6], &[10, 0, 0, 1]].concat());
    packet
}

/// A stack that answers every SYN with a cookie, so that it has no connections.
struct Target {
    stack: Stack<Bytes>,
    interface: InterfaceId,
    port: Port,
    frames: u64,
    datagrams: u64,
}

impl Target {
    fn new() -> Self {
        let limits =
            Limits { half_open: 0, reassemblies: 3, fragments: 4, udp_queue: 2, ..Limits::default() };
        let now = Time(1_000_000_000);
        let mut stack = Stack::new(Config { limits, ..Config::new([7; 16]) }, now);
        let interface =
            stack.add_interface(InterfaceConfig { mac: MacAddress::new(OWN), mtu: 1500, vlan: None });
        stack.start_dhcp(interface, now);
        stack.start_slaac(interface, Identifier::default(), now);
        for network in ["10.0.0.1/24", "fd00::1/64"] {
            stack.add_address(interface, network.parse().unwrap(), now);
        }
        for any in ["0.0.0.0", "::"] {
            let any = Address::from(any.parse::<IpAddr>().unwrap());
            stack.listen(Endpoint::new(any, PORTS[0]), Options::default()).unwrap();
            stack.udp_bind(Endpoint::new(any, PORTS[1]), UdpOptions::default()).unwrap();
        }
        Self { stack, interface, port: Port::new(1500), frames: 0, datagrams: 0 }
    }

    fn receive(&mut self, shape: &Shape) {
        let now = Time(1_000_000_000 + self.frames * 10_000_000);
        let frame = Received::new(&shape.frame());
        let mut frame = if shape.has_buffer { frame } else { frame.without_buffer() };
        self.stack.receive(self.interface, &mut frame, now);
        self.frames += 1;
        // Events wait for a while, so that a queue is full at times.
        if self.frames.is_multiple_of(16) {
            self.settle(now);
        }
    }

    fn settle(&mut self, now: Time) {
        self.stack.advance(now);
        self.stack.transmit(&mut self.port, now);
        while let Some(event) = self.stack.poll_event() {
            assert!(matches!(event, Event::Datagram { .. }), "no connection, no error");
            self.datagrams += 1;
        }
    }

    fn check(&self) {
        let c = self.stack.counters();
        assert_eq!(c.frames_in, self.frames);
        assert_eq!(c.frames_in + c.reassembled, outcomes(c), "{c:?}");
        let refused = c.tcp_header_errors + c.tcp_checksum_errors + c.tcp_syn_refused + c.tcp_no_connection;
        assert_eq!(c.tcp_in, refused + c.tcp_cookies_sent + c.tcp_cookies_failed, "{c:?}");
        assert!(c.icmp_errors <= c.icmp_in && c.igmp_errors <= c.igmp_in, "{c:?}");
        assert_eq!(c.udp_in, self.datagrams + self.stack.pending_events() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_frame_is_counted_once(shapes in prop::collection::vec(shape(), 1..100)) {
        let mut target = Target::new();
        for shape in &shapes {
            target.receive(shape);
            target.check();
        }
    }
}

/// The frames of the test above have every outcome.
#[test]
fn every_outcome_of_a_frame_occurs() {
    let (mut runner, mut target) = (TestRunner::deterministic(), Target::new());
    for _ in 0..20_000 {
        target.receive(&shape().new_tree(&mut runner).unwrap().current());
        target.check();
    }
    let c = target.stack.counters();
    let link = [c.not_for_us, c.arp_in, c.ip_header_errors, c.ip_unknown_protocol];
    let control = [c.icmp_in, c.icmp_errors, c.igmp_in, c.igmp_errors, c.dhcp_in];
    let fragments = [c.fragments_in, c.reassembled, c.reassembly_failed];
    let udp = [c.udp_in, c.udp_no_port, c.udp_errors, c.udp_overflow];
    let tcp = [c.tcp_header_errors, c.tcp_checksum_errors, c.tcp_syn_refused, c.tcp_no_connection];
    let cookies = [c.tcp_cookies_sent, c.tcp_cookies_failed];
    let all = [link.as_slice(), &control, &fragments, &udp, &tcp, &cookies].concat();
    assert!(all.iter().all(|count| *count > 0), "{c:?}");
}
