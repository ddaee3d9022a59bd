//! Two hosts on one link, in memory.

use super::*;
use crate::{Frame, Limits, Recorder, Slice};
use core::ops::Range;
use std::net::IpAddr;
use std::prelude::v1::*;
use std::sync::Arc;
use std::vec;
use wire::checksum::{Sum, protocol};
use wire::{EtherType, Ethernet, Icmp, IcmpKind, Ipv4, Ipv6, Version, icmp_header};

mod configure;
mod errors;
mod fragments;
mod frames;
mod groups;
mod hostile;
mod neighbours;

type Bytes = Arc<[u8]>;

/// Start of the tests' clock.
const START: Time = Time(1 << 40);

fn address(text: &str) -> Address {
    text.parse::<IpAddr>().unwrap().into()
}

/// A received frame whose head is as short as it may be.
struct TestFrame(Vec<u8>);

impl Frame for TestFrame {
    type Payload = Bytes;

    fn head(&self) -> &[u8] {
        &self.0[..self.0.len().min(128)]
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_checksum_valid(&self) -> bool {
        false
    }

    fn sum(&self, range: Range<usize>) -> u64 {
        Sum::of(&self.0[range]).total()
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) {
        to.copy_from_slice(&self.0[at..at + to.len()]);
    }

    fn retain(&mut self, range: Range<usize>) -> Option<Slice<Bytes>> {
        Some(Slice::of(self.0.as_slice().into(), range))
    }
}

struct Host {
    ip: Ip<Bytes>,
    counters: Counters,
    now: Time,
    /// Packets received for transports, with their bytes after the IP header.
    packets: Vec<(Packet, Vec<u8>)>,
    errors: Vec<TransportError>,
}

impl Host {
    fn with(limits: Limits, number: u8, addresses: &[&str], vlan: Option<u16>) -> Self {
        let config = Config { limits, ..Config::new([number; 16]) };
        // The reports of the addresses' groups are sent before the tests begin.
        let earlier = Time(START.0 - 10_000_000_000);
        let mut ip = Ip::new(&config, earlier);
        let mac = MacAddress::new([2, 0, 0, 0, 0, number]);
        let vlan = vlan.and_then(VlanId::new);
        let interface = ip.add_interface(InterfaceConfig { mac, mtu: 1500, vlan });
        for own in addresses {
            ip.add_address(interface, own.parse().unwrap(), earlier);
        }
        let (packets, errors) = (Vec::new(), Vec::new());
        let mut host = Self { ip, counters: Counters::default(), now: earlier, packets, errors };
        (0..10).for_each(|_| drop(host.wait(1000)));
        host
    }

    fn new(number: u8) -> Self {
        let own = [format!("10.0.0.{number}/24"), format!("fd00::{number}/64"), format!("fe80::{number}/64")];
        Self::with(Limits::default(), number, &own.each_ref().map(String::as_str), None)
    }

    fn receive(&mut self, frame: &[u8]) {
        let mut frame = TestFrame(frame.to_vec());
        match self.ip.receive(InterfaceId(0), &mut frame, self.now, &mut self.counters) {
            Received::Packet(packet) => {
                self.packets.push((packet, frame.0[packet.transport..packet.end].to_vec()));
            }
            Received::Reassembled(packet, frame) => {
                self.packets.push((packet, frame.bytes[packet.transport..packet.end].to_vec()));
            }
            Received::Error(error) => self.errors.push(error),
            Received::Consumed => {}
        }
    }

    fn output(&mut self) -> Vec<Vec<u8>> {
        let mut link = Recorder::default();
        self.ip.transmit(&mut link, &mut self.counters);
        link.frames
    }

    fn wait(&mut self, millis: u64) -> Vec<Vec<u8>> {
        self.now = self.now.after_micros(millis * 1000);
        self.ip.advance(self.now, &mut self.counters);
        self.output()
    }

    fn route(&mut self, destination: &str) -> PathId {
        self.ip.route(None, address(destination), self.now).unwrap().0
    }

