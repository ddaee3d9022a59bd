//! Fuzzing of the IP layer: a script of received frames, sent packets and passing time.
//!
//! Invariants: packets that are passed up lie in their frame and come from another host to this one, transmitted frames
//! are valid, and no table exceeds its limit.

use super::interface::group_mac;
use super::{
    Deferred, HEAD, Header, InterfaceConfig, InterfaceId, Ip, Outgoing, Packet, PrivateFrame, Received,
};
use crate::{Address, Cidr, Config, Counters, Frame, Limits, Recorder, Slice, Time};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use wire::checksum::{Sum, protocol};
use wire::{Arp, EtherType, Ethernet, Ipv4, Ipv6, MacAddress};

type Bytes = Arc<[u8]>;

const OWN: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const PEER: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 2]);
const IGMP: u8 = 2;
/// Joined groups.
const GROUPS: [Address; 2] =
    [Address::v4([224, 1, 1, 1]), Address::v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x99])];
const OWN4: Address = Address::v4([10, 0, 0, 1]);
const OWN6: Address = v6(1);

const fn v6(last: u8) -> Address {
    Address::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])
}

/// Runs a script.
///
/// # Panics
/// If an invariant is violated.
pub fn fuzz_receive(script: &[u8]) {
    let mut host = Host::new();
    let mut script = Script(script);
    while !script.0.is_empty() {
        match script.byte() % 8 {
            0 => host.receive(script.bytes().to_vec()),
            1 => host.receive(frame(OWN, EtherType::ARP, script.bytes())),
            2 => host.receive(ipv4(script.byte(), script.bytes())),
            3 => host.receive(ipv6(script.byte(), script.bytes())),
            4 => host.send(script.byte(), script.byte()),
            5 => host.header(script.byte()),
            6 => host.wait(script.byte()),
            _ => host.transmit(),
        }
        host.check();
    }
    (0..100).for_each(|_| host.wait(24));
    assert!(host.ip.deadline().is_never(), "every timer ends");
}

struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or(0)
    }

    /// A length and so many bytes, or all that are left.
    fn bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()).min(self.0.len());
        self.0.split_off(..len).unwrap_or_default()
    }
}

fn frame(to: MacAddress, ethertype: EtherType, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14];
    wire::write_ethernet(&mut frame, to, PEER, None, ethertype);
    frame.extend_from_slice(packet);
    frame
}

/// An IPv4 packet, whose header checksum is set, and that of an IGMP message.
fn ipv4(choice: u8, packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let destination = Ipv4::new(&packet).map(|view| view.source_and_destination().1);
    if let Some(view) = Ipv4::new(&packet) {
        let (total, identification) = (view.total_len(), view.identification());
        let message = (view.protocol() == IGMP).then_some(view.header_len());
        wire::rewrite_ipv4(&mut packet, total, identification);
        if let Some(message) =
            message.and_then(|at| packet.get_mut(at..)).filter(|message| message.len() >= 4)
        {
            message[2..4].fill(0);
            let sum = Sum::of(message).finish();
            message[2..4].copy_from_slice(&sum);
        }
    }
    frame(receiver(choice, destination.map(Address::from)), EtherType::IPV4, &packet)
}

fn ipv6(choice: u8, packet: &[u8]) -> Vec<u8> {
    let destination = Ipv6::new(packet).map(|view| view.source_and_destination().1);
    frame(receiver(choice, destination.map(Address::from)), EtherType::IPV6, packet)
}

fn receiver(choice: u8, destination: Option<Address>) -> MacAddress {
    match (choice % 3, destination) {
        (0, _) | (_, None) => OWN,
        (1, Some(group)) => group_mac(group),
        _ => MacAddress::BROADCAST,
    }
}

fn destination(choice: u8) -> Address {
    match choice % 8 {
        0 => OWN4,
        1 => OWN6,
        2 => Address::v4([255; 4]),
        3 => Address::v4([192, 168, 0, choice]),
        4 | 5 => Address::v4([10, 0, 0, choice]),
        _ => v6(choice),
    }
}

struct Host {
    ip: Ip<Bytes>,
    counters: Counters,
    now: Time,
}

