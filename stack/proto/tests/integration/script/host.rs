//! The stack under test of a script, its only link, and the routers that answer its address resolution.

use crate::link::{Bytes, Port, Received};
use crate::packet::ROUTER_MAC;
use crate::router::resolve;
use crate::segment::Segment;
use stack::ip::{InterfaceConfig, InterfaceId, Route};
use stack::{Address, Cidr, Config, Event, Stack, Time};
use std::collections::VecDeque;
use std::net::IpAddr;
use wire::MacAddress;

pub(crate) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Time of the stack's creation, and of the start of the script: address configuration has ended by then.
const ORIGIN: Time = Time(1_000_000_000_000);
const START: Time = Time(1_060_000_000_000);

/// A stack with a link, and what it has sent and reported.
pub(crate) struct Host {
    pub(crate) stack: Stack<Bytes>,
    port: Port,
    interface: InterfaceId,
    pub(crate) local: Address,
    pub(crate) remote: Address,
    pub(crate) now: Time,
    /// TCP segments sent, with their time in microseconds since the start of the script.
    pub(crate) sent: VecDeque<(u64, Segment)>,
    pub(crate) events: VecDeque<Event<Bytes>>,
}

fn address(text: &str) -> Address {
    text.parse::<IpAddr>().expect("an address").into()
}

impl Host {
    pub(crate) fn new(config: Config, is_v6: bool, mtu: u16) -> Self {
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
    pub(crate) fn micros(&self) -> u64 {
        self.now.micros_since(START)
    }

    /// Runs the stack until a time in microseconds since the start, or until it sends a segment.
    pub(crate) fn advance_to(&mut self, micros: u64, until_sent: bool) {
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
    pub(crate) fn pump(&mut self) {
        for round in 0.. {
            assert!(round < 1000, "the stack does not rest");
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
        } else if let Some(reply) = resolve(frame, MAC) {
            self.receive(&reply);
        }
    }

    /// Sets the number of frames that the link still takes.
    pub(crate) fn set_room(&mut self, frames: usize) {
        self.port.room = frames;
    }

    pub(crate) fn receive(&mut self, frame: &[u8]) {
        self.receive_frame(&mut Received::new(frame));
    }

    pub(crate) fn receive_frame(&mut self, frame: &mut Received) {
        self.stack.receive(self.interface, frame, self.now);
    }

    pub(crate) fn inject(&mut self, segment: &Segment) {
        self.receive(&segment.encode(MAC, ROUTER_MAC));
        self.pump();
    }

    /// The frame of a segment as the stack sent it.
    pub(crate) fn frame(segment: &Segment) -> Vec<u8> {
        segment.encode(ROUTER_MAC, MAC)
    }
}