    fn send(&mut self, path: PathId, protocol: u8, header: &[u8], payload: &[u8], may_fragment: bool) {
        let mut bytes = [0; 64];
        bytes[..header.len()].copy_from_slice(header);
        let header = Header { bytes, len: header.len() as u8 };
        let payload = vec![Slice::new(payload.into())];
        let packet = Outgoing {
            path,
            protocol,
            ecn: 0,
            flow: 0,
            hop_limit: 64,
            header,
            payload,
            may_fragment,
            deferred: Deferred::default(),
        };
        self.ip.send(packet, self.now, &mut self.counters);
    }

    /// Sends an echo request.
    fn ping(&mut self, destination: &str, payload: &[u8]) {
        let may_fragment = payload.len() > 1400;
        let destination = address(destination);
        let (path, source) = self.ip.route(None, destination, self.now).unwrap();
        let (kind, number) = if destination.is_v4() { (8, protocol::ICMP) } else { (128, protocol::ICMPV6) };
        let mut header = icmp_header(kind, 0, [0, 1, 0, 2]);
        let len = header.len() + payload.len();
        let mut sum =
            if destination.is_v4() { Sum::default() } else { resolve::pseudo6(source, destination, len) };
        sum.add(&header);
        sum.add(payload);
        header[2..4].copy_from_slice(&sum.finish());
        self.send(path, number, &header, payload, may_fragment);
    }

    /// Writes a frame as the transports do.
    fn fast(&mut self, path: PathId, protocol: u8, payload: &[u8]) -> Result<Vec<u8>, NotReady> {
        let mut head = [0; HEAD];
        let (_, len) = self.ip.header(path, payload.len(), protocol, (1, 0), &mut head, self.now)?;
        Ok([&head[..len], payload].concat())
    }
}

/// Passes frames between the hosts until none is left; returns all of them.
fn exchange(a: &mut Host, b: &mut Host) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let (from_a, from_b) = (a.output(), b.output());
        if from_a.is_empty() && from_b.is_empty() {
            return all;
        }
        for frame in &from_a {
            b.receive(frame);
        }
        for frame in &from_b {
            a.receive(frame);
        }
        all.extend(from_a);
        all.extend(from_b);
    }
}

fn ethertypes(frames: &[Vec<u8>]) -> Vec<EtherType> {
    frames.iter().map(|frame| Ethernet::new(frame).unwrap().inner_ethertype()).collect()
}

/// ICMP message of a frame with its IP version.
fn icmp_of(frame: &[u8]) -> Option<(Version, Vec<u8>)> {
    let layers = wire::Layers::of(frame)?;
    let message = frame[layers.transport..].to_vec();
    matches!(layers.protocol, protocol::ICMP | protocol::ICMPV6).then_some((layers.version, message))
}

#[test]
fn ping_is_answered_after_address_resolution() {
    for (vlan, destination) in
        [(None, "10.0.0.2"), (None, "fd00::2"), (None, "fe80::2"), (Some(7), "10.0.0.2")]
    {
        let [mut a, mut b] = [1, 2].map(|number| {
            let own =
                [format!("10.0.0.{number}/24"), format!("fd00::{number}/64"), format!("fe80::{number}/64")];
            Host::with(Limits::default(), number, &own.each_ref().map(String::as_str), vlan)
        });
        let payload: Vec<u8> = (0..301).map(|i| i as u8).collect();
        a.ping(destination, &payload);
        let frames = exchange(&mut a, &mut b);
        assert_eq!(frames.len(), 4, "request and reply of both protocols: {frames:?}");
        let (version, reply) = icmp_of(&frames[3]).unwrap();
        assert_eq!(Icmp::new(version, &reply).unwrap().kind(), IcmpKind::EchoReply);
        assert_eq!(reply[8..], payload);
        assert_eq!((a.counters.icmp_errors, b.counters.icmp_out), (0, 1));
        assert_eq!(Ethernet::new(&frames[3]).unwrap().tag().map(wire::Tag::vlan), vlan);
        a.ping(destination, &[]);
        assert_eq!(exchange(&mut a, &mut b).len(), 2, "the address is known");
    }
}