impl Host {
    fn new() -> Self {
        let limits = Limits {
            neighbours: 6,
            neighbour_queue: 2,
            paths: 4,
            outbox: 8,
            errors: 100,
            ..Limits::default()
        };
        let now = Time(1 << 40);
        let mut ip = Ip::new(&Config { limits, ..Config::new([7; 16]) }, now);
        let interface = ip.add_interface(InterfaceConfig { mac: OWN, mtu: 1500, vlan: None });
        for (address, prefix) in [(OWN4, 24), (OWN6, 64)] {
            ip.add_address(interface, Cidr { address, prefix }, now);
        }
        for group in GROUPS {
            assert!(ip.join(interface, group, now), "within the limit");
        }
        Self { ip, counters: Counters::default(), now }
    }

    /// Receives a frame whose transport checksum need not be verified: few scripts have a valid one.
    fn receive(&mut self, bytes: Vec<u8>) {
        let mut frame = PrivateFrame::new(bytes, true);
        match self.ip.receive(InterfaceId(0), &mut frame, self.now, &mut self.counters) {
            Received::Packet(packet) => {
                check_packet(&packet, frame.len());
                assert!(packet.source != OWN4 && packet.source != OWN6 && !packet.source.is_multicast());
                self.ip.refuse(&frame, &packet, self.now, &mut self.counters);
            }
            Received::Reassembled(packet, frame) => check_packet(&packet, frame.len()),
            Received::Error(error) => assert!(self.ip.is_local(error.local.address)),
            Received::Consumed => {}
        }
    }

    fn send(&mut self, choice: u8, len: u8) {
        let Ok((path, _)) = self.ip.route(None, destination(choice), self.now) else { return };
        let packet = Outgoing {
            path,
            protocol: protocol::UDP,
            ecn: choice,
            flow: 0,
            hop_limit: 9,
            header: Header { bytes: [1; 64], len: len % 64 },
            payload: vec![Slice::new(vec![2; usize::from(len) * 8].into())],
            may_fragment: choice & 1 == 0,
            deferred: Deferred {
                is_partial: choice & 2 != 0,
                segment: u16::from(len) * u16::from(choice & 5 == 5),
            },
        };
        self.ip.send(packet, self.now, &mut self.counters);
        while let Some((packet, frame)) = self.ip.next_loopback(self.now, &mut self.counters) {
            check_packet(&packet, frame.len());
        }
    }

    fn header(&mut self, choice: u8) {
        let Ok((path, _)) = self.ip.route(None, destination(choice), self.now) else { return };
        let mut head = [0; HEAD];
        if let Ok((_, len)) = self.ip.header(path, 20, protocol::TCP, (choice, 0), &mut head, self.now) {
            check_frame(&[&head[..len], &[0; 20]].concat());
            self.ip.confirm(path, self.now);
        }
    }

    fn wait(&mut self, choice: u8) {
        self.now = self.now.after_micros(1 << (choice % 32));
        self.ip.advance(self.now, &mut self.counters);
        self.transmit();
    }

    fn transmit(&mut self) {
        let mut link = Recorder::default();
        self.ip.transmit(&mut link, &mut self.counters);
        link.frames.iter().for_each(|frame| check_frame(frame));
    }

    fn check(&self) {
        let Ip { neighbours, paths, outbox, loopback, .. } = &self.ip;
        assert!(neighbours.len() <= 6 && paths.len() <= 4 && outbox.len() <= 8 && loopback.len() <= 8);
    }
}

fn check_packet(packet: &Packet, len: usize) {
    assert!(packet.transport <= packet.end && packet.end <= len);
    assert_eq!(packet.source.is_v4(), packet.destination.is_v4());
}

fn check_frame(frame: &[u8]) {
    let view = Ethernet::new(frame).expect("a frame has a header");
    let packet = view.payload();
    assert!(view.source() == OWN && !view.destination().is_zero() && packet.len() <= 1500);
    match view.ethertype() {
        EtherType::ARP => assert!(Arp::new(packet).is_some_and(|arp| arp.sender_mac() == OWN)),
        EtherType::IPV4 => {
            let header = Ipv4::new(packet).expect("the header is complete");
            assert!(header.is_checksum_valid() && usize::from(header.total_len()) == packet.len());
            if header.protocol() == protocol::ICMP && !header.is_fragment() {
                let message = &packet[header.header_len()..];
                assert!(message[0] == 0 || Sum::of(message).finish() == [0, 0], "an error is summed");
            }
        }
        EtherType::IPV6 => {
            let header = Ipv6::new(packet).expect("the header is complete");
            assert_eq!(usize::from(header.payload_len()) + wire::IPV6_HEADER, packet.len());
        }
        other => panic!("{other:?}"),
    }
}
