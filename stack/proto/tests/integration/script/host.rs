//! The stack under test of a script, its only link, and the routers that answer its address resolution.

use crate::port::{Bytes, Port, Received};
use crate::segment::{ETHERNET, Packet, ROUTER_MAC, Segment, icmp_frame};
use stack::ip::{InterfaceConfig, InterfaceId, Route};
use stack::{Address, Cidr, Config, Event, Stack, Time};
use std::collections::VecDeque;
use std::net::IpAddr;
use wire::MacAddress;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Time of the stack's creation, and of the start of the script: address configuration has ended by then.
const ORIGIN: Time = Time(1_000_000_000_000);
const START: Time = Time(1_060_000_000_000);

/// A stack with a link, and what it has sent and reported.
pub(super) struct Host {
    pub(super) stack: Stack<Bytes>,
    port: Port,
    interface: InterfaceId,
    pub(super) local: Address,
    pub(super) remote: Address,
    pub(super) now: Time,
    /// TCP segments sent, with their time in microseconds since the start of the script.
    pub(super) sent: VecDeque<(u64, Segment)>,
    pub(super) events: VecDeque<Event<Bytes>>,
}

fn address(text: &str) -> Address {
    text.parse::<IpAddr>().expect("an address").into()
}

impl Host {
    pub(super) fn new(config: Config, is_v6: bool, mtu: u16) -> Self {
        let mut stack = Stack::new(config, ORIGIN);
        let mac = MacAddress::new(MAC);
        let interface = stack.add_interface(InterfaceConfig { mac, mtu, vlan: None });
        let [local, router, remote] = if is_v6 {
            ["fd3d:a0b:17d6::1", "fd3d:a0b:17d6::fe", "fd3d:fa7b:d17d::1"].map(address)
        } else {
            ["192.168.0.1", "192.168.0.254", "192.0.2.1"].map(address)
        };
        let network = Cidr::new(local, if is_v6 { 64 } else { 24 }).expect("a network");
        stack.add_address(interface, network, ORIGIN);
        let any = if is_v6 { address("::") } else { address("0.0.0.0") };
        let everything = Cidr::new(any, 0).expect("a network");
        stack.add_route(Route { network: everything, interface, via: Some(router) });
        let (sent, events) = (VecDeque::new(), VecDeque::new());
        let port = Port::new(mtu.into());
        let mut host = Self { stack, port, interface, local, remote, now: ORIGIN, sent, events };
        host.advance(START, false);
        host
    }

    /// Microseconds since the start of the script.
    pub(super) fn micros(&self) -> u64 {
        self.now.micros_since(START)
    }

    /// Runs the stack until a time in microseconds since the start, or until it sends a segment.
    pub(super) fn advance_to(&mut self, micros: u64, until_sent: bool) {
        self.advance(START.after_micros(micros), until_sent);
    }

    fn advance(&mut self, target: Time, until_sent: bool) {
        loop {
            self.pump();
            if until_sent && !self.sent.is_empty() {
                return;
            }
            // An early deadline must not stop time.
            let next = self.stack.deadline().max(self.now.after_micros(1));
            if next > target {
                break;
            }
            self.now = next;
            self.stack.advance(next);
        }
        if target > self.now {
            self.now = target;
            self.stack.advance(target);
            self.pump();
        }
    }

    /// Sends what is due now and collects events, until nothing more happens at this time.
    pub(super) fn pump(&mut self) {
        loop {
            self.stack.transmit(&mut self.port, self.now);
            while let Some(event) = self.stack.poll_event() {
                self.events.push_back(event);
            }
            let frames = std::mem::take(&mut self.port.sent);
            if frames.is_empty() {
                return;
            }
            for frame in frames {
                self.handle_sent(&frame);
            }
        }
    }

    fn handle_sent(&mut self, frame: &[u8]) {
        if let Some(segment) = Segment::decode(frame) {
            let segment = segment.expect("a valid segment");
            self.sent.push_back((self.micros(), segment));
        } else if let Some(reply) = resolve(frame) {
            self.receive(&reply);
        }
    }

    pub(super) fn receive(&mut self, frame: &[u8]) {
        self.stack.receive(self.interface, &mut Received::new(frame), self.now);
    }

    pub(super) fn inject(&mut self, segment: &Segment) {
        self.receive(&segment.encode(MAC, ROUTER_MAC));
        self.pump();
    }

    /// The frame of a segment as the stack sent it.
    pub(super) fn frame(segment: &Segment) -> Vec<u8> {
        segment.encode(ROUTER_MAC, MAC)
    }
}

/// The answer of a router to a request for its Ethernet address (RFC 826, RFC 4861).
fn resolve(frame: &[u8]) -> Option<Vec<u8>> {
    if frame.get(12..14)? == [0x08, 0x06] {
        return resolve_v4(frame);
    }
    let packet = Packet::decode(frame)?;
    let target =
        packet.transport.get(8..24).filter(|_| packet.protocol == 58 && packet.transport[0] == 135)?;
    if packet.source.is_unspecified() {
        return None; // Duplicate address detection: no host has the address.
    }
    let target = Address::v6(target.try_into().expect("16 bytes"));
    // Advertisement: router, solicited, override; with the target's link-layer address.
    let message = [&[136, 0, 0, 0, 0xe0, 0, 0, 0], target.wire(), &[2, 1], &ROUTER_MAC].concat();
    let mut reply = icmp_frame(MAC, ROUTER_MAC, (target, packet.source), &message);
    reply[ETHERNET + 7] = 255;
    Some(reply)
}

fn resolve_v4(frame: &[u8]) -> Option<Vec<u8>> {
    let request = wire::Arp::new(&frame[ETHERNET..])?;
    let is_probe = request.sender_ip().is_unspecified() || frame[28..32] == frame[38..42];
    if request.operation() != wire::Arp::REQUEST || is_probe {
        return None;
    }
    let mut reply = [&MAC[..], &ROUTER_MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &ROUTER_MAC].concat();
    reply.extend(&frame[38..42]);
    reply.extend(MAC);
    reply.extend(&frame[28..32]);
    Some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_answer_requests_and_not_probes() {
        let header = [&[0xff; 6][..], &MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &MAC].concat();
        let request = |sender: [u8; 4]| [&header, &sender[..], &[0; 6], &[192, 168, 0, 254]].concat();
        assert_eq!(resolve(&request([0; 4])), None);
        let reply = resolve(&request([192, 168, 0, 1])).unwrap();
        let view = wire::Arp::new(&reply[ETHERNET..]).unwrap();
        assert_eq!((view.operation(), view.sender_mac().octets()), (wire::Arp::REPLY, ROUTER_MAC));
        let (local, all) = (address("fd3d:a0b:17d6::1"), address("ff02::1:ff00:fe"));
        let message = [&[135, 0, 0, 0, 0, 0, 0, 0], address("fe80::7").wire()].concat();
        let reply = resolve(&icmp_frame([2; 6], MAC, (local, all), &message)).unwrap();
        let packet = Packet::decode(&reply).unwrap().check().unwrap();
        assert_eq!((packet.source, packet.transport[0], packet.network[7]), (address("fe80::7"), 136, 255));
        assert_eq!(resolve(&icmp_frame([2; 6], MAC, (address("::"), all), &message)), None);
    }
}