#[test]
fn transport_packets_arrive_as_they_were_sent() {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    for (destination, source) in [("10.0.0.2", "10.0.0.1"), ("fd00::2", "fd00::1")] {
        let path = a.route(destination);
        assert_eq!(a.ip.path(path), Some((InterfaceId(0), 1500)));
        assert_eq!(a.fast(path, 6, b"segment"), Err(NotReady::Resolving));
        a.send(path, 6, b"seg", b"ment", false);
        exchange(&mut a, &mut b);
        let frame = a.fast(path, 6, b"segment").unwrap();
        b.receive(&[&frame[..], &[0; 9]].concat());
        for _ in 0..2 {
            let (packet, bytes) = b.packets.remove(0);
            assert_eq!((packet.source, packet.destination), (address(source), address(destination)));
            assert_eq!((packet.protocol, &bytes[..], packet.is_group), (6, &b"segment"[..], false));
        }
        assert_eq!(b.counters.ip_header_errors, 0);
    }
}

#[test]
fn headers_follow_the_path_and_the_packet() {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    a.ping("10.0.0.2", &[]);
    a.ping("fd00::2", &[]);
    exchange(&mut a, &mut b);
    let path = a.route("10.0.0.2");
    let frames = [100, 3000].map(|len| a.fast(path, 6, &vec![1; len]).unwrap());
    let views = frames.each_ref().map(|frame| Ipv4::new(&frame[14..]).unwrap());
    assert_eq!(views.map(|view| view.total_len()), [120, 3020]);
    assert!(views.iter().all(|view| view.is_checksum_valid() && view.dont_fragment() && view.ecn() == 1));
    assert_eq!(views[0].identification().wrapping_add(1), views[1].identification());
    let path = a.route("fd00::2");
    let frame = a.fast(path, 6, &[1; 3000]).unwrap();
    let view = Ipv6::new(&frame[14..]).unwrap();
    assert_eq!((view.payload_len(), view.ecn(), view.next_header(), view.hop_limit()), (3000, 1, 6, 64));
    let huge = a.ip.header(path, 70_000, 6, (0, 0), &mut [0; HEAD], START);
    assert!(huge.is_ok(), "segmentation offload");
}

#[test]
fn flow_labels_are_in_headers_of_version_6() {
    let mut a = Host::new(1);
    let mac = MacAddress::new([2; 6]);
    assert!(a.ip.add_neighbour(InterfaceId(0), address("fd00::2"), mac, a.now));
    let (path, mut head) = (a.route("fd00::2"), [0; HEAD]);
    let (_, len) = a.ip.header(path, 20, 6, (1, 0xc_def0), &mut head, a.now).unwrap();
    assert_eq!(head[len - 40..len - 36], [0x60, 0x1c, 0xde, 0xf0]);
}

#[test]
fn changed_routes_and_addresses_end_paths() {
    let mut a = Host::new(1);
    let path = a.route("10.0.0.2");
    assert_eq!(a.ip.route(Some(address("10.0.0.9")), address("10.0.0.2"), START), Err(NoRoute));
    a.ip.add_address(InterfaceId(0), "10.0.0.9/24".parse().unwrap(), START);
    assert_eq!((a.ip.path(path), a.fast(path, 6, &[])), (None, Err(NotReady::Removed)));
    let (path, source) = a.ip.route(Some(address("10.0.0.9")), address("10.0.0.2"), START).unwrap();
    assert_eq!((source, a.ip.is_local(source)), (address("10.0.0.9"), true));
    a.ip.remove_address(InterfaceId(0), source, START);
    assert!(a.ip.path(path).is_none() && !a.ip.is_local(source));
    assert!(a.ip.route(None, address("10.0.0.2"), START).is_ok(), "another address is in the network");
    a.ip.remove_address(InterfaceId(0), address("10.0.0.1"), START);
    assert_eq!(a.ip.route(None, address("10.0.0.2"), START), Err(NoRoute));
}

#[test]
fn packets_to_own_addresses_stay_in_the_host() {
    let mut a = Host::new(1);
    for destination in ["10.0.0.1", "127.0.0.1", "fd00::1", "::1"] {
        let path = a.route(destination);
        assert_eq!(a.fast(path, 6, &[]), Err(NotReady::Loopback));
        a.send(path, 6, b"head", &[7; 5000], false);
        a.ping(destination, b"answered within the layer");
        assert!(a.ip.has_output());
        let (packet, frame) = a.ip.next_loopback(START, &mut a.counters).unwrap();
        assert_eq!((packet.source, packet.destination), (address(destination), address(destination)));
        assert_eq!(frame.bytes[packet.transport..packet.end][..5], *b"head\x07");
        assert!(a.ip.next_loopback(START, &mut a.counters).is_none() && !a.ip.has_output());
    }
    assert_eq!((a.output().len(), a.counters.icmp_in), (0, 8));
    let path = a.route("10.0.0.1");
    (0..300).for_each(|_| a.send(path, 6, &[], &[], false));
    assert_eq!(a.ip.loopback.len(), 256);
}

#[test]
fn whole_packets_leave_without_address_or_route() {
    let mut a = Host::with(Limits::default(), 1, &[], None);
    let mut b = Host::new(2);
    let discover = frames::ip("10.0.0.9", "255.255.255.255", 17, b"datagram");
    a.ip.send_whole(InterfaceId(0), Address::v4([255; 4]), &discover, START, &mut a.counters);
    let all = frames::ip("fd00::9", "ff02::1", 17, b"datagram");
    a.ip.send_whole(InterfaceId(0), address("ff02::1"), &all, START, &mut a.counters);
    a.ip.send_whole(InterfaceId(7), address("ff02::1"), &all, START, &mut a.counters);
    exchange(&mut a, &mut b);
    assert_eq!(b.packets.len(), 2);
    assert!(b.packets.iter().all(|(packet, bytes)| packet.is_group && bytes == b"datagram"));
    a.ip.send_whole(InterfaceId(0), address("10.0.0.2"), &discover, START, &mut a.counters);
    assert!(a.output().is_empty(), "no address to resolve a neighbour from");
}

#[test]
fn the_mtu_of_an_interface_changes_that_of_its_paths() {
    let mut a = Host::new(1);
    let path = a.route("fd00::2");
    a.ip.set_mtu(InterfaceId(0), 1400);
    assert_eq!(a.ip.path(path), None);
    let path = a.route("fd00::2");
    assert_eq!(a.ip.path(path), Some((InterfaceId(0), 1400)));
    a.ip.add_address(InterfaceId(0), "fd00::3/64".parse().unwrap(), START);
    assert_eq!(a.ip.route(None, address("fd00::2"), START).unwrap().1, address("fd00::3"));
    a.ip.set_preferred(InterfaceId(0), address("fd00::3"), false);
    assert_eq!(a.ip.route(None, address("fd00::2"), START).unwrap().1, address("fd00::1"));
}

#[test]
fn frames_wait_for_room_on_the_link_within_the_limit() {
    let mut a = Host::new(1);
    let path = a.route("255.255.255.255");
    (0..300).for_each(|_| a.send(path, 17, &[], b"all", false));
    assert_eq!((a.ip.outbox.len(), a.counters.outbox_full), (256, 44));
    let mut full = Recorder::default();
    full.is_full = true;
    a.ip.transmit(&mut full, &mut a.counters);
    assert!(full.frames.is_empty() && a.ip.has_output());
    let frames = a.output();
    assert_eq!((frames.len(), a.ip.has_output()), (256, false));
    let mut b = Host::new(2);
    b.receive(&frames[0]);
    assert!(b.packets[0].0.is_group);
}
